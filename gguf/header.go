package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"gguf-forge/internal/fault"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	alignmentKey     = "general.alignment"

	maxString   = 1 << 30 // bytes of one string
	maxElements = 1 << 30 // elements of one array
	maxHeader   = 1 << 30 // bytes of everything before the data section; fits a 32-bit int
	maxName     = 63      // bytes of a tensor name
	maxDims     = 4

	// The smallest encodings: a pair is key length, one byte of key, type and one byte; a row of
	// the tensor table is name length, dimension count, type and offset.
	minPair = 8 + 1 + 4 + 1
	minInfo = 8 + 4 + 4 + 8

	firstPiece = 1 << 20 // bytes of the first read; each further one is four times as large
)

// Header is everything in a GGUF file before its tensor data.
type Header struct {
	Version   uint32
	Metadata  *Metadata
	Tensors   []TensorInfo
	Alignment int64
	DataStart int64 // file offset of the data section, a multiple of Alignment
	Size      int64 // bytes of the file
	// Missing is the number of bytes by which the file is shorter than its tensor table says, not
	// counting padding after the last tensor. Header-only files are real, so it is not an error of
	// ReadHeader; see CheckData. A tensor of unknown type counts as empty.
	Missing int64
}

// ReadHeader reads the header of a GGUF file (version 2 or 3) of size bytes. It reads pieces of 1, 4,
// 16, 64… MiB, so that a vocabulary of 250,000 tokens costs at most four reads, and never past size.
//
// Every count, length, dimension and offset is checked before memory is allocated for it, and no more
// is allocated than a small multiple of the bytes really present. The values of the result share
// memory with the pieces. Files that are something else (an HTML page, a pointer file, another format)
// are refused by name with a hint; all such errors are of kind fault.BadInput, read errors keep theirs.
//
// Tensors of unknown type are kept. Whoever reads tensor data calls CheckData first.
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	p := &parser{src: r, size: size, piece: firstPiece}
	h, err := p.header()
	if err != nil {
		return nil, err
	}
	return h, nil
}

// CheckData returns an error that names the first tensor whose data is not completely in the file.
// Missing padding after the last tensor is accepted, as model loaders do.
func (h *Header) CheckData() error {
	if h.Missing == 0 {
		return nil
	}
	for _, t := range h.Tensors {
		n, _ := t.Size()
		if at := h.DataStart + t.Offset; at+n > h.Size {
			err := fault.New(fault.BadInput, "data of tensor %q is not in the file: it needs bytes %d to %d, the file has %d (%d missing)",
				t.Name, at, at+n, h.Size, h.Missing)
			return fault.WithHint(err, "the file is cut off or holds only a header: fetch it again or continue the download")
		}
	}
	return nil
}

// PaddedSize returns the bytes of a complete file, with the padding after the last tensor.
// A tensor of unknown type counts as empty.
func (h *Header) PaddedSize() int64 {
	end := h.DataStart
	for _, t := range h.Tensors {
		n, _ := t.Size()
		end = max(end, h.DataStart+pad(t.Offset+n, h.Alignment))
	}
	return end
}

// pad rounds n up to a multiple of align, a power of two.
func pad(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

// parser reads a header in one pass. The first error stays in err; every later read returns zeros.
type parser struct {
	src   io.ReaderAt
	size  int64
	buf   []byte // bytes of the file from base on
	base  int64
	pos   int // next byte, in buf
	keep  int // bytes of buf from here on survive a refill
	piece int64
	err   error
}

func (p *parser) header() (*Header, error) {
	if err := p.sniff(); err != nil {
		return nil, err
	}
	h := &Header{Metadata: &Metadata{}, Size: p.size}
	p.take(int64(len(magic)), "magic")
	h.Version = p.u32("version")
	if p.err == nil {
		p.err = checkVersion(h.Version)
	}
	tensors := p.count("tensor", minInfo)
	pairs := p.count("key-value pair", minPair)
	p.metadata(h.Metadata, pairs)
	if h.Alignment = p.alignment(h.Metadata); p.err != nil {
		return nil, p.err
	}
	h.Tensors = p.table(tensors)
	if p.err != nil {
		return nil, p.err
	}
	end := p.offset()
	h.DataStart = pad(end, h.Alignment)
	used, err := checkOffsets(h.Tensors, h.Alignment)
	if err != nil {
		return nil, err
	}
	if used > math.MaxInt64-h.DataStart {
		return nil, fault.New(fault.BadInput, "tensor data ends beyond %d bytes", int64(math.MaxInt64))
	}
	if len(h.Tensors) > 0 {
		h.Missing = max(0, h.DataStart+used-p.size)
	}
	return h, h.checkDataStart(end)
}

// checkVersion refuses what a reader of little-endian versions 2 and 3 cannot read.
func checkVersion(v uint32) error {
	switch {
	case v == 2 || v == 3:
		return nil
	case v == 1:
		return fault.WithHint(fault.New(fault.BadInput, "GGUF version 1 is not supported"),
			"convert the original model again with a current converter (version 1 was in use for a few days of August 2023)")
	case v != 0 && v&0xffff == 0:
		return bigEndian()
	}
	return fault.WithHint(fault.New(fault.BadInput, "GGUF version %d is not supported (2 and 3 are)", v),
		"the file is damaged or newer than this program")
}

func bigEndian() error {
	return fault.WithHint(fault.New(fault.BadInput, "the file is a big-endian GGUF"),
		"use the little-endian file of the model, or convert it back with gguf-py's gguf_convert_endian")
}

// metadata reads the pairs into m.
func (p *parser) metadata(m *Metadata, count int64) {
	seen := make(map[string]struct{}, min(count, 64))
	m.pairs = make([]KV, 0, min(count, 64))
	for i := int64(0); i < count && p.err == nil; i++ {
		key := string(p.text("key"))
		if p.err != nil {
			return
		}
		if key == "" {
			p.fail("key-value pair %d has an empty key", i)
			return
		}
		if _, ok := seen[key]; ok {
			p.fail("metadata key %q appears twice", key)
			return
		}
		seen[key] = struct{}{}
		m.pairs = append(m.pairs, KV{key, p.value(key)})
	}
}

func (p *parser) value(key string) Value {
	t := ValueType(p.u32("value type"))
	switch {
	case p.err != nil:
		return Value{}
	case t == String:
		return Value{Type: String, Raw: p.text(key)}
	case t == Array:
		return p.array(key)
	case t.Size() == 0:
		p.fail("metadata key %q has unknown value type %d", key, uint32(t))
		return Value{}
	}
	return Value{Type: t, Raw: p.take(int64(t.Size()), key)}
}

func (p *parser) array(key string) Value {
	elem := ValueType(p.u32(key))
	count := p.u64(key)
	least := uint64(max(elem.Size(), 1))
	switch {
	case p.err != nil:
		return Value{}
	case elem == Array:
		p.fail("metadata key %q is an array of arrays", key)
		return Value{}
	case elem == String:
		least = 8
	case elem.Size() == 0:
		p.fail("metadata key %q is an array of unknown value type %d", key, uint32(elem))
		return Value{}
	}
	if count > maxElements {
		p.fail("metadata key %q has %d elements, more than %d", key, count, maxElements)
		return Value{}
	}
	if int64(count*least) > p.remaining() {
		p.truncated(key, int64(count*least))
		return Value{}
	}
	v := Value{Type: Array, Elem: elem, Len: int(count)}
	if elem == String {
		v.Raw = p.texts(v.Len, key)
	} else {
		v.Raw = p.take(int64(count*least), key)
	}
	return v
}

// texts reads count strings and returns them as they are in the file, with their lengths.
func (p *parser) texts(count int, key string) []byte {
	p.keep = p.pos
	for range count {
		if len(p.buf)-p.pos < 8 && !p.fill(8, key) {
			return nil
		}
		n := binary.LittleEndian.Uint64(p.buf[p.pos:])
		if !p.fits(n, 8, key) || len(p.buf)-p.pos < 8+int(n) && !p.fill(8+int64(n), key) {
			return nil
		}
		p.pos += 8 + int(n)
	}
	return p.buf[p.keep:p.pos:p.pos]
}

// fits checks the length of a string that starts after skip more bytes.
func (p *parser) fits(n uint64, skip int64, what string) bool {
	if n > maxString {
		p.fail("string of %s at offset %d has %d bytes, more than %d", what, p.offset(), n, maxString)
		return false
	}
	if int64(n) > p.remaining()-skip {
		p.truncated(what, int64(n))
		return false
	}
	return true
}

// alignment returns general.alignment, or the default where the file has none.
func (p *parser) alignment(m *Metadata) int64 {
	v, ok := m.Get(alignmentKey)
	if !ok || p.err != nil {
		return defaultAlignment
	}
	n, _ := v.Uint()
	if v.Type != Uint32 {
		p.fail("%s is of type %s, it must be u32", alignmentKey, v.Type)
	} else if n == 0 || n&(n-1) != 0 {
		p.fail("%s is %d, it must be a power of two", alignmentKey, n)
	}
	return int64(n)
}

// table reads the tensor table; offsets are checked later, all at once.
func (p *parser) table(count int64) []TensorInfo {
	seen := make(map[string]struct{}, min(count, 1024))
	list := make([]TensorInfo, 0, min(count, 1024))
	for range count {
		t := p.info()
		if p.err != nil {
			return nil
		}
		if _, ok := seen[t.Name]; ok {
			p.fail("tensor %q appears twice", t.Name)
			return nil
		}
		seen[t.Name] = struct{}{}
		list = append(list, t)
	}
	return list
}

func (p *parser) info() TensorInfo {
	name := p.text("tensor name")
	if len(name) > maxName {
		p.fail("tensor name %.20q… has %d bytes, more than %d", name, len(name), maxName)
	}
	t := TensorInfo{Name: string(name)}
	dims := p.u32("tensor table")
	if p.err == nil && dims > maxDims {
		p.fail("tensor %q has %d dimensions, more than %d", t.Name, dims, maxDims)
	}
	if p.err != nil {
		return t
	}
	t.Shape = make([]int64, dims)
	for i := range t.Shape {
		t.Shape[i] = int64(p.u64("tensor table"))
	}
	t.Type = Type(p.u32("tensor table"))
	offset := p.u64("tensor table")
	if p.err != nil {
		return t
	}
	if err := t.check(); err != nil {
		p.err = err
	} else if offset > math.MaxInt64 {
		p.fail("tensor %q has offset %d", t.Name, offset)
	}
	t.Offset = int64(offset)
	return t
}

// checkOffsets verifies that the tensors lie one after the other, each padded to align, and returns the
// end of the last one. Behind a tensor of unknown size the next offset need only be aligned and not lower.
func checkOffsets(list []TensorInfo, align int64) (end int64, err error) {
	good, end, want, exact := placed(list, align)
	if good == len(list) {
		return end, nil
	}
	t := list[good]
	n, _ := t.Size()
	switch {
	case n > math.MaxInt64-t.Offset-align:
		return 0, fault.New(fault.BadInput, "tensor %q at offset %d with %d bytes ends beyond any file", t.Name, t.Offset, n)
	case t.Offset < want && !exact:
		return 0, fault.New(fault.BadInput, "tensor %q at offset %d overlaps the one before it, which reaches to at least %d", t.Name, t.Offset, want)
	case !exact:
		return 0, fault.New(fault.BadInput, "offset %d of tensor %q is not a multiple of the alignment %d", t.Offset, t.Name, align)
	}
	if other := fittingAlignment(list); other > 0 {
		err := fault.New(fault.BadInput, "the tensor table contradicts the alignment: tensor %q is at offset %d, as for an alignment of %d; the alignment of the file is %d, which puts it at %d",
			t.Name, t.Offset, other, align, want)
		return 0, fault.WithHint(err, "correct %s in the file, or make it again from its source", alignmentKey)
	}
	return 0, fault.New(fault.BadInput, "tensor %q is at offset %d, it must be at %d, right behind the one before it", t.Name, t.Offset, want)
}

// fittingAlignment returns the alignment that the table was written for, the usual one first, or 0.
func fittingAlignment(list []TensorInfo) int64 {
	if good, _, _, _ := placed(list, defaultAlignment); good == len(list) {
		return defaultAlignment
	}
	for align := int64(1); align <= 1<<16; align *= 2 {
		if good, _, _, _ := placed(list, align); good == len(list) {
			return align
		}
	}
	return 0
}

// placed counts the tensors at the beginning of list that are where they must be, and returns the end of the
// last of them and the offset that the next one must have: this one if exact, else at least this one.
func placed(list []TensorInfo, align int64) (good int, end, want int64, exact bool) {
	exact = true
	for _, t := range list {
		if t.Offset != want && (exact || t.Offset < want || t.Offset%align != 0) {
			break
		}
		n, known := t.Size()
		if n > math.MaxInt64-t.Offset-align {
			break
		}
		end, exact = t.Offset+n, known
		want = pad(end, align)
		good++
	}
	return good, end, want, exact
}

// checkDataStart refuses a file that ends exactly where one written with the default alignment would,
// though it declares another one which puts the data section elsewhere: its offsets agree with
// both, but all its data would be read from the wrong place. headerEnd is the end of the table.
func (h *Header) checkDataStart(headerEnd int64) error {
	start := pad(headerEnd, defaultAlignment)
	if len(h.Tensors) == 0 || start == h.DataStart || h.Size == h.PaddedSize() {
		return nil
	}
	good, _, end, exact := placed(h.Tensors, defaultAlignment)
	if good < len(h.Tensors) || !exact || h.Size != start+end {
		return nil
	}
	err := fault.New(fault.BadInput, "the file contradicts its alignment: %s %d puts the data of tensor %q at %d, but the file was written with alignment %d, which puts it at %d",
		alignmentKey, h.Alignment, h.Tensors[0].Name, h.DataStart, defaultAlignment, start)
	return fault.WithHint(err, "correct %s in the file, or make it again from its source", alignmentKey)
}

// count reads the number of things of which each takes at least so many bytes.
func (p *parser) count(what string, least int64) int64 {
	n := int64(p.u64(what + " count"))
	if p.err != nil {
		return 0
	}
	if n < 0 || n > p.remaining()/least {
		p.fail("%s count is %d, more than fit into the file of %d bytes", what, uint64(n), p.size)
		p.err = fault.WithHint(p.err, "the file is cut off or damaged: fetch it again")
		return 0
	}
	return n
}

func (p *parser) u32(what string) uint32 {
	if b := p.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) u64(what string) uint64 {
	if b := p.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// text reads a string.
func (p *parser) text(what string) []byte {
	n := p.u64(what)
	if p.err != nil || !p.fits(n, 0, what) {
		return nil
	}
	return p.take(int64(n), what)
}

// take returns the next n bytes, nil after an error.
func (p *parser) take(n int64, what string) []byte {
	p.keep = p.pos
	if p.err != nil || int64(len(p.buf)-p.pos) < n && !p.fill(n, what) {
		return nil
	}
	p.pos += int(n)
	return p.buf[p.keep:p.pos:p.pos]
}

// offset returns the position in the file.
func (p *parser) offset() int64 { return p.base + int64(p.pos) }

func (p *parser) remaining() int64 { return p.size - p.offset() }

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fault.New(fault.BadInput, format, args...)
	}
}

func (p *parser) truncated(what string, need int64) {
	p.fail("the file ends inside its header: %s needs %d bytes at offset %d, the file has %d", what, need, p.offset(), p.size)
	p.err = fault.WithHint(p.err, "the file is cut off or damaged: fetch it again")
}

// fill reads further pieces until n bytes are there from pos on. Pieces grow only with what was
// really read, so a wrong size or length never allocates much.
func (p *parser) fill(n int64, what string) bool {
	for p.err == nil && int64(len(p.buf)-p.pos) < n {
		at := p.base + int64(len(p.buf))
		if n > p.remaining() {
			p.truncated(what, n)
			return false
		}
		if p.offset()+n > maxHeader {
			p.fail("the header is larger than %d bytes at %s", maxHeader, what)
			return false
		}
		tail := p.buf[p.keep:]
		piece := min(p.piece, p.size-at, maxHeader-at)
		buf := make([]byte, int64(len(tail))+piece)
		copy(buf, tail)
		if p.err = readFull(p.src, buf[len(tail):], at); p.err != nil {
			return false
		}
		p.buf, p.base, p.pos, p.keep = buf, p.base+int64(p.keep), p.pos-p.keep, 0
		p.piece *= 4
	}
	return p.err == nil
}

// readFull fills b from offset at. The end of the file inside b is an error.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fault.New(fault.BadInput, "the file ended at byte %d, earlier than its size says: %w", at+int64(n), io.ErrUnexpectedEOF)
		return fault.WithHint(err, "it was cut off or changed while it was read: try again")
	}
	return fmt.Errorf("reading %d bytes at offset %d: %w", len(b), at, err)
}
