package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

// tinyFile is the file whose digests llama-gguf-hash computed for testdata/tiny.manifest: tensors with and
// without padding behind them, an empty one, and one larger than a piece. Its data are the low bytes of n·(n>>8)+n.
func tinyFile(t testing.TB) []byte {
	t.Helper()
	m := &Metadata{}
	m.Put("general.architecture", StringValue("llama"))
	l, err := NewLayout(m, []TensorInfo{
		{Name: "token_embd.weight", Type: F32, Shape: []int64{3, 5}},
		{Name: "blk.0.attn_norm.weight", Type: F32, Shape: []int64{8}},
		{Name: "empty", Type: F16, Shape: []int64{0}},
		{Name: "blk.0.ffn_up.weight", Type: I8, Shape: []int64{1000, 2500}},
		{Name: "a:colon", Type: Q8_0, Shape: []int64{32}},
	}, GGML, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := append(l.Header, make([]byte, l.Size-l.DataStart)...)
	for _, info := range l.Tensors {
		n, _ := info.Size()
		data := file[l.DataStart+info.Offset:][:n]
		for i := range data {
			data[i] = byte(i*(i>>8) + i)
		}
	}
	return file
}

func openFiles(t testing.TB, name string, f files) *Model {
	t.Helper()
	m, err := OpenModel(name, f.open)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHashReference(t *testing.T) {
	want, err := os.ReadFile("testdata/tiny.manifest")
	if err != nil {
		t.Fatal(err)
	}
	file := tinyFile(t)
	var read int64
	h, err := HashModel(context.Background(), openFiles(t, "tiny.gguf", files{"tiny.gguf": file}), HashOptions{
		Algorithms: []Algorithm{XXH64, SHA1, SHA256},
		Progress:   func(n int64) { read += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := h.Manifest(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
	sum := sha256.Sum256(file)
	if h.Files[0].File != hex.EncodeToString(sum[:]) {
		t.Errorf("file digest %s, want %x", h.Files[0].File, sum)
	}
	if read != int64(len(file)) {
		t.Errorf("%d bytes read, the file has %d", read, len(file))
	}
}

func TestHashOptions(t *testing.T) {
	m := openFiles(t, "tiny.gguf", files{"tiny.gguf": tinyFile(t)})
	full, err := HashModel(context.Background(), m, HashOptions{})
	if err != nil {
		t.Fatal(err)
	}
	less, err := HashModel(context.Background(), m, HashOptions{NoTensors: true, NoFile: true})
	if err != nil {
		t.Fatal(err)
	}
	want := &Hashes{Files: []FileHashes{{Name: "tiny.gguf", Payload: full.Files[0].Payload}}}
	if diff := cmp.Diff(want, less); diff != "" || full.Files[0].Payload[0].Algorithm != SHA256 {
		t.Error(diff)
	}
}

func TestHashFails(t *testing.T) {
	file := tinyFile(t)
	for _, c := range []struct {
		name  string
		model func() *Model
		error string
	}{
		{"missing data", func() *Model { return openFiles(t, "m.gguf", files{"m.gguf": file[:len(file)-100]}) }, `data of tensor "blk.0.ffn_up.weight"`},
		{"unknown type", func() *Model {
			return openFiles(t, "m.gguf", files{"m.gguf": head(1, 0).tensor("a", 99, 0, 8).zeros(99).Bytes()})
		}, "type 99, whose size is not known"},
		{"broken while reading", func() *Model {
			m := openFiles(t, "m.gguf", files{"m.gguf": file})
			m.Shards[0].Data = failingReader{file[:len(file)/2], fault.New(fault.Network, "connection lost")}
			return m
		}, "connection lost"},
		{"shorter than stated", func() *Model {
			m := openFiles(t, "m.gguf", files{"m.gguf": file})
			m.Shards[0].Data = failingReader{file[:len(file)/2], io.EOF}
			return m
		}, "ended at byte"},
	} {
		h, err := HashModel(context.Background(), c.model(), HashOptions{})
		if err == nil || h != nil || !strings.Contains(err.Error(), c.error) || !strings.HasPrefix(err.Error(), "m.gguf: ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := HashModel(ctx, openFiles(t, "m.gguf", files{"m.gguf": file}), HashOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestHashMemory hashes 64 MiB through the two pieces.
func TestHashMemory(t *testing.T) {
	l, err := NewLayout(&Metadata{}, []TensorInfo{{Name: "a", Type: F32, Shape: []int64{16 << 20}}}, GGML, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenModel("m.gguf", func(string) (io.ReaderAt, int64, error) { return &sparseFile{l.Header, l.Size}, l.Size, nil })
	if err != nil {
		t.Fatal(err)
	}
	got := allocated(func() {
		if _, err := HashModel(context.Background(), m, HashOptions{Algorithms: []Algorithm{XXH64}, NoFile: true}); err != nil {
			t.Error(err)
		}
	})
	if got > 2*hashPiece+1<<20 {
		t.Errorf("%d bytes allocated", got)
	}
}

func TestManifestCheck(t *testing.T) {
	good, err := os.ReadFile("testdata/tiny.manifest")
	if err != nil {
		t.Fatal(err)
	}
	file := tinyFile(t)
	m := openFiles(t, "dir/tiny.gguf", files{"dir/tiny.gguf": file})
	changed := bytes.Clone(file)
	changed[m.Tensors[3].At+77] ^= 1

	lines := func(keep func(string) bool) string {
		var b strings.Builder
		for line := range strings.Lines(string(good)) {
			if keep(line) {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	only := func(a Algorithm) string { return lines(func(s string) bool { return strings.HasPrefix(s, string(a)) }) }
	without := func(part string) string { return lines(func(s string) bool { return !strings.Contains(s, part) }) }
	all := string(good)
	renamed := func(to string) string { return strings.ReplaceAll(all, "  tiny.gguf", "  "+to) }
	zero := strings.Repeat("0", 64)
	upper := regexp.MustCompile("[0-9a-f]{16,}").ReplaceAllStringFunc(all, strings.ToUpper)

	for _, c := range []struct {
		name      string
		manifest  string
		file      []byte
		algorithm Algorithm
		error     string // "" for none
	}{
		{"all", all, file, SHA256, ""},
		{"sha1 only", only(SHA1), file, SHA1, ""},
		{"xxh64 only", only(XXH64), file, XXH64, ""},
		{"windows line ends", strings.ReplaceAll(all, "\n", "\r\n"), file, SHA256, ""},
		{"upper case digests", upper, file, SHA256, ""},
		{"other folder", renamed(`C:\models\tiny.gguf`), file, SHA256, ""},
		{"other name", renamed("other.gguf"), file, SHA256, ""},
		{"with other lines", "# a comment\nmanifest  x\nuuid      1-2  tiny.gguf\n\n" + all, file, SHA256, ""},
		{"two files", renamed("dir/tiny.gguf") + strings.ReplaceAll(renamed("b.gguf"), "a", "b"), file, SHA256, ""},
		{"two files, neither is this", renamed("b.gguf") + renamed("c.gguf"), file, SHA256, "not found"},
		{"payload only, without tensors", lines(func(s string) bool { return !strings.Contains(s, ":") }), file, SHA256, "token_embd.weight (not found)"},
		{"tensors only", strings.ReplaceAll(without("  tiny.gguf\n"), "  tiny", "  dir/tiny"), file, SHA256, "payload of dir/tiny.gguf (not found)"},
		{"changed", all, changed, SHA256, "does not match: blk.0.ffn_up.weight (mismatch)"},
		{"changed, xxh64", only(XXH64), changed, XXH64, "does not match: blk.0.ffn_up.weight (mismatch)"},
		{"tensor not listed", without("a:colon"), file, SHA256, "a:colon (not found)"},
		{"tensor not in the file", "sha256    " + zero + "  tiny.gguf:more\n" + all, file, SHA256, "more (not in the file)"},
	} {
		man, err := ReadManifest(strings.NewReader(c.manifest))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := man.Algorithm(); got != c.algorithm {
			t.Errorf("%s: algorithm %s", c.name, got)
		}
		h, err := HashModel(context.Background(), openFiles(t, "dir/tiny.gguf", files{"dir/tiny.gguf": c.file}), HashOptions{Algorithms: []Algorithm{man.Algorithm()}})
		if err != nil {
			t.Fatal(err)
		}
		checks, err := man.Check(h)
		if c.error == "" {
			if err != nil || len(checks) != 6 {
				t.Errorf("%s: %d checks, %v", c.name, len(checks), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.error) || fault.KindOf(err) != fault.Verification {
			t.Errorf("%s: error %v, want %q", c.name, err, c.error)
		}
	}
}

func TestCheckString(t *testing.T) {
	got := fmt.Sprint(Check{Algorithm: SHA1, File: "m.gguf", Tensor: "t", State: Differs, Want: "00", Got: "11"})
	if want := "sha1      11  m.gguf:t  -  Mismatch"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadManifestRefuses(t *testing.T) {
	for _, c := range []struct{ manifest, error string }{
		{"", "no digest of a known kind"},
		{"uuid      1234  m.gguf\n", "no digest of a known kind"},
		{"sha256    12zz  m.gguf\n", "line 1"},
		{"sha1      " + strings.Repeat("0", 40) + "\n", "line 1"},
		{"xxh64     0123456789abcdef m.gguf\n", "line 1"},
		{"xxh64     0123456789abcdef  m.gguf\nxxh64     0000456789abcdef  m.gguf\n", "line 2 of the manifest gives another digest"},
	} {
		_, err := ReadManifest(strings.NewReader(c.manifest))
		if err == nil || !strings.Contains(err.Error(), c.error) || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%q: %v", c.manifest, err)
		}
	}
}

// TestHashSplit hashes a split model part by part.
func TestHashSplit(t *testing.T) {
	f := files{"m-00001-of-00002.gguf": part(t, 0, 2, 2, "a"), "m-00002-of-00002.gguf": part(t, 1, 2, 2, "b")}
	m := openFiles(t, "m-00001-of-00002.gguf", f)
	h, err := HashModel(context.Background(), m, HashOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var manifest bytes.Buffer
	if err := h.Manifest(&manifest); err != nil {
		t.Fatal(err)
	}
	man, err := ReadManifest(&manifest)
	if err != nil {
		t.Fatal(err)
	}
	if checks, err := man.Check(h); err != nil || len(checks) != 4 {
		t.Errorf("%v, %v", checks, err)
	}
	h.Files[1].Tensors[0].Digests[0].Hex = strings.Repeat("0", 64)
	if _, err := man.Check(h); err == nil || !strings.Contains(err.Error(), "b (mismatch)") {
		t.Error(err)
	}
}

func BenchmarkHashModel(b *testing.B) {
	l, err := NewLayout(&Metadata{}, []TensorInfo{{Name: "a", Type: F32, Shape: []int64{32 << 20}}}, GGML, 0)
	if err != nil {
		b.Fatal(err)
	}
	m, err := OpenModel("m.gguf", func(string) (io.ReaderAt, int64, error) { return &sparseFile{l.Header, l.Size}, l.Size, nil })
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(l.Size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := HashModel(context.Background(), m, HashOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
