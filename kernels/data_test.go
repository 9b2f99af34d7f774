package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gguf-forge/kernels"
)

// definition runs f with the Go definitions.
func definition(t testing.TB, f func()) {
	t.Helper()
	restore, err := kernels.Select("generic")
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	f()
}

// sameBits compares results: equal to the bit, but any NaN is as good as another.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// floats makes blocks of every kind that has been trouble somewhere.
type floats struct{ *rand.Rand }

func newFloats(seed uint64) floats { return floats{rand.New(rand.NewPCG(seed, 0))} }

var specials = []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45, 1e-38,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xFFC12345), math.Float32frombits(0x7FABCDEF),
	4194303, 4194304, 8388608, 1e10, -1e10, 1e-10, 0.5, 1.5, 2.5}

func (r floats) special() float32 { return specials[r.IntN(len(specials))] }

func (r floats) fill(x []float32) {
	scale := float32(math.Ldexp(1, r.IntN(24)-20))
	kind := r.IntN(18)
	c := r.special()
	for i := range x {
		g := scale * float32(r.NormFloat64())
		switch kind {
		case 0:
			x[i] = 0
		case 1:
			x[i] = c
		case 2:
			x[i] = float32(math.Abs(float64(g)))
		case 3:
			x[i] = -float32(math.Abs(float64(g)))
		case 4:
			x[i] = -1000 - g // a narrow range far below zero
		case 5:
			x[i] = r.special()
		case 6:
			x[i] = math.Float32frombits(r.Uint32()) // any
		case 7:
			x[i] = math.Float32frombits(r.Uint32() & 0x807FFFFF) // subnormal
		case 8:
			x[i] = 0
			if r.IntN(8) == 0 {
				x[i] = g
			}
		case 9:
			x[i] = float32(r.IntN(5)-2) * scale // ties
		case 10:
			x[i] = g
			if r.IntN(64) == 0 {
				x[i] = r.special()
			}
		case 11:
			x[i] = float32(math.Ldexp(float64(g), r.IntN(60)-30))
		case 12:
			x[i] = g * 1e36
		case 13:
			x[i] = 1 + float32(i%2)/(1<<23) // two neighbouring numbers
		case 14:
			x[i] = -1 - float32(i%2)/(1<<23)
		default:
			x[i] = g
		}
	}
}

// blocks returns the values of that many blocks, each of its own kind.
func (r floats) blocks(count, size int) []float32 {
	x := make([]float32, count*size)
	for b := range count {
		r.fill(x[b*size : (b+1)*size])
	}
	return x
}

// weights are mostly what importance weights look like, a quarter of the blocks anything.
func (r floats) weights(count, size int) []float32 {
	w := make([]float32, count*size)
	for b := range count {
		block := w[b*size : (b+1)*size]
		if r.IntN(4) == 0 {
			r.fill(block)
			continue
		}
		for i := range block {
			block[i] = r.Float32() * 3
		}
	}
	return w
}

// ordinary returns values and weights as they come from a model.
func (r floats) ordinary(n int) (x, w []float32) {
	x, w = make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], w[i] = float32(r.NormFloat64())/50, r.Float32()+0.01
	}
	return x, w
}

// rounds thins out the repetitions of slow tests.
func rounds(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}
