package pipeline

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// bufferList keeps the large buffers of a stream for reuse, so that the heap holds what is in flight and not
// the garbage of what was.
type bufferList struct {
	mu   sync.Mutex
	free [][]byte
}

// bufferGrain rounds sizes up, so that batches of nearly the same size share buffers.
const bufferGrain = 256 << 10

// get returns n bytes with any content.
func (l *bufferList) get(n int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := -1
	for i, b := range l.free {
		if int64(cap(b)) >= n && (best < 0 || cap(b) < cap(l.free[best])) {
			best = i
		}
	}
	if best >= 0 {
		b := l.free[best]
		l.free = slices.Delete(l.free, best, best+1)
		return b[:n]
	}
	if len(l.free) > 0 { // all too small: let the smallest go, or they would pile up
		l.free = slices.Delete(l.free, 0, 1)
	}
	return make([]byte, n, (n+bufferGrain-1)/bufferGrain*bufferGrain)
}

// put gives b back.
func (l *bufferList) put(b []byte) {
	if cap(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.free, cap(b), func(f []byte, n int) int { return cap(f) - n })
	l.free = slices.Insert(l.free, i, b)
}

// tee writes to several writers at once, each in a goroutine of its own, and waits for all of them.
// The first writer's count and error are the ones that are returned: the others only hash.
type tee struct {
	first io.Writer
	rest  []io.Writer
}

func newTee(sinks []io.Writer) io.Writer { return &tee{sinks[0], sinks[1:]} }

func (t *tee) Write(p []byte) (int, error) {
	var wg sync.WaitGroup
	for _, w := range t.rest[1:] {
		wg.Go(func() { _, _ = w.Write(p) })
	}
	var n int
	var err error
	wg.Go(func() { n, err = t.first.Write(p) })
	_, _ = t.rest[0].Write(p)
	wg.Wait()
	if err == nil && n != len(p) {
		err = fmt.Errorf("%w: %d of %d bytes", io.ErrShortWrite, n, len(p))
	}
	return n, err
}
