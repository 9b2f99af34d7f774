package remote_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"

	"github.com/google/go-cmp/cmp"
)

func TestParseReference(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"model.gguf", "recipe:mine", "org/name:file.gguf"} {
		if strings.Contains(name, ":") && filepath.Separator == '\\' {
			continue // no file name there
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file := func(p string) remote.Reference { return remote.Reference{Kind: remote.File, Path: p} }
	hub := func(repo, rev, f string) remote.Reference {
		return remote.Reference{Kind: remote.Hub, Repo: repo, Revision: rev, File: f}
	}
	url := func(u string) remote.Reference { return remote.Reference{Kind: remote.URL, URL: u} }
	type test struct {
		in   string
		want remote.Reference
	}
	tests := []test{
		{"model.gguf", file("model.gguf")},
		{`C:\x`, file(`C:\x`)},
		{`c:/models/x.gguf`, file(`c:/models/x.gguf`)},
		{"C:x.gguf", file("C:x.gguf")},
		{`\\server\share\x`, file(`\\server\share\x`)},
		{"/no/such:file", file("/no/such:file")},
		{"./a:b", file("./a:b")},
		{"../a/b:c", file("../a/b:c")},
		{"~/models/a:b", file("~/models/a:b")},
		{".", file(".")},
		{"recipe:demo-q4k", remote.Reference{Kind: remote.Recipe, Recipe: "demo-q4k"}},
		{"org/name:model.gguf", hub("org/name", "main", "model.gguf")},
		{"org/name:Q4_K_M", hub("org/name", "main", "Q4_K_M")},
		{"org/name@v1.0:a/b c.gguf", hub("org/name", "v1.0", "a/b c.gguf")},
		{"org/name@refs/pr/1:x", hub("org/name", "refs/pr/1", "x")},
		{"org/name:a:b@c", hub("org/name", "main", "a:b@c")},
		{"datasets/org/name:train.txt", hub("datasets/org/name", "main", "train.txt")},
		{"https://huggingface.co/org/name/blob/main/a/b.gguf", hub("org/name", "main", "a/b.gguf")},
		{"https://huggingface.co/org/name/resolve/refs%2Fpr%2F1/a%20b.gguf?download=true", hub("org/name", "refs/pr/1", "a b.gguf")},
		{"https://huggingface.co/org/name/blob/refs/pr/12/x.gguf#top", hub("org/name", "refs/pr/12", "x.gguf")},
		{"HTTPS://hf.co/gpt2/raw/main/config.json", hub("gpt2", "main", "config.json")},
		{"https://huggingface.co/datasets/org/name/resolve/main/x", hub("datasets/org/name", "main", "x")},
		{"https://huggingface.co/org/name/tree/main", url("https://huggingface.co/org/name/tree/main")},
		{"http://localhost:8080/a/resolve/main/b.gguf?x=1#y", url("http://localhost:8080/a/resolve/main/b.gguf?x=1")},
		{"https://example.com/x.gguf", url("https://example.com/x.gguf")},
	}
	if filepath.Separator != '\\' {
		tests = append(tests, test{"recipe:mine", file("recipe:mine")}, test{"org/name:file.gguf", file("org/name:file.gguf")})
	}
	for _, tt := range tests {
		got, err := remote.ParseReference(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.in, d)
		}
		if got.Kind == remote.Hub || got.Kind == remote.Recipe {
			if again, err := remote.ParseReference(got.String()); err == nil && !cmp.Equal(again, got) && again.Kind != remote.File {
				t.Errorf("%s is printed as %s, which is another reference", tt.in, got)
			}
		}
	}
}

func TestParseReferenceErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		in, want, hint string
		kind           fault.Kind
	}{
		{"", "is empty", "a reference is", fault.Usage},
		{"missing.gguf", "no such file: missing.gguf", "a reference is", fault.BadInput},
		{"models/missing.gguf", "no such file", "a reference is", fault.BadInput},
		{"org/name", "neither an existing path nor", "org/name:FILE", fault.Usage},
		{"recipe:", "names no recipe", "", fault.Usage},
		{"gpt2:model.gguf", "not a repository name", "", fault.Usage},
		{"org/name:", "not a file name", "", fault.Usage},
		{"org/name@:x", "not a revision", "", fault.Usage},
		{"org/name:../x", "not a file name", "", fault.Usage},
		{"org/name:/x", "not a file name", "", fault.Usage},
		{"org/name:a//b", "not a file name", "", fault.Usage},
		{"org/name:a\nb", "not a file name", "", fault.Usage},
		{"org/name@..:x", "not a revision", "", fault.Usage},
		{"or--g/name:x", "not a repository name", "", fault.Usage},
		{"org/na..me:x", "not a repository name", "", fault.Usage},
		{"a/b/c:x", "not a repository name", "", fault.Usage},
		{"ftp://host/x", `scheme "ftp"`, "a reference is", fault.Usage},
		{"hf://org/name/x", `scheme "hf"`, "", fault.Usage},
		{"https://", "not a valid URL", "", fault.Usage},
		{"https://me:secret@host/x", "credentials", "", fault.Usage},
		{"https://me:secret@host/%zz?secret", "not a valid URL", "", fault.Usage},
		{"https://huggingface.co/org/name/resolve/main/../../x", "not a file name", "", fault.Usage},
		{"https://huggingface.co/org/name/resolve/main/%2e%2e/x", "not a file name", "", fault.Usage},
	} {
		_, err := remote.ParseReference(tt.in)
		check(t, err, tt.want, tt.kind)
		if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(fault.HintOf(err), tt.hint)) {
			t.Errorf("%q: error %q, hint %q", tt.in, err, fault.HintOf(err))
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"org/name@rev:file", "recipe:x", "https://huggingface.co/o/n/blob/main/f", `C:\x`, "a:b", "https://u:p@h/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := remote.ParseReference(s)
		if err != nil || ref.Kind != remote.Hub {
			return
		}
		for _, part := range []string{ref.Repo, ref.Revision, ref.File} {
			if !filepath.IsLocal(filepath.FromSlash(part)) || strings.ContainsAny(part, "\\\x00\n") {
				t.Errorf("%q gives the unsafe part %q", s, part)
			}
		}
	})
}

// TestEnvironment reads the variables as the hub's own client does.
func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
		"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DOWNLOAD_TIMEOUT", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	write := func(name, text string) string {
		p := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("huggingface/token", "hf_file\n")
	other := write("other", "  hf_other ")
	for _, tt := range []struct {
		name string
		env  map[string]string
		want remote.Settings
	}{
		{"defaults", nil, remote.Settings{Endpoint: "https://huggingface.co", Token: "hf_file", Cache: filepath.Join(home, "huggingface", "hub")}},
		{"variables win", map[string]string{"HF_ENDPOINT": "https://mirror.example/", "HF_TOKEN": " hf_env\n", "HF_HUB_CACHE": "/c", "HF_HUB_OFFLINE": "Yes"},
			remote.Settings{Endpoint: "https://mirror.example", Token: "hf_env", Cache: "/c", Offline: true}},
		{"older names", map[string]string{"HUGGING_FACE_HUB_TOKEN": "hf_old", "HUGGINGFACE_HUB_CACHE": "/old", "TRANSFORMERS_OFFLINE": "1"},
			remote.Settings{Endpoint: "https://huggingface.co", Token: "hf_old", Cache: "/old", Offline: true}},
		{"paths", map[string]string{"HF_TOKEN_PATH": other, "HF_HOME": "$XDG_CACHE_HOME/h", "HF_HUB_OFFLINE": "0"},
			remote.Settings{Endpoint: "https://huggingface.co", Token: "hf_other", Cache: filepath.Join(home, "h", "hub")}},
		{"no implicit token", map[string]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN": "true"},
			remote.Settings{Endpoint: "https://huggingface.co", Cache: filepath.Join(home, "huggingface", "hub")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", home)
			for name, v := range tt.env {
				t.Setenv(name, v)
			}
			c, err := remote.NewClient()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, remote.SettingsOf(c)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	t.Run("bad values", func(t *testing.T) {
		for name, v := range map[string]string{"HF_ENDPOINT": "ftp://x", "HF_TOKEN": "hf_a b"} {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, v)
				_, err := remote.NewClient()
				if fault.KindOf(err) != fault.Usage || strings.Contains(err.Error(), "hf_a") {
					t.Errorf("%v", err)
				}
			})
		}
	})
}
