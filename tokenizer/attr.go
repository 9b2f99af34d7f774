package tokenizer

// Attr is a set of attributes of a token. Most tokens have one; a token of an end text may be UserDefined and
// Control at once.
type Attr uint8

// The attributes. Their meaning for encoding and decoding:
//
//	Normal       made by merges                        decoded through the byte alphabet, or with ▁ as space
//	Unknown      cut out of text if specials are parsed  shown only with specials
//	Control      the same                                shown only with specials
//	UserDefined  always cut out of text                 its own text
//	Unused       never                                  nothing
//	Byte         for bytes that no token covers          one byte
const (
	Normal Attr = 1 << iota
	Unknown
	Control
	UserDefined
	Unused
	Byte

	rstrip // swallows white space to its right
	lstrip // swallows white space to its left
)

const special = Unknown | Control

// tokenTypes are the values of tokenizer.ggml.token_type. Others count as undefined.
var tokenTypes = [...]Attr{1: Normal, 2: Unknown, 3: Control, 4: UserDefined, 5: Unused, 6: Byte}
