package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// A safetensors file is the length N of its header as 8 little-endian bytes, N bytes of JSON, and the data. The JSON
// maps tensor names to dtype, shape (row-major) and data_offsets, relative to 8+N; "__metadata__" holds texts.
const (
	maxSafetensorsHeader = 100_000_000 // bytes of JSON, the reference reader's limit
	maxSafetensors       = 1_000_000   // tensors
	maxRank              = 16
	firstHeaderRead      = 100 << 10 // enough for nearly every header
)

// dtype is an element type of the format.
type dtype struct {
	bits int64
	ggml gguf.Type
}

var dtypes = map[string]dtype{
	"F32": {32, gguf.F32}, "F16": {16, gguf.F16}, "BF16": {16, gguf.BF16}, "F64": {64, gguf.F64},
	"I8": {8, gguf.I8}, "I16": {16, gguf.I16}, "I32": {32, gguf.I32}, "I64": {64, gguf.I64},
	"BOOL": {8, NoType}, "U8": {8, NoType}, "U16": {16, NoType}, "U32": {32, NoType}, "U64": {64, NoType}, "C64": {64, NoType},
	"F4": {4, NoType}, "F6_E2M3": {6, NoType}, "F6_E3M2": {6, NoType}, "F8_E8M0": {8, NoType},
	"F8_E5M2": {8, NoType}, "F8_E4M3": {8, NoType}, "F8_E4M3FNUZ": {8, NoType}, "F8_E5M2FNUZ": {8, NoType},
}

// stored is a tensor as the header describes it.
type stored struct {
	name       string
	dtype      string
	shape      []int64 // as in the file: the last dimension is contiguous
	begin, end int64   // in the data
}

// readSafetensors reads the header of a source, in one request if it is small, else in two, and checks all of it
// against the size of the source.
func readSafetensors(ctx context.Context, s Source) ([]Tensor, error) {
	list, base, err := safetensorsHeader(ctx, s)
	if err != nil {
		return nil, fault.New(kindOr(err, fault.BadInput), "%s: %w", s.Identity(), err)
	}
	tensors := make([]Tensor, len(list))
	for i, t := range list {
		d := dtypes[t.dtype]
		tensors[i] = Tensor{
			TensorInfo: gguf.TensorInfo{Name: t.name, Type: d.ggml, Shape: slices.Clone(t.shape), Offset: t.begin},
			Source:     s, At: base + t.begin, Length: t.end - t.begin,
		}
		slices.Reverse(tensors[i].Shape)
		if d.ggml == NoType {
			tensors[i].DType = t.dtype
		}
	}
	return tensors, nil
}

func safetensorsHeader(ctx context.Context, s Source) (list []stored, base int64, err error) {
	size := s.Size()
	if size < 8+2 {
		return nil, 0, fault.New(fault.BadInput, "the file has %d bytes, too few for safetensors", size)
	}
	head := make([]byte, min(firstHeaderRead, size))
	if _, err := s.ReadAt(ctx, head, 0); err != nil {
		return nil, 0, err
	}
	n := binary.LittleEndian.Uint64(head)
	switch {
	case n < 2 || n > maxSafetensorsHeader:
		return nil, 0, fault.WithHint(fault.New(fault.BadInput, "no safetensors file: its header would have %d bytes", n), "check that the file is a model and was fetched completely")
	case int64(n) > size-8:
		return nil, 0, fault.WithHint(fault.New(fault.BadInput, "the file is cut off: its header has %d bytes, the file %d", n, size), "fetch it again")
	}
	base = 8 + int64(n)
	head = head[8:]
	if int64(len(head)) >= int64(n) {
		head = head[:n]
	} else {
		rest := make([]byte, int(n)-len(head))
		if _, err := s.ReadAt(ctx, rest, 8+int64(len(head))); err != nil {
			return nil, 0, err
		}
		head = append(head, rest...)
	}
	list, err = parseSafetensors(head, size-base)
	return list, base, err
}

// parseSafetensors reads a JSON header for dataSize bytes of data. The result is ordered by offset and covers the
// data without holes and overlaps.
func parseSafetensors(head []byte, dataSize int64) ([]stored, error) {
	list, err := decodeSafetensors(head)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for i, t := range list {
		want, err := t.bytes()
		switch {
		case err != nil:
			return nil, fault.New(fault.BadInput, "tensor %q: %w", t.name, err)
		case want != t.end-t.begin:
			return nil, fault.New(fault.BadInput, "tensor %q: its shape needs %d bytes, its offsets %d to %d hold %d", t.name, want, t.begin, t.end, t.end-t.begin)
		case t.begin < at:
			return nil, fault.New(fault.BadInput, "tensor %q overlaps tensor %q", t.name, list[i-1].name)
		case t.begin > at:
			return nil, fault.New(fault.BadInput, "%d bytes before tensor %q belong to no tensor", t.begin-at, t.name)
		}
		at = t.end
	}
	switch {
	case at > dataSize:
		return nil, fault.WithHint(fault.New(fault.BadInput, "the file is cut off: its tensors need %d bytes, it has %d", at, dataSize), "fetch it again")
	case at < dataSize:
		return nil, fault.New(fault.BadInput, "%d bytes behind the last tensor belong to no tensor", dataSize-at)
	}
	return list, nil
}

// bytes returns how many bytes the shape needs.
func (t stored) bytes() (int64, error) {
	d, ok := dtypes[t.dtype]
	if !ok {
		return 0, fmt.Errorf("unknown dtype %q", t.dtype)
	}
	n := uint64(1)
	for _, dim := range t.shape {
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, errors.New("its shape overflows")
		}
		n = lo
	}
	hi, lo := bits.Mul64(n, uint64(d.bits))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, errors.New("its shape overflows")
	}
	if lo%8 != 0 {
		return 0, fmt.Errorf("%d elements of %s don't fill whole bytes", n, t.dtype)
	}
	return int64(lo / 8), nil
}

// decodeSafetensors walks the JSON token by token, because a decoder into a map would hide duplicate names.
func decodeSafetensors(head []byte) ([]stored, error) {
	w, err := newWalker(head)
	if err != nil {
		return nil, err
	}
	var list []stored
	w.object("the header", func(name string) {
		if name == "__metadata__" {
			w.texts(name)
			return
		}
		switch {
		case name == "":
			w.fail("a tensor has no name")
		case len(list) == maxSafetensors:
			w.fail("more than %d tensors", maxSafetensors)
		}
		list = append(list, w.tensor(name))
	})
	w.end()
	if w.err != nil {
		return nil, w.err
	}
	return list, nil
}

func (w *walker) tensor(name string) stored {
	t := stored{name: name}
	var fields [3]bool
	w.object(name, func(key string) {
		switch key {
		case "dtype":
			fields[0] = true
			t.dtype = w.text(name)
		case "shape":
			fields[1] = true
			t.shape = w.sizes(name, maxRank)
		case "data_offsets":
			fields[2] = true
			offsets := w.sizes(name, 2)
			if len(offsets) != 2 || offsets[0] > offsets[1] {
				w.fail("tensor %q: its data_offsets are no begin and end", name)
				return
			}
			t.begin, t.end = offsets[0], offsets[1]
		default:
			w.fail("tensor %q: unknown field %q", name, key)
		}
	})
	if fields != [3]bool{true, true, true} {
		w.fail("tensor %q: dtype, shape and data_offsets are needed", name)
	}
	return t
}

// walker reads strict JSON token by token: valid UTF-8, no duplicate keys, nothing behind the value. The first error
// stays and ends every loop.
type walker struct {
	dec *json.Decoder
	err error
}

func newWalker(text []byte) (*walker, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, fault.New(fault.BadInput, "its header is no JSON object")
	}
	if !utf8.Valid(text) {
		return nil, fault.New(fault.BadInput, "its header is no valid UTF-8")
	}
	w := &walker{dec: json.NewDecoder(bytes.NewReader(text))}
	w.dec.UseNumber()
	return w, nil
}

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fault.New(fault.BadInput, format, args...)
	}
}

func (w *walker) token() json.Token {
	if w.err != nil {
		return nil
	}
	t, err := w.dec.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		w.fail("its JSON is damaged at byte %d: %w", w.dec.InputOffset(), err)
	}
	return t
}

// object calls field for every key of an object; field must read the value.
func (w *walker) object(what string, field func(key string)) {
	if w.token() != json.Delim('{') {
		w.fail("%q is no JSON object", what)
		return
	}
	w.fields(what, field)
}

// fields reads the rest of an object whose brace was read.
func (w *walker) fields(what string, field func(key string)) {
	seen := map[string]bool{}
	for w.err == nil && w.dec.More() {
		key, _ := w.token().(string)
		if seen[key] {
			w.fail("%q has the key %q twice", what, key)
		}
		seen[key] = true
		if w.err == nil {
			field(key)
		}
	}
	w.token()
}

// texts reads an object of strings, or null.
func (w *walker) texts(what string) {
	switch w.token() {
	case json.Delim('{'):
		w.fields(what, func(string) { w.text(what) })
	case nil:
	default:
		w.fail("%q is no JSON object", what)
	}
}

func (w *walker) text(what string) string {
	s, ok := w.token().(string)
	if !ok {
		w.fail("%q: a text is needed", what)
	}
	return s
}

// sizes reads an array of at most limit non-negative integers.
func (w *walker) sizes(what string, limit int) []int64 {
	if w.token() != json.Delim('[') {
		w.fail("%q: a list of numbers is needed", what)
		return nil
	}
	list := []int64{}
	for w.err == nil && w.dec.More() {
		number, _ := w.token().(json.Number)
		n, err := strconv.ParseUint(number.String(), 10, 63)
		switch {
		case err != nil:
			w.fail("%q: %.40q is no size", what, number)
		case len(list) == limit:
			w.fail("%q: more than %d numbers in a list", what, limit)
		}
		list = append(list, int64(n))
	}
	w.token()
	return list
}

// skip reads a value of any kind.
func (w *walker) skip() {
	var any json.RawMessage
	if w.err == nil {
		if err := w.dec.Decode(&any); err != nil {
			w.fail("its JSON is damaged at byte %d: %w", w.dec.InputOffset(), err)
		}
	}
}

// end makes sure that only blanks follow.
func (w *walker) end() {
	if w.err != nil {
		return
	}
	if _, err := w.dec.Token(); err != io.EOF {
		w.fail("something follows its JSON object")
	}
}
