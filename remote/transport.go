package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// newTransport returns a transport for bulk transfers: HTTP/1.1 only, because several connections carry more than
// one shared HTTP/2 window, and nothing that changes bodies on the way.
func newTransport() http.RoundTripper {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true,
		Protocols:              protocols,
	}
}

var errStalled = errors.New("the transfer stood still")

// watchdog cuts a request whose header or next body byte doesn't come within limit. The clock runs only while
// somebody waits: a slow consumer is no stall.
type watchdog struct {
	base  http.RoundTripper
	limit time.Duration
}

func (w watchdog) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(w.limit, func() { cancel(errStalled) })
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel(nil)
		return nil, stallOr(ctx, err)
	}
	if location := resp.Header.Get("Location"); location != "" {
		// net/http would print an unreadable address, with its signature, in an error.
		if _, err := req.URL.Parse(location); err != nil {
			resp.Header.Del("Location")
		}
	}
	resp.Body = &watchedBody{ctx, cancel, resp.Body, timer, w.limit}
	return resp, nil
}

type watchedBody struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	timer  *time.Timer
	limit  time.Duration
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	n, err := b.body.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		err = stallOr(b.ctx, err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.timer.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}

// stallOr says that the watchdog was the reason of err, if it was.
func stallOr(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStalled {
		return errStalled
	}
	return err
}

// refuseAll is the transport of an offline client.
type refuseAll struct{}

func (refuseAll) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("offline mode: no request is made")
}
