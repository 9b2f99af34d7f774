package quant

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// The answers are those of the reference, whose output was read.
func TestParseMetadataValue(t *testing.T) {
	ok := map[string]string{
		"a=int:5": "u32 5", "a=int:-5": "u32 5", "a=int:5x": "u32 5", "a=int:": "u32 0", "a=int:0x10": "u32 0", "a=int:4294967296": "u32 0",
		"a=int:4294967295": "u32 4294967295", "a=int:-4294967297": "u32 1", "a=int: 7": "u32 7", "a=int:9999999999999999999999": "u32 4294967295",
		"a=int:-9223372036854775808": "u32 0", "a=int:-9999999999999999999999": "u32 0", "a=int:+3": "u32 3", "a=int:- 3": "u32 0",
		"a=float:1e3x": "f32 1000", "a=float:1e400": "f32 +Inf", "a=float:-1e400": "f32 -Inf", "a=float:": "f32 0", "a=float:0x1p-3": "f32 0.125", "a=float:0x10": "f32 16",
		"a=float:-0": "f32 -0", "a=float:.5": "f32 0.5", "a=float:5.e1": "f32 50", "a=float:1e": "f32 1", "a=float:INF": "f32 +Inf", "a=float:nan(3)": "f32 NaN", "a=float: +2": "f32 2", "a=float:x": "f32 0",
		"a=bool:true": "bool true", "a=bool:false": "bool false", "a=str:": `str ""`, "a=str:x=y:z": `str "x=y:z"`,
		"a=str:" + strings.Repeat("x", 127): `str "` + strings.Repeat("x", 127) + `"`,
		strings.Repeat("k", 127) + "=int:1": "u32 1",
		"general.name=str:é":                `str "é"`,
	}
	for in, want := range ok {
		v, err := ParseMetadataValue(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := v.Value.Type.String() + " " + v.Value.Format(); got != want || v.Key != in[:strings.IndexByte(in, '=')] {
			t.Errorf("%s: %s %s, want %s", in, v.Key, got, want)
		}
	}
	for _, in := range []string{"", "a", "a=", "=int:5", "a=bool:1", "a=bool:TRUE", "a=bool:", "a=u32:5", "a=INT:5", "a:int=5", "a=b=int:5", "a=int",
		"a=str:" + strings.Repeat("x", 128), strings.Repeat("k", 128) + "=int:1"} {
		if v, err := ParseMetadataValue(in); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v, %v", in, v, err)
		}
	}
}

func metadataOf(pairs ...any) *gguf.Metadata {
	meta := new(gguf.Metadata)
	for i := 0; i < len(pairs); i += 2 {
		v := gguf.Value{}
		switch x := pairs[i+1].(type) {
		case int:
			v = gguf.Uint32Value(uint32(x))
		case string:
			v = gguf.StringValue(x)
		case gguf.Value:
			v = x
		}
		meta.Put(pairs[i].(string), v)
	}
	return meta
}

func formatMetadata(meta *gguf.Metadata) []string {
	var list []string
	for key, v := range meta.All() {
		text := v.Format()
		if v.Type == gguf.Array {
			text = fmt.Sprint(v.Len)
		}
		list = append(list, key+" "+v.Type.String()+" "+text)
	}
	return list
}

func tensorsNamed(names ...string) []gguf.TensorInfo {
	var list []gguf.TensorInfo
	for _, name := range names {
		list = append(list, gguf.TensorInfo{Name: name, Shape: []int64{256, 4}})
	}
	return list
}

func TestEditMetadata(t *testing.T) {
	source := metadataOf("general.architecture", "llama", "general.file_type", 1, "llama.block_count", 4, "split.no", gguf.Uint16Value(0), "split.count", gguf.Uint16Value(1),
		"quantize.imatrix.file", "old", "x.s", "ab\x00cd", "split.tensors.count", gguf.Int32Value(3), "x.list", gguf.StringsValue([]string{"a\x00b", "c"}),
		"x.flags", gguf.Value{Type: gguf.Array, Elem: gguf.Bool, Len: 3, Raw: []byte{0, 1, 7}})
	head := []string{`general.architecture str "llama"`, "llama.block_count u32 4"}
	old := `quantize.imatrix.file str "old"`
	rest := []string{`x.s str "ab"`, "x.list arr 2", "x.flags arr 3", "general.quantization_version u32 2", "general.file_type u32 15"}
	value := func(s string) MetadataValue {
		v, err := ParseMetadataValue(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	im := &Imatrix{File: strings.Repeat("p", 200), Datasets: []string{strings.Repeat("d", 130), "second"}, ChunkCount: 7, Entries: make([]Entry, 29)}
	for _, test := range []struct {
		what string
		o    Options
		im   *Imatrix
		want []string
	}{
		{"plain", Options{FileType: MostlyQ4KM}, nil, concat(head, []string{old}, rest)},
		{"imatrix", Options{FileType: MostlyQ4KM}, im, concat(head, rest, []string{`quantize.imatrix.file str "` + strings.Repeat("p", 127) + `"`,
			`quantize.imatrix.dataset str "` + strings.Repeat("d", 127) + `"`, "quantize.imatrix.entries_count u32 29", "quantize.imatrix.chunks_count u32 7"})},
		{"imatrix without chunks and texts", Options{FileType: MostlyQ4KM}, &Imatrix{File: "i", ChunkCount: -3, Entries: make([]Entry, 2)},
			concat(head, rest, []string{`quantize.imatrix.file str "i"`, "quantize.imatrix.entries_count u32 2"})},
		{"imatrix filtered away", Options{FileType: MostlyQ4KM}, &Imatrix{File: "i"}, concat(head, []string{old}, rest)},
		{"values", Options{FileType: MostlyQ4KM, MetadataValues: []MetadataValue{value("a=int:1"), value("general.file_type=int:99"), value("b=int:2"), value("a=int:3"), value("quantize.imatrix.file=str:me")}},
			nil, concat(head, rest[:4], []string{"general.file_type u32 99", "b u32 2", "a u32 3", `quantize.imatrix.file str "me"`})},
		{"values before imatrix and blocks", Options{FileType: MostlyQ4KM, PruneLayers: []int{1}, MetadataValues: []MetadataValue{value("llama.block_count=int:9")}}, &Imatrix{File: "i", Entries: make([]Entry, 1)},
			concat(head[:1], rest, []string{`quantize.imatrix.file str "i"`, "quantize.imatrix.entries_count u32 1", "llama.block_count u32 3"})},
		{"copy", Options{FileType: Copy}, nil, concat(head, []string{old}, rest[:4], []string{"general.file_type u32 1"})},
	} {
		meta, err := test.o.EditMetadata(source, tensorsNamed("blk.0.a", "blk.1.a", "blk.2.a", "blk.3.a", "output.weight"), test.im)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		if diff := cmp.Diff(test.want, formatMetadata(meta)); diff != "" {
			t.Errorf("%s:\n%s", test.what, diff)
		}
		list, _ := meta.Get("x.list")
		flags, _ := meta.Get("x.flags")
		if diff := cmp.Diff(gguf.StringsValue([]string{"a", "c"}), list); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]byte{0, 1, 1}, flags.Raw); diff != "" {
			t.Error(diff)
		}
	}
	if flags, _ := source.Get("x.flags"); flags.Raw[2] != 7 {
		t.Error("the source has changed")
	}
	for _, v := range []gguf.Value{gguf.Int32Value(7), gguf.StringValue("x"), gguf.BoolValue(true)} {
		_, err := Options{FileType: MostlyQ4KM}.EditMetadata(metadataOf("general.file_type", v), nil, nil)
		if fault.KindOf(err) != fault.BadInput {
			t.Errorf("file type %v: %v", v, err)
		}
	}
}

func concat(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestGuessedFileType(t *testing.T) {
	for _, test := range []struct {
		names, types string
		want         FileType
	}{
		{"", "", 1024}, {"a", "q4_K", 1039}, {"a", "q3_K", 1036}, {"a", "q2_K", 1034}, {"a", "q5_K", 1041}, {"a", "iq3_s", 1050}, {"a", "iq2_s", 1052}, {"a", "iq2_xs", 1044},
		{"a", "mxfp4", 1024}, {"a", "nvfp4", 1063}, {"a", "q8_K", 1024}, {"a", "i32", 1024}, {"a", "f16", 1025}, {"a", "bf16", 1056}, {"a", "q1_0", 1064}, {"a", "tq1_0", 1060},
		{"a b", "f32 q4_K", 1024}, {"a b", "q4_K f32", 1039}, {"a b c d", "q8_0 q8_0 f32 f32", 1031}, {"a b c d", "f32 f32 q8_0 q8_0", 1024}, {"a b c d", "q8_0 q6_K f32 f32", 1024},
		{"b a blk.1.a blk.0.a", "q8_0 q4_K f16 f32", 1039}, {"blk.1.a blk.0.a b", "f16 f32 q8_0", 1031}, {"blk.0.a blk.1.a blk.1.b", "q8_0 f16 f16", 1025},
	} {
		tensors := tensorsNamed(strings.Fields(test.names)...)
		for i, name := range strings.Fields(test.types) {
			tensors[i].Type, _ = gguf.ParseType(name)
		}
		meta, err := Options{FileType: Copy, PruneLayers: []int{1}}.EditMetadata(new(gguf.Metadata), tensors, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := meta.Uint("general.file_type", 0); got != uint64(test.want) {
			t.Errorf("%s (%s): %d, want %d", test.names, test.types, got, test.want)
		}
	}
}

// The answers are those of the reference, whose output was read.
func TestPruneLayers(t *testing.T) {
	gaps := "a blk.0.q blk.2.q blk.3.q blk.5.q blk.12.q"
	for _, test := range []struct {
		names  string
		layers []int
		want   string
		blocks int
	}{
		{gaps, []int{0}, "a - blk.0.q blk.1.q blk.2.q blk.3.q", 4},
		{gaps, []int{2}, "a blk.0.q - blk.1.q blk.2.q blk.3.q", 4},
		{gaps, []int{1}, "a blk.0.q blk.1.q blk.2.q blk.3.q blk.4.q", 5},
		{gaps, []int{5, 2}, "a blk.0.q - blk.1.q - blk.2.q", 3},
		{gaps, []int{12}, "a blk.0.q blk.2.q blk.3.q blk.5.q -", 6},
		{gaps, []int{3}, "a blk.0.q blk.2.q - blk.3.q blk.4.q", 5},
		{gaps, []int{5}, "a blk.0.q blk.2.q blk.3.q - blk.4.q", 5},
		{gaps, []int{3, 12}, "a blk.0.q blk.2.q - blk.3.q -", 4},
		{gaps, []int{4}, "a blk.0.q blk.2.q blk.3.q blk.4.q blk.5.q", 6},
		{gaps, []int{13}, "a blk.0.q blk.2.q blk.3.q blk.5.q blk.12.q", 13},
		{gaps, []int{0, 2, 3, 5, 12, 2}, "a - - - - -", 0},
		{"blk.12.q blk.5.q blk.3.q blk.2.q blk.0.q", []int{2}, "blk.3.q blk.2.q blk.1.q - blk.0.q", 4},
		{"blk.1.blk.3.w blk.2.blk.2.w", []int{1}, "- blk.0.blk.2.w", 1},
		{"blk.1.blk.3.w blk.2.blk.2.w", []int{0}, "blk.0.blk.3.w blk.1.blk.2.w", 2},
		{"blk.2.x blk.5.x enc.blk.5.x ablk.07.x blk.11x blk.4.bias", []int{0}, "blk.2.x blk.1.x enc.blk.1.x ablk.0.x blk.11x blk.3.bias", 4},
		{"blk.2.x enc.blk.5.x blk.1.x", []int{1}, "blk.1.x enc.blk.0.x -", 2},
		{"blk.02.x blk.4.x", []int{3}, "blk.2.x blk.3.x", 4},
		{"enc.blk.5.x blk.0.x blk.8.x", []int{7}, "enc.blk.5.x blk.0.x blk.1.x", 2},
		{"enc.blk.7.x blk.0.x blk.8.x blk.9.x", []int{6}, "enc.blk.0.x blk.0.x blk.1.x blk.2.x", 3},
		{"enc.blk.7.x blk.0.x blk.2.x blk.8.x blk.9.x", []int{6}, "enc.blk.0.x blk.0.x blk.2.x blk.3.x blk.4.x", 5},
		{"blk.x.w blk.1 blk.-1.w token_embd.weight", []int{1}, "blk.x.w blk.1 blk.-1.w token_embd.weight", 0},
	} {
		names, blocks, err := Options{PruneLayers: test.layers}.outputNames(tensorsNamed(strings.Fields(test.names)...))
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if name == "" {
				names[i] = "-"
			}
		}
		if got := strings.Join(names, " "); got != test.want || blocks != test.blocks {
			t.Errorf("%s without %v: %s, %d blocks; want %s, %d", test.names, test.layers, got, blocks, test.want, test.blocks)
		}
	}
	for _, name := range []string{"blk.99999999999.w", "blk.99999999999999999999999.w"} {
		if _, _, err := (Options{PruneLayers: []int{1}}).outputNames(tensorsNamed(name)); fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseLayers(t *testing.T) {
	for in, want := range map[string]string{"1": "[1]", "3,1,2": "[3 1 2]", " 1, 2": "[1 2]", "1,1": "[1 1]", "": "error", "1,": "error", "a": "error", "-1": "error", "1x": "error", "1;2": "error", "99999999999": "error"} {
		list, err := ParseLayers(in)
		got := fmt.Sprint(list)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// The order is that of a file the reference wrote.
func TestSortTensors(t *testing.T) {
	want := "ablk.2.weight blk.-1.weight blk.x.weight dec.blk.2.attn_v.weight enc.blk.1.x.weight token_embd.weight v.blk.1.x.weight blk.0.weight blk.01.attn_q.weight blk.1 " +
		"blk.1.blk.3.weight blk.1x.weight blk.\t2.weight blk.+2.weight blk.2.a.weight blk.2.weight blk.3_weight blk.10.a blk.99999999999.weight"
	names := strings.Split(want, " ")
	for i := range names { // any other order
		j := (i * 7) % len(names)
		names[i], names[j] = names[j], names[i]
	}
	tensors := tensorsNamed(names...)
	SortTensors(tensors)
	var got []string
	for _, t := range tensors {
		got = append(got, t.Name)
	}
	if diff := cmp.Diff(strings.Split(want, " "), got); diff != "" {
		t.Error(diff)
	}
	if n, _ := layerOf("blk.99999999999999999999.x"); n != -1 {
		t.Errorf("a number beyond 64 bits: %d", n)
	}
	if n, _ := layerOf("blk.2147483648.x"); n != math.MinInt32 {
		t.Errorf("a number beyond 32 bits: %d", n)
	}
}
