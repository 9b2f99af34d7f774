package kernels_test

import (
	"encoding/binary"
	"math"
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

// allWeights lists the types of weights.
func allWeights() []kernels.Weights {
	var list []kernels.Weights
	for _, name := range []string{"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q1_0", "q2_0",
		"q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs", "tq1_0", "tq2_0"} {
		w, ok := kernels.WeightsNamed(name)
		if !ok {
			panic(name)
		}
		list = append(list, w)
	}
	return list
}

// blockOf returns the number of weights in a block.
func blockOf(w kernels.Weights) int {
	n := 1
	for w.RowBytes(n) == 0 {
		n *= 2
	}
	return n
}

// halfFields are the offsets of the halves in a block: scales and minimums.
var halfFields = map[string][]int{
	"q4_0": {0}, "q4_1": {0, 2}, "q5_0": {0}, "q5_1": {0, 2}, "q8_0": {0}, "iq4_nl": {0}, "q1_0": {0}, "q2_0": {0},
	"q2_K": {80, 82}, "q3_K": {108}, "q4_K": {0, 2}, "q5_K": {0, 2}, "q6_K": {208}, "iq4_xs": {0}, "tq1_0": {52}, "tq2_0": {64},
}

// rows makes rows of weights of any bytes, with scales of all kinds: any, ordinary, zero, infinite, NaN, subnormal.
func (r floats) rows(w kernels.Weights, count, n int) []byte {
	b := make([]byte, count*w.RowBytes(n))
	kind := r.IntN(8)
	for i := range b {
		switch kind {
		case 0:
			b[i] = 0xFF
		case 1:
			b[i] = 0x80
		case 2:
			b[i] = 0
		default:
			b[i] = byte(r.Uint32())
		}
	}
	fields, ok := halfFields[w.String()]
	if !ok {
		if r.IntN(4) > 0 { // ordinary values rather than any bits
			for i := range len(b) / w.RowBytes(1) {
				v := float32(r.NormFloat64())
				switch w {
				case kernels.F32:
					binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
				case kernels.F16:
					binary.LittleEndian.PutUint16(b[2*i:], r.half())
				default:
					binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(v)>>16))
				}
			}
		}
		return b
	}
	size := w.RowBytes(blockOf(w))
	for i := 0; i < len(b); i += size {
		for _, f := range fields {
			h := r.half()
			if r.IntN(60) == 0 {
				h = []uint16{0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 1, 0x83FF, 0x7BFF, uint16(r.Uint32())}[r.IntN(9)]
			}
			binary.LittleEndian.PutUint16(b[i+f:], h)
		}
	}
	return b
}

// half returns an ordinary half.
func (r floats) half() uint16 { return uint16(r.IntN(2)<<15 | (8+r.IntN(12))<<10 | r.IntN(1024)) }

// vectors are activations: some ordinary, some all ±127, some with specials.
func (r floats) vectors(w kernels.Weights, count, n int) *kernels.Activations {
	a := kernels.NewActivations(w.Form(), n, count)
	x := make([]float32, count*n)
	switch r.IntN(4) {
	case 0:
		for i := range x {
			x[i] = float32(1 - 2*r.IntN(2))
		}
	case 1:
		for i := 0; i < len(x); i += 16 {
			r.fill(x[i:min(i+16, len(x))])
		}
	default:
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}
	a.Set(0, x)
	return a
}

func checkMul(t testing.TB, w kernels.Weights, rows []byte, n int, x kernels.Vectors, vectors int) {
	t.Helper()
	count := len(rows) / w.RowBytes(n)
	stride := count + 3
	got, want := make([]float32, vectors*stride), make([]float32, vectors*stride)
	for i := range got {
		got[i], want[i] = 77, 77
	}
	kernels.Mul(got, stride, w, rows, x)
	definition(t, func() { kernels.Mul(want, stride, w, rows, x) })
	for i := range want {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%v, %d values: row %d of %d, vector %d of %d: %g, the definition says %g", w, n, i%stride, count, i/stride, vectors, got[i], want[i])
		}
	}
}

// One block of each type by hand: all codes one above the middle or at it, as the formulas of the types give them.
func TestMulKnown(t *testing.T) {
	half := func(b []byte, at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
	const one, two = 0x3C00, 0x4000
	fill := func(b []byte, v byte) {
		for i := range b {
			b[i] = v
		}
	}
	for _, c := range []struct {
		name string
		make func(b []byte)
		each float32 // every weight
	}{
		{"f32", func(b []byte) { binary.LittleEndian.PutUint32(b, math.Float32bits(3)) }, 3},
		{"f16", func(b []byte) { half(b, 0, two) }, 2},
		{"bf16", func(b []byte) { half(b, 0, 0x4040) }, 3},
		{"q4_0", func(b []byte) { fill(b, 0xBB); half(b, 0, two) }, 6},
		{"q4_1", func(b []byte) { fill(b, 0xBB); half(b, 0, two); half(b, 2, one) }, 23},
		{"q5_0", func(b []byte) { fill(b, 0xFF); half(b, 0, two) }, 30},
		{"q5_1", func(b []byte) { fill(b, 0xFF); half(b, 0, two); half(b, 2, one) }, 63},
		{"q8_0", func(b []byte) { fill(b, 0x80); half(b, 0, two) }, -256},
		{"iq4_nl", func(b []byte) { fill(b, 0xFF); half(b, 0, two) }, 226},
		{"q1_0", func(b []byte) { fill(b, 0); half(b, 0, two) }, -2},
		{"q2_0", func(b []byte) { fill(b, 0xFF); half(b, 0, two) }, 4},
		{"q2_K", func(b []byte) { fill(b[:16], 0x25); fill(b[16:], 0xFF); half(b, 80, two); half(b, 82, one) }, 28},
		{"q3_K", func(b []byte) { fill(b, 0xFF); half(b, 108, two) }, 186},
		{"q4_K", func(b []byte) { fill(b, 0xFF); half(b, 0, two); half(b, 2, one) }, 2*63*15 - 63},
		{"q5_K", func(b []byte) { fill(b, 0xFF); half(b, 0, two); half(b, 2, one) }, 2*63*31 - 63},
		{"q6_K", func(b []byte) { fill(b[:192], 0xFF); fill(b[192:208], 0x80); half(b, 208, two) }, -2 * 128 * 31},
		{"iq4_xs", func(b []byte) { fill(b, 0xFF); half(b, 0, two) }, 2 * 31 * 113},
		{"tq1_0", func(b []byte) { fill(b, 0xFF); half(b, 52, two) }, 2},
		{"tq2_0", func(b []byte) { fill(b, 0xAA); half(b, 64, two) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := kernels.WeightsNamed(c.name)
			n := blockOf(w)
			block := make([]byte, w.RowBytes(n))
			c.make(block)
			a := kernels.NewActivations(w.Form(), n, 1)
			x := make([]float32, n)
			for i := range x {
				x[i] = 127 // code 127 on scale 1, or −127 on −1
			}
			a.Set(0, x)
			out := make([]float32, 1)
			kernels.Mul(out, 1, w, block, a.Range(0, 1))
			if want := c.each * 127 * float32(n); math.Abs(float64(out[0]-want)) > 1e-6*math.Abs(float64(want)) {
				t.Errorf("%g, want %g", out[0], want)
			}
		})
	}
}

func TestMul(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		for _, w := range allWeights() {
			block := blockOf(w)
			for range rounds(40) {
				n := block * (1 + r.IntN(max(1, 1024/block)))
				count, vectors := 1+r.IntN(20), 1+r.IntN(3)
				checkMul(t, w, r.rows(w, count, n), n, r.vectors(w, vectors, n).Range(0, vectors), vectors)
			}
		}
	})
}

// All numbers of rows up to four groups, all short lengths.
func TestMulCounts(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(2)
		for _, w := range allWeights() {
			block := blockOf(w)
			for count := range 4*8 + 4 {
				if testing.Short() && count%5 > 1 {
					continue
				}
				n := block * (1 + r.IntN(2))
				checkMul(t, w, r.rows(w, count, n), n, r.vectors(w, 1, n).Range(0, 1), 1)
			}
			for blocks := 1; blocks <= max(4, 80/block); blocks++ {
				if testing.Short() && blocks%5 > 1 {
					continue
				}
				checkMul(t, w, r.rows(w, 9, blocks*block), blocks*block, r.vectors(w, 1, blocks*block).Range(0, 1), 1)
			}
		}
	})
}

// Vectors may be any of those there are, in any order, and numbers of vectors around those that kernels take at once.
func TestMulVectors(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(3)
		for _, w := range allWeights() {
			n := 256
			a := r.vectors(w, 40, n)
			rows := r.rows(w, 37, n)
			for _, count := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33} {
				if testing.Short() && count > 5 {
					continue
				}
				lo := r.IntN(7)
				checkMul(t, w, rows, n, a.Range(lo, lo+count), count)
				index := make([]int32, count)
				for i := range index {
					index[i] = int32(r.IntN(40))
				}
				checkMul(t, w, rows, n, a.Pick(index), count)
			}
		}
	})
}

// The float sums of ordinary data are as close to the exact ones as Mul promises.
func TestMulError(t *testing.T) {
	r := newFloats(4)
	for _, w := range []kernels.Weights{kernels.F32, kernels.F16, kernels.BF16} {
		n := 4096
		a := kernels.NewActivations(w.Form(), n, 1)
		x, _ := r.ordinary(n)
		for i := range x {
			x[i] = math.Float32frombits(math.Float32bits(x[i]) &^ 0x1FFFF) // the same in every form
		}
		a.Set(0, x)
		row := make([]byte, w.RowBytes(n))
		var sum, size float64
		for i := range n {
			v := math.Float32frombits(math.Float32bits(float32(r.NormFloat64())) &^ 0x1FFFF)
			switch w {
			case kernels.F32:
				binary.LittleEndian.PutUint32(row[4*i:], math.Float32bits(v))
			case kernels.BF16:
				binary.LittleEndian.PutUint16(row[2*i:], uint16(math.Float32bits(v)>>16))
			default:
				v = 1 + float32(i%1024)/1024
				binary.LittleEndian.PutUint16(row[2*i:], uint16(0x3C00+i%1024))
			}
			sum += float64(v) * float64(x[i])
			size += math.Abs(float64(v) * float64(x[i]))
		}
		out := make([]float32, 1)
		kernels.Mul(out, 1, w, row, a.Range(0, 1))
		if limit := (float64(n)/16 + 5) * 0x1p-24 * size; math.Abs(float64(out[0])-sum) > limit {
			t.Errorf("%v: %g, exactly %g, allowed difference %g", w, out[0], sum, limit)
		}
	}
}

func TestMulAllocates(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(5)
		for _, w := range allWeights() {
			a, rows := r.vectors(w, 9, 256), r.rows(w, 37, 256)
			out := make([]float32, 37*9)
			index := []int32{3, 1, 4, 1, 5}
			x := make([]float32, 512)
			if n := testing.AllocsPerRun(5, func() {
				a.Set(2, x)
				kernels.Mul(out, 37, w, rows, a.Range(0, 9))
				kernels.Mul(out, 37, w, rows, a.Pick(index))
				kernels.Mul(out, 3, w, rows[:3*w.RowBytes(256)], a.Range(0, 5))
				kernels.Mul(out, 1, w, rows[:w.RowBytes(256)], a.Range(0, 3))
			}); n != 0 {
				t.Errorf("%v: %v allocations", w, n)
			}
		}
	})
}

func TestMulPanics(t *testing.T) {
	a := kernels.NewActivations(kernels.FormQ8_0, 64, 4)
	rows := make([]byte, 3*36)
	out := make([]float32, 12)
	for name, f := range map[string]func(){
		"no vectors":     func() { kernels.Mul(out, 3, kernels.Q4_0, rows, kernels.Vectors{}) },
		"other form":     func() { kernels.Mul(out, 3, kernels.Q4_1, rows, a.Range(0, 1)) },
		"half a block":   func() { kernels.Mul(out, 3, kernels.Q1_0, rows, a.Range(0, 1)) },
		"half a row":     func() { kernels.Mul(out, 3, kernels.Q4_0, rows[1:], a.Range(0, 1)) },
		"short out":      func() { kernels.Mul(out[:11], 3, kernels.Q4_0, rows, a.Range(0, 4)) },
		"short stride":   func() { kernels.Mul(out, 2, kernels.Q4_0, rows, a.Range(0, 1)) },
		"range":          func() { a.Range(3, 5) },
		"number":         func() { a.Pick([]int32{4}) },
		"negative":       func() { a.Pick([]int32{-1}) },
		"too many":       func() { a.Set(3, make([]float32, 128)) },
		"half a vector":  func() { a.Set(0, make([]float32, 63)) },
		"form":           func() { kernels.NewActivations(9, 64, 1) },
		"size of vector": func() { kernels.NewActivations(kernels.FormQ8_K, 128, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
	kernels.Mul(out, 3, kernels.Q4_0, rows, a.Range(0, 4)) // as it should be
}

// The bytes are rows of weights, then activations.
func FuzzMul(f *testing.F) {
	r := newFloats(6)
	for i, w := range allWeights() {
		seed := r.rows(w, 3, 256)
		for range 256 {
			seed = binary.LittleEndian.AppendUint32(seed, math.Float32bits(float32(r.NormFloat64())))
		}
		f.Add(uint8(i), uint8(3), seed)
	}
	f.Fuzz(func(t *testing.T, which, count uint8, data []byte) {
		list := allWeights()
		w := list[int(which)%len(list)]
		n := 256
		size := w.RowBytes(n)
		rows := min(int(count), len(data)/size, 20)
		data, values := data[:rows*size], data[rows*size:]
		x := make([]float32, n)
		for i := range min(n, len(values)/4) {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:]))
		}
		kerneltest.Loop(t, func(string) {
			a := kernels.NewActivations(w.Form(), n, 1)
			a.Set(0, x)
			checkMul(t, w, data, n, a.Range(0, 1), 1)
		})
	})
}

// One vector, as for one token.
func BenchmarkMul(b *testing.B) {
	for _, w := range allWeights() {
		b.Run(w.String(), func(b *testing.B) {
			kerneltest.Benchmark(b, func(b *testing.B) { benchmarkMul(b, w, 1) })
		})
	}
}

// Many vectors, as for a prompt.
func BenchmarkMulBatch(b *testing.B) {
	for _, w := range allWeights() {
		b.Run(w.String(), func(b *testing.B) {
			kerneltest.Benchmark(b, func(b *testing.B) { benchmarkMul(b, w, 64) })
		})
	}
}

func benchmarkMul(b *testing.B, w kernels.Weights, vectors int) {
	const n, count = 1536, 64
	r := newFloats(7)
	a := kernels.NewActivations(w.Form(), n, vectors)
	x, _ := r.ordinary(n * vectors)
	a.Set(0, x)
	rows := make([]byte, count*w.RowBytes(n))
	for i := range rows {
		rows[i] = byte(i % 59)
	}
	if w.Form() < kernels.FormQ8_0 { // ordinary numbers: tiny ones are slow on some CPUs
		size := w.RowBytes(1)
		for i := size - 1; i < len(rows); i += size {
			rows[i] = 0x3C
		}
	}
	out := make([]float32, count*vectors)
	b.SetBytes(int64(len(rows)))
	b.ReportAllocs()
	for b.Loop() {
		kernels.Mul(out, count, w, rows, a.Range(0, vectors))
	}
	reportWeights(b, n*count*vectors)
}
