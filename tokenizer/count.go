package tokenizer

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// Counter counts how often each token occurs in texts. The counts are those of encoding each text as a whole without
// parsing special tokens or adding any, whatever its size, and however the work is divided.
//
// A counter counts distinct pieces of text and encodes each of them once. Its memory is bounded: it holds at most 196,608
// different pieces, one block of text, and one piece of at most 16 MiB. It is not safe for concurrent use; use several
// counters and add them up, or CountText.
type Counter struct {
	e      *encoder
	c      counting
	raw    []byte // what is read and not yet split
	held   []byte // the end of a stretch that may change with what follows
	work   []byte // normalized text that is not yet cut into pieces
	open   bool   // a stretch has begun
	first  bool   // nothing has been taken yet
	tried  int    // length of work up to which no piece was certain
	offset int64  // of held in the text
	block  int    // bytes that are read at once
}

const (
	blockSize  = 64 << 10 // bytes that are read at once: they stay in a processor's second cache
	partBlocks = 16       // blocks that one of several goroutines takes at once
	maxHeld    = 16 << 20 // bytes of the longest text without a place to cut
	certain    = 16       // bytes that decide where a piece before them ends
)

// NewCounter returns a counter with all counts zero.
func (t *Tokenizer) NewCounter() *Counter {
	c := &Counter{e: &encoder{t: t}, block: blockSize}
	c.c.ids = make([]uint64, t.Size())
	c.c.known.reset()
	c.e.count = &c.c
	return c
}

// Text counts one text. After an error, which is one of r or what Encode would return, the counts hold a part of it.
func (c *Counter) Text(r io.Reader) error {
	c.begin(true)
	if c.e.t.needsWhole() {
		return c.wholeText(r)
	}
	c.raw = slices.Grow(c.raw[:0], c.block)
	for {
		n, err := io.ReadFull(r, c.raw[len(c.raw):cap(c.raw)])
		c.raw = c.raw[:len(c.raw)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		if err := c.feed(nil, end, nil); err != nil || end {
			return err
		}
		if len(c.raw) == cap(c.raw) {
			c.raw = slices.Grow(c.raw, len(c.raw))
		}
	}
}

// Bytes counts one text.
func (c *Counter) Bytes(text []byte) error { return c.Text(bytes.NewReader(text)) }

// Counts returns how often each id occurred.
func (c *Counter) Counts() []uint64 {
	c.flush()
	return slices.Clone(c.c.ids)
}

// Dropped returns how many bytes had no token and are in no count.
func (c *Counter) Dropped() uint64 {
	c.flush()
	return c.e.dropped
}

// Add adds the counts of another counter of the same tokenizer.
func (c *Counter) Add(other *Counter) {
	other.flush()
	for id, n := range other.c.ids {
		c.c.ids[id] += n
	}
	c.e.dropped += other.e.dropped
}

func tooLong() error {
	return fault.New(fault.BadInput, "the text has more than %d bytes without a place where it can be cut", maxHeld)
}

// wholeText reads all of a text, for vocabularies with special tokens that look at what is before them.
func (c *Counter) wholeText(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxHeld+1))
	if err != nil {
		return err
	}
	if len(text) > maxHeld {
		return tooLong()
	}
	if err := c.e.text(text, false); err != nil {
		return err
	}
	return c.e.err
}

// needsWhole reports whether special tokens may depend on any text around them.
func (t *Tokenizer) needsWhole() bool {
	l, ok := t.specials[0].(*leftmost)
	return ok && l.looksAround()
}

// specialTexts returns the tokens that are cut out while specials are not parsed.
func (t *Tokenizer) specialTexts() []specialText {
	var list []specialText
	for _, s := range []splitter{t.specials[0], t.late[0]} {
		switch s := s.(type) {
		case *longestFirst:
			list = append(list, s.list...)
		case *leftmost:
			list = append(list, s.list...)
		}
	}
	return list
}

// begin begins a text, or with first unset a part of one that begins inside a stretch.
func (c *Counter) begin(first bool) {
	c.raw, c.held, c.work = c.raw[:0], c.held[:0], c.work[:0]
	c.open, c.first, c.tried, c.offset = !first, first, 0, 0
	c.e.err = nil
}

// feed takes more text. With end it is all of it, or all up to a place where a piece is known to end; look is then
// what follows.
func (c *Counter) feed(text []byte, end bool, look []byte) error {
	c.raw = append(c.raw, text...)
	hold, done := len(c.raw), 0
	if s := c.e.t.specials[0]; s != nil {
		c.e.matches, hold = s.split(c.e.matches[:0], c.raw, end)
		for _, m := range c.e.matches {
			if err := c.stretch(c.raw[done:max(done, m.start)], true, nil); err != nil {
				return err
			}
			c.c.ids[m.id]++
			c.offset += int64(m.end - m.start)
			c.first = false
			done = m.end
		}
	}
	if err := c.stretch(c.raw[done:hold], end, look); err != nil {
		return err
	}
	c.raw = c.raw[:copy(c.raw, c.raw[hold:])]
	if len(c.raw) > maxHeld {
		return tooLong()
	}
	if m := c.e.t.model; end && m.strict && slices.Contains(m.fallback[:], None) {
		c.flush() // so that a byte without a token is reported for this text
	}
	return c.e.err
}

// stretch takes a part of what is between special tokens, with end the last one.
func (c *Counter) stretch(part []byte, end bool, look []byte) error {
	if len(part) == 0 && !end || !c.open && len(part)+len(c.held) == 0 {
		return nil
	}
	n := &c.e.t.norm
	src := part
	if len(c.held) > 0 {
		c.held = append(c.held, part...)
		src = c.held
	}
	ready := len(src)
	if !end {
		ready = c.ready(src)
	}
	start := c.offset
	if n.input == inputStrict {
		if at := invalidAt(src[:ready]); at >= 0 {
			return notUTF8(start + int64(at))
		}
	}
	if end && (n.input == inputSymbols || n.input == inputGroups) && !utf8.Valid(src) {
		return c.invalid(src)
	}
	normal, err := c.e.normalize(src[:ready], start)
	if err != nil {
		return err
	}
	if len(normal) > 0 && !c.open {
		c.open = true
		if c.e.t.late[0] == nil && n.wantsSpace(normal, c.first) {
			c.work = append(c.work, ' ')
		}
	}
	c.work = append(c.work, c.e.escaped(normal)...)
	c.offset += int64(ready)
	c.held = append(c.held[:0], src[ready:]...)
	if len(c.held) > maxHeld || len(c.work) > maxHeld+2*c.block {
		return tooLong()
	}
	if !end {
		c.takeCertain()
		return nil
	}
	return c.finish(look)
}

// ready returns how much of src is decided whatever follows.
func (c *Counter) ready(src []byte) int {
	n := &c.e.t.norm
	ready := len(src) - partial(src)
	if n.input == inputSymbols || n.input == inputGroups {
		if at := invalidAt(src[:ready]); at >= 0 {
			ready = at // what follows depends on where it began: it waits for the end of the stretch
		}
		ready = n.groupStart(src, ready)
	}
	if n.nfc {
		ready = nfc().boundary(src[:ready])
	}
	if n.lone && !c.open && ready < len("▁") {
		ready = 0
	}
	return ready
}

// groupStart returns where what ends at i begins: the last character before it may take the bytes that follow.
func (n *normalizer) groupStart(src []byte, i int) int {
	if n.input == inputGroups {
		_, size := utf8.DecodeLastRune(src[:i])
		i -= size
	}
	return i
}

// invalid takes the rest of a stretch over characters that is not UTF-8.
func (c *Counter) invalid(src []byte) error {
	c.offset += int64(len(src))
	at := invalidAt(src)
	if src[at]&0xC0 == 0x80 {
		at = c.e.t.norm.groupStart(src, at)
	}
	good := src[:at]
	if !c.open && c.e.t.norm.wantsSpace(src, c.first) {
		c.work = append(c.work, ' ')
	}
	c.open = true
	c.work = append(c.work, c.e.escaped(good)...)
	if err := c.finish(nil); err != nil {
		return err
	}
	return c.e.closed(src[at:], 0)
}

// finish counts what is left of a stretch and ends it. look is what follows in the text without being counted.
func (c *Counter) finish(look []byte) error {
	if c.e.t.late[0] != nil {
		if err := c.e.splitLate(c.work, c.first, false); err != nil {
			return err
		}
	} else {
		size := len(c.work)
		c.work = append(c.work, look...)
		c.c.take(c.e, c.work, size)
	}
	c.first, c.open, c.tried = false, false, 0
	c.work, c.held = c.work[:0], c.held[:0]
	return c.e.err
}

// takeCertain counts the pieces of c.work that end where they do whatever follows.
func (c *Counter) takeCertain() {
	s := c.e.t.scan
	if s == nil || c.e.t.late[0] != nil || len(c.work) < 2*c.tried {
		return
	}
	limit := len(c.work) - 1
	if s.crossed == nil {
		if limit = len(c.work) - certain; s.far {
			limit = s.lastBreak(c.work, limit)
		}
	}
	done := 0
	if limit > 0 {
		done = c.c.certain(c.e, c.work, limit)
	}
	c.work = c.work[:copy(c.work, c.work[done:])]
	if c.tried = 0; done == 0 {
		c.tried = len(c.work)
	}
}

// lastBreak returns the start of the last character up to limit that is in no word, 0 if there is none.
func (s *scanner) lastBreak(text []byte, limit int) int {
	for limit > 0 {
		_, n := utf8.DecodeLastRune(text[:limit])
		limit -= n
		if f, _ := s.at(text, limit); f&(isUpper|isLower|isLetter) == 0 {
			return limit
		}
	}
	return 0
}

// counting is a table of pieces and the counts of ids.
type counting struct {
	ids   []uint64
	known pieceTable
}

// pieces counts the pieces of a whole stretch.
func (c *counting) pieces(e *encoder, part []byte) { c.take(e, part, len(part)) }

// take counts the pieces that begin before size.
func (c *counting) take(e *encoder, text []byte, size int) {
	s := e.t.scan
	if s == nil {
		c.long(e, text[:size], 1)
		return
	}
	for i := 0; i < size; {
		end := s.find(s, text, i)
		c.add(e, text, i, end)
		i = end
	}
}

// certain counts the pieces that end up to limit and returns where the first other one begins.
func (c *counting) certain(e *encoder, text []byte, limit int) int {
	s := e.t.scan
	i := 0
	for i < limit {
		end := s.find(s, text, i)
		if end > limit {
			break
		}
		c.add(e, text, i, end)
		i = end
	}
	return i
}

func (c *counting) add(e *encoder, text []byte, i, end int) {
	if end-i > pieceMax {
		c.long(e, text[i:end], 1)
		return
	}
	slot, a, b := c.known.find(text, i, end)
	if slot.length != 0 {
		slot.value++
		return
	}
	if c.known.full() {
		c.flush(e)
		slot, a, b = c.known.find(text, i, end)
	}
	c.known.add(slot, a, b, text[i:end], 1)
}

// long encodes a piece that occurred n times.
func (c *counting) long(e *encoder, piece []byte, n uint64) {
	if len(piece) == 0 {
		return
	}
	dropped := e.dropped
	e.ids = e.appendPiece(e.ids[:0], piece)
	e.dropped = dropped + (e.dropped-dropped)*n
	for _, id := range e.ids {
		c.ids[id] += n
	}
}

// flush encodes all pieces of the table and empties it.
func (c *counting) flush(e *encoder) {
	var scratch [inlineMax]byte
	for i := range c.known.slots {
		if s := &c.known.slots[i]; s.length != 0 {
			c.long(e, c.known.bytes(s, &scratch), s.value)
		}
	}
	c.known.reset()
}

func (c *Counter) flush() {
	if c.c.known.used > 0 {
		c.c.flush(c.e)
	}
}

// CountText counts one text with several counters of one tokenizer, one goroutine each. Together they hold what one of them
// would hold; add them up. The text is cut behind line feeds, which is where it may be; while there are none, one
// goroutine works alone.
func CountText(r io.Reader, counters []*Counter) error {
	t := counters[0].e.t
	if len(counters) == 1 || !t.linesApart() {
		return counters[0].Text(r)
	}
	s := &source{r: r, t: t, first: true}
	errs := make([]error, len(counters))
	var wg sync.WaitGroup
	for i, c := range counters {
		wg.Go(func() {
			if errs[i] = s.work(c); errs[i] != nil {
				s.stop()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// linesApart reports whether a line feed before an ASCII letter always ends a piece, whatever is around.
func (t *Tokenizer) linesApart() bool {
	if t.scan == nil || t.late[0] != nil || t.needsWhole() {
		return false
	}
	for _, s := range t.specialTexts() {
		if t.norm.prefix == prefixAlways && s.text[len(s.text)-1] == '\n' {
			return false
		}
		for i := range len(s.text) - 1 {
			if s.text[i] == '\n' && isASCIILetter(s.text[i+1]) {
				return false
			}
		}
	}
	return true
}

func isASCIILetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// source hands out a text in parts that end behind line feeds.
type source struct {
	mu    sync.Mutex
	r     io.Reader
	t     *Tokenizer
	rest  []byte // what was read behind the last cut
	at    int64  // where it begins
	first bool
	done  bool
}

func (s *source) stop() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
}

// work counts parts until there are none.
func (s *source) work(c *Counter) error {
	var block []byte
	for {
		more, err := s.next(c, &block)
		if err != nil || !more {
			return err
		}
		part, look := block[:len(block)-1], block[len(block)-1:]
		for ; len(part) > c.block; part = part[c.block:] {
			if err := c.feed(part[:c.block], false, nil); err != nil {
				return err
			}
		}
		if err := c.feed(part, true, look); err != nil {
			return err
		}
	}
}

// next leaves the next part and the letter behind it in block, and c ready for it. If the part is the last or too long,
// it is counted here, while the others wait.
func (s *source) next(c *Counter, block *[]byte) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return false, nil
	}
	c.begin(s.first)
	c.offset, s.first = s.at, false
	for {
		b := slices.Grow((*block)[:0], max(partBlocks*c.block, 2*len(s.rest)))
		b = append(b, s.rest...)
		n, err := io.ReadFull(s.r, b[len(b):cap(b)])
		b = b[:len(b)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		*block, s.rest = b, s.rest[:0]
		start := s.at
		s.at += int64(len(b))
		switch cut := s.lastCut(b); {
		case err != nil && !end:
			s.done = true
			return false, err
		case end:
			s.done = true
			return false, c.feed(b, true, nil)
		case cut > 0:
			s.rest = append(s.rest, b[cut:]...)
			*block, s.at = b[:cut+1], start+int64(cut)
			return true, nil
		}
		if err := c.feed(b, false, nil); err != nil {
			s.done = true
			return false, err
		}
	}
}

// lastCut returns the place behind the last line feed of b that an ASCII letter follows, 0 if there is none.
func (s *source) lastCut(b []byte) int {
	for end := len(b) - 1; end > 0; {
		n := bytes.LastIndexByte(b[:end], '\n')
		if n < 0 {
			return 0
		}
		if c := b[n+1]; isASCIILetter(c) && (s.t.scan.crossed == nil || !s.t.scan.crossed.has('\n', rune(c))) && !swallowed(b, n) {
			return n + 1
		}
		end = n
	}
	return 0
}

// swallowed reports whether a first byte before the line feed at n announces a character that reaches it. Where
// bytes are symbols, such a one takes what is there.
func swallowed(b []byte, n int) bool {
	for i := max(0, n-3); i < n; i++ {
		if i+charLen(b[i]) > n {
			return true
		}
	}
	return false
}
