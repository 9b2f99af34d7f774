package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLayoutReference lays out again what the reference's writers wrote, and must get the same bytes.
func TestLayoutReference(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64 // of the whole file
		same []Style
	}{
		{"ggufpy-bailingmoe3-mtp.gguf", 1271808, []Style{GGUFPy}}, // has shapes that end in 1
		{"ggufpy-granitehybrid-moe.gguf", 1362496, []Style{GGUFPy}},
		{"ggml-bailingmoe3-mtp.gguf", 690528, []Style{GGML, GGUFPy}},
		{"ggml-granitehybrid-moe.gguf", 519360, []Style{GGML, GGUFPy}},
		{"ggml-yarn-00001-of-00004.gguf", 6336, []Style{GGML, GGUFPy}}, // no tensors
		{"ggml-yarn-00002-of-00004.gguf", 198016, []Style{GGML, GGUFPy}},
		{"ggml-yarn-00003-of-00004.gguf", 99232, []Style{GGML, GGUFPy}},
		{"ggml-yarn-00004-of-00004.gguf", 65792, []Style{GGML, GGUFPy}},
	} {
		file := testHeader(t, c.name)
		h := mustRead(t, file)
		for _, style := range c.same {
			l, err := NewLayout(h.Metadata, h.Tensors, style, h.Alignment)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !bytes.Equal(l.Header, file) {
				t.Errorf("%s, style %d: header differs", c.name, style)
			}
			if l.Size != c.size || l.DataStart != int64(len(file)) {
				t.Errorf("%s, style %d: %d bytes, data from %d; want %d, %d", c.name, style, l.Size, l.DataStart, c.size, len(file))
			}
		}
	}
}

// TestLayoutStyles shows the difference of the two: gguf-py's table with trailing ones becomes ggml's shorter one.
func TestLayoutStyles(t *testing.T) {
	h := mustRead(t, testHeader(t, "ggufpy-bailingmoe3-mtp.gguf"))
	l, err := NewLayout(h.Metadata, h.Tensors, GGML, 0)
	if err != nil {
		t.Fatal(err)
	}
	quantized := mustRead(t, testHeader(t, "ggml-bailingmoe3-mtp.gguf"))
	want := map[string][]int64{}
	for _, info := range quantized.Tensors {
		want[info.Name] = info.Shape
	}
	dropped := 0
	for i, info := range mustRead(t, l.Header).Tensors {
		if diff := cmp.Diff(want[info.Name], info.Shape); diff != "" {
			t.Errorf("%s: %s", info.Name, diff)
		}
		dropped += len(h.Tensors[i].Shape) - len(info.Shape)
	}
	if dropped == 0 {
		t.Error("no dimension was dropped: the test data lost its point")
	}
	for _, c := range []struct {
		in, ggml []int64
	}{
		{nil, []int64{1}}, {[]int64{1}, []int64{1}}, {[]int64{1, 1, 1, 1}, []int64{1}}, {[]int64{1, 1, 5}, []int64{1, 1, 5}},
		{[]int64{5, 1}, []int64{5}}, {[]int64{0, 1}, []int64{0}}, {[]int64{4, 1, 128, 1}, []int64{4, 1, 128}},
	} {
		info := TensorInfo{Name: "t", Type: F32, Shape: c.in}
		for style, want := range map[Style][]int64{GGML: c.ggml, GGUFPy: c.in} {
			l, err := NewLayout(&Metadata{}, []TensorInfo{info}, style, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := mustRead(t, l.Header).Tensors[0].Shape
			if len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
				t.Errorf("style %d of %v: %v, want %v", style, c.in, got, want)
			}
		}
	}
}

func TestLayoutAlignment(t *testing.T) {
	tensors := []TensorInfo{{Name: "a", Type: F32, Shape: []int64{3}}, {Name: "b", Type: F32, Shape: []int64{1}}}
	for _, c := range []struct {
		key       uint32 // general.alignment, 0 for none
		alignment int64
		error     string
	}{
		{0, 0, ""}, {0, 32, ""}, {32, 0, ""}, {64, 64, ""}, {1, 1, ""}, {4096, 4096, ""},
		{64, 0, "states an alignment of 64"}, {64, 32, "states an alignment of 64"}, {0, 64, "written with 64"}, {128, 64, "states an alignment of 128"},
		{33, 33, "not possible"}, {0, -32, "not possible"}, {1 << 25, 1 << 25, "not possible"},
	} {
		m := &Metadata{}
		if c.key != 0 {
			m.Put(alignmentKey, Uint32Value(c.key))
		}
		l, err := NewLayout(m, tensors, GGML, c.alignment)
		if c.error != "" {
			if err == nil || !strings.Contains(err.Error(), c.error) {
				t.Errorf("%+v: error %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		h := mustRead(t, l.Header)
		if l.Size != l.DataStart+pad(12, l.Alignment)+pad(4, l.Alignment) || l.DataStart%l.Alignment != 0 || h.Alignment != l.Alignment {
			t.Errorf("%+v: %+v", c, l)
		}
		if h.PaddedSize() != l.Size {
			t.Errorf("%+v: padded size %d, want %d", c, h.PaddedSize(), l.Size)
		}
	}
	m := &Metadata{}
	m.Put(alignmentKey, Uint64Value(32))
	if _, err := NewLayout(m, tensors, GGML, 32); err == nil {
		t.Error("an alignment of type u64 was accepted")
	}
}

func TestLayoutRefuses(t *testing.T) {
	f32 := func(name string, dims ...int64) TensorInfo { return TensorInfo{Name: name, Type: F32, Shape: dims} }
	typed := func(typ Type, dims ...int64) TensorInfo { return TensorInfo{Name: "t", Type: typ, Shape: dims} }
	for _, c := range []struct {
		name    string
		pairs   []KV
		tensors []TensorInfo
		error   string
	}{
		{"empty name", nil, []TensorInfo{f32("", 1)}, "0 bytes"},
		{"long name", nil, []TensorInfo{f32(strings.Repeat("n", 64), 1)}, "64 bytes"},
		{"same name", nil, []TensorInfo{f32("a", 1), f32("a", 1)}, `"a" appears twice`},
		{"5 dimensions", nil, []TensorInfo{f32("a", 1, 1, 1, 1, 1)}, "5 dimensions"},
		{"negative", nil, []TensorInfo{f32("a", -1)}, "is -1"},
		{"unknown type", nil, []TensorInfo{typed(99, 256)}, "type 99, whose size is not known"},
		{"removed type", nil, []TensorInfo{typed(36, 256)}, "type 36, whose size is not known"},
		{"part of a block", nil, []TensorInfo{typed(Q4_K, 100)}, "no multiple of the 256"},
		{"too large", nil, []TensorInfo{f32("a", 1<<62, 4)}, "too many elements"},
		{"together too large", nil, []TensorInfo{f32("a", 1<<60, 1), f32("b", 1<<60, 1)}, `"b" ends beyond`},
		{"empty key", []KV{{"", BoolValue(true)}}, nil, "key is empty"},
		{"same key", []KV{{"k", BoolValue(true)}, {"k", BoolValue(true)}}, nil, `"k" appears twice`},
		{"no value", []KV{{"k", Value{}}}, nil, `"k": u8 of 0 bytes`},
		{"type", []KV{{"k", Value{Type: 13}}}, nil, `"k": unknown value type 13`},
		{"array length", []KV{{"k", Value{Type: Array, Elem: Uint16, Len: 3, Raw: make([]byte, 4)}}}, nil, `"k": array of 3 u16 with 4 bytes`},
		{"array of arrays", []KV{{"k", Value{Type: Array, Elem: Array}}}, nil, "array of arrays"},
		{"array of unknowns", []KV{{"k", Value{Type: Array, Elem: 77}}}, nil, "unknown value type 77"},
		{"negative length", []KV{{"k", Value{Type: Array, Elem: String, Len: -1}}}, nil, "array of -1 elements"},
		{"strings end early", []KV{{"k", Value{Type: Array, Elem: String, Len: 1, Raw: binary.LittleEndian.AppendUint64(nil, math.MaxUint64)}}}, nil, "ends early"},
		{"strings cut", []KV{{"k", Value{Type: Array, Elem: String, Len: 1, Raw: make([]byte, 7)}}}, nil, "ends early"},
		{"strings too long", []KV{{"k", Value{Type: Array, Elem: String, Len: 1, Raw: make([]byte, 9)}}}, nil, "1 bytes too many"},
	} {
		l, err := NewLayout(&Metadata{pairs: c.pairs}, c.tensors, GGML, 0)
		if err == nil || l != nil || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.error)
		}
	}
}

// TestLayoutRoundTrip: whatever is laid out is read back the same.
func TestLayoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Metadata{}
		for _, key := range rapid.SliceOfNDistinct(rapid.StringN(1, 20, 40), 0, 8, rapid.ID).Draw(t, "keys") {
			m.Put(key, drawValue(t))
		}
		var tensors []TensorInfo
		for _, name := range rapid.SliceOfNDistinct(rapid.StringN(1, 8, 60), 0, 8, rapid.ID).Draw(t, "names") {
			typ := rapid.SampledFrom(Types()).Draw(t, "type")
			elems, _ := typ.Block()
			shape := []int64{elems * rapid.Int64Range(0, 4).Draw(t, "blocks")}
			shape = append(shape, rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "dims")...)
			tensors = append(tensors, TensorInfo{Name: name, Type: typ, Shape: shape})
		}
		alignment := int64(1) << rapid.IntRange(0, 12).Draw(t, "alignment")
		if alignment != defaultAlignment {
			m.Set(alignmentKey, Uint32Value(uint32(alignment)))
		} else {
			m.Delete(alignmentKey)
		}
		style := rapid.SampledFrom([]Style{GGML, GGUFPy}).Draw(t, "style")
		l, err := NewLayout(m, tensors, style, alignment)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ReadHeader(&sparseFile{l.Header, l.Size}, l.Size)
		if err != nil {
			t.Fatal(err)
		}
		if h.DataStart != l.DataStart || h.Alignment != l.Alignment || h.Missing != 0 || h.PaddedSize() != l.Size {
			t.Fatalf("%+v, laid out as %+v", h, l)
		}
		if len(h.Tensors)+len(l.Tensors) > 0 && !cmp.Equal(l.Tensors, h.Tensors) {
			t.Fatal(cmp.Diff(l.Tensors, h.Tensors))
		}
		again, err := NewLayout(h.Metadata, h.Tensors, style, alignment)
		if err != nil || !bytes.Equal(again.Header, l.Header) {
			t.Fatalf("not the same bytes again: %v", err)
		}
	})
}

func drawValue(t *rapid.T) Value {
	scalar := func(typ ValueType) []byte {
		return rapid.SliceOfN(rapid.Byte(), typ.Size(), typ.Size()).Draw(t, "scalar")
	}
	types := []ValueType{Uint8, Int8, Uint16, Int16, Uint32, Int32, Float32, Bool, String, Uint64, Int64, Float64}
	typ := rapid.SampledFrom(append(types, Array)).Draw(t, "value type")
	switch typ {
	case String:
		return StringValue(rapid.String().Draw(t, "string"))
	case Array:
		elem := rapid.SampledFrom(types).Draw(t, "element type")
		if elem == String {
			return StringsValue(rapid.SliceOf(rapid.String()).Draw(t, "strings"))
		}
		v := Value{Type: Array, Elem: elem, Len: rapid.IntRange(0, 9).Draw(t, "length")}
		for range v.Len {
			v.Raw = append(v.Raw, scalar(elem)...)
		}
		return v
	}
	return Value{Type: typ, Raw: scalar(typ)}
}
