package kernels_test

import (
	"encoding/binary"
	"math"
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

var forms = []kernels.Form{kernels.FormF32, kernels.FormF16, kernels.FormBF16, kernels.FormQ8_0, kernels.FormQ8_1, kernels.FormQ8_K}

// probes are weights that show whether the sums of activations are those of the definition.
func probes(form kernels.Form, n int) (kernels.Weights, []byte) {
	switch form {
	case kernels.FormQ8_0:
		// Codes from −8 to 7 in each block in turn: kernels need the sums for the offset.
		rows := make([]byte, n/32*kernels.Q4_0.RowBytes(n))
		for b := range n / 32 {
			block := rows[b*kernels.Q4_0.RowBytes(n)+18*b:]
			binary.LittleEndian.PutUint16(block, 0x3C00)
			for i := range 16 {
				block[2+i] = byte(i) | byte(15-i)<<4
			}
		}
		return kernels.Q4_0, rows
	case kernels.FormQ8_1:
		rows := make([]byte, n/32*2*kernels.Q4_1.RowBytes(n))
		size := kernels.Q4_1.RowBytes(n)
		for b := range n / 32 {
			one, least := rows[2*b*size+20*b:], rows[(2*b+1)*size+20*b:]
			binary.LittleEndian.PutUint16(one, 0x3C00)
			for i := range 16 {
				one[4+i] = byte(i) | byte(15-i)<<4
			}
			binary.LittleEndian.PutUint16(least[2:], 0x3C00)
		}
		return kernels.Q4_1, rows
	default:
		rows := make([]byte, n/256*32*kernels.Q2K.RowBytes(n))
		size := kernels.Q2K.RowBytes(n)
		for r := range n / 256 * 32 {
			block := rows[r*size+r/32*84:]
			if r%32 < 16 {
				block[r%16] = 1
				binary.LittleEndian.PutUint16(block[80:], 0x3C00)
				for i := range 64 {
					block[16+i] = byte(37 * (i + 1))
				}
			} else {
				block[r%16] = 16
				binary.LittleEndian.PutUint16(block[82:], 0x3C00)
			}
		}
		return kernels.Q2K, rows
	}
}

func checkSet(t testing.TB, form kernels.Form, x []float32) {
	t.Helper()
	n := len(x)
	got, want := kernels.NewActivations(form, n, 1), kernels.NewActivations(form, n, 1)
	got.Set(0, x)
	definition(t, func() { want.Set(0, x) })
	gotValues, wantValues := make([]float32, n), make([]float32, n)
	got.Values(gotValues, 0)
	want.Values(wantValues, 0)
	for i := range x {
		if !sameBits(gotValues[i], wantValues[i]) {
			t.Fatalf("form %d, %d of %d: %g becomes %g, the definition says %g", form, i, n, x[i], gotValues[i], wantValues[i])
		}
	}
	if form < kernels.FormQ8_0 || n == 0 {
		return
	}
	w, rows := probes(form, n)
	count := len(rows) / w.RowBytes(n)
	a, b := make([]float32, count), make([]float32, count)
	kernels.Mul(a, count, w, rows, got.Range(0, 1))
	kernels.Mul(b, count, w, rows, want.Range(0, 1))
	for i := range a {
		if !sameBits(a[i], b[i]) {
			t.Fatalf("form %d: probe %d of %d gives %g, the definition %g", form, i, count, a[i], b[i])
		}
	}
}

func TestSet(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		for _, form := range forms {
			for range rounds(60) {
				var x []float32
				for range r.IntN(3) {
					x = append(x, r.blocks(8, 32)...)
				}
				if form == kernels.FormQ8_K && r.IntN(2) == 0 {
					x = r.blocks(1+r.IntN(2), 256)
				}
				checkSet(t, form, x)
			}
		}
	})
}

// By hand: the largest magnitude gets ±127 (with 256 codes −127), halves go to the even neighbour, scales are halves.
func TestSetKnown(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x := make([]float32, 256)
		x[0], x[1], x[2], x[3] = 254, 1, 3, -5 // the multiplier is 0.5
		for form, want := range map[kernels.Form][4]float32{
			kernels.FormF32:  {254, 1, 3, -5},
			kernels.FormQ8_0: {254, 0, 4, -4},
			kernels.FormQ8_1: {254, 0, 4, -4},
			kernels.FormQ8_K: {254, 0, 4, -4},
		} {
			a := kernels.NewActivations(form, 256, 1)
			a.Set(0, x)
			got := make([]float32, 256)
			a.Values(got, 0)
			for i, v := range want {
				if got[i] != v {
					t.Errorf("form %d: %g becomes %g, want %g", form, x[i], got[i], v)
				}
			}
		}
		x[0] = 127.03 // the scale 1.00023… is not a half
		a := kernels.NewActivations(kernels.FormQ8_0, 256, 1)
		a.Set(0, x)
		got := make([]float32, 256)
		a.Values(got, 0)
		if got[0] != 127 {
			t.Errorf("127.03 becomes %g", got[0])
		}
	})
}

// What is not a number must not get lost.
func TestSetSpecial(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		for _, special := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for _, form := range forms {
				x := make([]float32, 256)
				x[70], x[3] = special, 1
				a := kernels.NewActivations(form, 256, 1)
				a.Set(0, x)
				values := make([]float32, 256)
				a.Values(values, 0)
				if v := float64(values[70]); !math.IsNaN(v) && !math.IsInf(v, 0) {
					t.Errorf("form %d: %g becomes %g", form, special, v)
				}
			}
		}
	})
}

func TestReshape(t *testing.T) {
	a := kernels.NewActivations(kernels.FormQ8_0, 64, 3)
	if n := a.Reshape(32); n != 6 {
		t.Errorf("%d vectors of 32 in the memory of three of 64", n)
	}
	if n := a.Reshape(96); n != 2 {
		t.Errorf("%d vectors of 96 in the memory of three of 64", n)
	}
	a.Set(1, make([]float32, 96))
	a.Range(0, 2)
}

func FuzzSet(f *testing.F) {
	f.Add(uint8(3), []byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		x := make([]float32, 256)
		for i := range min(len(x), len(data)/4) {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		kerneltest.Loop(t, func(string) { checkSet(t, forms[int(which)%len(forms)], x) })
	})
}

func BenchmarkSet(b *testing.B) {
	for _, form := range []kernels.Form{kernels.FormQ8_0, kernels.FormQ8_1, kernels.FormQ8_K} {
		b.Run([]string{"", "", "", "q8_0", "q8_1", "q8_K"}[form], func(b *testing.B) {
			kerneltest.Benchmark(b, func(b *testing.B) {
				x, _ := newFloats(3).ordinary(1536)
				a := kernels.NewActivations(form, 1536, 1)
				for b.Loop() {
					a.Set(0, x)
				}
				reportWeights(b, 1536)
			})
		})
	}
}
