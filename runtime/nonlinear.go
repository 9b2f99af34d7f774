package runtime

import (
	"math"
	"sync"

	"gguf-forge/kernels"
)

func sigmoid(x float32) float32 { return 1 / (1 + kernels.Exp(-x)) }

func silu(x float32) float32 { return x / (1 + kernels.Exp(-x)) }

// softplus returns ln(1+eˣ).
func softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	return float32(math.Log1p(math.Exp(float64(x))))
}

// gelu is the tanh form, computed in float64.
func gelu(x float32) float32 {
	v := float64(x)
	return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*v*(1+0.044715*v*v))))
}

// geluHalf looks gelu up for the half nearest to x, as the reference does: the result is a half too.
func geluHalf(x float32) float32 {
	switch {
	case x <= -10:
		return 0
	case x >= 10:
		return x
	}
	return geluTable()[kernels.ToHalf(x)]
}

var geluTable = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for h := range t {
		t[h] = kernels.FromHalf(kernels.ToHalf(gelu(kernels.FromHalf(uint16(h)))))
	}
	return t
})

// gate is the nonlinearity of a feed-forward network.
type gate int

const (
	siluGate gate = iota
	geluGate
	geluHalfGate
)

// gluTask computes act(gate)·up in place of gate, in parts of size values.
type gluTask struct {
	gate, up []float32
	kind     gate
	clamp    float32 // above 1e-6: min(silu(gate), clamp) · clamp(up, ±clamp)
	size     int
}

func (t *gluTask) part(_, i int) {
	lo := i * t.size
	hi := min(lo+t.size, len(t.gate))
	g, u := t.gate[lo:hi], t.up[lo:hi]
	u = u[:len(g)]
	switch {
	case t.kind == geluGate:
		for j, v := range g {
			g[j] = gelu(v) * u[j]
		}
	case t.kind == geluHalfGate:
		for j, v := range g {
			g[j] = geluHalf(v) * u[j]
		}
	case t.clamp > 1e-6:
		for j, v := range g {
			g[j] = min(silu(v), t.clamp) * max(-t.clamp, min(t.clamp, u[j]))
		}
	default:
		kernels.SiluMul(g, u)
	}
}

// gated computes act(g)·up in place of g.
func (e *engine) gated(g, up []float32, kind gate, clamp float32) {
	e.glu = gluTask{gate: g, up: up, kind: kind, clamp: clamp}
	var parts int
	e.glu.size, parts = perPart(len(g), e.pool.workers, 1024)
	e.pool.run(&e.glu, parts)
}
