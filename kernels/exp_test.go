package kernels_test

import (
	"encoding/binary"
	"math"
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

func TestExpError(t *testing.T) {
	for x := float32(-105); x < 90; x += 0.00137 {
		got, want := float64(kernels.Exp(x)), math.Exp(float64(x))
		limit := max(want*0x1p-22, 0x1p-149)
		if want > math.MaxFloat32 {
			if !math.IsInf(got, 1) {
				t.Fatalf("e^%g = %g", x, got)
			}
		} else if math.Abs(got-want) > limit {
			t.Fatalf("e^%g = %g, exactly %g", x, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{{0, 1}, {inf, inf}, {-inf, 0}, {1e30, inf}, {-1e30, 0}, {float32(math.NaN()), float32(math.NaN())}} {
		if got := kernels.Exp(c.x); !sameBits(got, c.want) {
			t.Errorf("e^%g = %g", c.x, got)
		}
	}
}

func checkExpSum(t testing.TB, x []float32, scale, top float32) {
	t.Helper()
	got, want := append([]float32(nil), x...), append([]float32(nil), x...)
	sum := kernels.ExpSum(got, scale, top)
	var wantSum float32
	definition(t, func() { wantSum = kernels.ExpSum(want, scale, top) })
	for i := range got {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%d of %d: x %g, scale %g, top %g: %g, the definition says %g", i, len(x), x[i], scale, top, got[i], want[i])
		}
	}
	if !sameBits(sum, wantSum) {
		t.Fatalf("sum of %d: %g, the definition says %g", len(x), sum, wantSum)
	}
}

func TestExpSum(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		for n := range 4*16 + 4 {
			for range rounds(30) {
				checkExpSum(t, r.blocks(1, n), 1, 0)
				x, _ := r.ordinary(n)
				checkExpSum(t, x, 300*r.Float32(), 10*r.Float32())
			}
		}
		x := []float32{0, 1, 2}
		if sum := kernels.ExpSum(x, 2, 4); math.Abs(float64(sum)-(math.Exp(-4)+math.Exp(-2)+1)) > 1e-6 {
			t.Errorf("sum %g", sum)
		}
	})
}

func TestSiluMul(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(2)
		for n := range 4*16 + 4 {
			for range rounds(30) {
				gate, up := r.blocks(1, n), r.blocks(1, n)
				got, want := append([]float32(nil), gate...), append([]float32(nil), gate...)
				kernels.SiluMul(got, up)
				definition(t, func() { kernels.SiluMul(want, up) })
				for i := range got {
					if !sameBits(got[i], want[i]) {
						t.Fatalf("%d of %d: gate %g, up %g: %g, the definition says %g", i, n, gate[i], up[i], got[i], want[i])
					}
				}
			}
		}
		gate := []float32{3}
		if kernels.SiluMul(gate, []float32{2}); math.Abs(float64(gate[0])-2*3/(1+math.Exp(-3))) > 1e-6 {
			t.Errorf("silu(3)·2 = %g", gate[0])
		}
	})
}

func TestMax(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(3)
		for n := range 4*16 + 4 {
			for range rounds(30) {
				x := r.blocks(1, n)
				want := float32(math.Inf(-1))
				for _, v := range x {
					if v > want {
						want = v
					}
				}
				if got := kernels.Max(x); !sameBits(got, want+0) {
					t.Fatalf("%v: %g, want %g", x, got, want)
				}
			}
		}
	})
}

func checkAddRows(t testing.TB, dst, weights []float32, w kernels.Weights, rows []byte) {
	t.Helper()
	got, want := append([]float32(nil), dst...), append([]float32(nil), dst...)
	kernels.AddRows(got, weights, w, rows)
	definition(t, func() { kernels.AddRows(want, weights, w, rows) })
	for i := range got {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%v, %d rows, %d of %d: %g, the definition says %g", w, len(weights), i, len(dst), got[i], want[i])
		}
	}
}

func TestAddRows(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(4)
		for n := range 4*16 + 4 {
			for range rounds(8) {
				for _, w := range []kernels.Weights{kernels.F32, kernels.F16} {
					count := r.IntN(5)
					checkAddRows(t, r.blocks(1, n), r.blocks(1, count), w, r.rows(w, count, n))
				}
			}
		}
		dst := []float32{1}
		kernels.AddRows(dst, []float32{2, 3}, kernels.F16, binary.LittleEndian.AppendUint16([]byte{0, 0x3C}, 0x4000))
		if dst[0] != 1+2+3*2 {
			t.Errorf("%v", dst)
		}
	})
}

func TestExpAllocates(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x, y := newFloats(5).ordinary(77)
		rows := make([]byte, 77*4)
		if n := testing.AllocsPerRun(10, func() {
			kernels.ExpSum(x, 1, 0)
			kernels.SiluMul(x, y)
			kernels.AddRows(x, y[:1], kernels.F32, rows)
			kernels.Max(x)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkExpSum(b *testing.B) {
	kerneltest.Benchmark(b, func(b *testing.B) {
		x := make([]float32, 256)
		for b.Loop() {
			kernels.ExpSum(x, 1, 1)
		}
		reportWeights(b, 256)
	})
}

func BenchmarkSiluMul(b *testing.B) {
	kerneltest.Benchmark(b, func(b *testing.B) {
		x, y := newFloats(6).ordinary(256)
		for b.Loop() {
			kernels.SiluMul(x, y)
		}
		reportWeights(b, 256)
	})
}

func BenchmarkAddRows(b *testing.B) {
	kerneltest.Benchmark(b, func(b *testing.B) {
		x, y := newFloats(7).ordinary(64)
		rows := make([]byte, 64*64*2)
		for b.Loop() {
			kernels.AddRows(x, y, kernels.F16, rows)
		}
		reportWeights(b, 64*64)
	})
}
