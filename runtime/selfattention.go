package runtime

import "math"

// selfAttention holds the weights of an ordinary attention layer.
type selfAttention struct {
	q, k, v      matrix    // [d, H·dh], [d, Hkv·dh], [d, Hkv·dv]; gated: q is [d, H·2dh], query and gate of each head in turn
	out          matrix    // [H·dv, d]
	qNorm, kNorm []float32 // [dh] or nil: RMS norm of each head before the rotation
	heads        int
	kvHeads      int
	keyLen       int
	valLen       int
	scale        float32
	eps          float32
	gated        bool
}

// declare reads the tensors of block i. Q, K and V may stand in one tensor.
func (w *selfAttention) declare(l *loader, c common, i int, gated bool) {
	*w = selfAttention{
		heads: c.heads, kvHeads: c.kvHeads[i], keyLen: c.keyLen, valLen: c.valLen,
		scale: float32(1 / math.Sqrt(float64(c.keyLen))), eps: c.eps, gated: gated,
	}
	if w.kvHeads == 0 || w.keyLen == 0 || w.valLen == 0 {
		l.fail("block %d attends with %d key heads of %d and %d values", i, w.kvHeads, w.keyLen, w.valLen)
		return
	}
	nq, nk, nv := w.heads*w.keyLen, w.kvHeads*w.keyLen, w.kvHeads*w.valLen
	if gated {
		nq *= 2
	}
	if !gated && l.has(block(i, "attn_qkv.weight")) {
		l.fused(block(i, "attn_qkv"), c.width, []*matrix{&w.q, &w.k, &w.v}, []int{nq, nk, nv})
	} else {
		l.matrix(&w.q, block(i, "attn_q"), c.width, nq)
		l.matrix(&w.k, block(i, "attn_k"), c.width, nk)
		l.matrix(&w.v, block(i, "attn_v"), c.width, nv)
	}
	l.matrix(&w.out, block(i, "attn_output"), w.heads*w.valLen, c.width)
}

// declareNorms reads the QK norms of block i.
func (w *selfAttention) declareNorms(l *loader, i int) {
	l.vector(&w.qNorm, block(i, "attn_q_norm.weight"), w.keyLen)
	l.vector(&w.kNorm, block(i, "attn_k_norm.weight"), w.keyLen)
}

// cache makes the cache of the layer.
func (w *selfAttention) cache(a *arena, window int) *kvCache {
	return a.cache(w.kvHeads, w.keyLen, w.valLen, window)
}

// selfAttentionScratch is working memory for attention layers of any shape up to the one it was made for.
type selfAttentionScratch struct {
	both   []float32 // [tokens][H][2dh], gated layers only
	q      []float32 // [tokens][H][dh]
	k, v   []float32 // [tokens][Hkv][…]
	gate   []float32 // [tokens][H][dh]
	out    []float32 // [tokens][H][dv]
	scores *attentionScratch
}

func newSelfAttentionScratch(a *arena, c common, gated bool) selfAttentionScratch {
	kv := 0
	for _, n := range c.kvHeads {
		kv = max(kv, n)
	}
	s := selfAttentionScratch{
		q:      a.perToken(c.heads, c.keyLen),
		k:      a.perToken(kv, c.keyLen),
		v:      a.perToken(kv, c.valLen),
		out:    a.perToken(c.heads, c.valLen),
		scores: newAttentionScratch(a, c.heads, c.keyLen, c.valLen),
	}
	if gated {
		s.both = a.perToken(c.heads, 2*c.keyLen)
		s.gate = a.perToken(c.heads, c.keyLen)
	}
	return s
}

// attendSelf writes the layer's output for the current activations to dst, [tokens][d]. r is nil for layers without positions.
func (e *engine) attendSelf(dst []float32, w *selfAttention, s *selfAttentionScratch, c *kvCache, p pass, r *rope) {
	q, k, v := s.q[:p.tokens*w.heads*w.keyLen], s.k[:p.tokens*w.k.out], s.v[:p.tokens*w.v.out]
	if w.gated {
		both := s.both[:p.tokens*w.q.out]
		e.mul(both, &w.q)
		for i := range p.tokens * w.heads {
			copy(q[i*w.keyLen:(i+1)*w.keyLen], both[2*i*w.keyLen:])
			copy(s.gate[i*w.keyLen:(i+1)*w.keyLen], both[(2*i+1)*w.keyLen:])
		}
	} else {
		e.mul(q, &w.q)
	}
	e.mul(k, &w.k)
	e.mul(v, &w.v)
	if w.qNorm != nil {
		e.normRows(q, q, w.qNorm, p.tokens*w.heads, w.eps)
		e.normRows(k, k, w.kNorm, p.tokens*w.kvHeads, w.eps)
	}
	if r != nil {
		e.rotate(r, q, p.tokens, w.heads, w.keyLen, 0)
		e.rotate(r, k, p.tokens, w.kvHeads, w.keyLen, 0)
	}
	out := s.out[:p.tokens*w.heads*w.valLen]
	e.attend(s.scores, p, c, out, q, k, v, w.heads, w.scale)
	if w.gated {
		for i, g := range s.gate[:len(out)] {
			out[i] *= sigmoid(g)
		}
	}
	e.act.set(out, p.tokens, w.heads*w.valLen)
	e.mul(dst, &w.out)
}
