package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"gguf-forge/internal/fault"
)

// remoteFile is a file behind HTTP, on a hub or on a plain web server. It knows how to find the bytes anew when
// an address expires, and never accepts an answer that doesn't fit what it was opened with.
type remoteFile struct {
	c      *Client
	id     Identity
	locate func(context.Context, *attempts) (*location, error) // asks the origin

	validators sync.Map // host → validator of its first answer

	refresh chan struct{} // holds one token: whoever has it may call locate
	mu      sync.Mutex
	loc     *location
}

func newRemoteFile(c *Client, id Identity, loc *location, locate func(context.Context, *attempts) (*location, error)) *remoteFile {
	f := &remoteFile{c: c, id: id, locate: locate, refresh: make(chan struct{}, 1), loc: loc}
	f.refresh <- struct{}{}
	if loc.validator != "" {
		f.validators.Store(loc.url.Host, loc.validator)
	}
	return f
}

func (f *remoteFile) Size() int64        { return f.id.Size }
func (f *remoteFile) Identity() Identity { return f.id }

// ReadAt fetches p in one request, continued as often as needed. It waits until the client has a connection to spare.
func (f *remoteFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := checkRange(ctx, f, off, int64(len(p))); err != nil || len(p) == 0 {
		return 0, err
	}
	if err := f.c.conns.Acquire(ctx, 1); err != nil {
		return 0, context.Cause(ctx)
	}
	defer f.c.conns.Release(1)
	r := &rangeReader{ctx: ctx, f: f, at: off, end: off + int64(len(p))}
	defer r.Close()
	n, err := io.ReadFull(r, p)
	if err != nil {
		return n, err
	}
	return n, nil
}

// Stream reads [off, off+n) through one request, continued as often as needed.
func (f *remoteFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := checkRange(ctx, f, off, n); err != nil {
		return nil, err
	}
	return &rangeReader{ctx: ctx, f: f, at: off, end: off + n}, nil
}

// where returns an address of the file that is fresh and isn't the one that was refused. Readers that need
// a new one at the same time share it. fresh tells that the origin was asked just now for this reader.
func (f *remoteFile) where(ctx context.Context, old *location, a *attempts) (loc *location, fresh bool, err error) {
	usable := func() *location {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.loc == old || !f.loc.refreshAt.IsZero() && !time.Now().Before(f.loc.refreshAt) {
			return nil
		}
		return f.loc
	}
	if loc := usable(); loc != nil {
		return loc, false, nil
	}
	select {
	case <-f.refresh:
		defer func() { f.refresh <- struct{}{} }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	if loc := usable(); loc != nil {
		return loc, false, nil
	}
	if loc, err = f.locate(ctx, a); err != nil {
		return nil, false, err
	}
	if err := f.same(loc); err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	f.loc = loc
	f.mu.Unlock()
	return loc, true, nil
}

// same compares what the origin says now with what it said first.
func (f *remoteFile) same(loc *location) error {
	if loc.size != f.id.Size {
		return changed("it had %d bytes, now it has %d", f.id.Size, loc.size)
	}
	known := f.id.ETag
	if f.id.SHA256 != "" {
		known = f.id.SHA256
	}
	if loc.etag != known || loc.commit != f.id.Commit {
		return changed("it was %.80q, now it is %.80q", printable(known), printable(loc.etag))
	}
	return nil
}

// rangeReader reads [at, end) of a file, request after request, until all bytes are there or no progress is made.
type rangeReader struct {
	ctx     context.Context
	f       *remoteFile
	at, end int64 // the next byte and the end of the range

	body  io.ReadCloser // the current answer
	take  int64         // bytes of it that are still wanted
	whole bool          // it goes on behind the range: the server gave the whole file

	tries    attempts
	gained   int64     // bytes since the current answer began
	refusals int       // of fresh addresses, since the last progress
	wrong    int       // bad answers since the last progress
	old      *location // the last address that was refused
	err      error     // sticky
}

// Read implements io.Reader.
func (r *rangeReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.read(p)
	if err != nil {
		r.drop()
		if err != io.EOF {
			err = r.describe(err)
		}
		r.err = err
	}
	return n, err
}

func (r *rangeReader) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.at < r.end {
		if r.ctx.Err() != nil { // buffered bytes would hide it
			return 0, r.ctx.Err()
		}
		if r.body == nil {
			if err := r.connect(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.take)])
		if n > 0 {
			r.take -= int64(n)
			r.gained += int64(n)
			r.tries.failures, r.refusals, r.wrong = 0, 0, 0
			if r.take == 0 {
				if err := r.finish(err); err != nil {
					return 0, err
				}
			}
			r.at += int64(n)
			return n, nil // an error that came along comes again
		}
		if err != nil {
			if err := r.cut(err); err != nil {
				return 0, err
			}
		}
	}
	return 0, io.EOF
}

// finish ends an answer whose last wanted byte has come.
func (r *rangeReader) finish(err error) error {
	if !r.whole && err != io.EOF {
		err := isOver(r.body)
		var wrong *answerError
		if errors.As(err, &wrong) {
			return err
		}
		// All bytes are there. A connection that breaks now is just not used again.
	}
	r.drop()
	return nil
}

// goodProgress is how many bytes an answer must have given for the next request to follow without a wait.
const goodProgress = 64 << 10

// cut counts a failure inside a body and waits before the next request.
func (r *rangeReader) cut(err error) error {
	r.drop()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.tries.failures++; r.tries.failures > r.f.c.retries {
		return fault.WithHint(fault.New(fault.Network, "the connection breaks again and again: %s", reason(err)), "check the connection and try again")
	}
	r.f.c.logf("%s: cut at byte %d of %d (%s), continuing there", r.f.id, r.at, r.f.id.Size, reason(err))
	if r.gained >= goodProgress {
		return nil
	}
	return r.f.c.pause(r.ctx, &r.tries)
}

// connect asks for the rest of the range until an answer fits. Refused addresses are renewed: once if the address
// was an old one, twice more if it was fresh. Answers that don't fit are given one more chance.
func (r *rangeReader) connect() error {
	for {
		loc, fresh, err := r.f.where(r.ctx, r.old, &r.tries)
		if err != nil {
			return err
		}
		err = r.ask(loc)
		var wrong *answerError
		if !errors.As(err, &wrong) {
			return err
		}
		switch wrong.verdict {
		case fatal:
			return wrong.err
		case refused:
			if !fresh {
				r.old = loc
				r.f.c.logf("%s: %v; asking for a new address", r.f.id, wrong.err)
				continue
			}
			if r.refusals++; r.refusals >= 2 {
				return fault.WithHint(fmt.Errorf("fresh addresses are refused: %w", wrong.err), "the reason is the server's; it may be a firewall, a clock, or access that was withdrawn")
			}
			r.old = loc
		case bad:
			if r.wrong++; r.wrong > 1 {
				return fault.WithHint(wrong.err, "the server or a proxy on the way is broken; no byte of that answer was used")
			}
			r.f.c.logf("%s: %v; asking once more", r.f.id, wrong.err)
		}
		if err := r.f.c.pause(r.ctx, &r.tries); err != nil {
			return err
		}
	}
}

// ask makes one request for [at, end) at an address and takes the answer if it fits.
func (r *rangeReader) ask(loc *location) error {
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", r.at, r.end-1)}}
	resp, u, err := r.f.c.walk(r.ctx, http.MethodGet, loc.url, header, anywhere, &r.tries)
	if err != nil {
		return err
	}
	skip, take, err := r.f.checkAnswer(resp, u, r.at, r.end)
	if err != nil {
		resp.Body.Close()
		return err
	}
	r.body, r.take, r.gained = resp.Body, take, 0
	r.whole = skip+take < resp.ContentLength
	if skip > 0 {
		if _, err := io.CopyN(io.Discard, r.body, skip); err != nil {
			return r.cut(err)
		}
	}
	return nil
}

func (r *rangeReader) drop() {
	if r.body != nil {
		r.body.Close()
		r.body = nil
	}
}

// describe adds what was read; cancellation stays as it is.
func (r *rangeReader) describe(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return fault.New(kindOr(err, fault.Network), "reading %s at byte %d: %w", r.f.id, r.at, err)
}

// Close ends the transfer. Reads fail afterwards.
func (r *rangeReader) Close() error {
	r.drop()
	if r.err == nil {
		r.err = errClosed
	}
	return nil
}

var errClosed = errors.New("the stream is closed")
