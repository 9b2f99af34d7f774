package kernels

import "unsafe"

func quantizeQ8_0(codes []int8, scales []float32, sums []int32, x []float32) {
	switch {
	case enabled[avx512]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_0AVX512(&a)
	case enabled[avx2]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_0AVX2(&a)
	default:
		quantize32Generic(codes, scales, sums, nil, x)
	}
}

func quantizeQ8_1(codes []int8, scales, sums []float32, x []float32) {
	switch {
	case enabled[avx512]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_1AVX512(&a)
	case enabled[avx2]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_1AVX2(&a)
	default:
		quantize32Generic(codes, scales, nil, sums, x)
	}
}

func quantizeQ8_K(codes []int8, scales []float32, sums []int16, x []float32) {
	switch {
	case enabled[avx512]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_KAVX512(&a)
	case enabled[avx2]:
		a := newQuantizeArgs(codes, scales, unsafe.Pointer(&sums[0]), x)
		quantizeQ8_KAVX2(&a)
	default:
		quantize256Generic(codes, scales, sums, x)
	}
}

//go:noescape
func quantizeQ8_0AVX512(a *quantizeArgs)

//go:noescape
func quantizeQ8_0AVX2(a *quantizeArgs)

//go:noescape
func quantizeQ8_1AVX512(a *quantizeArgs)

//go:noescape
func quantizeQ8_1AVX2(a *quantizeArgs)

//go:noescape
func quantizeQ8_KAVX512(a *quantizeArgs)

//go:noescape
func quantizeQ8_KAVX2(a *quantizeArgs)
