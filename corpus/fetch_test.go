package corpus

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

// services is a server on the loopback interface that speaks, as far as they are used here, the documented interfaces of
// MediaWiki's action API, of a Project Gutenberg mirror and of GitHub's REST API.
type services struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	requests []string
	agents   []string
	times    []time.Time
	active   int
	fail     func(w http.ResponseWriter, n int) bool // answers the n-th request in its own way
	random   int
	moved    bool // the branch points to another commit
	edited   bool // article 1 has another text
	archive  []byte
}

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func startServices(t *testing.T) *services {
	s := &services{t: t}
	s.archive = s.makeArchive()
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.Path+"?"+r.URL.RawQuery)
	s.agents = append(s.agents, r.UserAgent())
	s.times = append(s.times, time.Now())
	n := len(s.requests)
	if s.active++; s.active > 1 {
		s.t.Error("two requests at once")
	}
	fail := s.fail
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.active--; s.mu.Unlock() }()
	if fail != nil && fail(w, n) {
		return
	}
	switch {
	case r.URL.Path == "/en/w/api.php":
		s.wiki(w, r)
	case strings.HasPrefix(r.URL.Path, "/cache/epub/"):
		s.book(w, r)
	case strings.HasPrefix(r.URL.Path, "/repos/"):
		s.github(w, r)
	case r.URL.Path == "/archive/"+commitA:
		w.Write(s.archive)
	default:
		http.NotFound(w, r)
	}
}

// wiki answers action=query in formatversion 2. Article n has page id n and revision 1000+n; every fifth has no text.
func (s *services) wiki(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for key, want := range map[string]string{"action": "query", "format": "json", "formatversion": "2", "maxlag": "5"} {
		if q.Get(key) != want {
			s.t.Errorf("%s is %q, want %q", key, q.Get(key), want)
		}
	}
	query := map[string]any{}
	page := func(n int) map[string]any {
		p := map[string]any{"pageid": n, "ns": 0, "title": fmt.Sprint("Article ", n)}
		if strings.Contains(q.Get("prop"), "extracts") {
			if q.Get("explaintext") == "" || q.Get("exlimit") != "1" || q.Get("rvprop") != "ids" {
				s.t.Errorf("query %v", q)
			}
			p["extract"] = s.article(n)
			p["revisions"] = []any{map[string]any{"revid": 1000 + n, "parentid": 1}}
		}
		return p
	}
	switch {
	case q.Get("list") == "random":
		limit, err := strconv.Atoi(q.Get("rnlimit"))
		if err != nil || q.Get("rnnamespace") != "0" {
			s.t.Errorf("query %v", q)
		}
		var list []any
		for range limit {
			s.random = s.random%40 + 1
			list = append(list, map[string]any{"id": s.random, "ns": 0, "title": fmt.Sprint("Article ", s.random)})
		}
		query["random"] = list
	case q.Get("pageids") != "":
		n, err := strconv.Atoi(q.Get("pageids"))
		if err != nil {
			s.t.Errorf("query %v", q)
		}
		query["pages"] = []any{page(n)}
	case q.Get("titles") != "":
		n, err := strconv.Atoi(strings.TrimPrefix(q.Get("titles"), "Article "))
		if err != nil {
			query["pages"] = []any{map[string]any{"ns": 0, "title": q.Get("titles"), "missing": true}}
		} else {
			query["pages"] = []any{page(n)}
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"batchcomplete": true, "query": query})
}

func (s *services) article(n int) string {
	switch {
	case n%5 == 0:
		return ""
	case n == 1 && s.edited:
		return "edited"
	}
	return strings.Repeat(fmt.Sprintf("Text %d <b> \u2028 день\n", n), n)
}

func (s *services) book(w http.ResponseWriter, r *http.Request) {
	var a, b int
	if n, _ := fmt.Sscanf(r.URL.Path, "/cache/epub/%d/pg%d.txt", &a, &b); n != 2 || a != b || a > 100 {
		http.NotFound(w, r)
		return
	}
	start, end := "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***", "*** END OF THE PROJECT GUTENBERG EBOOK A BOOK ***"
	switch a {
	case 2:
		start, end = "***START OF THIS PROJECT GUTENBERG EBOOK A BOOK***", "***END OF THIS PROJECT GUTENBERG EBOOK A BOOK***"
	case 13:
		end = ""
	}
	fmt.Fprintf(w, "\ufeffThe Project Gutenberg eBook\r\nTitle: Book %d\r\n\r\n%s\r\n\r\n\r\nChapter %d\r\n\r\nText.\r\n\r\n%s\r\nlicence\r\n", a, start, a, end)
}

func (s *services) github(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/repos/golang/example/commits/master", "/repos/golang/example/commits/HEAD":
		if r.Header.Get("Accept") != "application/vnd.github.sha" {
			s.t.Errorf("Accept: %q", r.Header.Get("Accept"))
		}
		if s.moved {
			fmt.Fprint(w, commitB)
			return
		}
		fmt.Fprint(w, commitA)
	case "/repos/golang/example/tarball/" + commitA:
		http.Redirect(w, r, s.URL+"/archive/"+commitA, http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

func (s *services) makeArchive() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, data string) {
		if h.Typeflag == tar.TypeReg {
			h.Size, h.Mode = int64(len(data)), 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			s.t.Fatal(err)
		}
		if _, err := w.Write([]byte(data)); err != nil {
			s.t.Fatal(err)
		}
	}
	const top = "golang-example-aaaaaaa/"
	add(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": commitA}}, "") // as git archive writes
	add(&tar.Header{Name: top, Typeflag: tar.TypeDir}, "")
	add(&tar.Header{Name: top + "a.go", Typeflag: tar.TypeReg}, "package a\n")
	add(&tar.Header{Name: top + "b/c.py", Typeflag: tar.TypeReg}, "import os\n")
	add(&tar.Header{Name: top + "b/big.go", Typeflag: tar.TypeReg}, strings.Repeat("x", maxSource+1))
	add(&tar.Header{Name: top + "b/binary.go", Typeflag: tar.TypeReg}, "a\x00b")
	add(&tar.Header{Name: top + "b/empty.go", Typeflag: tar.TypeReg}, "")
	add(&tar.Header{Name: top + "link.go", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
	add(&tar.Header{Name: top + "README.md", Typeflag: tar.TypeReg}, "# Example\n")
	add(&tar.Header{Name: top + "z.go", Typeflag: tar.TypeReg}, "package z\n")
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return gzipped(s.t, b.String())
}

func newTestFetcher(t *testing.T) *Fetcher {
	t.Helper()
	f, err := NewFetcher("test", FetchOptions{Contact: "me@example.org", Pause: time.Nanosecond, FirstWait: time.Millisecond, Log: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *services) wikipedia(w Wikipedia) *Wikipedia {
	w.Endpoint, w.Language = s.URL+"/{language}/w/api.php", "en"
	return &w
}

func readDocuments(t *testing.T, path string) []Document {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []Document
	for line := range bytes.Lines(b) {
		var d Document
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

func TestFetchWikipedia(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Wikipedia
		want []int // articles
	}{
		{"random", Wikipedia{Pages: 8}, []int{1, 2, 3, 4, 6, 7, 8, 9}},
		{"titles", Wikipedia{Titles: []string{"Article 7", "Article 3"}}, []int{7, 3}},
		{"ids", Wikipedia{PageIDs: []int64{9, 2}}, []int{9, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := startServices(t), t.TempDir()
			got, err := newTestFetcher(t).Fetch(t.Context(), s.wikipedia(c.w), dir, "wikipedia-en", nil)
			if err != nil {
				t.Fatal(err)
			}
			var want []Document
			for _, n := range c.want {
				want = append(want, Document{fmt.Sprint("wikipedia:en:", n), fmt.Sprint(1000 + n), fmt.Sprint("Article ", n), hexSHA256([]byte(s.article(n))), s.article(n)})
			}
			path := filepath.Join(dir, "wikipedia-en.jsonl")
			if diff := cmp.Diff(want, readDocuments(t, path)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&Fetched{path, hexSHA256(b), len(want), int64(len(b)), len(want)}, got); diff != "" {
				t.Error(diff)
			}
			if a := s.agents[0]; a != "gguf-forge/test (me@example.org)" {
				t.Errorf("agent %q", a)
			}

			// A finished file is not fetched again, and counts as its texts.
			asked := len(s.requests)
			again, err := newTestFetcher(t).Fetch(t.Context(), s.wikipedia(c.w), dir, "wikipedia-en", nil)
			if err != nil || len(s.requests) != asked || again.New != 0 || again.SHA256 != got.SHA256 {
				t.Errorf("%+v, %v, %d requests", again, err, len(s.requests)-asked)
			}
			var texts []string
			for _, d := range want {
				texts = append(texts, d.Text)
			}
			counted, err := count(t, 1, write(t, dir, "copy.jsonl", b))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bytesOf(texts...), counted.Counts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFetchGutenberg(t *testing.T) {
	s, dir := startServices(t), t.TempDir()
	g := &Gutenberg{Endpoint: s.URL + "/", Books: []int{2, 1}}
	if _, err := newTestFetcher(t).Fetch(t.Context(), g, dir, "books", nil); err != nil {
		t.Fatal(err)
	}
	got := readDocuments(t, filepath.Join(dir, "books.jsonl"))
	for i, n := range []int{2, 1} {
		if d := got[i]; d.ID != fmt.Sprint("gutenberg:", n) || d.Title != fmt.Sprint("Book ", n) || d.Text != fmt.Sprintf("Chapter %d\n\nText.", n) {
			t.Errorf("%+v", d)
		}
	}
	for n, want := range map[int]string{13: "no lines that say", 404: "no such document", -1: "no number of a book"} {
		_, err := newTestFetcher(t).Fetch(t.Context(), &Gutenberg{Endpoint: s.URL, Books: []int{n}}, t.TempDir(), "books", nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("book %d: %v, want %q", n, err, want)
		}
	}
}

func TestFetchCode(t *testing.T) {
	s, dir := startServices(t), t.TempDir()
	c := &Code{Endpoint: s.URL, Repositories: []string{"golang/example@master"}, Extensions: []string{"go", "py"}}
	if _, err := newTestFetcher(t).Fetch(t.Context(), c, dir, "code", nil); err != nil {
		t.Fatal(err)
	}
	var want []Document
	for file, text := range map[string]string{"a.go": "package a\n", "b/c.py": "import os\n", "z.go": "package z\n"} {
		want = append(want, Document{"code:golang/example:" + file, commitA, file, hexSHA256([]byte(text)), text})
	}
	slices.SortFunc(want, func(a, b Document) int { return strings.Compare(a.ID, b.ID) })
	if diff := cmp.Diff(want, readDocuments(t, filepath.Join(dir, "code.jsonl"))); diff != "" {
		t.Error(diff)
	}
	for r, want := range map[string]string{"golang": "no repository", "golang/none": "no such document", "golang/example@" + commitB: "no such document"} {
		_, err := newTestFetcher(t).Fetch(t.Context(), &Code{Endpoint: s.URL, Repositories: []string{r}, Extensions: []string{"go"}}, t.TempDir(), "code", nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", r, err, want)
		}
	}
}

// TestFetchResume breaks every kind of fetch at every request and wants the file of an unbroken one in the end, and no
// document asked for twice.
func TestFetchResume(t *testing.T) {
	kinds := map[string]func(*services) Service{
		"titles": func(s *services) Service {
			return s.wikipedia(Wikipedia{Titles: []string{"Article 7", "Article 3", "Article 1"}})
		},
		"ids":   func(s *services) Service { return s.wikipedia(Wikipedia{PageIDs: []int64{9, 2, 4}}) },
		"books": func(s *services) Service { return &Gutenberg{Endpoint: s.URL, Books: []int{5, 6, 7}} },
		"code": func(s *services) Service {
			return &Code{Endpoint: s.URL, Repositories: []string{"golang/example"}, Extensions: []string{"go", "py"}}
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			whole := startServices(t)
			dir := t.TempDir()
			want, err := newTestFetcher(t).Fetch(t.Context(), kind(whole), dir, "x", nil)
			if err != nil {
				t.Fatal(err)
			}
			for broken := 1; broken <= len(whole.requests); broken++ {
				s := startServices(t)
				s.fail = func(w http.ResponseWriter, n int) bool {
					if n == broken {
						http.Error(w, "gone for lunch", http.StatusForbidden)
					}
					return n == broken
				}
				dir := t.TempDir()
				if _, err := newTestFetcher(t).Fetch(t.Context(), kind(s), dir, "x", nil); fault.KindOf(err) != fault.Network || fault.HintOf(err) == "" {
					t.Fatalf("request %d broken: %v", broken, err)
				}
				// A line was being written.
				part, err := os.OpenFile(filepath.Join(dir, "x.jsonl.part"), os.O_APPEND|os.O_WRONLY, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := part.WriteString(`{"id":"wiki`); err != nil {
					t.Fatal(err)
				}
				if err := part.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := newTestFetcher(t).Fetch(t.Context(), kind(s), dir, "x", nil)
				if err != nil || got.SHA256 != want.SHA256 {
					t.Fatalf("request %d broken: %+v, %v", broken, got, err)
				}
				seen := map[string]int{}
				for i, r := range s.requests {
					if strings.Contains(r, "pageids=") || strings.Contains(r, "/epub/") {
						if i+1 != broken {
							seen[r]++
						}
						if seen[r] > 1 {
							t.Errorf("%s was asked for again", r)
						}
					}
				}
			}
		})
	}
}

// TestFetchResumeCode cuts an archive and lets the branch move on before the next run.
func TestFetchResumeCode(t *testing.T) {
	s, dir := startServices(t), t.TempDir()
	whole := s.archive
	s.archive = whole[:len(whole)-200]
	c := &Code{Endpoint: s.URL, Repositories: []string{"golang/example"}, Extensions: []string{"go", "py"}}
	if _, err := newTestFetcher(t).Fetch(t.Context(), c, dir, "x", nil); fault.KindOf(err) != fault.Network {
		t.Fatal(err)
	}
	s.archive, s.moved = whole, true
	got, err := newTestFetcher(t).Fetch(t.Context(), c, dir, "x", nil)
	if err != nil || got.Documents != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.New == 3 {
		t.Skip("the cut archive gave no file at all") // it depends on how far the decompressor reads ahead
	}
}

func TestFetchPins(t *testing.T) {
	s, dir := startServices(t), t.TempDir()
	first, err := newTestFetcher(t).Fetch(t.Context(), s.wikipedia(Wikipedia{Pages: 3}), dir, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "# gguf-forge corpus 1\n# file " + first.SHA256 + "  x.jsonl\n" + hexSHA256([]byte(s.article(1))) + "\twikipedia:en:1\t1001\n"; !strings.HasPrefix(string(b), want) {
		t.Errorf("list of hashes:\n%s", b)
	}
	pins, err := ReadPins(bytes.NewReader(b))
	if err != nil || len(pins) != 3 {
		t.Fatal(pins, err)
	}
	pinned := func() *Wikipedia { return s.wikipedia(Wikipedia{PageIDs: []int64{1, 2, 3}}) }
	again, err := newTestFetcher(t).Fetch(t.Context(), pinned(), t.TempDir(), "x", pins)
	if err != nil || again.SHA256 != first.SHA256 {
		t.Errorf("%+v, %v", again, err)
	}
	for name, c := range map[string]struct {
		service Service
		pins    []Pin
		edited  bool
		want    string
	}{
		"edited":     {pinned(), pins, true, "the list says"},
		"not pinned": {pinned(), pins[:2], false, "is not in the list"},
		"missing":    {s.wikipedia(Wikipedia{PageIDs: []int64{1, 2}}), pins, false, "did not arrive"},
	} {
		s.edited = c.edited
		_, err := newTestFetcher(t).Fetch(t.Context(), c.service, t.TempDir(), "x", c.pins)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Verification {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestReadPinsErrors(t *testing.T) {
	good := strings.Repeat("a1", 32) + "\twikipedia:en:1\t5\n"
	for name, text := range map[string]string{
		"empty": "", "no title": good, "nothing": pinsTitle + "\n", "twice": pinsTitle + "\n" + good + good, "short": pinsTitle + "\nabc\tx\t\n",
		"two columns": pinsTitle + "\n" + strings.Repeat("a1", 32) + "\tx\n", "long": pinsTitle + "\n" + strings.Repeat("x", 1<<20),
	} {
		if _, err := ReadPins(strings.NewReader(text)); fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFetchOtherDocuments wants documents that aren't asked for to be refused, not mixed in.
func TestFetchOtherDocuments(t *testing.T) {
	s, dir := startServices(t), t.TempDir()
	if _, err := newTestFetcher(t).Fetch(t.Context(), &Gutenberg{Endpoint: s.URL, Books: []int{1}}, dir, "x", nil); err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]Service{
		"another service": s.wikipedia(Wikipedia{Pages: 1}),
		"another book":    &Gutenberg{Endpoint: s.URL, Books: []int{2}},
		"code":            &Code{Endpoint: s.URL, Repositories: []string{"a/b"}, Extensions: []string{"go"}},
	} {
		if _, err := newTestFetcher(t).Fetch(t.Context(), service, dir, "x", nil); err == nil || !strings.Contains(err.Error(), "isn't asked for") {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(dir, "y.jsonl.part")
	if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newTestFetcher(t).Fetch(t.Context(), &Gutenberg{Endpoint: s.URL, Books: []int{1}}, dir, "y", nil); err == nil || !strings.Contains(err.Error(), "line 1: it is no document") {
		t.Error(err)
	}
}

// TestFetchBusy lets the services ask for patience in all their ways.
func TestFetchBusy(t *testing.T) {
	for name, busy := range map[string]func(http.ResponseWriter){
		"maxlag": func(w http.ResponseWriter) {
			w.Header().Set("X-Database-Lag", "7")
			fmt.Fprint(w, `{"error":{"code":"maxlag","info":"Waiting for db1: 7 seconds lagged","host":"db1","lag":7}}`)
		},
		"ratelimited": func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"error":{"code":"ratelimited","info":"You've exceeded your rate limit."}}`)
		},
		"429": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) },
		"503": func(w http.ResponseWriter) { w.WriteHeader(503) },
		"cut": func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startServices(t)
			s.fail = func(w http.ResponseWriter, n int) bool {
				if n == 1 || n == 3 {
					busy(w)
					return true
				}
				return false
			}
			got, err := newTestFetcher(t).Fetch(t.Context(), s.wikipedia(Wikipedia{PageIDs: []int64{1, 2}}), t.TempDir(), "x", nil)
			if err != nil || got.Documents != 2 || len(s.requests) != 4 {
				t.Errorf("%+v, %v, %d requests", got, err, len(s.requests))
			}
		})
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
		kind   fault.Kind
	}{
		"always busy":     {func(w http.ResponseWriter) { fmt.Fprint(w, `{"error":{"code":"maxlag","info":"lagged"}}`) }, "stays busy", fault.Network},
		"a long wait":     {func(w http.ResponseWriter) { w.Header().Set("Retry-After", "86400"); w.WriteHeader(429) }, "refuses to answer", fault.Network},
		"another error":   {func(w http.ResponseWriter) { fmt.Fprint(w, `{"error":{"code":"badvalue","info":"no"}}`) }, "badvalue: no", fault.BadInput},
		"a page":          {func(w http.ResponseWriter) { fmt.Fprint(w, `<html>`) }, "no JSON", fault.Network},
		"no extract":      {func(w http.ResponseWriter) { fmt.Fprint(w, `{"query":{"pages":[{"pageid":1,"title":"x"}]}}`) }, "no extract", fault.Network},
		"nothing":         {func(w http.ResponseWriter) { fmt.Fprint(w, `{}`) }, "0 pages", fault.Network},
		"a missing page":  {func(w http.ResponseWriter) { fmt.Fprint(w, `{"query":{"pages":[{"pageid":1,"missing":true}]}}`) }, "no article", fault.BadInput},
		"a broken answer": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "100"); fmt.Fprint(w, `{`) }, "broke off", fault.Network},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServices(t)
			s.fail = func(w http.ResponseWriter, n int) bool { c.answer(w); return true }
			_, err := newTestFetcher(t).Fetch(t.Context(), s.wikipedia(Wikipedia{PageIDs: []int64{1}}), t.TempDir(), "x", nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != c.kind {
				t.Errorf("%v, want kind %d with %q", err, c.kind, c.want)
			}
		})
	}
}

// TestFetchPause looks at the server's clock: no request may come earlier than a pause after the one before.
func TestFetchPause(t *testing.T) {
	const pause = 30 * time.Millisecond
	s := startServices(t)
	f, err := NewFetcher("test", FetchOptions{Pause: pause})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), &Gutenberg{Endpoint: s.URL, Books: []int{1, 2, 3}}, t.TempDir(), "x", nil); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(s.times); i++ {
		if d := s.times[i].Sub(s.times[i-1]); d < pause {
			t.Errorf("request %d came %v after the one before", i+1, d)
		}
	}
	if DefaultPause < 2*time.Second {
		t.Error("Project Gutenberg asks robots to wait two seconds")
	}
}

func TestFetchUsage(t *testing.T) {
	if _, err := NewFetcher("1", FetchOptions{Contact: "me\r\nX-Other: y"}); fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
	for name, s := range map[string]Service{
		"language":   &Wikipedia{Language: "../en", Pages: 1},
		"no pages":   &Wikipedia{Language: "en"},
		"extensions": &Code{Repositories: []string{"a/b"}},
		"scheme":     &Gutenberg{Endpoint: "ftp://example.org", Books: []int{1}},
	} {
		if _, err := newTestFetcher(t).Fetch(t.Context(), s, t.TempDir(), "x", nil); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
