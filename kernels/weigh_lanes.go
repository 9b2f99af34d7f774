//go:build amd64 || arm64

package kernels

// weighLanes is how many values a turn of the assembly takes; it only does whole turns.
const weighLanes = 16

// weighArgs is what the assembly sees, as declared in csrc/weigh.c.
type weighArgs struct {
	dst, w, x *float32
	n         int64
	sigma2    float32
}

func newWeighArgs(dst, w, x []float32, sigma2 float32) weighArgs {
	return weighArgs{&dst[0], &w[0], &x[0], int64(len(x)), sigma2}
}
