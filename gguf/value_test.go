package gguf

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAsReference holds what llama-quantize COPY made of these pairs.
func TestAsReference(t *testing.T) {
	bools := func(b ...byte) Value { return Value{Type: Array, Elem: Bool, Len: len(b), Raw: b} }
	in := &Metadata{pairs: []KV{
		{"t.str", StringValue("ab\x00cd")},
		{"t.strs", StringsValue([]string{"x\x00y", "", "plain", "\x00"})},
		{"t.bool", Value{Type: Bool, Raw: []byte{2}}},
		{"t.bools", bools(0, 2, 255, 1)},
		{"t.key\x00rest", Uint32Value(7)},
		{"t.empty", Value{Type: Array, Elem: Uint32}},
		{"t.emptys", StringsValue(nil)},
		{"t.f64", Value{Type: Float64, Raw: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}}},
		{"t.bytes", Value{Type: Array, Elem: Uint8, Len: 2, Raw: []byte{0, 2}}},
		{"t.bin", StringValue("\xff\xfe")},
		{"t.str\x00", StringValue("later")},
	}}
	want := &Metadata{pairs: []KV{
		{"t.strs", StringsValue([]string{"x", "", "plain", ""})},
		{"t.bool", BoolValue(true)},
		{"t.bools", bools(0, 1, 1, 1)},
		{"t.key", Uint32Value(7)},
		{"t.empty", Value{Type: Array, Elem: Uint32}},
		{"t.emptys", StringsValue(nil)},
		{"t.f64", Value{Type: Float64, Raw: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}}},
		{"t.bytes", Value{Type: Array, Elem: Uint8, Len: 2, Raw: []byte{0, 2}}},
		{"t.bin", StringValue("\xff\xfe")},
		{"t.str", StringValue("later")},
	}}
	before := bytes.Clone(in.pairs[1].Value.Raw)
	got := in.AsReference()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Metadata{})); diff != "" {
		t.Error(diff)
	}
	for key, v := range got.All() {
		if err := v.check(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if !bytes.Equal(before, in.pairs[1].Value.Raw) || in.pairs[2].Value.Raw[0] != 2 || in.pairs[3].Value.Raw[2] != 255 {
		t.Error("the input changed")
	}
	// What needs no change is not copied.
	for _, v := range []Value{StringsValue([]string{"a", "b"}), bools(0, 1), StringValue("x")} {
		if r := v.AsReference(); &r.Raw[0] != &v.Raw[0] {
			t.Errorf("%v was copied", v)
		}
	}
}

func TestFormat(t *testing.T) {
	ints := Value{Type: Array, Elem: Int8, Len: 8, Raw: []byte{0, 255, 2, 3, 4, 5, 6, 7}}
	for _, c := range []struct {
		v    Value
		want string
	}{
		{StringValue("a\"\n\x1b"), `"a\"\n\x1b"`},
		{Float32Value(0.1), "0.1"},
		{Float32Value(float32(math.NaN())), "NaN"},
		{Uint64Value(math.MaxUint64), "18446744073709551615"},
		{Int64Value(-5), "-5"},
		{BoolValue(true), "true"},
		{ints, "[i8; 8] 0 -1 2 3 4 5 …"},
		{StringsValue([]string{"a", "b"}), `[str; 2] "a" "b"`},
		{StringsValue(nil), `[str; 0]`},
	} {
		if got := c.v.Format(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		v             Value
		n             int64
		u             uint64
		intOK, uintOK bool
	}{
		{Uint64Value(math.MaxUint64), -1, math.MaxUint64, false, true},
		{Int64Value(-1), -1, math.MaxUint64, true, false},
		{Value{Type: Int8, Raw: []byte{0x80}}, -128, 1<<64 - 128, true, false},
		{Value{Type: Int16, Raw: []byte{0, 0x80}}, -32768, 1<<64 - 32768, true, false},
		{Int32Value(-7), -7, 1<<64 - 7, true, false},
		{Uint16Value(65535), 65535, 65535, true, true},
		{Value{Type: Bool, Raw: []byte{9}}, 1, 1, true, true},
		{Float32Value(1), 0, 0, false, false},
		{StringValue("1"), 0, 0, false, false},
	} {
		n, intOK := c.v.Int()
		u, uintOK := c.v.Uint()
		if intOK != c.intOK || uintOK != c.uintOK || intOK && n != c.n || uintOK && u != c.u {
			t.Errorf("%v: %d %v, %d %v", c.v, n, intOK, u, uintOK)
		}
	}
}

func TestMetadataOrder(t *testing.T) {
	m := &Metadata{}
	for _, k := range []string{"a", "b", "c"} {
		m.Put(k, StringValue(k))
	}
	m.Put("a", StringValue("in place"))
	c := m.Clone()
	m.Set("b", StringValue("at the end"))
	m.Delete("c")
	var keys []string
	for k := range m.All() {
		keys = append(keys, k)
	}
	if diff := cmp.Diff([]string{"a", "b"}, keys); diff != "" || m.Text("a") != "in place" {
		t.Error(diff)
	}
	if c.Len() != 3 || c.Text("b") != "b" {
		t.Error("the clone changed")
	}
}

func TestLookups(t *testing.T) {
	ints := func(elem ValueType, raw ...byte) Value {
		return Value{Type: Array, Elem: elem, Len: len(raw) / elem.Size(), Raw: raw}
	}
	m := &Metadata{}
	m.Put("general.architecture", StringValue("a"))
	m.Put("a.number", Uint32Value(7))
	m.Put("a.list", ints(Uint16, 5, 0, 6, 0))
	m.Put("a.signed", ints(Int8, 0xff))
	m.Put("a.none", ints(Uint16))
	m.Put("a.text", StringValue("7"))
	m.Put("a.texts", StringsValue([]string{"7"}))
	m.Put("a.negative", Int32Value(-7))
	for suffix, want := range map[string]uint64{"number": 7, "list": 5, "signed": 99, "none": 99, "text": 99, "texts": 99, "negative": 99, "missing": 99} {
		if got := m.ArchUint(suffix, 99); got != want {
			t.Errorf("%s: %d, want %d", suffix, got, want)
		}
	}
	if m.Uint("a.number", 1) != 7 || m.Uint("a.negative", 1) != 1 || m.Uint("a.missing", 1) != 1 || m.Text("a.number") != "" {
		t.Error("wrong defaults")
	}
	list, _ := m.Get("a.list")
	if n, ok := list.Ints(); !ok || !cmp.Equal(n, []int64{5, 6}) {
		t.Error(n, ok)
	}
	if f, ok := list.Floats(); !ok || !cmp.Equal(f, []float64{5, 6}) {
		t.Error(f, ok)
	}
	texts, _ := m.Get("a.texts")
	if _, ok := texts.Ints(); ok {
		t.Error("strings are no integers")
	}
	if _, ok := ints(Uint64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff).Ints(); ok {
		t.Error("2^64-1 is no int64")
	}
	if b, ok := BoolValue(true).Bool(); !b || !ok {
		t.Error("bool")
	}
	if _, ok := Uint32Value(1).Bool(); ok {
		t.Error("u32 is no bool")
	}
	for range list.Strings() {
		t.Error("numbers are no strings")
	}
}

func TestTypes(t *testing.T) {
	all := Types()
	if len(all) != 35 {
		t.Errorf("%d types", len(all))
	}
	for _, typ := range all {
		if got, err := ParseType(strings.ToUpper(typ.String())); err != nil || got != typ {
			t.Errorf("%s: %s, %v", typ, got, err)
		}
		elems, size := typ.Block()
		if n, ok := typ.RowSize(3 * elems); !ok || n != 3*size {
			t.Errorf("%s: row of %d", typ, n)
		}
		if _, ok := typ.RowSize(math.MaxInt64 / elems * elems); ok && size > elems {
			t.Errorf("%s: no overflow", typ)
		}
		if typ.Quantized() != (elems > 1) {
			t.Errorf("%s: quantized %v", typ, typ.Quantized())
		}
	}
	for _, name := range []string{"", "q4_2", "type 4", "Q4_K_M"} {
		if typ, err := ParseType(name); err == nil {
			t.Errorf("%q is %s", name, typ)
		}
	}
}
