// Package quant turns rows of float32 weights into ggml's block types and back.
//
// Start with [Encode] and [Decode]; [Validate] is the check the reference engine makes of data it has
// read or quantized. Types are ggml's, named by [gguf.Type].
//
// # Exactness
//
// The bytes are those of the reference quantizer built for baseline x86-64: every product and every
// sum is one float32 operation rounded to nearest even, in the order written. Go may fuse x*y + z
// where the CPU can, so each product that feeds a sum stands in an explicit float32 conversion, and
// conversions from float to integer go through helpers that give the x86 result everywhere.
//
// Rows are independent: encoding them together, one by one or in parallel gives the same bytes.
// All functions are safe for concurrent use; none allocates.
//
// # Layout of the package
//
// One file per family of types, encoder and decoder side by side; search.go has the scale searches
// that several families share, round.go the number conversions.
package quant

import (
	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// superBlock is the number of values in a block of the K, IQ and TQ types.
const superBlock = 256

// codec holds the functions of one type. They are only called with whole rows (encode) or whole
// blocks (decode) and with lengths that fit.
type codec struct {
	// encode writes len(src)/cols rows. weights is nil or has cols values.
	encode func(dst []byte, src []float32, cols int, weights []float32)
	decode func(dst []float32, src []byte)
}

// codecs has an entry for every type whose values are real numbers. Integer types have none: their
// data are copied, not converted.
var codecs = [...]codec{
	gguf.F32:  {encodeF32, decodeF32},
	gguf.F16:  {encodeF16, decodeF16},
	gguf.BF16: {encodeBF16, decodeBF16},

	gguf.Q4_0: {encodeQ4_0, decodeQ4_0},
	gguf.Q4_1: {encodeQ4_1, decodeQ4_1},
	gguf.Q5_0: {encodeQ5_0, decodeQ5_0},
	gguf.Q5_1: {encodeQ5_1, decodeQ5_1},
	gguf.Q8_0: {encodeQ8_0, decodeQ8_0},

	gguf.Q1_0: {encodeQ1_0, decodeQ1_0},
	gguf.Q2_0: {encodeQ2_0, decodeQ2_0},

	gguf.Q2_K: {encodeQ2K, decodeQ2K},
	gguf.Q3_K: {encodeQ3K, decodeQ3K},
	gguf.Q4_K: {encodeQ4K, decodeQ4K},
	gguf.Q5_K: {encodeQ5K, decodeQ5K},
	gguf.Q6_K: {encodeQ6K, decodeQ6K},

	gguf.TQ1_0: {encodeTQ1_0, decodeTQ1_0},
	gguf.TQ2_0: {encodeTQ2_0, decodeTQ2_0},

	gguf.IQ4NL: {encodeIQ4NL, decodeIQ4NL},
	gguf.IQ4XS: {encodeIQ4XS, decodeIQ4XS},

	gguf.MXFP4: {encodeMXFP4, decodeMXFP4},
	gguf.NVFP4: {encodeNVFP4, decodeNVFP4},

	gguf.IQ2XXS: {encodeIQ2XXS, decodeIQ2XXS},
	gguf.IQ2XS:  {encodeIQ2XS, decodeIQ2XS},
	gguf.IQ2S:   {encodeIQ2S, decodeIQ2S},
	gguf.IQ3XXS: {encodeIQ3XXS, decodeIQ3XXS},
	gguf.IQ3S:   {encodeIQ3S, decodeIQ3S},
	gguf.IQ1S:   {encodeIQ1S, decodeIQ1S},
	gguf.IQ1M:   {encodeIQ1M, decodeIQ1M},
}

func codecOf(t gguf.Type) codec {
	if int64(t) < int64(len(codecs)) {
		return codecs[t]
	}
	return codec{}
}

// CanEncode reports whether Encode knows the type.
func CanEncode(t gguf.Type) bool { return codecOf(t).encode != nil }

// CanDecode reports whether Decode knows the type.
func CanDecode(t gguf.Type) bool { return codecOf(t).decode != nil }

// RequiresWeights reports whether the type cannot be encoded without importance weights.
func RequiresWeights(t gguf.Type) bool {
	return t == gguf.IQ2XXS || t == gguf.IQ2XS || t == gguf.IQ1S
}

// Encode quantizes whole rows of cols values: src holds rows × cols values and dst has exactly
// rows × t.RowSize(cols) bytes. weights is nil or holds one importance value per column, used for
// every row; types that don't use importance ignore it.
//
// Errors (kind BadInput) are about types and lengths only, and nothing is written then. Any values are
// encoded, including infinities and NaN; [Validate] tells whether the result is fit for use. Where values
// are NaN, signs of scales and codes in that block may depend on the CPU.
func Encode(t gguf.Type, dst []byte, src []float32, cols int, weights []float32) error {
	c := codecOf(t)
	if c.encode == nil {
		return fault.New(fault.BadInput, "%v: this type cannot be encoded", t)
	}
	elems, _ := t.Block()
	rowSize, ok := t.RowSize(int64(cols))
	if !ok || cols == 0 {
		return fault.New(fault.BadInput, "%v: rows of %d values cannot be encoded, the block size is %d", t, cols, elems)
	}
	if len(src)%cols != 0 {
		return fault.New(fault.BadInput, "%v: %d values are not whole rows of %d", t, len(src), cols)
	}
	if size := int64(len(src)/cols) * rowSize; int64(len(dst)) != size {
		return fault.New(fault.BadInput, "%v: encoding %d rows of %d values takes %d bytes, not %d", t, len(src)/cols, cols, size, len(dst))
	}
	if weights == nil && RequiresWeights(t) {
		return fault.New(fault.BadInput, "%v: this type cannot be encoded without importance weights", t)
	}
	if weights != nil && len(weights) != cols {
		return fault.New(fault.BadInput, "%v: %d importance weights for rows of %d values", t, len(weights), cols)
	}
	c.encode(dst, src, cols, weights)
	return nil
}

// Decode writes the values of whole blocks: src holds n blocks and dst has room for exactly their values.
// Errors (kind BadInput) are about types and lengths only; any bytes decode to something.
func Decode(t gguf.Type, dst []float32, src []byte) error {
	c := codecOf(t)
	if c.decode == nil {
		return fault.New(fault.BadInput, "%v: this type cannot be decoded", t)
	}
	elems, bytes := t.Block()
	if int64(len(src))%bytes != 0 {
		return fault.New(fault.BadInput, "%v: %d bytes are not whole blocks of %d", t, len(src), bytes)
	}
	if values := int64(len(src)) / bytes * elems; int64(len(dst)) != values {
		return fault.New(fault.BadInput, "%v: %d bytes decode to %d values, not %d", t, len(src), values, len(dst))
	}
	c.decode(dst, src)
	return nil
}

// blockWeights returns the importance weights of the next n columns and moves *column on, back to 0 at the
// end of the row. Without weights it returns nil.
func blockWeights(weights []float32, column *int, cols, n int) []float32 {
	if weights == nil {
		return nil
	}
	w := weights[*column : *column+n]
	if *column += n; *column == cols {
		*column = 0
	}
	return w
}
