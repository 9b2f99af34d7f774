package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/internal/testhub"
	"gguf-forge/internal/testhub/hubtest"
	"gguf-forge/remote"
	"gguf-forge/remote/remotetest"

	"github.com/google/go-cmp/cmp"
)

// ggufFile returns a GGUF with the given pairs and f32 tensors of 8 elements, and the bytes of each tensor.
func ggufFile(t testing.TB, pairs []gguf.KV, names ...string) (file []byte, tensors map[string][]byte) {
	t.Helper()
	meta := &gguf.Metadata{}
	for _, p := range pairs {
		meta.Put(p.Key, p.Value)
	}
	var infos []gguf.TensorInfo
	for _, name := range names {
		infos = append(infos, gguf.TensorInfo{Name: name, Type: gguf.F32, Shape: []int64{4, 2}})
	}
	l, err := gguf.NewLayout(meta, infos, gguf.GGML, 32)
	if err != nil {
		t.Fatal(err)
	}
	file = append(make([]byte, 0, l.Size), l.Header...)
	file = append(file, make([]byte, l.Size-l.DataStart)...)
	tensors = map[string][]byte{}
	for i, info := range l.Tensors {
		data := remotetest.Data(32 + i)[i:][:32]
		copy(file[l.DataStart+info.Offset:], data)
		tensors[info.Name] = data
	}
	return file, tensors
}

// splitGGUF returns the files of a model in three parts; the first has no tensors.
func splitGGUF(t testing.TB, prefix string) (files map[string][]byte, tensors map[string][]byte) {
	files, tensors = map[string][]byte{}, map[string][]byte{}
	for i, names := range [][]string{nil, {"a", "b"}, {"c"}} {
		pairs := []gguf.KV{{Key: "split.no", Value: gguf.Uint16Value(uint16(i))}, {Key: "split.count", Value: gguf.Uint16Value(3)}, {Key: "split.tensors.count", Value: gguf.Int32Value(3)}}
		if i == 0 {
			pairs = append(pairs, gguf.KV{Key: "general.architecture", Value: gguf.StringValue("llama")})
		}
		file, data := ggufFile(t, pairs, names...)
		files[gguf.ShardName(prefix, i+1, 3)] = file
		for name, d := range data {
			tensors[name] = d
		}
	}
	return files, tensors
}

// safetensors returns a file with header and data.
func safetensors(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// shardedSafetensors returns the files of a model in two shards with an index.
func shardedSafetensors() (files map[string][]byte, tensors map[string][]byte) {
	data := remotetest.Data(48)
	return map[string][]byte{
		"model.safetensors.index.json":     []byte(`{"metadata":{"total_size":48},"weight_map":{"c":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors"}}`),
		"model-00001-of-00002.safetensors": safetensors(`{"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}  `, data[:24]),
		"model-00002-of-00002.safetensors": safetensors(`{"c":{"dtype":"F8_E4M3","shape":[3,8],"data_offsets":[0,24]}}`, data[24:]),
	}, map[string][]byte{"a": data[:8], "b": data[8:24], "c": data[24:]}
}

// places serves files in every way a model can be opened, and returns references to the first of them.
func places(t *testing.T, files map[string][]byte, first string) map[string]func() (*remote.Client, remote.Reference) {
	h := hubtest.Start(t)
	h.SetToken(testToken)
	dir := t.TempDir()
	repo := h.Repo("org/model")
	base := ""
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
		repo.Add("sub folder/"+name, bytes.NewReader(b))
		url := h.Plain("a b/"+name, bytes.NewReader(b))
		base = strings.TrimSuffix(url, name)
	}
	return map[string]func() (*remote.Client, remote.Reference){
		"file": func() (*remote.Client, remote.Reference) {
			return client(t, h), remote.Reference{Kind: remote.File, Path: filepath.Join(dir, first)}
		},
		"hub": func() (*remote.Client, remote.Reference) {
			return client(t, h), hubRef("org/model", "sub folder/"+first)
		},
		"page": func() (*remote.Client, remote.Reference) {
			return client(t, h), remote.Reference{Kind: remote.URL, URL: h.Endpoint() + "/org/model/blob/main/sub%20folder/" + first}
		},
		"http": func() (*remote.Client, remote.Reference) {
			return client(t, h), remote.Reference{Kind: remote.URL, URL: base + first}
		},
	}
}

func TestOpenModel(t *testing.T) {
	single, singleData := ggufFile(t, []gguf.KV{{Key: "general.architecture", Value: gguf.StringValue("llama")}}, "a", "b")
	split, splitData := splitGGUF(t, "m")
	sharded, shardedData := shardedSafetensors()
	one := map[string][]byte{"x.safetensors": sharded["model-00001-of-00002.safetensors"]}
	for _, tt := range []struct {
		name    string
		files   map[string][]byte
		first   string
		format  string
		tensors map[string][]byte
	}{
		{"gguf", map[string][]byte{"m.gguf": single}, "m.gguf", "gguf", singleData},
		{"gguf without its name", map[string][]byte{"blob": single, "readme.txt": nil}, "blob", "gguf", singleData},
		{"split gguf", split, "m-00001-of-00003.gguf", "gguf", splitData},
		{"safetensors", one, "x.safetensors", "safetensors", map[string][]byte{"a": shardedData["a"], "b": shardedData["b"]}},
		{"sharded safetensors", sharded, "model.safetensors.index.json", "safetensors", shardedData},
	} {
		for place, get := range places(t, tt.files, tt.first) {
			t.Run(tt.name+"/"+place, func(t *testing.T) {
				c, ref := get()
				m, err := c.OpenModel(context.Background(), ref)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if m.Format != tt.format || len(m.Sources) != len(m.Files) || (tt.format == "gguf") != (m.Metadata != nil && len(m.Shards) == len(m.Sources)) {
					t.Errorf("format %q, %d sources, %d files, %d shards", m.Format, len(m.Sources), len(m.Files), len(m.Shards))
				}
				got := map[string][]byte{}
				for _, x := range m.Tensors {
					b := make([]byte, x.Length)
					if _, err := x.Source.ReadAt(context.Background(), b, x.At); err != nil {
						t.Fatal(err)
					}
					got[x.Name] = b
				}
				if d := cmp.Diff(tt.tensors, got); d != "" {
					t.Errorf("tensors (-want +got):\n%s", d)
				}
			})
		}
	}
}

func TestOpenModelDetails(t *testing.T) {
	files, _ := shardedSafetensors()
	h := hubtest.Start(t)
	repo := h.Repo("org/model")
	for name, b := range files {
		repo.Add(name, bytes.NewReader(b))
	}
	m, err := client(t, h).OpenModel(context.Background(), hubRef("org/model", "model.safetensors.index.json"))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name, Type, DType string
		Shape             []int64
		Offset, Length    int64
		Path              string
	}
	var got []row
	for _, x := range m.Tensors {
		name := x.Type.String()
		if x.Type == remote.NoType {
			name = "none"
		}
		got = append(got, row{x.Name, name, x.DType, x.Shape, x.Offset, x.Length, x.Source.Identity().Path})
	}
	want := []row{
		{"a", "bf16", "", []int64{4}, 0, 8, "model-00001-of-00002.safetensors"},
		{"b", "f32", "", []int64{2, 2}, 8, 16, "model-00001-of-00002.safetensors"},
		{"c", "none", "F8_E4M3", []int64{8, 3}, 0, 24, "model-00002-of-00002.safetensors"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// One request for the index, one for each header.
	if n, _ := h.Count(testhub.Files); n != 2 {
		t.Errorf("%d requests to the content server, want 2", n)
	}
}

func TestOpenModelFolder(t *testing.T) {
	files, _ := shardedSafetensors()
	dir := t.TempDir()
	c, err := remote.NewClient(remote.WithCache(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenModel(context.Background(), remote.Reference{Kind: remote.File, Path: dir}); fault.KindOf(err) != fault.BadInput {
		t.Errorf("an empty folder: %v", err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for files, want := range map[string]int{"": 3, "model.safetensors": 1} {
		if files != "" {
			b := safetensors(`{"x":{"dtype":"I8","shape":[],"data_offsets":[0,1]}}`, []byte{7})
			if err := os.WriteFile(filepath.Join(dir, files), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		m, err := c.OpenModel(context.Background(), remote.Reference{Kind: remote.File, Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		if files != "" && len(m.Tensors) != want {
			t.Errorf("%d tensors, want %d", len(m.Tensors), want)
		}
		m.Close()
	}
}

func TestOpenModelErrors(t *testing.T) {
	index := func(text string) func(map[string][]byte) {
		return func(f map[string][]byte) { f["model.safetensors.index.json"] = []byte(text) }
	}
	sharded, _ := shardedSafetensors()
	split, _ := splitGGUF(t, "m")
	for _, tt := range []struct {
		name   string
		files  map[string][]byte
		first  string
		change func(map[string][]byte)
		want   string
		kind   fault.Kind
	}{
		{"missing shard", sharded, "model.safetensors.index.json", func(f map[string][]byte) { delete(f, "model-00002-of-00002.safetensors") }, "no such file", fault.BadInput},
		{"cut shard", sharded, "model.safetensors.index.json", func(f map[string][]byte) {
			f["model-00002-of-00002.safetensors"] = f["model-00002-of-00002.safetensors"][:90]
		}, "cut off", fault.BadInput},
		{"escaping name", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"../x.safetensors"}}`), "no plain name", fault.BadInput},
		{"absolute name", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"/etc/x.safetensors"}}`), "no plain name", fault.BadInput},
		{"backslash", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"..\\x.safetensors"}}`), "no plain name", fault.BadInput},
		{"no map", sharded, "model.safetensors.index.json", index(`{"metadata":{}}`), "maps no tensors", fault.BadInput},
		{"mapped twice", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`), "twice", fault.BadInput},
		{"not in its shard", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors","z":"model-00001-of-00002.safetensors"}}`), `"z" is not in`, fault.BadInput},
		{"in another shard", sharded, "model.safetensors.index.json", index(`{"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`), `the index says`, fault.BadInput},
		{"HTML as index", sharded, "model.safetensors.index.json", index(`<html>`), "no JSON object", fault.BadInput},
		{"second part", split, "m-00002-of-00003.gguf", func(map[string][]byte) {}, "must be given by its first part", fault.BadInput},
		{"missing part", split, "m-00001-of-00003.gguf", func(f map[string][]byte) { delete(f, "m-00003-of-00003.gguf") }, "no such file", fault.BadInput},
	} {
		files := map[string][]byte{}
		for name, b := range tt.files {
			files[name] = b
		}
		tt.change(files)
		for place, get := range places(t, files, tt.first) {
			t.Run(tt.name+"/"+place, func(t *testing.T) {
				c, ref := get()
				_, err := c.OpenModel(context.Background(), ref)
				check(t, err, tt.want, tt.kind)
			})
		}
	}
}

// TestTag resolves quantization tags with the listing, page by page.
func TestTag(t *testing.T) {
	h := hubtest.Start(t)
	h.SetToken(testToken)
	h.SetPageSize(3)
	repo := h.Repo("org/model")
	for _, name := range []string{
		"README.md", "LICENSE", "model-Q4_K_M.gguf", "model-Q4_K_S.gguf", "model.q8_0.gguf", "UD-IQ2_XXS/model-UD-IQ2_XXS-00001-of-00002.gguf",
		"UD-IQ2_XXS/model-UD-IQ2_XXS-00002-of-00002.gguf", "mmproj-BF16.gguf", "model-BF16.gguf", "imatrix-Q5_K.gguf", "a/model-Q6_K.gguf", "b/model-Q6_K.gguf", "model-Q5_K.safetensors",
	} {
		repo.Add(name, strings.NewReader(name))
	}
	c := client(t, h)
	for _, tt := range []struct{ tag, want, err string }{
		{"Q4_K_M", "model-Q4_K_M.gguf", ""},
		{"q4_k_s", "model-Q4_K_S.gguf", ""},
		{"Q8_0", "model.q8_0.gguf", ""},
		{"IQ2_XXS", "UD-IQ2_XXS/model-UD-IQ2_XXS-00001-of-00002.gguf", ""},
		{"UD-IQ2_XXS", "UD-IQ2_XXS/model-UD-IQ2_XXS-00001-of-00002.gguf", ""},
		{"BF16", "model-BF16.gguf", ""},
		{"LICENSE", "LICENSE", ""},
		{"Q4_K", "", "no GGUF file of org/model matches"},
		{"Q5_K", "", "no GGUF file of org/model matches"},
		{"Q6_K", "", "matches 2 files"},
	} {
		ref, err := c.Pin(context.Background(), hubRef("org/model", tt.tag))
		check(t, err, tt.err, fault.BadInput)
		if err == nil && ref.File != tt.want {
			t.Errorf("%s: %s, want %s", tt.tag, ref.File, tt.want)
		}
	}
	list, err := c.List(context.Background(), "org/model", repo.Push("main"))
	if err != nil || len(list) != 13 {
		t.Errorf("%d files listed, want 13: %v", len(list), err)
	}
	for _, e := range list {
		if e.Size != int64(len(e.Path)) || (e.SHA256 != "") != (strings.HasSuffix(e.Path, "gguf") || strings.HasSuffix(e.Path, "safetensors")) {
			t.Errorf("wrong entry %+v", e)
		}
	}
}

// TestHeaderRequests opens a model whose vocabulary makes a header of 10 MB.
func TestHeaderRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("a large header")
	}
	words := make([]string, 250_000)
	for i := range words {
		words[i] = fmt.Sprintf("a rather long token %d", i)
	}
	file, _ := ggufFile(t, []gguf.KV{{Key: "general.architecture", Value: gguf.StringValue("llama")}, {Key: "tokenizer.ggml.tokens", Value: gguf.StringsValue(words)}}, "a")
	h := hubtest.Start(t)
	h.Repo("org/model").Add("m.gguf", bytes.NewReader(file))
	url := h.Plain("m.gguf", bytes.NewReader(file))
	for stage, ref := range map[testhub.Stage]remote.Reference{testhub.Files: hubRef("org/model", "m.gguf"), testhub.Plain: {Kind: remote.URL, URL: url}} {
		m, err := client(t, h).OpenModel(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if n, _ := h.Count(stage); n > 4 {
			t.Errorf("%s: %d range requests, at most 4 are allowed", stage, n)
		}
	}
}
