package runtime

import (
	"unsafe"

	"gguf-forge/kernels"
	"gguf-forge/quant"
)

// group is a run of input vectors that meet the same map of a stack.
type group struct {
	which  int // the map
	lo, hi int // inputs
}

// product is a running matrix product, divided into blocks of weight rows. Each element of the result is one dot product of
// a weight row and an input vector, so that neither batches nor threads change it.
//
// Weights that a kernel knows are multiplied as they are stored. Others are decoded, a few rows at a time, and those rows are
// used for all vectors of the batch.
type product struct {
	w       *matrix
	kernel  kernels.Weights
	decoded bool
	dst     []float32
	stride  int // floats from one result to the next
	x       *kernels.Activations
	groups  []group
	source  []int32 // input vector i of a group is source[i]; nil: i
	rows    int     // weight rows of a part
	parts   int     // parts of one group
	scratch []float32
	room    int // floats of scratch for a worker
}

const (
	tile      = 8  // weight rows decoded at a time
	leastRows = 8  // weight rows of a part
	mostRows  = 64 //
)

// newProduct returns the working memory of products: tile decoded rows for each worker.
func newProduct(a *arena, cols int) product {
	return product{scratch: a.buffer(a.workers, tile, cols), room: tile * cols}
}

// mul computes dst[i] = W·x[i] for every input vector x[i] of the activations.
func (e *engine) mul(dst []float32, w *matrix) {
	e.whole[0] = group{0, 0, e.act.rows}
	e.mulGroups(dst, w.out, w, e.whole[:], nil)
}

// mulGroups computes dst[i·stride:] = W_g·x[source[i]] for i in each group g.
func (e *engine) mulGroups(dst []float32, stride int, w *matrix, groups []group, source []int32) {
	p := &e.product
	p.w, p.dst, p.stride, p.groups, p.source = w, dst, stride, groups, source
	p.decoded = w.decodes(e.exact)
	p.kernel, _ = kernelOf(w.typ)
	p.x = e.act.as(e.pool, w)
	p.rows = min(max(w.out*len(groups)/(4*e.pool.workers), leastRows), mostRows)
	p.parts = (w.out + p.rows - 1) / p.rows
	e.pool.run(p, p.parts*len(groups))
}

func (p *product) part(worker, i int) {
	g := p.groups[i/p.parts]
	lo := i % p.parts * p.rows
	hi := min(lo+p.rows, p.w.out)
	var in kernels.Vectors
	if p.source != nil {
		in = p.x.Pick(p.source[g.lo:g.hi])
	} else {
		in = p.x.Range(g.lo, g.hi)
	}
	first := g.which*p.w.out + lo // row of the stack
	dst := p.dst[g.lo*p.stride+lo:]
	if p.decoded {
		p.mulDecoded(worker, dst, first, hi-lo, in)
	} else {
		kernels.Mul(dst, p.stride, p.kernel, p.w.data[first*p.w.rowSize:(first+hi-lo)*p.w.rowSize], in)
	}
	if p.w.bias != nil || p.w.scale != nil {
		for x := range g.hi - g.lo {
			row := dst[x*p.stride : x*p.stride+hi-lo]
			for j := range row {
				row[j] = p.w.finish(row[j], first+j)
			}
		}
	}
}

func (p *product) mulDecoded(worker int, dst []float32, first, count int, in kernels.Vectors) {
	scratch := p.scratch[worker*p.room : (worker+1)*p.room]
	for r := 0; r < count; r += tile {
		n := min(tile, count-r)
		values := scratch[:n*p.w.in]
		raw := p.w.data[(first+r)*p.w.rowSize : (first+r+n)*p.w.rowSize]
		if err := quant.Decode(p.w.typ, values, raw); err != nil {
			panic(err) // type and lengths were checked when the matrix was declared
		}
		kernels.Mul(dst[r:], p.stride, kernels.F32, bytesOf(values), in)
	}
}

// bytesOf views floats as the bytes they are stored in.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
