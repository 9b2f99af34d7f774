package kernels

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// rung is an instruction set of this architecture and whether this CPU has it. Each architecture
// lists its rungs in ascending order, with a constant for the index of each one above "generic".
type rung struct {
	name string
	has  bool
}

// generic is the index of the lowest rung: the Go definitions.
const generic = 0

// levels are the indices of the rungs that the CPU has and the environment leaves in place.
var levels, levelsErr = chooseLevels(rungs, os.Getenv("FORGE_KERNELS"), os.Getenv("FORGE_DISABLE"))

func chooseLevels(rungs []rung, highest, disabled string) ([]int, error) {
	out := strings.Split(disabled, ",")
	var chosen []int
	for i, r := range rungs {
		if i == generic || r.has && !slices.Contains(out, r.name) {
			chosen = append(chosen, i)
		}
	}
	if highest == "" {
		return chosen, nil
	}
	for n, i := range chosen {
		if rungs[i].name == highest {
			return chosen[:n+1], nil
		}
	}
	return chosen, fmt.Errorf("FORGE_KERNELS=%s: no such kernels here, there are %s", highest, names(rungs, chosen))
}

func names(rungs []rung, chosen []int) string {
	var list []string
	for _, i := range chosen {
		list = append(list, rungs[i].name)
	}
	return strings.Join(list, ", ")
}

// Check returns an error if the environment asks for kernels that are not there. The highest ones
// that are there are in use then.
func Check() error { return levelsErr }

// Levels returns the names of the rungs in use, lowest ("generic") first.
func Levels() []string { return strings.Split(names(rungs, levels), ", ") }

// enabled says for each rung whether a kernel may use its variant for it. Kernels look here, highest rung
// first, rather than hold a function value: arguments of a direct call can stay on the stack.
var enabled = allEnabled()

func allEnabled() (e [maxRungs]bool) {
	for _, i := range levels {
		e[i] = true
	}
	return e
}

// maxRungs bounds the number of rungs of an architecture.
const maxRungs = 8

// Select makes every kernel use its highest variant that is not above the named rung, and returns
// the function that undoes this. It is meant for tests and benchmarks: no kernel may be running.
func Select(name string) (restore func(), err error) {
	for n, i := range levels {
		if rungs[i].name != name {
			continue
		}
		before := enabled
		enabled = allEnabled()
		for _, above := range levels[n+1:] {
			enabled[above] = false
		}
		return func() { enabled = before }, nil
	}
	return nil, fmt.Errorf("no %s kernels here, there are %s", name, names(rungs, levels))
}
