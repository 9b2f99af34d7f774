package kernels

func roundAffine(codes []uint8, x []float32, size int, scales, mins []float32, top int) {
	switch {
	case enabled[avx512]:
		a := newRoundArgs(codes, x, size, scales, mins, top)
		roundAVX512(&a)
	case enabled[avx2]:
		a := newRoundArgs(codes, x, size, scales, mins, top)
		roundAVX2(&a)
	default:
		roundAffineGeneric(codes, x, size, scales, mins, top)
	}
}

//go:noescape
func roundAVX2(a *roundArgs)

//go:noescape
func roundAVX512(a *roundArgs)
