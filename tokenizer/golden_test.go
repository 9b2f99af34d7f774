package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/gguf"
)

// The golden sets hold what llama.cpp and Hugging Face's library make of 552 short texts and 1 MB of mixed text with 13
// real vocabularies. They are in FORGE_GOLDEN, the vocabularies in FORGE_WORK/vocab.

type goldenCase struct {
	Name, Text, Hex string
	Repeat          int
}

func (c goldenCase) bytes(t *testing.T) []byte {
	text := []byte(c.Text)
	if c.Hex != "" {
		var err error
		if text, err = hex.DecodeString(c.Hex); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Repeat(text, max(c.Repeat, 1))
}

// goldenIDs are ids, or their number, hash and ends; null where the reference throws.
type goldenIDs struct {
	thrown bool
	ids    []int32
	N      int
	SHA256 string
}

func (g *goldenIDs) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		g.thrown = true
		return nil
	case '[':
		return json.Unmarshal(data, &g.ids)
	}
	type plain goldenIDs
	return json.Unmarshal(data, (*plain)(g))
}

func (g goldenIDs) check(t *testing.T, what string, got []int32, err error) {
	t.Helper()
	switch {
	case g.thrown != (err != nil):
		t.Errorf("%s: error %v, want one: %v", what, err, g.thrown)
	case err != nil:
	case g.SHA256 != "":
		if len(got) != g.N || hashIDs(got) != g.SHA256 {
			t.Errorf("%s: %d ids with SHA-256 %s, want %d with %s", what, len(got), hashIDs(got), g.N, g.SHA256)
		}
	case !slices.Equal(got, g.ids):
		t.Errorf("%s: got  %v\nwant %v", what, got, g.ids)
	}
}

func hashIDs(ids []int32) string {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, ids)
	return hex.EncodeToString(h.Sum(nil))
}

// hashCounts hashes the counts of size ids: a tokenizer.json may have fewer or more than the GGUF file of the golden set.
func hashCounts(counts []uint64, size int) string {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, append(counts, make([]uint64, max(0, size-len(counts)))...)[:size])
	return hex.EncodeToString(h.Sum(nil))
}

type goldenBytes struct {
	Hex    *string
	Len    int
	SHA256 string
}

func (g goldenBytes) check(t *testing.T, what string, got []byte) {
	t.Helper()
	if g.Hex != nil {
		if want, _ := hex.DecodeString(*g.Hex); !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		return
	}
	if sum := sha256.Sum256(got); len(got) != g.Len || hex.EncodeToString(sum[:]) != g.SHA256 {
		t.Errorf("%s: %d bytes with SHA-256 %x, want %d with %s", what, len(got), sum, g.Len, g.SHA256)
	}
}

type goldenDetok struct{ goldenBytes }

func (g *goldenDetok) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &g.Hex)
	}
	return json.Unmarshal(data, &g.goldenBytes)
}

type goldenFamily struct {
	Vocab struct {
		NTokens        int   `json:"n_tokens"`
		AddSpacePrefix bool  `json:"add_space_prefix"`
		MissingInts    []int `json:"bytes_without_token"`
	}
	BOS, EOS     int32
	AddBOS       bool                             `json:"add_bos"`
	AddEOS       bool                             `json:"add_eos"`
	Cases        map[string]goldenIDs             `json:"cases"`
	AddSpecial   struct{ Prefix, Suffix []int32 } `json:"add_special"`
	ParseSpecial map[string]goldenIDs             `json:"parse_special"`
	Pieces       map[string]goldenBytes           `json:"pieces_differ"`
	Detokenize   map[string]goldenDetok           `json:"detokenize_differ"`
	Mixed        goldenMixed
	HF           struct {
		Parsed goldenHF `json:"specials_parsed"`
		Off    goldenHF `json:"specials_off"`
		Mixed  goldenMixed
	} `json:"hf"`
}

type goldenMixed struct {
	N            int
	SHA256       string
	Same         bool
	CountsSHA256 string `json:"counts_sha256"`
	Distinct     int
}

type goldenHF struct {
	Equal  int
	Differ map[string]struct{ IDs goldenIDs }
}

func goldenDirs(t testing.TB) (golden, vocab string) {
	t.Helper()
	golden, work := os.Getenv("FORGE_GOLDEN"), os.Getenv("FORGE_WORK")
	if golden == "" || work == "" {
		if os.Getenv("FORGE_REQUIRE_GOLDEN") == "1" {
			t.Fatal("FORGE_GOLDEN and FORGE_WORK must be set")
		}
		t.Skip("needs FORGE_GOLDEN and FORGE_WORK")
	}
	return filepath.Join(golden, "tokenizer"), filepath.Join(work, "vocab")
}

func readJSONFile(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readMetadata(t testing.TB, path string) *gguf.Metadata {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return h.Metadata
}

func loadGGUF(t testing.TB, path string) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(readMetadata(t, path))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tok
}

func loadJSON(t testing.TB, path string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON(data, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tok
}

func asMode(t testing.TB, tok *Tokenizer, mode Mode) *Tokenizer {
	t.Helper()
	tok, err := tok.As(mode)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// goldenVocabs says where each family's vocabulary is: NAME.gguf, or NAME.tokenizer.json.
var goldenVocabs = []struct{ family, gguf, json string }{
	{"qwen2", "qwen2", ""},
	{"qwen35", "qwen35", ""},
	{"llama-bpe", "llama-bpe", "json-llama3"},
	{"smollm2", "smollm2", ""},
	{"gemma3", "gemma3", "json-gemma3"},
	{"llama-spm", "llama-spm", ""},
	{"phi-3", "phi-3", ""},
	{"gemma-4", "gemma-4", ""},
	{"gpt-2", "gpt-2", ""},
	{"starcoder", "starcoder", ""},
	{"refact", "refact", ""},
	{"dbrx-cl100k", "", "json-cl100k"},
	{"gpt-4o", "", "json-gpt4o"},
}

func TestGolden(t *testing.T) {
	golden, vocab := goldenDirs(t)
	var cases []goldenCase
	readJSONFile(t, filepath.Join(golden, "texts", "cases.json"), &cases)
	mixed, err := os.ReadFile(filepath.Join(golden, "texts", "mixed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 552 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, v := range goldenVocabs {
		t.Run(v.family, func(t *testing.T) {
			var g goldenFamily
			readJSONFile(t, filepath.Join(golden, v.family+".json"), &g)
			var llama, hf *Tokenizer
			if v.gguf != "" {
				llama = loadGGUF(t, filepath.Join(vocab, v.gguf+".gguf"))
				hf = asMode(t, llama, HuggingFace)
			}
			if v.json != "" {
				hf = loadJSON(t, filepath.Join(vocab, v.json+".tokenizer.json"))
				if llama == nil {
					llama = asMode(t, hf, LlamaCpp)
				}
			}
			if strings.HasPrefix(v.family, "qwen") {
				hf = goldenQwen(t, v.family, filepath.Join(vocab, "json-qwen3.tokenizer.json"))
			}
			goldenLlama(t, llama, &g, cases, mixed, v.gguf != "")
			goldenHuggingFace(t, hf, &g, cases, mixed)
		})
	}
}

// goldenQwen returns the tokenizer of the golden set: Qwen3's with three added tokens, and for qwen35 another expression.
func goldenQwen(t *testing.T, family, path string) *Tokenizer {
	t.Helper()
	var doc map[string]json.RawMessage
	readJSONFile(t, path, &doc)
	var added []json.RawMessage
	if err := json.Unmarshal(doc["added_tokens"], &added); err != nil {
		t.Fatal(err)
	}
	doc["added_tokens"], _ = json.Marshal(added[:3])
	if family == "qwen35" {
		from, _ := json.Marshal(qwen2)
		to, _ := json.Marshal(qwen35)
		pre, _ := json.Marshal(doc["pre_tokenizer"])
		doc["pre_tokenizer"] = bytes.Replace(pre, from, to, 1)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func goldenLlama(t *testing.T, tok *Tokenizer, g *goldenFamily, cases []goldenCase, mixed []byte, declared bool) {
	if tok.Size() != g.Vocab.NTokens {
		t.Errorf("%d tokens, want %d", tok.Size(), g.Vocab.NTokens)
	}
	var missing []int
	for _, b := range tok.MissingBytes() {
		missing = append(missing, int(b))
	}
	if d := cmp.Diff(g.Vocab.MissingInts, missing); d != "" {
		t.Errorf("bytes without a token: %s", d)
	}
	if declared {
		if s := tok.Special(); s.BOS != g.BOS || s.EOS != g.EOS {
			t.Errorf("bos %d, eos %d, want %d and %d", s.BOS, s.EOS, g.BOS, g.EOS)
		}
	}
	prefix, suffix := tok.AddedIDs()
	if !slices.Equal(prefix, g.AddSpecial.Prefix) || !slices.Equal(suffix, g.AddSpecial.Suffix) {
		t.Errorf("adds %v and %v, want %v and %v", prefix, suffix, g.AddSpecial.Prefix, g.AddSpecial.Suffix)
	}
	for _, c := range cases {
		text := c.bytes(t)
		want := g.Cases[c.Name]
		ids, err := tok.Encode(nil, text, EncodeOptions{})
		want.check(t, c.Name, ids, err)
		special, ok := g.ParseSpecial[c.Name]
		if !ok {
			special = want
		}
		parsed, errParsed := tok.Encode(nil, text, EncodeOptions{ParseSpecial: true})
		special.check(t, c.Name+" with specials", parsed, errParsed)
		around, _ := tok.Encode([]int32{-7}, text, EncodeOptions{AddSpecial: true})
		if err == nil && !slices.Equal(around, slices.Concat([]int32{-7}, prefix, ids, suffix)) {
			t.Errorf("%s: with added tokens %v", c.Name, around)
		}
		if err != nil {
			continue
		}
		goldenDecode(t, tok, g, c.Name, text, ids)
		counter := tok.NewCounter()
		if err := counter.Bytes(text); err != nil {
			t.Errorf("%s: count: %v", c.Name, err)
		}
		if !slices.Equal(counter.Counts(), countIDs(tok, ids)) {
			t.Errorf("%s: the counts are others than those of its ids", c.Name)
		}
	}
	ids, err := tok.Encode(nil, mixed, EncodeOptions{})
	goldenIDs{N: g.Mixed.N, SHA256: g.Mixed.SHA256}.check(t, "mixed.txt", ids, err)
	again, err := tok.Encode(nil, mixed, EncodeOptions{})
	goldenIDs{N: g.Mixed.N, SHA256: g.Mixed.SHA256}.check(t, "mixed.txt again", again, err)
	checkCounts(t, tok, mixed, g.Vocab.NTokens, g.Mixed.CountsSHA256)
}

func countIDs(tok *Tokenizer, ids []int32) []uint64 {
	counts := make([]uint64, tok.Size())
	for _, id := range ids {
		counts[id]++
	}
	return counts
}

// checkCounts counts a text in one go and with two counters.
func checkCounts(t *testing.T, tok *Tokenizer, text []byte, size int, want string) {
	t.Helper()
	counter := tok.NewCounter()
	if err := counter.Bytes(text); err != nil {
		t.Fatal(err)
	}
	if got := hashCounts(counter.Counts(), size); got != want {
		t.Errorf("counts of mixed.txt have SHA-256 %s, want %s", got, want)
	}
	two := []*Counter{tok.NewCounter(), tok.NewCounter()}
	if err := CountText(bytes.NewReader(text), two); err != nil {
		t.Fatal(err)
	}
	two[0].Add(two[1])
	if got := hashCounts(two[0].Counts(), size); got != want {
		t.Errorf("counts of mixed.txt by two counters have SHA-256 %s, want %s", got, want)
	}
}

func goldenDecode(t *testing.T, tok *Tokenizer, g *goldenFamily, name string, text []byte, ids []int32) {
	var joined []byte
	for _, id := range ids {
		joined = append(joined, tok.Piece(id)...)
	}
	want, ok := g.Pieces[name]
	if !ok {
		whole := string(text)
		if g.Vocab.AddSpacePrefix && whole != "" {
			whole = " " + whole
		}
		all := hex.EncodeToString([]byte(whole))
		want = goldenBytes{Hex: &all}
	}
	want.check(t, name+" pieces", joined)
	if g.Vocab.AddSpacePrefix {
		joined = bytes.TrimPrefix(joined, []byte(" "))
	}
	if got := tok.Decode(nil, ids, DecodeOptions{Special: true}); !bytes.Equal(got, joined) {
		t.Errorf("%s decodes to %q, want %q", name, got, joined)
	}
	clean, ok := g.Detokenize[name]
	if !ok {
		all := hex.EncodeToString(joined)
		clean.Hex = &all
	}
	clean.check(t, name+" cleaned up", tok.Decode(nil, ids, DecodeOptions{Special: true, CleanUp: true}))
}

func goldenHuggingFace(t *testing.T, tok *Tokenizer, g *goldenFamily, cases []goldenCase, mixed []byte) {
	for _, parse := range []bool{false, true} {
		hf, base := &g.HF.Off, g.Cases
		if parse {
			hf = &g.HF.Parsed
		}
		equal := 0
		for _, c := range cases {
			text := c.bytes(t)
			ids, err := tok.Encode(nil, text, EncodeOptions{ParseSpecial: parse})
			if invalidAt(text) >= 0 {
				if err == nil {
					t.Errorf("%s is not UTF-8, but encoded", c.Name)
				}
				continue
			}
			what := "hf " + c.Name
			want := base[c.Name]
			if parse {
				what += " with specials"
				if special, ok := g.ParseSpecial[c.Name]; ok {
					want = special
				}
			}
			if other, ok := hf.Differ[c.Name]; ok {
				want = other.IDs
			} else {
				equal++
			}
			want.check(t, what, ids, err)
		}
		if equal != hf.Equal {
			t.Errorf("hf, specials %v: %d cases are judged equal, want %d", parse, equal, hf.Equal)
		}
	}
	ids, err := tok.Encode(nil, mixed, EncodeOptions{})
	goldenIDs{N: g.HF.Mixed.N, SHA256: g.HF.Mixed.SHA256}.check(t, "hf mixed.txt", ids, err)
	want := g.HF.Mixed.CountsSHA256
	if g.HF.Mixed.Same {
		want = g.Mixed.CountsSHA256
	}
	checkCounts(t, tok, mixed, g.Vocab.NTokens, want)
}

// TestGoldenSwapped runs pre-tokenizers whose own vocabularies can't be had with others: llama.cpp gives the ids of these.
func TestGoldenSwapped(t *testing.T) {
	golden, vocab := goldenDirs(t)
	var cases []goldenCase
	readJSONFile(t, filepath.Join(golden, "texts", "cases.json"), &cases)
	for pre, family := range map[string]string{"lfm2": "llama-bpe", "bailingmoe2": "qwen2"} {
		var g goldenFamily
		readJSONFile(t, filepath.Join(golden, family+".json"), &g)
		meta := readMetadata(t, filepath.Join(vocab, family+".gguf"))
		meta.Put("tokenizer.ggml.pre", gguf.StringValue(pre))
		tok, err := FromGGUF(meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			ids, err := tok.Encode(nil, c.bytes(t), EncodeOptions{})
			g.Cases[c.Name].check(t, pre+" "+c.Name, ids, err)
		}
	}
}

// TestGoldenModes reads one vocabulary from both kinds of files: as the same program they give the same ids.
func TestGoldenModes(t *testing.T) {
	golden, vocab := goldenDirs(t)
	var cases []goldenCase
	readJSONFile(t, filepath.Join(golden, "texts", "cases.json"), &cases)
	fromGGUF := loadGGUF(t, filepath.Join(vocab, "llama-bpe.gguf"))
	fromJSON := loadJSON(t, filepath.Join(vocab, "json-llama3.tokenizer.json"))
	for _, mode := range []Mode{LlamaCpp, HuggingFace} {
		a, b := asMode(t, fromGGUF, mode), asMode(t, fromJSON, mode)
		for _, c := range cases {
			for _, opt := range []EncodeOptions{{}, {ParseSpecial: true}} {
				x, errX := a.Encode(nil, c.bytes(t), opt)
				y, errY := b.Encode(nil, c.bytes(t), opt)
				if (errX != nil) != (errY != nil) || !slices.Equal(x, y) {
					t.Errorf("%s as %v, specials %v: %v (%v) from the GGUF, %v (%v) from tokenizer.json", c.Name, mode, opt.ParseSpecial, x, errX, y, errY)
				}
			}
		}
	}
	if fromGGUF.VocabHash() != fromJSON.VocabHash() {
		t.Error("the vocabulary hashes differ")
	}
}
