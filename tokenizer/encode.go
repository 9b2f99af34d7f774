package tokenizer

import (
	"bytes"
	"runtime"
	"slices"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// EncodeOptions say what happens to special tokens.
type EncodeOptions struct {
	ParseSpecial bool // texts of special tokens in the text become these tokens; never for text from a user
	AddSpecial   bool // what the model wants around a text is added, such as BOS
}

// Encode appends the ids of text to dst. If text can't be encoded, which is what the reference throws on, dst is
// returned as it was. In mode HuggingFace that is text that is not UTF-8; in mode LlamaCpp a code point above U+10FFFF,
// or with SentencePiece a byte without a token.
func (t *Tokenizer) Encode(dst []int32, text []byte, opt EncodeOptions) ([]int32, error) {
	e := t.acquire()
	defer t.release(e)
	e.ids, e.err = dst, nil
	if opt.AddSpecial {
		e.ids = append(e.ids, t.prefix...)
	}
	err := e.text(text, opt.ParseSpecial)
	ids := e.ids
	e.ids = nil
	if err != nil {
		return dst, err
	}
	if opt.AddSpecial {
		ids = append(ids, t.suffix...)
	}
	return ids, nil
}

func (t *Tokenizer) acquire() *encoder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		e := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return e
	}
	e := &encoder{t: t}
	e.known.reset()
	return e
}

func (t *Tokenizer) release(e *encoder) {
	e.shrink()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) < runtime.GOMAXPROCS(0) {
		t.idle = append(t.idle, e)
	}
}

// encoder is the working memory of one encoding. It remembers the ids of pieces.
type encoder struct {
	t     *Tokenizer
	ids   []int32
	err   error
	count *counting // if set, pieces are counted and no ids are made

	merger  merger
	known   pieceTable // of ids; see packIDs
	many    []int32    // ids of pieces with more than three
	dropped uint64     // bytes without a token

	matches, lateMatches []match
	buffers              [4][]byte
}

// idleMax is the number of elements of a buffer that an idle encoder keeps.
const idleMax = 1 << 18

// shrink lets go of what an unusually long text needed.
func (e *encoder) shrink() {
	for i := range e.buffers {
		if cap(e.buffers[i]) > idleMax {
			e.buffers[i] = nil
		}
	}
	if cap(e.matches)+cap(e.lateMatches) > idleMax {
		e.matches, e.lateMatches = nil, nil
	}
	if cap(e.merger.joined) > idleMax || cap(e.merger.syms) > idleMax {
		e.merger = merger{}
	}
}

// Buffers of the steps between a text and its pieces.
const (
	bufValid = iota
	bufNormal
	bufEscaped
	bufPrefixed
)

// normalizer is what happens to a stretch of text between special tokens.
type normalizer struct {
	input  input
	nfc    bool
	escape bool // a space and ▁ are the same
	prefix prefix
	lone   bool // a stretch that begins with a space gets no other
	late   bool // the space is put in front after special tokens were cut out of normalized text
	apart  bool // each space begins a piece
}

// input says what bytes are taken for.
type input int

const (
	inputLenient input = iota // UTF-8, errors are mended as llama.cpp does
	inputStrict               // UTF-8, errors are refused
	inputSymbols              // bytes: a first byte takes as many as it announces, whatever they are
	inputGroups               // bytes: a first byte takes the continuation bytes that follow, up to three
)

// prefix says when a space is put in front of a stretch.
type prefix int

const (
	prefixNever  prefix = iota
	prefixAlways        // of every stretch
	prefixOnce          // of the first, if the text begins with it
)

// text encodes or counts a whole text.
func (e *encoder) text(text []byte, parse bool) error {
	if e.t.norm.input == inputStrict {
		if at := invalidAt(text); at >= 0 {
			return notUTF8(int64(at))
		}
	}
	return e.splitWith(e.t.specials[b2i(parse)], &e.matches, text, func(part []byte, start int) error {
		return e.stretch(part, int64(start), parse)
	})
}

func notUTF8(at int64) error {
	return fault.WithHint(fault.New(fault.BadInput, "byte %d is not UTF-8, which Hugging Face's library does not take", at),
		"as llama.cpp such bytes are encoded too")
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// splitWith emits the special tokens of s and calls do for what is between them.
func (e *encoder) splitWith(s splitter, matches *[]match, text []byte, do func(part []byte, start int) error) error {
	done := 0
	if s != nil {
		*matches, _ = s.split((*matches)[:0], text, true)
		for _, m := range *matches {
			if m.start > done {
				if err := do(text[done:m.start], done); err != nil {
					return err
				}
			}
			e.emit(m.id)
			done = m.end
		}
	}
	if done < len(text) {
		return do(text[done:], done)
	}
	return nil
}

func (e *encoder) emit(id int32) {
	if e.count != nil {
		e.count.ids[id]++
		return
	}
	e.ids = append(e.ids, id)
}

// stretch takes what is between special tokens, which begins at offset start of the text.
func (e *encoder) stretch(part []byte, start int64, parse bool) error {
	part, err := e.normalize(part, start)
	if err != nil {
		return err
	}
	return e.splitLate(part, start == 0, parse)
}

// normalize makes part valid and normal. The result is part itself where nothing changes.
func (e *encoder) normalize(part []byte, start int64) ([]byte, error) {
	n := &e.t.norm
	if n.input == inputLenient && !utf8.Valid(part) {
		var err error
		if e.buffers[bufValid], err = appendLenient(e.buffers[bufValid][:0], part, start); err != nil {
			return nil, err
		}
		part = e.buffers[bufValid]
	}
	if n.nfc && !nfc().is(part) {
		e.buffers[bufNormal] = nfc().append(e.buffers[bufNormal][:0], part)
		part = e.buffers[bufNormal]
	}
	return part, nil
}

// splitLate cuts out the special tokens that are looked for in normalized text, then takes the rest. first says that part
// begins the whole text.
func (e *encoder) splitLate(part []byte, first, parse bool) error {
	n := &e.t.norm
	late := e.t.late[b2i(parse)]
	if late == nil {
		return e.open(part, first)
	}
	if !n.late {
		part = e.begun(part, first)
	}
	part = e.escaped(part)
	return e.splitWith(late, &e.lateMatches, part, func(part []byte, start int) error {
		if !n.late {
			return e.closed(part, 0)
		}
		return e.open(part, first && start == 0)
	})
}

// open takes a stretch that may get a space in front.
func (e *encoder) open(part []byte, first bool) error {
	whole := e.begun(part, first)
	return e.closed(whole, len(whole)-len(part))
}

// begun returns part with a space in front if it gets one.
func (e *encoder) begun(part []byte, first bool) []byte {
	if e.t.norm.wantsSpace(part, first) {
		return e.prefixed(part)
	}
	return part
}

// wantsSpace reports whether a space is put in front of a stretch.
func (n *normalizer) wantsSpace(part []byte, first bool) bool {
	if n.prefix == prefixNever || n.prefix == prefixOnce && !first {
		return false
	}
	return !n.lone || part[0] != ' ' && !(n.escape && bytes.HasPrefix(part, spaceMark))
}

func (e *encoder) prefixed(part []byte) []byte {
	e.buffers[bufPrefixed] = append(append(e.buffers[bufPrefixed][:0], ' '), part...)
	return e.buffers[bufPrefixed]
}

// closed takes a stretch to which nothing is added any more, whose first bytes were put in front.
func (e *encoder) closed(part []byte, front int) error {
	n := &e.t.norm
	switch {
	case n.input == inputSymbols && !utf8.Valid(part):
		return e.symbols(part)
	case n.input == inputGroups && !utf8.Valid(part):
		return e.groups(part, front)
	}
	e.pieces(e.escaped(part))
	return e.err
}

// escaped returns part with spaces for ▁.
func (e *encoder) escaped(part []byte) []byte {
	if !e.t.norm.escape || !bytes.Contains(part, spaceMark) {
		return part
	}
	e.buffers[bufEscaped] = appendReplaced(e.buffers[bufEscaped][:0], part, spaceMark, ' ')
	return e.buffers[bufEscaped]
}

// symbols takes a stretch that is not UTF-8 as llama.cpp's SentencePiece does: spaces become ▁, then each first byte takes
// as many bytes as it announces. What is no character then can't be in a token, so the rest is cut there.
func (e *encoder) symbols(part []byte) error {
	marked := bytes.ReplaceAll(part, []byte{' '}, spaceMark)
	done := 0
	for i := 0; i < len(marked); {
		n := min(charLen(marked[i]), len(marked)-i)
		if !utf8.Valid(marked[i : i+n]) {
			e.pieces(e.escaped(marked[done:i]))
			e.fallBack(marked[i : i+n])
			done = i + n
		}
		i += n
	}
	e.pieces(e.escaped(marked[done:]))
	return e.err
}

// groups takes a text that is not UTF-8 as llama2.c does: a byte and the continuation bytes behind it, four at most, are
// looked up together.
func (e *encoder) groups(part []byte, front int) error {
	done := 0
	for i := front; i < len(part); {
		n := 1
		for n < 4 && i+n < len(part) && part[i+n]&0xC0 == 0x80 {
			n++
		}
		if !utf8.Valid(part[i : i+n]) {
			e.pieces(part[done:i])
			e.fallBack(part[i : i+n])
			done = i + n
		}
		i += n
	}
	e.pieces(part[done:])
	return e.err
}

// fallBack emits the tokens of bytes.
func (e *encoder) fallBack(p []byte) {
	start := len(e.ids)
	e.ids = e.appendBytes(e.ids, start, p)
	if e.count != nil {
		for _, id := range e.ids[start:] {
			e.count.ids[id]++
		}
		e.ids = e.ids[:start]
	}
}

// appendBytes appends the tokens of bytes, or the unknown one; dst[start:] is of the same piece.
func (e *encoder) appendBytes(dst []int32, start int, p []byte) []int32 {
	m := e.t.model
	if m.unknown != None && !m.hasBytes(p) {
		return e.appendUnknown(dst, start)
	}
	for _, b := range p {
		switch id := m.fallback[b]; {
		case id >= 0:
			dst = append(dst, id)
		case m.strict && e.err == nil:
			e.err = fault.New(fault.BadInput, "the vocabulary has no token for byte 0x%02X, on which llama.cpp gives up", b)
		default:
			e.dropped++
		}
	}
	return dst
}

// appendUnknown appends the unknown token, if it is not to be one with that of the symbol before.
func (e *encoder) appendUnknown(dst []int32, start int) []int32 {
	m := e.t.model
	if n := len(dst); m.fuseUnknown && n > start && dst[n-1] == m.unknown {
		return dst
	}
	return append(dst, m.unknown)
}

// hasBytes reports whether all bytes have tokens.
func (m *model) hasBytes(p []byte) bool {
	for _, b := range p {
		if m.fallback[b] < 0 {
			return false
		}
	}
	return true
}

// pieces cuts a stretch into pieces and takes each.
func (e *encoder) pieces(part []byte) {
	switch {
	case e.count != nil:
		e.count.pieces(e, part)
	case e.t.scan == nil:
		e.ids = e.appendPiece(e.ids, part)
	default:
		e.encodePieces(part)
	}
}

func (e *encoder) encodePieces(part []byte) {
	s := e.t.scan
	for i := 0; i < len(part); {
		end := s.find(s, part, i)
		if end-i > pieceMax {
			e.ids = e.appendPiece(e.ids, part[i:end])
			i = end
			continue
		}
		slot, a, b := e.known.find(part, i, end)
		if slot.length == 0 {
			e.learn(slot, a, b, part[i:end])
		} else {
			e.appendPacked(slot.value)
		}
		i = end
	}
}

// learn encodes a piece that is not known and remembers it.
func (e *encoder) learn(slot *pieceSlot, a, b uint64, piece []byte) {
	start := len(e.ids)
	e.ids = e.appendPiece(e.ids, piece)
	if e.known.full() || len(e.many) > maxMany-pieceMax {
		e.known.reset()
		e.many = e.many[:0]
		return
	}
	e.known.add(slot, a, b, piece, e.packIDs(e.ids[start:]))
}

const (
	packedCount = 60      // where the number of ids is in a packed value
	packedMany  = 15      // the number that says they are in encoder.many
	maxMany     = 1 << 20 // ids in encoder.many
)

// packIDs packs ids into one word: up to three of them, or where they are in e.many and how many.
func (e *encoder) packIDs(ids []int32) uint64 {
	if len(ids) > 3 {
		at := len(e.many)
		e.many = append(e.many, ids...)
		return packedMany<<packedCount | uint64(len(ids))<<32 | uint64(at)
	}
	v := uint64(len(ids)) << packedCount
	for i, id := range ids {
		v |= uint64(id) << (idBits * i)
	}
	return v
}

func (e *encoder) appendPacked(v uint64) {
	switch n := v >> packedCount; n {
	case 1:
		e.ids = append(e.ids, int32(v&idMask))
	case 2:
		e.ids = append(e.ids, int32(v&idMask), int32(v>>idBits&idMask))
	case 3:
		e.ids = append(e.ids, int32(v&idMask), int32(v>>idBits&idMask), int32(v>>(2*idBits)&idMask))
	case packedMany:
		at := v & 0xFFFFFFFF
		e.ids = append(e.ids, e.many[at:at+v>>32&0xFFFF]...)
	}
}

// appendPiece encodes one piece.
func (e *encoder) appendPiece(dst []int32, piece []byte) []int32 {
	m := e.t.model
	if m.whole || m.newlines && piece[0] == '\n' && len(bytes.Trim(piece, "\n")) == 0 {
		if id := m.index.find(&m.keys, piece); id >= 0 {
			return append(dst, id)
		}
	}
	syms := e.merger.merge(m, piece)
	e.dropped += uint64(e.merger.dropped)
	n := len(syms) - 1
	start := len(dst)
	dst = slices.Grow(dst, n)
	for i, s := range syms[:n] {
		if s.id >= 0 {
			dst = append(dst, s.id)
		} else {
			dst = e.appendMissing(dst, start, piece[s.start:syms[i+1].start])
		}
	}
	return dst
}

// appendMissing appends what stands for a symbol without a token.
func (e *encoder) appendMissing(dst []int32, start int, p []byte) []int32 {
	m := e.t.model
	switch {
	case m.kind != byteLevel:
		return e.appendBytes(dst, start, m.shown(p))
	case m.unknown != None:
		return e.appendUnknown(dst, start)
	}
	e.dropped++
	return dst
}

// shown returns the bytes of a symbol as the vocabulary has them.
func (m *model) shown(p []byte) []byte {
	if m.escape && p[0] == ' ' {
		return spaceMark
	}
	return p
}
