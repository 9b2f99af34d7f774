package tokenizer

import "unicode/utf8"

// The byte alphabet writes each byte as one printable character. Printable bytes of Latin-1 stand for themselves, the
// other 68 are U+0100 and on, in rising order.
var (
	alphabet      [256][]byte
	alphabetBytes [0x144]int16 // the byte of each character, -1 where it is none
)

func init() {
	for r := range alphabetBytes {
		alphabetBytes[r] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if b <= 0x20 || b >= 0x7F && b <= 0xA0 || b == 0xAD {
			r = next
			next++
		}
		alphabet[b] = utf8.AppendRune(nil, r)
		alphabetBytes[r] = int16(b)
	}
}

// fromAlphabet appends the bytes that text stands for. It reports whether all characters are of the alphabet.
func fromAlphabet(dst, text []byte) ([]byte, bool) {
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		if int(r) >= len(alphabetBytes) || alphabetBytes[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(alphabetBytes[r]))
		i += n
	}
	return dst, true
}
