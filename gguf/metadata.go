package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ValueType is the type id of a metadata value.
type ValueType uint32

// The value types of the GGUF format.
const (
	Uint8   ValueType = 0
	Int8    ValueType = 1
	Uint16  ValueType = 2
	Int16   ValueType = 3
	Uint32  ValueType = 4
	Int32   ValueType = 5
	Float32 ValueType = 6
	Bool    ValueType = 7
	String  ValueType = 8
	Array   ValueType = 9
	Uint64  ValueType = 10
	Int64   ValueType = 11
	Float64 ValueType = 12
)

var valueTypeNames = [...]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"}
var valueTypeSizes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// String returns the short name used in the reference ("u32", "str").
func (t ValueType) String() string {
	if int(t) < len(valueTypeNames) {
		return valueTypeNames[t]
	}
	return "value type " + strconv.FormatUint(uint64(t), 10)
}

// Size returns the encoded bytes of one value, 0 for strings, arrays and unknown types.
func (t ValueType) Size() int {
	if int(t) < len(valueTypeSizes) {
		return valueTypeSizes[t]
	}
	return 0
}

// Value is one metadata value in its encoded, little-endian form. A parsed Value shares memory with
// the header it came from, so a vocabulary of 250,000 strings costs no more than its bytes in the file.
// Values are immutable.
type Value struct {
	Type ValueType
	Elem ValueType // element type of an array
	Len  int       // number of elements of an array
	Raw  []byte    // scalars: the value; strings: the bytes without length; arrays: the elements as in the file
}

// Uint16Value returns a 16-bit unsigned value.
func Uint16Value(v uint16) Value {
	return Value{Type: Uint16, Raw: binary.LittleEndian.AppendUint16(nil, v)}
}

// Uint32Value returns a 32-bit unsigned value.
func Uint32Value(v uint32) Value {
	return Value{Type: Uint32, Raw: binary.LittleEndian.AppendUint32(nil, v)}
}

// Int32Value returns a 32-bit signed value.
func Int32Value(v int32) Value {
	return Value{Type: Int32, Raw: binary.LittleEndian.AppendUint32(nil, uint32(v))}
}

// Uint64Value returns a 64-bit unsigned value.
func Uint64Value(v uint64) Value {
	return Value{Type: Uint64, Raw: binary.LittleEndian.AppendUint64(nil, v)}
}

// Int64Value returns a 64-bit signed value.
func Int64Value(v int64) Value {
	return Value{Type: Int64, Raw: binary.LittleEndian.AppendUint64(nil, uint64(v))}
}

// Float32Value returns a 32-bit float value.
func Float32Value(v float32) Value {
	return Value{Type: Float32, Raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

// Float64Value returns a 64-bit float value.
func Float64Value(v float64) Value {
	return Value{Type: Float64, Raw: binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))}
}

// BoolValue returns a boolean value.
func BoolValue(v bool) Value {
	b := byte(0)
	if v {
		b = 1
	}
	return Value{Type: Bool, Raw: []byte{b}}
}

// StringValue returns a string value.
func StringValue(s string) Value { return Value{Type: String, Raw: []byte(s)} }

// StringsValue returns an array of strings.
func StringsValue(list []string) Value {
	v := Value{Type: Array, Elem: String, Len: len(list)}
	for _, s := range list {
		v.Raw = binary.LittleEndian.AppendUint64(v.Raw, uint64(len(s)))
		v.Raw = append(v.Raw, s...)
	}
	return v
}

// Str returns the string and whether v is one.
func (v Value) Str() (string, bool) { return string(v.Raw), v.Type == String }

// Uint returns any integer or bool value as uint64; ok is false for other types and negative numbers.
func (v Value) Uint() (n uint64, ok bool) {
	i, ok := v.Int()
	if v.Type == Uint64 {
		return binary.LittleEndian.Uint64(v.Raw), true
	}
	return uint64(i), ok && i >= 0
}

// Int returns any integer or bool value as int64; ok is false for other types and values beyond int64.
func (v Value) Int() (n int64, ok bool) { return scalarInt(v.Type, v.Raw) }

func scalarInt(t ValueType, raw []byte) (int64, bool) {
	switch t {
	case Uint8:
		return int64(raw[0]), true
	case Bool:
		return int64(min(raw[0], 1)), true // any non-zero byte is true
	case Int8:
		return int64(int8(raw[0])), true
	case Uint16:
		return int64(binary.LittleEndian.Uint16(raw)), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(raw))), true
	case Uint32:
		return int64(binary.LittleEndian.Uint32(raw)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(raw))), true
	case Int64:
		return int64(binary.LittleEndian.Uint64(raw)), true
	case Uint64:
		u := binary.LittleEndian.Uint64(raw)
		return int64(u), u <= math.MaxInt64
	}
	return 0, false
}

// Float returns a float or integer value as float64.
func (v Value) Float() (float64, bool) { return scalarFloat(v.Type, v.Raw) }

func scalarFloat(t ValueType, raw []byte) (float64, bool) {
	switch t {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	case Uint64:
		return float64(binary.LittleEndian.Uint64(raw)), true
	}
	n, ok := scalarInt(t, raw)
	return float64(n), ok
}

// Bool returns the boolean and whether v is one.
func (v Value) Bool() (b, ok bool) {
	if v.Type != Bool {
		return false, false
	}
	return v.Raw[0] != 0, true
}

// Strings iterates over an array of strings; it yields nothing for any other value.
func (v Value) Strings() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		if v.Type != Array || v.Elem != String {
			return
		}
		for i, e := range v.elements() {
			if !yield(i, string(e.Raw)) {
				return
			}
		}
	}
}

// Floats returns an array of numbers as float64.
func (v Value) Floats() ([]float64, bool) { return elements(v, scalarFloat) }

// Ints returns an array of integers.
func (v Value) Ints() ([]int64, bool) { return elements(v, scalarInt) }

func elements[T any](v Value, scalar func(ValueType, []byte) (T, bool)) ([]T, bool) {
	size := v.Elem.Size()
	if v.Type != Array || size == 0 {
		return nil, false
	}
	list := make([]T, v.Len)
	for i := range list {
		n, ok := scalar(v.Elem, v.Raw[i*size:(i+1)*size])
		if !ok {
			return nil, false
		}
		list[i] = n
	}
	return list, true
}

// KV is one metadata pair.
type KV struct {
	Key   string
	Value Value
}

// Metadata is the ordered list of a file's pairs. The zero value is empty and ready to use.
// It is not safe for concurrent changes.
type Metadata struct {
	pairs []KV
}

// Len returns the number of pairs.
func (m *Metadata) Len() int { return len(m.pairs) }

// All iterates over the pairs in file order.
func (m *Metadata) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, p := range m.pairs {
			if !yield(p.Key, p.Value) {
				return
			}
		}
	}
}

func (m *Metadata) index(key string) int {
	return slices.IndexFunc(m.pairs, func(p KV) bool { return p.Key == key })
}

// Get returns the value of key.
func (m *Metadata) Get(key string) (Value, bool) {
	if i := m.index(key); i >= 0 {
		return m.pairs[i].Value, true
	}
	return Value{}, false
}

// Put stores a value in place if the key exists, else appends it.
func (m *Metadata) Put(key string, v Value) {
	if i := m.index(key); i >= 0 {
		m.pairs[i].Value = v
		return
	}
	m.pairs = append(m.pairs, KV{key, v})
}

// Set stores a value as the reference library does: an existing pair is deleted and the new one appended.
func (m *Metadata) Set(key string, v Value) {
	m.Delete(key)
	m.pairs = append(m.pairs, KV{key, v})
}

// Delete removes key and reports whether it was there.
func (m *Metadata) Delete(key string) bool {
	i := m.index(key)
	if i < 0 {
		return false
	}
	m.pairs = slices.Delete(m.pairs, i, i+1)
	return true
}

// Clone returns a list that can be changed without changing m. Values are shared.
func (m *Metadata) Clone() *Metadata { return &Metadata{pairs: slices.Clone(m.pairs)} }

// Text returns the string value of key, or "".
func (m *Metadata) Text(key string) string {
	v, _ := m.Get(key)
	if s, ok := v.Str(); ok {
		return s
	}
	return ""
}

// Uint returns the unsigned integer value of key, or def where it is missing or no integer.
func (m *Metadata) Uint(key string, def uint64) uint64 {
	if v, ok := m.Get(key); ok {
		if n, ok := v.Uint(); ok {
			return n
		}
	}
	return def
}

// Architecture returns general.architecture.
func (m *Metadata) Architecture() string { return m.Text("general.architecture") }

// ArchUint returns the integer {architecture}.suffix, or def. Where the key holds an array
// (head counts per layer), it is the first element.
func (m *Metadata) ArchUint(suffix string, def uint64) uint64 {
	v, ok := m.Get(m.Architecture() + "." + suffix)
	if !ok {
		return def
	}
	if v.Type == Array {
		for _, first := range v.elements() {
			v = first
			break
		}
	}
	if n, ok := v.Uint(); ok {
		return n
	}
	return def
}

// formatElements is the number of array elements that Format shows.
const formatElements = 6

// Format prints a value for people, on one line: strings quoted, arrays with their type, length and
// first elements. It does not shorten strings.
func (v Value) Format() string {
	switch v.Type {
	case String:
		return strconv.Quote(string(v.Raw))
	case Array:
		return v.formatArray()
	}
	return formatScalar(v.Type, v.Raw)
}

func (v Value) formatArray() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s; %d]", v.Elem, v.Len)
	for i, e := range v.elements() {
		if i == formatElements {
			b.WriteString(" …")
			break
		}
		b.WriteByte(' ')
		b.WriteString(e.Format())
	}
	return b.String()
}

// elements iterates over an array of any type; each element shares v's memory.
func (v Value) elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		raw, size := v.Raw, v.Elem.Size()
		for i := range v.Len {
			n := size
			if v.Elem == String {
				n = int(binary.LittleEndian.Uint64(raw))
				raw = raw[8:]
			}
			if !yield(i, Value{Type: v.Elem, Raw: raw[:n:n]}) {
				return
			}
			raw = raw[n:]
		}
	}
}

func formatScalar(t ValueType, raw []byte) string {
	switch t {
	case Bool:
		return strconv.FormatBool(raw[0] != 0)
	case Float32, Float64:
		f, _ := scalarFloat(t, raw)
		return strconv.FormatFloat(f, 'g', -1, 8*t.Size())
	case Uint64:
		return strconv.FormatUint(binary.LittleEndian.Uint64(raw), 10)
	}
	n, _ := scalarInt(t, raw)
	return strconv.FormatInt(n, 10)
}
