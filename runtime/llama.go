package runtime

// llama: Llama 1 to 3, SmolLM2, TinyStories. Attention with NORM rotation and a SwiGLU network, each after an RMS norm.

type llama struct {
	common
	rope   rope
	blocks []llamaBlock
	ff     int
}

type llamaBlock struct {
	attnNorm []float32 // [d]
	attn     selfAttention
	ffnNorm  []float32   // [d]
	ffn      feedForward // [d, F], [F, d]
}

func loadLlama(k *keys, l *loader, m *Model) weights {
	w := &llama{common: readCommon(k), ff: k.need("feed_forward_length")}
	if n := k.count("rope.dimension_count", w.keyLen); n != w.keyLen {
		k.fail("llama rotates %d of the %d values of a head; all are expected", n, w.keyLen)
	}
	w.rope = readRope(k, w.keyLen, false, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	m.ends.declare(k, l, w.common, "output_norm.weight")
	l.optional(&w.rope.factors, "rope_freqs.weight", w.keyLen/2)
	w.blocks = make([]llamaBlock, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		l.vector(&b.attnNorm, block(i, "attn_norm.weight"), w.width)
		b.attn.declare(l, w.common, i, false)
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		b.ffn.declare(l, block(i, ""), "", w.width, w.ff)
	}
	return w
}

func (w *llama) session(a *arena) network { return newLlamaState(a, w.common, w.rope, w.blocks, w.ff) }

type llamaState struct {
	common
	blocks []llamaBlock
	rope   *rope
	caches []*kvCache // a block's
	h, y   []float32  // [tokens][d]: normalized input and output of a half block
	attn   selfAttentionScratch
	ff     feedForwardScratch
}

func newLlamaState(a *arena, c common, r rope, blocks []llamaBlock, ff int) *llamaState {
	s := &llamaState{common: c, blocks: blocks, rope: r.forSession(a), h: a.perToken(c.width), y: a.perToken(c.width),
		attn: newSelfAttentionScratch(a, c, false), ff: newFeedForwardScratch(a, ff)}
	for i := range blocks {
		s.caches = append(s.caches, blocks[i].attn.cache(a, 0))
	}
	return s
}

func (s *llamaState) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	s.rope.prepare(p)
	for i := range s.blocks {
		b := &s.blocks[i]

		e.normRows(h, p.x, b.attnNorm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		e.attendSelf(y, &b.attn, &s.attn, s.caches[i], p, s.rope)
		add(p.x, y)

		e.normRows(h, p.x, b.ffnNorm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		e.feed(y, &b.ffn, s.ff)
		add(p.x, y)
	}
}
