//go:build amd64 || arm64

package kernels

// expSumArgs, siluArgs, addRowsArgs and maxArgs are what the assembly sees, as declared in csrc.
type expSumArgs struct {
	x          *float32
	n          int64
	c          *expConstants
	scale, top float32
	sums       [floatLanes]float32
}

type siluArgs struct {
	gate, up *float32
	n        int64
	c        *expConstants
}

type addRowsArgs struct {
	dst     *float32
	n       int64
	weights *float32
	count   int64
	rows    *byte
	stride  int64
}

type maxArgs struct {
	x     *float32
	n     int64
	lanes [floatLanes]float32
}
