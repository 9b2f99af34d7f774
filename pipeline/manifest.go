package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"gguf-forge/gguf"
)

// ChunkSize is the size of the pieces of an artifact whose hashes stand in a lock.
const ChunkSize = 4 << 20

// Manifest collects the SHA-256 of every tensor and of every chunk that pass through a stream completely.
// It is filled by Artifact.Stream and read after it.
type Manifest struct {
	tensors []TensorHash
	chunks  []ChunkHash
}

// TensorHash is the SHA-256 of one tensor's data, without padding.
type TensorHash struct {
	gguf.TensorInfo
	Size   int64
	SHA256 string
}

// ChunkHash is the SHA-256 of chunk Index: bytes [Index·ChunkSize, (Index+1)·ChunkSize) of the artifact, the last one shorter.
type ChunkHash struct {
	Index  int64
	SHA256 string
}

// Tensors returns the tensors that passed completely, in file order.
func (m *Manifest) Tensors() []TensorHash { return m.tensors }

// Chunks returns the chunks that passed completely, in file order.
func (m *Manifest) Chunks() []ChunkHash { return m.chunks }

// writers returns what must see the bytes of a from offset on.
func (m *Manifest) writers(a *Artifact, offset int64) []io.Writer {
	return []io.Writer{
		&sectionHasher{pos: offset, section: a.span, count: len(a.tensors), done: func(i int, sum string) {
			start, end := a.span(i)
			m.tensors = append(m.tensors, TensorHash{a.layout.Tensors[i], end - start, sum})
		}},
		&sectionHasher{pos: offset, count: int((a.Size() + ChunkSize - 1) / ChunkSize),
			section: func(i int) (int64, int64) {
				return int64(i) * ChunkSize, min(int64(i+1)*ChunkSize, a.Size())
			},
			done: func(i int, sum string) { m.chunks = append(m.chunks, ChunkHash{int64(i), sum}) }},
	}
}

// sectionHasher hashes ascending, disjoint sections of the bytes written to it, and reports each that passed from
// its first byte to its last.
type sectionHasher struct {
	pos     int64
	index   int // the section that ends behind pos
	count   int
	section func(i int) (start, end int64)
	done    func(i int, sum string)
	hash    hash.Hash
	whole   bool // the current section was seen from its start
}

func (h *sectionHasher) Write(p []byte) (int, error) {
	if h.hash == nil {
		h.hash = sha256.New()
	}
	n := len(p)
	for h.index < h.count {
		start, end := h.section(h.index)
		if h.pos <= start {
			skip := min(start-h.pos, int64(len(p)))
			p, h.pos = p[skip:], h.pos+skip
			if h.pos < start {
				return n, nil
			}
			h.hash.Reset()
			h.whole = true
		}
		part := min(max(end-h.pos, 0), int64(len(p)))
		h.hash.Write(p[:part])
		p, h.pos = p[part:], h.pos+part
		if h.pos < end {
			return n, nil
		}
		if h.whole {
			h.done(h.index, hex.EncodeToString(h.hash.Sum(nil)))
		}
		h.whole = false
		h.index++
	}
	h.pos += int64(len(p))
	return n, nil
}
