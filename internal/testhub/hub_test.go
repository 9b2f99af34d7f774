package testhub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"gguf-forge/internal/testhub"
)

func start(t *testing.T) *testhub.Hub {
	t.Helper()
	h, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// get sends a request without following redirects.
func get(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestLeaks makes sure that a token on the content server is noticed, whatever carries it.
func TestLeaks(t *testing.T) {
	for name, header := range map[string][]string{"authorization": {"Authorization", "Bearer x"}, "elsewhere in the header": {"Cookie", "token=hf_secret"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			h.SetToken("hf_secret")
			h.Repo("org/model").Add("a.gguf", strings.NewReader("weights"))
			resp, _ := get(t, "GET", h.Endpoint()+"/org/model/resolve/main/a.gguf", "Authorization", "Bearer hf_secret")
			if len(h.Leaks()) != 0 {
				t.Error("the hub itself may see the token")
			}
			get(t, "GET", resp.Header.Get("Location"), header...)
			get(t, "GET", h.Moved(resp.Header.Get("Location")), header...)
			if want := len(header); len(h.Leaks()) != want {
				t.Errorf("%d leaks noticed, want %d", len(h.Leaks()), want)
			}
		})
	}
}

// TestCommitDependsOnContent lets a lock name a commit of an embedded hub.
func TestCommitDependsOnContent(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	memory := fstest.MapFS{"a.txt": {Data: []byte("text")}}
	commits := map[string]bool{}
	for _, fsys := range []any{os.DirFS(dir), memory} {
		repo := start(t).Repo("org/model")
		var err error
		switch fsys := fsys.(type) {
		case fstest.MapFS:
			err = repo.AddFS(fsys)
		default:
			err = repo.AddFS(os.DirFS(dir))
		}
		if err != nil {
			t.Fatal(err)
		}
		commits[repo.Push("main")] = true
	}
	other := start(t).Repo("org/model").Add("a.txt", strings.NewReader("texts"))
	commits[other.Push("main")] = true
	if len(commits) != 2 {
		t.Errorf("%d commits, want one for each content", len(commits))
	}
}

func TestRanges(t *testing.T) {
	h := start(t)
	url := h.Plain("a", bytes.NewReader([]byte("0123456789")))
	for _, tt := range []struct {
		header string
		status int
		body   string
		span   string
	}{
		{"", 200, "0123456789", ""},
		{"bytes=2-4", 206, "234", "bytes 2-4/10"},
		{"bytes=8-100", 206, "89", "bytes 8-9/10"},
		{"bytes=7-", 206, "789", "bytes 7-9/10"},
		{"bytes=-3", 206, "789", "bytes 7-9/10"},
		{"bytes=10-12", 416, "", "bytes */10"},
		{"bytes=4-2", 200, "0123456789", ""},
		{"bytes=0-1,4-5", 200, "0123456789", ""},
	} {
		resp, body := get(t, "GET", url, "Range", tt.header)
		if resp.StatusCode != tt.status || body != tt.body || resp.Header.Get("Content-Range") != tt.span {
			t.Errorf("%q: %d %q %q", tt.header, resp.StatusCode, body, resp.Header.Get("Content-Range"))
		}
	}
	if n, sent := h.Count(testhub.Plain); n != 8 || sent != 10*3+3+2+3+3 {
		t.Errorf("%d requests, %d bytes counted", n, sent)
	}
}

// TestLinks refuses links that were changed or have expired.
func TestLinks(t *testing.T) {
	h := start(t)
	h.Repo("org/model").Add("a.gguf", strings.NewReader("weights"))
	resp, _ := get(t, "HEAD", h.Endpoint()+"/org/model/resolve/main/a.gguf")
	link := resp.Header.Get("Location")
	if resp, body := get(t, "GET", link); resp.StatusCode != 200 || body != "weights" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	for _, bad := range []string{strings.Replace(link, "X-Amz-Expires=3600", "X-Amz-Expires=9999", 1), strings.Split(link, "?")[0]} {
		if resp, body := get(t, "GET", bad); resp.StatusCode != 403 || !strings.Contains(body, "SignatureDoesNotMatch") {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
	}
	h.ExpireLinks()
	if resp, body := get(t, "GET", link); resp.StatusCode != 403 || !strings.Contains(body, "expired") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestFaultCounts(t *testing.T) {
	h := start(t)
	url := h.Plain("a", strings.NewReader("0123456789"))
	h.Fault(testhub.Fault{Kind: testhub.Status, At: testhub.Plain, Status: 503, Skip: 1, Times: 2})
	h.Fault(testhub.Fault{Kind: testhub.Status, At: testhub.Plain, Status: 500, Path: "b"})
	var got []int
	for range 5 {
		resp, _ := get(t, "GET", url)
		got = append(got, resp.StatusCode)
	}
	if fmt.Sprint(got) != "[200 503 503 200 200]" {
		t.Errorf("%v", got)
	}
}
