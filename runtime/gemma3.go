package runtime

import "math"

// gemma3: attention and a GELU network, each between two RMS norms. Most layers see a sliding window and rotate by a base of
// their own; the embedding is scaled by √d.

type gemma3 struct {
	common
	rope, localRope rope
	blocks          []gemma3Block
	ff              int
}

type gemma3Block struct {
	attnNorm     []float32 // [d]
	attn         selfAttention
	postAttnNorm []float32 // [d]
	ffnNorm      []float32 // [d]
	ffn          feedForward
	postFFNNorm  []float32 // [d]
	window       int       // positions a query sees; 0: all
}

func loadGemma3(k *keys, l *loader, m *Model) weights {
	w := &gemma3{common: readCommon(k), ff: k.need("feed_forward_length")}
	n := k.count("rope.dimension_count", w.keyLen)
	scaling := readScaling(k, w.context)
	w.rope = readRope(k, n, true, k.scale("rope.freq_base", 10000), scaling)
	w.localRope = readRope(k, n, true, k.scale("rope.freq_base_swa", 10000), ropeScaling{factor: 1, attn: scaling.attn})
	w.rope.mustFit(k, w.keyLen)
	m.ends.declare(k, l, w.common, "output_norm.weight")
	m.ends.embedScale = float32(math.Sqrt(float64(w.width)))
	local := w.localLayers(k)
	window := k.size("attention.sliding_window", 0)
	w.blocks = make([]gemma3Block, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		if local[i] {
			b.window = window
		}
		l.vector(&b.attnNorm, block(i, "attn_norm.weight"), w.width)
		b.attn.declare(l, w.common, i, false)
		b.attn.declareNorms(l, i)
		if w.layers == 62 { // the 27B model divides by the width of a head before it was widened
			b.attn.scale = float32(1 / math.Sqrt(float64(w.width)/float64(w.heads)))
		}
		l.vector(&b.postAttnNorm, block(i, "post_attention_norm.weight"), w.width)
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		b.ffn.declare(l, block(i, ""), "", w.width, w.ff)
		b.ffn.kind = geluHalfGate
		if m.opt.Exact {
			b.ffn.kind = geluGate
		}
		l.vector(&b.postFFNNorm, block(i, "post_ffw_norm.weight"), w.width)
	}
	return w
}

// localLayers returns which layers have a window: all but every sixth, unless the metadata give another period or a list.
func (w *gemma3) localLayers(k *keys) []bool {
	const key = "attention.sliding_window_pattern"
	if k.size("attention.sliding_window", 0) == 0 {
		return make([]bool, w.layers)
	}
	if list, ok := k.flags(key, w.layers); ok {
		return list
	}
	list := make([]bool, w.layers)
	if v, ok := k.get(key); ok && v.Len > 0 {
		return list // an array that is no list of flags: the error is noted
	}
	period := k.count(key, 6)
	for i := range list {
		list[i] = period == 0 || i%period < period-1
	}
	return list
}

type gemma3State struct {
	*gemma3
	rope, localRope *rope
	caches          []*kvCache
	h, y            []float32 // [tokens][d]: normalized input and output of a half block
	attn            selfAttentionScratch
	ff              feedForwardScratch
}

func (w *gemma3) session(a *arena) network {
	s := &gemma3State{gemma3: w, rope: w.rope.forSession(a), localRope: w.localRope.forSession(a),
		h: a.perToken(w.width), y: a.perToken(w.width),
		attn: newSelfAttentionScratch(a, w.common, false), ff: newFeedForwardScratch(a, w.ff)}
	for i := range w.blocks {
		s.caches = append(s.caches, w.blocks[i].attn.cache(a, w.blocks[i].window))
	}
	return s
}

func (s *gemma3State) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	s.rope.prepare(p)
	s.localRope.prepare(p)
	for i := range s.blocks {
		b := &s.blocks[i]
		r := s.rope
		if b.window > 0 {
			r = s.localRope
		}

		e.normRows(h, p.x, b.attnNorm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		e.attendSelf(y, &b.attn, &s.attn, s.caches[i], p, r)
		e.normRows(y, y, b.postAttnNorm, p.tokens, s.eps)
		add(p.x, y)

		e.normRows(h, p.x, b.ffnNorm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		e.feed(y, &b.ffn, s.ff)
		e.normRows(y, y, b.postFFNNorm, p.tokens, s.eps)
		add(p.x, y)
	}
}
