package quant

import (
	"sync"

	"gguf-forge/kernels"
)

// batch is the memory of an encoder that uses kernels. Kernels work on many sub-blocks at once, so the encoder takes
// a batch of blocks through each step together. It is too large to be cleared for every call.
type batch struct {
	weights      [batchValues]float32
	codes        [batchValues]uint8
	scales, mins [batchValues / 16]float32 // per sub-block, as found; then as stored
}

// batchValues is the size of a batch, a multiple of every block size.
const batchValues = 8 * superBlock

var batches = sync.Pool{New: func() any { return new(batch) }}

// The affine types q4_1, q5_1, q2_K, q4_K and q5_K stand for a value as scale·code − minimum, with a scale and
// a minimum per sub-block.

// search finds scales, minimums and codes for x, the values of the batch.
func (b *batch) search(p *kernels.QKX, x []float32) {
	n := len(x) / p.Size
	kernels.SearchQKX(p, b.scales[:n], b.mins[:n], b.codes[:len(x)], x, b.weights[:len(x)])
}

// round rounds x again to what the sub-blocks' scales and minimums, as stored, are worth. A sub-block whose
// scale has become zero keeps the codes of the search.
func (b *batch) round(p *kernels.QKX, x []float32) {
	n := len(x) / p.Size
	kernels.RoundAffine(b.codes[:len(x)], x, p.Size, b.scales[:n], b.mins[:n], p.Max)
}

// weightedSearch has the parameters of the search with importance weights.
func weightedSearch(size, top int) *kernels.QKX {
	return &kernels.QKX{Size: size, Max: top, First: -0.9, Step: 0.05, Trials: 37}
}

// scaleCodes rounds non-negative scales to codes 0..n by the largest of them and returns the unit. Codes
// keep their low eight bits.
func scaleCodes(codes []uint8, scales []float32, n float32) float32 {
	var top float32
	for _, s := range scales {
		if s > top {
			top = s
		}
	}
	if !(top > 0) {
		clear(codes)
		return 0
	}
	inv := n / top
	for j, s := range scales {
		codes[j] = uint8(ri(inv * s))
	}
	return top / n
}
