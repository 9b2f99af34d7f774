package gguf

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"

	"gguf-forge/internal/fault"
)

// Algorithm is a hash that llama-gguf-hash prints, by the name it prints.
type Algorithm string

// The algorithms. XXH64 is llama-gguf-hash's default; only SHA256 protects against intent.
const (
	XXH64  Algorithm = "xxh64"
	SHA1   Algorithm = "sha1"
	SHA256 Algorithm = "sha256"
)

func (a Algorithm) new() hash.Hash {
	switch a {
	case XXH64:
		return xxhash.New()
	case SHA1:
		return sha1.New()
	}
	return sha256.New()
}

// HashOptions selects what HashModel computes. The zero value means SHA-256 of everything.
type HashOptions struct {
	Algorithms []Algorithm       // of tensors and payload, in the order they are printed; none means SHA-256
	NoTensors  bool              // leave out the tensors' own digests
	NoFile     bool              // leave out the SHA-256 of the whole file, and read only tensor data
	Progress   func(bytes int64) // called with the bytes of each piece read
}

// Hashes are the digests of a model.
type Hashes struct {
	Files []FileHashes `json:"files"`
}

// FileHashes are the digests of one file. Like llama-gguf-hash, a split model is hashed file by file.
type FileHashes struct {
	Name    string         `json:"name"`
	Tensors []TensorHashes `json:"tensors,omitempty"` // in table order; nil with NoTensors
	Payload []Digest       `json:"payload"`           // of the data of all tensors in table order, without padding
	File    string         `json:"file_sha256"`       // hex SHA-256 of all bytes of the file, as sha256sum prints it; empty with NoFile
}

// TensorHashes are the digests of a tensor's data without padding.
type TensorHashes struct {
	Name    string   `json:"name"`
	Digests []Digest `json:"digests"`
}

// Digest is the result of one algorithm.
type Digest struct {
	Algorithm Algorithm `json:"algorithm"`
	Hex       string    `json:"hex"`
}

const hashPiece = 2 << 20 // bytes read at once; two pieces are in memory

// HashModel reads the files of m once, from beginning to end, and returns their digests. It needs a few MiB of
// memory whatever the sizes, and fails if tensor data is missing or the size of a tensor is unknown.
func HashModel(ctx context.Context, m *Model, o HashOptions) (*Hashes, error) {
	if len(o.Algorithms) == 0 {
		o.Algorithms = []Algorithm{SHA256}
	}
	if err := m.CheckData(); err != nil {
		return nil, err
	}
	all := &Hashes{}
	for _, s := range m.Shards {
		h, err := hashFile(ctx, s, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		all.Files = append(all.Files, h)
	}
	return all, nil
}

// hashFile walks through the file: header, tensors and the padding between them in turn.
func hashFile(ctx context.Context, s Shard, o HashOptions) (FileHashes, error) {
	out := FileHashes{Name: s.Name}
	if !o.NoTensors {
		out.Tensors = make([]TensorHashes, 0, len(s.Header.Tensors))
	}
	r := newPieces(ctx, s.Data, o.Progress)
	payload := newDigesters(o.Algorithms)
	var file hash.Hash
	if !o.NoFile {
		file = sha256.New()
	}

	at := int64(0)
	skip := func(to int64) error {
		defer func() { at = to }()
		if file == nil {
			return nil
		}
		return r.feed(at, to, []hash.Hash{file})
	}
	for _, t := range s.Header.Tensors {
		n, ok := t.Size()
		if !ok {
			return out, fault.New(fault.BadInput, "tensor %q has %s, whose size is not known", t.Name, t.Type)
		}
		start := s.Header.DataStart + t.Offset
		if err := skip(start); err != nil {
			return out, err
		}
		sinks := payload.all()
		tensor := newDigesters(o.Algorithms)
		if !o.NoTensors {
			sinks = append(sinks, tensor.all()...)
		}
		if file != nil {
			sinks = append(sinks, file)
		}
		if err := r.feed(start, start+n, sinks); err != nil {
			return out, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if at = start + n; !o.NoTensors {
			out.Tensors = append(out.Tensors, TensorHashes{t.Name, tensor.sums()})
		}
	}
	if err := skip(s.Header.Size); err != nil {
		return out, err
	}
	out.Payload = payload.sums()
	if file != nil {
		out.File = hex.EncodeToString(file.Sum(nil))
	}
	return out, nil
}

// digesters compute several algorithms over the same bytes.
type digesters struct {
	algorithms []Algorithm
	hashes     []hash.Hash
}

func newDigesters(list []Algorithm) digesters {
	d := digesters{algorithms: list}
	for _, a := range list {
		d.hashes = append(d.hashes, a.new())
	}
	return d
}

// all returns a new list of the hashes.
func (d digesters) all() []hash.Hash { return append([]hash.Hash(nil), d.hashes...) }

func (d digesters) sums() []Digest {
	var list []Digest
	for i, h := range d.hashes {
		list = append(list, Digest{d.algorithms[i], hex.EncodeToString(h.Sum(nil))})
	}
	return list
}

// pieces feeds ranges of a file to hashes. While one piece is hashed, by each hash on its own goroutine, the next one is read.
type pieces struct {
	ctx      context.Context
	src      io.ReaderAt
	progress func(int64)
	bufs     [2][]byte
	hashing  sync.WaitGroup
}

func newPieces(ctx context.Context, src io.ReaderAt, progress func(int64)) *pieces {
	if progress == nil {
		progress = func(int64) {}
	}
	return &pieces{ctx: ctx, src: src, progress: progress, bufs: [2][]byte{make([]byte, hashPiece), make([]byte, hashPiece)}}
}

// feed writes bytes lo to hi of the file to all sinks. They are complete when it returns.
func (p *pieces) feed(lo, hi int64, sinks []hash.Hash) error {
	defer p.hashing.Wait()
	for lo < hi {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		b := p.bufs[0][:min(hashPiece, hi-lo)]
		p.bufs[0], p.bufs[1] = p.bufs[1], p.bufs[0]
		if err := readFull(p.src, b, lo); err != nil {
			return err
		}
		p.hashing.Wait()
		for _, h := range sinks {
			p.hashing.Go(func() { h.Write(b) })
		}
		lo += int64(len(b))
		p.progress(int64(len(b)))
	}
	return nil
}
