// Package kerneltest runs tests and benchmarks once for each rung of kernels.
package kerneltest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gguf-forge/kernels"
)

// ForEach runs f as a subtest for every rung of this machine. It fails if the environment asks for a
// rung that is not there (FORGE_KERNELS, FORGE_REQUIRE_KERNELS), so that a test leg meant for an
// instruction set cannot pass without having used it.
func ForEach(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	check(t)
	for _, name := range kernels.Levels() {
		t.Run(name, func(t *testing.T) {
			use(t, name)
			f(t)
		})
	}
}

// Benchmark runs f as a sub-benchmark for every rung of this machine.
func Benchmark(b *testing.B, f func(b *testing.B)) {
	b.Helper()
	check(b)
	for _, name := range kernels.Levels() {
		b.Run(name, func(b *testing.B) {
			use(b, name)
			f(b)
		})
	}
}

// Loop calls f for every rung in turn, for fuzz targets, where there are no subtests.
func Loop(t testing.TB, f func(level string)) {
	t.Helper()
	check(t)
	for _, name := range kernels.Levels() {
		restore, err := kernels.Select(name)
		if err != nil {
			t.Fatal(err)
		}
		f(name)
		restore()
	}
}

func use(t testing.TB, name string) {
	t.Helper()
	restore, err := kernels.Select(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
}

func check(t testing.TB) {
	t.Helper()
	if err := kernels.Check(); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(os.Getenv("FORGE_REQUIRE_KERNELS"), ",") {
		if name != "" && !slices.Contains(kernels.Levels(), name) {
			t.Fatalf("FORGE_REQUIRE_KERNELS: no %s kernels here", name)
		}
	}
}
