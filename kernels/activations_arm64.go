package kernels

import "unsafe"

func quantizeQ8_0(codes []int8, scales []float32, sums []int32, x []float32) {
	if enabled[neon] {
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_0NEON(&a)
	} else {
		quantize32Generic(codes, scales, sums, nil, x)
	}
}

func quantizeQ8_1(codes []int8, scales, sums []float32, x []float32) {
	if enabled[neon] {
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_1NEON(&a)
	} else {
		quantize32Generic(codes, scales, nil, sums, x)
	}
}

func quantizeQ8_K(codes []int8, scales []float32, sums []int16, x []float32) {
	if enabled[neon] {
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_KNEON(&a)
	} else {
		quantize256Generic(codes, scales, sums, x)
	}
}

//go:noescape
func quantizeQ8_0NEON(a *quantizeArgs)

//go:noescape
func quantizeQ8_1NEON(a *quantizeArgs)

//go:noescape
func quantizeQ8_KNEON(a *quantizeArgs)
