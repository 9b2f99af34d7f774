package kernels

// rowsAtOnce is ROWS of csrc/dot.h.
const rowsAtOnce = 8

func mul(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	switch group := panelRows(); {
	case group > 0 && x.count >= panelPays && count >= group && w.Form() >= FormQ8_0:
		mulPanels(out, stride, w, rows, count, size, x)
	case enabled[avx512vnni] || enabled[avx2]:
		mulRows(out, stride, w, rows, count, size, x)
	default:
		mulGeneric(out, stride, w, rows, count, size, x)
	}
}

// run multiplies groups of rows in assembly.
func (a *dotArgs) run(w Weights) {
	switch w {
	case Q4_0:
		switch {
		case enabled[avx512vnni]:
			dotQ4_0AVX512VNNI(a)
		case enabled[avx2]:
			dotQ4_0AVX2(a)
		}
	case Q4_1:
		switch {
		case enabled[avx512vnni]:
			dotQ4_1AVX512VNNI(a)
		case enabled[avx2]:
			dotQ4_1AVX2(a)
		}
	case Q5_0:
		switch {
		case enabled[avx512vnni]:
			dotQ5_0AVX512VNNI(a)
		case enabled[avx2]:
			dotQ5_0AVX2(a)
		}
	case Q5_1:
		switch {
		case enabled[avx512vnni]:
			dotQ5_1AVX512VNNI(a)
		case enabled[avx2]:
			dotQ5_1AVX2(a)
		}
	case Q8_0:
		switch {
		case enabled[avx512vnni]:
			dotQ8_0AVX512VNNI(a)
		case enabled[avx2]:
			dotQ8_0AVX2(a)
		}
	case IQ4NL:
		switch {
		case enabled[avx512vnni]:
			dotIQ4NLAVX512VNNI(a)
		case enabled[avx2]:
			dotIQ4NLAVX2(a)
		}
	case Q1_0:
		switch {
		case enabled[avx512vnni]:
			dotQ1_0AVX512VNNI(a)
		case enabled[avx2]:
			dotQ1_0AVX2(a)
		}
	case Q2_0:
		switch {
		case enabled[avx512vnni]:
			dotQ2_0AVX512VNNI(a)
		case enabled[avx2]:
			dotQ2_0AVX2(a)
		}
	case Q2K:
		switch {
		case enabled[avx512vnni]:
			dotQ2KAVX512VNNI(a)
		case enabled[avx2]:
			dotQ2KAVX2(a)
		}
	case Q3K:
		switch {
		case enabled[avx512vnni]:
			dotQ3KAVX512VNNI(a)
		case enabled[avx2]:
			dotQ3KAVX2(a)
		}
	case Q4K:
		switch {
		case enabled[avx512vnni]:
			dotQ4KAVX512VNNI(a)
		case enabled[avx2]:
			dotQ4KAVX2(a)
		}
	case Q5K:
		switch {
		case enabled[avx512vnni]:
			dotQ5KAVX512VNNI(a)
		case enabled[avx2]:
			dotQ5KAVX2(a)
		}
	case Q6K:
		switch {
		case enabled[avx512vnni]:
			dotQ6KAVX512VNNI(a)
		case enabled[avx2]:
			dotQ6KAVX2(a)
		}
	case IQ4XS:
		switch {
		case enabled[avx512vnni]:
			dotIQ4XSAVX512VNNI(a)
		case enabled[avx2]:
			dotIQ4XSAVX2(a)
		}
	case TQ1_0:
		switch {
		case enabled[avx512vnni]:
			dotTQ1_0AVX512VNNI(a)
		case enabled[avx2]:
			dotTQ1_0AVX2(a)
		}
	case TQ2_0:
		switch {
		case enabled[avx512vnni]:
			dotTQ2_0AVX512VNNI(a)
		case enabled[avx2]:
			dotTQ2_0AVX2(a)
		}
	}
}

// runFloats multiplies pairs of rows in assembly, by one vector or by two.
func (a *dotArgs) runFloats(w Weights, pair bool) {
	switch w {
	case F32:
		switch {
		case enabled[avx512vnni] && pair:
			dotPairF32AVX512VNNI(a)
		case enabled[avx512vnni]:
			dotF32AVX512VNNI(a)
		case enabled[avx2] && pair:
			dotPairF32AVX2(a)
		case enabled[avx2]:
			dotF32AVX2(a)
		}
	case F16:
		switch {
		case enabled[avx512vnni] && pair:
			dotPairF16AVX512VNNI(a)
		case enabled[avx512vnni]:
			dotF16AVX512VNNI(a)
		case enabled[avx2] && pair:
			dotPairF16AVX2(a)
		case enabled[avx2]:
			dotF16AVX2(a)
		}
	case BF16:
		switch {
		case enabled[avx512vnni] && pair:
			dotPairBF16AVX512VNNI(a)
		case enabled[avx512vnni]:
			dotBF16AVX512VNNI(a)
		case enabled[avx2] && pair:
			dotPairBF16AVX2(a)
		case enabled[avx2]:
			dotBF16AVX2(a)
		}
	}
}

//go:noescape
func dotF32AVX512VNNI(a *dotArgs)

//go:noescape
func dotF32AVX2(a *dotArgs)

//go:noescape
func dotF16AVX512VNNI(a *dotArgs)

//go:noescape
func dotF16AVX2(a *dotArgs)

//go:noescape
func dotBF16AVX512VNNI(a *dotArgs)

//go:noescape
func dotBF16AVX2(a *dotArgs)

//go:noescape
func dotQ4_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ4_0AVX2(a *dotArgs)

//go:noescape
func dotQ4_1AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ4_1AVX2(a *dotArgs)

//go:noescape
func dotQ5_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ5_0AVX2(a *dotArgs)

//go:noescape
func dotQ5_1AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ5_1AVX2(a *dotArgs)

//go:noescape
func dotQ8_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ8_0AVX2(a *dotArgs)

//go:noescape
func dotIQ4NLAVX512VNNI(a *dotArgs)

//go:noescape
func dotIQ4NLAVX2(a *dotArgs)

//go:noescape
func dotQ1_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ1_0AVX2(a *dotArgs)

//go:noescape
func dotQ2_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotQ2_0AVX2(a *dotArgs)

//go:noescape
func dotQ2KAVX512VNNI(a *dotArgs)

//go:noescape
func dotQ2KAVX2(a *dotArgs)

//go:noescape
func dotQ3KAVX512VNNI(a *dotArgs)

//go:noescape
func dotQ3KAVX2(a *dotArgs)

//go:noescape
func dotQ4KAVX512VNNI(a *dotArgs)

//go:noescape
func dotQ4KAVX2(a *dotArgs)

//go:noescape
func dotQ5KAVX512VNNI(a *dotArgs)

//go:noescape
func dotQ5KAVX2(a *dotArgs)

//go:noescape
func dotQ6KAVX512VNNI(a *dotArgs)

//go:noescape
func dotQ6KAVX2(a *dotArgs)

//go:noescape
func dotIQ4XSAVX512VNNI(a *dotArgs)

//go:noescape
func dotIQ4XSAVX2(a *dotArgs)

//go:noescape
func dotTQ1_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotTQ1_0AVX2(a *dotArgs)

//go:noescape
func dotTQ2_0AVX512VNNI(a *dotArgs)

//go:noescape
func dotTQ2_0AVX2(a *dotArgs)

//go:noescape
func dotPairF32AVX512VNNI(a *dotArgs)

//go:noescape
func dotPairF32AVX2(a *dotArgs)

//go:noescape
func dotPairF16AVX512VNNI(a *dotArgs)

//go:noescape
func dotPairF16AVX2(a *dotArgs)

//go:noescape
func dotPairBF16AVX512VNNI(a *dotArgs)

//go:noescape
func dotPairBF16AVX2(a *dotArgs)
