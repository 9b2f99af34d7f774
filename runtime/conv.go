package runtime

// conv is a causal convolution over time, one filter for each channel:
//
//	c_t[ch] = Σ_τ w[τ][ch] · x_{t−K+1+τ}[ch]        τ = 0 is the oldest
type conv struct {
	taps     int       // K
	channels int       // C
	stored   []float32 // [C][K], as in the file
	w        []float32 // [K][C]
	bias     []float32 // [C] or nil
}

// convolution declares a filter tensor of channels × taps, dimensions of 1 aside.
func (l *loader) convolution(c *conv, name string, taps, channels int) {
	*c = conv{taps: taps, channels: channels}
	if taps < 1 || taps > maxTaps || l.dim(name+".weight", 0) != taps {
		l.fail("tensor %q has %d taps, not %d", name+".weight", l.dim(name+".weight", 0), taps)
		return
	}
	l.vector(&c.stored, name+".weight", taps*channels)
	l.optional(&c.bias, name+".bias", channels)
}

// prepare transposes the filter.
func (c *conv) prepare() {
	if c.w != nil {
		return
	}
	c.w = make([]float32, len(c.stored))
	for ch := range c.channels {
		for t := range c.taps {
			c.w[t*c.channels+ch] = c.stored[ch*c.taps+t]
		}
	}
	c.stored = nil
}

// window is the input of a convolution: the K−1 values before the pass, and those of the pass, [K−1+tokens][C].
type window struct {
	c   *conv
	buf []float32
}

func newWindow(a *arena, c *conv) *window {
	if !a.dry {
		c.prepare()
	}
	w := &window{c: c, buf: a.buffer(c.taps-1+a.batch, c.channels)}
	a.state(w.buf, elements(c.taps-1, c.channels))
	return w
}

// input returns where the values of the pass go, [tokens][C].
func (w *window) input() []float32 { return w.buf[(w.c.taps-1)*w.c.channels:] }

// convTask computes some channels of all tokens.
type convTask struct {
	w      *window
	dst    []float32
	tokens int
	silu   bool
	size   int // channels of a part
}

func (t *convTask) part(_, i int) {
	c := t.w.c
	lo := i * t.size
	hi := min(lo+t.size, c.channels)
	for tok := range t.tokens {
		dst := t.dst[tok*c.channels+lo : tok*c.channels+hi]
		if c.bias != nil {
			copy(dst, c.bias[lo:hi])
		} else {
			clear(dst)
		}
		for k := range c.taps {
			in := t.w.buf[(tok+k)*c.channels+lo : (tok+k)*c.channels+hi]
			f := c.w[k*c.channels+lo : k*c.channels+hi]
			f = f[:len(dst)]
			in = in[:len(dst)]
			for j := range dst {
				dst[j] += f[j] * in[j]
			}
		}
		if t.silu {
			for j, v := range dst {
				dst[j] = silu(v)
			}
		}
	}
	past := (c.taps - 1) * c.channels
	for at := 0; at < past; at += c.channels {
		copy(t.w.buf[at+lo:at+hi], t.w.buf[at+t.tokens*c.channels+lo:at+t.tokens*c.channels+hi])
	}
}

// convolve writes [tokens][C] to dst, through silu if asked, and moves the window on.
func (e *engine) convolve(dst []float32, w *window, tokens int, silu bool) {
	e.convs = convTask{w: w, dst: dst, tokens: tokens, silu: silu}
	var parts int
	e.convs.size, parts = perPart(w.c.channels, e.pool.workers, 64)
	e.pool.run(&e.convs, parts)
}
