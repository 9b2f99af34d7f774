package runtime

import "gguf-forge/kernels"

// granitehybrid: Granite 4.0 H. Mamba-2 layers, and attention in the layers that have key heads; a SwiGLU network or a mixture of
// experts after each. Four scales: of the embedding, of both residual branches, of the scores and of the logits.

type graniteHybrid struct {
	common
	rope     *rope // nil: positions don't count
	blocks   []graniteBlock
	routing  routing
	residual float32
	ff       int // widest dense or shared network
	expert   int // Fe
	fused    bool

	inner, ssmHeads int // d_inner, and the heads Hs it is divided into
	groups, stateN  int // G, N
}

type graniteBlock struct {
	norm    []float32 // [d]
	attn    selfAttention
	mamba   *mamba    // nil: the layer attends
	ffnNorm []float32 // [d]
	ffn     feedForward
	experts *experts // nil: the layer is dense
}

// mamba holds the weights of a Mamba-2 layer. X = d_inner + 2·G·N channels go through the convolution.
type mamba struct {
	in     matrix    // [d, d_inner + X + Hs]: z, xBC, dt
	filter conv      // [K, X], with bias
	dtBias []float32 // [Hs]
	a      []float32 // [Hs], negative
	direct []float32 // [Hs]: D
	norm   []float32 // [d_inner]: RMS over each of G groups
	out    matrix    // [d_inner, d]
}

func loadGraniteHybrid(k *keys, l *loader, m *Model) weights {
	w := &graniteHybrid{common: readCommon(k), routing: readRouting(k), residual: float32(k.scale("residual_scale", 1)),
		inner: k.size("ssm.inner_size", 0), ssmHeads: k.count("ssm.time_step_rank", 0),
		groups: k.count("ssm.group_count", 0), stateN: k.count("ssm.state_size", 0)}
	w.routing.sigmoid, w.routing.normalize, w.routing.scale, w.routing.groups = false, true, 1, 1
	if k.flag("rope.scaling.finetuned", true) {
		r := readRope(k, k.count("rope.dimension_count", w.keyLen), false, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
		r.mustFit(k, w.keyLen)
		l.optional(&r.factors, "rope_freqs.weight", r.n/2)
		w.rope = &r
	}
	m.ends.declare(k, l, w.common, "output_norm.weight")
	m.ends.embedScale = float32(k.scale("embedding_scale", 1))
	m.ends.logitScale = float32(1 / k.scale("logit_scale", 1))
	scale := k.float("attention.scale", 0)
	if scale < 0 {
		k.fail("granitehybrid.attention.scale is %g, which is negative", scale)
	}
	shared := k.size("expert_shared_feed_forward_length", 0)
	w.expert = k.size("feed_forward_length", 0)
	w.ff = shared
	w.blocks = make([]graniteBlock, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		l.vector(&b.norm, block(i, "attn_norm.weight"), w.width)
		if w.kvHeads[i] > 0 {
			b.attn.declare(l, w.common, i, false)
			if scale != 0 {
				b.attn.scale = float32(scale)
			}
		} else {
			b.mamba = &mamba{}
			w.declareMamba(k, l, b.mamba, i)
		}
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		if w.routing.count == 0 {
			// The width in the metadata may be that of the experts the model doesn't have: the tensor knows.
			ff := l.dim(block(i, "ffn_gate.weight"), 1)
			b.ffn.declare(l, block(i, ""), "", w.width, ff)
			w.ff = max(w.ff, ff)
			continue
		}
		b.experts = &experts{}
		b.experts.declare(l, block(i, ""), w.width, w.expert, shared, w.routing)
		w.fused = w.fused || !b.experts.up.present()
	}
	return w
}

func (w *graniteHybrid) declareMamba(k *keys, l *loader, b *mamba, i int) {
	if w.inner < 1 || w.ssmHeads < 1 || w.groups < 1 || w.stateN < 1 || w.inner%w.ssmHeads != 0 || w.ssmHeads%w.groups != 0 || w.inner%w.groups != 0 {
		k.fail("granitehybrid.ssm: %d values in %d heads and %d groups with states of %d don't go together", w.inner, w.ssmHeads, w.groups, w.stateN)
		return
	}
	x := w.channels()
	l.matrix(&b.in, block(i, "ssm_in"), w.width, w.inner+x+w.ssmHeads)
	l.convolution(&b.filter, block(i, "ssm_conv1d"), k.needCount("ssm.conv_kernel"), x)
	l.vector(&b.dtBias, block(i, "ssm_dt.bias"), w.ssmHeads)
	l.vector(&b.a, block(i, "ssm_a"), w.ssmHeads)
	l.vector(&b.direct, block(i, "ssm_d"), w.ssmHeads)
	l.vector(&b.norm, block(i, "ssm_norm.weight"), w.inner)
	l.matrix(&b.out, block(i, "ssm_out"), w.inner, w.width)
}

// channels returns X, the width of the convolution.
func (w *graniteHybrid) channels() int { return w.inner + 2*w.groups*w.stateN }

type graniteState struct {
	*graniteHybrid
	rope    *rope
	caches  []*kvCache  // of attention layers
	windows []*window   // of Mamba layers
	states  [][]float32 // of Mamba layers: [Hs][P][N]
	h, y    []float32   // [tokens][d]: normalized input and output of a half block
	zxdt    []float32   // [tokens][d_inner + X + Hs]
	xbc     []float32   // [tokens][X]
	delta   []float32   // [tokens][Hs]
	decay   []float32   // [tokens][Hs]
	mixed   []float32   // [tokens][d_inner]
	attn    selfAttentionScratch
	ff      feedForwardScratch
	moe     expertScratch
}

func (w *graniteHybrid) session(a *arena) network {
	s := &graniteState{graniteHybrid: w, h: a.perToken(w.width), y: a.perToken(w.width),
		attn: newSelfAttentionScratch(a, w.common, false), ff: newFeedForwardScratch(a, w.ff),
		caches: make([]*kvCache, w.layers), windows: make([]*window, w.layers), states: make([][]float32, w.layers)}
	if w.rope != nil {
		s.rope = w.rope.forSession(a)
	}
	if w.routing.count > 0 {
		s.moe = newExpertScratch(a, w.routing, w.expert, w.width, w.fused)
	}
	hasMamba := false
	for i := range w.blocks {
		if b := &w.blocks[i]; b.mamba != nil {
			hasMamba = true
			s.windows[i] = newWindow(a, &b.mamba.filter)
			s.states[i] = a.table(w.inner, w.stateN)
		} else {
			s.caches[i] = b.attn.cache(a, 0)
		}
	}
	if hasMamba {
		s.zxdt = a.perToken(w.inner + w.channels() + w.ssmHeads)
		s.xbc = a.perToken(w.channels())
		s.delta, s.decay = a.perToken(w.ssmHeads), a.perToken(w.ssmHeads)
		s.mixed = a.perToken(w.inner)
	}
	return s
}

func (s *graniteState) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	if s.rope != nil {
		s.rope.prepare(p)
	}
	for i := range s.blocks {
		b := &s.blocks[i]

		e.normRows(h, p.x, b.norm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		if b.mamba != nil {
			s.mix(e, y, b.mamba, s.windows[i], s.states[i], p)
		} else {
			e.attendSelf(y, &b.attn, &s.attn, s.caches[i], p, s.rope)
		}
		addScaled(p.x, y, s.residual)

		e.normRows(h, p.x, b.ffnNorm, p.tokens, s.eps)
		if b.experts != nil {
			e.mix(y, h, b.experts, &s.moe, s.ff)
		} else {
			e.act.set(h, p.tokens, s.width)
			e.feed(y, &b.ffn, s.ff)
		}
		addScaled(p.x, y, s.residual)
	}
}

// mix writes the output of a Mamba layer for the current activations to y.
func (s *graniteState) mix(e *engine, y []float32, b *mamba, w *window, state []float32, p pass) {
	inner, x, heads := s.inner, s.channels(), s.ssmHeads
	row := inner + x + heads
	zxdt := s.zxdt[:p.tokens*row]
	e.mul(zxdt, &b.in)
	in := w.input()
	for t := range p.tokens {
		copy(in[t*x:(t+1)*x], zxdt[t*row+inner:])
		for j, dt := range zxdt[t*row+inner+x : (t+1)*row] {
			d := softplus(dt + b.dtBias[j])
			s.delta[t*heads+j] = d
			s.decay[t*heads+j] = kernels.Exp(d * b.a[j])
		}
	}
	e.convolve(s.xbc, w, p.tokens, true)
	out := s.mixed[:p.tokens*inner]
	e.scan(scanTask{state: state, xbc: s.xbc, delta: s.delta, decay: s.decay, direct: b.direct, out: out,
		heads: heads, groups: s.groups, p: inner / heads, n: s.stateN, tokens: p.tokens})
	group := inner / s.groups
	for t := range p.tokens { // gate first, then norm
		o := out[t*inner : (t+1)*inner]
		for j, z := range zxdt[t*row : t*row+inner] {
			o[j] *= silu(z)
		}
		for g := 0; g < inner; g += group {
			normalize(o[g:g+group], o[g:g+group], b.norm[g:g+group], s.eps)
		}
	}
	e.act.set(out, p.tokens, inner)
	e.mul(y, &b.out)
}
