package testhub

import (
	"net/http"
	"strings"
	"time"
)

// Kind is a way to misbehave.
type Kind int

// The kinds. Those marked legal must not disturb a client.
const (
	Slow              Kind = iota + 1 // waits Wait before every 4 KiB of the body (legal)
	Cut                               // breaks the connection after After bytes of the body
	Stall                             // stands still after After bytes of the body until the client gives up
	Reset                             // breaks the connection before any answer
	Status                            // answers Status, with Retry-After if Wait is set
	WholeFile                         // answers a range with 200 and the whole file
	PartAs200                         // answers a range with 200 and a correct Content-Range (legal)
	ShortPart                         // gives only After bytes of the range, and says so (legal)
	Chunked                           // sends no Content-Length (legal)
	WrongStart                        // sends bytes that begin After later, and says so
	LyingStart                        // sends bytes that begin elsewhere under a Content-Range that begins at 0
	WrongTotal                        // names another total size
	NoContentRange                    // answers 206 without saying which part
	WrongLength                       // announces a Content-Length that isn't the range's
	LongBody                          // sends After bytes more than the range, without a Content-Length
	ShortBody                         // ends a body without a Content-Length after After bytes, as if it were complete
	Compressed                        // sends the range of a gzip of the file
	HTMLPage                          // answers 200 with an HTML page
	XMLPage                           // answers 200 with an XML document
	Multipart                         // answers with multipart/byteranges
	Unsatisfiable                     // answers 416 with the right total
	UnsatisfiableBare                 // answers 416 without a total
	Shrunk                            // behaves as if the file had been cut to After bytes
	OtherETag                         // names another validator
	RefusedLink                       // answers 403 as an object store does for a bad signature
	Loop                              // redirects to itself for ever
	Detour                            // redirects over another host (legal)
	NoMetadata                        // leaves out commit, ETag and size
	OtherCommit                       // answers with another commit
)

// Fault says who misbehaves, how, and how often.
type Fault struct {
	Kind   Kind
	At     Stage         // "" is Files
	Path   string        // only requests whose path ends with it
	Skip   int           // requests that pass first
	Times  int           // requests that it strikes; 0 is all
	After  int64         // see Kind
	Wait   time.Duration // see Kind
	Status int           // of Status
	Header http.Header   // added to the answer
}

type fault struct {
	Fault
	seen int
}

// Fault adds a fault. When several fit a request, the one added first strikes.
func (h *Hub) Fault(f Fault) {
	if f.At == "" {
		f.At = Files
	}
	h.set(func() { h.faults = append(h.faults, &fault{Fault: f}) })
}

// Heal removes all faults.
func (h *Hub) Heal() { h.set(func() { h.faults = nil }) }

// strike returns the fault that strikes this request; its Kind is 0 if none does. The caller holds h.mu.
func (h *Hub) strike(stage Stage, path string) Fault {
	for _, f := range h.faults {
		if f.At != stage || !strings.HasSuffix(path, f.Path) {
			continue
		}
		f.seen++
		if f.seen > f.Skip && (f.Times == 0 || f.seen <= f.Skip+f.Times) {
			return f.Fault
		}
	}
	return Fault{}
}
