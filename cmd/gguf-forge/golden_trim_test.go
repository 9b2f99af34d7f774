package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/tokenizer"
)

// TestGoldenTrim lets the reference engine continue prompts with a whole model and with one whose vocabulary was trimmed: it
// loads both, and the texts are the same, since all their tokens are kept.
func TestGoldenTrim(t *testing.T) {
	needProcesses(t)
	reference := os.Getenv("FORGE_REFERENCE")
	engine := filepath.Join(reference, "llama-completion")
	if _, err := os.Stat(engine); reference == "" || err != nil {
		if os.Getenv("FORGE_REQUIRE_GOLDEN") != "" {
			t.Fatalf("FORGE_REFERENCE is no folder with the reference engine: %v", err)
		}
		t.Skip("FORGE_REFERENCE does not name the folder of the reference engine")
	}
	demo, err := filepath.Abs("../../internal/demo/model")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := func(name, head string) string {
		writeFile(t, filepath.Join(dir, name+".yaml"), `
sources: {model: {path: `+demo+`/gguf/demo-noMTP-BF16.gguf}}
quantize: {type: Q8_0, pure: true}
`+head)
		out := filepath.Join(dir, name+".gguf")
		cmd := exec.Command(selfPath(t), "recipe", filepath.Join(dir, name+".yaml"), "-o", out)
		cmd.Args[0] = "gguf-forge"
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return out
	}
	whole := build("whole", "")
	trimmed := build("trimmed", `
head:
  trim: true
  corpora:
    - {name: en, path: `+demo+`/corpus/en.txt}
    - {name: ru, path: `+demo+`/corpus/ru.txt}
  select: {ids: "0-255, 2040-2042", share: 0.75}
`)
	for _, prompt := range []string{
		"It was late in the evening. Emma was in bed,", "Была тёмная ночь. Петя лежал в кровати,",
		"Once upon a time there was a", "Жил-был маленький",
	} {
		// The engine writes from a thread of its own and sometimes ends before all is written: the longest of some answers is
		// the whole one.
		say := func(model string) (text string) {
			for range 5 {
				if out := continuation(t, engine, model, prompt); len(out) > len(text) {
					text = out
				}
			}
			return text
		}
		want, got := say(whole), say(trimmed)
		if lost := outside(t, trimmed, whole, want); len(lost) > 0 {
			t.Fatalf("the text of prompt %q has tokens %v, which the trimmed vocabulary lacks: it proves nothing", prompt, lost)
		}
		if got != want || len(strings.TrimSpace(want)) < 60 {
			t.Errorf("prompt %q: the trimmed model says\n%s\nthe whole one\n%s", prompt, got, want)
		}
	}
}

// continuation is what the reference engine continues a prompt with.
func continuation(t *testing.T, engine, model, prompt string) string {
	t.Helper()
	cmd := exec.Command(engine, "-m", model, "--temp", "0", "-n", "40", "-t", "1", "-no-cnv", "--no-warmup", "-p", prompt)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(engine))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(model), err, err.(*exec.ExitError).Stderr)
	}
	return string(out)
}

// outside returns the tokens of text, in the vocabulary of whole, that trimmed does not have.
func outside(t *testing.T, trimmed, whole, text string) []int32 {
	t.Helper()
	kept, _ := headerOf(t, trimmed).Metadata.Get("forge.trim.ids")
	ids, ok := kept.Ints()
	if !ok {
		t.Fatal("there are no forge.trim.ids")
	}
	tok, err := tokenizer.FromGGUF(headerOf(t, whole).Metadata)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := tok.Encode(nil, []byte(strings.TrimSpace(text)), tokenizer.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(tokens, func(id int32) bool { return slices.Contains(ids, int64(id)) })
}

func headerOf(t *testing.T, path string) *gguf.Header {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}
