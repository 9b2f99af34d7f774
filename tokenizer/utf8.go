package tokenizer

import (
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// appendLenient appends text as llama.cpp reads it, as UTF-8. A byte that can't begin or continue a character becomes
// U+FFFD alone; over-long forms are shortened; surrogates stay as they are. base is the offset of text in the whole, for
// the error: a code point above U+10FFFF, on which llama_tokenize throws.
func appendLenient(dst, text []byte, base int64) ([]byte, error) {
	for i := 0; i < len(text); {
		b := text[i]
		if b < utf8.RuneSelf {
			dst = append(dst, b)
			i++
			continue
		}
		if r, n := utf8.DecodeRune(text[i:]); r != utf8.RuneError || n == 3 {
			dst = append(dst, text[i:i+n]...)
			i += n
			continue
		}
		n, r := charLen(b), uint32(b)
		if b < 0xC0 || b >= 0xF8 || !continued(text[i:], n) {
			dst = append(dst, "\uFFFD"...)
			i++
			continue
		}
		r &= 0x7F >> n
		for _, c := range text[i+1 : i+n] {
			r = r<<6 | uint32(c&0x3F)
		}
		if r > utf8.MaxRune {
			return dst, fault.New(fault.BadInput, "byte %d begins U+%X, a code point above U+10FFFF, on which llama.cpp gives up", base+int64(i), r)
		}
		if r >= 0xD800 && r < 0xE000 {
			dst = append(dst, 0xED, byte(r>>6&0x3F)|0x80, byte(r&0x3F)|0x80)
		} else {
			dst = utf8.AppendRune(dst, rune(r))
		}
		i += n
	}
	return dst, nil
}

// continued reports whether n-1 continuation bytes follow the first byte.
func continued(text []byte, n int) bool {
	if len(text) < n {
		return false
	}
	for _, c := range text[1:n] {
		if c&0xC0 != 0x80 {
			return false
		}
	}
	return true
}

// invalidAt returns the offset of the first byte that is not UTF-8, or -1.
func invalidAt(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n < 2 {
			return i
		}
		i += n
	}
}

// partial returns how many bytes at the end of text could be the beginning of a character.
func partial(text []byte) int {
	for n := 1; n <= 3 && n <= len(text); n++ {
		b := text[len(text)-n]
		if b >= 0xC0 {
			if charLen(b) > n {
				return n
			}
			return 0
		}
		if b < 0x80 {
			return 0
		}
	}
	return 0
}

// decode returns the code point at text[i:], which is UTF-8 with surrogates, and its length.
func decode(text []byte, i int) (rune, int) {
	b := text[i]
	switch {
	case b < 0x80:
		return rune(b), 1
	case b < 0xE0 && i+1 < len(text):
		return rune(b&0x1F)<<6 | rune(text[i+1]&0x3F), 2
	case b < 0xF0 && i+2 < len(text):
		return rune(b&0x0F)<<12 | rune(text[i+1]&0x3F)<<6 | rune(text[i+2]&0x3F), 3
	case i+3 < len(text):
		return (rune(b&0x07)<<18 | rune(text[i+1]&0x3F)<<12 | rune(text[i+2]&0x3F)<<6 | rune(text[i+3]&0x3F)) & 0x1FFFFF, 4
	}
	return utf8.RuneError, 1
}
