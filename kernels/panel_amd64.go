package kernels

// panelRows returns the number of rows of a panel, at most mostPanelRows.
func panelRows() int {
	switch {
	case enabled[avx512vnni]:
		return 16
	case enabled[avx2]:
		return 8
	}
	return 0
}

// panelOffset returns what is added to the codes of a type with blocks of 32 to make them those of a panel.
func panelOffset(w Weights) int16 {
	switch w {
	case Q4_0:
		return 8
	case Q5_0:
		return 16
	case Q1_0, Q2_0:
		return 1
	case Q8_0, IQ4NL:
		if enabled[avx512vnni] {
			return 128
		}
	}
	return 0
}

// run unpacks four rows.
func (a *unpackArgs) run(w Weights) {
	switch w {
	case Q4_0:
		switch {
		case enabled[avx512vnni]:
			unpackQ4_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ4_0AVX2(a)
		}
	case Q4_1:
		switch {
		case enabled[avx512vnni]:
			unpackQ4_1AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ4_1AVX2(a)
		}
	case Q5_0:
		switch {
		case enabled[avx512vnni]:
			unpackQ5_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ5_0AVX2(a)
		}
	case Q5_1:
		switch {
		case enabled[avx512vnni]:
			unpackQ5_1AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ5_1AVX2(a)
		}
	case Q8_0:
		switch {
		case enabled[avx512vnni]:
			unpackQ8_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ8_0AVX2(a)
		}
	case IQ4NL:
		switch {
		case enabled[avx512vnni]:
			unpackIQ4NLAVX512VNNI(a)
		case enabled[avx2]:
			unpackIQ4NLAVX2(a)
		}
	case Q1_0:
		switch {
		case enabled[avx512vnni]:
			unpackQ1_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ1_0AVX2(a)
		}
	case Q2_0:
		switch {
		case enabled[avx512vnni]:
			unpackQ2_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackQ2_0AVX2(a)
		}
	case Q2K:
		switch {
		case enabled[avx512vnni]:
			unpackQ2KAVX512VNNI(a)
		case enabled[avx2]:
			unpackQ2KAVX2(a)
		}
	case Q3K:
		switch {
		case enabled[avx512vnni]:
			unpackQ3KAVX512VNNI(a)
		case enabled[avx2]:
			unpackQ3KAVX2(a)
		}
	case Q4K:
		switch {
		case enabled[avx512vnni]:
			unpackQ4KAVX512VNNI(a)
		case enabled[avx2]:
			unpackQ4KAVX2(a)
		}
	case Q5K:
		switch {
		case enabled[avx512vnni]:
			unpackQ5KAVX512VNNI(a)
		case enabled[avx2]:
			unpackQ5KAVX2(a)
		}
	case Q6K:
		switch {
		case enabled[avx512vnni]:
			unpackQ6KAVX512VNNI(a)
		case enabled[avx2]:
			unpackQ6KAVX2(a)
		}
	case IQ4XS:
		switch {
		case enabled[avx512vnni]:
			unpackIQ4XSAVX512VNNI(a)
		case enabled[avx2]:
			unpackIQ4XSAVX2(a)
		}
	case TQ1_0:
		switch {
		case enabled[avx512vnni]:
			unpackTQ1_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackTQ1_0AVX2(a)
		}
	case TQ2_0:
		switch {
		case enabled[avx512vnni]:
			unpackTQ2_0AVX512VNNI(a)
		case enabled[avx2]:
			unpackTQ2_0AVX2(a)
		}
	}
}

// run multiplies a panel.
func (a *panelArgs) run(w Weights) {
	switch w {
	case Q4_0, Q5_0, Q1_0, Q2_0:
		switch {
		case enabled[avx512vnni]:
			panelBlocksAVX512VNNI(a)
		case enabled[avx2]:
			panelBlocksAVX2(a)
		}
	case Q8_0, IQ4NL:
		switch {
		case enabled[avx512vnni]:
			panelBlocksAVX512VNNI(a)
		case enabled[avx2]:
			panelSignedAVX2(a)
		}
	case Q4_1, Q5_1:
		switch {
		case enabled[avx512vnni]:
			panelMinAVX512VNNI(a)
		case enabled[avx2]:
			panelMinAVX2(a)
		}
	case Q2K:
		switch {
		case enabled[avx512vnni]:
			panelSuper16MinAVX512VNNI(a)
		case enabled[avx2]:
			panelSuper16MinAVX2(a)
		}
	case Q3K, Q6K:
		switch {
		case enabled[avx512vnni]:
			panelSuper16AVX512VNNI(a)
		case enabled[avx2]:
			panelSuper16AVX2(a)
		}
	case Q4K, Q5K:
		switch {
		case enabled[avx512vnni]:
			panelSuper32MinAVX512VNNI(a)
		case enabled[avx2]:
			panelSuper32MinAVX2(a)
		}
	case IQ4XS:
		switch {
		case enabled[avx512vnni]:
			panelSuper32AVX512VNNI(a)
		case enabled[avx2]:
			panelSuper32AVX2(a)
		}
	case TQ1_0, TQ2_0:
		switch {
		case enabled[avx512vnni]:
			panelSuper0AVX512VNNI(a)
		case enabled[avx2]:
			panelSuper0AVX2(a)
		}
	}
}

//go:noescape
func unpackQ4_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ4_0AVX2(a *unpackArgs)

//go:noescape
func unpackQ4_1AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ4_1AVX2(a *unpackArgs)

//go:noescape
func unpackQ5_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ5_0AVX2(a *unpackArgs)

//go:noescape
func unpackQ5_1AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ5_1AVX2(a *unpackArgs)

//go:noescape
func unpackQ8_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ8_0AVX2(a *unpackArgs)

//go:noescape
func unpackIQ4NLAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackIQ4NLAVX2(a *unpackArgs)

//go:noescape
func unpackQ1_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ1_0AVX2(a *unpackArgs)

//go:noescape
func unpackQ2_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ2_0AVX2(a *unpackArgs)

//go:noescape
func unpackQ2KAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ2KAVX2(a *unpackArgs)

//go:noescape
func unpackQ3KAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ3KAVX2(a *unpackArgs)

//go:noescape
func unpackQ4KAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ4KAVX2(a *unpackArgs)

//go:noescape
func unpackQ5KAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ5KAVX2(a *unpackArgs)

//go:noescape
func unpackQ6KAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackQ6KAVX2(a *unpackArgs)

//go:noescape
func unpackIQ4XSAVX512VNNI(a *unpackArgs)

//go:noescape
func unpackIQ4XSAVX2(a *unpackArgs)

//go:noescape
func unpackTQ1_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackTQ1_0AVX2(a *unpackArgs)

//go:noescape
func unpackTQ2_0AVX512VNNI(a *unpackArgs)

//go:noescape
func unpackTQ2_0AVX2(a *unpackArgs)

//go:noescape
func panelBlocksAVX512VNNI(a *panelArgs)

//go:noescape
func panelMinAVX512VNNI(a *panelArgs)

//go:noescape
func panelSuper16MinAVX512VNNI(a *panelArgs)

//go:noescape
func panelSuper16AVX512VNNI(a *panelArgs)

//go:noescape
func panelSuper32MinAVX512VNNI(a *panelArgs)

//go:noescape
func panelSuper32AVX512VNNI(a *panelArgs)

//go:noescape
func panelSuper0AVX512VNNI(a *panelArgs)

//go:noescape
func panelBlocksAVX2(a *panelArgs)

//go:noescape
func panelSignedAVX2(a *panelArgs)

//go:noescape
func panelMinAVX2(a *panelArgs)

//go:noescape
func panelSuper16MinAVX2(a *panelArgs)

//go:noescape
func panelSuper16AVX2(a *panelArgs)

//go:noescape
func panelSuper32MinAVX2(a *panelArgs)

//go:noescape
func panelSuper32AVX2(a *panelArgs)

//go:noescape
func panelSuper0AVX2(a *panelArgs)
