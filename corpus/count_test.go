package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// byteCounter counts bytes, and texts as id 256, so that the borders between texts show.
type byteCounter []uint64

// byteVocabulary makes byteCounters.
type byteVocabulary struct{}

func (byteVocabulary) size() int        { return 257 }
func (byteVocabulary) counter() counter { return make(byteCounter, 257) }

// together gives every counter a part of the text and counts it as one.
func (byteVocabulary) together(r io.Reader, list []counter) error {
	part := make([]byte, 100)
	for i := 0; ; i++ {
		n, err := r.Read(part)
		for _, v := range part[:n] {
			list[i%len(list)].(byteCounter)[v]++
		}
		if err == io.EOF {
			list[0].(byteCounter)[256]++
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (c byteCounter) Counts() []uint64 { return c }

func (c byteCounter) Text(r io.Reader) error {
	c[256]++
	b := make([]byte, 1000)
	for {
		n, err := r.Read(b)
		for _, v := range b[:n] {
			c[v]++
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func bytesOf(texts ...string) Counts {
	c := byteVocabulary{}.counter()
	for _, s := range texts {
		_ = c.Text(strings.NewReader(s)) // a string has no errors
	}
	return c.Counts()
}

func count(t *testing.T, threads int, inputs ...Input) (*Counted, error) {
	t.Helper()
	return countInputs(t.Context(), byteVocabulary{}, inputs, CountOptions{Threads: threads})
}

// write stores a file and returns it as an input.
func write(t *testing.T, dir, name string, data []byte) Input {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return Input{Name: path, Open: func(context.Context) (remote.Source, error) { return remote.OpenFile(path) }}
}

func gzipped(t *testing.T, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts { // every part a member of its own
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, p); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func zstandard(t *testing.T, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(z, p); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func jsonLines(t *testing.T, field string, texts ...string) string {
	t.Helper()
	var b strings.Builder
	for i, s := range texts {
		line, err := json.Marshal(map[string]any{"id": i, field: s, "meta": map[string]any{field: "other"}})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

type wikiRow struct {
	ID    string `parquet:"id"`
	Text  string `parquet:"text,zstd"`
	Title string `parquet:"title,snappy,dict"`
}

func parquetFile(t *testing.T, texts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[wikiRow](&b, parquet.PageBufferSize(2000), parquet.MaxRowsPerRowGroup(20))
	for i, s := range texts {
		if _, err := w.Write([]wikiRow{{fmt.Sprint(i), s, "title"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// someTexts are texts of many lengths, some empty, in several scripts.
func someTexts(n int) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Repeat([]string{"abc ", "день ", "日本\n", "é", "🙂\r\n"}[rng.IntN(5)], rng.IntN(400))
	}
	return list
}

func TestCountFormats(t *testing.T) {
	dir := t.TempDir()
	texts := someTexts(100)
	whole := strings.Join(texts, "")
	lines := jsonLines(t, "text", texts...)
	other := jsonLines(t, "content", texts...)
	for _, c := range []struct {
		name, file string
		data       []byte
		change     func(*Input)
		want       Counts
	}{
		{"plain", "a.txt", []byte(whole), nil, bytesOf(whole)},
		{"plain without extension", "a", []byte(whole), nil, bytesOf(whole)},
		{"empty", "empty.txt", nil, nil, bytesOf("")},
		{"short", "short", []byte("x"), nil, bytesOf("x")},
		{"gzip", "a.txt.gz", gzipped(t, whole), nil, bytesOf(whole)},
		{"gzip under another name", "a.txt", gzipped(t, whole), nil, bytesOf(whole)},
		{"gzip of two members", "a.gz", gzipped(t, whole, "more"), nil, bytesOf(whole + "more")},
		{"zstd", "a.txt.zst", zstandard(t, whole), nil, bytesOf(whole)},
		{"zstd of two frames after a skippable one", "a.zst", append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, zstandard(t, whole, "more")...), nil, bytesOf(whole + "more")},
		{"lines", "a.jsonl", []byte(lines), nil, bytesOf(texts...)},
		{"lines without the last end", "a.ndjson", []byte(strings.TrimSuffix(lines, "\n")), nil, bytesOf(texts...)},
		{"lines with blank ones and CRLF", "a.jsonl", []byte("\n" + strings.ReplaceAll(lines, "\n", "\r\n\r\n")), nil, bytesOf(texts...)},
		{"lines, gzip", "a.jsonl.gz", gzipped(t, lines), nil, bytesOf(texts...)},
		{"lines, zstd", "a.JSONL.zst", zstandard(t, lines), nil, bytesOf(texts...)},
		{"lines by format", "a.txt", []byte(lines), func(in *Input) { in.Format = FormatJSONL }, bytesOf(texts...)},
		{"lines as text", "a.jsonl", []byte(lines), func(in *Input) { in.Format = FormatText }, bytesOf(lines)},
		{"another field", "a.jsonl", []byte(other), func(in *Input) { in.Field = "content" }, bytesOf(texts...)},
		{"parquet", "a.parquet", parquetFile(t, texts...), nil, bytesOf(texts...)},
		{"parquet by content", "a", parquetFile(t, texts...), nil, bytesOf(texts...)},
		{"parquet, another column", "a.parquet", parquetFile(t, "x", "y"), func(in *Input) { in.Field = "title" }, bytesOf("title", "title")},
		{"parquet with a hash", "h.parquet", parquetFile(t, texts...), func(in *Input) { in.SHA256 = hexSHA256(parquetFile(t, texts...)) }, bytesOf(texts...)},
		{"any bytes", "latin1.txt", []byte("caf\xe9"), func(in *Input) { in.Any = true }, bytesOf("caf\xe9")},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := write(t, dir, c.file, c.data)
			if c.change != nil {
				c.change(&in)
			}
			got, err := count(t, 2, in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			f := got.Files[0]
			hash := hexSHA256(c.data)
			if in.format() == FormatParquet || c.name == "parquet by content" {
				hash = in.SHA256
			}
			if f.SHA256 != hash || f.Size != int64(len(c.data)) || uint64(f.Texts) != c.want[256] {
				t.Errorf("file %+v, want hash %s, %d bytes, %d texts", f, hash, len(c.data), c.want[256])
			}
		})
	}
}

// TestCountSums wants the same sums from any division into files, on any number of threads.
func TestCountSums(t *testing.T) {
	dir := t.TempDir()
	texts := someTexts(3000)
	want := bytesOf(texts...)
	var separate []Input
	for i, s := range texts[:200] {
		separate = append(separate, write(t, dir, fmt.Sprintf("%d.txt", i), []byte(s)))
	}
	separate = append(separate, write(t, dir, "rest.jsonl", []byte(jsonLines(t, "text", texts[200:1500]...))),
		write(t, dir, "rest.parquet", parquetFile(t, texts[1500:]...)))
	for _, inputs := range [][]Input{{write(t, dir, "all.jsonl", []byte(jsonLines(t, "text", texts...)))}, separate} {
		for _, threads := range []int{1, 2, 7} {
			got, err := count(t, threads, inputs...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Counts); diff != "" {
				t.Errorf("%d files, %d threads: (-want +got):\n%s", len(inputs), threads, diff)
			}
			if len(got.Files) != len(inputs) || got.Files[0].Name != inputs[0].Name {
				t.Errorf("files %v", got.Files)
			}
		}
	}
}

func TestCountReader(t *testing.T) {
	text := strings.Join(someTexts(50), "")
	for name, r := range map[string]io.Reader{
		"plain": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"data with the end": iotest.DataErrReader(strings.NewReader(text)), "zstd": bytes.NewReader(zstandard(t, text)),
	} {
		got, err := count(t, 1, Input{Name: "stdin", Reader: r})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(bytesOf(text), got.Counts); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCountErrors(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good.txt", []byte("good"))
	pq := parquetFile(t, someTexts(50)...)
	damaged := bytes.Clone(pq)
	for i := 20; i < 400; i++ {
		damaged[i] ^= 0x55
	}
	var nulls bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		Text *string `parquet:"text,optional"`
		N    int64   `parquet:"n"`
	}](&nulls)
	if _, err := w.Write([]struct {
		Text *string `parquet:"text,optional"`
		N    int64   `parquet:"n"`
	}{{nil, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		data       []byte
		change     func(*Input)
		want       string
		kind       fault.Kind
	}{
		{"invalid UTF-8", "a.txt", []byte("gut, d\xe4nn"), nil, "byte 6 is not valid UTF-8", fault.BadInput},
		{"invalid UTF-8 in gzip", "a.txt.gz", gzipped(t, "\xff"), nil, "byte 0 is not valid UTF-8", fault.BadInput},
		{"cut code point", "a.txt", []byte("день"[:7]), nil, "byte 6 is not valid UTF-8", fault.BadInput},
		{"invalid UTF-8 in a line", "a.jsonl", []byte("{\"text\":\"a\"}\n{\"text\":\"\xe4\"}\n"), nil, "line 2: it is not valid UTF-8", fault.BadInput},
		{"invalid UTF-8 in a row", "a.parquet", parquetFile(t, "a", "\xe4"), nil, "row 2: it is not valid UTF-8", fault.BadInput},
		{"cut gzip", "a.gz", gzipped(t, strings.Repeat("text", 1000))[:30], nil, "unexpected EOF", fault.BadInput},
		{"gzip and more", "a.gz", append(gzipped(t, "text"), "more"...), nil, "a.gz: ", fault.BadInput},
		{"cut zstd", "a.zst", zstandard(t, strings.Repeat("text", 1000))[:12], nil, "unexpected EOF", fault.BadInput},
		{"zstd of a huge window", "a.zst", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0, 0, 0, 0, 0, 0}, nil, "a.zst: ", fault.BadInput},
		{"no JSON", "a.jsonl", []byte("{\"text\":\"a\"}\ntext\n"), nil, "line 2: it is no JSON", fault.BadInput},
		{"JSON of another kind", "a.jsonl", []byte("[]\n"), nil, `line 1: there is no object with a field "text"`, fault.BadInput},
		{"no field", "a.jsonl", []byte("\n{\"txt\":\"a\"}\n"), nil, `line 2: there is no object with a field "text"`, fault.BadInput},
		{"field of another kind", "a.jsonl", []byte("{\"text\":5}\n"), nil, `the field "text" is no string`, fault.BadInput},
		{"null", "a.jsonl", []byte("{\"text\":null}\n"), nil, `the field "text" is no string`, fault.BadInput},
		{"long line", "a.jsonl", bytes.Repeat([]byte("x"), maxRecord+1), nil, "line 1: it is longer than", fault.BadInput},
		{"no column", "a.parquet", pq, func(in *Input) { in.Field = "content" }, `there is no column "content"`, fault.BadInput},
		{"column of numbers", "a.parquet", nulls.Bytes(), func(in *Input) { in.Field = "n" }, "holds no texts", fault.BadInput},
		{"row without text", "a.parquet", nulls.Bytes(), nil, "row 1 has no text", fault.BadInput},
		{"cut parquet", "a.parquet", pq[:len(pq)/2], nil, "Parquet", fault.BadInput},
		{"no parquet", "a.parquet", []byte("text"), nil, "Parquet", fault.BadInput},
		{"damaged parquet", "a.parquet", damaged, nil, "Parquet", fault.BadInput},
		{"another hash", "a.txt", []byte("text"), func(in *Input) { in.SHA256 = hexSHA256(nil) }, "expected is e3b0", fault.Verification},
		{"another hash of parquet", "a.parquet", pq, func(in *Input) { in.SHA256 = hexSHA256(nil) }, "expected is e3b0", fault.Verification},
		{"no file", "a.txt", nil, func(in *Input) {
			in.Open = func(context.Context) (remote.Source, error) { return remote.OpenFile(filepath.Join(dir, "none")) }
		}, "none", fault.BadInput},
		{"parquet from a pipe", "a.parquet", nil, func(in *Input) { in.Reader = bytes.NewReader(pq) }, "can't be read from a pipe", fault.BadInput},
		{"a pipe that breaks", "a.txt", nil, func(in *Input) { in.Reader = iotest.ErrReader(errors.New("it broke")) }, "it broke", fault.BadInput},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && len(c.data) > maxRecord {
				t.Skip("it is large")
			}
			in := write(t, dir, c.file, c.data)
			if c.change != nil {
				c.change(&in)
			}
			got, err := count(t, 2, good, in, good)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != c.kind || got != nil {
				t.Errorf("got %v, %v, want kind %d with %q", got, err, c.kind, c.want)
			}
		})
	}
}

func TestCountCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := countInputs(ctx, byteVocabulary{}, []Input{write(t, t.TempDir(), "a.txt", []byte("text"))}, CountOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBatches wants bounded batches, of small records and of large ones.
func TestBatches(t *testing.T) {
	jobs := make(chan func(*worker) error, 1000)
	b := &batch{ctx: t.Context(), in: &Input{}, jobs: jobs}
	for range 3 * batchRecords {
		if err := b.add(record{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(jobs) != 3 {
		t.Errorf("empty records made %d batches, want 3", len(jobs))
	}
	if err := b.add(record{data: make([]byte, batchSize)}); err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 4 {
		t.Errorf("%d batches, want 4", len(jobs))
	}
}

func FuzzUTF8Reader(f *testing.F) {
	f.Add([]byte("день"), byte(1))
	f.Add([]byte("a\xe4\xb8"), byte(2))
	f.Add([]byte("\xf0\x9f\x99\x82\xed\xa0\x80"), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, step byte) {
		u := (&Input{Name: "x"}).checked(io.Reader(&steps{data, int(step%7) + 1}))
		got, err := io.ReadAll(u)
		valid := utf8.Valid(data)
		if valid != (err == nil) {
			t.Fatalf("%q: %v", data, err)
		}
		if err == nil && !bytes.Equal(got, data) {
			t.Fatalf("%q became %q", data, got)
		}
		if err != nil {
			at := 0
			for i, r := range string(data) {
				if r == 0xfffd && !bytes.HasPrefix(data[i:], []byte("\ufffd")) {
					at = i
					break
				}
			}
			if want := fmt.Sprintf("byte %d is", at); !strings.Contains(err.Error(), want) {
				t.Fatalf("%q: %v, want %s", data, err, want)
			}
		}
	})
}

// steps gives n bytes a time.
type steps struct {
	data []byte
	n    int
}

func (s *steps) Read(p []byte) (int, error) {
	n := copy(p[:min(s.n, len(p))], s.data)
	s.data = s.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestCountsFile(t *testing.T) {
	c := Counts{0, 1, 1 << 40, 0}
	var b bytes.Buffer
	n, err := c.WriteTo(&b)
	want := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err != nil || n != 32 || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d, %v, % x", n, err, b.Bytes())
	}
	got, err := ReadCounts(bytes.NewReader(want), 4)
	if diff := cmp.Diff(c, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	b.Reset()
	if err := c.WriteJSON(&b); err != nil || b.String() != `{"1":1,"2":1099511627776}`+"\n" {
		t.Error(b.String(), err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"short":    {want[:31], "ends after 3 entries"},
		"long":     {append(bytes.Clone(want), 0), "more than the 4 entries"},
		"no count": {bytes.Repeat([]byte("text"), 8), "no count vector"},
	} {
		if _, err := ReadCounts(bytes.NewReader(c.data), 4); err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWindow(t *testing.T) {
	data := make([]byte, windowSize+windowSize/2)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	src := write(t, t.TempDir(), "a", data)
	s, err := src.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer remote.CloseSource(s)
	if err := iotest.TestReader(io.NewSectionReader(newWindow(remote.ReaderAt(t.Context(), s), s), 0, s.Size()), data); err != nil {
		t.Error(err)
	}
}

// FuzzFieldOf compares with the standard library.
func FuzzFieldOf(f *testing.F) {
	for _, s := range []string{`{"text":"a"}`, ` {"a":{"text":1},"te\u0078t":["}",{}] , "b":null}`, `["text"]`, `{}`, `{"text":1,"text":"\"\\"}`, `{"":"text"}`, `"text"`, `{"a":"text","b":[],"text":{}}`} {
		f.Add([]byte(s), "text")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if !json.Valid(data) || !utf8.Valid(data) || !utf8.ValidString(name) {
			return
		}
		var object map[string]json.RawMessage
		_ = json.Unmarshal(data, &object) // other kinds of values leave it empty
		want, ok := object[name]
		got, found := fieldOf(data, name)
		if found != ok || string(got) != string(want) {
			t.Fatalf("%q in %s: %q, %v, want %q, %v", name, data, got, found, want, ok)
		}
	})
}
