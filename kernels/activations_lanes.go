//go:build amd64 || arm64

package kernels

import "unsafe"

// quantizeArgs is what the assembly sees, as declared in csrc/quantize.c.
type quantizeArgs struct {
	x      *float32
	codes  *int8
	scales *float32
	sums   unsafe.Pointer
	count  int64
}

func newQuantizeArgs(codes []int8, scales []float32, sums unsafe.Pointer, x []float32) quantizeArgs {
	return quantizeArgs{&x[0], &codes[0], &scales[0], sums, int64(len(scales))}
}
