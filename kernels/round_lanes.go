//go:build amd64 || arm64

package kernels

// roundArgs is what the assembly sees, as declared in csrc/round.c.
type roundArgs struct {
	codes             *uint8
	x, scales, mins   *float32
	size, blocks, top int64
}

func newRoundArgs(codes []uint8, x []float32, size int, scales, mins []float32, top int) roundArgs {
	return roundArgs{&codes[0], &x[0], &scales[0], &mins[0], int64(size), int64(len(scales)), int64(top)}
}
