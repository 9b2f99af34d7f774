package quant

import (
	"encoding/binary"
	"io"
	"math"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Tensors and keys of the GGUF format.
const (
	sumsSuffix    = ".in_sum2"
	countsSuffix  = ".counts"
	datasetsKey   = "imatrix.datasets"
	chunkCountKey = "imatrix.chunk_count"
	chunkSizeKey  = "imatrix.chunk_size"
)

// readImatrixGGUF reads the current format: for every entry a tensor of sums [columns, matrices] and one of counts
// [1, matrices], both f32. Other tensors are ignored.
func readImatrixGGUF(r io.ReaderAt, size int64) (*Imatrix, error) {
	h, err := gguf.ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	if err := h.CheckData(); err != nil {
		return nil, err
	}
	m := new(Imatrix)
	if m.Datasets, m.ChunkCount, m.ChunkSize, err = imatrixMetadata(h.Metadata); err != nil {
		return nil, err
	}

	type pair struct{ sums, counts *gguf.TensorInfo }
	pairs := map[string]pair{}
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if name, ok := strings.CutSuffix(t.Name, sumsSuffix); ok {
			p := pairs[name]
			p.sums = t
			pairs[name] = p
		} else if name, ok := strings.CutSuffix(t.Name, countsSuffix); ok {
			p := pairs[name]
			p.counts = t
			pairs[name] = p
		}
	}
	for name, p := range pairs {
		if p.sums == nil || p.counts == nil {
			return nil, fault.New(fault.BadInput, "importance matrix: entry %q lacks its sums or counts", name)
		}
		sums, err := readFloats(r, h, p.sums)
		if err != nil {
			return nil, err
		}
		counts, err := readFloats(r, h, p.counts)
		if err != nil {
			return nil, err
		}
		if len(counts) == 0 || len(sums) == 0 || len(sums)%len(counts) != 0 {
			return nil, fault.New(fault.BadInput, "importance matrix: entry %q has %d sums for %d counts", name, len(sums), len(counts))
		}
		e := Entry{Name: name, Sums: sums, Counts: make([]int64, len(counts))}
		for i, c := range counts {
			e.Counts[i] = roundCount(c)
		}
		m.Entries = append(m.Entries, e)
	}
	sortEntries(m.Entries)
	return m, nil
}

func imatrixMetadata(meta *gguf.Metadata) (datasets []string, count, size int32, err error) {
	list, ok := meta.Get(datasetsKey)
	if !ok {
		err := fault.New(fault.BadInput, "importance matrix: the file has no %s", datasetsKey)
		return nil, 0, 0, fault.WithHint(err, "is it a model instead of an importance matrix?")
	}
	for _, s := range list.Strings() {
		datasets = append(datasets, s)
	}
	number := func(key string) int32 {
		v, ok := meta.Get(key)
		if !ok || v.Type != gguf.Uint32 {
			if err == nil {
				err = fault.New(fault.BadInput, "importance matrix: the file has no %s of type u32", key)
			}
			return 0
		}
		n, _ := v.Uint()
		return int32(uint32(n)) // as the reference reads it; what becomes negative counts as unknown
	}
	count, size = number(chunkCountKey), number(chunkSizeKey)
	return datasets, count, size, err
}

// readFloats reads a tensor. CheckData has found its bytes in the file.
func readFloats(r io.ReaderAt, h *gguf.Header, t *gguf.TensorInfo) ([]float32, error) {
	if t.Type != gguf.F32 {
		return nil, fault.New(fault.BadInput, "importance matrix: tensor %q is %s, it must be f32", t.Name, t.Type)
	}
	n, _ := t.Size()
	if n > math.MaxInt32 {
		return nil, fault.New(fault.BadInput, "importance matrix: tensor %q has %d bytes, more than %d", t.Name, n, math.MaxInt32)
	}
	return readFloatsAt(r, h.DataStart+t.Offset, int(n/4))
}

func readFloatsAt(r io.ReaderAt, off int64, n int) ([]float32, error) {
	raw := make([]byte, 4*n)
	if err := readFull(r, raw, off); err != nil {
		return nil, err
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list, nil
}

// roundCount rounds half away from zero. What no int64 holds counts as no data, as in the reference.
func roundCount(c float32) int64 {
	f := math.Round(float64(c))
	if !(f > 0 && f < 1<<63) {
		return 0
	}
	return int64(f)
}

// WriteGGUF writes the matrix in the current format, byte for byte as the reference's collector does.
func (m *Imatrix) WriteGGUF(w io.Writer) error {
	var meta gguf.Metadata
	meta.Put("general.type", gguf.StringValue("imatrix"))
	meta.Put(datasetsKey, gguf.StringsValue(m.Datasets))
	meta.Put(chunkCountKey, gguf.Uint32Value(uint32(m.ChunkCount)))
	meta.Put(chunkSizeKey, gguf.Uint32Value(uint32(m.ChunkSize)))
	var tensors []gguf.TensorInfo
	for i := range m.Entries {
		e := &m.Entries[i]
		matrices := int64(len(e.Counts))
		tensors = append(tensors,
			gguf.TensorInfo{Name: e.Name + sumsSuffix, Shape: []int64{int64(e.columns()), matrices}},
			gguf.TensorInfo{Name: e.Name + countsSuffix, Shape: []int64{1, matrices}})
	}
	l, err := gguf.NewLayout(&meta, tensors, gguf.GGML, 0)
	if err != nil {
		return err
	}
	if _, err := w.Write(l.Header); err != nil {
		return err
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := writePadded(w, encodeFloats(e.Sums)); err != nil {
			return err
		}
		counts := make([]float32, len(e.Counts))
		for j, c := range e.Counts {
			counts[j] = float32(c)
		}
		if err := writePadded(w, encodeFloats(counts)); err != nil {
			return err
		}
	}
	return nil
}

func writePadded(w io.Writer, b []byte) error {
	_, err := w.Write(append(b, make([]byte, -len(b)&31)...))
	return err
}

func encodeFloats(list []float32) []byte {
	b := make([]byte, 0, 4*len(list)+32)
	for _, f := range list {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}
