package kernels

func expSum(x []float32, scale, top float32, lanes *[floatLanes]float32) int {
	whole := len(x) / floatLanes * floatLanes
	if whole == 0 || !(enabled[avx512] || enabled[avx2]) {
		return expSumGeneric(x, scale, top, lanes)
	}
	a := expSumArgs{x: &x[0], n: int64(whole), c: &expTable, scale: scale, top: top}
	switch {
	case enabled[avx512]:
		expSumAVX512(&a)
	case enabled[avx2]:
		expSumAVX2(&a)
	}
	*lanes = a.sums
	return whole
}

func maxOf(x []float32, lanes *[floatLanes]float32) int {
	whole := len(x) / floatLanes * floatLanes
	if whole == 0 || !(enabled[avx512] || enabled[avx2]) {
		return 0
	}
	a := maxArgs{x: &x[0], n: int64(whole), lanes: *lanes}
	switch {
	case enabled[avx512]:
		maxAVX512(&a)
	case enabled[avx2]:
		maxAVX2(&a)
	}
	*lanes = a.lanes
	return whole
}

func siluMul(gate, up []float32) int {
	whole := len(gate) / floatLanes * floatLanes
	if whole == 0 || !(enabled[avx512] || enabled[avx2]) {
		return 0
	}
	a := siluArgs{gate: &gate[0], up: &up[0], n: int64(whole), c: &expTable}
	switch {
	case enabled[avx512]:
		siluAVX512(&a)
	case enabled[avx2]:
		siluAVX2(&a)
	}
	return whole
}

// addRows adds the whole runs of 16 columns and returns how many columns these are.
func addRows(dst, weights []float32, w Weights, rows []byte) int {
	whole := len(dst) / floatLanes * floatLanes
	if whole == 0 || !(enabled[avx512] || enabled[avx2]) {
		return 0
	}
	a := addRowsArgs{&dst[0], int64(whole), &weights[0], int64(len(weights)), &rows[0], int64(w.RowBytes(len(dst)))}
	switch {
	case enabled[avx512] && w == F32:
		addRowsAVX512(&a)
	case enabled[avx512]:
		addHalfRowsAVX512(&a)
	case enabled[avx2] && w == F32:
		addRowsAVX2(&a)
	case enabled[avx2]:
		addHalfRowsAVX2(&a)
	}
	return whole
}

//go:noescape
func expSumAVX512(a *expSumArgs)

//go:noescape
func expSumAVX2(a *expSumArgs)

//go:noescape
func siluAVX512(a *siluArgs)

//go:noescape
func siluAVX2(a *siluArgs)

//go:noescape
func addRowsAVX512(a *addRowsArgs)

//go:noescape
func addRowsAVX2(a *addRowsArgs)

//go:noescape
func addHalfRowsAVX512(a *addRowsArgs)

//go:noescape
func addHalfRowsAVX2(a *addRowsArgs)

//go:noescape
func maxAVX512(a *maxArgs)

//go:noescape
func maxAVX2(a *maxArgs)
