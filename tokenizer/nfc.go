package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// normalForm composes text to NFC with the data of Unicode 9.0, as tokenizers 0.23.3 does: characters that are newer stay
// as they are.
type normalForm struct {
	class      map[rune]uint8   // canonical combining classes that are not 0
	parts      map[rune][2]rune // canonical decompositions; the second may be 0
	whole      map[[2]rune]rune // primary composites
	careful    []uint64         // bits of the characters that can't simply stay: marks, and what composes or decomposes
	carefulEnd rune
}

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7
	hangulLs, hangulVs, hangulTs       = 19, 21, 28
	hangulSs                           = hangulLs * hangulVs * hangulTs
)

var nfc = sync.OnceValue(func() *normalForm {
	f := &normalForm{class: map[rune]uint8{}, parts: map[rune][2]rune{}, whole: map[[2]rune]rune{}}
	careful := map[rune]bool{}
	for _, v := range combiningClasses {
		f.class[rune(v>>8)] = uint8(v)
		careful[rune(v>>8)] = true
	}
	composed := map[rune]bool{}
	for i := 0; i < len(compositions); i += 3 {
		first, second, c := rune(compositions[i]), rune(compositions[i+1]), rune(compositions[i+2])
		f.whole[[2]rune{first, second}] = c
		careful[second] = true
		composed[c] = true
	}
	for i := 0; i < len(decompositions); i += 3 {
		c := rune(decompositions[i])
		f.parts[c] = [2]rune{rune(decompositions[i+1]), rune(decompositions[i+2])}
		if !composed[c] {
			careful[c] = true
		}
	}
	for r := rune(hangulV); r < hangulV+hangulVs; r++ {
		careful[r] = true
	}
	for r := rune(hangulT + 1); r < hangulT+hangulTs; r++ {
		careful[r] = true
	}
	for r := range careful {
		f.carefulEnd = max(f.carefulEnd, r+1)
	}
	f.careful = make([]uint64, f.carefulEnd>>6+1)
	for r := range careful {
		f.careful[r>>6] |= 1 << (r & 63)
	}
	return f
})

// simple reports whether r stays as it is, whatever is before it.
func (f *normalForm) simple(r rune) bool {
	return r >= f.carefulEnd || f.careful[r>>6]>>(r&63)&1 == 0
}

// find returns the first place from i on where a character is not simple, or len(text).
func (f *normalForm) find(text []byte, i int) int {
	for i < len(text) {
		if text[i] < 0xCC { // up to U+02FF all are simple
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if !f.simple(r) {
			return i
		}
		i += n
	}
	return i
}

// is reports whether text is NFC for certain.
func (f *normalForm) is(text []byte) bool { return f.find(text, 0) == len(text) }

// append appends the NFC of text, which is valid UTF-8.
func (f *normalForm) append(dst, text []byte) []byte {
	var run []rune
	for i := 0; i < len(text); {
		k := f.find(text, i)
		if k == len(text) {
			return append(dst, text[i:]...)
		}
		if k > i { // the character before may change with what follows
			_, n := utf8.DecodeLastRune(text[i:k])
			k -= n
		}
		dst = append(dst, text[i:k]...)
		run = run[:0]
		for i = k; i < len(text); {
			r, n := utf8.DecodeRune(text[i:])
			if i > k && f.simple(r) {
				break
			}
			run = f.decompose(run, r)
			i += n
		}
		f.sort(run)
		for _, r := range f.compose(run) {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// boundary returns the last place in text before which nothing changes whatever follows: before its last simple character.
func (f *normalForm) boundary(text []byte) int {
	end := len(text)
	for end > 0 {
		r, n := utf8.DecodeLastRune(text[:end])
		end -= n
		if f.simple(r) {
			return end
		}
	}
	return 0
}

func (f *normalForm) decompose(dst []rune, r rune) []rune {
	if s := r - hangulS; s >= 0 && s < hangulSs {
		dst = append(dst, hangulL+s/(hangulVs*hangulTs), hangulV+s%(hangulVs*hangulTs)/hangulTs)
		if t := s % hangulTs; t > 0 {
			dst = append(dst, hangulT+t)
		}
		return dst
	}
	p, ok := f.parts[r]
	if !ok {
		return append(dst, r)
	}
	dst = f.decompose(dst, p[0])
	if p[1] != 0 {
		dst = append(dst, p[1])
	}
	return dst
}

// sort puts the marks behind each starter into canonical order.
func (f *normalForm) sort(run []rune) {
	for i := 0; i < len(run); {
		if f.class[run[i]] == 0 {
			i++
			continue
		}
		end := i
		for end < len(run) && f.class[run[end]] != 0 {
			end++
		}
		slices.SortStableFunc(run[i:end], func(a, b rune) int { return int(f.class[a]) - int(f.class[b]) })
		i = end
	}
}

// compose joins each starter with the marks that are not blocked from it.
func (f *normalForm) compose(run []rune) []rune {
	out := run[:0]
	starter, last := -1, uint8(0) // last is the class of the character before, 0 right behind the starter
	for _, r := range run {
		c := f.class[r]
		if starter >= 0 && (last < c || len(out)-1 == starter) {
			if whole, ok := f.pair(out[starter], r); ok {
				out[starter] = whole
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}

func (f *normalForm) pair(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLs && v >= 0 && v < hangulVs {
		return hangulS + (l*hangulVs+v)*hangulTs, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < hangulSs && s%hangulTs == 0 && t > 0 && t < hangulTs {
		return a + t, true
	}
	whole, ok := f.whole[[2]rune{a, b}]
	return whole, ok
}
