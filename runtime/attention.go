package runtime

import (
	"math"

	"gguf-forge/kernels"
)

// attention computes softmax(scale·q·kᵀ + mask)·v for the tokens of a pass. Query head h looks at key head h·Hkv/H, and at
// positions up to its own, as far back as the window.
//
// Keys and values are visited in spans of consecutive positions with a running maximum, so no row of scores is ever
// stored. Where spans begin depends on positions alone: every query gets the same sum in any batch.
type attention struct {
	cache  *kvCache
	kernel kernels.Weights // of the cache
	out    []float32       // [tokens][heads][valLen]
	k, v   []float32       // new keys and values, to be stored: [tokens][kvHeads][…]
	q      []float32       // [tokens][heads][keyLen]
	heads  int
	share  int // query heads of a key head
	scale  float32
	pos    int
	count  int // tokens
	rows   int // queries of a part
	parts  int // parts of a key head
	store  bool

	scratch *attentionScratch
}

// attentionRows is the most queries of a part.
const attentionRows = 32

// attentionScratch is working memory for attention layers of any shape up to the one it was made for.
type attentionScratch struct {
	queries *kernels.Activations // of a pass, rounded as the type of the cache wants them
	workers []attentionWorker
}

type attentionWorker struct {
	index  [attentionRows]int32
	scores [attentionRows * span]float32
	values []float32 // [span][…], decoded where no kernel adds them as they are stored
	sums   []float32 // [attentionRows][…], results
}

func newAttentionScratch(a *arena, heads, keyLen, valLen int) *attentionScratch {
	s := &attentionScratch{}
	form := formOf(a.kv.stored())
	a.memory.Buffers += elements(a.batch, heads) * kernels.ActivationBytes(form, keyLen)
	a.memory.Buffers += int64(a.workers) * 4 * attentionRows * (span + 1)
	if !a.dry {
		s.queries = kernels.NewActivations(form, keyLen, a.batch*heads)
		s.workers = make([]attentionWorker, a.workers)
	}
	for w := range a.workers {
		values, sums := a.buffer(span, max(keyLen, valLen)), a.buffer(attentionRows, max(keyLen, valLen))
		if !a.dry {
			s.workers[w].values, s.workers[w].sums = values, sums
		}
	}
	return s
}

// attend stores the keys and values of the pass, then computes out for its queries.
func (e *engine) attend(s *attentionScratch, p pass, c *kvCache, out, q, k, v []float32, heads int, scale float32) {
	t := &e.attn
	kernel, _ := kernelOf(c.k.typ)
	*t = attention{cache: c, kernel: kernel, q: q, out: out, k: k, v: v, heads: heads, share: heads / c.heads, scale: scale,
		pos: p.pos, count: p.tokens, scratch: s}
	s.queries.Reshape(c.k.cols)
	t.store = true
	e.pool.run(t, p.tokens)
	t.store = false
	queries := t.share * t.count
	t.rows = min(max(1, (queries*c.heads+4*e.pool.workers-1)/(4*e.pool.workers)), attentionRows)
	t.parts = (queries + t.rows - 1) / t.rows
	e.pool.run(t, t.parts*c.heads)
}

func (t *attention) part(worker, i int) {
	if t.store {
		t.keep(i)
	} else {
		t.look(&t.scratch.workers[worker], i)
	}
}

// keep stores keys and values of token i and rounds its queries.
func (t *attention) keep(i int) {
	c := t.cache
	t.scratch.queries.Set(i*t.heads, t.q[i*t.heads*c.k.cols:(i+1)*t.heads*c.k.cols])
	cell := (t.pos + i) % c.cells
	for h := range c.heads {
		at := i*c.heads + h
		c.k.put(h, cell, t.k[at*c.k.cols:(at+1)*c.k.cols])
		if c.shared == 0 {
			c.v.put(h, cell, t.v[at*c.v.cols:(at+1)*c.v.cols])
		}
	}
}

// look computes some queries of one key head. Query i of a key head is head i%share of token i/share.
func (t *attention) look(w *attentionWorker, i int) {
	c := t.cache
	head := i / t.parts
	lo := i % t.parts * t.rows
	n := min(t.rows, t.share*t.count-lo)
	stored := c.stored()
	cols := stored.cols
	var top, sum [attentionRows]float32
	for r := range n {
		w.index[r] = int32(t.query(head, lo+r))
		top[r] = float32(math.Inf(-1))
	}
	clear(w.sums[:n*cols])
	queries := t.scratch.queries.Pick(w.index[:n])
	from := 0
	if c.window > 0 { // the first query is the one that sees furthest back
		from = max(0, t.pos+lo/t.share-c.window+1)
	}
	last := t.pos + (lo+n-1)/t.share
	for at := from / span * span; at <= last; at += span {
		cells := min(span, last+1-at)
		kernels.Mul(w.scores[:], span, t.kernel, c.k.at(head, at%c.cells, cells), queries)
		values, kind := stored.addable(w.values, head, at%c.cells, cells)
		size := kind.RowBytes(cols)
		for r := range n {
			pos := t.pos + (lo+r)/t.share
			begin, end := 0, min(cells, pos+1-at)
			if c.window > 0 {
				begin = max(0, pos-c.window+1-at)
			}
			if begin >= end {
				continue
			}
			weights := w.scores[r*span+begin : r*span+end]
			out := w.sums[r*cols : (r+1)*cols]
			t.weigh(weights, out, &top[r], &sum[r])
			kernels.AddRows(out, weights, kind, values[begin*size:end*size])
		}
	}
	valLen := c.valLen()
	for r := range n {
		out := t.out[int(w.index[r])*valLen : (int(w.index[r])+1)*valLen]
		for j, v := range w.sums[r*cols : r*cols+valLen] {
			out[j] = v / sum[r]
		}
	}
}

// query returns the number of a query among all of the pass.
func (t *attention) query(head, i int) int { return i/t.share*t.heads + head*t.share + i%t.share }

// weigh turns the scores of some positions into weights e^(scale·score−top). top is the highest score so far; where it
// rises, what was added up before shrinks.
func (t *attention) weigh(scores, out []float32, top, sum *float32) {
	if highest := kernels.Max(scores) * t.scale; highest > *top {
		f := kernels.Exp(*top - highest)
		*sum *= f
		scaleAll(out, f)
		*top = highest
	}
	*sum += kernels.ExpSum(scores, t.scale, *top)
}
