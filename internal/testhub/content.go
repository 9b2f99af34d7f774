package testhub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// serveContent is the content server: signed links and plain files.
func (h *Hub) serveContent(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.checkLeak(r)
	stage := Files
	f := h.linked[r.URL.Path]
	if f == nil {
		stage, f = Plain, h.plain[r.URL.Path]
	}
	fault := h.strike(stage, r.URL.Path)
	refusal := ""
	if stage == Files {
		refusal = h.checkLink(r)
	}
	h.mu.Unlock()
	if f == nil {
		h.answer(w, r, stage, http.StatusNotFound, "no such file\n")
		return
	}
	if refusal != "" || fault.Kind == RefusedLink {
		w.Header().Set("Content-Type", "application/xml")
		if refusal == "" {
			refusal = "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match</Message><StringToSign>" + r.URL.RawQuery + "</StringToSign></Error>"
		}
		h.answer(w, r, stage, http.StatusForbidden, refusal)
		return
	}
	h.serveFile(w, r, stage, f, fault)
}

// checkLink returns why a signed link is refused. The caller holds h.mu.
func (h *Hub) checkLink(r *http.Request) string {
	q := r.URL.Query()
	date, err := time.Parse(signDate, q.Get("X-Amz-Date"))
	life, err2 := strconv.Atoi(q.Get("X-Amz-Expires"))
	age, err3 := strconv.Atoi(q.Get("X-Age"))
	switch {
	case err != nil || err2 != nil || err3 != nil || q.Get("X-Amz-Signature") != sign(r.URL.Path, q.Get("X-Amz-Date"), life, age):
		return "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match</Message></Error>"
	case age < h.linkAge || time.Now().After(date.Add(time.Duration(life)*time.Second+time.Second)):
		return "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
	}
	return ""
}

// serveElsewhere redirects to the content server.
func (h *Hub) serveElsewhere(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.checkLeak(r)
	h.mu.Unlock()
	w.Header().Set("Location", h.content.base+r.URL.RequestURI())
	h.answer(w, r, Elsewhere, http.StatusFound, "")
}

// part is an answer to a request for a file, before faults.
type part struct {
	status      int
	first, size int64 // of the body, in the file
	total       int64
	body        io.ReaderAt
	length      int64 // Content-Length; -1 is none
	after       int64 // where Cut, Stall and ShortBody strike; -1 is nowhere
}

// serveFile answers with a file or a range of it.
func (h *Hub) serveFile(w http.ResponseWriter, r *http.Request, stage Stage, f *file, fault Fault) {
	total := f.Content.Size()
	if fault.Kind == Shrunk {
		total = min(total, fault.After)
	}
	header := w.Header()
	etag := `"` + f.etag + `"`
	if stage == Files {
		etag = `"content-` + f.etag + `"` // a storage service has validators of its own
	}
	if fault.Kind == OtherETag {
		etag = `"another"`
	}
	header.Set("ETag", etag)
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Type", "application/octet-stream")
	for key, values := range fault.Header {
		header[key] = values
	}
	p := part{http.StatusOK, 0, total, total, f.Content, total, -1}
	if first, last, ok := parseRange(r.Header.Get("Range"), total); ok && fault.Kind != WholeFile {
		if first >= total {
			header.Set("Content-Range", fmt.Sprintf("bytes */%d", total))
			h.answer(w, r, stage, http.StatusRequestedRangeNotSatisfiable, "")
			return
		}
		p = part{http.StatusPartialContent, first, last - first + 1, total, f.Content, last - first + 1, -1}
	}
	if h.disturb(w, r, stage, fault, &p) {
		return
	}
	if p.status == http.StatusPartialContent || fault.Kind == PartAs200 {
		if header.Get("Content-Range") == "" && fault.Kind != NoContentRange && fault.Kind != Multipart {
			header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", p.first, p.first+p.size-1, p.total))
		}
	}
	if p.length >= 0 {
		header.Set("Content-Length", strconv.FormatInt(p.length, 10))
	}
	w.WriteHeader(p.status)
	if r.Method == http.MethodHead {
		h.note(r, stage, p.status, 0)
		return
	}
	h.send(w, r, stage, fault, p)
}

// disturb applies a fault to an answer. done tells that it gave an answer of its own.
func (h *Hub) disturb(w http.ResponseWriter, r *http.Request, stage Stage, fault Fault, p *part) (done bool) {
	header := w.Header()
	switch fault.Kind {
	case Reset:
		h.note(r, stage, 0, 0)
		panic(http.ErrAbortHandler)
	case Status:
		if fault.Wait > 0 {
			header.Set("Retry-After", strconv.Itoa(int(fault.Wait/time.Second)))
		}
		h.answer(w, r, stage, fault.Status, "busy\n")
		return true
	case HTMLPage:
		header.Set("Content-Type", "text/html; charset=utf-8")
		h.answer(w, r, stage, http.StatusOK, "<!doctype html><title>Log in</title>")
		return true
	case XMLPage:
		header.Set("Content-Type", "application/xml")
		h.answer(w, r, stage, http.StatusOK, "<Error><Code>InternalError</Code></Error>")
		return true
	case Unsatisfiable, UnsatisfiableBare:
		if fault.Kind == Unsatisfiable {
			header.Set("Content-Range", fmt.Sprintf("bytes */%d", p.total))
		}
		h.answer(w, r, stage, http.StatusRequestedRangeNotSatisfiable, "")
		return true
	case Loop:
		header.Set("Location", r.URL.RequestURI())
		h.answer(w, r, stage, http.StatusFound, "")
		return true
	case Detour:
		header.Set("Location", h.elsewhere.base+r.URL.RequestURI())
		h.answer(w, r, stage, http.StatusFound, "")
		return true
	case PartAs200:
		p.status = http.StatusOK
	case ShortPart:
		p.size = min(p.size, fault.After)
		p.length = p.size
	case Chunked:
		p.length = -1
	case WrongStart:
		p.first += min(fault.After, p.size-1)
		p.size = min(p.size, p.total-p.first)
		p.length = p.size
	case LyingStart:
		header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", p.size-1, p.total))
	case WrongTotal:
		p.total += 1000
	case WrongLength:
		p.size++
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", p.first, p.first+p.size-2, p.total))
		p.length = p.size
		p.body = padded{p.body}
	case LongBody:
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", p.first, p.first+p.size-1, p.total))
		p.size += fault.After
		p.length = -1
		p.body = padded{p.body}
	case ShortBody:
		p.length, p.after = -1, fault.After
	case Cut, Stall:
		p.after = fault.After
	case Compressed:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.Copy(z, io.NewSectionReader(p.body, p.first, p.size))
		z.Close()
		header.Set("Content-Encoding", "gzip")
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", p.first, p.first+p.size-1, p.total))
		p.body, p.first, p.size, p.length = bytes.NewReader(b.Bytes()), 0, int64(b.Len()), int64(b.Len())
	case Multipart:
		header.Set("Content-Type", "multipart/byteranges; boundary=x")
		text := fmt.Sprintf("--x\r\nContent-Range: bytes %d-%d/%d\r\n\r\n", p.first, p.first+p.size-1, p.total)
		b := make([]byte, p.size)
		p.body.ReadAt(b, p.first)
		text += string(b) + "\r\n--x--\r\n"
		p.body, p.first, p.size, p.length = strings.NewReader(text), 0, int64(len(text)), int64(len(text))
	}
	return false
}

// padded gives zeros behind the end of a file.
type padded struct{ io.ReaderAt }

func (p padded) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	if err == io.EOF {
		clear(b[n:])
		return len(b), nil
	}
	return n, err
}

// send writes the body piece by piece, as far as the fault allows.
func (h *Hub) send(w http.ResponseWriter, r *http.Request, stage Stage, fault Fault, p part) {
	h.set(func() {
		h.parallel++
		h.peak = max(h.peak, h.parallel)
	})
	sent := int64(0)
	defer func() {
		h.set(func() { h.parallel-- })
		h.note(r, stage, p.status, sent)
	}()
	piece := int64(256 << 10)
	if fault.Kind == Slow {
		piece = 4 << 10
	}
	b := make([]byte, min(piece, max(p.size, 1)))
	for sent < p.size {
		n := min(int64(len(b)), p.size-sent)
		if p.after >= 0 {
			n = min(n, p.after-sent)
			if n == 0 {
				w.(http.Flusher).Flush()
				h.breakOff(r, fault)
				return
			}
		}
		if fault.Kind == Slow && !h.sleep(r, fault.Wait) {
			return
		}
		if got, err := p.body.ReadAt(b[:n], p.first+sent); int64(got) < n {
			panic(fmt.Sprintf("testhub: content fails at byte %d: %v", p.first+sent, err))
		}
		n2, err := w.Write(b[:n])
		sent += int64(n2)
		if err != nil {
			return
		}
	}
}

// breakOff ends a body in the middle.
func (h *Hub) breakOff(r *http.Request, fault Fault) {
	switch fault.Kind {
	case ShortBody:
		return // ends the chunks in good order
	case Stall:
		h.sleep(r, time.Hour)
	}
	panic(http.ErrAbortHandler)
}

// sleep waits; it reports false if the client or the hub has gone meanwhile.
func (h *Hub) sleep(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-h.stop:
	}
	return false
}

// answer sends a short body.
func (h *Hub) answer(w http.ResponseWriter, r *http.Request, stage Stage, status int, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		io.WriteString(w, body)
	}
	h.note(r, stage, status, int64(len(body)))
}

func (h *Hub) note(r *http.Request, stage Stage, status int, sent int64) {
	h.set(func() {
		h.requests = append(h.requests, Request{stage, r.Method, r.URL.Path, r.Header.Get("Range"), status, sent})
	})
}

// parseRange reads a single range. Everything else, several ranges too, means the whole file.
func parseRange(header string, total int64) (first, last int64, ok bool) {
	span, ok := strings.CutPrefix(header, "bytes=")
	from, to, ok2 := strings.Cut(span, "-")
	if !ok || !ok2 {
		return 0, 0, false
	}
	n, errTo := strconv.ParseUint(to, 10, 63)
	if from == "" {
		return max(0, total-int64(n)), total - 1, errTo == nil
	}
	f, errFrom := strconv.ParseUint(from, 10, 63)
	if errFrom != nil || to != "" && (errTo != nil || n < f) {
		return 0, 0, false
	}
	last = total - 1
	if to != "" {
		last = min(last, int64(n))
	}
	return int64(f), last, true
}
