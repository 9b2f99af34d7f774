package tokenizer

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"gguf-forge/gguf"
)

// vocab is a small vocabulary for tests, as a GGUF file has it.
type vocab struct {
	model, pre string
	tokens     []string
	types      []int32
	scores     []float32
	merges     []string
	extra      map[string]gguf.Value
}

func (v *vocab) metadata() *gguf.Metadata {
	m := &gguf.Metadata{}
	m.Put("tokenizer.ggml.model", gguf.StringValue(v.model))
	if v.pre != "" {
		m.Put("tokenizer.ggml.pre", gguf.StringValue(v.pre))
	}
	m.Put("tokenizer.ggml.tokens", gguf.StringsValue(v.tokens))
	if v.types != nil {
		m.Put("tokenizer.ggml.token_type", int32s(v.types))
	}
	if v.scores != nil {
		m.Put("tokenizer.ggml.scores", float32s(v.scores))
	}
	if v.merges != nil {
		m.Put("tokenizer.ggml.merges", gguf.StringsValue(v.merges))
	}
	for k, x := range v.extra {
		m.Put(k, x)
	}
	return m
}

func int32s(list []int32) gguf.Value {
	v := gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Len: len(list)}
	for _, x := range list {
		v.Raw = append(v.Raw, gguf.Int32Value(x).Raw...)
	}
	return v
}

func float32s(list []float32) gguf.Value {
	v := gguf.Value{Type: gguf.Array, Elem: gguf.Float32, Len: len(list)}
	for _, x := range list {
		v.Raw = append(v.Raw, gguf.Float32Value(x).Raw...)
	}
	return v
}

func (v *vocab) build(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(v.metadata())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func (v *vocab) add(text string, kind int32) {
	if slices.Contains(v.tokens, text) {
		return
	}
	v.tokens = append(v.tokens, text)
	v.types = append(v.types, kind)
	if v.scores != nil {
		v.scores = append(v.scores, 0)
	}
}

// byteVocab returns a byte-level vocabulary whose merges are random, in an order that no training would give: a token's
// merges may come before its own.
func byteVocab(rnd *rand.Rand, pre, letters string, merges int) *vocab {
	v := &vocab{model: "gpt2", pre: pre}
	for b := range 256 {
		v.add(string(alphabet[b]), 1)
	}
	var parts []string
	for _, b := range []byte(letters) {
		parts = append(parts, string(alphabet[b]))
	}
	for range merges {
		l, r := parts[rnd.IntN(len(parts))], parts[rnd.IntN(len(parts))]
		if len(l)+len(r) > 40 {
			continue
		}
		v.add(l+r, 1)
		parts = append(parts, l+r)
		v.merges = append(v.merges, l+" "+r) // equal lines too: the first one counts
	}
	rnd.Shuffle(len(v.merges), func(i, j int) { v.merges[i], v.merges[j] = v.merges[j], v.merges[i] })
	v.add("<|end|>", 3)
	v.add("<|endless|>", 3)
	v.add("ab", 1)
	v.add("[ab]", 4)
	v.add("[ab][ab]", 4)
	v.add("b]", 4)
	return v
}

// scoreVocab returns a SentencePiece vocabulary with random pieces, many of which have equal scores.
func scoreVocab(rnd *rand.Rand, letters []string, pieces int) *vocab {
	v := &vocab{model: "llama", scores: []float32{}}
	v.add("<unk>", 2)
	v.add("<s>", 3)
	v.add("</s>", 3)
	for b := range 256 {
		v.add(byteText(byte(b)), 6)
	}
	for range pieces {
		text := ""
		for range 1 + rnd.IntN(5) {
			text += letters[rnd.IntN(len(letters))]
		}
		v.add(text, 1)
		v.scores[len(v.scores)-1] = -float32(rnd.IntN(20))
	}
	v.add("[x]", 4)
	v.add("  ", 4)
	return v
}

// charVocab returns a vocabulary of Gemma 4's kind with random merges.
func charVocab(rnd *rand.Rand, letters []string, merges int) *vocab {
	v := &vocab{model: "gemma4"}
	v.add("<bos>", 3)
	for b := range 256 {
		v.add(byteText(byte(b)), 6)
	}
	parts := slices.Clone(letters)
	for _, p := range parts {
		v.add(p, 1)
	}
	v.add("\n\n\n", 1)
	for range merges {
		l, r := parts[rnd.IntN(len(parts))], parts[rnd.IntN(len(parts))]
		if len(l)+len(r) > 40 {
			continue
		}
		v.add(l+r, 1)
		parts = append(parts, l+r)
		v.merges = append(v.merges, l+" "+r)
	}
	rnd.Shuffle(len(v.merges), func(i, j int) { v.merges[i], v.merges[j] = v.merges[j], v.merges[i] })
	return v
}

// demoJSON returns the tokenizer of the model inside the program: byte-level, Qwen3.5's expression, NFC.
func demoJSON(t testing.TB) *Tokenizer {
	t.Helper()
	return loadJSON(t, "../internal/demo/model/hf/tokenizer.json")
}

func demoText(t testing.TB, lang string) []byte {
	t.Helper()
	text, err := os.ReadFile("../internal/demo/model/heldout/" + lang + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alphabetParts are the parts of random texts: what expressions, normalizers and byte fallback treat in ways of their own.
var alphabetParts = []string{"a", "b", "T", "s", "t", "re", "RE", "ve", "ll", "m", "d", " ", "  ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u3000", "\u0085", "\x1c",
	"\u200b", "'", "’", "/", "_", "-", ".", "!?", "1", "12", "4567", "²", "Ⅷ", "é", "e\u0301", "ß", "Ä", "Ж", "ж", "中", "日本", "한", "각", "\u0e01\u0e47",
	"नम", "😀", "👨\u200d👩", "\ufe0f", "\ufffd", "▁", "▁▁", "\u0300", "\x00", "\u05d0", "ǅ", "ʰ", "𝔘", "[ab]", "[x]", "<|end|>", "<|end", "<s>", "\ufeff"}

var brokenParts = []string{"\xff", "\xe4", "\xe4\xb8", "\xc0\x80", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x9f", "\x80", "\xf0\x80\x80\x80", "\xf8", "\xc3"}

// randomText joins up to n random parts, some of them repeated.
func randomText(rnd *rand.Rand, n int, broken bool) []byte {
	var text []byte
	for range rnd.IntN(n + 1) {
		p := alphabetParts[rnd.IntN(len(alphabetParts))]
		if broken && rnd.IntN(6) == 0 {
			p = brokenParts[rnd.IntN(len(brokenParts))]
		}
		k := 1
		if rnd.IntN(8) == 0 {
			k += rnd.IntN(12)
		}
		for range k {
			text = append(text, p...)
		}
	}
	return text
}
