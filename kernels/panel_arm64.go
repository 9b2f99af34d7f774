package kernels

// panelRows returns the number of rows of a panel, at most mostPanelRows, or 0 if products of panels do not pay.
func panelRows() int {
	if enabled[i8mm] || enabled[dotprod] {
		return 8
	}
	return 0
}

// panelOffset returns what is added to the codes of a type with blocks of 32 to make them those of a panel.
func panelOffset(Weights) int16 { return 0 }

// run unpacks four rows.
func (a *unpackArgs) run(w Weights) {
	switch w {
	case Q4_0:
		switch {
		case enabled[i8mm]:
			unpackQ4_0I8MM(a)
		case enabled[dotprod]:
			unpackQ4_0DOTPROD(a)
		}
	case Q4_1:
		switch {
		case enabled[i8mm]:
			unpackQ4_1I8MM(a)
		case enabled[dotprod]:
			unpackQ4_1DOTPROD(a)
		}
	case Q5_0:
		switch {
		case enabled[i8mm]:
			unpackQ5_0I8MM(a)
		case enabled[dotprod]:
			unpackQ5_0DOTPROD(a)
		}
	case Q5_1:
		switch {
		case enabled[i8mm]:
			unpackQ5_1I8MM(a)
		case enabled[dotprod]:
			unpackQ5_1DOTPROD(a)
		}
	case Q8_0:
		switch {
		case enabled[i8mm]:
			unpackQ8_0I8MM(a)
		case enabled[dotprod]:
			unpackQ8_0DOTPROD(a)
		}
	case IQ4NL:
		switch {
		case enabled[i8mm]:
			unpackIQ4NLI8MM(a)
		case enabled[dotprod]:
			unpackIQ4NLDOTPROD(a)
		}
	case Q1_0:
		switch {
		case enabled[i8mm]:
			unpackQ1_0I8MM(a)
		case enabled[dotprod]:
			unpackQ1_0DOTPROD(a)
		}
	case Q2_0:
		switch {
		case enabled[i8mm]:
			unpackQ2_0I8MM(a)
		case enabled[dotprod]:
			unpackQ2_0DOTPROD(a)
		}
	case Q2K:
		switch {
		case enabled[i8mm]:
			unpackQ2KI8MM(a)
		case enabled[dotprod]:
			unpackQ2KDOTPROD(a)
		}
	case Q3K:
		switch {
		case enabled[i8mm]:
			unpackQ3KI8MM(a)
		case enabled[dotprod]:
			unpackQ3KDOTPROD(a)
		}
	case Q4K:
		switch {
		case enabled[i8mm]:
			unpackQ4KI8MM(a)
		case enabled[dotprod]:
			unpackQ4KDOTPROD(a)
		}
	case Q5K:
		switch {
		case enabled[i8mm]:
			unpackQ5KI8MM(a)
		case enabled[dotprod]:
			unpackQ5KDOTPROD(a)
		}
	case Q6K:
		switch {
		case enabled[i8mm]:
			unpackQ6KI8MM(a)
		case enabled[dotprod]:
			unpackQ6KDOTPROD(a)
		}
	case IQ4XS:
		switch {
		case enabled[i8mm]:
			unpackIQ4XSI8MM(a)
		case enabled[dotprod]:
			unpackIQ4XSDOTPROD(a)
		}
	case TQ1_0:
		switch {
		case enabled[i8mm]:
			unpackTQ1_0I8MM(a)
		case enabled[dotprod]:
			unpackTQ1_0DOTPROD(a)
		}
	case TQ2_0:
		switch {
		case enabled[i8mm]:
			unpackTQ2_0I8MM(a)
		case enabled[dotprod]:
			unpackTQ2_0DOTPROD(a)
		}
	}
}

// run multiplies a panel.
func (a *panelArgs) run(w Weights) {
	switch w {
	case Q4_0, Q5_0, Q8_0, IQ4NL, Q1_0, Q2_0:
		switch {
		case enabled[i8mm]:
			panelBlocksI8MM(a)
		case enabled[dotprod]:
			panelBlocksDOTPROD(a)
		}
	case Q4_1, Q5_1:
		switch {
		case enabled[i8mm]:
			panelMinI8MM(a)
		case enabled[dotprod]:
			panelMinDOTPROD(a)
		}
	case Q2K:
		switch {
		case enabled[i8mm]:
			panelSuper16MinI8MM(a)
		case enabled[dotprod]:
			panelSuper16MinDOTPROD(a)
		}
	case Q3K, Q6K:
		switch {
		case enabled[i8mm]:
			panelSuper16I8MM(a)
		case enabled[dotprod]:
			panelSuper16DOTPROD(a)
		}
	case Q4K, Q5K:
		switch {
		case enabled[i8mm]:
			panelSuper32MinI8MM(a)
		case enabled[dotprod]:
			panelSuper32MinDOTPROD(a)
		}
	case IQ4XS:
		switch {
		case enabled[i8mm]:
			panelSuper32I8MM(a)
		case enabled[dotprod]:
			panelSuper32DOTPROD(a)
		}
	case TQ1_0, TQ2_0:
		switch {
		case enabled[i8mm]:
			panelSuper0I8MM(a)
		case enabled[dotprod]:
			panelSuper0DOTPROD(a)
		}
	}
}

//go:noescape
func unpackQ4_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ4_1DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ5_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ5_1DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ8_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackIQ4NLDOTPROD(a *unpackArgs)

//go:noescape
func unpackQ1_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ2_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackQ2KDOTPROD(a *unpackArgs)

//go:noescape
func unpackQ3KDOTPROD(a *unpackArgs)

//go:noescape
func unpackQ4KDOTPROD(a *unpackArgs)

//go:noescape
func unpackQ5KDOTPROD(a *unpackArgs)

//go:noescape
func unpackQ6KDOTPROD(a *unpackArgs)

//go:noescape
func unpackIQ4XSDOTPROD(a *unpackArgs)

//go:noescape
func unpackTQ1_0DOTPROD(a *unpackArgs)

//go:noescape
func unpackTQ2_0DOTPROD(a *unpackArgs)

//go:noescape
func panelBlocksDOTPROD(a *panelArgs)

//go:noescape
func panelMinDOTPROD(a *panelArgs)

//go:noescape
func panelSuper16MinDOTPROD(a *panelArgs)

//go:noescape
func panelSuper16DOTPROD(a *panelArgs)

//go:noescape
func panelSuper32MinDOTPROD(a *panelArgs)

//go:noescape
func panelSuper32DOTPROD(a *panelArgs)

//go:noescape
func panelSuper0DOTPROD(a *panelArgs)

//go:noescape
func unpackQ4_0I8MM(a *unpackArgs)

//go:noescape
func unpackQ4_1I8MM(a *unpackArgs)

//go:noescape
func unpackQ5_0I8MM(a *unpackArgs)

//go:noescape
func unpackQ5_1I8MM(a *unpackArgs)

//go:noescape
func unpackQ8_0I8MM(a *unpackArgs)

//go:noescape
func unpackIQ4NLI8MM(a *unpackArgs)

//go:noescape
func unpackQ1_0I8MM(a *unpackArgs)

//go:noescape
func unpackQ2_0I8MM(a *unpackArgs)

//go:noescape
func unpackQ2KI8MM(a *unpackArgs)

//go:noescape
func unpackQ3KI8MM(a *unpackArgs)

//go:noescape
func unpackQ4KI8MM(a *unpackArgs)

//go:noescape
func unpackQ5KI8MM(a *unpackArgs)

//go:noescape
func unpackQ6KI8MM(a *unpackArgs)

//go:noescape
func unpackIQ4XSI8MM(a *unpackArgs)

//go:noescape
func unpackTQ1_0I8MM(a *unpackArgs)

//go:noescape
func unpackTQ2_0I8MM(a *unpackArgs)

//go:noescape
func panelBlocksI8MM(a *panelArgs)

//go:noescape
func panelMinI8MM(a *panelArgs)

//go:noescape
func panelSuper16MinI8MM(a *panelArgs)

//go:noescape
func panelSuper16I8MM(a *panelArgs)

//go:noescape
func panelSuper32MinI8MM(a *panelArgs)

//go:noescape
func panelSuper32I8MM(a *panelArgs)

//go:noescape
func panelSuper0I8MM(a *panelArgs)
