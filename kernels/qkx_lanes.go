//go:build amd64 || arm64

package kernels

import "unsafe"

// qkxArgs is what the assembly sees, as declared in csrc/qkx.c.
type qkxArgs struct {
	x, w         *float32
	scales, mins *float32
	codes        *uint8
	tries        *float32
	unusual      *int32
	work         unsafe.Pointer
	size, trials int64
	max          float32
}

// qkxWork is the memory that csrc/qkx.c works in: 3 vectors for each value, and 16 of state. There is room to align
// it to a cache line, which is much faster.
type qkxWork [(3*32+16)*4*qkxLanes + 64]byte

// searchQKXLanes searches qkxLanes blocks at a time in assembly. Blocks
// for which these are not made, with infinities, NaN or codes far out of range, go to the definition.
func searchQKXLanes(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	var work qkxWork
	var unusual [qkxLanes]int32
	tries := p.tries()
	args := qkxArgs{
		tries:   &tries[0],
		unusual: &unusual[0],
		work:    unsafe.Pointer(&work[-uintptr(unsafe.Pointer(&work))%64]),
		size:    int64(p.Size),
		trials:  int64(p.Trials),
		max:     float32(p.Max),
	}
	values := qkxLanes * p.Size
	for len(scales) >= qkxLanes {
		args.x, args.w = &x[:values][0], &w[:values][0]
		args.scales, args.mins, args.codes = &scales[0], &mins[:qkxLanes][0], &codes[:values][0]
		args.run(p.Abs)
		p.redo(unusual[:], tries[:p.Trials], scales, mins, codes, x, w)
		scales, mins = scales[qkxLanes:], mins[qkxLanes:]
		codes, x, w = codes[values:], x[values:], w[values:]
	}
	if len(scales) == 0 {
		return
	}
	var last struct {
		x, w         [qkxLanes * 32]float32
		codes        [qkxLanes * 32]uint8
		scales, mins [qkxLanes]float32
	}
	copy(last.x[:], x)
	copy(last.w[:], w)
	args.x, args.w = &last.x[0], &last.w[0]
	args.scales, args.mins, args.codes = &last.scales[0], &last.mins[0], &last.codes[0]
	args.run(p.Abs)
	copy(codes, last.codes[:])
	copy(scales, last.scales[:])
	copy(mins, last.mins[:])
	p.redo(unusual[:len(scales)], tries[:p.Trials], scales, mins, codes, x, w)
}

// redo searches the blocks marked unusual again.
func (p *QKX) redo(unusual []int32, tries, scales, mins []float32, codes []uint8, x, w []float32) {
	for b, u := range unusual {
		if u != 0 {
			lo, hi := b*p.Size, (b+1)*p.Size
			scales[b], mins[b] = p.search(tries, codes[lo:hi], x[lo:hi], w[lo:hi])
		}
	}
}
