package kernels

// qkxLanes is the number of blocks searched at a time: one register of AVX-512, two of AVX2.
const qkxLanes = 16

func searchQKX(p *QKX, scales, mins []float32, codes []uint8, x, w []float32) {
	if enabled[avx512] || enabled[avx2] {
		searchQKXLanes(p, scales, mins, codes, x, w)
	} else {
		searchQKXGeneric(p, scales, mins, codes, x, w)
	}
}

// run searches qkxLanes blocks.
func (a *qkxArgs) run(abs bool) {
	switch {
	case enabled[avx512] && abs:
		qkxAbsAVX512(a)
	case enabled[avx512]:
		qkxAVX512(a)
	case enabled[avx2] && abs:
		qkxAbsAVX2(a)
	case enabled[avx2]:
		qkxAVX2(a)
	}
}

//go:noescape
func qkxAVX2(a *qkxArgs)

//go:noescape
func qkxAbsAVX2(a *qkxArgs)

//go:noescape
func qkxAVX512(a *qkxArgs)

//go:noescape
func qkxAbsAVX512(a *qkxArgs)
