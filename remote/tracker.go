package remote

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"

	"gguf-forge/internal/fault"
)

// Tracker compares a source with its known digest while its bytes pass by for another purpose. Bytes that pass in
// order from 0 to the end are hashed once; bytes seen again are ignored. As soon as a byte is skipped the source
// can't be checked any more and Done says so: no digest of a part is ever taken for one of the whole.
// It is safe for concurrent use, but the order of the calls is what counts.
type Tracker struct {
	name string
	size int64
	want string

	mu   sync.Mutex
	sum  hash.Hash
	next int64
	gap  bool
}

// NewTracker returns a tracker for all bytes of s. The digest is the SHA-256 of its Identity, else the Git blob id
// that small files of a hub have as their ETag.
func NewTracker(s Source) *Tracker {
	id := s.Identity()
	t := &Tracker{name: id.String(), size: s.Size(), want: id.SHA256}
	switch {
	case len(id.SHA256) == 64:
		t.sum = sha256.New()
	case isGitID(id):
		t.want = id.ETag
		t.sum = sha1.New()
		t.sum.Write([]byte("blob " + strconv.FormatInt(t.size, 10) + "\x00"))
	}
	return t
}

// isGitID reports whether the ETag of an identity is the Git blob id of its content.
func isGitID(id Identity) bool { return (id.Kind == "hub" || id.Kind == "cache") && isCommit(id.ETag) }

// Checkable reports whether the whole source has a digest and every byte so far passed in order.
func (t *Tracker) Checkable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum != nil && !t.gap
}

// Observe takes the bytes p that stand at off in the source. It keeps nothing of p.
func (t *Tracker) Observe(off int64, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum == nil || t.gap || off+int64(len(p)) <= t.next {
		return
	}
	if off > t.next || off+int64(len(p)) > t.size {
		t.gap = true
		return
	}
	p = p[t.next-off:]
	t.sum.Write(p)
	t.next += int64(len(p))
}

// Done compares the digests. checked is false, without an error, if the source has no known digest or not all of it
// passed in order; a difference is a fault.Verification error that names the source.
func (t *Tracker) Done() (checked bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum == nil || t.gap || t.next != t.size {
		return false, nil
	}
	if got := hex.EncodeToString(t.sum.Sum(nil)); got != t.want {
		return true, fault.WithHint(
			fault.New(fault.Verification, "%s: the bytes received have digest %s, the hub promised %s", t.name, got, t.want),
			"try again; if the difference stays, the source or a proxy on the way is damaged")
	}
	return true, nil
}
