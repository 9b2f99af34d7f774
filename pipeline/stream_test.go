package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/remote"
)

// memory is a source in memory that can fail and counts what is read.
type memory struct {
	name   string
	data   []byte
	sha256 string
	failAt int64 // reads that touch this byte fail; -1: none
	read   atomic.Int64
}

func (m *memory) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if m.failAt >= off && m.failAt < off+int64(len(p)) {
		return 0, errors.New("the line is cut")
	}
	m.read.Add(int64(len(p)))
	return copy(p, m.data[off:]), nil
}

func (m *memory) Size() int64 { return int64(len(m.data)) }

func (m *memory) Identity() remote.Identity {
	return remote.Identity{Kind: "file", Path: m.name, SHA256: m.sha256, Size: m.Size()}
}

// shape is a tensor of a test model.
type shape struct {
	name string
	typ  gguf.Type
	dims []int64
	to   gguf.Type
}

// testArtifact makes an artifact of f32 tensors with random values, some of them encoded.
func testArtifact(t testing.TB, seed uint64, shapes []shape) (*Artifact, *memory) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	src := &memory{name: "test", failAt: -1}
	src.data = make([]byte, 100) // a header of some kind
	var tensors []Tensor
	for _, s := range shapes {
		info := gguf.TensorInfo{Name: s.name, Type: s.typ, Shape: s.dims}
		size, ok := info.Size()
		if !ok {
			t.Fatalf("%s: bad shape", s.name)
		}
		at := int64(len(src.data))
		for range size / 4 {
			// Floats around 1: nothing a validator objects to.
			v := 0x3f000000 | rng.Uint32()&0x807fffff
			src.data = append(src.data, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		src.data = append(src.data, make([]byte, (-size)&31)...)
		node, err := Stored(remote.Tensor{TensorInfo: info, Source: src, At: at, Length: size})
		if err != nil {
			t.Fatal(err)
		}
		if s.to != s.typ {
			if node, err = Encode(node, s.to, nil); err != nil {
				t.Fatal(err)
			}
		}
		tensors = append(tensors, node)
	}
	sum := sha256.Sum256(src.data)
	src.sha256 = hex.EncodeToString(sum[:])
	meta := new(gguf.Metadata)
	meta.Put("general.architecture", gguf.StringValue("llama"))
	a, err := NewArtifact(meta, tensors, gguf.GGML, 32)
	if err != nil {
		t.Fatal(err)
	}
	return a, src
}

var mixed = []shape{
	{"output.weight", gguf.F32, []int64{256, 300}, gguf.Q4_K},
	{"output_norm.weight", gguf.F32, []int64{257}, gguf.F32},
	{"blk.0.ffn_up_exps.weight", gguf.F32, []int64{256, 7, 5}, gguf.Q8_0},
	{"blk.0.none.weight", gguf.F32, []int64{32, 0}, gguf.F32},
	{"blk.0.attn_q.weight", gguf.F32, []int64{512, 1000}, gguf.BF16},
	{"blk.1.attn_norm.weight", gguf.F32, []int64{3}, gguf.F32},
	{"blk.1.ffn_down.weight", gguf.F32, []int64{1024, 64}, gguf.F32},
}

func TestStreamIsTheSameHoweverItIsRead(t *testing.T) {
	a, _ := testArtifact(t, 1, mixed)
	var want bytes.Buffer
	res, err := a.Stream(t.Context(), &want, StreamOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if int64(want.Len()) != a.Size() {
		t.Fatalf("%d bytes, the layout says %d", want.Len(), a.Size())
	}
	if _, err := gguf.ReadHeader(bytes.NewReader(want.Bytes()), a.Size()); err != nil {
		t.Fatalf("the stream is no GGUF: %v", err)
	}
	t.Run("settings", func(t *testing.T) {
		for _, opt := range []StreamOptions{
			{Threads: 2}, {Threads: 7, Memory: 1}, {Memory: 1 << 20, Fetches: 1}, {Memory: 3 << 20, Threads: 3, Fetches: 9},
		} {
			var got bytes.Buffer
			r, err := a.Stream(t.Context(), &got, opt)
			if err != nil || r.SHA256 != res.SHA256 || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%+v: other bytes (%v)", opt, err)
			}
		}
	})
	t.Run("ranges", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 0))
		for i := range 60 {
			off := rng.Int64N(a.Size())
			n := 1 + rng.Int64N(a.Size()-off)
			if i%2 == 0 {
				n = min(n, 1000)
			}
			var got bytes.Buffer
			if _, err := a.Stream(t.Context(), &got, StreamOptions{Offset: off, Length: n, Memory: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()[off:off+n]) {
				t.Fatalf("stream of [%d,%d) differs", off, off+n)
			}
			p := make([]byte, n)
			if k, err := a.ReadAt(p, off); int64(k) != n || err != nil {
				t.Fatalf("ReadAt(%d bytes at %d) = %d, %v", n, off, k, err)
			}
			if !bytes.Equal(p, want.Bytes()[off:off+n]) {
				t.Fatalf("ReadAt of [%d,%d) differs", off, off+n)
			}
		}
	})
	t.Run("end", func(t *testing.T) {
		p := make([]byte, 10)
		if n, err := a.ReadAt(p, a.Size()-4); n != 4 || err != io.EOF {
			t.Errorf("read across the end = %d, %v", n, err)
		}
		if n, err := a.ReadAt(p, a.Size()); n != 0 || err != io.EOF {
			t.Errorf("read at the end = %d, %v", n, err)
		}
		var none bytes.Buffer
		if r, err := a.Stream(t.Context(), &none, StreamOptions{Offset: a.Size()}); err != nil || r.Bytes != 0 {
			t.Errorf("stream of the end = %+v, %v", r, err)
		}
		if _, err := a.Stream(t.Context(), &none, StreamOptions{Offset: a.Size() + 1}); err == nil {
			t.Error("an offset past the end is accepted")
		}
	})
}

func TestStreamChecksASourceThatPassesThrough(t *testing.T) {
	a, src := testArtifact(t, 3, mixed)
	res, err := a.Stream(t.Context(), io.Discard, StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Sources) != 1 || !res.Sources[0].Checked {
		t.Errorf("not checked: %+v", res.Sources)
	}
	src.sha256 = strings.Repeat("0", 64)
	if _, err := a.Stream(t.Context(), io.Discard, StreamOptions{}); err == nil || !strings.Contains(err.Error(), "test") {
		t.Errorf("a source with another hash passes: %v", err)
	}
	// A part of the artifact can't check it.
	if res, err = a.Stream(t.Context(), io.Discard, StreamOptions{Offset: 1}); err != nil || len(res.Sources) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestStreamReadsEverySourceByteOnce(t *testing.T) {
	a, src := testArtifact(t, 4, mixed)
	src.sha256 = ""
	if _, err := a.Stream(t.Context(), io.Discard, StreamOptions{Memory: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	var need int64
	for _, node := range a.Tensors() {
		for _, r := range node.Needs(0, node.Info().Rows()) {
			need += r.Len
		}
	}
	// Padding between tensors is read along.
	if got := src.read.Load(); got < need || got > need+int64(32*len(mixed)) {
		t.Errorf("%d bytes were read, %d are needed", got, need)
	}
}

// limited is a writer that takes n bytes.
type limited struct {
	n     int
	short bool
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) <= l.n {
		l.n -= len(p)
		return len(p), nil
	}
	n := l.n
	l.n = 0
	if l.short {
		return n, nil
	}
	return n, io.ErrClosedPipe
}

func TestStreamFails(t *testing.T) {
	a, src := testArtifact(t, 5, mixed)
	t.Run("reader", func(t *testing.T) {
		for _, at := range []int64{100, 50_000, src.Size() - 40} {
			src.failAt = at
			var got bytes.Buffer
			res, err := a.Stream(t.Context(), &got, StreamOptions{Memory: 1 << 20})
			if err == nil || !strings.Contains(err.Error(), "the line is cut") {
				t.Errorf("failing at %d: %v", at, err)
			}
			if res.Bytes != int64(got.Len()) {
				t.Errorf("%d bytes reported, %d written", res.Bytes, got.Len())
			}
			src.failAt = -1
			if rest := check(t, a, got.Bytes()); rest != nil {
				t.Error(rest)
			}
		}
	})
	t.Run("writer", func(t *testing.T) {
		for _, n := range []int{0, 1, 5000, int(a.Size()) - 1} {
			res, err := a.Stream(t.Context(), &limited{n: n}, StreamOptions{Memory: 1 << 20})
			if !errors.Is(err, io.ErrClosedPipe) || res.Bytes != int64(n) {
				t.Errorf("pipe closed after %d bytes: %d, %v", n, res.Bytes, err)
			}
			res, err = a.Stream(t.Context(), &limited{n: n, short: true}, StreamOptions{})
			if !errors.Is(err, io.ErrShortWrite) || res.Bytes != int64(n) {
				t.Errorf("short write after %d bytes: %d, %v", n, res.Bytes, err)
			}
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := a.Stream(ctx, io.Discard, StreamOptions{Progress: func(p Progress) {
			if p.Written > a.Size()/2 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		cancel()
	})
	t.Run("bad value", func(t *testing.T) {
		copy(src.data[200_000:], []byte{0, 0, 0xc0, 0x7f, 0, 0, 0xc0, 0x7f})
		_, err := a.Stream(t.Context(), io.Discard, StreamOptions{})
		if err == nil || !strings.Contains(err.Error(), `tensor "output.weight"`) {
			t.Errorf("NaN in a weight: %v", err)
		}
	})
}

// check compares what was written before a failure with the artifact.
func check(t *testing.T, a *Artifact, got []byte) error {
	t.Helper()
	if len(got) == 0 {
		return nil
	}
	want := make([]byte, len(got))
	if _, err := a.ReadAt(want, 0); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("wrong bytes were written before the failure")
	}
	return nil
}

func TestManifest(t *testing.T) {
	var shapes []shape
	for i := range 6 {
		shapes = append(shapes, shape{fmt.Sprintf("blk.%d.ffn_up.weight", i), gguf.F32, []int64{512, 1000 + int64(i)}, gguf.F32})
	}
	a, _ := testArtifact(t, 6, shapes)
	var all bytes.Buffer
	m := new(Manifest)
	if _, err := a.Stream(t.Context(), &all, StreamOptions{Manifest: m}); err != nil {
		t.Fatal(err)
	}
	sum := func(from, to int64) string {
		s := sha256.Sum256(all.Bytes()[from:min(to, a.Size())])
		return hex.EncodeToString(s[:])
	}
	verify := func(m *Manifest, tensors, chunks int) {
		t.Helper()
		if len(m.Tensors()) != tensors || len(m.Chunks()) != chunks {
			t.Errorf("%d tensors and %d chunks, want %d and %d", len(m.Tensors()), len(m.Chunks()), tensors, chunks)
		}
		for _, h := range m.Tensors() {
			start := a.Layout().DataStart + h.Offset
			if h.SHA256 != sum(start, start+h.Size) {
				t.Errorf("hash of %s is wrong", h.Name)
			}
		}
		for _, c := range m.Chunks() {
			if c.SHA256 != sum(c.Index*ChunkSize, (c.Index+1)*ChunkSize) {
				t.Errorf("hash of chunk %d is wrong", c.Index)
			}
		}
	}
	chunks := int((a.Size() + ChunkSize - 1) / ChunkSize)
	if chunks < 3 {
		t.Fatalf("the artifact has only %d chunks", chunks)
	}
	verify(m, 6, chunks)
	m = new(Manifest)
	if _, err := a.Stream(t.Context(), io.Discard, StreamOptions{Manifest: m, Offset: ChunkSize - 5, Length: ChunkSize + 100}); err != nil {
		t.Fatal(err)
	}
	verify(m, 1, 1)
	start, _ := a.span(2)
	m = new(Manifest)
	if _, err := a.Stream(t.Context(), io.Discard, StreamOptions{Manifest: m, Offset: start}); err != nil {
		t.Fatal(err)
	}
	verify(m, 4, 2)
}

func TestStreamBuffersAreReused(t *testing.T) {
	var l bufferList
	b := l.get(1000)
	l.put(b)
	if c := l.get(500); cap(c) != cap(b) {
		t.Error("a free buffer was not used")
	}
	l.put(l.get(bufferGrain + 1))
	l.put(l.get(10 * bufferGrain))
	if len(l.free) > 2 {
		t.Errorf("%d buffers are kept", len(l.free))
	}
}
