package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gguf-forge/internal/fault"
)

// file is a source on this disk, in the user's own tree or in the hub cache.
type file struct {
	f    *os.File
	id   Identity
	time time.Time // modification time at open
}

// OpenFile opens a local file as a source. The source implements io.Closer.
func OpenFile(path string) (Source, error) {
	f, err := openFile(path, Identity{Kind: "file", Path: path})
	if err != nil {
		return nil, err // not f: a nil *file would be a Source that isn't nil
	}
	return f, nil
}

func openFile(path string, id Identity) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, openError(err, path)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.BadInput, "%s is no regular file: a source is read at many places, not once from start to end", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	id.Size = info.Size()
	return &file{f, id, info.ModTime()}, nil
}

func openError(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.WithHint(fault.New(fault.BadInput, "no such file: %s", path), referenceForms)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fault.New(fault.BadInput, "can't open %s: %w", path, err)
}

func (s *file) Size() int64        { return s.id.Size }
func (s *file) Identity() Identity { return s.id }
func (s *file) Close() error       { return s.f.Close() }

func (s *file) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := checkRange(ctx, s, off, int64(len(p))); err != nil {
		return 0, err
	}
	if err := s.unchanged(); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	return n, fault.New(fault.BadInput, "reading %s at byte %d: %w", s.id, off+int64(n), err)
}

// unchanged refuses to go on with a file that was written or cut since it was opened.
func (s *file) unchanged() error {
	info, err := s.f.Stat()
	if err != nil {
		return fault.New(fault.BadInput, "reading %s: %w", s.id, err)
	}
	if info.Size() != s.id.Size || !info.ModTime().Equal(s.time) {
		return fault.WithHint(fault.New(fault.Verification, "%s changed while it was read", s.id), "start again when nothing writes to it")
	}
	return nil
}

// Stream reads [off, off+n) without holding it in memory.
func (s *file) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := checkRange(ctx, s, off, n); err != nil {
		return nil, err
	}
	return &fileStream{ctx, s, off, off + n}, nil
}

type fileStream struct {
	ctx     context.Context
	s       *file
	at, end int64
}

func (r *fileStream) Read(p []byte) (int, error) {
	if r.at == r.end {
		return 0, io.EOF
	}
	if int64(len(p)) > r.end-r.at {
		p = p[:r.end-r.at]
	}
	n, err := r.s.ReadAt(r.ctx, p, r.at)
	r.at += int64(n)
	return n, err
}

func (r *fileStream) Close() error { return nil }

// checkRange refuses ranges outside a source and calls that are cancelled already.
func checkRange(ctx context.Context, s Source, off, n int64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if off < 0 || n < 0 {
		return fmt.Errorf("reading %s: range %d+%d is negative", s.Identity(), off, n)
	}
	if off > s.Size() || n > s.Size()-off {
		return fault.New(fault.BadInput, "reading %s: bytes %d to %d of %d: %w", s.Identity(), off, off+n, s.Size(), io.ErrUnexpectedEOF)
	}
	return nil
}

// String names a source in errors: its local path, its address without query, or repository, commit and path.
func (id Identity) String() string {
	switch {
	case id.Kind == "file":
		return filepath.ToSlash(id.Path)
	case id.Repo != "":
		return fmt.Sprintf("%s@%.12s:%s", id.Repo, id.Commit, id.Path)
	}
	return id.URL
}
