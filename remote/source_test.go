package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gguf-forge/internal/testhub"
	"gguf-forge/internal/testhub/hubtest"
	"gguf-forge/remote"
	"gguf-forge/remote/remotetest"
)

const testToken = "hf_secretsecretsecret"

// client returns a client of the hub with short waits and without a cache. Its log goes to the test.
func client(t testing.TB, h *testhub.Hub, opts ...remote.Option) *remote.Client {
	t.Helper()
	all := []remote.Option{
		remote.WithEndpoint(h.Endpoint()), remote.WithToken(testToken), remote.WithCache(""), remote.WithOffline(false),
		remote.WithRetry(4, time.Millisecond, 4*time.Millisecond), remote.WithStallTimeout(20 * time.Second),
		remote.WithLogger(func(line string) {
			if strings.Contains(line, testToken) || strings.Contains(line, "Signature=") {
				t.Errorf("a log line shows a secret: %s", line)
			}
		}),
	}
	c, err := remote.NewClient(append(all, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t testing.TB, c *remote.Client, ref remote.Reference) remote.Source {
	t.Helper()
	s, err := c.Open(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remote.CloseSource(s) })
	return s
}

func hubRef(repo, file string) remote.Reference {
	return remote.Reference{Kind: remote.Hub, Repo: repo, Revision: "main", File: file}
}

func TestFile(t *testing.T) {
	remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
		p := filepath.Join(t.TempDir(), "model.bin")
		if err := os.WriteFile(p, data, 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := remote.OpenFile(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remote.CloseSource(s) })
		return s
	})
}

func TestHTTP(t *testing.T) {
	remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
		h := hubtest.Start(t)
		url := h.Plain("a file.bin", bytes.NewReader(data))
		return open(t, client(t, h), remote.Reference{Kind: remote.URL, URL: url})
	})
}

func TestHTTPMoved(t *testing.T) {
	remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
		h := hubtest.Start(t)
		url := h.Moved(h.Plain("model.bin", bytes.NewReader(data)))
		return open(t, client(t, h), remote.Reference{Kind: remote.URL, URL: url})
	})
}

// TestHub runs the suite over a large file, which comes through signed links, and TestHubSmall over one that the hub
// sends itself.
func TestHub(t *testing.T) {
	remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
		h := hubtest.Start(t)
		h.SetToken(testToken)
		h.Repo("org/model").Add("sub dir/weights #1+2%.gguf", bytes.NewReader(data))
		return open(t, client(t, h), hubRef("org/model", "sub dir/weights #1+2%.gguf"))
	})
}

func TestHubSmall(t *testing.T) {
	remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
		h := hubtest.Start(t)
		h.SetToken(testToken)
		h.Repo("datasets/org/texts").Add("a/b.txt", bytes.NewReader(data))
		return open(t, client(t, h), hubRef("datasets/org/texts", "a/b.txt"))
	})
}

func TestCache(t *testing.T) {
	for _, linked := range []bool{true, false} {
		remotetest.Suite(t, func(t *testing.T, data []byte) remote.Source {
			h := hubtest.Start(t)
			root := t.TempDir()
			writeCache(t, root, "main", "sub/model.bin", data, linked)
			c := client(t, h, remote.WithCache(root), remote.WithOffline(true), remote.WithCacheCheck(true))
			s := open(t, c, hubRef("org/model", "sub/model.bin"))
			if n := len(h.Requests()); n > 0 {
				t.Errorf("%d requests were made offline", n)
			}
			return s
		})
	}
}

const cachedCommit = "0123456789abcdef0123456789abcdef01234567"

// writeCache puts a file of org/model into a hub cache, with or without a link to a blob.
func writeCache(t testing.TB, root, ref, name string, data []byte, linked bool) (snapshot, blob string) {
	t.Helper()
	repo := filepath.Join(root, "models--org--model")
	snapshot = filepath.Join(repo, "snapshots", cachedCommit, filepath.FromSlash(name))
	refFile := filepath.Join(repo, "refs", filepath.FromSlash(ref))
	for _, dir := range []string{filepath.Dir(snapshot), filepath.Dir(refFile), filepath.Join(repo, "blobs")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(refFile, []byte(cachedCommit+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if !linked {
		if err := os.WriteFile(snapshot, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return snapshot, ""
	}
	sum := sha256.Sum256(data)
	blob = filepath.Join(repo, "blobs", hex.EncodeToString(sum[:]))
	if err := os.WriteFile(blob, data, 0o666); err != nil {
		t.Fatal(err)
	}
	target, err := filepath.Rel(filepath.Dir(snapshot), blob)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, snapshot); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("no symbolic links here")
		}
		t.Fatal(err)
	}
	return snapshot, blob
}
