package kernels

// rowsAtOnce is ROWS of csrc/dot.h.
const rowsAtOnce = 4

func mul(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	switch group := panelRows(); {
	case group > 0 && x.count >= panelPays && count >= group && w.Form() >= FormQ8_0:
		mulPanels(out, stride, w, rows, count, size, x)
	case enabled[dotprod] || enabled[neon]:
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
		case enabled[dotprod]:
			dotQ4_0DOTPROD(a)
		case enabled[neon]:
			dotQ4_0NEON(a)
		}
	case Q4_1:
		switch {
		case enabled[dotprod]:
			dotQ4_1DOTPROD(a)
		case enabled[neon]:
			dotQ4_1NEON(a)
		}
	case Q5_0:
		switch {
		case enabled[dotprod]:
			dotQ5_0DOTPROD(a)
		case enabled[neon]:
			dotQ5_0NEON(a)
		}
	case Q5_1:
		switch {
		case enabled[dotprod]:
			dotQ5_1DOTPROD(a)
		case enabled[neon]:
			dotQ5_1NEON(a)
		}
	case Q8_0:
		switch {
		case enabled[dotprod]:
			dotQ8_0DOTPROD(a)
		case enabled[neon]:
			dotQ8_0NEON(a)
		}
	case IQ4NL:
		switch {
		case enabled[dotprod]:
			dotIQ4NLDOTPROD(a)
		case enabled[neon]:
			dotIQ4NLNEON(a)
		}
	case Q1_0:
		switch {
		case enabled[dotprod]:
			dotQ1_0DOTPROD(a)
		case enabled[neon]:
			dotQ1_0NEON(a)
		}
	case Q2_0:
		switch {
		case enabled[dotprod]:
			dotQ2_0DOTPROD(a)
		case enabled[neon]:
			dotQ2_0NEON(a)
		}
	case Q2K:
		switch {
		case enabled[dotprod]:
			dotQ2KDOTPROD(a)
		case enabled[neon]:
			dotQ2KNEON(a)
		}
	case Q3K:
		switch {
		case enabled[dotprod]:
			dotQ3KDOTPROD(a)
		case enabled[neon]:
			dotQ3KNEON(a)
		}
	case Q4K:
		switch {
		case enabled[dotprod]:
			dotQ4KDOTPROD(a)
		case enabled[neon]:
			dotQ4KNEON(a)
		}
	case Q5K:
		switch {
		case enabled[dotprod]:
			dotQ5KDOTPROD(a)
		case enabled[neon]:
			dotQ5KNEON(a)
		}
	case Q6K:
		switch {
		case enabled[dotprod]:
			dotQ6KDOTPROD(a)
		case enabled[neon]:
			dotQ6KNEON(a)
		}
	case IQ4XS:
		switch {
		case enabled[dotprod]:
			dotIQ4XSDOTPROD(a)
		case enabled[neon]:
			dotIQ4XSNEON(a)
		}
	case TQ1_0:
		switch {
		case enabled[dotprod]:
			dotTQ1_0DOTPROD(a)
		case enabled[neon]:
			dotTQ1_0NEON(a)
		}
	case TQ2_0:
		switch {
		case enabled[dotprod]:
			dotTQ2_0DOTPROD(a)
		case enabled[neon]:
			dotTQ2_0NEON(a)
		}
	}
}

// runFloats multiplies pairs of rows in assembly, by one vector or by two.
func (a *dotArgs) runFloats(w Weights, pair bool) {
	switch w {
	case F32:
		switch {
		case enabled[neon] && pair:
			dotPairF32NEON(a)
		case enabled[neon]:
			dotF32NEON(a)
		}
	case F16:
		switch {
		case enabled[neon] && pair:
			dotPairF16NEON(a)
		case enabled[neon]:
			dotF16NEON(a)
		}
	case BF16:
		switch {
		case enabled[neon] && pair:
			dotPairBF16NEON(a)
		case enabled[neon]:
			dotBF16NEON(a)
		}
	}
}

//go:noescape
func dotF32NEON(a *dotArgs)

//go:noescape
func dotF16NEON(a *dotArgs)

//go:noescape
func dotBF16NEON(a *dotArgs)

//go:noescape
func dotQ4_0DOTPROD(a *dotArgs)

//go:noescape
func dotQ4_0NEON(a *dotArgs)

//go:noescape
func dotQ4_1DOTPROD(a *dotArgs)

//go:noescape
func dotQ4_1NEON(a *dotArgs)

//go:noescape
func dotQ5_0DOTPROD(a *dotArgs)

//go:noescape
func dotQ5_0NEON(a *dotArgs)

//go:noescape
func dotQ5_1DOTPROD(a *dotArgs)

//go:noescape
func dotQ5_1NEON(a *dotArgs)

//go:noescape
func dotQ8_0DOTPROD(a *dotArgs)

//go:noescape
func dotQ8_0NEON(a *dotArgs)

//go:noescape
func dotIQ4NLDOTPROD(a *dotArgs)

//go:noescape
func dotIQ4NLNEON(a *dotArgs)

//go:noescape
func dotQ1_0DOTPROD(a *dotArgs)

//go:noescape
func dotQ1_0NEON(a *dotArgs)

//go:noescape
func dotQ2_0DOTPROD(a *dotArgs)

//go:noescape
func dotQ2_0NEON(a *dotArgs)

//go:noescape
func dotQ2KDOTPROD(a *dotArgs)

//go:noescape
func dotQ2KNEON(a *dotArgs)

//go:noescape
func dotQ3KDOTPROD(a *dotArgs)

//go:noescape
func dotQ3KNEON(a *dotArgs)

//go:noescape
func dotQ4KDOTPROD(a *dotArgs)

//go:noescape
func dotQ4KNEON(a *dotArgs)

//go:noescape
func dotQ5KDOTPROD(a *dotArgs)

//go:noescape
func dotQ5KNEON(a *dotArgs)

//go:noescape
func dotQ6KDOTPROD(a *dotArgs)

//go:noescape
func dotQ6KNEON(a *dotArgs)

//go:noescape
func dotIQ4XSDOTPROD(a *dotArgs)

//go:noescape
func dotIQ4XSNEON(a *dotArgs)

//go:noescape
func dotTQ1_0DOTPROD(a *dotArgs)

//go:noescape
func dotTQ1_0NEON(a *dotArgs)

//go:noescape
func dotTQ2_0DOTPROD(a *dotArgs)

//go:noescape
func dotTQ2_0NEON(a *dotArgs)

//go:noescape
func dotPairF32NEON(a *dotArgs)

//go:noescape
func dotPairF16NEON(a *dotArgs)

//go:noescape
func dotPairBF16NEON(a *dotArgs)
