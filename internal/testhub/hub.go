// Package testhub is a model hub on the loopback interface: a real HTTP server that speaks the hub's interface and, on
// demand, misbehaves the way real servers and networks do.
//
// Start gives a hub with no repositories. Fill it with [Hub.Repo] and [Repo.Add], give its [Hub.Endpoint] to a client,
// and let it fail with [Hub.Fault]. Files are byte slices, a file system, or anything that can read at an offset, so
// that weights can be computed on demand.
//
// Like the real one, the hub sends large files through signed links on a second server with another address, the
// content server, which must never see a token: [Hub.Leaks] lists every request that brought one.
package testhub

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Content is the bytes of a file. bytes.Reader and io.SectionReader are contents.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Hub is a running hub. All methods are safe for concurrent use.
type Hub struct {
	api, content, elsewhere *server
	stop                    chan struct{} // closed by Close: ends stalls

	mu       sync.Mutex
	repos    map[string]*Repo
	renamed  map[string]string
	plain    map[string]*file
	linked   map[string]*file // by the path of the signed link
	faults   []*fault
	requests []Request
	leaks    []string
	active   int // requests in work
	parallel int // of them, those sending a file
	peak     int
	closers  []io.Closer

	token    string
	life     time.Duration
	pageSize int
	linkAge  int // links of earlier ages are refused
}

type server struct {
	http *http.Server
	base string
}

// Start starts a hub on 127.0.0.1. Close it.
func Start() (*Hub, error) {
	h := &Hub{
		stop: make(chan struct{}), repos: map[string]*Repo{}, renamed: map[string]string{}, plain: map[string]*file{},
		linked: map[string]*file{}, life: time.Hour, pageSize: 1000,
	}
	for _, s := range []struct {
		at      **server
		handler http.HandlerFunc
	}{{&h.api, h.serveHub}, {&h.content, h.serveContent}, {&h.elsewhere, h.serveElsewhere}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("starting a hub on the loopback interface: %w", err)
		}
		*s.at = &server{&http.Server{Handler: h.counted(s.handler)}, "http://" + l.Addr().String()}
		go (*s.at).http.Serve(l)
	}
	return h, nil
}

// Close stops the hub and cuts every connection.
func (h *Hub) Close() error {
	close(h.stop)
	var errs []error
	for _, s := range []*server{h.api, h.content, h.elsewhere} {
		if s != nil {
			errs = append(errs, s.http.Close())
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Endpoint returns the base address to be used as HF_ENDPOINT.
func (h *Hub) Endpoint() string { return h.api.base }

// SetToken makes the hub know one token. Requests with another one are refused, those without are anonymous.
func (h *Hub) SetToken(token string) { h.set(func() { h.token = token }) }

// SetLinkLife sets how long signed links are good, an hour at the start.
func (h *Hub) SetLinkLife(d time.Duration) { h.set(func() { h.life = d }) }

// SetPageSize sets the number of entries on a page of a listing.
func (h *Hub) SetPageSize(n int) { h.set(func() { h.pageSize = n }) }

// ExpireLinks makes the content server refuse every link given out so far.
func (h *Hub) ExpireLinks() { h.set(func() { h.linkAge++ }) }

// Rename gives a repository another name; requests for the old one are redirected.
func (h *Hub) Rename(from, to string) {
	h.set(func() {
		h.repos[to], h.renamed[from] = h.repos[from], to
		delete(h.repos, from)
	})
}

// Plain serves a file on a plain web server, which is no hub, and returns its address.
func (h *Hub) Plain(name string, c Content) string {
	f := newFile(File{Path: name, Content: c, LFS: true})
	h.set(func() { h.plain["/plain/"+name] = f })
	return h.content.base + "/plain/" + escapePath(name)
}

// Moved returns an address on yet another host that redirects to the given one.
func (h *Hub) Moved(address string) string {
	return strings.Replace(address, h.content.base, h.elsewhere.base, 1)
}

func (h *Hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// Repo returns the repository of that name ("org/name", "datasets/org/name"), a new one if there is none.
func (h *Hub) Repo(name string) *Repo {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.repos[name] == nil {
		h.repos[name] = &Repo{hub: h, name: name, staged: map[string]*file{}, commits: map[string][]*file{}, branches: map[string]string{}}
	}
	return h.repos[name]
}

// Repo is a repository with its commits.
type Repo struct {
	hub      *Hub
	name     string
	staged   map[string]*file
	dirty    bool
	commits  map[string][]*file // files by path, in order
	branches map[string]string
	gated    bool
	private  bool
}

// File describes a file with everything that Add guesses.
type File struct {
	Path    string
	Content Content
	LFS     bool   // large: sent through the content server
	SHA256  string // of the content of an LFS file; "" computes it unless the file is larger than 64 MiB, which then has none
}

const maxHashed = 64 << 20

type file struct {
	File
	etag string // SHA-256 or Git blob id
	oid  string // Git blob id; of the pointer for LFS files
}

// Add stages a file. Those with a model's extension and those above 10 MiB become LFS files.
func (r *Repo) Add(name string, c Content) *Repo {
	lfs := c.Size() > 10<<20 || slices.Contains([]string{".gguf", ".safetensors", ".bin", ".dat"}, path.Ext(name))
	return r.AddFile(File{Path: name, Content: c, LFS: lfs})
}

// AddFile stages a file.
func (r *Repo) AddFile(f File) *Repo {
	n := newFile(f)
	r.hub.set(func() { r.staged[f.Path], r.dirty = n, true })
	return r
}

// AddFS stages all files of a file system.
func (r *Repo) AddFS(fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		if at, ok := f.(io.ReaderAt); ok {
			info, err := f.Stat()
			if err != nil {
				return err
			}
			r.hub.set(func() { r.hub.closers = append(r.hub.closers, f) })
			r.Add(name, io.NewSectionReader(at, 0, info.Size()))
			return nil
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err == nil {
			r.Add(name, io.NewSectionReader(strings.NewReader(string(b)), 0, int64(len(b))))
		}
		return err
	})
}

// Remove stages the removal of a file.
func (r *Repo) Remove(name string) {
	r.hub.set(func() {
		delete(r.staged, name)
		r.dirty = true
	})
}

// Push makes a commit of the staged files and moves a branch to it. The commit depends on nothing but the
// repository's name and its files. What is staged when main is first asked for is pushed by itself.
func (r *Repo) Push(branch string) (commit string) {
	r.hub.set(func() { commit = r.push(branch) })
	return commit
}

func (r *Repo) push(branch string) string {
	sum := sha1.New()
	fmt.Fprintln(sum, r.name)
	var list []*file
	for _, f := range r.staged {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *file) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range list {
		fmt.Fprintln(sum, f.Path, f.Content.Size(), f.etag)
	}
	commit := hex.EncodeToString(sum.Sum(nil))
	r.commits[commit], r.branches[branch], r.dirty = list, commit, false
	return commit
}

// Gate makes the files (not the listing) need the hub's token.
func (r *Repo) Gate() { r.hub.set(func() { r.gated = true }) }

// Hide makes the repository invisible without the hub's token.
func (r *Repo) Hide() { r.hub.set(func() { r.private = true }) }

func newFile(f File) *file {
	size := f.Content.Size()
	n := &file{File: f}
	if !f.LFS {
		n.oid = gitID(io.NewSectionReader(f.Content, 0, size), size)
		n.etag = n.oid
		return n
	}
	switch {
	case f.SHA256 != "":
		n.etag = f.SHA256
	case size <= maxHashed:
		sum := sha256.New()
		io.Copy(sum, io.NewSectionReader(f.Content, 0, size))
		n.etag = hex.EncodeToString(sum.Sum(nil))
	default:
		n.etag = fmt.Sprintf("unhashed-%d", size)
	}
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", n.etag, size)
	n.oid = gitID(strings.NewReader(pointer), int64(len(pointer)))
	return n
}

// gitID returns the Git blob id of a file.
func gitID(r io.Reader, size int64) string {
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", size)
	io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil))
}

// link returns a signed address of a file on the content server. The caller holds h.mu.
func (h *Hub) link(repo, commit string, f *file) string {
	id := sha1.Sum([]byte(repo + " " + commit + " " + f.Path))
	at := "/x/" + hex.EncodeToString(id[:]) + "/" + path.Base(f.Path)
	h.linked[at] = f
	date := time.Now().UTC().Format(signDate)
	return fmt.Sprintf("%s%s?X-Amz-Date=%s&X-Amz-Expires=%d&X-Age=%d&X-Amz-Signature=%s",
		h.content.base, escapePath(at), date, int(h.life/time.Second), h.linkAge, sign(at, date, int(h.life/time.Second), h.linkAge))
}

const signDate = "20060102T150405Z"

func sign(at, date string, life, age int) string {
	m := hmac.New(sha256.New, []byte("testhub"))
	fmt.Fprint(m, at, " ", date, " ", life, " ", age)
	return hex.EncodeToString(m.Sum(nil))
}

// Stage is a part of the hub.
type Stage string

// The stages of a download.
const (
	API       Stage = "api"       // revisions and listings
	Resolve   Stage = "resolve"   // metadata and redirects of files, and small files themselves
	Files     Stage = "files"     // the content server
	Plain     Stage = "plain"     // files that belong to no hub
	Elsewhere Stage = "elsewhere" // the host that only redirects
)

// Request is a request that was answered.
type Request struct {
	Stage  Stage
	Method string
	Path   string
	Range  string // the Range header
	Status int
	Bytes  int64 // of the body, as far as they were sent
}

// counted counts the requests in work.
func (h *Hub) counted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.set(func() { h.active++ })
		defer h.set(func() { h.active-- })
		next(w, r)
	}
}

// Requests returns all requests so far in the order of their end. It waits a moment for those still in work, because
// a client has the last byte before the server has noted the request.
func (h *Hub) Requests() []Request {
	for range 500 {
		h.mu.Lock()
		idle := h.active == 0
		h.mu.Unlock()
		if idle {
			break
		}
		time.Sleep(time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Count returns how many requests of a stage were answered and the bytes they sent.
func (h *Hub) Count(stage Stage) (requests int, bytes int64) {
	for _, r := range h.Requests() {
		if r.Stage == stage {
			requests++
			bytes += r.Bytes
		}
	}
	return requests, bytes
}

// Peak returns the largest number of file requests that were in work at the same time.
func (h *Hub) Peak() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peak
}

// ForgetRequests starts the counts again.
func (h *Hub) ForgetRequests() { h.set(func() { h.requests, h.peak = nil, 0 }) }

// Leaks returns the requests that brought a token to a server that must not see it.
func (h *Hub) Leaks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.leaks)
}

// checkLeak notes a token on a server that isn't the hub. The caller holds h.mu.
func (h *Hub) checkLeak(r *http.Request) {
	if r.Header.Get("Authorization") != "" || h.token != "" && (strings.Contains(r.RequestURI, h.token) || strings.Contains(fmt.Sprint(r.Header), h.token)) {
		h.leaks = append(h.leaks, r.Method+" "+r.Host+r.URL.Path)
	}
}
