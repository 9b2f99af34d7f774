package kernels_test

import (
	"encoding/binary"
	"math"
	"testing"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

// searches lists the parameters of all types that use the search.
var searches = []struct {
	name string
	kernels.QKX
}{
	{"q4_K", kernels.QKX{Size: 32, Max: 15, First: -0.9, Step: 0.05, Trials: 37}},
	{"q5_K", kernels.QKX{Size: 32, Max: 31, First: -0.9, Step: 0.05, Trials: 37}},
	{"q2_K", kernels.QKX{Size: 16, Max: 3, First: -0.9, Step: 0.05, Trials: 37}},
	{"q4_K-ref", kernels.QKX{Size: 32, Max: 15, First: -1, Step: 0.1, Trials: 21}},
	{"q5_K-ref", kernels.QKX{Size: 32, Max: 31, First: -0.5, Step: 0.1, Trials: 16}},
	{"q2_K-ref", kernels.QKX{Size: 16, Max: 3, First: -0.5, Step: 0.1, Trials: 16, Abs: true}},
}

// searchResult is what a search writes.
type searchResult struct {
	scales, mins []float32
	codes        []uint8
}

func search(p *kernels.QKX, x, w []float32) searchResult {
	blocks := len(x) / p.Size
	r := searchResult{make([]float32, blocks), make([]float32, blocks), make([]uint8, len(x))}
	kernels.SearchQKX(p, r.scales, r.mins, r.codes, x, w)
	return r
}

// checkSearch compares a search with the definition, block by block.
func checkSearch(t testing.TB, p *kernels.QKX, x, w []float32) {
	t.Helper()
	got := search(p, x, w)
	definition(t, func() {
		for b := range got.scales {
			lo, hi := b*p.Size, (b+1)*p.Size
			want := search(p, x[lo:hi], w[lo:hi])
			if !sameBits(got.scales[b], want.scales[0]) || !sameBits(got.mins[b], want.mins[0]) || string(got.codes[lo:hi]) != string(want.codes) {
				t.Fatalf("block %d of %d: scale %g, minimum %g, codes %v; the definition says %g, %g, %v\nx = %v\nw = %v", b, len(got.scales),
					got.scales[b], got.mins[b], got.codes[lo:hi], want.scales[0], want.mins[0], want.codes, x[lo:hi], w[lo:hi])
			}
		}
	})
}

// Blocks worked out by hand from the formulas.
func TestSearchQKXKnown(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		p := kernels.QKX{Size: 16, Max: 3, First: -0.9, Step: 0.05, Trials: 37}
		ones := make([]float32, 16)
		for i := range ones {
			ones[i] = 1
		}
		ramp := make([]float32, 16)
		for i := range ramp {
			ramp[i] = float32(i%4) - 1
		}
		for _, c := range []struct {
			name         string
			x            []float32
			scale, least float32
			codes        string
		}{
			{"zeros", make([]float32, 16), 0, float32(math.Copysign(0, -1)), string(make([]byte, 16))},
			{"constant below zero", []float32{-2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2}, 0, 2, string(make([]byte, 16))},
			{"exact", ramp, 1, 1, "\x00\x01\x02\x03\x00\x01\x02\x03\x00\x01\x02\x03\x00\x01\x02\x03"},
		} {
			r := search(&p, c.x, ones)
			if r.scales[0] != c.scale || !sameBits(r.mins[0], c.least) || string(r.codes) != c.codes {
				t.Errorf("%s: scale %g, minimum %g, codes %v", c.name, r.scales[0], r.mins[0], r.codes)
			}
		}
	})
}

func TestSearchQKX(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(1)
		for _, s := range searches {
			for range rounds(200) {
				count := 1 + r.IntN(40)
				checkSearch(t, &s.QKX, r.blocks(count, s.Size), r.weights(count, s.Size))
			}
		}
	})
}

// Every number of blocks up to four times the widest group, so that full groups and remainders of all sizes occur.
func TestSearchQKXCounts(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(2)
		for _, s := range searches {
			for count := 0; count <= 4*16+3; count++ {
				if testing.Short() && count%5 > 1 {
					continue
				}
				checkSearch(t, &s.QKX, r.blocks(count, s.Size), r.weights(count, s.Size))
			}
		}
	})
}

// Other parameters than those of today's types.
func TestSearchQKXParameters(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(3)
		for range rounds(400) {
			p := kernels.QKX{Size: 16 << r.IntN(2), Max: 1 + r.IntN(255), First: r.Float32()*4 - 2, Step: r.Float32() / 4, Trials: 1 + r.IntN(64), Abs: r.IntN(2) == 0}
			checkSearch(t, &p, r.blocks(17, p.Size), r.weights(17, p.Size))
		}
	})
}

func TestSearchQKXAllocates(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		x, w := newFloats(5).ordinary(19 * 32)
		x[40] = float32(math.Inf(1)) // one for the definition
		scales, mins, codes := make([]float32, 19), make([]float32, 19), make([]uint8, 19*32)
		if n := testing.AllocsPerRun(10, func() {
			kernels.SearchQKX(&searches[0].QKX, scales, mins, codes, x, w)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestSearchQKXPanics(t *testing.T) {
	x := make([]float32, 64)
	for name, f := range map[string]func(){
		"size": func() {
			kernels.SearchQKX(&kernels.QKX{Size: 8, Max: 15, Trials: 1}, x[:1], x[:1], make([]uint8, 8), x[:8], x[:8])
		},
		"max":    func() { kernels.SearchQKX(&kernels.QKX{Size: 32, Max: 256, Trials: 1}, nil, nil, nil, nil, nil) },
		"trials": func() { kernels.SearchQKX(&kernels.QKX{Size: 32, Max: 15, Trials: 65}, nil, nil, nil, nil, nil) },
		"codes":  func() { kernels.SearchQKX(&searches[0].QKX, x[:1], x[:1], make([]uint8, 31), x[:32], x[:32]) },
		"values": func() { kernels.SearchQKX(&searches[0].QKX, x[:2], x[:2], make([]uint8, 64), x[:32], x[:64]) },
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
}

// The bytes are float32 values, first all x, then all weights.
func FuzzSearchQKX(f *testing.F) {
	r := newFloats(6)
	for i := range searches {
		var seed []byte
		for _, v := range append(r.blocks(3, 32), r.weights(3, 32)...) {
			seed = binary.LittleEndian.AppendUint32(seed, math.Float32bits(v))
		}
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		s := searches[int(which)%len(searches)]
		count := min(len(data)/8/s.Size, 40)
		values := make([]float32, 2*count*s.Size)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		x, w := values[:count*s.Size], values[count*s.Size:]
		kerneltest.Loop(t, func(string) { checkSearch(t, &s.QKX, x, w) })
	})
}

func BenchmarkSearchQKX(b *testing.B) {
	for _, s := range searches {
		b.Run(s.name, func(b *testing.B) {
			kerneltest.Benchmark(b, func(b *testing.B) {
				const n = 2048
				x, w := newFloats(7).ordinary(n)
				scales, mins, codes := make([]float32, n/s.Size), make([]float32, n/s.Size), make([]uint8, n)
				b.ReportAllocs()
				for b.Loop() {
					kernels.SearchQKX(&s.QKX, scales, mins, codes, x, w)
				}
				reportWeights(b, n)
			})
		})
	}
}

// reportWeights adds the speed in millions of weights per second.
func reportWeights(b *testing.B, n int) {
	b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds()/1e6, "Mweights/s")
}
