package remote_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gguf-forge/internal/fault"
	"gguf-forge/internal/testhub"
	"gguf-forge/internal/testhub/hubtest"
	"gguf-forge/remote"
)

// headerCases are safetensors headers with the bytes of data that follow them. want is a part of the error, "" for
// headers that are right; tensors are then the names in data order.
var headerCases = []struct {
	name, header string
	data         int64
	want         string
	tensors      string
}{
	{"empty", `{}`, 0, "", ""},
	{"one", `{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`, 24, "", "a"},
	{"order of data", `{"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},"a":{"shape":[1],"data_offsets":[0,2],"dtype":"BF16"}}`, 5, "", "a b"},
	{"padding and metadata", `{"__metadata__":{"format":"pt"},"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}   `, 8, "", "a"},
	{"null metadata", `{"__metadata__":null}`, 0, "", ""},
	{"nothing in it", `{"b":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"c":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`, 8, "", "b a c"},
	{"four bits", `{"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}}`, 3, "", "a"},
	{"six bits", `{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}`, 3, "", "a"},
	{"complex", `{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}`, 8, "", "a"},
	{"escaped name", `{"a\u0062\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, "", "ab\n"},

	{"no object", `[]`, 0, "no JSON object", ""},
	{"blank first", ` {}`, 0, "no JSON object", ""},
	{"not UTF-8", "{\"\xff\":{}}", 0, "UTF-8", ""},
	{"unfinished", `{"a":{"dtype":"F32","shape":[1]`, 4, "damaged", ""},
	{"comma at the end", `{"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}}`, 1, "damaged", ""},
	{"comma after a tensor", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}`, 1, "damaged", ""},
	{"missing colon", `{"a" {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, "damaged", ""},
	{"something behind", `{} {}`, 0, "something follows", ""},
	{"zeros behind", "{}\x00\x00", 0, "something follows", ""},
	{"name twice", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `key "a" twice`, ""},
	{"name twice by escapes", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `key "a" twice`, ""},
	{"field twice", `{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, `key "dtype" twice`, ""},
	{"no name", `{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, "no name", ""},
	{"unknown dtype", `{"a":{"dtype":"Q8","shape":[1],"data_offsets":[0,1]}}`, 1, `unknown dtype "Q8"`, ""},
	{"small letters", `{"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}}`, 4, `unknown dtype`, ""},
	{"no dtype", `{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1, "are needed", ""},
	{"no offsets", `{"a":{"shape":[1],"dtype":"U8"}}`, 1, "are needed", ""},
	{"unknown field", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}}`, 1, `unknown field "strides"`, ""},
	{"tensor is a number", `{"a":1}`, 0, "no JSON object", ""},
	{"metadata holds a number", `{"__metadata__":{"a":1}}`, 0, "a text is needed", ""},
	{"shape is a number", `{"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}`, 1, "a list of numbers", ""},
	{"negative size", `{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"fraction", `{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"exponent", `{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"text as size", `{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"list in a list", `{"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"size beyond 63 bits", `{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}}`, 1, "is no size", ""},
	{"shape overflows", `{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0, "overflows", ""},
	{"shape wraps to the right size", `{"a":{"dtype":"F32","shape":[4611686018427387904,4,2],"data_offsets":[0,0]}}`, 0, "overflows", ""},
	{"bits overflow", `{"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}`, 0, "overflows", ""},
	{"half a byte", `{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, 2, "whole bytes", ""},
	{"too many dimensions", `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", 16) + `1],"data_offsets":[0,1]}}`, 1, "more than 16", ""},
	{"three offsets", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, 1, "more than 2", ""},
	{"one offset", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, 1, "no begin and end", ""},
	{"end before begin", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1, "no begin and end", ""},
	{"too few bytes", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4, "needs 8 bytes", ""},
	{"too many bytes", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, 8, "needs 4 bytes", ""},
	{"overlap", `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6, "overlaps", ""},
	{"same place", `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4, "overlaps", ""},
	{"hole", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3, "belong to no tensor", ""},
	{"hole at the start", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, "belong to no tensor", ""},
	{"hole at the end", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2, "behind the last tensor", ""},
	{"cut off", `{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 8, "cut off", ""},
}

func TestParseSafetensors(t *testing.T) {
	for _, tt := range headerCases {
		t.Run(tt.name, func(t *testing.T) {
			names, err := remote.ParseSafetensors([]byte(tt.header), tt.data)
			check(t, err, tt.want, fault.BadInput)
			if got := strings.Join(names, " "); got != tt.tensors {
				t.Errorf("tensors %q, want %q", got, tt.tensors)
			}
		})
	}
}

// FuzzParseSafetensors checks what every accepted header must satisfy.
func FuzzParseSafetensors(f *testing.F) {
	for _, tt := range headerCases {
		f.Add([]byte(tt.header), tt.data)
	}
	f.Fuzz(func(t *testing.T, header []byte, data int64) {
		names, err := remote.ParseSafetensors(header, data)
		if err != nil {
			if len(names) > 0 {
				t.Error("tensors in spite of an error")
			}
			return
		}
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(header, &plain); err != nil {
			t.Fatalf("accepted, but no JSON: %v", err)
		}
		delete(plain, "__metadata__")
		if len(plain) != len(names) {
			t.Errorf("%d tensors, the JSON has %d", len(names), len(plain))
		}
		total := int64(0)
		for _, raw := range plain {
			var x struct {
				Offsets [2]int64 `json:"data_offsets"`
			}
			if err := json.Unmarshal(raw, &x); err != nil {
				t.Fatal(err)
			}
			total += x.Offsets[1] - x.Offsets[0]
		}
		if total != data {
			t.Errorf("the tensors have %d bytes, the data %d", total, data)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != len(plain) {
			t.Error("a name stands twice")
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"x.safetensors","b":"s/y.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"x.safetensors"},"weight_map":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := remote.ParseIndexForTest(text); err == nil && !json.Valid(text) {
			t.Error("accepted, but no JSON")
		}
	})
}

// TestSafetensorsFile checks what stands around the JSON.
func TestSafetensorsFile(t *testing.T) {
	le := binary.LittleEndian.AppendUint64
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too few"},
		{"nine bytes", le(nil, 1)[:8:8], "too few"},
		{"header of 0 bytes", le(nil, 0), "too few"},
		{"header of 1 byte", append(le(nil, 1), "{}"...), "would have 1 bytes"},
		{"huge header", append(le(nil, 1<<62), "{}"...), "would have"},
		{"negative header", append(le(nil, 1<<63+10), "{}"...), "would have"},
		{"header behind the end", append(le(nil, 20), "{}        "...), "cut off"},
		{"pointer of a large file", []byte("version https://git-lfs.github.com/spec/v1\n"), "would have"},
		{"right", append(le(nil, 2), "{}"...), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := filepath.Join(t.TempDir(), "m.safetensors")
			if err := os.WriteFile(p, tt.file, 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := remote.NewClient(remote.WithCache(""))
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.OpenModel(context.Background(), remote.Reference{Kind: remote.File, Path: p})
			check(t, err, tt.want, fault.BadInput)
			if err == nil {
				m.Close()
			}
		})
	}
}

// TestLargeSafetensorsHeader needs a second request, and no third.
func TestLargeSafetensorsHeader(t *testing.T) {
	var b strings.Builder
	const n = 3000
	for i := range n {
		fmt.Fprintf(&b, `%c"model.layers.%d.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, "{,"[min(i, 1)], i, i, i+1)
	}
	file := safetensors(b.String()+"}", make([]byte, n))
	h := hubtest.Start(t)
	h.Repo("org/model").Add("model.safetensors", strings.NewReader(string(file)))
	m, err := client(t, h).OpenModel(context.Background(), hubRef("org/model", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Tensors) != n || m.Tensors[n-1].Name != fmt.Sprintf("model.layers.%d.weight", n-1) {
		t.Errorf("%d tensors", len(m.Tensors))
	}
	if got, _ := h.Count(testhub.Files); got != 2 {
		t.Errorf("%d requests for the header, want 2", got)
	}
}

func BenchmarkParseSafetensors(b *testing.B) {
	var s strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&s, `%c"model.layers.%d.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, "{,"[min(i, 1)], i, i, i+1)
	}
	head := []byte(s.String() + "}")
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := remote.ParseSafetensors(head, 20_000); err != nil {
			b.Fatal(err)
		}
	}
}
