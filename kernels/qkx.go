package kernels

import "math"

// QKX are the parameters of the asymmetric scale search of the K-quants, which finds scale, minimum
// and codes of a block so that scale·code − minimum comes close to its values.
type QKX struct {
	Size   int     // values of a block: 16 or 32
	Max    int     // the largest code: 3, 15 or 31
	First  float32 // trial k divides the range by Max + First + Step·k
	Step   float32
	Trials int  // number of trials, 1 to 64
	Abs    bool // minimize the weighted sum of absolute rather than squared errors
}

// maxTrials is the size of the table of trials.
const maxTrials = 64

// SearchQKX searches len(scales) blocks, each on its own: x and w hold their values and the weights
// of these, block after block. It writes a scale and a minimum for each block and a code for each value.
//
// A block of which all values are equal and not above zero has scale 0 and codes 0. Any values are
// allowed, infinities and NaN included.
func SearchQKX(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	n := len(scales) * p.Size
	if p.Size != 16 && p.Size != 32 || p.Max < 1 || p.Max > 255 || p.Trials < 1 || p.Trials > maxTrials {
		panic("kernels: bad parameters of SearchQKX")
	}
	if len(mins) != len(scales) || len(codes) != n || len(x) != n || len(w) != n {
		panic("kernels: lengths of SearchQKX differ")
	}
	if n > 0 {
		searchQKX(p, scales, mins, codes, x, w)
	}
}

// tries returns the numerators of the trial scales, of which the first p.Trials are used.
func (p *QKX) tries() (t [maxTrials]float32) {
	for k := range p.Trials {
		t[k] = float32(p.First+float32(p.Step*float32(k))) + float32(p.Max)
	}
	return t
}

// searchQKXGeneric is the definition.
func searchQKXGeneric(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	tries := p.tries()
	for b := range scales {
		lo, hi := b*p.Size, (b+1)*p.Size
		scales[b], mins[b] = p.search(tries[:p.Trials], codes[lo:hi], x[lo:hi], w[lo:hi])
	}
}

// search returns scale and minimum of one block and writes its codes.
func (p *QKX) search(tries []float32, codes []uint8, x, w []float32) (scale, minimum float32) {
	w, codes = w[:len(x)], codes[:len(x)]
	lo, hi := x[0], x[0]
	sumW, sumX := w[0], float32(w[0]*x[0])
	for i := 1; i < len(x); i++ {
		if x[i] < lo {
			lo = x[i]
		}
		if x[i] > hi {
			hi = x[i]
		}
		sumW += w[i]
		sumX += float32(w[i] * x[i])
	}
	if lo > 0 {
		lo = 0
	}
	if hi <= lo {
		clear(codes)
		return 0, -lo
	}

	inverse := float32(p.Max) / (hi - lo)
	scale = 1 / inverse
	var best float32
	for i, v := range x {
		l := p.code(inverse, v, lo)
		codes[i] = uint8(l)
		best += float32(w[i] * p.error(scale, l, lo, v))
	}

	var trial [32]float32
	for _, numerator := range tries {
		// lo is the minimum of the best trial so far, which the next ones start from.
		inverse := numerator / (hi - lo)
		var sumL, sumL2, sumXL float32
		for i, v := range x {
			l := p.code(inverse, v, lo)
			trial[i] = l
			wl := float32(w[i] * l)
			sumL += wl
			sumL2 += float32(wl * l)
			sumXL += float32(wl * v)
		}
		det := float32(sumW*sumL2) - float32(sumL*sumL)
		if !(det > 0) {
			continue
		}
		s := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		m := (float32(sumL2*sumX) - float32(sumL*sumXL)) / det
		if m > 0 {
			m = 0
			s = sumXL / sumL2
		}
		var err float32
		for i, v := range x {
			err += float32(w[i] * p.error(s, trial[i], m, v))
		}
		if err < best {
			for i := range codes {
				codes[i] = uint8(trial[i])
			}
			best, scale, lo = err, s, m
		}
	}
	return scale, -lo
}

// code returns the code of v where values start at lo and are inverse codes apart.
func (p *QKX) code(inverse, v, lo float32) float32 {
	return float32(max(0, min(int32(p.Max), nearest(float32(inverse*(v-lo))))))
}

// error returns how far the code l lies from v.
func (p *QKX) error(scale, l, lo, v float32) float32 {
	diff := (float32(scale*l) + lo) - v
	if p.Abs {
		return math.Float32frombits(math.Float32bits(diff) &^ (1 << 31))
	}
	return float32(diff * diff)
}
