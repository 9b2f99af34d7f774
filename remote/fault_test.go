package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gguf-forge/internal/fault"
	"gguf-forge/internal/testhub"
	"gguf-forge/internal/testhub/hubtest"
	"gguf-forge/remote"
	"gguf-forge/remote/remotetest"
)

// faultCases lists every way the test hub misbehaves in sending a file. want is "" where the bytes must arrive
// all the same, else a part of the error. Wrong bytes are never right.
var faultCases = []struct {
	name  string
	fault testhub.Fault
	want  string
	kind  fault.Kind
}{
	{"slow", testhub.Fault{Kind: testhub.Slow, Wait: 100 * time.Microsecond}, "", 0},
	{"cut at once, three times", testhub.Fault{Kind: testhub.Cut, Times: 3}, "", 0},
	{"cut in the middle, again and again", testhub.Fault{Kind: testhub.Cut, After: 100_000}, "", 0},
	{"cut after one byte, ten times", testhub.Fault{Kind: testhub.Cut, After: 1, Times: 10}, "", 0},
	{"cut at once for ever", testhub.Fault{Kind: testhub.Cut}, "breaks again and again", fault.Network},
	{"stall once", testhub.Fault{Kind: testhub.Stall, After: 50_000, Times: 1}, "", 0},
	{"stall for ever", testhub.Fault{Kind: testhub.Stall, After: 0}, "stood still", fault.Network},
	{"reset twice", testhub.Fault{Kind: testhub.Reset, Times: 2}, "", 0},
	{"reset for ever", testhub.Fault{Kind: testhub.Reset}, "can't reach", fault.Network},
	{"503 twice", testhub.Fault{Kind: testhub.Status, Status: 503, Times: 2}, "", 0},
	{"503 for ever", testhub.Fault{Kind: testhub.Status, Status: 503}, "still answers 503", fault.Network},
	{"500 once", testhub.Fault{Kind: testhub.Status, Status: 500, Times: 1}, "", 0},
	{"429 with Retry-After", testhub.Fault{Kind: testhub.Status, Status: 429, Wait: time.Second, Times: 1}, "", 0},
	{"429 with a wait too long", testhub.Fault{Kind: testhub.Status, Status: 429, Wait: time.Hour}, "asks to wait 1h0m0s", fault.Network},
	{"501", testhub.Fault{Kind: testhub.Status, Status: 501}, "answers 501", fault.Network},
	{"unknown success", testhub.Fault{Kind: testhub.Status, Status: 299}, "answers 299", fault.Network},
	{"404 once", testhub.Fault{Kind: testhub.Status, Status: 404, Times: 1}, "", 0},
	{"whole file for a range", testhub.Fault{Kind: testhub.WholeFile}, "", 0},
	{"part with status 200", testhub.Fault{Kind: testhub.PartAs200}, "", 0},
	{"shorter parts", testhub.Fault{Kind: testhub.ShortPart, After: 10_000}, "", 0},
	{"chunked", testhub.Fault{Kind: testhub.Chunked}, "", 0},
	{"wrong start once", testhub.Fault{Kind: testhub.WrongStart, After: 16, Times: 1}, "", 0},
	{"wrong start", testhub.Fault{Kind: testhub.WrongStart, After: 16}, "instead of", fault.Network},
	{"range of the beginning", testhub.Fault{Kind: testhub.LyingStart}, "instead of", fault.Network},
	{"wrong total", testhub.Fault{Kind: testhub.WrongTotal}, "it changed since it was opened", fault.Verification},
	{"no Content-Range", testhub.Fault{Kind: testhub.NoContentRange}, "without saying which", fault.Network},
	{"wrong length", testhub.Fault{Kind: testhub.WrongLength}, "announces", fault.Network},
	{"body too long", testhub.Fault{Kind: testhub.LongBody, After: 7}, "more bytes than it announced", fault.Network},
	{"body too short, three times", testhub.Fault{Kind: testhub.ShortBody, After: 60_000, Times: 3}, "", 0},
	{"body empty for ever", testhub.Fault{Kind: testhub.ShortBody}, "breaks again and again", fault.Network},
	{"gzip", testhub.Fault{Kind: testhub.Compressed}, "encoded", fault.Network},
	{"gzip once", testhub.Fault{Kind: testhub.Compressed, Times: 1}, "", 0},
	{"HTML page", testhub.Fault{Kind: testhub.HTMLPage}, "error page", fault.Network},
	{"XML page", testhub.Fault{Kind: testhub.XMLPage}, "error page", fault.Network},
	{"multipart", testhub.Fault{Kind: testhub.Multipart}, "multipart", fault.Network},
	{"416 once", testhub.Fault{Kind: testhub.Unsatisfiable, Times: 1}, "", 0},
	{"416", testhub.Fault{Kind: testhub.Unsatisfiable}, "refuses a valid range", fault.Network},
	{"416 without a total", testhub.Fault{Kind: testhub.UnsatisfiableBare}, "refuses a valid range", fault.Network},
	{"416 of a shorter file", testhub.Fault{Kind: testhub.Shrunk, After: 90_000}, "it changed since it was opened", fault.Verification},
	{"shrunk behind the range", testhub.Fault{Kind: testhub.Shrunk, After: 300_000}, "it changed since it was opened", fault.Verification},
	{"other ETag later", testhub.Fault{Kind: testhub.OtherETag, Skip: 1}, "it changed since it was opened", fault.Verification},
	{"link refused once", testhub.Fault{Kind: testhub.RefusedLink, Times: 1}, "", 0},
	{"link refused twice", testhub.Fault{Kind: testhub.RefusedLink, Times: 2}, "", 0},
	{"link refused for ever", testhub.Fault{Kind: testhub.RefusedLink}, "SignatureDoesNotMatch: The signature does not match", fault.Network},
	{"endless redirect", testhub.Fault{Kind: testhub.Loop}, "redirects in a row", fault.Network},
	{"detour", testhub.Fault{Kind: testhub.Detour, Times: 1}, "", 0},
}

// TestFaults reads a range from the middle of a file, as one read and as a stream, while the content server misbehaves.
func TestFaults(t *testing.T) {
	data := remotetest.Data(300_001)
	const off, n = 100_001, 150_000
	for _, tt := range faultCases {
		for _, plain := range []bool{false, true} {
			for _, how := range []string{"read", "stream"} {
				if testing.Short() && plain != (how == "read") {
					continue // two of four combinations
				}
				t.Run(fmt.Sprintf("%s/plain=%v/%s", tt.name, plain, how), func(t *testing.T) {
					t.Parallel()
					want, kind := tt.want, tt.kind
					h := hubtest.Start(t)
					h.SetToken(testToken)
					h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
					url := h.Plain("model.bin", bytes.NewReader(data))
					opts := []remote.Option{}
					if tt.fault.Kind == testhub.Stall {
						opts = append(opts, remote.WithStallTimeout(400*time.Millisecond), remote.WithRetry(2, time.Millisecond, time.Millisecond))
					}
					c := client(t, h, opts...)
					ref := hubRef("org/model", "model.gguf")
					if plain {
						ref = remote.Reference{Kind: remote.URL, URL: url}
					}
					s := open(t, c, ref)
					f := tt.fault
					if plain {
						f.At = testhub.Plain
						// A plain server is asked again after a refusal; if it refuses that too, it has the last word.
						switch {
						case f.Kind == testhub.RefusedLink && f.Times != 1:
							want, kind = "403", fault.Network
						case f.Kind == testhub.OtherETag:
							f.Skip = 0 // its ETag is known from the first request
						}
						if f.Kind == testhub.Detour {
							t.Skip("there is nothing behind a detour of a plain file")
						}
					} else if f.Kind == testhub.OtherETag {
						p := make([]byte, 1)
						if _, err := s.ReadAt(context.Background(), p, 0); err != nil {
							t.Fatal(err)
						}
						f.Skip = 0
					}
					h.Fault(f)
					got := make([]byte, n)
					var err error
					if how == "read" {
						_, err = s.ReadAt(context.Background(), got, off)
					} else {
						got, err = readStream(s, off, n)
					}
					check(t, err, want, kind)
					if err == nil && !bytes.Equal(got, data[off:off+n]) {
						t.Error("the bytes are wrong")
					}
					if how == "stream" && !bytes.HasPrefix(data[off:], got) {
						t.Error("bytes before the error are wrong")
					}
				})
			}
		}
	}
}

func readStream(s remote.Source, off, n int64) ([]byte, error) {
	stream, err := s.(remote.Streamer).Stream(context.Background(), off, n)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(stream)
}

// check compares an error with what it must say, and makes sure that it shows no secret.
func check(t *testing.T, err error, want string, kind fault.Kind) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	if err == nil {
		t.Errorf("no error, want one with %q", want)
		return
	}
	text := err.Error() + fault.HintOf(err)
	if !strings.Contains(text, want) {
		t.Errorf("error %q, want one with %q", text, want)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("the error has more than one line: %q", err)
	}
	if fault.KindOf(err) != kind {
		t.Errorf("error of kind %d, want %d: %v", fault.KindOf(err), kind, err)
	}
	for _, secret := range []string{testToken, "Signature=", "X-Amz", "StringToSign"} {
		if strings.Contains(text, secret) {
			t.Errorf("the error shows a secret: %v", text)
		}
	}
}

// TestResolveFaults opens a file while the hub itself misbehaves.
func TestResolveFaults(t *testing.T) {
	data := remotetest.Data(5000)
	cases := []struct {
		name  string
		file  string
		fault testhub.Fault
		want  string
		kind  fault.Kind
	}{
		{"503 twice", "model.gguf", testhub.Fault{Kind: testhub.Status, Status: 503, Times: 2}, "", 0},
		{"503 for ever", "model.gguf", testhub.Fault{Kind: testhub.Status, Status: 503}, "503", fault.Network},
		{"429 for ever", "model.gguf", testhub.Fault{Kind: testhub.Status, Status: 429}, "rate limit", fault.Network},
		{"reset twice", "model.gguf", testhub.Fault{Kind: testhub.Reset, Times: 2}, "", 0},
		{"reset for ever", "model.gguf", testhub.Fault{Kind: testhub.Reset}, "can't reach", fault.Network},
		{"no metadata", "model.gguf", testhub.Fault{Kind: testhub.NoMetadata}, "has no commit", fault.Network},
		{"no metadata of a small file", "a.txt", testhub.Fault{Kind: testhub.NoMetadata}, "has no commit", fault.Network},
		{"another commit", "model.gguf", testhub.Fault{Kind: testhub.OtherCommit}, "answered with commit 0000", fault.Verification},
		{"HTML page", "model.gguf", testhub.Fault{Kind: testhub.HTMLPage}, "login page", fault.Network},
		{"endless redirect", "model.gguf", testhub.Fault{Kind: testhub.Loop}, "redirects in a row", fault.Network},
		{"over another host", "model.gguf", testhub.Fault{Kind: testhub.Detour}, "", 0},
		{"small file chunked", "a.txt", testhub.Fault{Kind: testhub.Chunked}, "", 0},
		{"small file cut", "a.txt", testhub.Fault{Kind: testhub.Cut, After: 1000}, "", 0},
		{"small file as a whole", "a.txt", testhub.Fault{Kind: testhub.WholeFile}, "", 0},
		{"missing file", "none.gguf", testhub.Fault{}, "no such file", fault.BadInput},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := hubtest.Start(t)
			h.SetToken(testToken)
			h.Repo("org/model").Add("model.gguf", bytes.NewReader(data)).Add("a.txt", bytes.NewReader(data))
			tt.fault.At = testhub.Resolve
			h.Fault(tt.fault)
			s, err := client(t, h).Open(context.Background(), hubRef("org/model", tt.file))
			if err == nil {
				got := make([]byte, 3000)
				if _, err = s.ReadAt(context.Background(), got, 1500); err == nil && !bytes.Equal(got, data[1500:4500]) {
					t.Error("the bytes are wrong")
				}
			}
			check(t, err, tt.want, tt.kind)
		})
	}
}

// TestChangedAtHub lets a link expire and the hub tell something else about the file when it is asked again.
func TestChangedAtHub(t *testing.T) {
	data := remotetest.Data(5000)
	for _, tt := range []struct {
		name  string
		fault testhub.Fault
	}{
		{"other hash", testhub.Fault{Kind: testhub.OtherETag}},
		{"other size", testhub.Fault{Kind: testhub.Shrunk, After: 100}},
		{"other commit", testhub.Fault{Kind: testhub.OtherCommit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hubtest.Start(t)
			h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
			s := open(t, client(t, h), hubRef("org/model", "model.gguf"))
			h.ExpireLinks()
			tt.fault.At = testhub.Resolve
			h.Fault(tt.fault)
			_, err := s.ReadAt(context.Background(), make([]byte, 50), 0)
			if fault.KindOf(err) != fault.Verification {
				t.Errorf("error %v, want one of verification", err)
			}
		})
	}
}

// TestMovedBranch pins a revision once: a push between the files of a model, or between ranges, changes nothing.
func TestMovedBranch(t *testing.T) {
	h := hubtest.Start(t)
	first, second := remotetest.Data(1000), remotetest.Data(2000)
	repo := h.Repo("org/model").Add("a.gguf", bytes.NewReader(first)).Add("b.gguf", bytes.NewReader(first))
	commit := repo.Push("main")
	c := client(t, h)
	a := open(t, c, hubRef("org/model", "a.gguf"))
	repo.Add("a.gguf", bytes.NewReader(second)).Add("b.gguf", bytes.NewReader(second))
	if repo.Push("main") == commit {
		t.Fatal("the push made no new commit")
	}
	h.ExpireLinks()
	for _, s := range []remote.Source{a, open(t, c, hubRef("org/model", "b.gguf"))} {
		got := make([]byte, len(first))
		if _, err := s.ReadAt(context.Background(), got, 0); err != nil || !bytes.Equal(got, first) {
			t.Errorf("%s: %v", s.Identity(), err)
		}
		if s.Identity().Commit != commit {
			t.Errorf("%s is not of the pinned commit", s.Identity())
		}
	}
	if s := open(t, client(t, h), hubRef("org/model", "a.gguf")); s.Size() != int64(len(second)) {
		t.Error("a new client doesn't see the new commit")
	}
	if n, _ := h.Count(testhub.API); n != 2 {
		t.Errorf("%d requests to the API, want one for each client", n)
	}
}

// TestSharedRefresh lets all links expire under many readers: they share one new link.
func TestSharedRefresh(t *testing.T) {
	h := hubtest.Start(t)
	data := remotetest.Data(200_000)
	h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
	s := open(t, client(t, h), hubRef("org/model", "model.gguf"))
	h.ExpireLinks()
	h.ForgetRequests()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			p := make([]byte, 10_000)
			if _, err := s.ReadAt(context.Background(), p, int64(i)*20_000); err != nil || !bytes.Equal(p, data[i*20_000:][:10_000]) {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if n, _ := h.Count(testhub.Resolve); n != 1 {
		t.Errorf("%d requests for a new link, want 1", n)
	}
}

// TestLinksAreReused resolves a file once for many ranges, and again when the link is about to expire.
func TestLinksAreReused(t *testing.T) {
	for life, want := range map[time.Duration]int{time.Hour: 1, time.Second: 2} {
		h := hubtest.Start(t)
		h.SetLinkLife(life)
		h.Repo("org/model").Add("model.gguf", bytes.NewReader(remotetest.Data(5000)))
		s := open(t, client(t, h), hubRef("org/model", "model.gguf"))
		for i := range 6 {
			if i == 3 && life == time.Second {
				time.Sleep(600 * time.Millisecond) // more than half of its life
			}
			if _, err := s.ReadAt(context.Background(), make([]byte, 100), int64(i)*500); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := h.Count(testhub.Resolve); n < want || life == time.Hour && n != want {
			t.Errorf("links of %v: %d resolved, want %d", life, n, want)
		}
	}
}

// TestParallel keeps at least four ranges in flight, and no more than allowed.
func TestParallel(t *testing.T) {
	h := hubtest.Start(t)
	data := remotetest.Data(400_000)
	h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
	s := open(t, client(t, h, remote.WithConcurrency(5)), hubRef("org/model", "model.gguf"))
	h.Fault(testhub.Fault{Kind: testhub.Slow, Wait: 10 * time.Millisecond})
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() {
			p := make([]byte, 40_000)
			if _, err := s.ReadAt(context.Background(), p, int64(i)*40_000); err != nil || !bytes.Equal(p, data[i*40_000:][:40_000]) {
				t.Errorf("range %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if p := h.Peak(); p < 4 || p > 5 {
		t.Errorf("%d ranges in flight, want 4 or 5", p)
	}
}

// TestNoRanges reads the beginning of a file from a server without ranges, and says so where that doesn't help.
func TestNoRanges(t *testing.T) {
	h := hubtest.Start(t)
	data := remotetest.Data(3 << 20)
	url := h.Plain("model.bin", bytes.NewReader(data))
	h.Fault(testhub.Fault{Kind: testhub.WholeFile, At: testhub.Plain})
	s := open(t, client(t, h), remote.Reference{Kind: remote.URL, URL: url})
	got := make([]byte, 1000)
	if _, err := s.ReadAt(context.Background(), got, 500_000); err != nil || !bytes.Equal(got, data[500_000:501_000]) {
		t.Errorf("the beginning: %v", err)
	}
	if all, err := readStream(s, 0, s.Size()); err != nil || !bytes.Equal(all, data) {
		t.Errorf("the whole file: %v", err)
	}
	_, err := s.ReadAt(context.Background(), got, 2<<20)
	check(t, err, "doesn't give ranges", fault.Network)
}

// TestResumeOnlyFetchesTheRest counts bytes: a continued transfer doesn't begin again.
func TestResumeOnlyFetchesTheRest(t *testing.T) {
	h := hubtest.Start(t)
	data := remotetest.Data(1 << 20)
	h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
	s := open(t, client(t, h), hubRef("org/model", "model.gguf"))
	h.Fault(testhub.Fault{Kind: testhub.Cut, After: 200_000, Times: 4})
	got, err := readStream(s, 0, s.Size())
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("wrong bytes or %v", err)
	}
	n, sent := h.Count(testhub.Files)
	if n != 5 || sent != int64(len(data)) {
		t.Errorf("%d requests sent %d bytes, want 5 and %d", n, sent, len(data))
	}
}

// TestSlowConsumer reads from a stream more slowly than the stall timeout.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t)
	data := remotetest.Data(100_000)
	h.Repo("org/model").Add("model.gguf", bytes.NewReader(data))
	s := open(t, client(t, h, remote.WithStallTimeout(400*time.Millisecond)), hubRef("org/model", "model.gguf"))
	stream, err := s.(remote.Streamer).Stream(context.Background(), 0, s.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	got := make([]byte, len(data))
	for i := range 4 {
		if _, err := io.ReadFull(stream, got[i*25_000:][:25_000]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(1-i%2) * 500 * time.Millisecond)
	}
	if n, _ := h.Count(testhub.Files); n != 1 || !bytes.Equal(got, data) {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestCancelWhileWaiting ends a read that waits for its next attempt, and one that stands still.
func TestCancelWhileWaiting(t *testing.T) {
	for _, f := range []testhub.Fault{{Kind: testhub.Status, Status: 503}, {Kind: testhub.Stall, After: 10}, {Kind: testhub.Cut}} {
		h := hubtest.Start(t)
		h.Repo("org/model").Add("model.gguf", bytes.NewReader(remotetest.Data(5000)))
		s := open(t, client(t, h, remote.WithRetry(5, time.Hour, time.Hour)), hubRef("org/model", "model.gguf"))
		h.Fault(f)
		ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Millisecond, errors.New("enough"))
		_, err := s.ReadAt(ctx, make([]byte, 1000), 0)
		cancel()
		if err == nil || err.Error() != "enough" {
			t.Errorf("fault %d: %v", f.Kind, err)
		}
	}
}

// TestAccess maps the hub's refusals to errors that say what to do.
func TestAccess(t *testing.T) {
	data := remotetest.Data(100)
	for _, tt := range []struct {
		name, repo, revision, token string
		want, hint                  string
		kind                        fault.Kind
	}{
		{"gated without a token", "org/gated", "main", "", "access to this repository must be granted", "accept the terms", fault.Network},
		{"gated", "org/gated", "main", testToken, "", "", 0},
		{"private without a token", "org/hidden", "main", "", "no such repository, or no access", "HF_TOKEN", fault.BadInput},
		{"private", "org/hidden", "main", testToken, "", "", 0},
		{"wrong token", "org/open", "main", "hf_wrong", "rejects the token", "HF_TOKEN", fault.Network},
		{"no such repository", "org/none", "main", testToken, "no such repository", "whether the token", fault.BadInput},
		{"no such branch", "org/open", "dev", testToken, "no such revision", "branches", fault.BadInput},
		{"no such commit", "org/open", strings.Repeat("a", 40), testToken, "no such revision", "branches", fault.BadInput},
		{"renamed", "org/before", "main", testToken, "", "", 0},
		{"pull request", "org/open", "refs/pr/1", testToken, "", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hubtest.Start(t)
			h.SetToken(testToken)
			for _, name := range []string{"org/gated", "org/hidden", "org/open", "org/before"} {
				h.Repo(name).Add("a.gguf", bytes.NewReader(data)).Add("a.txt", bytes.NewReader(data)).Push("refs/pr/1")
				h.Repo(name).Push("main")
			}
			h.Repo("org/gated").Gate()
			h.Repo("org/hidden").Hide()
			h.Rename("org/before", "org/after")
			c := client(t, h, remote.WithToken(tt.token))
			for _, file := range []string{"a.gguf", "a.txt"} {
				ref := hubRef(tt.repo, file)
				ref.Revision = tt.revision
				s, err := c.Open(context.Background(), ref)
				if err == nil {
					_, err = remote.ReadAll(context.Background(), s, 1000)
				}
				check(t, err, tt.want, tt.kind)
				if !strings.Contains(fault.HintOf(err), tt.hint) {
					t.Errorf("hint %q, want %q in it", fault.HintOf(err), tt.hint)
				}
				if err != nil && strings.Contains(err.Error()+fault.HintOf(err), "hf_wrong") {
					t.Error("the error shows the token")
				}
			}
		})
	}
}

// TestOffline makes no request, whatever is asked.
func TestOffline(t *testing.T) {
	h := hubtest.Start(t)
	h.Repo("org/model").Add("a.gguf", bytes.NewReader(remotetest.Data(10)))
	url := h.Plain("a.bin", bytes.NewReader(remotetest.Data(10)))
	c := client(t, h, remote.WithOffline(true), remote.WithCache(t.TempDir()))
	for _, ref := range []remote.Reference{hubRef("org/model", "a.gguf"), hubRef("org/model", "Q4_K"), {Kind: remote.URL, URL: url}, {Kind: remote.URL, URL: h.Endpoint() + "/org/model/resolve/main/a.gguf"}} {
		if _, err := c.Open(context.Background(), ref); fault.KindOf(err) != fault.Network || !strings.Contains(err.Error()+fault.HintOf(err), "offline") && !strings.Contains(fault.HintOf(err), "HF_HUB_OFFLINE") {
			t.Errorf("%s: %v (%s)", ref, err, fault.HintOf(err))
		}
	}
	if _, err := c.List(context.Background(), "org/model", cachedCommit); err == nil {
		t.Error("a listing came from nowhere")
	}
	if n := len(h.Requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// TestLocationIsNoSecret redirects to an address that can't be parsed: net/http would print it.
func TestLocationIsNoSecret(t *testing.T) {
	h := hubtest.Start(t)
	h.Repo("org/model").Add("a.gguf", bytes.NewReader(remotetest.Data(10)))
	s := open(t, client(t, h), hubRef("org/model", "a.gguf"))
	h.Fault(testhub.Fault{Kind: testhub.Status, Status: 302, Header: http.Header{"Location": {"http://cdn/%zz?X-Amz-Signature=1"}}})
	_, err := s.ReadAt(context.Background(), make([]byte, 10), 0)
	check(t, err, "redirects to no valid address", fault.Network)
}
