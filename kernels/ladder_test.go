package kernels

import (
	"slices"
	"strings"
	"testing"
)

func TestChooseLevels(t *testing.T) {
	rungs := []rung{{"generic", true}, {"low", true}, {"mid", false}, {"high", true}}
	for _, c := range []struct{ highest, disabled, want, err string }{
		{"", "", "generic, low, high", ""},
		{"generic", "", "generic", ""},
		{"low", "", "generic, low", ""},
		{"high", "low", "generic, high", ""},
		{"", "low,elsewhere", "generic, high", ""},
		{"", "generic,low,high", "generic", ""},
		{"mid", "", "generic, low, high", "FORGE_KERNELS=mid: no such kernels here, there are generic, low, high"},
		{"low", "low", "generic, high", "FORGE_KERNELS=low: no such kernels here, there are generic, high"},
	} {
		got, err := chooseLevels(rungs, c.highest, c.disabled)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if names(rungs, got) != c.want || text != c.err {
			t.Errorf("highest %q, disabled %q: %s, error %q; want %s, %q", c.highest, c.disabled, names(rungs, got), text, c.want, c.err)
		}
	}
}

func TestSelect(t *testing.T) {
	before := enabled
	for n, name := range Levels() {
		restore, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		var on []int
		for i, e := range enabled {
			if e {
				on = append(on, i)
			}
		}
		if !slices.Equal(on, levels[:n+1]) {
			t.Errorf("%s: rungs %v are enabled, want %v", name, on, levels[:n+1])
		}
		if restore(); enabled != before {
			t.Errorf("%s: not restored", name)
		}
	}
	if _, err := Select("sse9"); err == nil || !strings.Contains(err.Error(), "no sse9 kernels here") {
		t.Errorf("error %v", err)
	}
	if len(rungs) > maxRungs {
		t.Errorf("%d rungs, at most %d", len(rungs), maxRungs)
	}
}
