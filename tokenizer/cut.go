package tokenizer

import (
	"bytes"
	"math/bits"
)

// bigrams are the pairs of neighbouring characters that occur inside tokens. Where two characters meet that occur in
// no token side by side, no merge can cross, so a text without a scanner can be cut there. Pairs beyond ASCII are kept
// in a filter: that it takes some pair for one of them costs a cut and nothing else.
type bigrams struct {
	ascii [0x80][2]uint64
	bits  []uint64
	shift uint
}

func newBigrams(n int) *bigrams {
	size := max(bits.Len(uint(n))+2, 12)
	return &bigrams{bits: make([]uint64, 1<<(size-6)), shift: uint(64 - size)}
}

func (b *bigrams) slot(l, r rune) uint64 {
	return (uint64(l)<<21 | uint64(r)) * hashMul2 >> b.shift
}

// add adds the pairs of a token.
func (b *bigrams) add(token []byte) {
	last := rune(-1)
	for i := 0; i < len(token); {
		r, n := decode(token, i)
		switch {
		case last < 0:
		case last < 0x80 && r < 0x80:
			b.ascii[last][r>>6] |= 1 << (r & 63)
		default:
			s := b.slot(last, r)
			b.bits[s>>6] |= 1 << (s & 63)
		}
		last = r
		i += n
	}
}

func (b *bigrams) has(l, r rune) bool {
	if l < 0x80 && r < 0x80 {
		return b.ascii[l][r>>6]>>(r&63)&1 != 0
	}
	s := b.slot(l, r)
	return b.bits[s>>6]>>(s&63)&1 != 0
}

// newCutter returns the scanner of a vocabulary without a regular expression. With lines, runs of line feeds are pieces;
// with apart, each space begins one.
func newCutter(b *bigrams, lines, apart bool) *scanner {
	for r := range rune(0x80) {
		if lines && r != '\n' {
			b.ascii['\n'][r>>6] &^= 1 << (r & 63)
			b.ascii[r][0] &^= 1 << '\n'
		}
		if apart {
			b.ascii[r][0] &^= 1 << ' '
		}
	}
	s := &scanner{crossed: b, find: (*scanner).cut}
	if lines || apart {
		s.find = (*scanner).cutMore
		s.lines, s.apart = lines, apart
	}
	return s
}

// cut ends a piece where no token crosses.
func (s *scanner) cut(text []byte, i int) int {
	b := s.crossed
	l, n := decode(text, i)
	for i += n; i < len(text); i += n {
		if c := text[i]; c < 0x80 && l < 0x80 {
			if b.ascii[l][c>>6]>>(c&63)&1 == 0 {
				return i
			}
			l, n = rune(c), 1
			continue
		}
		r, m := decode(text, i)
		if !b.has(l, r) {
			return i
		}
		l, n = r, m
	}
	return i
}

// cutMore is cut, and between a line feed and anything else or before a space.
func (s *scanner) cutMore(text []byte, i int) int {
	b := s.crossed
	l, n := decode(text, i)
	for i += n; i < len(text); i += n {
		r, m := decode(text, i)
		if !b.has(l, r) || s.lines && (l == '\n') != (r == '\n') || s.apart && r == ' ' {
			return i
		}
		l, n = r, m
	}
	return i
}

// cutSpaces ends a piece before each space only.
func (s *scanner) cutSpaces(text []byte, i int) int {
	if n := bytes.IndexByte(text[i+1:], ' '); n >= 0 {
		return i + 1 + n
	}
	return len(text)
}
