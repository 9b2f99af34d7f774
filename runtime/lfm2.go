package runtime

// lfm2: gated short convolutions, and attention in the layers that have key heads. Each layer ends in a SwiGLU network.

type lfm2 struct {
	common
	rope   rope
	blocks []lfm2Block
	ff     int
	taps   int // K
}

type lfm2Block struct {
	norm    []float32 // [d]
	attn    selfAttention
	conv    *lfm2Conv // nil: the layer attends
	ffnNorm []float32 // [d]
	ffn     feedForward
}

type lfm2Conv struct {
	in     matrix // [d, 3d]: B, C, X
	filter conv   // [K, d]
	out    matrix // [d, d]
}

func loadLFM2(k *keys, l *loader, m *Model) weights {
	w := &lfm2{common: readCommon(k), taps: k.needCount("shortconv.l_cache")}
	ff := k.perLayer("feed_forward_length", w.layers, 0, maxSize)
	if !k.flag("attention.causal", true) || k.size("attention.sliding_window", 0) > 0 {
		k.fail("lfm2 models with a sliding window or without a causal mask are not supported")
	}
	w.rope = readRope(k, k.size("rope.dimension_count", w.keyLen), true, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	w.rope.mustFit(k, w.keyLen)
	norm := "token_embd_norm.weight"
	if !l.has(norm) {
		norm = "output_norm.weight"
	}
	m.ends.declare(k, l, w.common, norm)
	w.blocks = make([]lfm2Block, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		l.vector(&b.norm, block(i, "attn_norm.weight"), w.width)
		if w.kvHeads[i] > 0 {
			b.attn.declare(l, w.common, i, false)
			b.attn.declareNorms(l, i)
		} else {
			b.conv = &lfm2Conv{}
			l.matrix(&b.conv.in, block(i, "shortconv.in_proj"), w.width, 3*w.width)
			l.convolution(&b.conv.filter, block(i, "shortconv.conv"), w.taps, w.width)
			l.matrix(&b.conv.out, block(i, "shortconv.out_proj"), w.width, w.width)
		}
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		b.ffn.declare(l, block(i, ""), "", w.width, ff[i])
		w.ff = max(w.ff, ff[i])
	}
	return w
}

type lfm2State struct {
	*lfm2
	rope    *rope
	caches  []*kvCache // of attention layers
	windows []*window  // of convolution layers: past values of B⊙X
	h, y    []float32  // [tokens][d]: normalized input and output of a half block
	bcx     []float32  // [tokens][3d]
	attn    selfAttentionScratch
	ff      feedForwardScratch
}

func (w *lfm2) session(a *arena) network {
	s := &lfm2State{lfm2: w, rope: w.rope.forSession(a), h: a.perToken(w.width), y: a.perToken(w.width), bcx: a.perToken(3 * w.width),
		attn: newSelfAttentionScratch(a, w.common, false), ff: newFeedForwardScratch(a, w.ff),
		caches: make([]*kvCache, w.layers), windows: make([]*window, w.layers)}
	for i := range w.blocks {
		if b := &w.blocks[i]; b.conv != nil {
			s.windows[i] = newWindow(a, &b.conv.filter)
		} else {
			s.caches[i] = b.attn.cache(a, 0)
		}
	}
	return s
}

func (s *lfm2State) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	s.rope.prepare(p)
	for i := range s.blocks {
		b := &s.blocks[i]

		e.normRows(h, p.x, b.norm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		if b.conv != nil {
			s.convolve(e, y, b.conv, s.windows[i], p)
		} else {
			e.attendSelf(y, &b.attn, &s.attn, s.caches[i], p, s.rope)
		}
		add(p.x, y)

		e.normRows(h, p.x, b.ffnNorm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		e.feed(y, &b.ffn, s.ff)
		add(p.x, y)
	}
}

// convolve writes W_out(C ⊙ conv(B ⊙ X)) to y.
func (s *lfm2State) convolve(e *engine, y []float32, c *lfm2Conv, w *window, p pass) {
	d := s.width
	bcx := s.bcx[:p.tokens*3*d]
	e.mul(bcx, &c.in)
	in := w.input()
	for t := range p.tokens {
		b, x := bcx[3*t*d:(3*t+1)*d], bcx[(3*t+2)*d:(3*t+3)*d]
		for j, v := range b {
			in[t*d+j] = v * x[j]
		}
	}
	e.convolve(y, w, p.tokens, false)
	for t := range p.tokens {
		gate, row := bcx[(3*t+1)*d:(3*t+2)*d], y[t*d:(t+1)*d]
		for j, v := range gate {
			row[j] *= v
		}
	}
	e.act.set(y, p.tokens, d)
	e.mul(bcx[:p.tokens*d], &c.out)
	copy(y, bcx)
}
