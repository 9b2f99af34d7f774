package kernels

import "encoding/binary"

// superBlock is a block of 256 weights taken apart. Weight i is d·scales[i/16]·codes[i] − dmin·mins[i/16].
type superBlock struct {
	d, dmin      float32
	codes        [256]int8
	scales, mins [16]int16
}

// dotSuper is the definition for weights that are multiplied with FormQ8_K: Σ over blocks of (d·dy)·A − (dmin·dy)·B with the
// integers A = Σ scale·code·y and B = Σ min·bsum. Types without minimums lack the second term.
func dotSuper(w Weights, row []byte, y []int8, dy []float32, bsums []int16) float32 {
	f := &formats[w]
	var sum float32
	var s superBlock
	for b := range dy {
		s.unpack(w, row[f.bytes*b:][:f.bytes])
		var a, m int32
		for j, scale := range s.scales {
			var dot int32
			for i := 16 * j; i < 16*j+16; i++ {
				dot += int32(s.codes[i]) * int32(y[256*b+i])
			}
			a += int32(scale) * dot
			m += int32(s.mins[j]) * int32(bsums[16*b+j])
		}
		term := float32(float32(a) * float32(s.d*dy[b]))
		switch w {
		case Q2K, Q4K, Q5K:
			term -= float32(float32(m) * float32(s.dmin*dy[b]))
		}
		sum += term
	}
	return sum
}

func (s *superBlock) unpack(w Weights, block []byte) {
	switch w {
	case Q2K:
		for j, v := range block[:16] {
			s.scales[j], s.mins[j] = int16(v&15), int16(v>>4)
		}
		s.unpackPairs(block[16:80], 0)
		s.d, s.dmin = scaleAt(block[80:]), scaleAt(block[82:])
	case Q3K:
		s.unpackPairs(block[32:96], -4)
		for i := range s.codes {
			s.codes[i] += int8(block[i%32] >> (i / 32) & 1 << 2)
		}
		packed := block[96:108]
		for j := range s.scales {
			low := packed[j%8] >> (j / 8 * 4) & 15
			s.scales[j] = int16(low|packed[8+j%4]>>(j/4*2)&3<<4) - 32
		}
		s.d = scaleAt(block[108:])
	case Q4K:
		s.d, s.dmin = scaleAt(block), scaleAt(block[2:])
		s.unpackSixBits(block[4:16])
		for i := range s.codes {
			s.codes[i] = int8(block[16+i/64*32+i%32] >> (i / 32 % 2 * 4) & 15)
		}
	case Q5K:
		s.d, s.dmin = scaleAt(block), scaleAt(block[2:])
		s.unpackSixBits(block[4:16])
		for i := range s.codes {
			s.codes[i] = int8(block[48+i/64*32+i%32]>>(i/32%2*4)&15 | block[16+i%32]>>(i/32)&1<<4)
		}
	case Q6K:
		for i := range s.codes {
			half, part, l := i/128, i/32%4, i%32
			low := block[64*half+l+32*(part&1)] >> (part / 2 * 4) & 15
			high := block[128+32*half+l] >> (2 * part) & 3
			s.codes[i] = int8(low|high<<4) - 32
		}
		for j, v := range block[192:208] {
			s.scales[j] = int16(int8(v))
		}
		s.d = scaleAt(block[208:])
	case IQ4XS:
		s.d = scaleAt(block)
		high := binary.LittleEndian.Uint16(block[2:])
		for j := range 8 {
			low := block[4+j/2] >> (j % 2 * 4) & 15
			scale := int16(low|byte(high>>(2*j)&3)<<4) - 32
			s.scales[2*j], s.scales[2*j+1] = scale, scale
			unpackIQ4((*[32]int8)(s.codes[32*j:]), block[8+16*j:])
		}
	case TQ1_0:
		for i := range 160 {
			s.codes[i] = ternaryDigit(block[i%32], i/32)
		}
		for i := range 80 {
			s.codes[160+i] = ternaryDigit(block[32+i%16], i/16)
		}
		for i := range 16 {
			s.codes[240+i] = ternaryDigit(block[48+i%4], i/4)
		}
		s.unitScales()
		s.d = scaleAt(block[52:])
	case TQ2_0:
		s.unpackPairs(block[:64], -1)
		s.unitScales()
		s.d = scaleAt(block[64:])
	}
}

// unpackPairs takes code i from two bits of byte i%32 of one of two halves.
func (s *superBlock) unpackPairs(qs []byte, offset int8) {
	for i := range s.codes {
		s.codes[i] = int8(qs[i/128*32+i%32]>>(i/32%4*2)&3) + offset
	}
}

// unpackSixBits takes eight scales and eight minimums of six bits, for 32 weights each, from 12 bytes.
func (s *superBlock) unpackSixBits(b []byte) {
	for j := range 8 {
		scale, least := b[j]&63, b[4+j]&63
		if j >= 4 {
			scale, least = b[j+4]&15|b[j-4]>>6<<4, b[j+4]>>4|b[j]>>6<<4
		}
		s.scales[2*j], s.scales[2*j+1] = int16(scale), int16(scale)
		s.mins[2*j], s.mins[2*j+1] = int16(least), int16(least)
	}
}

func (s *superBlock) unitScales() {
	for j := range s.scales {
		s.scales[j] = 1
	}
}

// ternaryDigit returns digit n of a byte of TQ1_0, which holds five as a fraction in base 3, as −1, 0 or 1.
func ternaryDigit(v byte, n int) int8 {
	for range n {
		v *= 3
	}
	return int8(uint16(v)*3>>8) - 1
}
