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
