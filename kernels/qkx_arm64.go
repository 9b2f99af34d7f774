package kernels

// qkxLanes is the number of blocks searched at a time: two registers.
const qkxLanes = 8

func searchQKX(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	if enabled[neon] {
		searchQKXLanes(p, scales, mins, codes, x, w)
	} else {
		searchQKXGeneric(p, scales, mins, codes, x, w)
	}
}

// run searches qkxLanes blocks.
func (a *qkxArgs) run(abs bool) {
	switch {
	case enabled[neon] && abs:
		qkxAbsNEON(a)
	case enabled[neon]:
		qkxNEON(a)
	}
}

//go:noescape
func qkxNEON(a *qkxArgs)

//go:noescape
func qkxAbsNEON(a *qkxArgs)
