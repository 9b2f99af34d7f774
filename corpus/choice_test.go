package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/internal/testhub"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// The demo model and its texts, which are in the repository.
const demoModel = "../internal/demo/model"

func demoTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	data, err := os.ReadFile(demoModel + "/gguf/demo-noMTP-BF16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(h.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// demoResult is what the demo model's own script found with another tokenizer library.
type demoResult struct {
	Counts   map[string]Counts
	Kept     []uint32
	Coverage map[string]struct{ Tokens, Kept uint64 }
}

func readDemoResult(t *testing.T) demoResult {
	t.Helper()
	b, err := os.ReadFile("../tokenizer/testdata/demo-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var r demoResult
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// testEnv is an environment with a hub on the loopback interface that has the demo model's texts in a data set.
func testEnv(t *testing.T) Env {
	t.Helper()
	hub, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hub.Close() })
	if err := hub.Repo("datasets/someone/texts").AddFS(os.DirFS(demoModel)); err != nil {
		t.Fatal(err)
	}
	ru, err := os.ReadFile(demoModel + "/corpus/ru.txt")
	if err != nil {
		t.Fatal(err)
	}
	hub.Repo("datasets/someone/texts").Add("ru.txt.zst", bytes.NewReader(zstandard(t, string(ru))))
	hub.Repo("datasets/someone/texts").Add("ru.parquet", bytes.NewReader(parquetFile(t, string(ru))))
	client, err := remote.NewClient(remote.WithEndpoint(hub.Endpoint()), remote.WithToken(""), remote.WithCache(""), remote.WithOffline(false))
	if err != nil {
		t.Fatal(err)
	}
	return Env{Surroundings: remote.Surroundings{Client: client, Embedded: func() (*remote.Client, error) { return client, nil }, Dir: demoModel}}
}

const demoChoice = `
corpora:
  - {name: en, language: en, path: corpus/en.txt}
  - {name: ru, language: ru, hub: datasets/someone/texts, file: ru.txt.zst}
heldout:
  - {name: en, language: en, path: heldout/en.txt, min_coverage: 0.992}
  - {name: ru, language: ru, hub: datasets/someone/texts, file: heldout/ru.txt, min_coverage: 0.995}
  - {name: de, language: de, hub: datasets/someone/texts, endpoint: embedded, file: heldout/de.txt}
select:
  always: [special, byte]
  share: 0.65
  multiple: 8
`

func parseChoice(t *testing.T, text string) *Choice {
	t.Helper()
	c, err := ParseChoice([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChoiceDemo(t *testing.T) {
	tok, env, want := demoTokenizer(t), testEnv(t), readDemoResult(t)
	for _, threads := range []int{1, 3} {
		for _, ru := range []string{"ru.txt.zst", "ru.parquet", "corpus/ru.txt"} {
			env.Options.Threads = threads
			c := parseChoice(t, strings.ReplaceAll(demoChoice, "ru.txt.zst", ru))
			got, err := c.Run(t.Context(), env, tok, 3)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Kept, got.List.IDs); diff != "" {
				t.Errorf("%s: ids (-want +got):\n%s", ru, diff)
			}
			for i, name := range []string{"en", "ru"} {
				l := got.List.Corpora[i]
				if l.Name != name || l.Counts != tokenizer.HashCounts(want.Counts[name]) || l.Tokens != want.Counts[name].Tokens() || (l.Text == "") != (name == "ru" && ru == "ru.parquet") {
					t.Errorf("%s: corpus %+v", ru, l)
				}
			}
			for _, h := range got.HeldOut {
				if w := want.Coverage[h.Name]; h.Coverage != (tokenizer.Coverage{Tokens: w.Tokens, Kept: w.Kept}) || h.Name != "ru" && len(h.Missing) != 3 {
					t.Errorf("%+v, want %+v", h, w)
				}
			}
			if err := got.Err(); err != nil {
				t.Error(err)
			}
			if err := got.List.Check(tok.Vocabulary()); err != nil {
				t.Error(err)
			}
			if len(got.Order) != tok.Size() {
				t.Errorf("an order of %d ids", len(got.Order))
			}
		}
	}
}

// TestCountTogether counts one text by several counters and wants what one of them finds.
func TestCountTogether(t *testing.T) {
	tok, want := demoTokenizer(t), readDemoResult(t)
	for _, name := range []string{"en", "ru", "de"} {
		text, err := os.ReadFile(demoModel + "/corpus/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, threads := range []int{1, 2, 5} {
			got, err := Count(t.Context(), tok, []Input{{Name: "x", Reader: bytes.NewReader(text)}}, CountOptions{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Counts[name], got.Counts); diff != "" {
				t.Errorf("%s, %d threads (-want +got):\n%s", name, threads, diff)
			}
		}
	}
}

func TestChoiceFloor(t *testing.T) {
	tok, env := demoTokenizer(t), testEnv(t)
	c := parseChoice(t, strings.ReplaceAll(strings.ReplaceAll(demoChoice, "heldout/de.txt", "heldout/de.txt, min_coverage: 0.9"), "0.992", "0.999"))
	got, err := c.Run(t.Context(), env, tok, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = got.Err()
	for _, want := range []string{"99.21 % of the held-out text en, min_coverage asks for 99.90 %", "41.56 % of the held-out text de"} {
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.BadInput || fault.HintOf(err) == "" {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestChoiceList(t *testing.T) {
	tok, env := demoTokenizer(t), testEnv(t)
	var b bytes.Buffer
	if err := (&tokenizer.IDList{IDs: []uint32{5, 2040}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "some.ids"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	c := parseChoice(t, "select: {list: some.ids, below: 2}")
	for name, change := range map[string]func(*Env){
		"file":   func(e *Env) { e.Dir = dir },
		"inside": func(e *Env) { e.Lists = fstest.MapFS{"some.ids": {Data: b.Bytes()}} },
	} {
		e := env
		change(&e)
		got, err := c.Run(t.Context(), e, tok, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]uint32{0, 1, 5, 2040}, got.List.IDs); diff != "" || len(got.List.Corpora) != 0 {
			t.Errorf("%s: %s, %v", name, diff, got.List.Corpora)
		}
	}
	for name, change := range map[string]func(*Env){
		"no file":         func(e *Env) { e.Dir = "" },
		"no list inside":  func(e *Env) { e.Lists = fstest.MapFS{} },
		"no list at all":  func(e *Env) { e.Lists = fstest.MapFS{"some.ids": {Data: []byte("2\n1\n")}} },
		"of another kind": func(e *Env) { e.Lists = fstest.MapFS{"some.ids": {Data: []byte("5000\n")}} },
	} {
		e := env
		change(&e)
		if _, err := c.Run(t.Context(), e, tok, 0); fault.KindOf(err) != fault.BadInput || !strings.Contains(err.Error(), "some.ids") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChoiceErrors(t *testing.T) {
	tok, env := demoTokenizer(t), testEnv(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "empty.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env.Dir = dir
	for _, c := range []struct {
		name, text, want string
		kind             fault.Kind
	}{
		{"empty corpus", "corpora: [{name: en, path: empty.txt}]\nselect: {rows: 5}", "text en is empty", fault.BadInput},
		{"empty held-out text", "heldout: [{name: en, path: empty.txt}]\nselect: {below: 5}", "text en is empty", fault.BadInput},
		{"no file", "corpora: [{name: en, path: none.txt}]\nselect: {rows: 5}", "none.txt", fault.BadInput},
		{"no file on the hub", "corpora: [{name: en, hub: datasets/someone/texts, file: none.txt}]\nselect: {rows: 5}", "no such file", fault.BadInput},
		{"another hash", "corpora: [{name: en, hub: datasets/someone/texts, file: corpus/en.txt, sha256: " + strings.Repeat("ab", 32) + "}]\nselect: {rows: 5}", "has SHA-256", fault.Verification},
		{"not a URL", "corpora: [{name: en, url: empty.txt}]\nselect: {rows: 5}", "empty.txt", fault.BadInput},
		{"too many rows", "corpora: [{name: en, hub: datasets/someone/texts, file: corpus/en.txt}]\nselect: {rows: 5000}", "more than the 2048", fault.BadInput},
	} {
		got, err := parseChoice(t, c.text).Run(t.Context(), env, tok, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != c.kind || got != nil {
			t.Errorf("%s: %v, %v, want kind %d with %q", c.name, got, err, c.kind, c.want)
		}
	}
}

func TestParseChoiceErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"selekt: {}", "unknown field"},
		{"select: {rows: 5}", "none is declared"},
		{"select: {}", "keeps nothing"},
		{"corpora: [{name: en}]\nselect: {rows: 5}", "exactly one of hub, url and path"},
		{"corpora: [{name: ../en, path: x}]\nselect: {rows: 5}", "letters, digits"},
		{"corpora: [{name: en, path: x}, {name: en, path: y}]\nselect: {rows: 5}", "two texts named en"},
		{"corpora: [{name: en, path: x, revision: main}]\nselect: {rows: 5}", "belong to hub"},
		{"corpora: [{name: en, hub: a/b}]\nselect: {rows: 5}", "hub needs a file"},
		{"corpora: [{name: en, hub: a/b, file: c, endpoint: there}]\nselect: {rows: 5}", "only be embedded"},
		{"corpora: [{name: en, path: x, sha256: ABC}]\nselect: {rows: 5}", "64 lower-case hex"},
		{"corpora: [{name: en, path: x, format: csv}]\nselect: {rows: 5}", `format is "csv"`},
		{"corpora: [{name: en, path: x, weight: -1}]\nselect: {rows: 5}", "positive number"},
		{"corpora: [{name: en, path: x, weight: .nan}]\nselect: {rows: 5}", "positive number"},
		{"corpora: [{name: en, path: x, min_coverage: 0.5}]\nselect: {rows: 5}", "belongs to held-out texts"},
		{"heldout: [{name: en, path: x, weight: 1}]\nselect: {below: 5}", "belongs to texts that ids are chosen from"},
		{"heldout: [{name: en, path: x, min_coverage: 1.5}]\nselect: {below: 5}", "at most 1"},
		{"corpora: [{name: en, path: x}]\nselect: {budgets: [{corpora: [de], rows: 5}]}", "no corpus named de"},
		{"select: {ids: 5-x, below: 1}", "numbers and ranges"},
	} {
		_, err := ParseChoice([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput || strings.Contains(c.want, "\n") {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	c := parseChoice(t, "select: {below: 5, budgets: [], always: [byte]}")
	if c.Select.String() != `{"always":["byte"],"below":5}` {
		t.Error(c.Select)
	}
}

func TestReport(t *testing.T) {
	r := NewReport([]Head{{"small", []uint32{0}}, {"large", []uint32{0, 1}}}, []tokenizer.Counted{{Name: "a", Counts: Counts{5, 3, 2}}, {Name: "b", Counts: Counts{0, 0, 10}}}, 1)
	if got := r.Total.Coverage; got[0] != (tokenizer.Coverage{Tokens: 20, Kept: 5}) || got[1] != (tokenizer.Coverage{Tokens: 20, Kept: 8}) {
		t.Errorf("%v", got)
	}
	b, err := json.Marshal(r.JSON(func(id uint32) string { return string(rune('a' + id)) }))
	want := `{"texts":[{"name":"a","heads":[{"head":"small","rows":1,"coverage":{"tokens":10,"kept":5,"coverage":0.5},"missing":[{"id":1,"count":3,"text":"b"}]},` +
		`{"head":"large","rows":2,"coverage":{"tokens":10,"kept":8,"coverage":0.8},"missing":[{"id":2,"count":2,"text":"c"}]}]},`
	if err != nil || !strings.HasPrefix(string(b), want) {
		t.Errorf("%s, %v", b, err)
	}
}

func BenchmarkCount(b *testing.B) {
	tok := demoTokenizer(b)
	one, err := os.ReadFile(demoModel + "/corpus/en.txt")
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat(one, 20)
	var lines bytes.Buffer
	for part := range bytes.SplitAfterSeq(text, []byte("\n")) {
		line, err := json.Marshal(map[string]string{"text": string(part)})
		if err != nil {
			b.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for _, c := range []struct {
		name   string
		format Format
		data   []byte
	}{{"text", FormatText, text}, {"jsonl", FormatJSONL, lines.Bytes()}} {
		for _, threads := range []int{1, 2} {
			b.Run(c.name+"/threads="+string(rune('0'+threads)), func(b *testing.B) {
				b.SetBytes(int64(len(c.data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Count(context.Background(), tok, []Input{{Name: "x", Format: c.format, Reader: bytes.NewReader(c.data)}}, CountOptions{Threads: threads}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
