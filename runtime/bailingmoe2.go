package runtime

// bailingmoe2: Ling and Ring 2.0. Attention with QK norms and partial NEOX rotation; after some leading dense layers a mixture of
// experts with group-limited sigmoid routing. NextN blocks are not executed.

type bailingMoE2 struct {
	common
	rope    rope
	blocks  []bailingMoE2Block
	routing routing
	ff      int // widest dense or shared network
	expert  int // Fe
	fused   bool
}

type bailingMoE2Block struct {
	attnNorm []float32 // [d]
	attn     selfAttention
	ffnNorm  []float32 // [d]
	ffn      feedForward
	experts  *experts // nil: the layer is dense
}

func loadBailingMoE2(k *keys, l *loader, m *Model) weights {
	w := &bailingMoE2{common: readCommon(k), routing: readRouting(k), expert: k.size("expert_feed_forward_length", 0)}
	l.trunk(&w.common)
	w.rope = readRope(k, k.count("rope.dimension_count", w.keyLen), true, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	w.rope.mustFit(k, w.keyLen)
	m.ends.declare(k, l, w.common, "output_norm.weight")
	dense, leading := k.size("feed_forward_length", 0), k.count("leading_dense_block_count", 0)
	shared := int(min(elements(k.size("expert_shared_feed_forward_length", 0), k.count("expert_shared_count", 1)), maxSize))
	w.ff = max(dense, shared)
	w.blocks = make([]bailingMoE2Block, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		l.vector(&b.attnNorm, block(i, "attn_norm.weight"), w.width)
		b.attn.declare(l, w.common, i, false)
		b.attn.declareNorms(l, i)
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		if i < leading {
			b.ffn.declare(l, block(i, ""), "", w.width, dense)
			continue
		}
		b.experts = &experts{}
		b.experts.declare(l, block(i, ""), w.width, w.expert, shared, w.routing)
		w.fused = w.fused || !b.experts.up.present()
	}
	return w
}

type bailingMoE2State struct {
	*bailingMoE2
	rope   *rope
	caches []*kvCache
	h, y   []float32 // [tokens][d]: normalized input and output of a half block
	attn   selfAttentionScratch
	ff     feedForwardScratch
	moe    expertScratch
}

func (w *bailingMoE2) session(a *arena) network {
	s := &bailingMoE2State{bailingMoE2: w, rope: w.rope.forSession(a), h: a.perToken(w.width), y: a.perToken(w.width),
		attn: newSelfAttentionScratch(a, w.common, false), ff: newFeedForwardScratch(a, w.ff),
		moe: newExpertScratch(a, w.routing, w.expert, w.width, w.fused)}
	for i := range w.blocks {
		s.caches = append(s.caches, w.blocks[i].attn.cache(a, 0))
	}
	return s
}

func (s *bailingMoE2State) forward(e *engine, p pass) {
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
		if b.experts != nil {
			e.mix(y, h, b.experts, &s.moe, s.ff)
		} else {
			e.act.set(h, p.tokens, s.width)
			e.feed(y, &b.ffn, s.ff)
		}
		add(p.x, y)
	}
}
