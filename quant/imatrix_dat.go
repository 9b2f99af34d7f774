package quant

import (
	"encoding/binary"
	"io"
	"math"

	"gguf-forge/internal/fault"
)

// readImatrixDat reads the older format, little-endian 32-bit integers throughout: the number of entries; per entry the
// length of the name, the name, a count of chunks, the number of values, and the values (mean × count);
// then, in newer files, the number of chunks and the length and name of the last calibration text.
// Of entries with the same name the last one stays.
func readImatrixDat(r io.ReaderAt, size int64) (*Imatrix, error) {
	p := &datReader{src: r, size: size}
	entries := p.count(datEntryMin, "entries")
	m := &Imatrix{Legacy: true}
	at := map[string]int{}
	for range entries {
		name := string(p.bytes(p.count(1, "bytes of a name")))
		count := p.int32()
		e := Entry{Name: name, Counts: []int64{int64(count)}, legacy: true}
		if e.Sums = p.floats(p.count(4, "values")); p.err != nil {
			return nil, p.err
		}
		if len(e.Sums) == 0 {
			return nil, fault.New(fault.BadInput, "importance matrix: entry %q has no values", name)
		}
		if i, ok := at[name]; ok {
			m.Entries[i] = e
			continue
		}
		at[name] = len(m.Entries)
		m.Entries = append(m.Entries, e)
	}
	if p.left() > 0 {
		m.ChunkCount = p.int32()
	}
	if p.left() > 0 {
		if text := p.bytes(p.count(1, "bytes of a name")); len(text) > 0 {
			m.Datasets = []string{string(text)}
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	sortEntries(m.Entries)
	return m, nil
}

// datEntryMin is the size of an entry with an empty name and one value.
const datEntryMin = 16

// datReader reads forward. After the first error it returns zeros.
type datReader struct {
	src       io.ReaderAt
	off, size int64
	err       error
}

func (p *datReader) left() int64 { return p.size - p.off }

func (p *datReader) bytes(n int) []byte {
	if p.err == nil && int64(n) > p.left() {
		p.err = fault.New(fault.BadInput, "importance matrix: the file ends after %d bytes, in the middle of an entry", p.size)
	}
	if p.err != nil {
		return nil
	}
	b := make([]byte, n)
	p.err = readFull(p.src, b, p.off)
	p.off += int64(n)
	return b
}

func (p *datReader) int32() int32 {
	if b := p.bytes(4); p.err == nil {
		return int32(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// count reads a number of things of at least size bytes each, which the file must have room for.
func (p *datReader) count(size int64, what string) int {
	at, n := p.off, p.int32()
	if p.err == nil && (n < 0 || int64(n) > p.left()/size) {
		err := fault.New(fault.BadInput, "importance matrix: %d %s at byte %d do not fit in the %d bytes left", n, what, at, p.left())
		p.err = fault.WithHint(err, "the file is damaged or no importance matrix")
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

func (p *datReader) floats(n int) []float32 {
	if p.err != nil {
		return nil
	}
	var list []float32
	list, p.err = readFloatsAt(p.src, p.off, n)
	p.off += 4 * int64(n)
	return list
}

// WriteDat writes the matrix in the older format, byte for byte as the reference's collector does: the values are
// mean × count, the count being the largest of the entry in chunks, rounded up; experts without data get 1 as their mean,
// entries without any are left out; of the calibration texts only the last is recorded.
func (m *Imatrix) WriteDat(w io.Writer) error {
	size := int64(m.ChunkSize)
	if size < 1 {
		return fault.New(fault.BadInput, "importance matrix: without a chunk size it cannot be written in the older format")
	}
	var entries []*Entry
	for i := range m.Entries {
		if e := &m.Entries[i]; e.maxCount() > 0 {
			entries = append(entries, e)
		}
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		chunks := (e.maxCount() + size - 1) / size
		if chunks > math.MaxInt32 {
			return fault.New(fault.BadInput, "importance matrix: the count of %q is too large for the older format", e.Name)
		}
		b = appendDatText(b, e.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(chunks))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Sums)))
		values := e.Weights()
		for i := range values {
			values[i] *= float32(chunks)
		}
		b = append(b, encodeFloats(values)...)
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(m.ChunkCount))
	last := ""
	if len(m.Datasets) > 0 {
		last = m.Datasets[len(m.Datasets)-1]
	}
	_, err := w.Write(appendDatText(b, last))
	return err
}

func appendDatText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
