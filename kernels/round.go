package kernels

// RoundAffine rounds values to codes on given scales and minimums: len(scales) blocks of size values, code =
// (x + min)/scale, rounded half to even and limited to 0..top. A block whose scale is 0 keeps its codes.
// size is a multiple of 16 and top at most 255.
//
// A quotient beyond ±4194303 or NaN gives the code that is left in the bits when it is rounded by
// adding 1.5·2^23, as in the reference quantizer.
func RoundAffine(codes []uint8, x []float32, size int, scales, mins []float32, top int) {
	if size < 16 || size%16 != 0 || top < 1 || top > 255 {
		panic("kernels: bad parameters of RoundAffine")
	}
	if n := len(scales) * size; len(codes) != n || len(x) != n || len(mins) != len(scales) {
		panic("kernels: lengths of RoundAffine differ")
	}
	if len(scales) > 0 {
		roundAffine(codes, x, size, scales, mins, top)
	}
}

// roundAffineGeneric is the definition.
func roundAffineGeneric(codes []uint8, x []float32, size int, scales, mins []float32, top int) {
	for b, scale := range scales {
		if scale == 0 {
			continue
		}
		block := codes[b*size : (b+1)*size]
		for i, v := range x[b*size : (b+1)*size] {
			q := (v + mins[b]) / scale
			if v != v {
				q = v // of several NaN, the CPU and the compiler decide which one comes out
			}
			block[i] = uint8(max(0, min(int32(top), nearest(q))))
		}
	}
}
