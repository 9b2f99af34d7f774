package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"

	"gguf-forge/internal/fault"
)

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestClassify(t *testing.T) {
	wrapped := func(err error) error {
		return fmt.Errorf("writing at byte 5: %w", &fs.PathError{Op: "write", Path: "x", Err: err})
	}
	for _, c := range []struct {
		name string
		err  error
		want fault.Kind
	}{
		{"plain", errors.New("oops"), fault.Internal},
		{"kind", fmt.Errorf("reading: %w", fault.New(fault.Network, "no answer")), fault.Network},
		{"a kind wins over what it wraps", fault.New(fault.Network, "sending: %w", pipeClosed[0]), fault.Network},
		{"disk full", wrapped(exhausted[0]), fault.Resources},
		{"quota", errors.Join(wrapped(exhausted[1]), errors.New("cleanup")), fault.Resources},
		{"no such file", wrapped(fs.ErrNotExist), fault.BadInput},
		{"no permission", wrapped(fs.ErrPermission), fault.BadInput},
		{"pipe", wrapped(pipeClosed[0]), fault.BrokenPipe},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := classify(c.err); got != c.want {
				t.Errorf("kind %d, want %d", got, c.want)
			}
		})
	}
}

// writerFunc is a stdout that fails as it is told.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		err  error
		want fault.Kind
	}{
		{"short write without an error", 3, nil, fault.BrokenPipe},
		{"short write", 3, io.ErrShortWrite, fault.BrokenPipe},
		{"broken pipe", 4, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: pipeClosed[0]}, fault.BrokenPipe},
		{"disk full", 2, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: exhausted[0]}, fault.Resources},
		{"closed", 0, os.ErrClosed, fault.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &output{w: writerFunc(func([]byte) (int, error) { return c.n, c.err })}
			n, err := o.Write(make([]byte, 10))
			if n != c.n || classify(err) != c.want || o.bytes() != int64(c.n) {
				t.Errorf("%d bytes, kind %d (%v), want %d, %d", n, classify(err), err, c.n, c.want)
			}
		})
	}
}

func TestReportIsOneLine(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stdout: &output{w: io.Discard}, stderr: &stderr}
	err := fault.WithHint(fault.New(fault.BadInput, "it is wrong: %w", errors.Join(errors.New("one"), errors.New("two\nthree"))), "do this")
	if code := a.report(err); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if got, want := stderr.String(), "gguf-forge: it is wrong: one; two; three\nhint: do this\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	stderr.Reset()
	a.json = true
	a.report(err)
	if got, want := stderr.String(), `{"error":"it is wrong: one; two; three","hint":"do this","kind":"bad input","exit":3}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
