package kernels

import (
	"encoding/binary"
	"math"
)

// floatLanes is the number of interleaved sums of dot products of floats.
const floatLanes = 16

// dotFloats is the definition for weights that are floats: product i, rounded to float32, is added to sum i mod 16, as far as there
// are whole runs of 16. These sums are added pairwise, each to the one half of them further on, and then the rest of the products in order.
func dotFloats(w Weights, row []byte, x []float32) float32 {
	var lanes [floatLanes]float32
	whole := len(x) / floatLanes * floatLanes
	for i, v := range x[:whole] {
		lanes[i%floatLanes] += float32(floatAt(w, row, i) * v)
	}
	return addProducts(addPairwise(&lanes), w, row, x, whole)
}

func addPairwise(lanes *[floatLanes]float32) float32 {
	for n := floatLanes / 2; n > 0; n /= 2 {
		for i := range n {
			lanes[i] += lanes[i+n]
		}
	}
	return lanes[0]
}

// addProducts adds the products from the given one on to sum.
func addProducts(sum float32, w Weights, row []byte, x []float32, from int) float32 {
	for i := from; i < len(x); i++ {
		sum += float32(floatAt(w, row, i) * x[i])
	}
	return sum
}

func floatAt(w Weights, row []byte, i int) float32 {
	switch w {
	case F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
	case F16:
		return fromHalf(binary.LittleEndian.Uint16(row[2*i:]))
	default:
		return fromBF16(binary.LittleEndian.Uint16(row[2*i:]))
	}
}
