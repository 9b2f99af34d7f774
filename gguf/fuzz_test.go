package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// seed adds every known fault and every real header to a fuzz corpus; found inputs are in testdata/fuzz.
func seed(f *testing.F) {
	f.Helper()
	for _, fault := range headerFaults() {
		f.Add(fault.file)
	}
	names, err := filepath.Glob("testdata/headers/*.gguf")
	if err != nil || len(names) == 0 {
		f.Fatal("no headers to start from")
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
}

// FuzzHeader: no input panics, an error means no header, and whatever is accepted can be printed, summarized and laid out
// again to the same bytes, unless the file holds what a writer does not write.
func FuzzHeader(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := read(file)
		if err != nil {
			if h != nil {
				t.Fatal("a header beside an error")
			}
			return
		}
		checkRoundTrip(t, file, h)
		m := &Model{Metadata: h.Metadata, Shards: []Shard{{"fuzz", h, bytes.NewReader(file)}}}
		for _, info := range h.Tensors {
			m.Tensors = append(m.Tensors, ModelTensor{TensorInfo: info})
		}
		if err := Summarize(m).Text(discard{}); err != nil {
			t.Fatal(err)
		}
		h.Metadata.AsReference()
	})
}

// FuzzTensorTable lets the fuzzer write only the tensor table, behind a correct beginning.
func FuzzTensorTable(f *testing.F) {
	f.Add(uint8(1), head(0, 0).tensor("a", F32, 0, 3, 1).Bytes()[24:])
	f.Add(uint8(2), head(0, 0).tensor("a", Q4_K, 0, 256).tensor("b", 99, 160, 1, 1, 1, 1).Bytes()[24:])
	f.Add(uint8(3), head(0, 0).tensor("a", F32, 0, 8).tensor("b", F32, 32, 0).tensor("c", F32, 32).Bytes()[24:])
	for _, fault := range headerFaults() {
		if len(fault.file) > 24 {
			f.Add(fault.file[8], fault.file[24:])
		}
	}
	f.Fuzz(func(t *testing.T, count uint8, table []byte) {
		file := head(uint64(count), 0).put(table).Bytes()
		h, err := read(file)
		if err != nil {
			return
		}
		if len(h.Tensors) != int(count) {
			t.Fatalf("%d tensors, want %d", len(h.Tensors), count)
		}
		checkRoundTrip(t, file, h)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// checkRoundTrip lays h out again in both styles.
func checkRoundTrip(t *testing.T, file []byte, h *Header) {
	t.Helper()
	if !h.allKnown() || h.Alignment > 1<<16 {
		return // sizes are not known, or more padding than a fuzzer should write
	}
	for _, info := range h.Tensors {
		if info.Name == "" {
			return // read, as the reference does, but never written
		}
	}
	for _, style := range []Style{GGUFPy, GGML} {
		l, err := NewLayout(h.Metadata, h.Tensors, style, h.Alignment)
		if err != nil {
			t.Fatalf("accepted, but not written: %v", err)
		}
		if style == GGUFPy {
			checkSameBytes(t, file, h, l)
		}
		again, err := ReadHeader(&sparseFile{l.Header, l.Size}, l.Size)
		if err != nil {
			t.Fatalf("written, but not accepted: %v", err)
		}
		for i, info := range again.Tensors {
			was := h.Tensors[i]
			if info.Name != was.Name || info.Type != was.Type || info.Offset != was.Offset || info.Elements() != was.Elements() || info.Dims() != was.Dims() {
				t.Fatalf("%+v became %+v", was, info)
			}
		}
	}
}

// checkSameBytes compares a layout with the file it comes from, except for the version and
// padding, which a reader ignores.
func checkSameBytes(t *testing.T, file []byte, h *Header, l *Layout) {
	t.Helper()
	if l.DataStart != h.DataStart {
		t.Fatalf("data from %d, was from %d", l.DataStart, h.DataStart)
	}
	p := &parser{src: bytes.NewReader(file), size: int64(len(file)), piece: firstPiece}
	if _, err := p.header(); err != nil {
		t.Fatal(err)
	}
	end := int(p.offset())
	if !bytes.Equal(l.Header[8:end], file[8:end]) {
		t.Fatal("not the same bytes")
	}
	if len(bytes.TrimRight(l.Header[end:], "\x00")) > 0 {
		t.Fatal("padding is not zero")
	}
}
