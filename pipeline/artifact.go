package pipeline

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sort"

	"gguf-forge/gguf"
)

// Artifact is a GGUF file that need not exist: header and offsets are known, the data is computed where it is read.
// It is an io.ReaderAt; Stream reads it in order with prefetch and workers. Its bytes depend on nothing but the
// metadata and tensors it was made of. It is safe for concurrent use.
type Artifact struct {
	layout  *gguf.Layout
	tensors []Tensor
}

// NewArtifact lays out tensors in the given order behind meta, as writer style would, aligned to alignment bytes.
func NewArtifact(meta *gguf.Metadata, tensors []Tensor, style gguf.Style, alignment int64) (*Artifact, error) {
	infos := make([]gguf.TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i] = t.Info()
	}
	layout, err := gguf.NewLayout(meta, infos, style, alignment)
	if err != nil {
		return nil, err
	}
	return &Artifact{layout, tensors}, nil
}

// Size returns the bytes of the file.
func (a *Artifact) Size() int64 { return a.layout.Size }

// Layout returns the header bytes and the tensor table with offsets. It must not be changed.
func (a *Artifact) Layout() *gguf.Layout { return a.layout }

// Tensors returns the tensors in file order. The slice must not be changed.
func (a *Artifact) Tensors() []Tensor { return a.tensors }

// slab is a run of rows of one tensor.
type slab struct {
	tensor int
	lo, hi int64
	at     int64 // offset of row lo in the artifact
	size   int64 // bytes of the rows in the artifact
}

// span returns the first byte of tensor i in the artifact and the one after its last.
func (a *Artifact) span(i int) (start, end int64) {
	t := a.layout.Tensors[i]
	size, _ := t.Size() // checked by NewLayout
	start = a.layout.DataStart + t.Offset
	return start, start + size
}

// slabs cuts the tensor data that [off,end) touches into slabs of at most size bytes, input or output, in order.
// A row that is larger is a slab of its own.
func (a *Artifact) slabs(off, end, size int64) iter.Seq[slab] {
	first := sort.Search(len(a.tensors), func(i int) bool { _, e := a.span(i); return e > off })
	return func(yield func(slab) bool) {
		for i := first; i < len(a.tensors); i++ {
			start, stop := a.span(i)
			if start >= end {
				return
			}
			info := a.layout.Tensors[i]
			row, _ := info.RowSize()
			if start == stop {
				continue
			}
			lo := max(off-start, 0) / row
			last := (min(end, stop) - start + row - 1) / row
			step := max(size/max(row, a.inputRow(i)), 1)
			for ; lo < last; lo += step {
				hi := min(lo+step, last)
				if !yield(slab{i, lo, hi, start + lo*row, (hi - lo) * row}) {
					return
				}
			}
		}
	}
}

// inputRow returns the source bytes behind one row of tensor i.
func (a *Artifact) inputRow(i int) int64 {
	var n int64
	for _, r := range a.tensors[i].Needs(0, 1) {
		n += r.Len
	}
	return n
}

// fixed fills p with the bytes at off, which lie outside all tensor data: header and zero padding.
func (a *Artifact) fixed(p []byte, off int64) {
	n := 0
	if off < int64(len(a.layout.Header)) {
		n = copy(p, a.layout.Header[off:])
	}
	clear(p[n:])
}

// ReadAt computes the bytes at off, reading just the source bytes behind them. It is the random-access form of
// Stream, for single ranges; it reads its sources without a deadline.
func (a *Artifact) ReadAt(p []byte, off int64) (int, error) {
	return a.ReadContext(context.Background(), p, off)
}

// randomSlab bounds the memory of a random read.
const randomSlab = 1 << 20

// ReadContext is ReadAt with a context for the reads behind it.
func (a *Artifact) ReadContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("negative offset %d", off)
	}
	if off >= a.Size() {
		return 0, io.EOF
	}
	end := min(off+int64(len(p)), a.Size())
	pos := off
	for s := range a.slabs(off, end, randomSlab) {
		if s.at > pos {
			a.fixed(p[pos-off:s.at-off], pos)
			pos = s.at
		}
		var in [][]byte
		for _, r := range a.tensors[s.tensor].Needs(s.lo, s.hi) {
			b := make([]byte, r.Len)
			if _, err := r.Source.ReadAt(ctx, b, r.Off); err != nil {
				return int(pos - off), err
			}
			in = append(in, b)
		}
		rows := make([]byte, s.size)
		if err := a.tensors[s.tensor].Rows(rows, s.lo, s.hi, in); err != nil {
			return int(pos - off), err
		}
		pos += int64(copy(p[pos-off:end-off], rows[pos-s.at:]))
	}
	a.fixed(p[pos-off:end-off], pos)
	if end-off < int64(len(p)) {
		return int(end - off), io.EOF
	}
	return int(end - off), nil
}
