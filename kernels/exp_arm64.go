package kernels

func expSum(x []float32, scale, top float32, lanes *[floatLanes]float32) int {
	whole := len(x) / floatLanes * floatLanes
	if whole == 0 || !(enabled[neon]) {
		return expSumGeneric(x, scale, top, lanes)
	}
	a := expSumArgs{x: &x[0], n: int64(whole), c: &expTable, scale: scale, top: top}
	if enabled[neon] {
		expSumNEON(&a)
	}
	*lanes = a.sums
	return whole
}

func maxOf(x []float32, lanes *[floatLanes]float32) int {
	whole := len(x) / floatLanes * floatLanes
	if whole == 0 || !(enabled[neon]) {
		return 0
	}
	a := maxArgs{x: &x[0], n: int64(whole), lanes: *lanes}
	if enabled[neon] {
		maxNEON(&a)
	}
	*lanes = a.lanes
	return whole
}

func siluMul(gate, up []float32) int {
	whole := len(gate) / floatLanes * floatLanes
	if whole == 0 || !(enabled[neon]) {
		return 0
	}
	a := siluArgs{gate: &gate[0], up: &up[0], n: int64(whole), c: &expTable}
	if enabled[neon] {
		siluNEON(&a)
	}
	return whole
}

// addRows adds the whole runs of 16 columns and returns how many columns these are.
func addRows(dst, weights []float32, w Weights, rows []byte) int {
	whole := len(dst) / floatLanes * floatLanes
	if whole == 0 || !(enabled[neon]) {
		return 0
	}
	a := addRowsArgs{&dst[0], int64(whole), &weights[0], int64(len(weights)), &rows[0], int64(w.RowBytes(len(dst)))}
	switch {
	case enabled[neon] && w == F32:
		addRowsNEON(&a)
	case enabled[neon]:
		addHalfRowsNEON(&a)
	}
	return whole
}

//go:noescape
func expSumNEON(a *expSumArgs)

//go:noescape
func siluNEON(a *siluArgs)

//go:noescape
func addRowsNEON(a *addRowsArgs)

//go:noescape
func addHalfRowsNEON(a *addRowsArgs)

//go:noescape
func maxNEON(a *maxArgs)
