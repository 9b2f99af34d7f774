package kernels

func roundAffine(codes []uint8, x []float32, size int, scales, mins []float32, top int) {
	if enabled[neon] {
		a := newRoundArgs(codes, x, size, scales, mins, top)
		roundNEON(&a)
	} else {
		roundAffineGeneric(codes, x, size, scales, mins, top)
	}
}

//go:noescape
func roundNEON(a *roundArgs)
