package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// DecodeOptions say how ids become text.
type DecodeOptions struct {
	Special bool // special tokens are shown as their texts instead of left out
	CleanUp bool // spaces before punctuation are dropped where llama.cpp's llama_detokenize does; this loses text
}

// Piece returns what one token stands for: the bytes of a normal token, its own text for a special one. It must not be
// changed.
func (t *Tokenizer) Piece(id int32) []byte { return t.pieces.at(id) }

// Decode appends the bytes that ids stand for. Ids that are not in the vocabulary stand for nothing. One character may
// come from several ids, so the result is only UTF-8 as a whole, if at all; in mode HuggingFace what is not becomes U+FFFD,
// as that library returns text.
//
// The space that encoding put in front is taken away if the first id shows it.
func (t *Tokenizer) Decode(dst []byte, ids []int32, opt DecodeOptions) []byte {
	start := len(dst)
	bytesFrom := -1 // where a run of byte tokens begins
	strip := t.strip
	for i, id := range ids {
		known := id >= 0 && int(id) < t.Size()
		if known && (opt.Special || t.attrs[id]&special == 0) {
			piece := t.pieces.at(id)
			if strip && len(piece) > 0 {
				piece = bytes.TrimPrefix(piece, []byte{' '})
				strip = false
			}
			if t.mode == HuggingFace && t.attrs[id]&Byte != 0 {
				if bytesFrom < 0 {
					bytesFrom = len(dst)
				}
			} else {
				dst = validRun(dst, bytesFrom)
				bytesFrom = -1
			}
			dst = append(dst, piece...)
		}
		switch t.mode {
		case LlamaCpp: // only the first id may lose its space, shown or not
			strip = false
		case Llama2C: // only the first one or the one behind BOS
			strip = i == 0 && id == t.def.ids.BOS
		}
	}
	if t.mode == HuggingFace {
		dst = toValid(validRun(dst, bytesFrom), start)
	}
	if opt.CleanUp && t.cleanUp {
		dst = dst[:start+len(cleanUp(dst[start:]))]
	}
	return dst
}

// validRun replaces each byte of the run of byte tokens dst[from:] by U+FFFD if the run is not UTF-8.
func validRun(dst []byte, from int) []byte {
	if from < 0 || utf8.Valid(dst[from:]) {
		return dst
	}
	n := len(dst) - from
	return append(dst[:from], bytes.Repeat([]byte("\uFFFD"), n)...)
}

// toValid replaces what is not UTF-8 in dst[start:], the longest beginning of a character by one U+FFFD.
func toValid(dst []byte, start int) []byte {
	if utf8.Valid(dst[start:]) {
		return dst
	}
	text := bytes.Clone(dst[start:])
	dst = dst[:start]
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r != utf8.RuneError || n == 3 {
			dst = append(dst, text[i:i+n]...)
		} else {
			dst = append(dst, "\uFFFD"...)
			n = begun(text[i:])
		}
		i += n
	}
	return dst
}

// begun returns how many bytes begin a character that is not completed, at least 1.
func begun(text []byte) int {
	lo, hi := byte(0x80), byte(0xBF)
	switch b := text[0]; {
	case b < 0xC2 || b > 0xF4:
		return 1
	case b == 0xE0:
		lo = 0xA0
	case b == 0xED:
		hi = 0x9F
	case b == 0xF0:
		lo = 0x90
	case b == 0xF4:
		hi = 0x8F
	}
	n := 1
	for n < charLen(text[0])-1 && n < len(text) && text[n] >= lo && text[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}

// cleanUp drops spaces in place as llama_detokenize does, in three passes: one before . ? ! and comma, those around a
// single apostrophe, and one before 's 'm 're 've.
func cleanUp(text []byte) []byte {
	out := text[:0]
	for i, b := range text {
		if n := len(out); i > 0 && (b == '.' || b == '?' || b == '!' || b == ',') && n > 0 && out[n-1] == ' ' {
			out = out[:n-1]
		}
		out = append(out, b)
	}
	text, out = out, out[:0]
	free := 0 // where the spaces begin that no apostrophe took yet
	for i := 0; i < len(text); i++ {
		out = append(out, text[i])
		if text[i] == '\'' && i > free && i+1 < len(text) && text[i-1] == ' ' && text[i+1] == ' ' {
			out = append(out[:len(out)-2], '\'')
			i++
			free = i + 1
		}
	}
	text, out = out, out[:0]
	for i, b := range text {
		if n := len(out); b == '\'' && n > 0 && i > 0 && text[i-1] == ' ' && i+1 < len(text) {
			rest := text[i+1:]
			if rest[0] == 's' || rest[0] == 'm' || bytes.HasPrefix(rest, []byte("re")) || bytes.HasPrefix(rest, []byte("ve")) {
				out = out[:n-1]
			}
		}
		out = append(out, b)
	}
	return out
}
