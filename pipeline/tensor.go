package pipeline

import (
	"fmt"
	"slices"
	"sync"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

// Range is a run of bytes of a source.
type Range struct {
	Source remote.Source
	Off    int64
	Len    int64
}

// Tensor is a tensor that does not exist yet: a pure function from rows to bytes.
//
// Info is known before any weight is read. Needs names the source bytes behind rows [lo,hi), without
// reading them, in the order in which Rows expects them. Rows fills dst, exactly (hi-lo) rows in the
// encoding of Info().Type, from in, which holds the bytes of Needs(lo, hi), one slice a range.
// Rows is deterministic: a row's bytes are the same whatever [lo,hi) it is computed in. Both methods are safe
// for concurrent use, keep neither dst nor in, and never change in.
type Tensor interface {
	Info() gguf.TensorInfo
	Needs(lo, hi int64) []Range
	Rows(dst []byte, lo, hi int64, in [][]byte) error
}

// stored is a tensor as it stands in its source.
type stored struct {
	tensor remote.Tensor
	row    int64 // bytes of a row
}

// Stored returns t's rows unchanged, checked for values no weight can have. Its type must be known.
func Stored(t remote.Tensor) (Tensor, error) {
	row, ok := t.RowSize()
	if !ok {
		return nil, fault.New(fault.BadInput, "tensor %q: %s does not fit rows of %d values", t.Name, typeName(t), t.Cols())
	}
	if row*t.Rows() != t.Length {
		return nil, fault.New(fault.BadInput, "tensor %q has %d bytes in its source, its shape needs %d", t.Name, t.Length, row*t.Rows())
	}
	return stored{t, row}, nil
}

func typeName(t remote.Tensor) string {
	if t.DType != "" {
		return t.DType
	}
	return t.Type.String()
}

func (s stored) Info() gguf.TensorInfo { return s.tensor.TensorInfo }

func (s stored) Needs(lo, hi int64) []Range {
	return []Range{{s.tensor.Source, s.tensor.At + lo*s.row, (hi - lo) * s.row}}
}

func (s stored) Rows(dst []byte, lo, hi int64, in [][]byte) error {
	copy(dst, in[0])
	return s.Check(lo, hi, in[0])
}

// Check refuses rows with values that no weight can have.
func (s stored) Check(lo, hi int64, in []byte) error {
	if err := quant.Validate(s.tensor.Type, in); err != nil {
		return fault.New(fault.BadInput, "tensor %q, rows %d to %d of the source: %w", s.tensor.Name, lo, hi, err)
	}
	return nil
}

// encoded re-encodes another tensor.
type encoded struct {
	from    Tensor
	info    gguf.TensorInfo
	weights []float32 // importance per column, one set per matrix of a stack; nil: none
}

// Encode returns from with its values encoded as t. weights is nil or holds the importance of every column, for each
// matrix (ne0×ne1 values) of from's stack one set of ne0. Values pass through float32, as in the reference.
func Encode(from Tensor, t gguf.Type, weights []float32) (Tensor, error) {
	src := from.Info()
	info := gguf.TensorInfo{Name: src.Name, Type: t, Shape: slices.Clone(src.Shape)}
	switch {
	case !quant.CanDecode(src.Type):
		return nil, fault.New(fault.BadInput, "tensor %q: %s can't be decoded", src.Name, src.Type)
	case !quant.CanEncode(t):
		return nil, fault.New(fault.BadInput, "tensor %q: %s can't be encoded", src.Name, t)
	case weights == nil && quant.RequiresWeights(t):
		return nil, fault.New(fault.BadInput, "tensor %q: %s needs an importance matrix", src.Name, t)
	case weights != nil && int64(len(weights)) != src.Cols()*src.Dim(2)*src.Dim(3):
		return nil, fault.New(fault.BadInput, "tensor %q: importance of %d values for %d columns in %d matrices",
			src.Name, len(weights), src.Cols(), src.Dim(2)*src.Dim(3))
	}
	if _, ok := info.RowSize(); !ok {
		return nil, fault.New(fault.BadInput, "tensor %q: rows of %d values do not fit %s", src.Name, src.Cols(), t)
	}
	return encoded{from, info, weights}, nil
}

func (e encoded) Info() gguf.TensorInfo { return e.info }

func (e encoded) Needs(lo, hi int64) []Range { return e.from.Needs(lo, hi) }

// encodeBatch is about how many values are decoded to float32 at a time: they stay in the second-level cache.
const encodeBatch = 32 << 10

func (e encoded) Rows(dst []byte, lo, hi int64, in [][]byte) error {
	src := e.from.Info()
	srcRow, _ := src.RowSize()
	dstRow, _ := e.info.RowSize()
	scratch := scratchPool.Get().(*scratch)
	defer scratchPool.Put(scratch)
	raw := scratch.raw(int((hi - lo) * srcRow))
	if err := e.from.Rows(raw, lo, hi, in); err != nil {
		return err
	}
	cols, perMatrix := src.Cols(), src.Dim(1)
	batch := max(encodeBatch/cols, 1)
	for r := lo; r < hi; {
		// A batch never crosses matrices: each expert has its own importance.
		n := min(batch, hi-r, perMatrix-r%perMatrix)
		values := scratch.floats(int(n * cols))
		if err := quant.Decode(src.Type, values, raw[(r-lo)*srcRow:(r-lo+n)*srcRow]); err != nil {
			return fmt.Errorf("tensor %q: %w", src.Name, err)
		}
		out := dst[(r-lo)*dstRow : (r-lo+n)*dstRow]
		if err := quant.Encode(e.info.Type, out, values, int(cols), e.importance(r/perMatrix)); err != nil {
			return fmt.Errorf("tensor %q: %w", src.Name, err)
		}
		r += n
	}
	if err := quant.Validate(e.info.Type, dst); err != nil {
		return fault.New(fault.BadInput, "tensor %q, rows %d to %d encoded as %s: %w", src.Name, lo, hi, e.info.Type, err)
	}
	return nil
}

func (e encoded) importance(matrix int64) []float32 {
	if e.weights == nil {
		return nil
	}
	cols := e.info.Cols()
	return e.weights[matrix*cols : (matrix+1)*cols]
}

// scratch is a worker's memory for one slab.
type scratch struct {
	bytes  []byte
	values []float32
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) raw(n int) []byte {
	s.bytes = slices.Grow(s.bytes[:0], n)[:n]
	return s.bytes
}

func (s *scratch) floats(n int) []float32 {
	s.values = slices.Grow(s.values[:0], n)[:n]
	return s.values
}
