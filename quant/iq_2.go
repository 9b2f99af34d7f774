package quant

import (
	"encoding/binary"
	"math/bits"
)

// The types iq2_xxs, iq2_xs and iq2_s: per octet of values a grid point with the levels 8, 25 and 43
// and eight signs, per sub-block a 4-bit scale. Their formats differ in how many points there
// are and in whether the eighth sign is stored or follows from the other seven.

var iq2xxs = latticeFormat{
	grid: gridIQ2XXS, sub: 32, group: 8, trials: trialScales(5, 6, 0.1),
	sigma: 1, evenSigns: true, zero: tiny, fitFirst: true, refine: refineAll, factor: 1,
}

var iq2xs = latticeFormat{
	grid: gridIQ2XS, sub: 16, group: 8, trials: trialScales(5, 9, 0.1),
	sigma: 1, evenSigns: true, zero: tiny, refine: refineOff, factor: 1,
}

var iq2s = latticeFormat{
	grid: gridIQ2S, sub: 16, group: 8, trials: trialScales(5, 9, 0.1),
	sigma: 2, plainSigma: 0.25, zero: 1e-8, refine: refineOff, factor: 0.9875,
}

// encodeIQ2XXS writes blocks of 66 bytes: the scale d, then per 32 values four index bytes and a word of
// four times seven signs and the 4-bit scale on top.
func encodeIQ2XXS(dst []byte, src []float32, cols int, weights []float32) {
	var s latticeSearch
	for i := range len(src) / superBlock {
		s.block(&iq2xxs, src, i, cols, weights)
		block := dst[66*i:][:66]
		clear(block)
		if s.zero {
			continue
		}
		binary.LittleEndian.PutUint16(block, s.d)
		for g := range 8 {
			word := uint32(s.code[g]) << 28
			for l := range 4 {
				block[2+8*g+l] = uint8(s.index[4*g+l])
				word |= uint32(s.signs[4*g+l]&127) << (7 * l)
			}
			binary.LittleEndian.PutUint32(block[2+8*g+4:], word)
		}
	}
}

func decodeIQ2XXS(dst []float32, src []byte) {
	codes := gridIQ2XXS().codes
	for ; len(src) > 0; src, dst = src[66:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for g := range 8 {
			word := binary.LittleEndian.Uint32(src[2+8*g+4:])
			scale := float32(d*(0.5+float32(word>>28))) * 0.25
			for l := range 4 {
				point2(dst[32*g+8*l:], codes[src[2+8*g+l]], evenSigns(word>>(7*l)), scale)
			}
		}
	}
}

// encodeIQ2XS writes blocks of 74 bytes: d, per octet a word of nine index bits and seven signs, and two 4-bit
// scales per byte.
func encodeIQ2XS(dst []byte, src []float32, cols int, weights []float32) {
	var s latticeSearch
	for i := range len(src) / superBlock {
		s.block(&iq2xs, src, i, cols, weights)
		block := dst[74*i:][:74]
		clear(block)
		if s.zero {
			continue
		}
		binary.LittleEndian.PutUint16(block, s.d)
		for o := range 32 {
			binary.LittleEndian.PutUint16(block[2+2*o:], s.index[o]|uint16(s.signs[o]&127)<<9)
		}
		putNibbles(block[66:], s.code[:16])
	}
}

func decodeIQ2XS(dst []float32, src []byte) {
	codes := gridIQ2XS().codes
	for ; len(src) > 0; src, dst = src[74:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for o := range 32 {
			word := binary.LittleEndian.Uint16(src[2+2*o:])
			code := src[66+o/4] >> (o / 2 % 2 * 4) & 15
			scale := float32(d*(0.5+float32(code))) * 0.25
			point2(dst[8*o:], codes[word&511], evenSigns(uint32(word>>9)), scale)
		}
	}
}

// encodeIQ2S writes blocks of 82 bytes: d, the low index bytes per octet, the sign bytes, the upper two index
// bits four to a byte, and two 4-bit scales per byte.
func encodeIQ2S(dst []byte, src []float32, cols int, weights []float32) {
	var s latticeSearch
	for i := range len(src) / superBlock {
		s.block(&iq2s, src, i, cols, weights)
		block := dst[82*i:][:82]
		clear(block[66:])
		binary.LittleEndian.PutUint16(block, s.d)
		for o := range 32 {
			block[2+o] = uint8(s.index[o])
			block[34+o] = s.signs[o]
			block[66+o/4] |= uint8(s.index[o]>>8) << (o % 4 * 2)
		}
		putNibbles(block[74:], s.code[:16])
	}
}

func decodeIQ2S(dst []float32, src []byte) {
	codes := gridIQ2S().codes
	for ; len(src) > 0; src, dst = src[82:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for o := range 32 {
			index := int(src[2+o]) | int(src[66+o/4]>>(o%4*2)&3)<<8
			code := src[74+o/4] >> (o / 2 % 2 * 4) & 15
			scale := float32(d*(0.5+float32(code))) * 0.25
			point2(dst[8*o:], codes[index], src[34+o], scale)
		}
	}
}

// point2 decodes an octet with the levels of the iq2 types.
func point2(dst []float32, code uint16, signs uint8, scale float32) {
	// By sign and digit; there is no digit 3.
	values := [8]float32{scale * 8, scale * 25, scale * 43, 0, -(scale * 8), -(scale * 25), -(scale * 43), 0}
	for i := range dst[:8] {
		dst[i] = values[code&3|uint16(signs&1)<<2]
		code >>= 2
		signs >>= 1
	}
}

// evenSigns completes seven sign bits with the one that makes their number even. Higher bits are ignored.
func evenSigns(seven uint32) uint8 {
	signs := uint8(seven & 127)
	return signs | uint8(bits.OnesCount8(signs)&1)<<7
}

// putNibbles packs 4-bit codes, the first of two in the low half.
func putNibbles(dst []byte, codes []uint8) {
	for i := range len(codes) / 2 {
		dst[i] = codes[2*i] | codes[2*i+1]<<4
	}
}
