package kernels

func weigh(dst, w, x []float32, sigma2 float32) {
	n := len(x) / weighLanes * weighLanes
	switch {
	case n > 0 && enabled[avx512]:
		a := newWeighArgs(dst[:n], w[:n], x[:n], sigma2)
		weighAVX512(&a)
	case n > 0 && enabled[avx2]:
		a := newWeighArgs(dst[:n], w[:n], x[:n], sigma2)
		weighAVX2(&a)
	default:
		n = 0
	}
	weighGeneric(dst[n:], w[n:], x[n:], sigma2)
}

//go:noescape
func weighAVX2(a *weighArgs)

//go:noescape
func weighAVX512(a *weighArgs)
