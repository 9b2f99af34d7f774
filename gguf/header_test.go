package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

func read(file []byte) (*Header, error) {
	return ReadHeader(bytes.NewReader(file), int64(len(file)))
}

func mustRead(t testing.TB, file []byte) *Header {
	t.Helper()
	h, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestReadHeaderRefuses(t *testing.T) {
	for _, f := range headerFaults() {
		t.Run(f.name, func(t *testing.T) {
			h, err := read(f.file)
			if err == nil || h != nil {
				t.Fatalf("accepted: %v, %v", h, err)
			}
			if !strings.Contains(err.Error(), f.error) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want %q in it", err, f.error)
			}
			if hint := fault.HintOf(err); !strings.Contains(hint, f.hint) {
				t.Errorf("hint %q, want %q in it", hint, f.hint)
			}
			if kind := fault.KindOf(err); kind != fault.BadInput {
				t.Errorf("kind %d, want bad input", kind)
			}
		})
	}
}

// TestReadHeaderCut cuts real headers at every byte: each cut is an error, none a panic.
func TestReadHeaderCut(t *testing.T) {
	for _, name := range []string{"ggml-yarn-00001-of-00004.gguf", "ggufpy-bailingmoe3-mtp.gguf"} {
		file := testHeader(t, name)
		whole := mustRead(t, file)
		end := headerEnd(t, file)
		step := 1
		if testing.Short() {
			step = 13
		}
		for n := 0; n < end; n += step {
			if h, err := read(file[:n]); err == nil || h != nil {
				t.Fatalf("%s: accepted %d of %d bytes", name, n, end)
			}
		}
		// Without its padding the header is complete, though data is missing.
		h := mustRead(t, file[:end])
		if h.DataStart != whole.DataStart || len(h.Tensors) > 0 && h.CheckData() == nil {
			t.Errorf("%s: header without padding starts data at %d, want %d; data check: %v", name, h.DataStart, whole.DataStart, h.CheckData())
		}
	}
}

// headerEnd finds the end of the tensor table: the header with padding removed that lays out again.
func headerEnd(t *testing.T, file []byte) int {
	t.Helper()
	p := &parser{src: bytes.NewReader(file), size: int64(len(file)), piece: firstPiece}
	if _, err := p.header(); err != nil {
		t.Fatal(err)
	}
	return int(p.offset())
}

func testHeader(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/headers/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReadHeader(t *testing.T) {
	r := head(3, 4)
	r.str("general.architecture").u32(uint32(String)).str("llama")
	r.kvU32(alignmentKey, 64)
	r.str("list").u32(uint32(Array)).u32(uint32(String)).u64(2).str("").str("b\x00c")
	r.str("flag").u32(uint32(Bool)).put([]byte{7})
	r.tensor("a", F32, 0, 3, 5).tensor("empty", Q4_K, 64, 0, 7).tensor("b", Q8_0, 64, 32, 1, 2, 1)
	r.pad(64).zeros(64 + 68)
	for _, version := range []byte{2, 3} {
		file := bytes.Clone(r.Bytes())
		file[4] = version
		h := mustRead(t, file)
		if h.Version != uint32(version) || h.Alignment != 64 || h.DataStart%64 != 0 || h.Size != int64(len(file)) || h.Missing != 0 {
			t.Errorf("header: %+v", h)
		}
		want := []TensorInfo{
			{"a", F32, []int64{3, 5}, 0},
			{"empty", Q4_K, []int64{0, 7}, 64},
			{"b", Q8_0, []int64{32, 1, 2, 1}, 64},
		}
		if diff := cmp.Diff(want, h.Tensors); diff != "" {
			t.Error(diff)
		}
		list, _ := h.Metadata.Get("list")
		var got []string
		for _, s := range list.Strings() {
			got = append(got, s)
		}
		if diff := cmp.Diff([]string{"", "b\x00c"}, got); diff != "" {
			t.Error(diff)
		}
		if h.Metadata.Architecture() != "llama" || h.Metadata.Len() != 4 {
			t.Errorf("metadata: %v", h.Metadata)
		}
		if flag, _ := h.Metadata.Get("flag"); flag.Raw[0] != 7 || flag.Format() != "true" {
			t.Errorf("flag: %v", flag)
		}
		if err := h.CheckData(); err != nil {
			t.Errorf("padding after the last tensor should not be needed: %v", err)
		}
		if h.PaddedSize() != h.DataStart+64+128 {
			t.Errorf("padded size: %d", h.PaddedSize())
		}
	}
}

func TestMissingData(t *testing.T) {
	r := head(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 32, 9).pad(32)
	start := r.Len()
	for _, c := range []struct {
		data    int
		missing int64
		error   string
	}{
		{0, 68, `tensor "a"`}, {31, 37, `tensor "a"`}, {32, 36, `tensor "b"`}, {67, 1, `tensor "b"`}, {68, 0, ""}, {96, 0, ""}, {500, 0, ""},
	} {
		h := mustRead(t, append(bytes.Clone(r.Bytes()[:start]), make([]byte, c.data)...))
		if h.Missing != c.missing {
			t.Errorf("%d bytes of data: %d missing, want %d", c.data, h.Missing, c.missing)
		}
		err := h.CheckData()
		if c.error == "" && err != nil || c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error) || fault.HintOf(err) == "") {
			t.Errorf("%d bytes of data: error %v, want %q", c.data, err, c.error)
		}
	}
}

func TestUnknownTypes(t *testing.T) {
	file := head(4, 0).tensor("a", F32, 0, 8).tensor("new", 99, 32, 7, 3).tensor("removed", 4, 96, 32).tensor("b", F32, 160, 8).pad(32).zeros(160 + 32).Bytes()
	h := mustRead(t, file)
	if h.Missing != 0 || h.CheckData() != nil || h.Tensors[1].Type.String() != "type 99" || h.Tensors[2].Type.String() != "type 4" {
		t.Errorf("%+v", h)
	}
	if _, ok := h.Tensors[1].Size(); ok {
		t.Error("the size of an unknown type is known")
	}
	if h := mustRead(t, file[:len(file)-1]); h.Missing != 1 {
		t.Errorf("missing: %d", h.Missing)
	}
}

// countingReader counts reads and the bytes they ask for, and fails a read beyond size.
type countingReader struct {
	t     *testing.T
	file  io.ReaderAt
	size  int64
	reads []int
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > c.size {
		c.t.Errorf("read of %d bytes at %d, the file has %d", len(p), off, c.size)
	}
	c.reads = append(c.reads, len(p))
	return c.file.ReadAt(p, off)
}

func TestReads(t *testing.T) {
	vocabulary := vocabularyHeader(t, 250_000)
	for _, c := range []struct {
		name string
		file []byte
		size int64 // with a hole for data
		want []int
	}{
		{"small", testHeader(t, "ggml-yarn-00001-of-00004.gguf"), 0, []int{6336}},
		{"vocabulary, header only", vocabulary, 0, []int{1 << 20, 4 << 20, len(vocabulary) - 5<<20}},
		{"vocabulary, with data", vocabulary, 8 << 30, []int{1 << 20, 4 << 20, 16 << 20}},
	} {
		r := &countingReader{t: t, file: &sparseFile{c.file, max(c.size, int64(len(c.file)))}, size: max(c.size, int64(len(c.file)))}
		if _, err := ReadHeader(r, r.size); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, r.reads); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestPieces parses the same header with the first piece cut at every size, so that every field crosses a border.
func TestPieces(t *testing.T) {
	file := testHeader(t, "ggufpy-granitehybrid-moe.gguf")
	want := mustRead(t, file)
	for piece := int64(1); piece < 200; piece++ {
		p := &parser{src: bytes.NewReader(file), size: int64(len(file)), piece: piece}
		got, err := p.header()
		if err != nil {
			t.Fatalf("pieces of %d: %v", piece, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Metadata{})); diff != "" {
			t.Fatalf("pieces of %d: %s", piece, diff)
		}
	}
}

// sparseFile is data followed by zeros up to size.
type sparseFile struct {
	data []byte
	size int64
}

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.size-off))
	clear(p[:n])
	if off < int64(len(f.data)) {
		copy(p[:n], f.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TestLargeFile uses offsets and sizes beyond 32 bits, which a 32-bit int must not cut.
func TestLargeFile(t *testing.T) {
	tensors := []TensorInfo{
		{Name: "a", Type: BF16, Shape: []int64{4096, 1 << 20}},  // 8 GiB
		{Name: "b", Type: Q4_K, Shape: []int64{256, 100 << 20}}, // 14 GiB
		{Name: "c", Type: F32, Shape: []int64{3}},
	}
	l, err := NewLayout(&Metadata{}, tensors, GGML, 0)
	if err != nil {
		t.Fatal(err)
	}
	const a, b = 8 << 30, 144 * 100 << 20
	if want := int64(l.DataStart) + a + b + 32; l.Size != want {
		t.Errorf("size %d, want %d", l.Size, want)
	}
	h, err := ReadHeader(&sparseFile{l.Header, l.Size}, l.Size)
	if err != nil {
		t.Fatal(err)
	}
	if h.Tensors[2].Offset != a+b || h.Missing != 0 {
		t.Errorf("offset %d, missing %d", h.Tensors[2].Offset, h.Missing)
	}
	h, err = ReadHeader(&sparseFile{l.Header, l.Size}, 5<<30)
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Size - 20 - 5<<30; h.Missing != want || h.CheckData() == nil {
		t.Errorf("missing %d, want %d", h.Missing, want)
	}
}

// failingReader has fewer bytes than it claims, or an error of its own.
type failingReader struct {
	data []byte
	err  error
}

func (f failingReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(f.data)) {
		n = copy(p, f.data[off:])
	}
	if n < len(p) {
		return n, f.err
	}
	return n, nil
}

func TestReadErrors(t *testing.T) {
	file := testHeader(t, "ggml-yarn-00001-of-00004.gguf")
	broken := fault.New(fault.Network, "connection lost")
	_, err := ReadHeader(failingReader{file[:1000], broken}, int64(len(file)))
	if !errors.Is(err, broken) || fault.KindOf(err) != fault.Network {
		t.Errorf("error %v of kind %d", err, fault.KindOf(err))
	}
	_, err = ReadHeader(failingReader{file[:1000], io.EOF}, int64(len(file)))
	if !errors.Is(err, io.ErrUnexpectedEOF) || fault.KindOf(err) != fault.BadInput || !strings.Contains(err.Error(), "ended at byte 1000") {
		t.Errorf("error %v of kind %d", err, fault.KindOf(err))
	}
}

// TestAllocations bounds what hostile counts and lengths make the reader allocate, also where the file claims to be huge.
func TestAllocations(t *testing.T) {
	tables := map[string]*raw{
		"tensor count":  head(1<<40, 0),
		"pair count":    head(0, 1<<40),
		"string":        head(0, 1).str("k").u32(uint32(String)).u64(1 << 30),
		"array":         head(0, 1).str("k").u32(uint32(Array)).u32(uint32(Uint64)).u64(1 << 27),
		"string array":  head(0, 1).str("k").u32(uint32(Array)).u32(uint32(String)).u64(1 << 30),
		"tensor name":   head(1, 0).u64(1 << 30),
		"tensor shapes": head(1<<40, 0).str("a").u32(4).u64(1 << 50),
	}
	for name, r := range tables {
		for _, size := range []int64{int64(r.Len()), 1 << 50} {
			got := allocated(func() {
				// All but the first bytes are missing, as when a server states a wrong size.
				if _, err := ReadHeader(failingReader{r.Bytes(), io.EOF}, size); err == nil {
					t.Errorf("%s of %d: accepted", name, size)
				}
			})
			if got > 2*firstPiece {
				t.Errorf("%s of %d: %d bytes allocated", name, size, got)
			}
		}
	}
	for _, f := range headerFaults() {
		if got := allocated(func() { _, _ = read(f.file) }); got > 64<<10 {
			t.Errorf("%s: %d bytes allocated for a file of %d", f.name, got, len(f.file))
		}
	}
}

// TestAllocationsDense bounds the memory for a file that really is full of the smallest pairs and tensors.
func TestAllocationsDense(t *testing.T) {
	const n = 20_000
	r := head(n, n)
	for i := range n {
		r.str(fmt.Sprintf("%05x", i)).u32(uint32(Bool)).put([]byte{1})
	}
	for i := range n {
		r.tensor(fmt.Sprintf("%05x", i), F32, 0, 0)
	}
	r.pad(32)
	got := allocated(func() { mustRead(t, r.Bytes()) })
	if got > uint64(20*r.Len()) {
		t.Errorf("%d bytes allocated for a file of %d", got, r.Len())
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// vocabularyHeader returns the header of a model with n tokens, their types and as many merges: about 11 MB for 250,000.
func vocabularyHeader(tb testing.TB, n int) []byte {
	tb.Helper()
	tokens := make([]string, n)
	merges := make([]string, n)
	types := Value{Type: Array, Elem: Int32, Len: n}
	for i := range n {
		tokens[i] = fmt.Sprintf("Ġtok%d", i*7919%n)
		merges[i] = fmt.Sprintf("Ġt%d ok", i*7919%n)
		types.Raw = binary.LittleEndian.AppendUint32(types.Raw, uint32(1+i%6))
	}
	m := &Metadata{}
	m.Put("general.architecture", StringValue("qwen35"))
	m.Put("tokenizer.ggml.tokens", StringsValue(tokens))
	m.Put("tokenizer.ggml.token_type", types)
	m.Put("tokenizer.ggml.merges", StringsValue(merges))
	tensors := []TensorInfo{{Name: "token_embd.weight", Type: Q6_K, Shape: []int64{2048, int64(n)}}}
	for i := range 320 {
		tensors = append(tensors, TensorInfo{Name: fmt.Sprintf("blk.%d.ffn_%d.weight", i/12, i%12), Type: Q4_K, Shape: []int64{2048, 6144}})
	}
	l, err := NewLayout(m, tensors, GGUFPy, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return l.Header
}

// BenchmarkReadHeader parses the header of a model with 250,000 tokens; the target is 60 ms and 60 MB.
func BenchmarkReadHeader(b *testing.B) {
	file := vocabularyHeader(b, 250_000)
	f := &sparseFile{file, 2 << 30}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadHeader(f, f.size); err != nil {
			b.Fatal(err)
		}
	}
}
