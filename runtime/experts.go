package runtime

import (
	"math"

	"gguf-forge/kernels"
)

// experts is a mixture of feed-forward networks: a router chooses some of them for each token and weighs them. A
// shared one, if present, is added unweighted.
type experts struct {
	router   matrix    // [d, E]
	bias     []float32 // [E] or nil: added to the probabilities for the choice only
	gate, up matrix    // [d, Fe, E]
	down     matrix    // [Fe, d, E]
	shared   feedForward
	rule     routing
	clamp    float32 // see gluTask
}

// routing is how experts are chosen.
type routing struct {
	count, used       int // E and k
	groups, groupUsed int // only the best groups may be chosen from; 1 group: no such limit
	sigmoid           bool
	normalize         bool    // the weights of the chosen add up to 1
	scale             float32 // of the weights
}

func readRouting(k *keys) routing {
	r := routing{
		count:     k.count("expert_count", 0),
		used:      k.count("expert_used_count", 0),
		groups:    max(1, k.count("expert_group_count", 1)),
		groupUsed: k.count("expert_group_used_count", 1),
		normalize: k.flag("expert_weights_norm", false),
		scale:     float32(k.scale("expert_weights_scale", 1)),
	}
	switch f := k.count("expert_gating_func", 1); f {
	case 0, 1:
	case 2:
		r.sigmoid = true
	default:
		k.fail("%s.expert_gating_func is %d; 1 (softmax) and 2 (sigmoid) are supported", k.arch, f)
	}
	if r.count == 0 {
		return r
	}
	if r.used < 1 || r.used > r.count {
		k.fail("%s uses %d of %d experts", k.arch, r.used, r.count)
	}
	if r.groups > 1 && (r.count%r.groups != 0 || r.groupUsed < 1 || r.groupUsed >= r.groups || r.count/r.groups < 2 ||
		r.used > r.groupUsed*(r.count/r.groups)) {
		k.fail("%s routes to %d of %d experts in %d of %d groups", k.arch, r.used, r.count, r.groupUsed, r.groups)
	}
	return r
}

// declare reads the tensors of block prefix with experts of hidden values, and a shared network of sharedHidden (0: none).
func (x *experts) declare(l *loader, prefix string, width, hidden, sharedHidden int, r routing) {
	x.rule = r
	l.matrix(&x.router, prefix+"ffn_gate_inp", width, r.count)
	l.optional(&x.bias, prefix+"exp_probs_b.bias", r.count)
	if fused := prefix + "ffn_gate_up_exps"; l.has(fused + ".weight") {
		l.stack(&x.gate, fused, width, 2*hidden, r.count, 1) // gate rows, then up rows
	} else {
		l.stack(&x.gate, prefix+"ffn_gate_exps", width, hidden, r.count, 1)
		l.stack(&x.up, prefix+"ffn_up_exps", width, hidden, r.count, 1)
	}
	l.stack(&x.down, prefix+"ffn_down_exps", hidden, width, r.count, r.used)
	if sharedHidden > 0 {
		x.shared.declare(l, prefix, "_shexp", width, sharedHidden)
	}
}

// expertScratch is working memory for experts of any layer.
type expertScratch struct {
	routing routing
	probs   []float32 // [tokens][E]
	weights []float32 // [tokens][k]
	choice  []int32   // [tokens][k]
	groups  []group   // one for each expert in use
	source  []int32   // token of pair i; pairs are sorted by expert
	place   []int32   // [tokens][k]: the pair
	score   []float32 // [E]
	best    []float32 // [groups]
	gate    []float32 // [pairs][Fe], or [pairs][2Fe]
	up      []float32 // [pairs][Fe]
	out     []float32 // [pairs][d]
}

func newExpertScratch(a *arena, r routing, hidden, width int, fused bool) expertScratch {
	s := expertScratch{routing: r}
	s.probs = a.perToken(r.count)
	s.weights = a.perToken(r.used)
	s.score = a.buffer(r.count)
	s.best = a.buffer(r.groups)
	s.up = a.perToken(r.used, hidden)
	if fused {
		s.gate = a.perToken(r.used, 2*hidden)
	} else {
		s.gate = a.perToken(r.used, hidden)
	}
	s.out = a.perToken(r.used, width)
	a.memory.Buffers += 12*int64(a.batch)*int64(r.used) + 24*int64(r.count)
	if !a.dry {
		n := a.batch * r.used
		s.choice, s.source, s.place = make([]int32, n), make([]int32, n), make([]int32, n)
		s.groups = make([]group, 0, r.count)
	}
	return s
}

// mix writes the mixture for h, [rows][d], to dst. It leaves other activations behind.
func (e *engine) mix(dst, h []float32, x *experts, s *expertScratch, ff feedForwardScratch) {
	width, rows := x.router.in, len(h)/x.router.in
	e.act.set(h, rows, width)
	e.mul(s.probs, &x.router)
	for t := range rows {
		s.choose(x, t)
	}
	s.sort(rows)
	pairs := rows * x.rule.used

	hidden := x.down.in
	gate, up := s.gate[:pairs*x.gate.out], s.up[:pairs*hidden]
	e.mulGroups(gate, x.gate.out, &x.gate, s.groups, s.source)
	if x.up.present() {
		e.mulGroups(up, hidden, &x.up, s.groups, s.source)
	} else {
		gate = split(gate, up, hidden)
	}
	if x.shared.gate.present() {
		e.feed(dst, &x.shared, ff)
	} else {
		clear(dst[:rows*width])
	}
	e.gated(gate, up, siluGate, x.clamp)
	e.act.set(gate, pairs, hidden)
	e.mulGroups(s.out, width, &x.down, s.groups, nil)
	for t := range rows {
		y := dst[t*width : (t+1)*width]
		for i := range x.rule.used {
			pair := int(s.place[t*x.rule.used+i])
			addScaled(y, s.out[pair*width:(pair+1)*width], s.weights[t*x.rule.used+i])
		}
	}
}

// split moves the second half of every row of 2·hidden values to up and closes the gaps.
func split(both, up []float32, hidden int) []float32 {
	n := len(up) / hidden
	for i := range n {
		copy(up[i*hidden:], both[(2*i+1)*hidden:(2*i+2)*hidden])
		copy(both[i*hidden:], both[2*i*hidden:(2*i+1)*hidden])
	}
	return both[:n*hidden]
}

// choose selects the experts of token t from its router logits and weighs them.
func (s *expertScratch) choose(x *experts, t int) {
	r := x.rule
	p := s.probs[t*r.count : (t+1)*r.count]
	if r.sigmoid {
		for i, z := range p {
			p[i] = sigmoid(z)
		}
	} else {
		softmax(p)
	}
	score := s.score
	copy(score, p)
	if x.bias != nil {
		add(score, x.bias)
	}
	if r.groups > 1 {
		s.limitGroups(r)
	}
	choice, weights := s.choice[t*r.used:(t+1)*r.used], s.weights[t*r.used:(t+1)*r.used]
	sum := float32(0)
	for i := range choice {
		best := highest(score)
		score[best] = float32(math.Inf(-1))
		choice[i], weights[i] = int32(best), p[best]
		sum += p[best]
	}
	f := r.scale
	if r.normalize {
		f /= max(sum, 0x1p-14)
	}
	for i := range weights {
		weights[i] *= f
	}
}

// limitGroups rules out all but the groups with the highest sum of their two best scores.
func (s *expertScratch) limitGroups(r routing) {
	size := r.count / r.groups
	for g := range s.best {
		first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
		for _, v := range s.score[g*size : (g+1)*size] {
			if v > first {
				first, second = v, first
			} else if v > second {
				second = v
			}
		}
		s.best[g] = first + second
	}
	for range r.groups - r.groupUsed {
		worst := 0
		for g, v := range s.best {
			if v <= s.best[worst] { // of equals the last one goes
				worst = g
			}
		}
		s.best[worst] = float32(math.Inf(1))
		for i := worst * size; i < (worst+1)*size; i++ {
			s.score[i] = float32(math.Inf(-1))
		}
	}
}

// sort groups the chosen (token, expert) pairs by expert.
func (s *expertScratch) sort(rows int) {
	n := rows * s.routing.used
	s.groups = s.groups[:0]
	pair := 0
	for expert := range s.routing.count {
		lo := pair
		for i := range n {
			if int(s.choice[i]) == expert {
				s.source[pair] = int32(i / s.routing.used)
				s.place[i] = int32(pair)
				pair++
			}
		}
		if pair > lo {
			s.groups = append(s.groups, group{expert, lo, pair})
		}
	}
}

// highest returns the index of the largest value, the first of equals.
func highest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// softmax replaces x by eˣ/Σeˣ.
func softmax(x []float32) {
	scaleAll(x, 1/kernels.ExpSum(x, 1, kernels.Max(x)))
}
