package runtime

import (
	"math"
	"testing"

	"gguf-forge/kernels"
)

func TestGELU(t *testing.T) {
	for x := float32(-12); x < 12; x += 0.0171 {
		v := float64(x)
		want := 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		if d := math.Abs(float64(gelu(x)) - want); d > 1e-6*max(1, math.Abs(v)) {
			t.Errorf("gelu(%g) = %g, want %g", x, gelu(x), want)
		}
		if d := math.Abs(float64(geluHalf(x)) - want); d > 2e-3*max(1, math.Abs(v)) {
			t.Errorf("geluHalf(%g) = %g, want %g", x, geluHalf(x), want)
		}
	}
	for _, c := range [][2]float32{{-10.5, 0}, {10.5, 10.5}, {0, 0}, {1, kernels.FromHalf(kernels.ToHalf(gelu(1)))}} {
		if got := geluHalf(c[0]); got != c[1] {
			t.Errorf("geluHalf(%g) = %g, want %g", c[0], got, c[1])
		}
	}
}
