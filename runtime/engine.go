package runtime

// engine is what a forward pass computes with: workers, the current input of matrix products, and one task of each
// kind, kept so that starting one allocates nothing.
type engine struct {
	pool  *pool
	exact bool

	act     activations
	product product
	whole   [1]group

	norms   normTask
	glu     gluTask
	attn    attention
	convs   convTask
	deltas  deltaTask
	scans   scanTask
	rotates rotateTask
}

func newEngine(p *pool, a *arena, sizes activationSizes, exact bool) *engine {
	return &engine{
		pool:    p,
		exact:   exact,
		act:     newActivations(a, sizes, exact),
		product: newProduct(a, sizes.rowCols),
	}
}

// pass is one run through the network: a few consecutive tokens of one sequence.
type pass struct {
	tokens int
	pos    int       // position of the first token
	x      []float32 // [tokens][d], the residual stream: embeddings before, what the final norm takes after
}

// network is the forward pass of one architecture, with the memory of one sequence.
type network interface {
	forward(e *engine, p pass)
}

// perPart divides n small items among the workers: it returns the number of items of a part and of parts.
func perPart(n, workers, least int) (size, parts int) {
	size = max((n+4*workers-1)/(4*workers), least)
	return size, (n + size - 1) / size
}
