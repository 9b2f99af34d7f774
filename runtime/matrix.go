package runtime

import (
	"gguf-forge/gguf"
	"gguf-forge/quant"
)

// matrix is n linear maps [in, out] on top of each other, as stored: n·out rows of in weights.
type matrix struct {
	name    string
	typ     gguf.Type
	in, out int
	n       int
	rowSize int       // bytes of a row
	data    []byte    // n·out rows
	bias    []float32 // n·out, or nil
	scale   []float32 // factor of the whole product, or of each map; nil: none
}

// present reports whether the matrix was declared.
func (w *matrix) present() bool { return w.in > 0 }

// row returns the bytes of row r.
func (w *matrix) row(r int) []byte { return w.data[r*w.rowSize : (r+1)*w.rowSize] }

// decode writes the values of row r to dst, [in].
func (w *matrix) decode(dst []float32, r int) {
	if err := quant.Decode(w.typ, dst[:w.in], w.row(r)); err != nil {
		panic(err) // type and lengths were checked when the matrix was declared
	}
}

// decodes reports whether rows must be decoded before they are multiplied: no kernel knows the type, or activations are
// to stay float32.
func (w *matrix) decodes(exact bool) bool {
	_, known := kernelOf(w.typ)
	return w.typ != gguf.F32 && (exact || !known)
}

// finish applies factor and bias to the product y of row r.
func (w *matrix) finish(y float32, r int) float32 {
	switch len(w.scale) {
	case 0:
	case 1:
		y *= w.scale[0]
	default:
		y *= w.scale[r/w.out]
	}
	if w.bias != nil {
		y += w.bias[r]
	}
	return y
}
