package pipeline

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

const good = `
sources:
  model: {hub: org/model, revision: v1, file: model.gguf, size: 12}
  importance: {url: "https://example.org/imatrix.gguf"}
quantize:
  type: q4_k_m
  imatrix: importance
  tensors:
    - {match: "attn_*", layers: "0-1, 7", type: q6_k}
metadata:
  set: {general.name: x}
  remove: [general.url]
order: source
notebook: {anything: [1, 2]}
`

func TestParseRecipe(t *testing.T) {
	r, err := ParseRecipe("good", "", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.SHA256) != 64 || r.Quantize.Tensors[0].Layers != "0-1, 7" || r.Order != OrderSource {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown key", "order:", "ordre:", `\[13:1\] unknown field "ordre"`},
		{"unknown key inside", "imatrix: importance", "imatrx: importance", `\[7:3\] unknown field "imatrx"`},
		{"wrong type", "size: 12", "size: twelve", `\[3:`},
		{"no model", "model: {hub", "modal: {hub", "no source named model"},
		{"two places", "hub: org/model", "hub: org/model, path: x", "sources.model: exactly one of hub, url and path"},
		{"no file", ", file: model.gguf", "", "sources.model: hub needs a file"},
		{"file without hub", "url: ", "file: y, url: ", "belong to hub"},
		{"endpoint", "size: 12", "endpoint: elsewhere", "can only be embedded"},
		{"hash", "size: 12", "sha256: 12", "64 lower-case hex digits"},
		{"negative size", "size: 12", "size: -1", "size is negative"},
		{"file type", "q4_k_m", "q4_x", "quantize.type: .*q4_x"},
		{"no such imatrix", "imatrix: importance", "imatrix: other", "no source named other"},
		{"tensor type", "q6_k", "q7_k", `quantize.tensors\[0\]: .*q7_k`},
		{"match", "attn_*", "attn[", "a tensor name"},
		{"empty match", "attn_*", "", "a tensor name"},
		{"layers", "0-1, 7", "1-0", "numbers and ranges"},
		{"huge layers", "0-1, 7", "0-2000000000", "numbers and ranges"},
		{"order", "order: source", "order: random", "reference or source"},
		{"provenance", "order: source", "provenance: some", "can only be none"},
		{"allow", "type: q4_k_m", "type: q4_k_m\n  fallback: yes", "can only be allow"},
		{"set and removed", "[general.url]", "[general.name]", "both set and removed"},
		{"no mapping", good, "42", "recipe bad"},
		{"empty", good, "", "it is empty"},
		{"broken", good, "a: [", "recipe bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(good, c.from) {
				t.Fatalf("the recipe has no %q", c.from)
			}
			r, err := ParseRecipe("bad", "", []byte(strings.Replace(good, c.from, c.to, 1)))
			if err == nil || r != nil {
				t.Fatal("accepted")
			}
			if !regexp.MustCompile(c.want).MatchString(err.Error()) || fault.KindOf(err) != fault.BadInput {
				t.Errorf("kind %d: %v", fault.KindOf(err), err)
			}
		})
	}
	t.Run("all problems at once", func(t *testing.T) {
		_, err := ParseRecipe("bad", "", []byte("sources: {m: {}}\nquantize: {type: none, imatrix: i}\n"))
		for _, want := range []string{"no source named model", "sources.m:", "quantize.type", "quantize.imatrix"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %v", want, err)
			}
		}
	})
}

func TestOverridePattern(t *testing.T) {
	for _, c := range []struct {
		match, layers string
		yes, no       []string
	}{
		{"attn_v", "", []string{"blk.0.attn_v.weight", "blk.17.attn_v.weight", "attn_v"}, []string{"blk.0.attn_v.bias", "blk.0.xattn_v.weight", "blk.0.attn_v2.weight"}},
		{"attn_v", "0-2,20", []string{"blk.0.attn_v.weight", "blk.2.attn_v.weight", "blk.20.attn_v.weight"}, []string{"blk.3.attn_v.weight", "blk.200.attn_v.weight", "attn_v.weight"}},
		{"ffn_*", "", []string{"blk.3.ffn_up.weight", "blk.3.ffn_gate_exps.weight"}, []string{"blk.3.attn_q.weight"}},
		{"token_embd", "", []string{"token_embd.weight"}, []string{"xtoken_embd.weight", "token_embd_norm.weight"}},
		{"nextn.*", " 24 ", []string{"blk.24.nextn.eh_proj.weight"}, []string{"blk.24.nextnxeh_proj.weight"}},
	} {
		p, err := OverrideSpec{Match: c.match, Layers: c.layers}.pattern()
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(p)
		for _, name := range c.yes {
			if !re.MatchString(name) {
				t.Errorf("%s in layers %q does not match %s", c.match, c.layers, name)
			}
		}
		for _, name := range c.no {
			if re.MatchString(name) {
				t.Errorf("%s in layers %q matches %s", c.match, c.layers, name)
			}
		}
	}
}

func TestMetadataSpec(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "template.jinja"), []byte("{{ x }}"), 0o644); err != nil {
		t.Fatal(err)
	}
	base := func() *gguf.Metadata {
		m := new(gguf.Metadata)
		m.Put("general.architecture", gguf.StringValue("llama"))
		m.Put("a.u8", gguf.Value{Type: gguf.Uint8, Raw: []byte{1}})
		m.Put("a.f32", gguf.Float32Value(1))
		m.Put("a.list", gguf.StringsValue([]string{"x"}))
		return m
	}
	m := base()
	spec := MetadataSpec{Remove: []string{"general.architecture"}, Set: map[string]any{
		"a.u8": uint64(200), "a.f32": uint64(3), "a.list": []any{"y", "z"},
		"b.text": "t", "b.bool": true, "b.count": uint64(5), "b.negative": int64(-5), "b.big": uint64(1 << 40), "b.huge": uint64(1 << 63),
		"b.float": 0.5, "b.typed": map[string]any{"type": "i64", "value": uint64(7)}, "b.file": map[string]any{"file": "template.jinja"},
	}}
	if err := spec.apply(m, dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for key, v := range m.All() {
		got = append(got, key+" "+v.Type.String()+" "+v.Format())
	}
	want := []string{
		"a.u8 u8 200", "a.f32 f32 3", `a.list arr ` + gguf.StringsValue([]string{"y", "z"}).Format(), "b.big u64 1099511627776", "b.bool bool true", "b.count u32 5",
		`b.file str "{{ x }}"`, "b.float f32 0.5", "b.huge u64 9223372036854775808", "b.negative i32 -5", `b.text str "t"`, "b.typed i64 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, spec := range map[string]MetadataSpec{
		"no such key":       {Remove: []string{"nothing"}},
		"too large":         {Set: map[string]any{"a.u8": uint64(256)}},
		"negative":          {Set: map[string]any{"a.u8": int64(-1)}},
		"fraction":          {Set: map[string]any{"a.u8": 1.5}},
		"text for number":   {Set: map[string]any{"a.u8": "1"}},
		"number for text":   {Set: map[string]any{"general.architecture": uint64(1)}},
		"null":              {Set: map[string]any{"x": nil}},
		"mixed list":        {Set: map[string]any{"x": []any{"a", uint64(1)}}},
		"unknown type":      {Set: map[string]any{"x": map[string]any{"type": "u128", "value": uint64(1)}}},
		"array type":        {Set: map[string]any{"x": map[string]any{"type": "arr", "value": uint64(1)}}},
		"extra field":       {Set: map[string]any{"x": map[string]any{"type": "u8", "value": uint64(1), "y": true}}},
		"missing file":      {Set: map[string]any{"x": map[string]any{"file": "nothing"}}},
		"huge for smaller":  {Set: map[string]any{"x": map[string]any{"type": "i64", "value": uint64(1 << 63)}}},
		"negative unsigned": {Set: map[string]any{"x": map[string]any{"type": "u64", "value": int64(-1)}}},
	} {
		if err := spec.apply(base(), dir); err == nil || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}
