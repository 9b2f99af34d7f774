package runtime

import (
	"math"

	"gguf-forge/kernels"
)

// bailingmoe3: Ling 3.0. Kimi delta attention (KDA), and latent attention (MLA) in the layers that have key heads; after some leading
// dense layers a mixture of experts. A NextN block, one more MLA block, may follow the trunk.

type bailingMoE3 struct {
	common
	rope    rope
	blocks  []bailingMoE3Block
	next    *bailingMoE3NextN // nil: none
	routing routing
	ff      int // widest dense or shared network
	expert  int // Fe
	fused   bool

	kdaLen  int     // dk of KDA
	bound   float32 // λ < 0: log decay is between λ and 0
	latent  int     // r, kv_lora_rank
	rotated int     // n_rot
	plain   int     // nope: values of a query that are not rotated
	mlaVal  int     // dv of MLA
}

type bailingMoE3Block struct {
	norm    []float32 // [d]
	kda     *kda      // one of the two
	mla     *mla
	ffnNorm []float32 // [d]
	ffn     feedForward
	experts *experts // nil: the layer is dense
}

// kda holds the weights of a KDA layer. D = H·dk.
type kda struct {
	proj   [3]matrix // q, k, v: [d, D]
	filter [3]conv   // [K, D]
	decay  matrix    // [d, D]
	dtBias []float32 // [D]
	a      []float32 // [H], positive
	beta   matrix    // [d, H]
	gate   matrix    // [d, D]
	norm   []float32 // [dk]
	out    matrix    // [D, d]
}

// mla holds the weights of an MLA layer in absorbed form: keys and values of all heads are one latent vector of r values and one
// rotated key of n_rot.
type mla struct {
	qDown     matrix    // [d, rq], or absent
	qDownNorm []float32 // [rq]
	q         matrix    // [rq or d, H·(nope + n_rot)]
	kv        matrix    // [d, r + n_rot]
	kvNorm    []float32 // [r]
	kUp       matrix    // [nope, r, H]: takes a query to latent space
	vUp       matrix    // [r, dv, H]: takes the result back
	gate      matrix    // [d, H]
	out       matrix    // [H·dv, d]
}

type bailingMoE3NextN struct {
	nextn
	block bailingMoE3Block
}

func loadBailingMoE3(k *keys, l *loader, m *Model) weights {
	w := &bailingMoE3{common: readCommon(k), routing: readRouting(k), expert: k.size("expert_feed_forward_length", 0),
		kdaLen: k.needCount("kda.head_dim"), bound: float32(k.float("kda.gate_lower_bound", 0)),
		latent: k.needCount("attention.kv_lora_rank"), rotated: k.needCount("rope.dimension_count"), mlaVal: k.needCount("attention.value_length_mla")}
	w.plain = k.needCount("attention.key_length_mla") - w.rotated
	if w.plain < 1 || w.bound >= 0 || !k.flag("kda.safe_gate", true) {
		k.fail("bailingmoe3: kda.safe_gate must be true, kda.gate_lower_bound negative and rope.dimension_count below attention.key_length_mla")
		w.plain = 1
	}
	hasNextN := l.trunk(&w.common)
	w.rope = readRope(k, w.rotated, false, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	m.ends.declare(k, l, w.common, "output_norm.weight")
	w.ff = max(k.size("feed_forward_length", 0), k.size("expert_shared_feed_forward_length", 0))
	w.blocks = make([]bailingMoE3Block, w.layers)
	for i := range w.blocks {
		w.declareBlock(k, l, &w.blocks[i], i)
	}
	if hasNextN {
		w.next = &bailingMoE3NextN{}
		w.next.declare(l, w.common, &m.ends, w.layers, "layer_output_norm.weight")
		w.declareBlock(k, l, &w.next.block, w.layers)
		if w.next.block.mla == nil {
			k.fail("the NextN block %d has no key heads", w.layers)
		}
	}
	return w
}

func (w *bailingMoE3) declareBlock(k *keys, l *loader, b *bailingMoE3Block, i int) {
	l.vector(&b.norm, block(i, "attn_norm.weight"), w.width)
	if w.kvHeads[i] > 0 {
		b.mla = &mla{}
		w.declareMLA(l, b.mla, i)
	} else {
		b.kda = &kda{}
		w.declareKDA(k, l, b.kda, i)
	}
	l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
	dense, shared := k.size("feed_forward_length", 0), k.size("expert_shared_feed_forward_length", 0)
	sharedClamp := clampOf(k, "swiglu_clamp_shexp", i)
	if i < k.count("leading_dense_block_count", 0) {
		b.ffn.declare(l, block(i, ""), "", w.width, dense)
		b.ffn.clamp = sharedClamp
		return
	}
	b.experts = &experts{clamp: clampOf(k, "swiglu_clamp_exp", i)}
	b.experts.declare(l, block(i, ""), w.width, w.expert, shared, w.routing)
	b.experts.shared.clamp = sharedClamp
	w.fused = w.fused || !b.experts.up.present()
}

// clampOf returns element i of an array of clamps, 0 (off) where there is none.
func clampOf(k *keys, key string, i int) float32 {
	v, _ := k.get(key)
	if list, ok := v.Floats(); ok && i < len(list) {
		return float32(list[i])
	}
	return 0
}

func (w *bailingMoE3) declareKDA(k *keys, l *loader, b *kda, i int) {
	inner, taps := w.heads*w.kdaLen, k.needCount("ssm.conv_kernel")
	for j, name := range []string{"q", "k", "v"} {
		l.matrix(&b.proj[j], block(i, "attn_"+name), w.width, inner)
		l.convolution(&b.filter[j], block(i, "ssm_conv1d_"+name), taps, inner)
	}
	l.matrix(&b.decay, either(l, block(i, "ssm_f_a"), block(i, "ssm_f")), w.width, inner)
	l.vector(&b.dtBias, block(i, "ssm_dt.bias"), inner)
	l.vector(&b.a, block(i, "ssm_a"), w.heads)
	l.matrix(&b.beta, block(i, "ssm_beta"), w.width, w.heads)
	l.matrix(&b.gate, either(l, block(i, "ssm_g_a"), block(i, "ssm_g")), w.width, inner)
	l.vector(&b.norm, block(i, "ssm_norm.weight"), w.kdaLen)
	l.matrix(&b.out, block(i, "attn_output"), inner, w.width)
}

// either returns the second name if only its tensor is there: some writers shorten the names of the gates.
func either(l *loader, name, other string) string {
	if !l.has(name+".weight") && l.has(other+".weight") {
		return other
	}
	return name
}

func (w *bailingMoE3) declareMLA(l *loader, b *mla, i int) {
	query, in := w.plain+w.rotated, w.width
	if name := block(i, "attn_q_a"); l.has(name + ".weight") {
		in = l.dim(name+".weight", 1) // rq; not all writers give the key
		l.matrix(&b.qDown, name, w.width, in)
		l.vector(&b.qDownNorm, block(i, "attn_q_a_norm.weight"), in)
		l.matrix(&b.q, block(i, "attn_q_b"), in, w.heads*query)
	} else {
		l.matrix(&b.q, block(i, "attn_q"), in, w.heads*query)
	}
	l.matrix(&b.kv, block(i, "attn_kv_a_mqa"), w.width, w.latent+w.rotated)
	l.vector(&b.kvNorm, block(i, "attn_kv_a_norm.weight"), w.latent)
	l.stack(&b.kUp, block(i, "attn_k_b"), w.plain, w.latent, w.heads, w.heads)
	l.stack(&b.vUp, block(i, "attn_v_b"), w.latent, w.mlaVal, w.heads, w.heads)
	l.matrix(&b.gate, block(i, "attn_gate"), w.width, w.heads)
	l.matrix(&b.out, block(i, "attn_output"), w.heads*w.mlaVal, w.width)
}

type bailingMoE3State struct {
	*bailingMoE3
	blocks []bailingMoE3Block // of the trunk, or the one of the NextN block
	rope   *rope
	caches []*kvCache   // of MLA layers
	conv   [][3]*window // of KDA layers
	states [][]float32  // of KDA layers: [H][dv][dk]
	h, y   []float32    // [tokens][d]: normalized input and output of a half block
	kda    kdaScratch
	mla    mlaScratch
	ff     feedForwardScratch
	moe    expertScratch
	both   []float32 // [tokens][2d], NextN only
}

type kdaScratch struct {
	qkv   [3][]float32 // [tokens][D]
	decay []float32    // [tokens][D]
	gate  []float32    // [tokens][D]
	o     []float32    // [tokens][D]
	beta  []float32    // [tokens][H]
}

type mlaScratch struct {
	down   []float32 // [tokens][rq]
	q      []float32 // [tokens][H][nope + n_rot]
	plain  []float32 // [tokens][H][nope]
	query  []float32 // [tokens][H][r + n_rot], in latent space
	kv     []float32 // [tokens][r + n_rot]
	u      []float32 // [tokens][H][r], the result in latent space
	o      []float32 // [tokens][H][dv]
	gate   []float32 // [tokens][H]
	scores *attentionScratch
	groups []group // tokens × heads sorted by head
	source []int32
	sorted []float32 // [H][tokens][…], a product by head
}

func (w *bailingMoE3) session(a *arena) network { return w.newState(a, w.blocks) }

func (w *bailingMoE3) newState(a *arena, blocks []bailingMoE3Block) *bailingMoE3State {
	s := &bailingMoE3State{bailingMoE3: w, blocks: blocks, rope: w.rope.forSession(a), h: a.perToken(w.width), y: a.perToken(w.width),
		ff: newFeedForwardScratch(a, w.ff), caches: make([]*kvCache, len(blocks)), conv: make([][3]*window, len(blocks)),
		states: make([][]float32, len(blocks))}
	hasKDA, hasMLA, hasExperts, down := false, false, false, 0
	for i := range blocks {
		b := &blocks[i]
		hasExperts = hasExperts || b.experts != nil
		if b.kda != nil {
			hasKDA = true
			for j := range s.conv[i] {
				s.conv[i][j] = newWindow(a, &b.kda.filter[j])
			}
			s.states[i] = a.table(w.heads, w.kdaLen, w.kdaLen)
			continue
		}
		hasMLA = true
		down = max(down, b.mla.qDown.out)
		s.caches[i] = a.sharedCache(w.latent+w.rotated, w.latent)
	}
	if hasKDA {
		inner := w.heads * w.kdaLen
		for j := range s.kda.qkv {
			s.kda.qkv[j] = a.perToken(inner)
		}
		s.kda.decay, s.kda.gate, s.kda.o = a.perToken(inner), a.perToken(inner), a.perToken(inner)
		s.kda.beta = a.perToken(w.heads)
	}
	if hasMLA {
		s.mla = w.newMLAScratch(a, down)
	}
	if hasExperts {
		s.moe = newExpertScratch(a, w.routing, w.expert, w.width, w.fused)
	}
	return s
}

func (w *bailingMoE3) newMLAScratch(a *arena, down int) mlaScratch {
	s := mlaScratch{
		down:   a.perToken(down),
		q:      a.perToken(w.heads, w.plain+w.rotated),
		plain:  a.perToken(w.heads, w.plain),
		query:  a.perToken(w.heads, w.latent+w.rotated),
		kv:     a.perToken(w.latent + w.rotated),
		u:      a.perToken(w.heads, w.latent),
		o:      a.perToken(w.heads, w.mlaVal),
		gate:   a.perToken(w.heads),
		sorted: a.perToken(w.heads, max(w.latent, w.mlaVal)),
		scores: newAttentionScratch(a, w.heads, w.latent+w.rotated, w.latent),
	}
	a.memory.Buffers += 4*elements(w.heads, a.batch) + 24*int64(w.heads)
	if !a.dry {
		s.groups, s.source = make([]group, w.heads), make([]int32, w.heads*a.batch)
	}
	return s
}

func (s *bailingMoE3State) forward(e *engine, p pass) {
	n := p.tokens * s.width
	h, y := s.h[:n], s.y[:n]
	s.rope.prepare(p)
	for i := range s.blocks {
		b := &s.blocks[i]

		e.normRows(h, p.x, b.norm, p.tokens, s.eps)
		e.act.set(h, p.tokens, s.width)
		if b.kda != nil {
			s.mixKDA(e, y, b.kda, &s.conv[i], s.states[i], p)
		} else {
			s.mixMLA(e, y, b.mla, s.caches[i], p)
		}
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

// mixKDA writes the output of a KDA layer for the current activations to y.
func (s *bailingMoE3State) mixKDA(e *engine, y []float32, b *kda, w *[3]*window, state []float32, p pass) {
	inner := s.heads * s.kdaLen
	n := p.tokens * inner
	for j := range w {
		e.mul(w[j].input(), &b.proj[j])
	}
	decay, gate, beta := s.kda.decay[:n], s.kda.gate[:n], s.kda.beta[:p.tokens*s.heads]
	e.mul(decay, &b.decay)
	e.mul(gate, &b.gate)
	e.mul(beta, &b.beta)
	for i, f := range decay {
		ch := i % inner
		decay[i] = kernels.Exp(s.bound * sigmoid(b.a[ch/s.kdaLen]*(f+b.dtBias[ch])))
	}
	for i, v := range beta {
		beta[i] = sigmoid(v)
	}
	qkv := &s.kda.qkv
	for j := range w {
		e.convolve(qkv[j], w[j], p.tokens, true)
	}
	e.lengthHeads(qkv[0][:n], p.tokens*s.heads, s.kdaLen, s.eps)
	e.lengthHeads(qkv[1][:n], p.tokens*s.heads, s.kdaLen, s.eps)
	o := s.kda.o[:n]
	e.delta(deltaTask{state: state, q: qkv[0], k: qkv[1], v: qkv[2], skip: inner, decay: decay, beta: beta, out: o,
		heads: s.heads, shared: s.heads, dk: s.kdaLen, dv: s.kdaLen, tokens: p.tokens, channel: true})
	e.normRows(o, o, b.norm, p.tokens*s.heads, s.eps) // norm first, then gate
	for i, v := range gate {
		o[i] *= sigmoid(v)
	}
	e.act.set(o, p.tokens, inner)
	e.mul(y, &b.out)
}

// mixMLA writes the output of an MLA layer for the current activations to y.
func (s *bailingMoE3State) mixMLA(e *engine, y []float32, b *mla, c *kvCache, p pass) {
	x := &s.mla
	heads, plain, rotated, latent := s.heads, s.plain, s.rotated, s.latent
	row, query := latent+rotated, plain+rotated
	kv, gate, q := x.kv[:p.tokens*row], x.gate[:p.tokens*heads], x.q[:p.tokens*heads*query]
	e.mul(kv, &b.kv)
	e.mul(gate, &b.gate)
	if b.qDown.present() {
		down := x.down[:p.tokens*b.qDown.out]
		e.mul(down, &b.qDown)
		e.normRows(down, down, b.qDownNorm, p.tokens, s.eps)
		e.act.set(down, p.tokens, b.qDown.out)
	}
	e.mul(q, &b.q)
	e.normHeads(kv, b.kvNorm, p.tokens, row, s.eps)
	e.rotate(s.rope, q, p.tokens, heads, query, plain)
	e.rotate(s.rope, kv, p.tokens, 1, row, latent)

	for i := range p.tokens * heads {
		copy(x.plain[i*plain:(i+1)*plain], q[i*query:])
	}
	x.sort(p.tokens, heads)
	e.act.set(x.plain, p.tokens*heads, plain)
	e.mulGroups(x.sorted, latent, &b.kUp, x.groups, x.source[:p.tokens*heads])
	for i, at := range x.source[:p.tokens*heads] {
		dst := x.query[int(at)*row : (int(at)+1)*row]
		copy(dst[:latent], x.sorted[i*latent:])
		copy(dst[latent:], q[int(at)*query+plain:])
	}

	u, o := x.u[:p.tokens*heads*latent], x.o[:p.tokens*heads*s.mlaVal]
	scale := float32(1 / math.Sqrt(float64(query)))
	e.attend(x.scores, p, c, u, x.query, kv, nil, heads, scale)

	e.act.set(u, p.tokens*heads, latent)
	e.mulGroups(x.sorted, s.mlaVal, &b.vUp, x.groups, x.source[:p.tokens*heads])
	for i, at := range x.source[:p.tokens*heads] {
		g := sigmoid(gate[at])
		for j, v := range x.sorted[i*s.mlaVal : (i+1)*s.mlaVal] {
			o[int(at)*s.mlaVal+j] = v * g
		}
	}
	e.act.set(o, p.tokens, heads*s.mlaVal)
	e.mul(y, &b.out)
}

// sort groups the heads of all tokens by head: a head has a map of its own.
func (x *mlaScratch) sort(tokens, heads int) {
	for h := range heads {
		x.groups[h] = group{h, h * tokens, (h + 1) * tokens}
		for t := range tokens {
			x.source[h*tokens+t] = int32(t*heads + h)
		}
	}
}

func (w *bailingMoE3) canDraft() bool { return w.next != nil }

type bailingMoE3Draft struct {
	*bailingMoE3State
	next *bailingMoE3NextN
}

func (w *bailingMoE3) drafter(a *arena) draftNetwork {
	s := w.newState(a, []bailingMoE3Block{w.next.block})
	s.both = a.perToken(2 * w.width)
	return &bailingMoE3Draft{s, w.next}
}

func (s *bailingMoE3Draft) extras() *nextn { return &s.next.nextn }

func (s *bailingMoE3Draft) draft(e *engine, p pass, hidden []float32) {
	s.next.enter(e, p, hidden, s.both, s.eps)
	s.forward(e, p)
	e.normRows(p.x, p.x, s.next.outNorm, p.tokens, s.eps)
}
