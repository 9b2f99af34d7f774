package quant

import "math"

// An argument that is a product could be fused with a sum inside a function that is inlined. Functions that add
// to their arguments therefore convert them first: float32(v) is never a no-op here.

// ri rounds to the nearest integer, ties to even, for |v| ≤ 4194303. Outside that range (and for
// infinities and NaN) the result is whatever the bits of v + 1.5·2²³ say, which the encoders rely on
// too: it is part of the format's definition.
func ri(v float32) int32 {
	t := float32(v) + 12582912
	return int32(math.Float32bits(t)&0x7FFFFF) - 0x400000
}

// truncInt converts to int32 toward zero with the result x86 gives: −2³¹ for everything that doesn't fit
// and for NaN. Go leaves these cases to the CPU, and arm64 saturates.
func truncInt(v float32) int32 {
	if v >= -0x1p31 && v < 0x1p31 {
		return int32(v)
	}
	return math.MinInt32
}

// roundAway rounds to the nearest integer, halves away from zero, and converts as truncInt does.
func roundAway(v float32) int32 {
	v = float32(v)
	t := truncInt(v)
	// The remainder is exact; from 2²³ on there is none.
	switch r := v - float32(t); {
	case t == math.MinInt32:
		return t
	case r >= 0.5:
		return t + 1
	case r <= -0.5:
		return t - 1
	}
	return t
}

// abs32 clears the sign bit.
func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// sqrt32 is the correctly rounded float32 root: rounding the float64 root once more is harmless,
// since its 53 bits are more than twice 24 plus two.
func sqrt32(v float32) float32 { return float32(math.Sqrt(float64(v))) }

// f16 rounds to the nearest IEEE half, ties to even. Values from 65520 on become infinite, every NaN
// becomes sign | 0x7E00.
func f16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7FFFFFFF
	switch {
	case b > 0x7F800000:
		return sign | 0x7E00
	case b >= 0x477FF000: // 65520, half way between the largest half and the next power of two
		return sign | 0x7C00
	case b >= 0x38800000: // 2⁻¹⁴, the smallest normal half
		return sign | uint16((b+0xFFF+(b>>13&1))>>13-112<<10)
	}
	// The unit in the last place of 0.5 is 2⁻²⁴, that of the subnormal halves: the sum does the rounding.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3F000000)
}

// f32 converts an IEEE half, exactly; signalling NaN become quiet.
func f32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	em := uint32(h & 0x7FFF)
	switch {
	case em-0x400 < 0x7800: // normal
		return math.Float32frombits(sign | (em<<13 + 112<<23))
	case em == 0x7C00:
		return math.Float32frombits(sign | 0x7F800000)
	case em > 0x7C00:
		return math.Float32frombits(sign | em<<13 | 0x7FC00000)
	}
	return math.Float32frombits(sign | math.Float32bits(float32(em)*0x1p-24))
}

// bf16 rounds to the nearest bfloat16, ties to even; NaN become quiet and keep their upper payload.
func bf16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7FFFFFFF > 0x7F800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7FFF + (b >> 16 & 1)) >> 16)
}
