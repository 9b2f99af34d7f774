package quant

import (
	"encoding/binary"
	"math"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// halves lists, per block type, where its f16 numbers stand and what they are called. A scale that is
// infinite or not a number spoils the block.
var halves = [...][]struct {
	name   string
	offset int
}{
	gguf.Q4_0:   {{"d", 0}},
	gguf.Q4_1:   {{"d", 0}, {"m", 2}},
	gguf.Q5_0:   {{"d", 0}},
	gguf.Q5_1:   {{"d", 0}, {"m", 2}},
	gguf.Q8_0:   {{"d", 0}},
	gguf.Q1_0:   {{"d", 0}},
	gguf.Q2_0:   {{"d", 0}},
	gguf.Q2_K:   {{"d", 80}, {"dmin", 82}},
	gguf.Q3_K:   {{"d", 108}},
	gguf.Q4_K:   {{"d", 0}, {"dmin", 2}},
	gguf.Q5_K:   {{"d", 0}, {"dmin", 2}},
	gguf.Q6_K:   {{"d", 208}},
	gguf.TQ1_0:  {{"d", 52}},
	gguf.TQ2_0:  {{"d", 64}},
	gguf.IQ4NL:  {{"d", 0}},
	gguf.IQ4XS:  {{"d", 0}},
	gguf.IQ2XXS: {{"d", 0}},
	gguf.IQ2XS:  {{"d", 0}},
	gguf.IQ2S:   {{"d", 0}},
	gguf.IQ3XXS: {{"d", 0}},
	gguf.IQ3S:   {{"d", 0}},
	gguf.IQ1S:   {{"d", 0}},
}

// Validate makes the check the reference makes of data it has read and of data it has quantized: no scale of a
// block, and no number of a plain float type, may be infinite or NaN (or, in f64, too large for float32), and no
// exponent byte of an mxfp4 block may be 255. Any nvfp4 and integer data are fine.
//
// The error (kind BadInput) names the first bad block (for plain types, the first bad value) and what is wrong
// with it. Lengths that are not whole blocks and types of unknown layout are errors, too.
func Validate(t gguf.Type, data []byte) error {
	_, size := t.Block()
	if size == 0 || t == gguf.Q8_1 { // q8_1 has no place in a file
		return fault.New(fault.BadInput, "%v: data of this type cannot be checked", t)
	}
	if int64(len(data))%size != 0 {
		return fault.New(fault.BadInput, "%v: %d bytes are not whole blocks of %d", t, len(data), size)
	}
	clean := exponents[t].clean(data)
	step := int(size)
	switch t {
	case gguf.F32:
		for i := clean; i < len(data); i += 4 {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:])); !finite(float64(v)) {
				return fault.New(fault.BadInput, "%v: value %d is %v", t, i/4, v)
			}
		}
	case gguf.F64:
		for i := 0; i < len(data); i += 8 {
			if v := math.Float64frombits(binary.LittleEndian.Uint64(data[i:])); !finite(float64(float32(v))) {
				return fault.New(fault.BadInput, "%v: value %d is %v", t, i/8, v)
			}
		}
	case gguf.F16:
		for i := clean; i < len(data); i += 2 {
			if h := binary.LittleEndian.Uint16(data[i:]); badHalf(h) {
				return fault.New(fault.BadInput, "%v: value %d is %v", t, i/2, f32(h))
			}
		}
	case gguf.BF16:
		for i := clean; i < len(data); i += 2 {
			if b := binary.LittleEndian.Uint16(data[i:]); b&0x7F80 == 0x7F80 {
				return fault.New(fault.BadInput, "%v: value %d is %v", t, i/2, math.Float32frombits(uint32(b)<<16))
			}
		}
	case gguf.Q8_K:
		for i := 0; i < len(data); i += step {
			if d := math.Float32frombits(binary.LittleEndian.Uint32(data[i:])); !finite(float64(d)) {
				return fault.New(fault.BadInput, "%v: block %d: d is %v", t, i/step, d)
			}
		}
	case gguf.MXFP4:
		for i := 0; i < len(data); i += step {
			if data[i] == 0xFF {
				return fault.New(fault.BadInput, "%v: block %d: the exponent e is 255", t, i/step)
			}
		}
	case gguf.IQ1M:
		for i := 0; i < len(data); i += step {
			// d is spread over the upper four bits of the four scale words at 48.
			d := uint16(data[i+49]>>4) | uint16(data[i+51]&0xF0) | uint16(data[i+53]&0xF0)<<4 | uint16(data[i+55]&0xF0)<<8
			if badHalf(d) {
				return fault.New(fault.BadInput, "%v: block %d: d is %v", t, i/step, f32(d))
			}
		}
	default:
		if int64(t) >= int64(len(halves)) || halves[t] == nil {
			break
		}
		for i := 0; i < len(data); i += step {
			for _, h := range halves[t] {
				if v := binary.LittleEndian.Uint16(data[i+h.offset:]); badHalf(v) {
					return fault.New(fault.BadInput, "%v: block %d: %s is %v", t, i/step, h.name, f32(v))
				}
			}
		}
	}
	return nil
}

// exponent finds numbers whose exponent bits are all ones, infinities and NaN, in words of eight bytes: adding the lowest
// exponent bit to the exponent alone carries into the sign bit just for them, and never beyond it.
type exponent struct{ mask, lowest uint64 }

var exponents = map[gguf.Type]exponent{
	gguf.F16:  {0x7C007C007C007C00, 0x0400040004000400},
	gguf.BF16: {0x7F807F807F807F80, 0x0080008000800080},
	gguf.F32:  {0x7F8000007F800000, 0x0080000000800000},
}

// clean returns the length of a prefix of data, a multiple of 32, without such numbers: all there is but for up to 31 bytes, or
// what comes before the first such number. The zero exponent knows of none.
func (e exponent) clean(data []byte) int {
	signs := e.mask + e.lowest // the sign bit of every number
	n := 0
	for ; signs != 0 && len(data)-n >= 32; n += 32 {
		w := data[n : n+32 : n+32]
		a := binary.LittleEndian.Uint64(w)&e.mask + e.lowest
		b := binary.LittleEndian.Uint64(w[8:])&e.mask + e.lowest
		c := binary.LittleEndian.Uint64(w[16:])&e.mask + e.lowest
		d := binary.LittleEndian.Uint64(w[24:])&e.mask + e.lowest
		if (a|b|c|d)&signs != 0 {
			break
		}
	}
	return n
}

// badHalf reports whether an IEEE half is infinite or NaN.
func badHalf(h uint16) bool { return h&0x7C00 == 0x7C00 }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
