package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// match is a special token in a text.
type match struct {
	start, end int // with the white space it swallows
	id         int32
}

// splitter finds the tokens that are cut out of a text before anything else.
type splitter interface {
	// split appends the matches in text. If more text may follow (!whole), it stops at hold, before which everything is
	// decided, and from which on the next call must begin; else hold is the length of text.
	split(dst []match, text []byte, whole bool) (matches []match, hold int)
}

// finder finds all special tokens that begin at a place. A filter on the first two bytes keeps it away from most places.
type finder struct {
	list  []specialText // by text
	first [256]bool
	pairs [1 << 10]uint64 // the first two bytes
	only  int             // the first byte if there is but one, or -1
}

type specialText struct {
	text  []byte
	id    int32
	order int // in which tokens are cut out
	attr  Attr
	word  bool // must not touch a word
	skip  bool // is found, so nothing else is there, but left as text
}

func newFinder(list []specialText) *finder {
	f := &finder{list: list, only: -1}
	slices.SortFunc(f.list, func(a, b specialText) int { return bytes.Compare(a.text, b.text) })
	for _, s := range f.list {
		f.first[s.text[0]] = true
		if len(s.text) > 1 {
			p := int(s.text[0])<<8 | int(s.text[1])
			f.pairs[p>>6] |= 1 << (p & 63)
			continue
		}
		for p := int(s.text[0]) << 8; p < (int(s.text[0])+1)<<8; p++ {
			f.pairs[p>>6] |= 1 << (p & 63)
		}
	}
	if first := f.list[0].text[0]; first == f.list[len(f.list)-1].text[0] {
		f.only = int(first)
	}
	return f
}

// next returns the first place from i on where a token may begin, or len(text).
func (f *finder) next(text []byte, i int) int {
	for i < len(text) {
		if f.only >= 0 {
			n := bytes.IndexByte(text[i:], byte(f.only))
			if n < 0 {
				return len(text)
			}
			i += n
		} else if !f.first[text[i]] {
			i++
			continue
		}
		if i+1 == len(text) {
			return i
		}
		if p := int(text[i])<<8 | int(text[i+1]); f.pairs[p>>6]>>(p&63)&1 != 0 {
			return i
		}
		i++
	}
	return i
}

// at calls found for every token that begins at i, shorter ones first. It reports whether a longer one might if the text
// went on.
func (f *finder) at(text []byte, i int, found func(k int)) (more bool) {
	lo, hi := 0, len(f.list)
	for depth := 0; ; depth++ {
		if lo < hi && len(f.list[lo].text) == depth && depth > 0 {
			found(lo)
			lo++
		}
		if lo == hi {
			return false
		}
		if i+depth == len(text) {
			return true
		}
		c := text[i+depth]
		if hi-lo == 1 {
			rest := f.list[lo].text[depth:]
			have := text[i+depth:]
			if len(have) < len(rest) {
				return bytes.HasPrefix(rest, have)
			}
			if bytes.HasPrefix(have, rest) {
				found(lo)
			}
			return false
		}
		lo += searchByte(f.list[lo:hi], depth, c)
		if c < 255 {
			hi = lo + searchByte(f.list[lo:hi], depth, c+1)
		}
	}
}

// searchByte returns the first text of the sorted list whose byte at depth is at least c. No text ends there.
func searchByte(list []specialText, depth int, c byte) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := (lo + hi) / 2; list[mid].text[depth] < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// longestFirst cuts tokens out as llama.cpp does: the longest one wherever it occurs in the whole text, then the next.
// What overlaps nothing else is decided on its own; where tokens overlap, the rule is followed on that stretch.
type longestFirst struct {
	*finder
}

// newLongestFirst returns nil if there is no token.
func newLongestFirst(list []specialText) splitter {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b specialText) int { return len(b.text) - len(a.text) })
	for i := range list {
		list[i].order = i
	}
	return &longestFirst{finder: newFinder(list)}
}

func (l *longestFirst) split(dst []match, text []byte, whole bool) ([]match, int) {
	var found []int
	var seen []bool // of the tokens of one cluster
	for i := l.next(text, 0); i < len(text); i = l.next(text, i) {
		for _, k := range found {
			seen[k] = false
		}
		found = found[:0]
		reach, strip := i, false
		for at := i; at == i || at < reach; at++ {
			if more := l.at(text, at, func(k int) {
				if seen == nil {
					seen = make([]bool, len(l.list))
				}
				if !seen[k] {
					seen[k] = true
					found = append(found, k)
				}
				reach = max(reach, at+len(l.list[k].text))
				strip = strip || l.list[k].attr&rstrip != 0
			}); more && !whole {
				return dst, i
			}
			if at == i && len(found) == 0 {
				break
			}
			if strip {
				reach = skipSpace(text, reach)
			}
		}
		if len(found) == 0 {
			i++
			continue
		}
		if strip && reach == len(text) && !whole {
			return dst, i
		}
		if len(found) == 1 && !strip && reach-i == len(l.list[found[0]].text) {
			dst = append(dst, match{i, reach, l.list[found[0]].id})
		} else {
			dst = l.cluster(dst, text, i, reach, found)
		}
		i = reach
	}
	return dst, len(text)
}

// cluster cuts the tokens found out of text[start:end] in their order.
func (l *longestFirst) cluster(dst []match, text []byte, start, end int, found []int) []match {
	slices.SortFunc(found, func(a, b int) int { return l.list[a].order - l.list[b].order })
	parts := []match{{start, end, None}}
	var next []match
	for _, k := range found {
		token := &l.list[k]
		next = next[:0]
		for _, p := range parts {
			if p.id != None {
				next = append(next, p)
				continue
			}
			for {
				n := bytes.Index(text[p.start:p.end], token.text)
				if n < 0 {
					break
				}
				m := match{p.start + n, p.start + n + len(token.text), token.id}
				if n > 0 {
					next = append(next, match{p.start, m.start, None})
				}
				if token.attr&rstrip != 0 {
					m.end = min(skipSpace(text, m.end), p.end)
				}
				next = append(next, m)
				p.start = m.end
			}
			if p.start < p.end {
				next = append(next, p)
			}
		}
		parts, next = next, parts
	}
	for _, p := range parts {
		if p.id != None {
			dst = append(dst, p)
		}
	}
	return dst
}

// isCSpace is isspace of the C library: ASCII only.
func isCSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func skipSpace(text []byte, i int) int {
	for i < len(text) && isCSpace(text[i]) {
		i++
	}
	return i
}

// leftmost cuts tokens out as Hugging Face's library does: the leftmost one, the longest of these, then on behind it. White
// space that a token swallows is nevertheless searched for tokens.
type leftmost struct {
	*finder
	classes *classTable
	marked  bool // a space stands for ▁, which is no white space
}

func newLeftmost(list []specialText, classes *classTable, marked bool) splitter {
	if len(list) == 0 {
		return nil
	}
	return &leftmost{newFinder(list), classes, marked}
}

func (l *leftmost) split(dst []match, text []byte, whole bool) ([]match, int) {
	done := 0 // the end of the last token, with the white space it swallows
	for i := l.next(text, 0); i < len(text); i = l.next(text, i) {
		best := -1
		if more := l.at(text, i, func(k int) { best = k }); more && !whole {
			return dst, i
		}
		if best < 0 {
			i++
			continue
		}
		token := &l.list[best]
		m := match{i, i + len(token.text), token.id}
		i = m.end
		if token.skip || token.word && (l.wordBefore(text, m.start) || l.wordAfter(text, m.end)) {
			continue
		}
		if token.attr&lstrip != 0 {
			m.start = l.spaceBefore(text, m.start, done)
		}
		if token.attr&rstrip != 0 {
			m.end = l.spaceAfter(text, m.end)
		}
		dst = append(dst, m)
		done = m.end
	}
	return dst, len(text)
}

// looksAround reports whether what is around a token decides about it. Then a text can't be split in parts.
func (l *leftmost) looksAround() bool {
	return slices.ContainsFunc(l.list, func(s specialText) bool { return s.word || s.attr&(lstrip|rstrip) != 0 })
}

func (l *leftmost) spaceBefore(text []byte, i, done int) int {
	for i > done {
		r, n := utf8.DecodeLastRune(text[done:i])
		if !l.isSpace(r) {
			break
		}
		i -= n
	}
	return i
}

func (l *leftmost) spaceAfter(text []byte, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRune(text[i:])
		if !l.isSpace(r) {
			break
		}
		i += n
	}
	return i
}

func (l *leftmost) isSpace(r rune) bool {
	return l.classes.of(r) == space && !(l.marked && r == ' ')
}

func (l *leftmost) wordBefore(text []byte, i int) bool {
	r, n := utf8.DecodeLastRune(text[:i])
	return n > 0 && l.isWord(r)
}

func (l *leftmost) wordAfter(text []byte, i int) bool {
	r, n := utf8.DecodeRune(text[i:])
	return n > 0 && l.isWord(r)
}

// isWord is \w as in Rust: alphabetic characters, marks, decimal and letter numbers, connecting punctuation, and joiners.
func (l *leftmost) isWord(r rune) bool {
	switch c := l.classes.of(r); {
	case c == number:
		for i := 0; i < len(otherNumbers); i += 2 {
			if uint32(r) >= otherNumbers[i] && uint32(r) <= otherNumbers[i+1] {
				return false
			}
		}
		return true
	case c != other:
		return c != space
	}
	switch {
	case r == '_', r == 0x203F, r == 0x2040, r == 0x2054, r == 0xFE33, r == 0xFE34, r >= 0xFE4D && r <= 0xFE4F, r == 0xFF3F: // Pc
		return true
	case r == 0x200C, r == 0x200D: // Join_Control
		return true
	}
	// Other_Alphabetic that is no letter and no mark: circled and squared letters.
	return r >= 0x24B6 && r <= 0x24E9 || r >= 0x1F130 && r <= 0x1F149 || r >= 0x1F150 && r <= 0x1F169 || r >= 0x1F170 && r <= 0x1F189
}
