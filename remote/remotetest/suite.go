// Package remotetest states the contract of remote.Source as tests.
package remotetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"

	"gguf-forge/remote"
)

// Data returns n bytes that differ from place to place, so that no wrong offset goes unnoticed.
func Data(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1, byte(n), byte(n >> 8)}).Read(b)
	return b
}

// Suite checks a kind of source. open returns a source of data; whatever it needs is released through t.
func Suite(t *testing.T, open func(t *testing.T, data []byte) remote.Source) {
	ctx := context.Background()
	data := Data(300_001)

	t.Run("size and identity", func(t *testing.T) {
		s := open(t, data)
		if s.Size() != int64(len(data)) {
			t.Errorf("size %d, want %d", s.Size(), len(data))
		}
		id := s.Identity()
		if id.Size != s.Size() {
			t.Errorf("the identity has size %d, the source %d", id.Size, s.Size())
		}
		if id.Kind == "" || id.String() == "" {
			t.Errorf("the identity names nothing: %+v", id)
		}
		sum := sha256.Sum256(data)
		if id.SHA256 != "" && id.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("the identity has SHA-256 %s, the data %x", id.SHA256, sum)
		}
		if again := open(t, data).Identity(); again.SHA256 != id.SHA256 || again.ETag != id.ETag || again.Commit != id.Commit {
			t.Errorf("the same data has another identity: %+v, then %+v", id, again)
		}
	})

	t.Run("ranges", func(t *testing.T) {
		s := open(t, data)
		n := int64(len(data))
		for _, r := range [][2]int64{{0, n}, {0, 1}, {n - 1, 1}, {1, n - 1}, {0, n - 1}, {4095, 8193}, {n / 2, 100_000}} {
			readAt(t, s, data, r[0], r[1])
		}
	})

	t.Run("nothing", func(t *testing.T) {
		s := open(t, data)
		for _, off := range []int64{0, 17, s.Size()} {
			if n, err := s.ReadAt(ctx, nil, off); n != 0 || err != nil {
				t.Errorf("reading nothing at %d: %d, %v", off, n, err)
			}
		}
	})

	t.Run("empty", func(t *testing.T) {
		s := open(t, nil)
		if s.Size() != 0 {
			t.Errorf("size %d, want 0", s.Size())
		}
		if _, err := s.ReadAt(ctx, make([]byte, 1), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("reading from an empty source: %v", err)
		}
		if n, err := s.ReadAt(ctx, nil, 0); n != 0 || err != nil {
			t.Errorf("reading nothing: %d, %v", n, err)
		}
	})

	t.Run("past the end", func(t *testing.T) {
		s := open(t, data)
		n := s.Size()
		for _, r := range [][2]int64{{n, 1}, {n - 1, 2}, {0, n + 1}, {n + 1, 0}, {1 << 40, 1}, {1<<63 - 1, 10}} {
			if _, err := s.ReadAt(ctx, make([]byte, r[1]), r[0]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("bytes %d+%d of %d: %v, want io.ErrUnexpectedEOF", r[0], r[1], n, err)
			}
		}
		if _, err := s.ReadAt(ctx, make([]byte, 1), -1); err == nil {
			t.Error("a negative offset was accepted")
		}
		readAt(t, s, data, 10, 10)
	})

	t.Run("as io.ReaderAt", func(t *testing.T) {
		s := open(t, data[:5000])
		r := io.NewSectionReader(remote.ReaderAt(ctx, s), 0, s.Size())
		if err := iotest.TestReader(r, data[:5000]); err != nil {
			t.Error(err)
		}
	})

	t.Run("cancelled", func(t *testing.T) {
		s := open(t, data)
		ended, cancel := context.WithCancelCause(ctx)
		reason := errors.New("no longer needed")
		cancel(reason)
		if _, err := s.ReadAt(ended, make([]byte, 10), 0); !errors.Is(err, reason) {
			t.Errorf("reading with a cancelled context: %v", err)
		}
		readAt(t, s, data, 0, 10)
	})

	t.Run("parallel", func(t *testing.T) {
		s := open(t, data)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for range 4 {
					off := rnd.Int64N(s.Size())
					readAt(t, s, data, off, rnd.Int64N(s.Size()-off+1))
				}
			})
		}
		group.Wait()
	})

	t.Run("streams", func(t *testing.T) {
		s := open(t, data)
		streamer, ok := s.(remote.Streamer)
		if !ok {
			t.Skip("no streams")
		}
		n := s.Size()
		for _, r := range [][2]int64{{0, n}, {0, 0}, {n, 0}, {n - 1, 1}, {1000, 200_000}} {
			stream, err := streamer.Stream(ctx, r[0], r[1])
			if err != nil {
				t.Fatalf("stream %v: %v", r, err)
			}
			got, err := io.ReadAll(iotest.HalfReader(stream))
			if err != nil || !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
				t.Errorf("stream %v: %d bytes, right: %v, %v", r, len(got), bytes.Equal(got, data[r[0]:r[0]+r[1]]), err)
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, r := range [][2]int64{{0, n + 1}, {n + 1, 0}, {1, n}} {
			if _, err := streamer.Stream(ctx, r[0], r[1]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("stream %v of %d bytes: %v", r, n, err)
			}
		}
		half, err := streamer.Stream(ctx, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(half, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		half.Close()
		readAt(t, s, data, 0, n) // a stream that was left early disturbs nothing
	})

	t.Run("stream cancelled", func(t *testing.T) {
		streamer, ok := open(t, data).(remote.Streamer)
		if !ok {
			t.Skip("no streams")
		}
		short, cancel := context.WithCancelCause(ctx)
		reason := errors.New("no longer needed")
		stream, err := streamer.Stream(short, 0, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := io.ReadFull(stream, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		cancel(reason)
		if _, err := io.ReadAll(stream); err == nil {
			t.Error("a cancelled stream went on to its end without an error")
		}
	})

	t.Run("tracked", func(t *testing.T) {
		s := open(t, data)
		tracker := remote.NewTracker(s)
		buf := make([]byte, 70_000)
		for off := int64(0); off < s.Size(); {
			p := buf[:min(int64(len(buf)), s.Size()-off)]
			if _, err := s.ReadAt(ctx, p, off); err != nil {
				t.Fatal(err)
			}
			tracker.Observe(off, p)
			off += int64(len(p))
		}
		checked, err := tracker.Done()
		if err != nil || checked != (s.Identity().SHA256 != "") && s.Identity().ETag == "" {
			t.Errorf("tracked: checked %v, %v", checked, err)
		}
	})
}

// readAt reads n bytes at off and compares them.
func readAt(t *testing.T, s remote.Source, data []byte, off, n int64) {
	t.Helper()
	p := make([]byte, n)
	got, err := s.ReadAt(context.Background(), p, off)
	if err != nil || int64(got) != n {
		t.Errorf("bytes %d+%d: read %d, %v", off, n, got, err)
		return
	}
	if !bytes.Equal(p, data[off:off+n]) {
		t.Errorf("bytes %d+%d are wrong", off, n)
	}
}
