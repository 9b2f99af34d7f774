package gguf

import (
	"encoding/binary"
	"math"

	"gguf-forge/internal/fault"
)

// Style selects which of the two reference writers a header equals.
type Style int

// The writers of the reference.
const (
	GGML   Style = iota // drops trailing dimensions of 1, always writes at least one dimension
	GGUFPy              // writes the dimensions it was given
)

// maxLayoutAlignment is the largest alignment written: beyond any page size, and
// small enough that padding never dominates a header.
const maxLayoutAlignment = 1 << 24

// Layout is a complete file but for the tensor data.
type Layout struct {
	Header    []byte       // version 3, with the padding up to DataStart
	Tensors   []TensorInfo // as written, with offsets
	DataStart int64        // len(Header)
	Size      int64        // bytes of the file: every tensor is padded to Alignment, the last one too
	Alignment int64
}

// NewLayout lays out a file with these pairs and tensors in this order; offsets of the
// tensors given are ignored. alignment 0 means 32; any other value but 32 must be stated in the metadata too
// (general.alignment), and the metadata must not state one that is not used.
//
// Everything a reader would refuse is an error that names the key or tensor: empty, long or
// duplicate names, more than 4 dimensions, unknown types, and rows that are no multiple of their type's block.
func NewLayout(meta *Metadata, tensors []TensorInfo, style Style, alignment int64) (*Layout, error) {
	if alignment == 0 {
		alignment = defaultAlignment
	}
	if err := checkAlignment(meta, alignment); err != nil {
		return nil, err
	}
	l := &Layout{Alignment: alignment}
	if err := l.place(tensors, style); err != nil {
		return nil, err
	}
	if err := l.encode(meta); err != nil {
		return nil, err
	}
	l.DataStart = int64(len(l.Header))
	if l.Size > math.MaxInt64-l.DataStart {
		return nil, fault.New(fault.BadInput, "the file would be larger than %d bytes", int64(math.MaxInt64))
	}
	l.Size += l.DataStart
	return l, nil
}

func checkAlignment(meta *Metadata, alignment int64) error {
	if alignment < 1 || alignment > maxLayoutAlignment || alignment&(alignment-1) != 0 {
		return fault.New(fault.BadInput, "an alignment of %d is not possible: it must be a power of two up to %d", alignment, maxLayoutAlignment)
	}
	stated := int64(defaultAlignment)
	if v, ok := meta.Get(alignmentKey); ok {
		n, _ := v.Int()
		if v.Type != Uint32 {
			return fault.New(fault.BadInput, "%s is of type %s, it must be u32", alignmentKey, v.Type)
		}
		stated = n
	}
	if stated != alignment {
		err := fault.New(fault.BadInput, "the metadata states an alignment of %d (%s), the file would be written with %d", stated, alignmentKey, alignment)
		return fault.WithHint(err, "set or remove %s so that both agree", alignmentKey)
	}
	return nil
}

// place checks the tensors, sets their offsets, and sets Size to the size of the data section.
func (l *Layout) place(tensors []TensorInfo, style Style) error {
	seen := make(map[string]struct{}, len(tensors))
	l.Tensors = make([]TensorInfo, len(tensors))
	for i, t := range tensors {
		if t.Name == "" || len(t.Name) > maxName {
			return fault.New(fault.BadInput, "tensor name %q has %d bytes, it must have 1 to %d", t.Name, len(t.Name), maxName)
		}
		if _, ok := seen[t.Name]; ok {
			return fault.New(fault.BadInput, "tensor %q appears twice", t.Name)
		}
		seen[t.Name] = struct{}{}
		if err := t.check(); err != nil {
			return err
		}
		n, ok := t.Size()
		if !ok {
			return fault.New(fault.BadInput, "tensor %q has %s, whose size is not known", t.Name, t.Type)
		}
		if n > math.MaxInt64-l.Size-l.Alignment {
			return fault.New(fault.BadInput, "tensor %q ends beyond %d bytes", t.Name, int64(math.MaxInt64))
		}
		t.Offset = l.Size
		t.Shape = style.shape(t)
		l.Tensors[i] = t
		l.Size += pad(n, l.Alignment)
	}
	return nil
}

// shape returns the dimensions the writer stores for t.
func (s Style) shape(t TensorInfo) []int64 {
	if s == GGUFPy {
		return t.Shape
	}
	if len(t.Shape) == 0 {
		return []int64{1}
	}
	return t.Shape[:t.Dims():t.Dims()]
}

// encode writes the header.
func (l *Layout) encode(meta *Metadata) error {
	size := int64(24)
	for k, v := range meta.All() {
		size += int64(len(k)) + int64(len(v.Raw)) + 32
	}
	for _, t := range l.Tensors {
		size += int64(len(t.Name)) + minInfo + 8*int64(len(t.Shape))
	}
	if size+l.Alignment > maxHeader {
		return fault.New(fault.BadInput, "the header would be larger than %d bytes", maxHeader)
	}

	b := make([]byte, 0, size+l.Alignment)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(l.Tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(meta.Len()))
	seen := make(map[string]struct{}, meta.Len())
	for key, v := range meta.All() {
		if key == "" {
			return fault.New(fault.BadInput, "a metadata key is empty")
		}
		if _, ok := seen[key]; ok {
			return fault.New(fault.BadInput, "metadata key %q appears twice", key)
		}
		seen[key] = struct{}{}
		if err := v.check(); err != nil {
			return fault.New(fault.BadInput, "metadata key %q: %w", key, err)
		}
		b = appendText(b, key)
		b = v.appendTo(b)
	}
	for _, t := range l.Tensors {
		b = appendText(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Offset))
	}
	l.Header = append(b, make([]byte, pad(int64(len(b)), l.Alignment)-int64(len(b)))...)
	return nil
}

func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// appendTo appends the type and the value as they stand in a file.
func (v Value) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(v.Type))
	switch v.Type {
	case String:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v.Raw)))
	case Array:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Elem))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.Len))
	}
	return append(b, v.Raw...)
}
