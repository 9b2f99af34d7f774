package runtime

import (
	"slices"

	"gguf-forge/kernels"
)

// qwen35: Qwen3.5 and 3.6. Gated DeltaNet layers, and gated attention every few layers; a SwiGLU network after each. A NextN block,
// one more attention block, may follow the trunk.

type qwen35 struct {
	common
	rope      rope
	blocks    []qwen35Block
	next      *qwen35NextN // nil: none
	ff        int
	keyHeads  int // Hk
	valHeads  int // Hv
	headLen   int // dk = dv
	recurrent bool
}

type qwen35Block struct {
	norm    []float32 // [d]
	attn    selfAttention
	delta   *deltaNet // nil: the layer attends
	ffnNorm []float32 // [d]: named post_attention_norm
	ffn     feedForward
}

// deltaNet holds the weights of a Gated DeltaNet layer. C = 2·Hk·dk + Hv·dv channels go through the convolution.
type deltaNet struct {
	qkv    matrix    // [d, C]
	gate   matrix    // [d, Hv·dv]
	beta   matrix    // [d, Hv]
	alpha  matrix    // [d, Hv]
	filter conv      // [K, C]
	dtBias []float32 // [Hv]
	a      []float32 // [Hv], negative
	norm   []float32 // [dv]
	out    matrix    // [Hv·dv, d]
}

type qwen35NextN struct {
	nextn
	block qwen35Block
}

func loadQwen35(k *keys, l *loader, m *Model) weights {
	w := &qwen35{common: readCommon(k), ff: k.need("feed_forward_length"), keyHeads: k.needCount("ssm.group_count"),
		valHeads: k.needCount("ssm.time_step_rank"), headLen: k.needCount("ssm.state_size")}
	if inner := k.need("ssm.inner_size"); inner != w.valHeads*w.headLen || w.valHeads%w.keyHeads != 0 {
		k.fail("qwen35.ssm: %d values in %d value heads and %d key heads of %d don't go together", inner, w.valHeads, w.keyHeads, w.headLen)
	}
	if !l.has(block(0, "attn_norm.weight")) && l.has(block(w.layers, "nextn.eh_proj.weight")) {
		l.fail("the file holds only the NextN block of a model, not its trunk")
	}
	hasNextN := l.trunk(&w.common)
	n := k.count("rope.dimension_count", w.keyLen)
	w.rope = readRope(k, n, true, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	w.rope.mustFit(k, w.keyLen)
	w.dropUnusedStreams(k)
	m.ends.declare(k, l, w.common, "output_norm.weight")
	recurrent := w.recurrentLayers(k)
	w.blocks = make([]qwen35Block, w.layers)
	for i := range w.blocks {
		w.declareBlock(k, l, &w.blocks[i], i, recurrent[i])
		w.recurrent = w.recurrent || recurrent[i]
	}
	if hasNextN {
		w.next = &qwen35NextN{}
		w.next.declare(l, w.common, &m.ends, w.layers, "nextn.shared_head_norm.weight")
		w.declareBlock(k, l, &w.next.block, w.layers, false)
	}
	return w
}

func (w *qwen35) declareBlock(k *keys, l *loader, b *qwen35Block, i int, recurrent bool) {
	l.vector(&b.norm, block(i, "attn_norm.weight"), w.width)
	if recurrent {
		b.delta = &deltaNet{}
		w.declareDelta(k, l, b.delta, i)
	} else {
		b.attn.declare(l, w.common, i, true)
		b.attn.declareNorms(l, i)
		if w.keyLen != w.valLen {
			k.fail("qwen35 gates %d values of a head with %d", w.valLen, w.keyLen)
		}
	}
	l.vector(&b.ffnNorm, block(i, "post_attention_norm.weight"), w.width)
	b.ffn.declare(l, block(i, ""), "", w.width, w.ff)
}

func (w *qwen35) declareDelta(k *keys, l *loader, b *deltaNet, i int) {
	inner := w.valHeads * w.headLen
	l.matrix(&b.qkv, block(i, "attn_qkv"), w.width, w.channels())
	l.matrix(&b.gate, block(i, "attn_gate"), w.width, inner)
	l.matrix(&b.beta, block(i, "ssm_beta"), w.width, w.valHeads)
	l.matrix(&b.alpha, block(i, "ssm_alpha"), w.width, w.valHeads)
	l.convolution(&b.filter, block(i, "ssm_conv1d"), k.needCount("ssm.conv_kernel"), w.channels())
	l.vector(&b.dtBias, block(i, "ssm_dt.bias"), w.valHeads)
	l.vector(&b.a, block(i, "ssm_a"), w.valHeads)
	l.vector(&b.norm, block(i, "ssm_norm.weight"), w.headLen)
	l.matrix(&b.out, block(i, "ssm_out"), inner, w.width)
}

// channels returns C, the width of the convolution.
func (w *qwen35) channels() int { return (2*w.keyHeads + w.valHeads) * w.headLen }

// recurrentLayers returns which layers of the trunk are DeltaNet.
func (w *qwen35) recurrentLayers(k *keys) []bool {
	if list, ok := k.flags("attention.recurrent_layers", w.layers); ok {
		return list
	}
	interval := k.count("full_attention_interval", 4)
	list := make([]bool, w.layers)
	for i := range list {
		list[i] = interval == 0 || (i+1)%interval != 0
	}
	return list
}

// dropUnusedStreams stops the rotation of pairs that take their position from the fourth stream, which is 0 in texts. The
// other three (time, height, width) are the position of the token.
func (w *qwen35) dropUnusedStreams(k *keys) {
	v, _ := k.get("rope.dimension_sections")
	s, ok := v.Ints()
	if !ok || len(s) < 3 {
		k.fail("qwen35.rope.dimension_sections is missing or has less than 3 numbers")
		return
	}
	for i := range w.rope.freq {
		if int64(i) >= 3*s[i%3] {
			w.rope.freq[i] = 0
		}
	}
}

type qwen35State struct {
	*qwen35
	blocks  []qwen35Block // of the trunk, or the one of the NextN block
	rope    *rope
	caches  []*kvCache  // of attention layers
	windows []*window   // of DeltaNet layers
	states  [][]float32 // of DeltaNet layers: [Hv][dv][dk]
	h, y    []float32   // [tokens][d]: normalized input and output of a half block
	c       []float32   // [tokens][C]: q, k, v
	z       []float32   // [tokens][Hv·dv]
	beta    []float32   // [tokens][Hv]
	decay   []float32   // [tokens][Hv]
	o       []float32   // [tokens][Hv·dv]
	attn    selfAttentionScratch
	ff      feedForwardScratch
	both    []float32 // [tokens][2d], NextN only
}

func (w *qwen35) session(a *arena) network { return w.newState(a, w.blocks) }

func (w *qwen35) newState(a *arena, blocks []qwen35Block) *qwen35State {
	s := &qwen35State{qwen35: w, blocks: blocks, rope: w.rope.forSession(a), h: a.perToken(w.width), y: a.perToken(w.width),
		attn: newSelfAttentionScratch(a, w.common, true), ff: newFeedForwardScratch(a, w.ff),
		caches: make([]*kvCache, len(blocks)), windows: make([]*window, len(blocks)), states: make([][]float32, len(blocks))}
	inner := w.valHeads * w.headLen
	for i := range blocks {
		if b := &blocks[i]; b.delta != nil {
			s.windows[i] = newWindow(a, &b.delta.filter)
			s.states[i] = a.table(inner, w.headLen)
		} else {
			s.caches[i] = b.attn.cache(a, 0)
		}
	}
	if slices.ContainsFunc(blocks, func(b qwen35Block) bool { return b.delta != nil }) {
		s.c = a.perToken(w.channels())
		s.z, s.o = a.perToken(inner), a.perToken(inner)
		s.beta, s.decay = a.perToken(w.valHeads), a.perToken(w.valHeads)
	}
	return s
}

func (s *qwen35State) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	s.rope.prepare(p)
	for i := range s.blocks {
		b := &s.blocks[i]

		e.normRows(h, p.x, b.norm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		if b.delta != nil {
			s.mix(e, y, b.delta, s.windows[i], s.states[i], p)
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

// mix writes the output of a DeltaNet layer for the current activations to y.
func (s *qwen35State) mix(e *engine, y []float32, b *deltaNet, w *window, state []float32, p pass) {
	e.mul(w.input(), &b.qkv)
	z := s.z[:p.tokens*b.gate.out]
	e.mul(z, &b.gate)
	beta, decay := s.beta[:p.tokens*s.valHeads], s.decay[:p.tokens*s.valHeads]
	e.mul(beta, &b.beta)
	e.mul(decay, &b.alpha)
	for i := range beta {
		j := i % s.valHeads
		beta[i] = sigmoid(beta[i])
		decay[i] = kernels.Exp(b.a[j] * softplus(decay[i]+b.dtBias[j]))
	}
	e.convolve(s.c, w, p.tokens, true)
	skip, keys := s.channels(), s.keyHeads*s.headLen
	for t := range p.tokens {
		for at := 0; at < 2*keys; at += s.headLen { // queries, then keys
			normalizeLength(s.c[t*skip+at:t*skip+at+s.headLen], s.eps)
		}
	}
	o := s.o[:p.tokens*b.gate.out]
	e.delta(deltaTask{state: state, q: s.c, k: s.c[keys:], v: s.c[2*keys:], skip: skip, decay: decay, beta: beta, out: o,
		heads: s.valHeads, shared: s.keyHeads, dk: s.headLen, dv: s.headLen, tokens: p.tokens})
	e.normRows(o, o, b.norm, p.tokens*s.valHeads, s.eps) // norm first, then gate
	for i, v := range z {
		o[i] *= silu(v)
	}
	e.act.set(o, p.tokens, b.gate.out)
	e.mul(y, &b.out)
}

func (w *qwen35) canDraft() bool { return w.next != nil }

type qwen35Draft struct {
	*qwen35State
	next *qwen35NextN
}

func (w *qwen35) drafter(a *arena) draftNetwork {
	s := w.newState(a, []qwen35Block{w.next.block})
	s.both = a.perToken(2 * w.width)
	return &qwen35Draft{s, w.next}
}

func (s *qwen35Draft) extras() *nextn { return &s.next.nextn }

func (s *qwen35Draft) draft(e *engine, p pass, hidden []float32) {
	s.next.enter(e, p, hidden, s.both, s.eps)
	s.forward(e, p)
	e.normRows(p.x, p.x, s.next.outNorm, p.tokens, s.eps)
}
