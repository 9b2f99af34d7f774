package kernels

import "encoding/binary"

// dotBlocks is the definition for weights that are multiplied with FormQ8_0: Σ over runs of 32 of (dx·dy)·S, where S is the
// sum of the products of the codes.
func dotBlocks(w Weights, row []byte, y []int8, dy []float32) float32 {
	f := &formats[w]
	var sum float32
	var codes [32]int8
	for b := range dy {
		block := row[32*b/f.values*f.bytes:][:f.bytes]
		unpackRun(w, &codes, block, 32*b%f.values)
		sum += float32(float32(dotCodes(&codes, y[32*b:])) * float32(scaleAt(block)*dy[b]))
	}
	return sum
}

// dotBlocksMin is the definition for weights that are multiplied with FormQ8_1: Σ over blocks of (dx·dy)·S + m·s, where m is the
// minimum of the block and s the sum of the activations.
func dotBlocksMin(w Weights, row []byte, y []int8, dy, s []float32) float32 {
	f := &formats[w]
	var sum float32
	var codes [32]int8
	for b := range dy {
		block := row[f.bytes*b:][:f.bytes]
		unpackRun(w, &codes, block, 0)
		sum += float32(float32(dotCodes(&codes, y[32*b:]))*float32(scaleAt(block)*dy[b])) + float32(scaleAt(block[2:])*s[b])
	}
	return sum
}

func dotCodes(codes *[32]int8, y []int8) int32 {
	var s int32
	for i, c := range y[:32] {
		s += int32(codes[i]) * int32(c)
	}
	return s
}

func scaleAt(b []byte) float32 { return fromHalf(binary.LittleEndian.Uint16(b)) }

// unpackRun writes the codes of the 32 weights from at on in a block: what is multiplied by the scale.
func unpackRun(w Weights, codes *[32]int8, block []byte, at int) {
	switch w {
	case Q4_0:
		unpackNibbles(codes, block[2:], 0, -8)
	case Q4_1:
		unpackNibbles(codes, block[4:], 0, 0)
	case Q5_0:
		unpackNibbles(codes, block[6:], binary.LittleEndian.Uint32(block[2:]), -16)
	case Q5_1:
		unpackNibbles(codes, block[8:], binary.LittleEndian.Uint32(block[4:]), 0)
	case Q8_0:
		for i, c := range block[2:34] {
			codes[i] = int8(c)
		}
	case IQ4NL:
		unpackIQ4(codes, block[2:])
	case Q1_0:
		for i := range codes {
			codes[i] = int8(block[2+(at+i)/8]>>(i%8)&1)*2 - 1
		}
	case Q2_0:
		for i := range codes {
			codes[i] = int8(block[2+(at+i)/4]>>(i%4*2)&3) - 1
		}
	}
}

// unpackNibbles takes the low four bits of code i from the low half of byte i or the high one of byte i-16, and the fifth
// from fifths.
func unpackNibbles(codes *[32]int8, qs []byte, fifths uint32, offset int8) {
	for i, q := range qs[:16] {
		codes[i] = int8(q&15) + int8(fifths>>i&1<<4) + offset
		codes[i+16] = int8(q>>4) + int8(fifths>>(i+16)&1<<4) + offset
	}
}

// iq4Values are the values of the codes of IQ4NL and IQ4XS.
var iq4Values = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func unpackIQ4(codes *[32]int8, qs []byte) {
	for i, q := range qs[:16] {
		codes[i] = iq4Values[q&15]
		codes[i+16] = iq4Values[q>>4]
	}
}
