package kernels

func weigh(dst, w, x []float32, sigma2 float32) {
	n := 0
	if enabled[neon] && len(x) >= weighLanes {
		n = len(x) / weighLanes * weighLanes
		a := newWeighArgs(dst[:n], w[:n], x[:n], sigma2)
		weighNEON(&a)
	}
	weighGeneric(dst[n:], w[n:], x[n:], sigma2)
}

//go:noescape
func weighNEON(a *weighArgs)
