package runtime

import (
	"bytes"
	"math"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// ends is what stands before and after the blocks: the embedding and the head.
//
// A pruned head keeps the rows of some tokens only; output_ids.weight names them. The logits of all other tokens are −∞.
type ends struct {
	embed      matrix // [d, vocab]
	head       matrix // [d, rows]; the embedding itself where the model has no other
	norm       []float32
	eps        float32
	vocab      int
	headIDs    []int32 // token of each row of the head, −1 for padding; nil: row i is token i
	rowOf      []int32 // row of the head whose bytes are a token's embedding, −1: none; nil: not looked for
	embedScale float32
	logitScale float32 // logits are multiplied by it
	softcap    float32 // c·tanh(logit/c); 0: off

	idsTensor int // of headIDs; −1: not pruned
}

func (x *ends) declare(k *keys, l *loader, c common, norm string) {
	*x = ends{eps: c.eps, embedScale: 1, logitScale: 1, idsTensor: -1, vocab: l.dim("token_embd.weight", 1)}
	x.softcap = float32(k.float("final_logit_softcapping", 0))
	l.matrix(&x.embed, "token_embd", c.width, x.vocab)
	l.vector(&x.norm, norm, c.width)
	switch {
	case l.has("output_ids.weight"):
		x.declarePruned(l, c.width)
	case l.has("output.weight"):
		l.matrix(&x.head, "output", c.width, x.vocab)
	}
	if !x.head.present() {
		x.head.typ, x.head.in = x.embed.typ, c.width // the embedding is also multiplied with activations
		l.acts.add(&x.head, 1, l.exact)
		x.head = matrix{}
	}
}

func (x *ends) declarePruned(l *loader, width int) {
	i := l.byName["output_ids.weight"]
	t := l.infos[i]
	rows := l.dim("output.weight", 1)
	if t.Type != gguf.I32 || t.Elements() != int64(rows) || rows == 0 {
		l.fail("tensor %q is %v of %s; output.weight has %d rows, so it must hold as many i32", t.Name, t.Shape, t.Type, rows)
		return
	}
	l.matrix(&x.head, "output", width, rows)
	x.idsTensor = i
	l.memory.Weights += 4*int64(rows) + 4*int64(x.vocab)
}

// load reads the ids of a pruned head.
func (x *ends) load(l *loader) error {
	if !x.head.present() {
		x.head = x.embed
	}
	if x.idsTensor < 0 {
		return nil
	}
	raw, err := l.bytes(x.idsTensor, 0, 4*int64(x.head.out))
	if err != nil {
		return err
	}
	x.headIDs = make([]int32, x.head.out)
	seen := make([]bool, x.vocab)
	for i := range x.headIDs {
		id := int32(uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24)
		if id < -1 || int(id) >= x.vocab || id >= 0 && seen[id] {
			return fault.New(fault.BadInput, "output_ids.weight holds id %d in row %d: it is outside the vocabulary of %d or there twice", id, i, x.vocab)
		}
		if id >= 0 {
			seen[id] = true
		}
		x.headIDs[i] = id
	}
	x.matchRows()
	return nil
}

// matchedRows is how many rows are compared, spread over the head, to tell whether its rows are copies of embedding rows:
// all of a small head, and of a large one as many as take no time to read.
const matchedRows = 1024

// matchRows makes embedding rows come from the head if those are byte copies: the head is read for every token and stays in
// memory, the embedding is not.
func (x *ends) matchRows() {
	if x.head.typ != x.embed.typ || x.head.bias != nil || x.head.scale != nil || x.embed.scale != nil {
		return
	}
	step := max(1, len(x.headIDs)/matchedRows)
	found := false
	for r := 0; r < len(x.headIDs); r += step {
		if id := x.headIDs[r]; id >= 0 {
			if !bytes.Equal(x.head.row(r), x.embed.row(int(id))) {
				return
			}
			found = true
		}
	}
	if !found {
		return
	}
	x.rowOf = make([]int32, x.vocab)
	for i := range x.rowOf {
		x.rowOf[i] = -1
	}
	for r, id := range x.headIDs {
		if id >= 0 {
			x.rowOf[id] = int32(r)
		}
	}
}

// embedding writes the embedding of a token to dst, [d].
func (x *ends) embedding(dst []float32, id int32) {
	w, r := &x.embed, int(id)
	if x.rowOf != nil && x.rowOf[id] >= 0 {
		w, r = &x.head, int(x.rowOf[id])
	}
	w.decode(dst, r)
	if w.scale != nil {
		scaleAll(dst, w.scale[0])
	}
	if x.embedScale != 1 {
		scaleAll(dst, x.embedScale)
	}
}

// check refuses tokens outside the vocabulary.
func (x *ends) check(ids []int32) error {
	for i, id := range ids {
		if id < 0 || int(id) >= x.vocab {
			return fault.New(fault.BadInput, "token %d, number %d of the input, is not in the vocabulary of %d", id, i+1, x.vocab)
		}
	}
	return nil
}

// logits writes the logits of rows normalized hidden vectors to dst, [rows][vocab]. own is a full head to use instead, or nil.
// scratch holds [rows][head rows] where the head is pruned.
func (x *ends) logits(e *engine, own *matrix, dst, scratch, hidden []float32, rows int) {
	e.act.set(hidden, rows, x.head.in)
	dst = dst[:rows*x.vocab]
	switch {
	case own != nil:
		e.mul(dst, own)
		x.finish(dst)
	case x.headIDs == nil:
		e.mul(dst, &x.head)
		x.finish(dst)
	default:
		scratch = scratch[:rows*x.head.out]
		e.mul(scratch, &x.head)
		x.finish(scratch)
		for i := range dst {
			dst[i] = float32(math.Inf(-1))
		}
		for t := range rows {
			for i, id := range x.headIDs {
				if id >= 0 {
					dst[t*x.vocab+int(id)] = scratch[t*x.head.out+i]
				}
			}
		}
	}
}

// finish scales and caps logits.
func (x *ends) finish(logits []float32) {
	if x.logitScale != 1 {
		scaleAll(logits, x.logitScale)
	}
	if c := x.softcap; c > 0 {
		for i, v := range logits {
			logits[i] = c * float32(math.Tanh(float64(v/c)))
		}
	}
}
