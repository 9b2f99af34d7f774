package gguf

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

// files opens names out of a map.
type files map[string][]byte

func (f files) open(name string) (io.ReaderAt, int64, error) {
	b, ok := f[name]
	if !ok {
		return nil, 0, fault.New(fault.BadInput, "%s: %w", name, fs.ErrNotExist)
	}
	return bytes.NewReader(b), int64(len(b)), nil
}

func TestShardNames(t *testing.T) {
	for _, c := range []struct {
		name        string
		prefix      string
		part, count int
		ok          bool
	}{
		{"dir/m-00001-of-00003.gguf", "dir/m", 1, 3, true},
		{"org/repo:q/m-q4-00003-of-00003.gguf", "org/repo:q/m-q4", 3, 3, true},
		{`C:\m-00002-of-65535.gguf`, `C:\m`, 2, 65535, true},
		{"-00001-of-00001.gguf", "", 1, 1, true},
		{"a-00001-of-00002.gguf-00001-of-00002.gguf", "a-00001-of-00002.gguf", 1, 2, true},
		{"m-00004-of-00003.gguf", "m", 4, 3, false},
		{"m-00000-of-00003.gguf", "m", 0, 3, false},
		{"m-1-of-3.gguf", "", 0, 0, false},
		{"m-000001-of-000003.gguf", "", 0, 0, false},
		{"m-00001-of-00003.safetensors", "", 0, 0, false},
		{"m.gguf", "", 0, 0, false},
	} {
		prefix, part, count, ok := ParseShardName(c.name)
		if prefix != c.prefix || part != c.part || count != c.count || ok != c.ok {
			t.Errorf("%s: %q %d %d %v", c.name, prefix, part, count, ok)
		}
		if ok && ShardName(prefix, part, count) != c.name {
			t.Errorf("%s became %s", c.name, ShardName(prefix, part, count))
		}
	}
}

// TestOpenModelReference reads what llama-gguf-split wrote, whose first part has no tensors.
func TestOpenModelReference(t *testing.T) {
	f := files{}
	sizes := []int64{6336, 198016, 99232, 65792}
	for part := 1; part <= 4; part++ {
		f[ShardName("yarn", part, 4)] = testHeader(t, "ggml-"+ShardName("yarn", part, 4))
	}
	opened := 0
	m, err := OpenModel("yarn-00001-of-00004.gguf", func(name string) (io.ReaderAt, int64, error) {
		size := sizes[opened]
		opened++
		return &sparseFile{f[name], size}, size, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Shards) != 4 || len(m.Tensors) != 12 || m.Metadata.Architecture() != "llama" || m.CheckData() != nil {
		t.Errorf("%d shards, %d tensors, %v", len(m.Shards), len(m.Tensors), m.CheckData())
	}
	for _, x := range m.Tensors {
		if got, ok := m.Find(x.Name); !ok || !cmp.Equal(got, x) || x.At != m.Shards[x.Shard].Header.DataStart+x.Offset {
			t.Errorf("%+v", x)
		}
	}
	if _, ok := m.Find("no such tensor"); ok {
		t.Error("found")
	}
	// The headers alone are a model with missing data.
	m, err = OpenModel("yarn-00001-of-00004.gguf", f.open)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckData(); err == nil || !strings.HasPrefix(err.Error(), "yarn-00002-of-00004.gguf: data of tensor") || fault.KindOf(err) != fault.BadInput {
		t.Errorf("error: %v", err)
	}
}

// part builds a shard; a negative number leaves the key out.
func part(t *testing.T, no, count, total int, tensors ...string) []byte {
	t.Helper()
	m := &Metadata{}
	if no >= 0 {
		m.Put(splitNo, Uint16Value(uint16(no)))
	}
	if count >= 0 {
		m.Put(splitCount, Uint16Value(uint16(count)))
	}
	if total >= 0 {
		m.Put(splitTensors, Int32Value(int32(total)))
	}
	var list []TensorInfo
	for _, name := range tensors {
		list = append(list, TensorInfo{Name: name, Type: F32, Shape: []int64{1}})
	}
	l, err := NewLayout(m, list, GGML, 0)
	if err != nil {
		t.Fatal(err)
	}
	return append(l.Header, make([]byte, l.Size-l.DataStart)...)
}

func TestOpenModelRules(t *testing.T) {
	const first, second = "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"
	one := part(t, 0, 2, 3, "a", "b")
	two := part(t, 1, 2, 3, "c")
	wrongType := func() []byte {
		m := &Metadata{}
		m.Put(splitCount, StringValue("2"))
		l, err := NewLayout(m, nil, GGML, 0)
		if err != nil {
			t.Fatal(err)
		}
		return l.Header
	}
	for _, c := range []struct {
		name  string
		give  string
		files files
		error string // "" for none
		hint  string
	}{
		{"whole", first, files{first: one, second: two}, "", ""},
		{"single", "m.gguf", files{"m.gguf": part(t, -1, -1, -1, "a")}, "", ""},
		{"single of a count of 1", "m.gguf", files{"m.gguf": part(t, 0, 1, 1, "a")}, "", ""},
		{"1 of 1 without keys", "m-00001-of-00001.gguf", files{"m-00001-of-00001.gguf": part(t, -1, -1, -1, "a")}, "", ""},
		{"second part", second, files{first: one, second: two}, second + ": it is part 2 of a split model", "give " + first},
		{"second part named first", first, files{first: two}, "it is part 2 of a split model", "give " + first},
		{"first part named second", second, files{second: one}, "it is part 2 of a split model", "give " + first},
		{"not named like a part", "m.gguf", files{"m.gguf": one}, "m.gguf: it is part 1 of 2", "NAME-00001-of-00002.gguf"},
		{"named like a part", first, files{first: part(t, -1, -1, -1, "a")}, "its name says part 1 of 2", "rename it"},
		{"count against name", "m-00001-of-00003.gguf", files{"m-00001-of-00003.gguf": one}, "split.count is 2, but its name says part 1 of 3", ""},
		{"missing part", first, files{first: one}, second + ": file does not exist", ""},
		{"other count", first, files{first: one, second: part(t, 1, 3, 3, "c")}, second + ": split.count is 3", ""},
		{"count missing", first, files{first: one, second: part(t, 1, -1, 3, "c")}, second + ": split.count is 0", ""},
		{"other number", first, files{first: one, second: part(t, 0, 2, 3, "c")}, second + ": split.no is 0, it must be 1", ""},
		{"number missing", first, files{first: one, second: part(t, -1, 2, 3, "c")}, second + ": split.no is -1", ""},
		{"duplicate", first, files{first: one, second: part(t, 1, 2, 3, "b")}, second + `: tensor "b" is also in ` + first, ""},
		{"total too high", first, files{first: part(t, 0, 2, 4, "a", "b"), second: two}, "split.tensors.count is 4, but its 2 parts hold 3", ""},
		{"total missing", first, files{first: part(t, 0, 2, -1, "a", "b"), second: two}, "split.tensors.count is missing", ""},
		{"part is no GGUF", first, files{first: one, second: []byte("<html>")}, second + ": the file is an HTML page", "/resolve/"},
		{"count is a string", first, files{first: wrongType()}, `split.count is "2"`, ""},
	} {
		m, err := OpenModel(c.give, c.files.open)
		if c.error == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || m != nil || !strings.Contains(err.Error(), c.error) || !strings.Contains(fault.HintOf(err), c.hint) {
			t.Errorf("%s: error %v, hint %q, want %q, %q", c.name, err, fault.HintOf(err), c.error, c.hint)
		}
		if err != nil && fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: kind %d", c.name, fault.KindOf(err))
		}
	}
	broken := fault.New(fault.Network, "no route")
	if _, err := OpenModel("m.gguf", func(string) (io.ReaderAt, int64, error) { return nil, 0, fmt.Errorf("m.gguf: %w", broken) }); fault.KindOf(err) != fault.Network {
		t.Errorf("error %v of kind %d", err, fault.KindOf(err))
	}
}
