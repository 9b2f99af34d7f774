// Command mca estimates how many cycles the dot kernels for arm64 take for 256 weights, with llvm-mca for Cortex-A55 and Cortex-A76,
// and prints the table of docs/kernels.md. With the path of ggml, the library of the reference engine, it also compiles the
// kernels of that with the same compiler, for comparison.
//
//	cd kernels/_gen && go run ./mca clang-19 llvm-objdump-19 llvm-mca-19 .. [GGML]
//
// What is counted is the loop over the blocks of a row; memory is taken to be in the first-level cache.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// kernel is one type of weights. A turn of the outer loop has inner turns of the inner one, if there is one.
type kernel struct {
	name           string
	weights, inner int // of a turn of the loop over blocks, of ours
	theirs         [2]turn
}

// turn is the same of the reference, without and with dot products.
type turn struct{ weights, inner int }

const rows = 4 // that our kernels take at once

var kernels = []kernel{
	{"q4_0", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"q4_1", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"q5_0", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"q5_1", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"q8_0", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"iq4_nl", rows * 32, 0, [2]turn{{64, 0}, {64, 0}}},
	{"q1_0", rows * 128, 4, [2]turn{{128, 0}, {128, 0}}},
	{"q2_0", rows * 64, 2, [2]turn{{64, 0}, {64, 0}}},
	{"q2_K", rows * 256, rows, [2]turn{{256, 2}, {256, 0}}},
	{"q3_K", rows * 256, rows, [2]turn{{256, 2}, {256, 0}}},
	{"q4_K", rows * 256, rows, [2]turn{{256, 4}, {256, 0}}},
	{"q5_K", rows * 256, rows, [2]turn{{256, 4}, {256, 0}}},
	{"q6_K", rows * 256, rows, [2]turn{{256, 2}, {256, 0}}},
	{"iq4_xs", rows * 256, rows, [2]turn{{256, 4}, {256, 0}}},
	{"tq1_0", rows * 256, rows, [2]turn{{256, 0}, {256, 0}}},
	{"tq2_0", rows * 256, rows, [2]turn{{256, 2}, {256, 0}}},
	{"f32", 2 * 16, 0, [2]turn{}},
	{"f16", 2 * 16, 0, [2]turn{}},
	{"bf16", 2 * 16, 0, [2]turn{}},
}

var (
	sets  = [2]struct{ suffix, march string }{{"NEON", "armv8-a"}, {"DOTPROD", "armv8.2-a+dotprod"}}
	cores = [2]string{"cortex-a55", "cortex-a76"}
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 || len(os.Args) > 6 {
		log.Fatal("usage: mca CLANG OBJDUMP LLVM_MCA KERNELS_FOLDER [GGML_FOLDER]")
	}
	t := tools{clang: os.Args[1], objdump: os.Args[2], mca: os.Args[3]}
	ours, err := readOurs(os.Args[4])
	check(err)
	var theirs [2]map[string][]instruction
	if len(os.Args) == 6 {
		for i, s := range sets {
			theirs[i], err = t.readTheirs(os.Args[5], s.march)
			check(err)
		}
	}
	fmt.Println("| weights | A55 NEON | A55 dotprod | A76 NEON | A76 dotprod |\n|---|---|---|---|---|")
	for _, k := range kernels {
		fmt.Printf("| %s |", k.name)
		for _, core := range cores {
			for i, s := range sets {
				name := "dot" + strings.NewReplacer("_K", "K", "IQ4_", "IQ4").Replace(strings.ToUpper(k.name)) + s.suffix
				code, ok := ours[name]
				if !ok {
					fmt.Print(" |")
					continue
				}
				cycles, err := t.cycles(code, core, turn{k.weights, k.inner})
				check(err)
				fmt.Printf(" %.0f", cycles)
				for f, code := range theirs[i] {
					if strings.HasPrefix(f, "ggml_vec_dot_"+k.name+"_q8") {
						cycles, err := t.cycles(code, core, k.theirs[i])
						check(err)
						fmt.Printf(" (%.0f)", cycles)
					}
				}
				fmt.Print(" |")
			}
		}
		fmt.Println()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type tools struct{ clang, objdump, mca string }

type instruction struct {
	offset int64
	text   string
}

// readOurs takes the instructions from the comments of the assembly.
func readOurs(folder string) (map[string][]instruction, error) {
	files, err := filepath.Glob(filepath.Join(folder, "dot_*_arm64.s"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no assembly in %s: %v", folder, err)
	}
	functions := map[string][]instruction{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := ""
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if rest, ok := strings.CutPrefix(line, "TEXT ·"); ok {
				name, _, _ = strings.Cut(rest, "(")
			} else if code, text, ok := strings.Cut(line, " // "); ok && strings.HasPrefix(code, "WORD") {
				functions[name] = append(functions[name], instruction{int64(4 * len(functions[name])), text})
			}
		}
	}
	return functions, nil
}

var (
	symbol = regexp.MustCompile(`^[0-9a-f]+ <(.*)>:$`)
	line   = regexp.MustCompile(`^ *([0-9a-f]+): +(.*)$`)
)

// readTheirs compiles the kernels of the reference.
func (t tools) readTheirs(ggml, march string) (map[string][]instruction, error) {
	temp, err := os.MkdirTemp("", "mca")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	// The headers of the C library of another architecture do, but for one file.
	if err := os.MkdirAll(filepath.Join(temp, "gnu"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(temp, "gnu/stubs-32.h"), nil, 0o600); err != nil {
		return nil, err
	}
	object := filepath.Join(temp, "quants.o")
	cmd := exec.Command(t.clang, "--target=aarch64-linux-gnu", "-O3", "-DNDEBUG", "-w", "-march="+march, "-I"+temp,
		"-I"+filepath.Join(ggml, "include"), "-I"+filepath.Join(ggml, "src"), "-I"+filepath.Join(ggml, "src/ggml-cpu"),
		"-I/usr/include/x86_64-linux-gnu", "-I/usr/include", "-c", filepath.Join(ggml, "src/ggml-cpu/arch/arm/quants.c"), "-o", object)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v\n%s", err, out)
	}
	out, err := exec.Command(t.objdump, "-d", "--no-show-raw-insn", object).Output()
	if err != nil {
		return nil, err
	}
	functions, name := map[string][]instruction{}, ""
	for l := range strings.Lines(string(out)) {
		l = strings.ReplaceAll(strings.TrimRight(l, "\n"), "\t", " ")
		if m := symbol.FindStringSubmatch(l); m != nil {
			name = m[1]
		} else if m := line.FindStringSubmatch(l); m != nil {
			offset, err := strconv.ParseInt(m[1], 16, 64)
			if err != nil {
				return nil, err
			}
			text, _, _ := strings.Cut(m[2], " //")
			functions[name] = append(functions[name], instruction{offset, strings.Join(strings.Fields(text), " ")})
		}
	}
	return functions, nil
}

var branch = regexp.MustCompile(`^(?:b|b\.\w+|cbn?z|tbn?z)\b.* ?0x([0-9a-f]+) <`)

// cycles returns the cycles for 256 weights of a function, whose first loop that is not inside another is the one over blocks, or,
// if it has an inner loop, the one around that.
func (t tools) cycles(code []instruction, core string, turn turn) (float64, error) {
	type loop struct{ from, to int64 }
	var loops []loop
	for _, in := range code {
		if m := branch.FindStringSubmatch(in.text); m != nil {
			if to, err := strconv.ParseInt(m[1], 16, 64); err == nil && to <= in.offset {
				loops = append(loops, loop{to, in.offset})
			}
		}
	}
	if len(loops) == 0 {
		return 0, fmt.Errorf("there is no loop")
	}
	inner := loops[0]
	if turn.inner == 0 {
		c, err := t.simulate(code, core, func(o int64) bool { return o >= inner.from && o <= inner.to })
		return c * 256 / float64(turn.weights), err
	}
	if len(loops) < 2 {
		return 0, fmt.Errorf("there is no outer loop")
	}
	outer := loops[1]
	c, err := t.simulate(code, core, func(o int64) bool { return o >= inner.from && o <= inner.to })
	if err != nil {
		return 0, err
	}
	d, err := t.simulate(code, core, func(o int64) bool { return o >= outer.from && o <= outer.to && (o < inner.from || o > inner.to) })
	return (c*float64(turn.inner) + d) * 256 / float64(turn.weights), err
}

var total = regexp.MustCompile(`Total Cycles: +(\d+)`)

// simulate returns the cycles of a turn of a loop of the chosen instructions.
func (t tools) simulate(code []instruction, core string, chosen func(offset int64) bool) (float64, error) {
	const turns = 200
	var text bytes.Buffer
	for _, in := range code {
		if chosen(in.offset) {
			s, _, _ := strings.Cut(in.text, " <")
			if branch.MatchString(in.text) {
				i := strings.LastIndexByte(s, ' ')
				s = s[:i] + " #8"
			}
			fmt.Fprintln(&text, s)
		}
	}
	cmd := exec.Command(t.mca, "-mtriple=aarch64", "-mcpu="+core, "-mattr=+dotprod", "-iterations="+strconv.Itoa(turns))
	cmd.Stdin, cmd.Stderr = &text, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	m := total.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no cycles in the output of llvm-mca")
	}
	n, err := strconv.Atoi(string(m[1]))
	return float64(n) / turns, err
}
