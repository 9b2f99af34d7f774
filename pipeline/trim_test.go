package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

const (
	demoModel = "../internal/demo/model/gguf/demo-noMTP-BF16.gguf"
	demoTexts = "../internal/demo/model/"
	demoHead  = `{ids: "0-255, 2040-2042", share: 0.65, multiple: 8}`
)

// demoRecipe is a recipe for the demo model whose head is chosen from English and Russian text.
func demoRecipe(t *testing.T, more string) *Plan {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p := planOf(t, dir, `
sources: {model: {path: internal/demo/model/gguf/demo-noMTP-BF16.gguf}}
quantize: {type: Q8_0, pure: true}
provenance: none
head:
  select: `+demoHead+`
  corpora:
    - {name: en, path: internal/demo/model/corpus/en.txt}
    - {name: ru, path: internal/demo/model/corpus/ru.txt}
  heldout:
    - {name: en, path: internal/demo/model/heldout/en.txt, min_coverage: 0.99}
    - {name: de, path: internal/demo/model/heldout/de.txt}
`+more)
	return p
}

func built(t *testing.T, a *Artifact) (*gguf.Header, []byte) {
	t.Helper()
	var b bytes.Buffer
	if _, err := a.Stream(t.Context(), &b, StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return h, b.Bytes()
}

func TestHeadOfARecipe(t *testing.T) {
	p := demoRecipe(t, "")
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	// The counts, the rule and its result were computed independently: see the demo model's tokens.json.
	const ids = "450441cf5983e5246bb96d0d65a1e87e8274457b3f1fee54bd24388292091a88"
	r := p.Report()
	if r.Head.Rows != 1336 || r.Head.Vocabulary != 2048 || r.Head.SHA256 != ids {
		t.Errorf("%+v", r.Head)
	}
	if en, de := r.Head.Texts[0].Coverage, r.Head.Texts[1].Coverage; en.Tokens != 10056 || en.Kept != 9977 || de.Tokens != 9600 || de.Kept != 3990 {
		t.Errorf("coverage %+v, %+v", en, de)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "coverage of de: 41.56 % of 9600 tokens") {
		t.Errorf("%v\n%s", err, &text)
	}
	h, file := built(t, p.Artifact)
	if h.Metadata.Text(KeyHeadSHA256) != ids || len(h.Metadata.Text(KeyHeadVocabulary)) != 64 {
		t.Errorf("head keys: %q, %q", h.Metadata.Text(KeyHeadSHA256), h.Metadata.Text(KeyHeadVocabulary))
	}

	// The same head, cut from a finished file with the whole vocabulary.
	dir := t.TempDir()
	abs, err := filepath.Abs(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	whole := planOf(t, "", "sources: {model: {path: "+abs+"}}\nquantize: {type: Q8_0, pure: true}\nprovenance: none\n")
	_, data := built(t, whole.Artifact)
	path := filepath.Join(dir, "whole.gguf")
	write(t, path, data)
	ref := remote.Reference{Kind: remote.File, Path: path}
	cut, err := OpenRecut(t.Context(), testEnv(t).Client, ref, p.Head.List)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	if _, recut := built(t, cut.Artifact); !bytes.Equal(recut, file) {
		t.Error("a head cut from the finished file differs from one cut from the source")
	}
	if fault.KindOf(cut.Refuse(path)) != fault.Usage {
		t.Error("a model may be cut onto itself")
	}
	t.Run("bad lists", func(t *testing.T) {
		for name, list := range map[string]*tokenizer.IDList{
			"other vocabulary": {IDs: []uint32{1}, VocabHash: strings.Repeat("0", 64), VocabSize: 2048},
			"other size":       {IDs: []uint32{1}, VocabSize: 100},
			"out of range":     {IDs: []uint32{2048}},
		} {
			if _, err := OpenRecut(t.Context(), testEnv(t).Client, ref, list); fault.KindOf(err) != fault.BadInput {
				t.Errorf("%s: %v", name, err)
			}
		}
		pruned := filepath.Join(dir, "pruned.gguf")
		write(t, pruned, file)
		if _, err := OpenRecut(t.Context(), testEnv(t).Client, remote.Reference{Kind: remote.File, Path: pruned}, p.Head.List); err == nil || !strings.Contains(err.Error(), "pruned already") {
			t.Errorf("a pruned head is cut again: %v", err)
		}
	})
}

func TestCoverageFloor(t *testing.T) {
	p := demoRecipe(t, "    - {name: ru, path: internal/demo/model/heldout/de.txt, min_coverage: 0.9}\n")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "covers 41.56 % of the held-out text ru") {
		t.Errorf("a text of another language passes as Russian: %v", err)
	}
}

func TestTrimmedVocabulary(t *testing.T) {
	p := demoRecipe(t, "  trim: true\n")
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 2 || !strings.Contains(p.Notes[0], "268 more ids") || !strings.Contains(p.Notes[1], "444 tokens are no longer one token") {
		t.Errorf("notes %q", p.Notes)
	}
	h, file := built(t, p.Artifact)
	small, err := tokenizer.FromGGUF(h.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	full, err := gguf.ReadHeader(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := tokenizer.FromGGUF(full.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	if small.Size() != 1336+268 {
		t.Errorf("%d tokens", small.Size())
	}
	// Every token is the one it was, and its row of the embedding too.
	for i, id := range p.trimmed {
		if !bytes.Equal(small.Text(int32(i)), whole.Text(int32(id))) || small.Attributes(int32(i)) != whole.Attributes(int32(id)) {
			t.Fatalf("token %d is %q, it was %q", i, small.Text(int32(i)), whole.Text(int32(id)))
		}
	}
	a, b := whole.Special(), small.Special()
	if int32(p.trimmed[b.EOS]) != a.EOS || int32(p.trimmed[b.Padding]) != a.Padding {
		t.Errorf("special ids %+v, they were %+v", b, a)
	}
	for _, info := range h.Tensors {
		if info.Name == "token_embd.weight" && info.Dim(1) != int64(small.Size()) {
			t.Errorf("embedding of %d rows", info.Dim(1))
		}
	}
	if len(file) == 0 || h.Metadata.Uint(KeyTrimFrom, 0) != 2048 {
		t.Errorf("trim keys: %d", h.Metadata.Uint(KeyTrimFrom, 0))
	}

	// Text whose tokens are all kept has the same tokens.
	same := 0
	for _, lang := range []string{"en", "ru", "de"} {
		text, err := os.ReadFile(demoTexts + "heldout/" + lang + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			want, err := whole.Encode(nil, line, tokenizer.EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(want, func(id int32) bool { _, kept := slices.BinarySearch(p.Head.List.IDs, uint32(id)); return !kept }) {
				continue
			}
			got, err := small.Encode(nil, line, tokenizer.EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i] = int32(p.trimmed[got[i]])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q: tokens %v, they were %v", line, got, want)
			}
			same++
		}
	}
	if same < 200 {
		t.Errorf("only %d lines were compared", same)
	}
}
