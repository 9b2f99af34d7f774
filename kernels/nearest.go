package kernels

import "math"

// nearest rounds v to an integer, half to even, by adding 1.5·2^23. Where the integer does not fit the
// low mantissa bits (beyond ±4194303, infinities, NaN) the result is what is left in those bits, as in
// the reference quantizer.
func nearest(v float32) int32 {
	return int32(math.Float32bits(v+12582912)&0x7FFFFF) - 0x400000
}
