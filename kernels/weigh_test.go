package kernels_test

import (
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

func checkWeigh(t testing.TB, w, x []float32, sigma2 float32) {
	t.Helper()
	got, want := make([]float32, len(x)), make([]float32, len(x))
	kernels.Weigh(got, w, x, sigma2)
	definition(t, func() { kernels.Weigh(want, w, x, sigma2) })
	for i := range want {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%d of %d: w %g, x %g, sigma2 %g: %g, the definition says %g", i, len(x), w[i], x[i], sigma2, got[i], want[i])
		}
	}
}

func TestWeigh(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		dst := make([]float32, 1)
		if kernels.Weigh(dst, []float32{2}, []float32{4}, 9); dst[0] != 10 {
			t.Errorf("2·√(9 + 4²) = %g", dst[0])
		}
		for n := 0; n <= 4*16+3; n++ {
			for range rounds(60) {
				sigma2 := r.Float32()
				if r.IntN(4) == 0 {
					sigma2 = r.special()
				}
				checkWeigh(t, r.weights(1, n), r.blocks(1, n), sigma2)
			}
		}
	})
}

func TestWeighAllocates(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x, w := newFloats(2).ordinary(77)
		if n := testing.AllocsPerRun(10, func() { kernels.Weigh(w, w, x, 1) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	kerneltest.Benchmark(b, func(b *testing.B) {
		x, w := newFloats(3).ordinary(256)
		dst := make([]float32, 256)
		for b.Loop() {
			kernels.Weigh(dst, w, x, 1e-4)
		}
		reportWeights(b, 256)
	})
}
