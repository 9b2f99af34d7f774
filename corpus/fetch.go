package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"gguf-forge/internal/fault"
)

// Document is a text from a service, as it stands in a line of a fetched file.
type Document struct {
	ID       string `json:"id"`                 // names it within its service: wikipedia:en:9316
	Revision string `json:"revision,omitempty"` // what of it was received, where the service says so
	Title    string `json:"title,omitempty"`
	SHA256   string `json:"sha256"` // of the text as it was received, before anything was taken off
	Text     string `json:"text"`
}

// Service is where documents come from.
//
// Fetch asks f for documents and adds them to what was received, one after the other. What was received before isn't asked
// for again. An error of Add ends it.
//
// Wants reports whether a document with this id can be one of them, so that nothing else is taken for a part of the result.
type Service interface {
	Fetch(ctx context.Context, f *Fetcher, r Received) error
	Wants(id string) bool
}

// Received are the documents that are there already, from earlier runs too.
type Received interface {
	Has(id string) bool
	Len() int
	Revision(prefix string) string // of a document whose id begins with prefix; "" if there is none
	Add(Document) error
}

// Fetcher asks public services: one request at a time, each a pause after the one before, and later still if the
// service says so. It says in every request who asks.
type Fetcher struct {
	http  *retryablehttp.Client
	agent string
	pause time.Duration
	busy  time.Duration // least wait when a service says it is busy
	last  time.Time     // when the last answer ended
	log   func(string)
}

// FetchOptions are what a Fetcher can be told.
type FetchOptions struct {
	Contact   string        // address or page of whoever asks; Wikimedia wants one
	Pause     time.Duration // between requests; 0: DefaultPause
	FirstWait time.Duration // after a failure, doubled every time; 0: two seconds
	Log       func(string)  // what the user should know; nil: nothing
}

// DefaultPause is the pause that Project Gutenberg asks robots for; the others ask for less.
const DefaultPause = 2 * time.Second

const (
	fetchTries    = 6
	longestWait   = 5 * time.Minute // that a service can ask for
	maxAnswer     = 64 << 20        // bytes of an answer that is read as a whole
	answerTimeout = 2 * time.Minute // until an answer begins
)

// NewFetcher returns a fetcher. version is the program's.
func NewFetcher(version string, opt FetchOptions) (*Fetcher, error) {
	if strings.ContainsFunc(opt.Contact, func(r rune) bool { return r < ' ' || r > '~' || r == '(' || r == ')' }) {
		return nil, fault.New(fault.Usage, "the contact %q can't stand in a request: use an e-mail address or a URL", opt.Contact)
	}
	f := &Fetcher{agent: "gguf-forge/" + version, pause: opt.Pause, log: opt.Log}
	if opt.Contact != "" {
		f.agent += " (" + opt.Contact + ")"
	}
	if f.pause <= 0 {
		f.pause = DefaultPause
	}
	if f.log == nil {
		f.log = func(string) {}
	}
	f.busy = opt.FirstWait
	if opt.FirstWait <= 0 {
		opt.FirstWait, f.busy = 2*time.Second, 5*time.Second
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerTimeout
	f.http = &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: transport},
		RetryMax:     fetchTries,
		RetryWaitMin: opt.FirstWait,
		RetryWaitMax: time.Minute,
		Backoff:      retryablehttp.DefaultBackoff, // honours Retry-After
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if resp != nil && retryAfter(resp) > longestWait {
				return false, nil
			}
			retry, checkErr := retryablehttp.DefaultRetryPolicy(ctx, resp, err)
			if retry {
				f.log("the service did not answer as it should, trying again")
			}
			return retry, checkErr
		},
	}
	return f, nil
}

// retryAfter returns the wait in seconds that an answer asks for, 0 if it asks for none.
func retryAfter(resp *http.Response) time.Duration {
	s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32)
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(s) * time.Second
}

// get makes one request and returns an answer that isn't an error. The caller closes the body and then calls f.ended.
func (f *Fetcher) get(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	if err := sleep(ctx, time.Until(f.last.Add(f.pause))); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.Usage, "%q is no http or https address", address)
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Usage, "%q is no http or https address", address)
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", f.agent)
	resp, err := f.http.Do(req)
	if err != nil {
		f.ended()
		if resp != nil {
			resp.Body.Close()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fault.WithHint(fault.New(fault.Network, "can't reach %s: %w", u.Host, err), "run the same command again to go on")
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	resp.Body.Close()
	f.ended()
	switch where := u.Host + u.Path; resp.StatusCode {
	case http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity:
		return nil, fault.New(fault.BadInput, "%s: there is no such document (%d)", where, resp.StatusCode)
	case http.StatusForbidden, http.StatusTooManyRequests:
		hint := "wait and run the same command again; a contact and a longer pause may help"
		if wait := retryAfter(resp); wait > 0 {
			hint = fmt.Sprintf("wait %v and run the same command again", wait)
		}
		return nil, fault.WithHint(fault.New(fault.Network, "%s refuses to answer (%d)", where, resp.StatusCode), "%s", hint)
	default:
		return nil, fault.WithHint(fault.New(fault.Network, "%s answered %d %s", where, resp.StatusCode, http.StatusText(resp.StatusCode)), "run the same command again to go on")
	}
}

// ended starts the pause before the next request.
func (f *Fetcher) ended() { f.last = time.Now() }

// read makes one request and returns the whole answer.
func (f *Fetcher) read(ctx context.Context, address string, header http.Header) ([]byte, http.Header, error) {
	resp, err := f.get(ctx, address, header)
	if err != nil {
		return nil, nil, err
	}
	defer f.ended()
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		return nil, nil, fault.WithHint(fault.New(fault.Network, "%s: the answer broke off: %w", resp.Request.URL.Host, err), "run the same command again to go on")
	case len(b) > maxAnswer:
		return nil, nil, fault.New(fault.BadInput, "%s: the answer is longer than %d MiB", resp.Request.URL.Host, maxAnswer>>20)
	}
	return b, resp.Header, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
