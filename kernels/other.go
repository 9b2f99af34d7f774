//go:build !amd64 && !arm64

package kernels

// On other architectures every kernel is its definition.

func searchQKX(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	searchQKXGeneric(p, scales, mins, codes, x, w)
}

func weigh(dst, w, x []float32, sigma2 float32) { weighGeneric(dst, w, x, sigma2) }

func roundAffine(codes []uint8, x []float32, size int, scales, mins []float32, top int) {
	roundAffineGeneric(codes, x, size, scales, mins, top)
}

func mul(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	mulGeneric(out, stride, w, rows, count, size, x)
}

func quantizeQ8_0(codes []int8, scales []float32, sums []int32, x []float32) {
	quantize32Generic(codes, scales, sums, nil, x)
}

func quantizeQ8_1(codes []int8, scales, mins []float32, x []float32) {
	quantize32Generic(codes, scales, nil, mins, x)
}

func quantizeQ8_K(codes []int8, scales []float32, bsums []int16, x []float32) {
	quantize256Generic(codes, scales, bsums, x)
}

func expSum(x []float32, scale, top float32, lanes *[floatLanes]float32) int {
	return expSumGeneric(x, scale, top, lanes)
}

func maxOf([]float32, *[floatLanes]float32) int { return 0 }

func siluMul([]float32, []float32) int { return 0 }

func addRows([]float32, []float32, Weights, []byte) int { return 0 }
