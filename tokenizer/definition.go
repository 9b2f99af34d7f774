package tokenizer

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// kind is the kind of a vocabulary.
type kind int

const (
	byteLevel     kind = iota // merges over bytes, in the byte alphabet
	sentencePiece             // scores over characters
	characters                // merges over characters
)

// definition is what a file says about a tokenizer, before anything is built from it. It does not change.
type definition struct {
	source Mode
	kind   kind
	pre    string  // the name of the pre-tokenizer, if there is one
	family *family // of byte-level vocabularies

	texts  texts // as in the file
	index  index // of texts
	attrs  []Attr
	scores []float32
	merges []Merge

	ids            SpecialIDs
	fill           [fillKinds]int32 // ids of the fill-in-the-middle tokens that the file names
	addBOS, addEOS bool
	addSpace       bool // a space is put in front
	rstripped      bool // special tokens swallow the white space behind them, as those of Phi-3

	json *jsonPipeline // what only a tokenizer.json says
}

func (d *definition) modelName() string {
	switch d.kind {
	case byteLevel:
		return "gpt2"
	case characters:
		if d.json == nil {
			return "gemma4"
		}
	}
	return "llama"
}

// find returns the id of a text or None.
func (d *definition) find(text string) int32 { return d.index.find(&d.texts, []byte(text)) }

// text returns a token's text as a GGUF file has it.
func (d *definition) text(id int32) []byte {
	if d.json != nil {
		if text, ok := d.json.spaced[id]; ok {
			return text
		}
	}
	return d.texts.at(id)
}

// indexTexts fills d.index and refuses a token that occurs twice.
func (d *definition) indexTexts() error {
	d.index = newIndex(d.texts.len())
	for id := range int32(d.texts.len()) {
		if other := d.index.add(&d.texts, id); other != None {
			return fault.New(fault.BadInput, "tokens %d and %d are the same: %q", other, id, d.texts.at(id))
		}
	}
	return nil
}

// addMerge adds the merge of two texts.
func (d *definition) addMerge(left, right, scratch []byte) ([]byte, error) {
	scratch = append(append(scratch[:0], left...), right...)
	m := Merge{d.index.find(&d.texts, left), d.index.find(&d.texts, right), d.index.find(&d.texts, scratch)}
	if m.Left < 0 || m.Right < 0 || m.Result < 0 {
		unknown := scratch
		if m.Left < 0 {
			unknown = left
		} else if m.Right < 0 {
			unknown = right
		}
		return scratch, fault.New(fault.BadInput, "merge %d (%q and %q): %q is not a token", len(d.merges), left, right, unknown)
	}
	d.merges = append(d.merges, m)
	return scratch, nil
}

func checkMergeCount(n int) error {
	if n > maxMerges {
		return fault.New(fault.BadInput, "%d merges, more than %d", n, maxMerges)
	}
	return nil
}

func checkTokenCount(n int) error {
	if n == 0 {
		return fault.New(fault.BadInput, "the vocabulary is empty")
	}
	if n > maxTokens {
		return fault.New(fault.BadInput, "%d tokens, more than %d", n, maxTokens)
	}
	return nil
}

// endTexts are the texts that end a generation. llama.cpp makes their tokens control tokens whatever the file says.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
	"</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
	"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

const fillKinds = 6

// fillTexts are the texts of fill-in-the-middle tokens: prefix, suffix, middle, padding, repository, separator. The
// token of each kind becomes a control token: the one the file names, else the first found.
var fillTexts = [fillKinds][]string{
	{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"},
	{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"},
	{"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"},
	{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
	{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
	{"<|file_sep|>"},
}

// llamaAttrs returns the attributes as llama.cpp changes them when it loads a vocabulary.
func (d *definition) llamaAttrs() []Attr {
	attrs := slices.Clone(d.attrs)
	for i, list := range fillTexts {
		if d.fill[i] != None {
			continue
		}
		for _, text := range list {
			if id := d.find(text); id != None {
				attrs[id] |= Control
				break
			}
		}
	}
	has := func(text string) bool { return d.find(text) != None }
	for _, text := range endTexts {
		if id := d.find(text); id != None {
			attrs[id] |= Control
		}
	}
	for id := range attrs {
		if attrs[id]&Control != 0 && bytes.Contains(d.texts.at(int32(id)), []byte("unused")) {
			attrs[id] |= Unused
		}
	}
	for _, text := range []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"} {
		if id := d.find(text); id != None {
			attrs[id] = UserDefined
		}
	}
	if call := has("<|call|>") || has("<|calls|>"); call && has("<|end|>") && (has("<|return|>") || has("<|flush|>")) {
		attrs[d.find("<|end|>")] = UserDefined
	}
	if s := d.find("</s>"); s != None && (has("<|tool_response>") || has("<|plamo:eos|>")) {
		attrs[s] = Normal
	}
	if d.rstripped {
		for id := range attrs {
			if attrs[id]&(special|UserDefined) != 0 {
				attrs[id] |= rstrip
			}
		}
		for _, text := range []string{"<unk>", "<s>", "<|endoftext|>"} {
			if id := d.find(text); id != None {
				attrs[id] &^= rstrip
			}
		}
	}
	return attrs
}

// build makes a tokenizer with the behaviour of mode.
func (d *definition) build(mode Mode) (*Tokenizer, error) {
	t := &Tokenizer{def: d, mode: mode, attrs: d.attrs}
	p, err := d.pipeline(mode)
	if err != nil {
		return nil, err
	}
	switch {
	case mode == LlamaCpp:
		t.attrs = d.llamaAttrs()
	case d.json != nil:
		t.attrs = d.json.attrs
	}
	t.norm, t.prefix, t.suffix, t.cleanUp, t.strip = p.norm, p.prefix, p.suffix, p.cleanUp, p.strip
	if t.model, err = d.newModel(p); err != nil {
		return nil, err
	}
	t.pieces = d.pieces(t.attrs, mode)
	if t.scan, err = d.scanner(t.model, p); err != nil {
		return nil, err
	}
	d.split(t, p)
	return t, nil
}

// pipeline is everything between a text and the model, as one mode has it.
type pipeline struct {
	norm       normalizer
	expression string
	classes    *classTable
	cutLines   bool // runs of line feeds are apart, and one that is a token needs no merges
	whole      bool // ignore_merges
	lastMerge  bool // of equal merges the last one counts, not the first
	unknown    int32
	fuse       bool
	bytes      bool // characters without a token become tokens of bytes
	strict     bool // and a byte without one is an error
	prefix     []int32
	suffix     []int32
	cleanUp    bool
	strip      bool // decoding takes away the space in front
}

// pipeline returns what mode does with the vocabulary.
func (d *definition) pipeline(mode Mode) (*pipeline, error) {
	p := &pipeline{unknown: None, classes: unicode151(), bytes: true}
	if d.addBOS && d.ids.BOS != None {
		p.prefix = []int32{d.ids.BOS}
	}
	if d.addEOS && d.ids.EOS != None {
		p.suffix = []int32{d.ids.EOS}
	}
	if d.family != nil {
		p.expression, p.whole, p.cleanUp = d.family.expression, d.family.whole, d.family.cleanUp
	}
	p.norm.escape = d.kind != byteLevel
	if p.strip = d.addSpace; d.addSpace {
		p.norm.prefix = prefixAlways
	}
	switch mode {
	case LlamaCpp:
		p.norm.input = inputLenient
		switch {
		case d.kind == sentencePiece || d.kind == characters && d.json != nil:
			p.norm.input, p.strict = inputSymbols, true
		case d.kind == characters:
			p.cutLines, p.cleanUp = true, true
		}
	case HuggingFace:
		d.huggingFace(p)
	case Llama2C:
		if d.source != Llama2C {
			return nil, fault.New(fault.Usage, "only a tokenizer.bin can be read as llama2.c does")
		}
		p.norm = normalizer{input: inputGroups, prefix: prefixOnce}
	}
	return p, nil
}

// huggingFace fills p with what Hugging Face's library does.
func (d *definition) huggingFace(p *pipeline) {
	p.classes, p.norm.input, p.lastMerge, p.cleanUp = unicode160(), inputStrict, true, false
	if j := d.json; j != nil {
		p.norm, p.expression, p.whole = j.norm, j.expression, j.whole
		p.unknown, p.fuse, p.bytes = j.unknown, j.fuse, j.bytes
		p.prefix, p.suffix, p.strip = j.prefix, j.suffix, j.strip
		return
	}
	if d.family != nil {
		p.norm.nfc = d.family.nfc
		if d.family.huggingFace != "" {
			p.expression = d.family.huggingFace
		}
	}
	if d.kind != byteLevel {
		p.unknown, p.fuse = d.ids.Unknown, true
	}
}

// spaceMark is ▁, which stands for a space in vocabularies over characters.
var spaceMark = []byte("▁")

// newModel builds the merge tables.
func (d *definition) newModel(p *pipeline) (*model, error) {
	m := &model{kind: d.kind, scored: d.kind == sentencePiece, whole: p.whole, newlines: p.cutLines, unknown: p.unknown, fuseUnknown: p.fuse, strict: p.strict,
		escape: p.norm.escape, drop: p.norm.input == inputStrict && p.unknown == None}
	if !m.scored {
		m.pairs = newPairTable(len(d.merges))
		m.merged = make([]int32, len(d.merges))
		for rank, g := range d.merges {
			m.merged[rank] = g.Result
			if d.hidden(g.Result, p) {
				continue
			}
			m.pairs.put(g.Left, g.Right, uint32(rank), p.lastMerge)
		}
	}
	if d.kind == byteLevel {
		for b := range m.bytes {
			m.bytes[b] = d.index.find(&d.texts, alphabet[b])
		}
		if p.whole {
			return m, m.setKeys(d, p, func(dst, text []byte) ([]byte, bool) { return fromAlphabet(dst, text) })
		}
		return m, nil
	}
	if err := m.setKeys(d, p, d.canonical(p)); err != nil {
		return nil, err
	}
	for c := range m.ascii {
		m.ascii[c] = m.index.find(&m.keys, []byte{byte(c)})
	}
	for b := range m.fallback {
		m.fallback[b] = None
		if p.bytes {
			m.fallback[b] = d.find(byteText(byte(b)))
			if m.fallback[b] == None && p.strict {
				m.fallback[b] = d.index.find(&d.texts, []byte{byte(b)})
			}
		}
	}
	if m.scored {
		m.ranks = make([]uint32, len(d.scores))
		for id, score := range d.scores {
			m.ranks[id] = scoreRank(score)
			if p.norm.input == inputGroups && score <= -1e10 { // llama2.c's best score begins there
				m.ranks[id] = noRank
			}
		}
	}
	return m, nil
}

// canonical returns the function that writes a token's text as pieces have it, where merges can reach it.
func (d *definition) canonical(p *pipeline) func(dst, text []byte) ([]byte, bool) {
	if !p.norm.escape && p.norm.input != inputGroups {
		return func(dst, text []byte) ([]byte, bool) { return append(dst, text...), true }
	}
	return func(dst, text []byte) ([]byte, bool) {
		if bytes.IndexByte(text, ' ') >= 0 || !utf8.Valid(text) {
			return dst, false
		}
		return appendReplaced(dst, text, spaceMark, ' '), true
	}
}

func appendReplaced(dst, text, old []byte, new byte) []byte {
	for {
		n := bytes.Index(text, old)
		if n < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:n]...), new)
		text = text[n+len(old):]
	}
}

// hidden reports whether merges can't make a token: an added one that the model of a tokenizer.json doesn't list, and as
// llama.cpp one that a GGUF file has with spaces, which are no spaces of a text.
func (d *definition) hidden(id int32, p *pipeline) bool {
	if d.json == nil || d.json.listed[id] && p.norm.input == inputStrict {
		return false
	}
	_, spaced := d.json.spaced[id]
	return spaced || !d.json.listed[id]
}

// setKeys fills keys and index. Two tokens may not have one key.
func (m *model) setKeys(d *definition, p *pipeline, key func(dst, text []byte) ([]byte, bool)) error {
	n := d.texts.len()
	m.keys = newTexts(n, len(d.texts.blob))
	m.index = newIndex(n)
	for id := range int32(n) {
		start := len(m.keys.blob)
		blob, ok := m.keys.blob, false
		if !d.hidden(id, p) {
			blob, ok = key(m.keys.blob, d.texts.at(id))
		}
		if !ok {
			blob = blob[:start]
		}
		m.keys.blob = blob
		m.keys.close()
		if !ok || len(blob) == start {
			continue
		}
		if other := m.index.add(&m.keys, id); other != None {
			return fault.New(fault.BadInput, "tokens %d and %d stand for the same text: %q", other, id, m.keys.at(id))
		}
	}
	return nil
}

// scoreRank orders scores from the highest to the lowest.
func scoreRank(score float32) uint32 {
	bits := math.Float32bits(score + 0) // -0 is 0
	if bits>>31 != 0 {
		return bits
	}
	return ^bits &^ (1 << 31)
}

// byteText returns the text of a byte's token.
func byteText(b byte) string {
	const hex = "0123456789ABCDEF"
	return "<0x" + string([]byte{hex[b>>4], hex[b&15]}) + ">"
}

// pieces returns what each token stands for in a decoded text.
func (d *definition) pieces(attrs []Attr, mode Mode) texts {
	out := newTexts(len(attrs), len(d.texts.blob))
	for i, a := range attrs {
		text := d.text(int32(i))
		if mode == HuggingFace && d.json != nil && d.json.fronted[int32(i)] {
			out.blob = append(out.blob, ' ')
		}
		switch {
		case a&(special|UserDefined) != 0:
			out.blob = append(out.blob, text...)
		case a&Normal != 0 && d.kind == byteLevel:
			start := len(out.blob)
			var ok bool
			if out.blob, ok = fromAlphabet(out.blob, text); !ok {
				out.blob = append(out.blob[:start], text...)
			}
		case a&Normal != 0:
			out.blob = appendReplaced(out.blob, text, spaceMark, ' ')
		case a&Byte != 0:
			if b, ok := parseByteText(text); ok {
				out.blob = append(out.blob, b)
			}
		}
		out.close()
	}
	return out
}

// parseByteText reads "<0x0A>".
func parseByteText(text []byte) (byte, bool) {
	if len(text) != 6 || !bytes.HasPrefix(text, []byte("<0x")) || text[5] != '>' {
		return 0, false
	}
	hi := strings.IndexByte("0123456789abcdef", text[3]|0x20)
	lo := strings.IndexByte("0123456789abcdef", text[4]|0x20)
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

// scanner returns what cuts a stretch into pieces, nil where it is one piece.
func (d *definition) scanner(m *model, p *pipeline) (*scanner, error) {
	if d.kind == byteLevel {
		if p.expression == "" {
			return nil, nil
		}
		s := newScanner(p.expression, p.classes)
		if s == nil {
			return nil, fault.New(fault.Internal, "no scanner for %s", p.expression)
		}
		return s, nil
	}
	if p.norm.input == inputStrict && (p.fuse || p.unknown == None) && slices.Contains(m.fallback[:], None) {
		// Characters without a token make their neighbours meet, across places that no token crosses.
		if !p.norm.apart {
			return nil, nil
		}
		return &scanner{find: (*scanner).cutSpaces}, nil
	}
	b := newBigrams(2 * len(m.keys.blob))
	for id := range int32(m.keys.len()) {
		b.add(m.keys.at(id))
	}
	return newCutter(b, p.cutLines, p.norm.apart), nil
}

// split builds the splitters of t.
func (d *definition) split(t *Tokenizer, p *pipeline) {
	if t.mode == Llama2C {
		return
	}
	for parse := range 2 {
		var early, late []specialText
		for id, a := range t.attrs {
			text := d.text(int32(id))
			if a&(special|UserDefined) == 0 || len(text) == 0 {
				continue
			}
			s := specialText{text: text, id: int32(id), attr: a}
			switch {
			case t.mode == LlamaCpp:
				if parse == 0 && a&special != 0 {
					continue
				}
			case d.json != nil:
				continue
			default:
				s.skip = parse == 0 && a&special != 0
				if d.rstripped && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, string(text)) {
					s.attr |= rstrip
				}
			}
			early = append(early, s)
		}
		if t.mode == HuggingFace && d.json != nil {
			early, late = d.json.specials(p, parse == 1)
		}
		if t.mode == LlamaCpp {
			t.specials[parse] = newLongestFirst(early)
			continue
		}
		t.specials[parse] = newLeftmost(early, p.classes, false)
		t.late[parse] = newLeftmost(late, p.classes, p.norm.escape)
	}
}
