package runtime

import (
	"errors"

	"gguf-forge/internal/fault"
)

// draftWeights is an architecture that may have a NextN block: one more block that predicts the token after the next from
// a token and the hidden vector before it.
type draftWeights interface {
	canDraft() bool
	// drafter makes the memory of one drafting sequence.
	drafter(a *arena) draftNetwork
}

// draftNetwork runs the NextN block over the tokens of a pass. p.x holds their embeddings; hidden the hidden vectors of the
// positions before, [tokens][d]. It leaves its own normalized output in p.x.
type draftNetwork interface {
	draft(e *engine, p pass, hidden []float32)
	// extras returns what the block has of its own.
	extras() *nextn
}

// nextn holds what every NextN block adds to an ordinary block of its architecture.
type nextn struct {
	embedNorm, hiddenNorm []float32 // [d]
	join                  matrix    // [2d, d]: of embedding and hidden vector
	outNorm               []float32 // [d]
	ownHead, ownEmbed     matrix    // [d, vocab], rarely there: the model's own otherwise
}

// declare reads the tensors of block i. outNorm is the name of its final norm; without it the block uses the model's.
func (n *nextn) declare(l *loader, c common, x *ends, i int, outNorm string) {
	l.vector(&n.embedNorm, block(i, "nextn.enorm.weight"), c.width)
	l.vector(&n.hiddenNorm, block(i, "nextn.hnorm.weight"), c.width)
	l.matrix(&n.join, block(i, "nextn.eh_proj"), 2*c.width, c.width)
	if !l.has(block(i, outNorm)) {
		outNorm = ""
	}
	if outNorm != "" {
		l.vector(&n.outNorm, block(i, outNorm), c.width)
	} else {
		l.vector(&n.outNorm, "output_norm.weight", c.width)
	}
	if l.has(block(i, "nextn.shared_head_head.weight")) {
		l.matrix(&n.ownHead, block(i, "nextn.shared_head_head"), c.width, x.vocab)
	}
	if l.has(block(i, "nextn.embed_tokens.weight")) {
		l.matrix(&n.ownEmbed, block(i, "nextn.embed_tokens"), c.width, x.vocab)
	}
}

// trunk corrects the number of trunk layers where the metadata count NextN blocks that are not in the file, and reports whether
// there is one.
func (l *loader) trunk(c *common) (hasNextN bool) {
	if c.nextn == 0 {
		return false
	}
	if l.has(block(c.layers, "nextn.eh_proj.weight")) {
		return true
	}
	for c.layers < len(c.kvHeads) && l.has(block(c.layers, "attn_norm.weight")) {
		c.layers++
	}
	return false
}

// enter writes W(norm(embedding) ‖ norm(hidden)) to p.x. both is [tokens][2d].
func (n *nextn) enter(e *engine, p pass, hidden, both []float32, eps float32) {
	width := n.join.out
	for t := range p.tokens {
		normalize(both[2*t*width:(2*t+1)*width], p.x[t*width:(t+1)*width], n.embedNorm, eps)
		normalize(both[(2*t+1)*width:(2*t+2)*width], hidden[t*width:(t+1)*width], n.hiddenNorm, eps)
	}
	e.act.set(both, p.tokens, 2*width)
	e.mul(p.x, &n.join)
}

// head returns the head of the block, nil for the model's.
func (n *nextn) head() *matrix {
	if n.ownHead.present() {
		return &n.ownHead
	}
	return nil
}

// embedding writes the embedding of a token to dst.
func (n *nextn) embedding(x *ends, dst []float32, id int32) {
	if n.ownEmbed.present() {
		n.ownEmbed.decode(dst, int(id))
	} else {
		x.embedding(dst, id)
	}
}

// Drafter proposes tokens with the NextN block of a model. It has a cache of its own, which the caller keeps in step: after
// the session has evaluated tokens x_a…x_b, Eval of the same tokens with the hidden vectors of a−1…b−1 (zero before the
// first) fills it; drafted positions are given up with Truncate.
type Drafter struct {
	m      *Model
	opt    SessionOptions
	arena  *arena
	engine *engine
	net    draftNetwork

	pos    int
	x      []float32 // [batch][d]
	logits []float32
	pruned []float32
}

// NewDrafter makes an empty drafter. Context and KV mean what they mean for sessions.
func (m *Model) NewDrafter(opt SessionOptions) (*Drafter, error) {
	if !m.HasMTP() {
		return nil, fault.New(fault.BadInput, "the model has no NextN block to draft with")
	}
	opt, err := m.complete(opt)
	if err != nil {
		return nil, err
	}
	dry := m.arena(opt, true)
	m.newDrafter(opt, dry)
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.memory.plus(dry.memory)
	all.Buffers += m.used
	if err := m.fits(all); err != nil {
		return nil, err
	}
	m.used += dry.memory.Total()
	return m.newDrafter(opt, m.arena(opt, false)), nil
}

func (m *Model) newDrafter(opt SessionOptions, a *arena) *Drafter {
	d := &Drafter{m: m, opt: opt, arena: a, engine: newEngine(m.pool, a, m.acts, m.opt.Exact), net: m.weights.(draftWeights).drafter(a)}
	d.x = a.perToken(m.common.width)
	d.logits = a.buffer(m.ends.vocab)
	if m.ends.idsTensor >= 0 {
		d.pruned = a.buffer(m.ends.head.out)
	}
	return d
}

// Close gives the drafter's share of the memory limit back.
func (d *Drafter) Close() {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.m.used -= d.arena.memory.Total()
	*d = Drafter{}
}

// Position returns the position of the next token.
func (d *Drafter) Position() int { return d.pos }

// Eval appends tokens, each with the hidden vector of the position before it: hidden is [len(ids)][d]. It calls each, if not
// nil, with the logits for the position after a token and the block's hidden vector, which is the input of a further draft;
// both are valid during the call.
func (d *Drafter) Eval(ids []int32, hidden []float32, each func(i int, logits, hidden []float32) error) error {
	width := d.m.common.width
	if len(hidden) != len(ids)*width {
		return fault.New(fault.Usage, "%d tokens need hidden vectors of %d values in all, not %d", len(ids), len(ids)*width, len(hidden))
	}
	if d.pos+len(ids) > d.opt.Context {
		return fault.New(fault.BadInput, "%w: %d positions are taken, %d more don't fit into %d", ErrContextFull, d.pos, len(ids), d.opt.Context)
	}
	if err := d.m.ends.check(ids); err != nil {
		return err
	}
	for done := 0; done < len(ids); {
		n := min(d.opt.Batch, len(ids)-done)
		p := pass{tokens: n, pos: d.pos, x: d.x[:n*width]}
		for i, id := range ids[done : done+n] {
			d.net.extras().embedding(&d.m.ends, p.x[i*width:(i+1)*width], id)
		}
		d.net.draft(d.engine, p, hidden[done*width:(done+n)*width])
		d.pos += n
		for i := 0; i < n && each != nil; i++ {
			h := p.x[i*width : (i+1)*width]
			d.m.ends.logits(d.engine, d.net.extras().head(), d.logits, d.pruned, h, 1)
			if err := each(done+i, d.logits, h); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}

// Truncate gives up all positions from pos on.
func (d *Drafter) Truncate(pos int) error {
	if pos < 0 || pos > d.pos {
		return errors.New("the drafter has no such position")
	}
	d.pos = pos
	return nil
}
