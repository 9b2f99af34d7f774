package remote_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gguf-forge/internal/fault"
	"gguf-forge/internal/testhub/hubtest"
	"gguf-forge/remote"
	"gguf-forge/remote/remotetest"
)

func TestDemanded(t *testing.T) {
	date := "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, tt := range []struct {
		status int
		header map[string]string
		want   time.Duration
		ok     bool
	}{
		{429, nil, 0, false},
		{429, map[string]string{"Retry-After": "7"}, 7 * time.Second, true},
		{503, map[string]string{"Retry-After": "0"}, 0, true},
		{503, map[string]string{"Retry-After": "-5"}, 0, true},
		{429, map[string]string{"Retry-After": "Sun, 06 Nov 1994 08:50:07 GMT", "Date": date}, 30 * time.Second, true},
		{429, map[string]string{"Retry-After": "Sun, 06 Nov 1994 08:40:07 GMT", "Date": date}, 0, true},
		{429, map[string]string{"Retry-After": "soon"}, 0, false},
		{429, map[string]string{"RateLimit": `"resolvers";r=0;t=55`}, 56 * time.Second, true},
		{429, map[string]string{"RateLimit": `"api";r=5;t=200, "resolvers";r=0;t=55`}, 56 * time.Second, true},
		{429, map[string]string{"RateLimit": `"resolvers";r=3;t=55`}, 0, false},
		{503, map[string]string{"RateLimit": `"resolvers";r=0;t=55`}, 0, false},
		{429, map[string]string{"RateLimit": `"resolvers";r=0;t=55`, "Retry-After": "3"}, 3 * time.Second, true},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{}}
		for k, v := range tt.header {
			resp.Header[http.CanonicalHeaderKey(k)] = []string{v}
		}
		if got, ok := remote.Demanded(resp); got != tt.want || ok != tt.ok {
			t.Errorf("%d %v: %v %v, want %v %v", tt.status, tt.header, got, ok, tt.want, tt.ok)
		}
	}
}

func TestBackoff(t *testing.T) {
	for attempt, want := range map[int]time.Duration{0: 1, 1: 2, 2: 4, 3: 8, 4: 8, 60: 8, 1000: 8} {
		for range 50 {
			got := remote.Backoff(time.Second, 8*time.Second, attempt, nil)
			if got > want*time.Second || got < want*time.Second/2 {
				t.Errorf("attempt %d waits %v, want half of %d s to all of it", attempt, got, want)
			}
		}
	}
	resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"20"}}}
	if got := remote.Backoff(time.Second, 8*time.Second, 0, resp); got < 20*time.Second || got > 21*time.Second {
		t.Errorf("a server that asks for 20 s gets %v", got)
	}
}

func TestRefreshTime(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	policy := func(at time.Time) string {
		s := fmt.Sprintf(`{"Statement":[{"Resource":"https://x","Condition":{"DateLessThan":{"AWS:EpochTime":%d}}}]}`, at.Unix())
		return strings.NewReplacer("+", "-", "=", "_", "/", "~").Replace(base64.StdEncoding.EncodeToString([]byte(s)))
	}
	for _, tt := range []struct {
		name, query string
		server      time.Duration // how far the server's clock is ahead of ours
		want        time.Duration // from now; negative: never
	}{
		{"amazon", "X-Amz-Date=" + now.Add(-10*time.Minute).Format("20060102T150405Z") + "&X-Amz-Expires=3600", 0, 49 * time.Minute},
		{"server's clock", "X-Amz-Date=" + now.Format("20060102T150405Z") + "&X-Amz-Expires=3600", 30 * time.Minute, 29 * time.Minute},
		{"cloudfront", fmt.Sprintf("Expires=%d&Signature=x&Key-Pair-Id=y", now.Add(time.Hour).Unix()), 0, 59 * time.Minute},
		{"policy", "Policy=" + policy(now.Add(2*time.Hour)), 0, 119 * time.Minute},
		{"short life", fmt.Sprintf("Expires=%d", now.Add(40*time.Second).Unix()), 0, 20 * time.Second},
		{"already over", fmt.Sprintf("Expires=%d", now.Add(-time.Hour).Unix()), 0, 0},
		{"not signed", "download=true", 0, -1},
		{"nonsense", "Expires=tomorrow&Policy=%25%25&X-Amz-Date=x", 0, -1},
	} {
		resp := &http.Response{Header: http.Header{"Date": {now.Add(tt.server).Format(http.TimeFormat)}}}
		at := remote.RefreshTime(&url.URL{RawQuery: tt.query}, resp)
		if tt.want < 0 {
			if !at.IsZero() {
				t.Errorf("%s: %v, want never", tt.name, at)
			}
			continue
		}
		if d := time.Until(at) - tt.want; d < -2*time.Second || d > 2*time.Second {
			t.Errorf("%s: in %v, want %v", tt.name, time.Until(at), tt.want)
		}
	}
}

// TestMaySeeToken lists addresses that look like the hub.
func TestMaySeeToken(t *testing.T) {
	for _, tt := range []struct {
		endpoint string
		yes, no  []string
	}{
		{"https://huggingface.co",
			[]string{"https://huggingface.co/x", "https://HuggingFace.co:443/x", "https://hf.co/x"},
			[]string{"http://huggingface.co/x", "https://cdn-lfs.huggingface.co/x", "https://huggingface.co:8443/x", "https://us.aws.cdn.hf.co/x", "https://huggingface.co.evil.example/x", "https://huggingface.co@evil.example/x", "https://evilhuggingface.co/x"}},
		{"https://mirror.example",
			[]string{"https://mirror.example/x", "https://mirror.example:443/x"},
			[]string{"https://huggingface.co/x", "https://a.mirror.example/x", "http://mirror.example/x", "https://mirror.example:444/x"}},
		{"http://127.0.0.1:8080",
			[]string{"http://127.0.0.1:8080/x"},
			[]string{"http://127.0.0.1:8081/x", "http://localhost:8080/x", "http://127.0.0.1/x", "https://127.0.0.1:8080/x"}},
		{"http://hub.example", nil, []string{"http://hub.example/x"}}, // in clear text over a network
		{"http://[::1]:99", []string{"http://[::1]:99/x"}, []string{"http://[::2]:99/x"}},
	} {
		c, err := remote.NewClient(remote.WithEndpoint(tt.endpoint), remote.WithToken("hf_x"))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range tt.yes {
			if !remote.MaySeeToken(c, u) {
				t.Errorf("%s: the token must go to %s", tt.endpoint, u)
			}
		}
		for _, u := range tt.no {
			if remote.MaySeeToken(c, u) {
				t.Errorf("%s: the token must not go to %s", tt.endpoint, u)
			}
		}
	}
}

func TestTracker(t *testing.T) {
	h := hubtest.Start(t)
	data := remotetest.Data(1000)
	h.Repo("org/model").Add("m.gguf", bytes.NewReader(data)).Add("a.txt", bytes.NewReader(data)).Add("empty.gguf", bytes.NewReader(nil))
	url := h.Plain("m.bin", bytes.NewReader(data))
	c := client(t, h)
	wrong := bytes.Clone(data)
	wrong[500] ^= 1
	type seen struct{ off, end int }
	for _, tt := range []struct {
		name    string
		ref     remote.Reference
		data    []byte
		seen    []seen
		checked bool
		wrong   bool
	}{
		{"in order", hubRef("org/model", "m.gguf"), data, []seen{{0, 400}, {400, 1000}}, true, false},
		{"git blob", hubRef("org/model", "a.txt"), data, []seen{{0, 1000}}, true, false},
		{"seen twice", hubRef("org/model", "m.gguf"), data, []seen{{0, 400}, {100, 300}, {200, 700}, {0, 50}, {700, 1000}, {0, 1000}}, true, false},
		{"different", hubRef("org/model", "m.gguf"), wrong, []seen{{0, 1000}}, true, true},
		{"different git blob", hubRef("org/model", "a.txt"), wrong, []seen{{0, 1000}}, true, true},
		{"gap", hubRef("org/model", "m.gguf"), data, []seen{{0, 400}, {401, 1000}, {400, 401}}, false, false},
		{"out of order", hubRef("org/model", "m.gguf"), data, []seen{{400, 1000}, {0, 400}}, false, false},
		{"only a part, and wrong", hubRef("org/model", "m.gguf"), wrong, []seen{{0, 999}}, false, false},
		{"nothing", hubRef("org/model", "m.gguf"), data, nil, false, false},
		{"no digest", remote.Reference{Kind: remote.URL, URL: url}, data, []seen{{0, 1000}}, false, false},
		{"empty file", hubRef("org/model", "empty.gguf"), nil, nil, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := remote.NewTracker(open(t, c, tt.ref))
			for _, s := range tt.seen {
				tracker.Observe(int64(s.off), tt.data[s.off:s.end])
			}
			checked, err := tracker.Done()
			if checked != tt.checked || (err != nil) != tt.wrong {
				t.Errorf("checked %v, %v", checked, err)
			}
			if err != nil && (fault.KindOf(err) != fault.Verification || !strings.Contains(err.Error(), "org/model@")) {
				t.Errorf("error %v doesn't name the source", err)
			}
		})
	}
}

// TestCacheStates opens files whose cached copies are damaged in different ways. Online the network serves them, offline
// the reason is told.
func TestCacheStates(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	data := remotetest.Data(1000)
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, root, snapshot, blob string)
		want   string // "" is served from the cache
	}{
		{"sound", func(*testing.T, string, string, string) {}, ""},
		{"broken link", func(t *testing.T, _, _, blob string) { os.Remove(blob) }, "link is broken"},
		{"link to the outside", func(t *testing.T, root, snapshot, _ string) {
			os.Remove(snapshot)
			os.WriteFile(filepath.Join(root, "outside"), data, 0o666)
			os.Symlink(filepath.Join(root, "outside"), snapshot)
		}, "leaves the cache"},
		{"incomplete", func(t *testing.T, _, snapshot, blob string) {
			os.Rename(blob, blob+".incomplete")
			os.Remove(snapshot)
			os.Symlink(blob+".incomplete", snapshot)
		}, "incomplete"},
		{"empty blob", func(t *testing.T, _, _, blob string) { os.Truncate(blob, 0) }, "empty"},
		{"changed blob", func(t *testing.T, _, _, blob string) {
			os.WriteFile(blob, append([]byte{data[0] ^ 1}, data[1:]...), 0o666)
		}, "digest"},
		{"size differs from the listing", func(t *testing.T, root, _, _ string) {
			dir := filepath.Join(root, "models--org--model", "trees")
			os.MkdirAll(dir, 0o777)
			os.WriteFile(filepath.Join(dir, cachedCommit+".json"), []byte(`{"format_version":1,"files":{"a/m.gguf":{"size":999,"blob_id":"x"}}}`), 0o666)
		}, "size is wrong"},
		{"not there", func(t *testing.T, _, snapshot, _ string) { os.Remove(snapshot) }, "not in the hub cache"},
		{"a folder", func(t *testing.T, _, snapshot, _ string) {
			os.Remove(snapshot)
			os.Mkdir(snapshot, 0o777)
		}, "no regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			snapshot, blob := writeCache(t, root, "refs/pr/1", "a/m.gguf", data, true)
			tt.damage(t, root, snapshot, blob)
			h := hubtest.Start(t)
			c := client(t, h, remote.WithCache(root), remote.WithOffline(true), remote.WithCacheCheck(true))
			ref := hubRef("org/model", "a/m.gguf")
			ref.Revision = "refs/pr/1"
			s, err := c.Open(context.Background(), ref)
			check(t, err, tt.want, fault.Network)
			if err == nil {
				got, err := remote.ReadAll(context.Background(), s, 2000)
				if err != nil || !bytes.Equal(got, data) || s.Identity().Kind != "cache" || s.Identity().Commit != cachedCommit {
					t.Errorf("%+v: %v", s.Identity(), err)
				}
				remote.CloseSource(s)
			}
			if n := len(h.Requests()); n > 0 {
				t.Errorf("%d requests offline", n)
			}
		})
	}
}

// TestCacheBeforeNetwork takes a pinned file from the cache without any request, an absent one from its note, and
// what the cache can't give from the hub.
func TestCacheBeforeNetwork(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	data := remotetest.Data(1000)
	h := hubtest.Start(t)
	commit := h.Repo("org/model").Add("m.gguf", bytes.NewReader(data)).Push("main")
	root := t.TempDir()
	_, blob := writeCache(t, root, "main", "m.gguf", data, true)
	repo := filepath.Join(root, "models--org--model")
	for from, to := range map[string]string{filepath.Join(repo, "snapshots", cachedCommit): filepath.Join(repo, "snapshots", commit)} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	none := filepath.Join(repo, ".no_exist", commit, "sub")
	os.MkdirAll(none, 0o777)
	os.WriteFile(filepath.Join(none, "x.json"), nil, 0o666)

	c := client(t, h, remote.WithCache(root), remote.WithCacheCheck(true))
	ref := hubRef("org/model", "m.gguf")
	ref.Revision = commit
	if s := open(t, c, ref); s.Identity().Kind != "cache" {
		t.Errorf("served by %s", s.Identity().Kind)
	}
	absent := ref
	absent.File = "sub/x.json"
	_, err := c.Open(context.Background(), absent)
	check(t, err, "says the hub cache", fault.BadInput)
	if n := len(h.Requests()); n != 0 {
		t.Errorf("%d requests for what the cache knows", n)
	}
	os.WriteFile(blob, []byte("damaged"), 0o666)
	s := open(t, c, ref)
	got, err := remote.ReadAll(context.Background(), s, 2000)
	if err != nil || !bytes.Equal(got, data) || s.Identity().Kind != "hub" {
		t.Errorf("instead of a damaged copy: %s, %v", s.Identity().Kind, err)
	}
}

func TestFileChanges(t *testing.T) {
	for _, change := range map[string]func(p string) error{
		"cut":     func(p string) error { return os.Truncate(p, 10) },
		"longer":  func(p string) error { return os.Truncate(p, 1000) },
		"touched": func(p string) error { return os.Chtimes(p, time.Now(), time.Now().Add(time.Hour)) },
	} {
		p := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(p, remotetest.Data(100), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := remote.OpenFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(p); err != nil {
			t.Fatal(err)
		}
		_, err = s.ReadAt(context.Background(), make([]byte, 5), 0)
		check(t, err, "changed while it was read", fault.Verification)
		remote.CloseSource(s)
	}
	_, err := remote.OpenFile(t.TempDir())
	check(t, err, "no regular file", fault.BadInput)
	_, err = remote.OpenFile(filepath.Join(t.TempDir(), "none"))
	check(t, err, "no such file", fault.BadInput)
}

// TestResolveCancelled doesn't let one caller's cancellation reach another.
func TestResolveCancelled(t *testing.T) {
	h := hubtest.Start(t)
	h.Repo("org/model").Add("m.gguf", bytes.NewReader(nil))
	c := client(t, h)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c.Resolve(ended, "org/model", "main")
	if _, err := c.Resolve(context.Background(), "org/model", "main"); err != nil {
		t.Error(err)
	}
}
