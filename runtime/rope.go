package runtime

import "math"

// rope rotates pairs of values of queries and keys by angles that grow with the position:
//
//	θ_i = p · base^(−2i/n) / f_i        (a, b) → (a cos θ − b sin θ, a sin θ + b cos θ)
//
// Pairs are neighbours (NORM) or half a rotation apart (NEOX). Values from n on pass through.
type rope struct {
	n       int // rotated values of a head
	neox    bool
	freq    []float64 // [n/2] angle per position, all scaling included
	scale   float64   // of cos and sin (YaRN)
	factors []float32 // [n/2] f_i, from rope_freqs.weight; nil: 1
	cos     []float32 // [tokens][n/2], for the tokens of this pass
	sin     []float32
}

// ropeScaling is what metadata say about longer contexts.
type ropeScaling struct {
	factor   float64 // frequencies are divided by it
	yarn     bool
	original float64 // context before YaRN
	attn     float64 // further factor of cos and sin
}

// readRope reads the rotation of n values of each head.
func readRope(k *keys, n int, neox bool, base float64, s ropeScaling) rope {
	r := rope{n: n, neox: neox, scale: s.attn}
	if n < 0 || n%2 != 0 {
		k.fail("%s rotates %d values of a head, no even number", k.arch, n)
		return r
	}
	if base <= 0 || s.factor <= 0 || s.attn <= 0 {
		k.fail("%s.rope: base %g, factor %g and attn_factor %g must be positive", k.arch, base, s.factor, s.attn)
		return r
	}
	r.freq = make([]float64, n/2)
	for i := range r.freq {
		r.freq[i] = math.Pow(base, -2*float64(i)/float64(n))
	}
	if s.yarn {
		r.yarn(base, s)
		return r
	}
	for i := range r.freq {
		r.freq[i] /= s.factor
	}
	return r
}

// mustFit refuses a rotation of more values than a head has.
func (r *rope) mustFit(k *keys, headLen int) {
	if r.n > headLen {
		k.fail("%s rotates %d values of heads of %d", k.arch, r.n, headLen)
	}
}

// yarn interpolates low frequencies and keeps high ones, with a ramp between them. β_fast is 32, β_slow 1.
func (r *rope) yarn(base float64, s ropeScaling) {
	n := float64(r.n)
	turns := func(beta float64) float64 { return n * math.Log(s.original/(2*math.Pi*beta)) / (2 * math.Log(base)) }
	lo := max(0, math.Floor(turns(32)))
	hi := min(n-1, math.Ceil(turns(1)))
	for i := range r.freq {
		extrapolate := 1 - min(1, max(0, (float64(i)-lo)/max(0.001, hi-lo)))
		r.freq[i] *= (1-extrapolate)/s.factor + extrapolate
	}
	r.scale *= 1 + 0.1*math.Log(s.factor)
}

func readScaling(k *keys, context int) ropeScaling {
	s := ropeScaling{
		factor:   k.scale("rope.scaling.factor", k.scale("rope.scale_linear", 1)),
		original: float64(k.meta.ArchUint("rope.scaling.original_context_length", uint64(context))),
		attn:     k.scale("rope.scaling.attn_factor", 1),
	}
	switch kind := k.text("rope.scaling.type"); kind {
	case "", "linear":
	case "none":
		s.factor = 1
	case "yarn":
		s.yarn = true
		if s.original < 1 {
			k.fail("%s.rope.scaling is yarn without an original context length", k.arch)
		}
	default:
		k.fail("%s.rope.scaling.type is %q; none, linear and yarn are supported", k.arch, kind)
	}
	return s
}

// forSession returns a copy with room for the angles of a pass.
func (r rope) forSession(a *arena) *rope {
	r.cos, r.sin = a.perToken(r.n/2), a.perToken(r.n/2)
	if r.factors != nil && !a.dry {
		freq := make([]float64, len(r.freq))
		for i, f := range r.freq {
			freq[i] = f / float64(r.factors[i])
		}
		r.freq = freq
	}
	return &r
}

// prepare computes the angles of a pass.
func (r *rope) prepare(p pass) {
	half := r.n / 2
	for t := range p.tokens {
		for i, f := range r.freq {
			sin, cos := math.Sincos(f * float64(p.pos+t))
			r.sin[t*half+i] = float32(sin * r.scale)
			r.cos[t*half+i] = float32(cos * r.scale)
		}
	}
}

// rotateTask rotates the heads of one token per part.
type rotateTask struct {
	r          *rope
	x          []float32
	heads      int // of a token
	skip, from int // from one head to the next; first rotated value of a head
}

func (t *rotateTask) part(_, i int) {
	half := t.r.n / 2
	cos, sin := t.r.cos[i*half:(i+1)*half], t.r.sin[i*half:(i+1)*half]
	for h := range t.heads {
		at := (i*t.heads+h)*t.skip + t.from
		x := t.x[at : at+t.r.n]
		if t.r.neox {
			lo, hi := x[:half], x[half:]
			for j, c := range cos {
				a, b := lo[j], hi[j]
				lo[j] = a*c - b*sin[j]
				hi[j] = a*sin[j] + b*c
			}
		} else {
			for j, c := range cos {
				a, b := x[2*j], x[2*j+1]
				x[2*j] = a*c - b*sin[j]
				x[2*j+1] = a*sin[j] + b*c
			}
		}
	}
}

// rotate rotates x, [tokens][heads][skip], in every head from the value from on.
func (e *engine) rotate(r *rope, x []float32, tokens, heads, skip, from int) {
	e.rotates = rotateTask{r: r, x: x, heads: heads, skip: skip, from: from}
	e.pool.run(&e.rotates, tokens)
}
