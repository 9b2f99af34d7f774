//go:build amd64 || arm64

package kernels

import "unsafe"

// A panel is a piece of some rows of weights, unpacked for products with many vectors: up to panelColumns columns of
// panelRows rows, as in csrc/panel.h. It takes the definition's steps in the same order, so that results are the same.
const (
	panelColumns  = 256
	mostPanelRows = 16
	panelLines    = 112
)

// panelVectors is how many vectors meet a panel before the next one is unpacked. Their codes stay in the cache.
const panelVectors = 64

// panelPays is the least number of vectors with which panels are faster than rows.
const panelPays = 4

// unpackArgs is what the assembly sees, as declared in csrc/unpack.h.
type unpackArgs struct {
	rows         *byte
	stride, runs int64
	panel        *byte
	_            [2]uintptr // state of the assembly
}

// panelArgs is what the assembly sees, as declared in csrc/panel.c.
type panelArgs struct {
	panel      *byte
	out        *float32
	stride     int64
	y          *int8
	yStride    int64
	dy         *float32
	dyStride   int64
	sums       unsafe.Pointer
	sumsStride int64
	at         *int32
	count      int64
	runs       int64
	offset     int64
	_          [17]uintptr // state of the assembly
}

// mulPanels multiplies many vectors with rows of quantized weights, of which there is at least one panel. The last panel
// overlaps the one before.
func mulPanels(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	var memory [panelLines*4*mostPanelRows + 64]byte
	panel := memory[-uintptr(unsafe.Pointer(&memory))%64:]
	group := panelRows()
	for first := 0; first < x.count; first += panelVectors {
		var at [panelVectors + 4]int32
		n := min(panelVectors, x.count-first)
		for i := range n {
			at[i] = int32(x.at(first + i))
		}
		for i := n; i < len(at); i++ {
			at[i] = at[n-1]
		}
		some := out[first*stride:]
		for r := 0; r < count; r += group {
			r := min(r, count-group)
			mulPanel(w, some, stride, r, group, rows[r*size:(r+group)*size], size, x.a, &at, n, panel)
		}
	}
}

// mulPanel multiplies one group of rows, r and the following ones, with the n vectors whose numbers are at.
func mulPanel(w Weights, out []float32, stride, r, group int, rows []byte, size int, x *Activations, at *[panelVectors + 4]int32, n int, panel []byte) {
	var rest [4 * mostPanelRows]float32 // sums of the last vectors, less than four
	whole := n / 4 * 4
	for i := range whole {
		clear(out[i*stride+r:][:group])
	}
	f := &formats[w]
	a := panelArgs{panel: &panel[0], offset: int64(uint16(-panelOffset(w)))}
	for column := 0; column < x.n; column += panelColumns {
		a.runs = int64(min(panelColumns, x.n-column) / 32)
		u := unpackArgs{stride: int64(size), runs: a.runs}
		for quad := range group / 4 {
			u.rows, u.panel = &rows[4*quad*size+column/f.values*f.bytes], &panel[16*quad]
			u.run(w)
		}
		x.panelArguments(&a, column)
		if whole > 0 {
			a.out, a.stride, a.at, a.count = &out[r:][0], int64(4*stride), &at[0], int64(whole)
			a.run(w)
		}
		if whole < n {
			a.out, a.stride, a.at, a.count = &rest[0], int64(4*group), &at[whole], 4
			a.run(w)
		}
	}
	for i := whole; i < n; i++ {
		copy(out[i*stride+r:][:group], rest[(i-whole)*group:])
	}
}

// panelArguments makes the vectors, from a column on, those of the product.
func (x *Activations) panelArguments(a *panelArgs, column int) {
	a.y, a.yStride = &x.codes[column], int64(x.n)
	switch x.form {
	case FormQ8_0:
		a.dy, a.dyStride = &x.scales[column/32], int64(x.n/32*4)
		a.sums, a.sumsStride = unsafe.Pointer(&x.sums[column/32]), a.dyStride
	case FormQ8_1:
		a.dy, a.dyStride = &x.scales[column/32], int64(x.n/32*4)
		a.sums, a.sumsStride = unsafe.Pointer(&x.mins[column/32]), a.dyStride
	case FormQ8_K:
		a.dy, a.dyStride = &x.scales[column/256], int64(x.n/256*4)
		a.sums, a.sumsStride = unsafe.Pointer(&x.bsums[column/16]), int64(x.n/16*2)
	}
}
