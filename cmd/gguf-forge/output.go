package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"

	"gguf-forge/internal/fault"
)

// output is stdout. It counts what it handed over and says in its errors what a failed write means.
type output struct {
	w     io.Writer
	n     atomic.Int64
	since atomic.Int64 // when the write that is under way began, in nanoseconds; 0: there is none
}

func (o *output) Write(p []byte) (int, error) {
	o.since.Store(time.Now().UnixNano())
	n, err := o.w.Write(p)
	o.since.Store(0)
	o.n.Add(int64(n))
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	reason := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		reason = pe.Err
	}
	switch {
	case err == nil:
		return n, nil
	case isAny(err, exhausted):
		return n, fault.WithHint(fault.New(fault.Resources, "stdout: %w", reason), "make room where the output goes")
	case isAny(err, pipeClosed) || errors.Is(err, io.ErrShortWrite):
		return n, fault.New(fault.BrokenPipe, "nobody reads stdout any more: %w", reason)
	}
	return n, fmt.Errorf("stdout: %w", reason)
}

// bytes returns how many bytes were handed over so far.
func (o *output) bytes() int64 { return o.n.Load() }

// blocked returns for how long the write that is under way has stood still, 0 if there is none.
func (o *output) blocked() time.Duration {
	since := o.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(time.Unix(0, since))
}

// isTerminal reports whether a person would see the output.
func (o *output) isTerminal() bool { return isTerminal(o.w) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// systemKind is the kind of an error about a path that the user named: it can't be read or written there.
func systemKind(err error) fault.Kind {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) {
		return fault.BadInput
	}
	return fault.Internal
}
