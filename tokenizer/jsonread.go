package tokenizer

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// jsonReader reads JSON in one pass without building values. A tokenizer.json is up to 35 MB of short strings, for
// which the standard decoder takes a second.
type jsonReader struct {
	data []byte
	i    int
	err  error
	key  []byte
}

const maxDepth = 64

func (r *jsonReader) fail(what string) {
	if r.err == nil {
		r.err = fault.New(fault.BadInput, "not JSON at byte %d: %s", r.i, what)
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (r *jsonReader) peek() byte {
	for r.i < len(r.data) {
		switch b := r.data[r.i]; b {
		case ' ', '\n', '\t', '\r':
			r.i++
		default:
			return b
		}
	}
	return 0
}

func (r *jsonReader) expect(b byte) bool {
	if r.err == nil && r.peek() != b {
		r.fail(strconv.QuoteRune(rune(b)) + " expected")
	}
	if r.err != nil {
		return false
	}
	r.i++
	return true
}

// object calls do with each key; do must read the value.
func (r *jsonReader) object(do func(key []byte)) {
	r.list('{', '}', func() {
		r.key = r.text(r.key[:0])
		key := bytes.Clone(r.key)
		if r.expect(':') {
			do(key)
		}
	})
}

// entries is object for values that are no objects: the key is only valid until the value is read.
func (r *jsonReader) entries(do func(key []byte)) {
	r.list('{', '}', func() {
		r.key = r.text(r.key[:0])
		if r.expect(':') {
			do(r.key)
		}
	})
}

// array calls do before each element; do must read it.
func (r *jsonReader) array(do func()) { r.list('[', ']', do) }

func (r *jsonReader) list(begin, end byte, do func()) {
	if !r.expect(begin) {
		return
	}
	if r.peek() == end {
		r.i++
		return
	}
	for r.err == nil {
		do()
		if r.err != nil {
			return
		}
		switch r.peek() {
		case ',':
			r.i++
		case end:
			r.i++
			return
		default:
			r.fail("a comma expected")
		}
	}
}

// text appends a string to dst.
func (r *jsonReader) text(dst []byte) []byte {
	if !r.expect('"') {
		return dst
	}
	start := r.i
	for ; r.i < len(r.data); r.i++ {
		switch b := r.data[r.i]; {
		case b == '"':
			dst = append(dst, r.data[start:r.i]...)
			r.i++
			return dst
		case b == '\\':
			dst = append(dst, r.data[start:r.i]...)
			dst = r.escape(dst)
			start = r.i
			r.i--
			if r.err != nil {
				return dst
			}
		case b < 0x20:
			r.fail("a control character in a string")
			return dst
		}
	}
	r.fail("the text ends in a string")
	return dst
}

func (r *jsonReader) escape(dst []byte) []byte {
	if r.i+1 >= len(r.data) {
		r.fail("the text ends in an escape")
		return dst
	}
	c := r.data[r.i+1]
	r.i += 2
	if n := bytes.IndexByte([]byte(`"\/bfnrt`), c); n >= 0 {
		return append(dst, "\"\\/\b\f\n\r\t"[n])
	}
	if c != 'u' {
		r.fail("an unknown escape")
		return dst
	}
	u := r.hex4()
	if utf16.IsSurrogate(u) {
		low := utf8.RuneError
		if r.i+1 < len(r.data) && r.data[r.i] == '\\' && r.data[r.i+1] == 'u' {
			r.i += 2
			low = r.hex4()
		}
		if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
			r.fail("half a surrogate pair")
		}
	}
	return utf8.AppendRune(dst, u)
}

func (r *jsonReader) hex4() rune {
	if r.i+4 > len(r.data) {
		r.fail("the text ends in an escape")
		return 0
	}
	n, err := strconv.ParseUint(string(r.data[r.i:r.i+4]), 16, 16)
	if err != nil {
		r.fail("four hexadecimal digits expected")
		return 0
	}
	r.i += 4
	return rune(n)
}

// number reads an integer that is not negative.
func (r *jsonReader) number() int64 {
	r.peek()
	start := r.i
	n := int64(0)
	for r.i < len(r.data) && r.data[r.i] >= '0' && r.data[r.i] <= '9' && n < 1<<40 {
		n = 10*n + int64(r.data[r.i]-'0')
		r.i++
	}
	if r.i == start {
		r.fail("a number expected")
	}
	return n
}

// skip reads any value and returns its bytes.
func (r *jsonReader) skip() []byte {
	r.peek()
	start := r.i
	for depth := 0; r.err == nil; {
		switch r.peek() {
		case 0:
			r.fail("the text ends in a value")
		case '"':
			r.skipText()
		case '{', '[':
			if depth++; depth > maxDepth {
				r.fail("too many levels")
			}
			r.i++
			continue
		case '}', ']':
			depth--
			r.i++
		case ',', ':':
			r.i++
			continue
		default:
			for r.i < len(r.data) && bytes.IndexByte([]byte(" \n\t\r,:]}\"[{"), r.data[r.i]) < 0 {
				r.i++
			}
		}
		if depth <= 0 {
			break
		}
	}
	return r.data[start:r.i]
}

func (r *jsonReader) skipText() {
	for r.i++; r.i < len(r.data); r.i++ {
		switch r.data[r.i] {
		case '"':
			r.i++
			return
		case '\\':
			r.i++
		}
	}
	r.fail("the text ends in a string")
}
