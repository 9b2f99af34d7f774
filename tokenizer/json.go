package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// FromJSON returns the tokenizer of a tokenizer.json, which encodes as Hugging Face's tokenizers library does. config is the
// tokenizer_config.json beside it, or nil: it names the special tokens. A normalizer, pre-tokenizer, model or post-processor
// that is not known exactly is an error that says what was found.
func FromJSON(data []byte, config []byte) (*Tokenizer, error) {
	d, err := readJSON(data, config)
	if err != nil {
		return nil, err
	}
	return d.build(HuggingFace)
}

// jsonPipeline is what a tokenizer.json says beyond the vocabulary.
type jsonPipeline struct {
	norm        normalizer
	expression  string
	whole       bool
	unknown     int32
	fuse        bool
	bytes       bool
	prefix      []int32
	suffix      []int32
	strip       bool
	decodeBytes bool // tokens of bytes are decoded as such

	added   []addedToken
	attrs   []Attr           // as the library sees them
	listed  []bool           // ids of the model's own vocabulary
	spaced  map[int32][]byte // texts of added tokens that a GGUF file has with spaces for ▁
	fronted map[int32]bool   // added tokens whose texts the normalizer changed: they begin with a space and are special no more
}

type addedToken struct {
	ID         int32
	Content    string
	SingleWord bool `json:"single_word"`
	Lstrip     bool
	Rstrip     bool
	Normalized bool
	Special    bool
}

// jsonModel is the model object, its lists not yet read.
type jsonModel struct {
	Type         string
	Dropout      *float64
	Unk          *string `json:"unk_token"`
	Prefix       *string `json:"continuing_subword_prefix"`
	Suffix       *string `json:"end_of_word_suffix"`
	FuseUnk      bool    `json:"fuse_unk"`
	ByteFallback bool    `json:"byte_fallback"`
	IgnoreMerges bool    `json:"ignore_merges"`

	vocab  vocabList
	merges []byte
}

// vocabList is the vocabulary in the order of the file.
type vocabList struct {
	texts texts
	ids   []int32
}

func readJSON(data, config []byte) (*definition, error) {
	r := &jsonReader{data: bytes.TrimPrefix(data, []byte("\ufeff"))}
	var m jsonModel
	parts := map[string][]byte{}
	found := false
	if r.peek() != '{' {
		return nil, notTokenizer(fault.New(fault.BadInput, "no JSON object"))
	}
	if !utf8.Valid(r.data) {
		return nil, notTokenizer(fault.New(fault.BadInput, "it is not valid UTF-8"))
	}
	r.object(func(key []byte) {
		if string(key) != "model" {
			parts[string(key)] = r.skip()
			return
		}
		found = true
		m.read(r)
	})
	if r.err == nil && r.peek() != 0 {
		r.fail("something follows the object")
	}
	if r.err != nil {
		return nil, notTokenizer(r.err)
	}
	if !found {
		return nil, notTokenizer(fault.New(fault.BadInput, "it has no model"))
	}
	d := &definition{source: HuggingFace, kind: characters, json: &jsonPipeline{unknown: None, spaced: map[int32][]byte{}, fronted: map[int32]bool{}}}
	for i := range d.fill {
		d.fill[i] = None
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return unmarshal(parts, "added_tokens", &d.json.added) },
		func() error { return d.readVocab(&m) },
		func() error { return d.readNormalizer(parts["normalizer"]) },
		func() error { return d.readPreTokenizer(parts["pre_tokenizer"]) },
		func() error { return d.readJSONMerges(m.merges) },
		func() error { return d.readPostProcessor(parts["post_processor"]) },
		func() error { return d.readDecoder(parts["decoder"]) },
		func() error { return d.readConfig(config) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.classify(&m)
	return d, nil
}

func notTokenizer(err error) error {
	return fault.WithHint(fault.New(fault.BadInput, "this is no tokenizer.json: %w", err), "a hub repository has it beside its weights")
}

func unmarshal(parts map[string][]byte, name string, v any) error {
	raw, ok := parts[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.New(fault.BadInput, "%s of tokenizer.json: %w", name, err)
	}
	return nil
}

// read reads the model object.
func (m *jsonModel) read(r *jsonReader) {
	if r.peek() != '{' {
		r.fail("the model is no object")
		return
	}
	small := []byte{'{'}
	r.object(func(key []byte) {
		switch string(key) {
		case "vocab":
			if r.peek() != '{' {
				r.skip() // a list: not BPE, which check says
				return
			}
			r.entries(func(text []byte) {
				m.vocab.texts.add(text)
				id := r.number()
				if id >= maxTokens {
					r.fail("a token id beyond what is supported")
				}
				m.vocab.ids = append(m.vocab.ids, int32(id))
			})
		case "merges":
			m.merges = r.skip()
		default:
			value := r.skip()
			if len(small) > 1 {
				small = append(small, ',')
			}
			small = fmt.Appendf(small, "%q:%s", key, value)
		}
	})
	if r.err == nil {
		if err := json.Unmarshal(append(small, '}'), m); err != nil {
			r.err = fault.New(fault.BadInput, "its model: %w", err)
		}
	}
}

// check refuses what is not plain BPE.
func (m *jsonModel) check() error {
	if m.Type == "" && m.merges != nil {
		m.Type = "BPE" // old files
	}
	unsupported := func(format string, args ...any) error {
		return fault.New(fault.BadInput, "the model of tokenizer.json is not supported: "+format, args...)
	}
	switch {
	case m.Type != "BPE":
		return unsupported("type %q (BPE is)", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return unsupported("dropout %g", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return unsupported("continuing_subword_prefix %q", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return unsupported("end_of_word_suffix %q", *m.Suffix)
	}
	return nil
}

// readVocab puts the model's vocabulary and the added tokens in the order of ids. Holes become unused tokens, as in a
// GGUF file.
func (d *definition) readVocab(m *jsonModel) error {
	j := d.json
	size := int32(0)
	for _, id := range m.vocab.ids {
		size = max(size, id+1)
	}
	for _, a := range j.added {
		if a.ID < 0 || a.ID >= maxTokens {
			return fault.New(fault.BadInput, "added token %q has the id %d", a.Content, a.ID)
		}
		if a.Content == "" {
			return fault.New(fault.BadInput, "added token %d is empty", a.ID)
		}
		size = max(size, a.ID+1)
	}
	if err := checkTokenCount(int(size)); err != nil {
		return err
	}
	byID := make([]int32, size) // place in the file's list + 1; below 0, in the added tokens - 1
	j.listed = make([]bool, size)
	for i, id := range m.vocab.ids {
		if byID[id] != 0 {
			return fault.New(fault.BadInput, "id %d belongs to two tokens: %q and %q", id, m.vocab.texts.at(byID[id]-1), m.vocab.texts.at(int32(i)))
		}
		byID[id] = int32(i) + 1
		j.listed[id] = true
	}
	for i, a := range j.added {
		if n := byID[a.ID]; n > 0 && string(m.vocab.texts.at(n-1)) != a.Content {
			return fault.New(fault.BadInput, "id %d belongs to two tokens: %q and the added %q", a.ID, m.vocab.texts.at(n-1), a.Content)
		} else if n == 0 {
			byID[a.ID] = -int32(i) - 1
		}
	}
	d.texts = newTexts(int(size), len(m.vocab.texts.blob))
	for id, n := range byID {
		switch {
		case n > 0:
			d.texts.add(m.vocab.texts.at(n - 1))
		case n < 0:
			d.texts.add([]byte(j.added[-n-1].Content))
		default:
			d.texts.add(fmt.Appendf(nil, "[PAD%d]", id))
		}
	}
	if err := d.indexTexts(); err != nil {
		return err
	}
	j.whole, j.fuse, j.bytes = m.IgnoreMerges, m.FuseUnk, m.ByteFallback
	d.ids = SpecialIDs{None, None, None, None, None, None, None, None}
	if m.Unk != nil && *m.Unk != "" {
		if j.unknown = d.find(*m.Unk); j.unknown == None {
			return fault.New(fault.BadInput, "the unknown token %q is not in the vocabulary", *m.Unk)
		}
		d.ids.Unknown = j.unknown
	}
	return nil
}

// classify gives each token its attributes: what the library knows, and what a converter writes into a GGUF file.
func (d *definition) classify(m *jsonModel) {
	j := d.json
	j.attrs = make([]Attr, d.texts.len())
	for id := range j.attrs {
		j.attrs[id] = Normal
		if d.kind != byteLevel && (m.ByteFallback || j.decodeBytes) {
			if _, ok := parseByteText(d.texts.at(int32(id))); ok {
				j.attrs[id] = Byte
			}
		}
		if !j.listed[id] {
			j.attrs[id] = Unused
		}
	}
	d.attrs = slices.Clone(j.attrs)
	for _, a := range j.added {
		j.attrs[a.ID], d.attrs[a.ID] = UserDefined, UserDefined
		if a.Normalized && j.norm.frontsTexts() {
			j.fronted[a.ID] = true
		} else if a.Special {
			j.attrs[a.ID] = Control
		}
		if a.Special || looksSpecial(a.Content) {
			d.attrs[a.ID] = Control
		} else if text := []byte(a.Content); bytes.Contains(text, spaceMark) {
			j.spaced[a.ID] = appendReplaced(nil, text, spaceMark, ' ')
		}
	}
	if id := d.ids.Unknown; id != None && d.kind != byteLevel {
		d.attrs[id] = Unknown
	}
}

// looksSpecial reports whether a converter takes an added token for a control token although the file doesn't say so.
func looksSpecial(text string) bool {
	between := func(begin, end string) bool {
		return len(text) >= len(begin)+len(end) && text[:len(begin)] == begin && text[len(text)-len(end):] == end
	}
	return slices.Contains([]string{"<pad>", "<mask>", "<2mass>", "[@BOS@]"}, text) ||
		between("<|", "|>") || between("<｜", "｜>") || between("<unused", ">")
}

// frontsTexts reports whether the normalizer puts a space in front of all it is given, such as the texts of added tokens.
func (n *normalizer) frontsTexts() bool { return n.prefix == prefixAlways && !n.late }

// specials returns the tokens to cut out of raw and of normalized text.
func (j *jsonPipeline) specials(p *pipeline, parse bool) (early, late []specialText) {
	for _, a := range j.added {
		s := specialText{text: []byte(a.Content), id: a.ID, word: a.SingleWord, skip: a.Special && !parse}
		if a.Lstrip {
			s.attr |= lstrip
		}
		if a.Rstrip {
			s.attr |= rstrip
		}
		if !a.Normalized {
			early = append(early, s)
			continue
		}
		if p.norm.nfc {
			s.text = nfc().append(nil, s.text)
		}
		if p.norm.escape {
			s.text = appendReplaced(nil, s.text, spaceMark, ' ')
		}
		if p.norm.frontsTexts() {
			s.text = append([]byte{' '}, s.text...)
		}
		late = append(late, s)
	}
	return early, late
}

// readJSONMerges reads "a b" or ["a","b"].
func (d *definition) readJSONMerges(raw []byte) error {
	if raw == nil {
		return fault.New(fault.BadInput, "tokenizer.json has no merges")
	}
	r := &jsonReader{data: raw}
	var left, right, scratch []byte
	r.array(func() {
		if r.peek() == '"' {
			left = r.text(left[:0])
			at := bytes.IndexByte(left, ' ')
			if at < 0 || bytes.IndexByte(left[at+1:], ' ') >= 0 {
				r.err = fault.New(fault.BadInput, "merge %d is %q: two tokens with a space between them are expected", len(d.merges), left)
				return
			}
			right = append(right[:0], left[at+1:]...)
			left = left[:at]
		} else {
			n := 0
			r.array(func() {
				switch n++; n {
				case 1:
					left = r.text(left[:0])
				case 2:
					right = r.text(right[:0])
				default:
					r.skip()
				}
			})
			if n != 2 && r.err == nil {
				r.err = fault.New(fault.BadInput, "merge %d has %d parts", len(d.merges), n)
			}
		}
		if r.err != nil {
			return
		}
		if len(d.merges) == maxMerges {
			r.err = checkMergeCount(maxMerges + 1)
			return
		}
		scratch, r.err = d.addMerge(left, right, scratch)
	})
	return r.err
}

// component is an object of the pipeline with a type.
type component struct {
	Type string

	Normalizers   []json.RawMessage
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage
	Decoders      []json.RawMessage

	Pattern        struct{ Regex, String *string }
	Content        string
	Prepend        string
	Behavior       string
	Invert         bool
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
	Individual     bool  `json:"individual_digits"`
	Replacement    string
	PrependScheme  *string `json:"prepend_scheme"`
	Split          *bool
	Start          int

	Single        []map[string]struct{ ID string }
	SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
}

// flatten returns the components of an object, those of a sequence one by one.
func flatten(what string, raw []byte) ([]component, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var c component
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fault.New(fault.BadInput, "%s of tokenizer.json: %w", what, err)
	}
	if c.Type != "Sequence" {
		return []component{c}, nil
	}
	var list []component
	for _, raw := range slices.Concat(c.Normalizers, c.PreTokenizers, c.Processors, c.Decoders) {
		more, err := flatten(what, raw)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// unknownComponent is the error for a part of the pipeline that is not known exactly.
func unknownComponent(what string, raw []byte) error {
	var short bytes.Buffer
	if json.Compact(&short, raw) != nil {
		short.Reset()
		short.Write(raw)
	}
	text := short.Bytes()
	if len(text) > 500 {
		text = append(text[:500:500], "…"...)
	}
	return fault.New(fault.BadInput, "unknown %s in tokenizer.json: %s", what, text)
}

func (d *definition) readNormalizer(raw []byte) error {
	list, err := flatten("normalizer", raw)
	if err != nil {
		return err
	}
	n := &d.json.norm
	n.input = inputStrict
	for _, c := range list {
		switch {
		case c.Type == "NFC" && !n.nfc:
			n.nfc = true
		case c.Type == "Prepend" && c.Prepend == "▁" && n.prefix == prefixNever:
			n.prefix = prefixAlways
		case c.Type == "Replace" && c.Pattern.String != nil && *c.Pattern.String == " " && c.Content == "▁":
			n.escape = true
		default:
			return unknownComponent("normalizer", raw)
		}
	}
	if n.prefix != prefixNever && !n.escape {
		return unknownComponent("normalizer", raw)
	}
	return nil
}

// expressions are the Split patterns that have a scanner.
var expressions = []string{gpt2Expression, llama3, qwen2, qwen35, bailing, lfm25, cl100k, o200k, tekken}

func (d *definition) readPreTokenizer(raw []byte) error {
	list, err := flatten("pre-tokenizer", raw)
	if err != nil {
		return err
	}
	j := d.json
	digits := false
	for _, c := range list {
		ok := d.kind != byteLevel // nothing may follow ByteLevel
		switch c.Type {
		case "Split":
			ok = ok && d.readSplit(c) && !digits
		case "Digits":
			ok = ok && c.Individual && j.expression == ""
			digits = true
		case "ByteLevel":
			ok = ok && !j.norm.escape
			d.kind = byteLevel
			if c.UseRegex == nil || *c.UseRegex {
				ok = ok && j.expression == ""
				j.expression = gpt2Expression
			}
			if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
				ok = ok && len(list) == 1
				j.norm.prefix, j.norm.lone, j.norm.late = prefixAlways, true, true
			}
		case "Metaspace":
			ok = ok && len(list) == 1 && c.Replacement == "▁" && j.norm.prefix == prefixNever
			j.readMetaspace(c)
		default:
			ok = false
		}
		if !ok {
			return unknownPreTokenizer(raw)
		}
	}
	if digits {
		if d.kind != byteLevel || j.expression != gpt2Expression {
			return unknownPreTokenizer(raw)
		}
		j.expression = digitsThenGPT2
	}
	if d.kind != byteLevel && (j.expression != "" || !j.norm.escape && !j.bytes) {
		return unknownPreTokenizer(raw)
	}
	d.family = familyOf(j.expression, d.kind)
	if d.family != nil {
		d.pre = d.family.names[0]
	}
	d.addSpace = j.norm.prefix != prefixNever
	return nil
}

func unknownPreTokenizer(raw []byte) error {
	if raw == nil {
		raw = []byte("null")
	}
	return fault.WithHint(unknownComponent("pre-tokenizer", raw), "a default would split words in the wrong places; the expressions of gpt-2, llama-bpe, qwen2, "+
		"qwen35, bailingmoe, lfm2, cl100k, gpt-4o and tekken are known, and Digits before gpt-2's")
}

// readSplit takes a Split by a known expression, or the one of Gemma, by spaces, of which none are left.
func (d *definition) readSplit(c component) bool {
	j := d.json
	if c.Pattern.String != nil {
		return *c.Pattern.String == " " && c.Behavior == "MergedWithPrevious" && !c.Invert && j.norm.escape
	}
	isolated := c.Behavior == "Isolated" && !c.Invert || c.Behavior == "Removed" && c.Invert // the expressions leave nothing out
	if c.Pattern.Regex == nil || !isolated || j.expression != "" || !slices.Contains(expressions, *c.Pattern.Regex) {
		return false
	}
	j.expression = *c.Pattern.Regex
	return true
}

func (j *jsonPipeline) readMetaspace(c component) {
	j.norm.escape, j.norm.lone, j.norm.late = true, true, true
	j.norm.apart = c.Split == nil || *c.Split
	scheme := "always"
	if c.PrependScheme != nil {
		scheme = *c.PrependScheme
	} else if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
		scheme = "never"
	}
	switch scheme {
	case "always":
		j.norm.prefix = prefixAlways
	case "first":
		j.norm.prefix = prefixOnce
	}
}

// familyOf returns the family that a converter would name for an expression.
func familyOf(expression string, k kind) *family {
	if k != byteLevel {
		return nil
	}
	switch expression {
	case lfm25:
		expression = llama3
	case cl100k:
		return findFamily("dbrx")
	}
	for i := range families {
		if f := &families[i]; f.expression == expression || f.huggingFace == expression {
			return f
		}
	}
	return nil
}

func (d *definition) readPostProcessor(raw []byte) error {
	list, err := flatten("post-processor", raw)
	if err != nil {
		return err
	}
	j := d.json
	for _, c := range list {
		switch c.Type {
		case "ByteLevel": // only trims offsets
		case "TemplateProcessing":
			to := &j.prefix
			for _, piece := range c.Single {
				if s, ok := piece["SpecialToken"]; ok {
					*to = append(*to, c.SpecialTokens[s.ID].IDs...)
				} else {
					to = &j.suffix
				}
			}
		default:
			return unknownComponent("post-processor", raw)
		}
	}
	for _, id := range slices.Concat(j.prefix, j.suffix) {
		if id < 0 || int(id) >= d.texts.len() {
			return fault.New(fault.BadInput, "the post-processor of tokenizer.json adds token %d of %d", id, d.texts.len())
		}
	}
	return nil
}

func (d *definition) readDecoder(raw []byte) error {
	list, err := flatten("decoder", raw)
	if err != nil {
		return err
	}
	for _, c := range list {
		switch c.Type {
		case "ByteFallback":
			d.json.decodeBytes = true
		case "Strip":
			d.json.strip = d.json.strip || c.Content == " " && c.Start > 0
		case "Metaspace":
			d.json.strip = d.json.strip || d.json.norm.prefix != prefixNever
		}
	}
	return nil
}

// readConfig reads the special tokens that tokenizer_config.json names.
func (d *definition) readConfig(raw []byte) error {
	var c struct {
		BOS json.RawMessage `json:"bos_token"`
		EOS json.RawMessage `json:"eos_token"`
		Pad json.RawMessage `json:"pad_token"`
		Unk json.RawMessage `json:"unk_token"`

		AddBOS *bool `json:"add_bos_token"`
		AddEOS *bool `json:"add_eos_token"`
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &c); err != nil {
			return fault.New(fault.BadInput, "tokenizer_config.json: %w", err)
		}
	}
	for _, s := range []struct {
		raw json.RawMessage
		id  *int32
	}{{c.BOS, &d.ids.BOS}, {c.EOS, &d.ids.EOS}, {c.Pad, &d.ids.Padding}, {c.Unk, &d.ids.Unknown}} {
		var text string
		var object struct{ Content string }
		if json.Unmarshal(s.raw, &text) != nil && json.Unmarshal(s.raw, &object) == nil {
			text = object.Content
		}
		if id := d.find(text); id != None {
			*s.id = id
		}
	}
	j := d.json
	if d.ids.BOS == None && len(j.prefix) > 0 {
		d.ids.BOS = j.prefix[0]
	}
	d.addBOS, d.addEOS = len(j.prefix) > 0, len(j.suffix) > 0
	if c.AddBOS != nil {
		d.addBOS = *c.AddBOS
	}
	if c.AddEOS != nil {
		d.addEOS = *c.AddEOS
	}
	return nil
}
