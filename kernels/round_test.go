package kernels_test

import (
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

func checkRound(t testing.TB, x []float32, size int, scales, mins []float32, top int) {
	t.Helper()
	got, want := make([]uint8, len(x)), make([]uint8, len(x))
	for i := range got {
		got[i], want[i] = 99, 99 // stays where the scale is 0
	}
	kernels.RoundAffine(got, x, size, scales, mins, top)
	definition(t, func() { kernels.RoundAffine(want, x, size, scales, mins, top) })
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%d of %d: x %g, scale %g, minimum %g, top %d: %d, the definition says %d", i, len(x), x[i], scales[i/size], mins[i/size], top, got[i], want[i])
		}
	}
}

func TestRoundAffineKnown(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x := []float32{-5, -1, -0.75, -0.5, 0, 0.25, 0.75, 1, 1.25, 6.5, 7, 100, 0x1p100, -0x1p100, 6.24, 6.26}
		codes := make([]uint8, 32)
		copy(codes[16:], "keeps its codes!")
		kernels.RoundAffine(codes, append(x, x...), 16, []float32{0.5, 0}, []float32{1, 1}, 15)
		// (x + 1)/0.5: halves go to the even neighbour, 2^100 leaves nothing in the low bits.
		if want := "\x00\x00\x00\x01\x02\x02\x04\x04\x04\x0f\x0f\x0f\x00\x00\x0e\x0f" + "keeps its codes!"; string(codes) != want {
			t.Errorf("codes %v, want %v", codes, []byte(want))
		}
	})
}

func TestRoundAffine(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		for range rounds(2000) {
			size := []int{16, 32, 48, 256}[r.IntN(4)]
			count := r.IntN(10)
			scales, mins := r.blocks(1, count), r.blocks(1, count)
			for b := range scales {
				if r.IntN(3) > 0 {
					scales[b], mins[b] = r.Float32(), r.Float32()
				}
			}
			checkRound(t, r.blocks(count, size), size, scales, mins, []int{1, 3, 15, 31, 63, 255}[r.IntN(6)])
		}
	})
}

func TestRoundAffineAllocates(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x, s := newFloats(2).ordinary(256)
		codes := make([]uint8, 256)
		if n := testing.AllocsPerRun(10, func() { kernels.RoundAffine(codes, x, 32, s[:8], s[8:16], 15) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkRoundAffine(b *testing.B) {
	kerneltest.Benchmark(b, func(b *testing.B) {
		x, s := newFloats(3).ordinary(256)
		codes := make([]uint8, 256)
		for b.Loop() {
			kernels.RoundAffine(codes, x, 32, s[:8], s[8:16], 15)
		}
		reportWeights(b, 256)
	})
}
