package kernels

import "math"

// toHalf rounds to the nearest IEEE half, ties to even. Values from 65520 on become infinite, NaN becomes 0x7E00 with its sign.
func toHalf(v float32) uint16 {
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
	// One unit in the last place of 0.5 is one of the subnormal halves, so this sum rounds to them.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3F000000)
}

// fromHalf converts an IEEE half, exactly.
func fromHalf(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7FFF)
	if rest >= 0x7C00 {
		return math.Float32frombits(sign | 0x7F800000 | rest<<13)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest<<13)*0x1p112))
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7FFFFFFF > 0x7F800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7FFF + (b >> 16 & 1)) >> 16)
}

// fromBF16 converts a bfloat16, exactly.
func fromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
