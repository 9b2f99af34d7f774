package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"gguf-forge/internal/fault"
)

// Mode says whose behaviour a tokenizer has.
type Mode int

// The modes.
const (
	LlamaCpp    Mode = iota // llama.cpp: the mode of a GGUF file
	HuggingFace             // Hugging Face's tokenizers library: the mode of a tokenizer.json
	Llama2C                 // llama2.c's run.c: the mode of a tokenizer.bin
)

// String returns the name that ParseMode reads.
func (m Mode) String() string { return [...]string{"llama.cpp", "hf", "llama2.c"}[m] }

// ParseMode reads "llama.cpp", "hf" or "llama2.c".
func ParseMode(s string) (Mode, error) {
	for m := LlamaCpp; m <= Llama2C; m++ {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fault.New(fault.Usage, "unknown tokenizer behaviour %q (llama.cpp, hf and llama2.c are known)", s)
}

// None is the id of a special token that a vocabulary does not have.
const None int32 = -1

// SpecialIDs are the ids of special tokens, None where there is none.
type SpecialIDs struct {
	BOS, EOS, EOT, EOM, Unknown, Separator, Padding, Mask int32
}

// Tokenizer encodes and decodes text. It is immutable and safe for concurrent use.
type Tokenizer struct {
	def      *definition
	mode     Mode
	attrs    []Attr
	pieces   texts // what each token stands for in a text
	model    *model
	scan     *scanner
	norm     normalizer
	specials [2]splitter // without and with tokens that are cut out only if specials are parsed
	late     [2]splitter // the same on normalized text, where Hugging Face has such tokens; nil elsewhere
	prefix   []int32     // what AddSpecial puts in front
	suffix   []int32     // and behind
	cleanUp  bool        // the model's clean-up of spaces is on
	strip    bool        // decoding takes away the space that encoding put in front

	mu   sync.Mutex
	idle []*encoder // at most one a processor, with their caches
}

// Size returns the number of ids, the largest id + 1.
func (t *Tokenizer) Size() int { return t.def.texts.len() }

// Mode returns whose behaviour t has.
func (t *Tokenizer) Mode() Mode { return t.mode }

// Model returns tokenizer.ggml.model and the name of the pre-tokenizer as llama.cpp knows it, which is empty where
// there is none.
func (t *Tokenizer) Model() (model, pre string) { return t.def.modelName(), t.def.pre }

// Text returns the text of a token as a GGUF file stores it: in the byte alphabet for byte-level models, with ▁ for space
// for SentencePiece. It must not be changed.
func (t *Tokenizer) Text(id int32) []byte { return t.def.text(id) }

// Tokens iterates over the texts of all tokens.
func (t *Tokenizer) Tokens() iter.Seq2[int32, []byte] {
	return func(yield func(int32, []byte) bool) {
		for id := range int32(t.Size()) {
			if !yield(id, t.Text(id)) {
				return
			}
		}
	}
}

// Lookup returns the id of a token by its text as it is in the file, or None.
func (t *Tokenizer) Lookup(text string) int32 { return t.def.find(text) }

// Attributes returns the attributes of a token.
func (t *Tokenizer) Attributes(id int32) Attr { return t.attrs[id] &^ (lstrip | rstrip) }

// Special returns the ids of the special tokens.
func (t *Tokenizer) Special() SpecialIDs { return t.def.ids }

// AddedIDs returns what EncodeOptions.AddSpecial puts before and behind the ids of a text.
func (t *Tokenizer) AddedIDs() (prefix, suffix []int32) {
	return slices.Clone(t.prefix), slices.Clone(t.suffix)
}

// Score returns the score of a token, 0 where the vocabulary has none.
func (t *Tokenizer) Score(id int32) float32 {
	if t.def.scores == nil {
		return 0
	}
	return t.def.scores[id]
}

// Merge is one line of a merge list: two tokens that become a third.
type Merge struct{ Left, Right, Result int32 }

// Merges returns the merge list in the order of ranks, empty for a vocabulary with scores. It must not be changed.
func (t *Tokenizer) Merges() []Merge { return t.def.merges }

// HasMerges reports whether merges decide (true) or scores.
func (t *Tokenizer) HasMerges() bool { return t.def.kind != sentencePiece }

// VocabHash returns the SHA-256 over the length of every token's text as a little-endian uint32 and its bytes.
func (t *Tokenizer) VocabHash() [sha256.Size]byte {
	h := sha256.New()
	var n [4]byte
	for _, text := range t.Tokens() {
		binary.LittleEndian.PutUint32(n[:], uint32(len(text)))
		h.Write(n[:])
		h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// MissingBytes returns the bytes for which a byte-level vocabulary has no token. Encoding drops them.
func (t *Tokenizer) MissingBytes() []byte {
	var list []byte
	if t.def.kind == byteLevel {
		for b, id := range t.model.bytes {
			if id < 0 {
				list = append(list, byte(b))
			}
		}
	}
	return list
}

// As returns a tokenizer with the same vocabulary and another behaviour.
//
// What a file does not say is taken from its family: a GGUF of the Qwen families is normalized to NFC as hf. A
// tokenizer.json without scores can't be SentencePiece as in llama.cpp; its merges, which were made from the scores, stand
// in for them.
func (t *Tokenizer) As(mode Mode) (*Tokenizer, error) {
	if mode == t.mode {
		return t, nil
	}
	return t.def.build(mode)
}
