package remote

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"gguf-forge/internal/fault"
)

// contentRange is a parsed "bytes first-last/total".
type contentRange struct{ first, last, total int64 }

func parseContentRange(v string) (contentRange, bool) {
	span, total, ok := strings.Cut(strings.TrimPrefix(v, "bytes "), "/")
	first, last, ok2 := strings.Cut(span, "-")
	if !ok || !ok2 || !strings.HasPrefix(v, "bytes ") {
		return contentRange{}, false
	}
	var r contentRange
	var err [3]error
	r.first, err[0] = parseSize(first)
	r.last, err[1] = parseSize(last)
	r.total, err[2] = parseSize(total)
	if err != [3]error{} || r.first > r.last || r.last >= r.total {
		return contentRange{}, false
	}
	return r, true
}

// parseSize reads a decimal number without sign.
func parseSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// verdict says what to do with an answer that can't be used.
type verdict int

const (
	fatal   verdict = iota // report it
	refused                // the address is no longer good: ask the origin for a new one
	bad                    // not what was asked for: ask once more, then report it
)

type answerError struct {
	verdict verdict
	err     error
}

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

func reject(v verdict, format string, args ...any) error {
	return &answerError{v, fault.New(fault.Network, format, args...)}
}

func changed(format string, args ...any) error {
	err := fault.New(fault.Verification, "it changed since it was opened: %s", fmt.Sprintf(format, args...))
	return &answerError{fatal, fault.WithHint(err, "start again, so that all bytes come from one version")}
}

// skipLimit is how many bytes are thrown away to reach a range on a server that can't give ranges.
const skipLimit = 1 << 20

// checkAnswer decides whether an answer from u to a request for [at, end) may be used. It returns how many bytes
// of the body to skip and how many of those that follow are wanted. Nothing of a rejected answer reaches anybody.
func (f *remoteFile) checkAnswer(resp *http.Response, u *url.URL, at, end int64) (skip, take int64, err error) {
	size := f.id.Size
	switch status := resp.StatusCode; {
	case status == http.StatusOK || status == http.StatusPartialContent:
	case status == http.StatusRequestedRangeNotSatisfiable:
		if n := unsatisfiedTotal(resp); n >= 0 && n != size {
			return 0, 0, changed("it had %d bytes, now it has %d", size, n)
		}
		// The range is inside the file, so the server is wrong, or its address is.
		return 0, 0, reject(refused, "%s refuses a valid range with 416%s", u.Host, requestID(resp))
	case transient(status):
		wait, _ := demanded(resp)
		if wait > longestDemand {
			return 0, 0, reject(fatal, "%s answers %d and asks to wait %v", u.Host, status, wait)
		}
		return 0, 0, reject(fatal, "%s still answers %d %s after several attempts%s", u.Host, status, http.StatusText(status), requestID(resp))
	case f.c.isHub(u):
		return 0, 0, &answerError{fatal, f.c.hubError(resp, u, f.id.String())}
	case status == http.StatusForbidden || status == http.StatusUnauthorized || status == http.StatusBadRequest ||
		status == http.StatusGone || status == http.StatusNotFound:
		return 0, 0, reject(refused, "%s answers %d %s%s%s", u.Host, status, http.StatusText(status), colon(f.c.errorText(resp)), requestID(resp))
	default:
		return 0, 0, reject(fatal, "%s answers %d %s%s", u.Host, status, http.StatusText(status), requestID(resp))
	}

	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return 0, 0, reject(bad, "%s sends the file encoded as %.20q, so offsets have no meaning", u.Host, printable(e))
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/html", "application/xhtml+xml", "application/xml", "text/xml":
		return 0, 0, reject(bad, "%s sends an error page (%s) instead of the file", u.Host, kind)
	case "multipart/byteranges":
		return 0, 0, reject(bad, "%s sends a multipart answer to a single range", u.Host)
	}
	header := resp.Header.Get("Content-Range")
	if header == "" {
		if resp.StatusCode == http.StatusPartialContent {
			return 0, 0, reject(bad, "%s sends a part without saying which", u.Host)
		}
		return f.checkWhole(resp, u, at, end)
	}
	// Some servers give a correct part with status 200: the header decides.
	r, ok := parseContentRange(header)
	switch {
	case !ok:
		return 0, 0, reject(bad, "%s sends an unreadable Content-Range %.60q", u.Host, printable(header))
	case r.total != size:
		return 0, 0, changed("it had %d bytes, now it has %d", size, r.total)
	case r.first != at || r.last >= end:
		return 0, 0, reject(bad, "%s sends bytes %d-%d instead of %d-%d", u.Host, r.first, r.last, at, end-1)
	}
	take = r.last - r.first + 1
	if resp.ContentLength >= 0 && resp.ContentLength != take {
		return 0, 0, reject(bad, "%s announces %d bytes for the range %d-%d", u.Host, resp.ContentLength, r.first, r.last)
	}
	return 0, take, f.checkValidator(resp, u)
}

// checkWhole judges an answer with the whole file where a part was asked for.
func (f *remoteFile) checkWhole(resp *http.Response, u *url.URL, at, end int64) (skip, take int64, err error) {
	switch {
	case resp.ContentLength < 0:
		return 0, 0, reject(bad, "%s gives no ranges and no length", u.Host)
	case resp.ContentLength != f.id.Size:
		return 0, 0, changed("it had %d bytes, now it has %d", f.id.Size, resp.ContentLength)
	case at > skipLimit:
		return 0, 0, reject(bad, "%s doesn't give ranges of files, which reading at byte %d needs", u.Host, at)
	}
	return at, end - at, f.checkValidator(resp, u)
}

// checkValidator compares the validator with the first one that the same host sent. Content servers have
// validators of their own, so hosts aren't compared with each other.
func (f *remoteFile) checkValidator(resp *http.Response, u *url.URL) error {
	v := validatorOf(resp)
	if v == "" {
		return nil
	}
	if first, seen := f.validators.LoadOrStore(u.Host, v); seen && first != v {
		return changed("%s now calls it %.80q, before %.80q", u.Host, printable(v), printable(first.(string)))
	}
	return nil
}

// validatorOf returns the ETag of an answer, else its modification time.
func validatorOf(resp *http.Response) string {
	if v := normalETag(resp.Header.Get("ETag")); v != "" {
		return v
	}
	return resp.Header.Get("Last-Modified")
}

// unsatisfiedTotal returns the size that a 416 names, -1 if it names none.
func unsatisfiedTotal(resp *http.Response) int64 {
	if total, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes */"); ok {
		if n, err := parseSize(total); err == nil {
			return n
		}
	}
	return -1
}

// isOver reports whether a body that owes nothing more is really at its end.
func isOver(body io.Reader) error {
	var one [1]byte
	n, err := io.ReadFull(body, one[:])
	if n > 0 {
		return reject(fatal, "the server sends more bytes than it announced")
	}
	if err != io.EOF {
		return err
	}
	return nil
}
