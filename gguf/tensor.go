package gguf

import (
	"math"

	"gguf-forge/internal/fault"
)

// TensorInfo is one row of a tensor table.
type TensorInfo struct {
	Name   string
	Type   Type
	Shape  []int64 // ne0 first: Shape[0] is the contiguous dimension (columns)
	Offset int64   // bytes from the start of the data section
}

// Cols returns the length of a row, 1 for a tensor without dimensions.
func (t TensorInfo) Cols() int64 {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[0]
}

// Dim returns the size of dimension i, 1 beyond the last one.
func (t TensorInfo) Dim(i int) int64 {
	if i < len(t.Shape) {
		return t.Shape[i]
	}
	return 1
}

// Rows returns the number of rows: the product of all dimensions but the first.
func (t TensorInfo) Rows() int64 {
	n := int64(1)
	for i := 1; i < len(t.Shape); i++ {
		n *= t.Shape[i]
	}
	return n
}

// Elements returns the number of elements.
func (t TensorInfo) Elements() int64 { return t.Cols() * t.Rows() }

// RowSize returns the bytes of a row; ok is false when the type is unknown or does not fit the row.
func (t TensorInfo) RowSize() (size int64, ok bool) { return t.Type.RowSize(t.Cols()) }

// Size returns the bytes of the tensor without padding; ok as for RowSize, and false as well when a
// dimension is negative or the size overflows.
func (t TensorInfo) Size() (size int64, ok bool) {
	row, ok := t.RowSize()
	if !ok {
		return 0, false
	}
	return product(row, t.Shape[min(len(t.Shape), 1):])
}

// product multiplies n by all dims; ok is false if one is negative or the result overflows.
func product(n int64, dims []int64) (size int64, ok bool) {
	empty := n == 0
	for _, d := range dims {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			empty = true
			continue
		}
		if n > math.MaxInt64/d {
			return 0, false
		}
		n *= d
	}
	if empty {
		return 0, true
	}
	return n, true
}

// check reports what is wrong with the dimensions, or with the type where it is known.
func (t TensorInfo) check() error {
	if len(t.Shape) > maxDims {
		return fault.New(fault.BadInput, "tensor %q has %d dimensions, more than %d", t.Name, len(t.Shape), maxDims)
	}
	for i, d := range t.Shape {
		if d < 0 {
			return fault.New(fault.BadInput, "dimension %d of tensor %q is %d", i, t.Name, d)
		}
	}
	if _, ok := product(1, t.Shape); !ok {
		return fault.New(fault.BadInput, "tensor %q has too many elements: %v", t.Name, t.Shape)
	}
	if !t.Type.Known() {
		return nil
	}
	if elems, _ := t.Type.Block(); t.Cols()%elems != 0 {
		return fault.New(fault.BadInput, "rows of tensor %q have %d elements, no multiple of the %d of a block of %s", t.Name, t.Cols(), elems, t.Type)
	}
	if _, ok := t.Size(); !ok {
		return fault.New(fault.BadInput, "tensor %q is too large: %v of %s", t.Name, t.Shape, t.Type)
	}
	return nil
}

// Dims returns the number of dimensions without trailing ones, at least 1: ggml's n_dims.
func (t TensorInfo) Dims() int {
	n := len(t.Shape)
	for n > 1 && t.Shape[n-1] == 1 {
		n--
	}
	return max(n, 1)
}
