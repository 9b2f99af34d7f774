package remote

import (
	"context"
	"io"
)

// Identity names the exact bytes of a source, so that a plan or a lock can pin them.
// Empty fields are unknown.
type Identity struct {
	Kind   string // "file", "http", "hub" or "cache"
	Repo   string // hub: organization/name
	Commit string // hub: 40 hex digits
	Path   string // hub: path inside the repository; file: the local path
	URL    string // http: the address without credentials and query
	SHA256 string // hex digest of the whole source
	ETag   string // validator of the server, where it is no digest
	Size   int64
}

// Source is a sequence of bytes of known size that never changes while it is open.
//
// ReadAt fills p from offset off or returns an error: there are no short reads without one, and no
// wrong bytes. A read past the end returns io.ErrUnexpectedEOF. It is safe for concurrent use and may
// retry inside; it stops when ctx is done.
type Source interface {
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	Size() int64
	Identity() Identity
}

// ReaderAt adapts a source to io.ReaderAt; every read uses ctx. Reads that cross the end return the bytes
// before it and io.EOF, as io.ReaderAt asks.
func ReaderAt(ctx context.Context, s Source) io.ReaderAt { return readerAt{ctx, s} }

type readerAt struct {
	ctx context.Context
	s   Source
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.s.Size() {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.s.Size()-off
	if short {
		p = p[:r.s.Size()-off]
	}
	n, err := r.s.ReadAt(r.ctx, p, off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}
