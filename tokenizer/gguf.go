package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// ggmlKey is the prefix of a GGUF file's tokenizer keys.
const ggmlKey = "tokenizer.ggml."

// FromGGUF returns the tokenizer of a GGUF file, which encodes as llama.cpp does with that file. Whatever is missing or
// wrong is an error of kind fault.BadInput; a pre-tokenizer that is missing or unknown is one too, since any default splits
// words in other places.
func FromGGUF(meta *gguf.Metadata) (*Tokenizer, error) {
	d, err := readGGUF(meta)
	if err != nil {
		return nil, err
	}
	return d.build(LlamaCpp)
}

func readGGUF(meta *gguf.Metadata) (*definition, error) {
	d := &definition{source: LlamaCpp, pre: meta.Text(ggmlKey + "pre")}
	switch model := meta.Text(ggmlKey + "model"); model {
	case "gpt2":
		if d.family = findFamily(d.pre); d.family == nil {
			return nil, unknownPre(d.pre)
		}
	case "llama":
		d.kind, d.pre = sentencePiece, ""
	case "gemma4":
		d.kind, d.pre = characters, ""
	case "", "none", "no_vocab":
		return nil, fault.WithHint(fault.New(fault.BadInput, "the file has no tokenizer (%smodel is %q)", ggmlKey, model),
			"it may be a part of a model, such as a vision projector; give the file with the text model")
	default:
		return nil, fault.WithHint(fault.New(fault.BadInput, "unknown tokenizer model %q", model), "gpt2, llama and gemma4 are known")
	}
	if err := d.readTokens(meta); err != nil {
		return nil, err
	}
	if d.kind != sentencePiece {
		if err := d.readMerges(meta); err != nil {
			return nil, err
		}
	}
	return d, d.readSpecials(meta)
}

// array returns an array of the metadata, ok unset if it is missing.
func array(meta *gguf.Metadata, name string, types ...gguf.ValueType) (v gguf.Value, ok bool, err error) {
	v, ok = meta.Get(ggmlKey + name)
	if !ok {
		return v, false, nil
	}
	for _, t := range types {
		if v.Type == gguf.Array && v.Elem == t {
			return v, true, nil
		}
	}
	return v, false, fault.New(fault.BadInput, "%s%s is no array of %s", ggmlKey, name, types[0])
}

// eachString calls do for the strings of an array.
func eachString(v gguf.Value, do func(i int, s []byte) error) error {
	raw := v.Raw
	for i := range v.Len {
		n := binary.LittleEndian.Uint64(raw)
		if err := do(i, raw[8:8+n]); err != nil {
			return err
		}
		raw = raw[8+n:]
	}
	return nil
}

func (d *definition) readTokens(meta *gguf.Metadata) error {
	tokens, ok, err := array(meta, "tokens", gguf.String)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.BadInput, "%stokens is missing", ggmlKey)
	}
	if err := checkTokenCount(tokens.Len); err != nil {
		return err
	}
	d.texts = newTexts(tokens.Len, len(tokens.Raw)-8*tokens.Len)
	_ = eachString(tokens, func(i int, s []byte) error { // do never fails
		if len(s) == 0 {
			s = fmt.Appendf(nil, "[EMPTY_%d]", i)
		}
		d.texts.add(s)
		return nil
	})
	if err := d.indexTexts(); err != nil {
		return err
	}
	if err := d.readTypes(meta); err != nil {
		return err
	}
	return d.readScores(meta)
}

func (d *definition) readTypes(meta *gguf.Metadata) error {
	n := d.texts.len()
	d.attrs = make([]Attr, n)
	types, ok, err := array(meta, "token_type", gguf.Int32)
	if err != nil {
		return err
	}
	if ok && types.Len < n {
		return fault.New(fault.BadInput, "%stoken_type has %d entries for %d tokens", ggmlKey, types.Len, n)
	}
	for i := range d.attrs {
		d.attrs[i] = Normal
		if !ok {
			continue
		}
		d.attrs[i] = 0
		if t := binary.LittleEndian.Uint32(types.Raw[4*i:]); int64(t) < int64(len(tokenTypes)) {
			d.attrs[i] = tokenTypes[t]
		}
	}
	return nil
}

func (d *definition) readScores(meta *gguf.Metadata) error {
	if d.kind == characters { // Gemma 4 has scores that nothing uses
		return nil
	}
	n := d.texts.len()
	scores, ok, err := array(meta, "scores", gguf.Float32, gguf.Int32)
	if err != nil {
		return err
	}
	if !ok {
		if d.kind == sentencePiece { // all are 0 then, as in llama.cpp
			d.scores = make([]float32, n)
		}
		return nil
	}
	if scores.Len < n {
		return fault.New(fault.BadInput, "%sscores has %d entries for %d tokens", ggmlKey, scores.Len, n)
	}
	d.scores = make([]float32, n)
	for i := range d.scores {
		bits := binary.LittleEndian.Uint32(scores.Raw[4*i:])
		if scores.Elem == gguf.Int32 {
			d.scores[i] = float32(int32(bits))
			continue
		}
		if d.scores[i] = math.Float32frombits(bits); d.scores[i] != d.scores[i] {
			return fault.New(fault.BadInput, "the score of token %d is not a number", i)
		}
	}
	return nil
}

// readMerges reads lines of two parts. The first space that is not the first byte of a line parts them.
func (d *definition) readMerges(meta *gguf.Metadata) error {
	merges, ok, err := array(meta, "merges", gguf.String)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.BadInput, "%smerges is missing", ggmlKey)
	}
	if err := checkMergeCount(merges.Len); err != nil {
		return err
	}
	d.merges = make([]Merge, 0, merges.Len)
	var scratch []byte
	return eachString(merges, func(i int, line []byte) (err error) {
		at := 0
		if len(line) > 0 {
			at = bytes.IndexByte(line[1:], ' ') + 1
		}
		if at <= 0 {
			return fault.New(fault.BadInput, "merge %d is %q: two tokens with a space between them are expected", i, line)
		}
		scratch, err = d.addMerge(line[:at], line[at+1:], scratch)
		return err
	})
}

// readSpecials reads ids and flags. An id beyond the vocabulary counts as missing, as in llama.cpp. Its default of 11 for
// byte-level vocabularies is a leftover that no model means: there a missing id is none.
func (d *definition) readSpecials(meta *gguf.Metadata) error {
	id := func(def int32, names ...string) int32 {
		for _, name := range names {
			if n := meta.Uint(ggmlKey+name+"_token_id", math.MaxUint64); n < uint64(d.texts.len()) {
				def = int32(n)
			}
		}
		if int(def) >= d.texts.len() {
			return None
		}
		return def
	}
	bos, eos, unknown := None, None, None
	if d.kind == sentencePiece {
		bos, eos, unknown = 1, 2, 0
	}
	d.ids = SpecialIDs{
		BOS: id(bos, "bos"), EOS: id(eos, "eos"), EOT: id(None, "eot"), EOM: id(None, "eom"), Unknown: id(unknown, "unknown"),
		Separator: id(None, "seperator"), Padding: id(None, "padding"), Mask: id(None, "mask"),
	}
	d.fill = [fillKinds]int32{
		id(None, "fim_pre", "prefix"), id(None, "fim_suf", "suffix"), id(None, "fim_mid", "middle"),
		id(None, "fim_pad"), id(None, "fim_rep"), id(None, "fim_sep"),
	}
	flag := func(name string, def bool) bool {
		if v, ok := meta.Get(ggmlKey + name); ok {
			if b, ok := v.Bool(); ok {
				return b
			}
		}
		return def
	}
	d.addBOS = flag("add_bos_token", d.kind == sentencePiece || d.family != nil && d.family.bos) || d.kind == characters
	d.addEOS = flag("add_eos_token", false)
	d.addSpace = flag("add_space_prefix", d.kind == sentencePiece)
	name := strings.ToLower(meta.Text("general.name"))
	d.rstripped = strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	return nil
}
