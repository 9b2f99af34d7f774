package kernels

import "math"

// Weigh sets dst[i] to w[i]·√(sigma2 + x[i]²): what an error in x[i] costs, growing with the importance w
// of its column and with its own size. dst may be w or x.
func Weigh(dst, w, x []float32, sigma2 float32) {
	if len(dst) != len(x) || len(w) != len(x) {
		panic("kernels: lengths of Weigh differ")
	}
	weigh(dst, w, x, sigma2)
}

// weighGeneric is the definition. A root of the float64 rounded to float32 is the correctly rounded root.
func weighGeneric(dst, w, x []float32, sigma2 float32) {
	dst, w = dst[:len(x)], w[:len(x)]
	for i, v := range x {
		dst[i] = w[i] * float32(math.Sqrt(float64(sigma2+float32(v*v))))
	}
}
