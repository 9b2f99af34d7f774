package quant

import "encoding/binary"

// The types iq3_xxs and iq3_s: per four values a grid point with eight levels, per octet its signs,
// per 32 values a 4-bit scale.

var iq3xxs = latticeFormat{
	grid: gridIQ3XXS, sub: 32, group: 4, trials: trialScales(15, 15, 0.2),
	sigma: 2, evenSigns: true, zero: 1e-8, refine: refineOff, factor: 1.0125,
}

var iq3s = latticeFormat{
	grid: gridIQ3S, sub: 32, group: 4, trials: trialScales(15, 9, 0.2),
	sigma: 2, refine: refineAllIfOff, factor: 1.033,
}

// encodeIQ3XXS writes blocks of 98 bytes: the scale d, an index byte per four values, and per 32 values a word of
// four times seven signs and the 4-bit scale on top.
func encodeIQ3XXS(dst []byte, src []float32, cols int, weights []float32) {
	var s latticeSearch
	for i := range len(src) / superBlock {
		s.block(&iq3xxs, src, i, cols, weights)
		block := dst[98*i:][:98]
		clear(block)
		if s.zero {
			continue
		}
		binary.LittleEndian.PutUint16(block, s.d)
		for q := range 64 {
			block[2+q] = uint8(s.index[q])
		}
		for g := range 8 {
			word := uint32(s.code[g]) << 28
			for l := range 4 {
				word |= uint32(s.signs[4*g+l]&127) << (7 * l)
			}
			binary.LittleEndian.PutUint32(block[66+4*g:], word)
		}
	}
}

func decodeIQ3XXS(dst []float32, src []byte) {
	codes := gridIQ3XXS().codes
	levels := [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	for ; len(src) > 0; src, dst = src[98:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for g := range 8 {
			word := binary.LittleEndian.Uint32(src[66+4*g:])
			values := values3(float32(d*(0.5+float32(word>>28)))*0.5, &levels)
			for l := range 4 {
				signs := evenSigns(word >> (7 * l))
				index := src[2+8*g+2*l:]
				point3(dst[32*g+8*l:], codes[index[0]], signs, &values)
				point3(dst[32*g+8*l+4:], codes[index[1]], signs>>4, &values)
			}
		}
	}
}

// encodeIQ3S writes blocks of 110 bytes: d, the low index byte per four values, the ninth index bits, the sign
// bytes, and two 4-bit scales per byte.
//
// The reference doesn't advance its indices and signs past a sub-block of zeros, only ninth bits and scales:
// the sub-blocks after it are stored one place early, and so they are here.
func encodeIQ3S(dst []byte, src []float32, cols int, weights []float32) {
	var s latticeSearch
	for i := range len(src) / superBlock {
		s.block(&iq3s, src, i, cols, weights)
		block := dst[110*i:][:110]
		clear(block)
		binary.LittleEndian.PutUint16(block, s.d)
		place := 0
		for g := range 8 {
			if s.empty[g] {
				continue
			}
			for k, index := range s.index[8*g:][:8] {
				block[2+8*place+k] = uint8(index)
				block[66+g] |= uint8(index>>8) << k
			}
			copy(block[74+4*place:], s.signs[4*g:][:4])
			place++
		}
		putNibbles(block[106:], s.code[:8])
	}
}

func decodeIQ3S(dst []float32, src []byte) {
	codes := gridIQ3S().codes
	levels := [8]float32{1, 3, 5, 7, 9, 11, 13, 15}
	for ; len(src) > 0; src, dst = src[110:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for g := range 8 {
			code := src[106+g/2] >> (g & 1 * 4) & 15
			values := values3(d*float32(1+2*int(code)), &levels)
			for k := range 8 {
				index := int(src[2+8*g+k]) | int(src[66+g]>>k&1)<<8
				point3(dst[32*g+4*k:], codes[index], src[74+4*g+k/2]>>(k&1*4), &values)
			}
		}
	}
}

// values3 multiplies the levels by a scale: the digit's value, and from 8 on its negative.
func values3(scale float32, levels *[8]float32) (values [16]float32) {
	for digit, level := range levels {
		v := scale * level
		values[digit], values[digit+8] = v, -v
	}
	return values
}

// point3 decodes four values.
func point3(dst []float32, code uint16, signs uint8, values *[16]float32) {
	for i := range dst[:4] {
		dst[i] = values[code&7|uint16(signs&1)<<3]
		code >>= 3
		signs >>= 1
	}
}
