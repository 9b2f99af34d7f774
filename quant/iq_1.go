package quant

import (
	"encoding/binary"
	"math"

	"gguf-forge/kernels"
)

// The types iq1_s and iq1_m: per octet a grid point with the levels −1, 0 and 1, all three shifted
// by 1/8 up or down, and per sub-block a 3-bit scale.
//
// Rounding in the order of the values makes three runs of them: the search tries all places for
// the two cuts between the runs, with prefix sums giving the sums over each.

const (
	iq1sZero = 1e-12 // sub-blocks whose largest magnitude is below count as zero
	iq1mZero = 1e-7

	shiftedUp   = 0
	shiftedDown = 1
)

// iq1Levels are the values of the digits, shifted up and down.
var iq1Levels = [2][3]float32{{-0.875, 0.125, 1.125}, {-1.125, -0.125, 0.875}}

// iq1Sub is a sub-block: 32 values of iq1_s or 16 of iq1_m.
type iq1Sub struct {
	scale float32
	shift [4]uint8  // per octet, shiftedUp or shiftedDown
	index [4]uint16 // per octet
}

// sortOrder returns the positions of x in ascending order of their values, equal ones in order.
func sortOrder(x []float32) (order [32]uint8) {
	for i, v := range x {
		j := i
		for ; j > 0 && x[order[j-1]] > v; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	return order
}

// cutsIQ1S finds the best scale, cuts and shift for 32 values, common to their octets.
func cutsIQ1S(x, w *[32]float32, order *[32]uint8) (scale float32, cut1, cut2 int, shift uint8, ok bool) {
	var sumX, sumW [33]float32
	for j, at := range order {
		sumX[j+1] = sumX[j] + float32(w[at]*x[at])
		sumW[j+1] = sumW[j] + w[at]
	}
	up, down := &iq1Levels[shiftedUp], &iq1Levels[shiftedDown]
	// The third run's terms, by the second cut.
	var upX, upW, downX, downW [33]float32
	for i := range upX {
		x, w := sumX[32]-sumX[i], sumW[32]-sumW[i]
		upX[i], upW[i] = float32(x*up[2]), float32(w*up[2]*up[2])
		downX[i], downW[i] = float32(x*down[2]), float32(w*down[2]*down[2])
	}
	best := float32(-math.MaxFloat32)
	for i := range 33 {
		firstUpX, firstUpW := float32(sumX[i]*up[0]), float32(sumW[i]*up[0]*up[0])
		firstDownX, firstDownW := float32(sumX[i]*down[0]), float32(sumW[i]*down[0]*down[0])
		for j := i; j < 33; j++ {
			// The middle levels differ in sign only.
			x := float32((sumX[j] - sumX[i]) * up[1])
			w := float32((sumW[j] - sumW[i]) * up[1] * up[1])
			sqx := firstUpX + x + upX[j]
			sq2 := firstUpW + w + upW[j]
			if float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shift, ok = i, j, shiftedUp, true
			}
			sqx = firstDownX - x + downX[j]
			sq2 = firstDownW + w + downW[j]
			if float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shift, ok = i, j, shiftedDown, true
			}
		}
	}
	return scale, cut1, cut2, shift, ok
}

// cutsIQ1M finds the best scale, cuts and shifts for 16 values: the cuts are common, each octet has its own shift.
// Bit 1 of shifts is that of octet 0, bit 0 that of octet 1.
func cutsIQ1M(x, w *[16]float32, order *[32]uint8) (scale float32, cut1, cut2 int, shifts uint8, ok bool) {
	var sumX, sumW [2][17]float32
	for j, at := range order[:16] {
		for o := range 2 {
			sumX[o][j+1], sumW[o][j+1] = sumX[o][j], sumW[o][j]
		}
		o := at / 8
		sumX[o][j+1] += float32(w[at] * x[at])
		sumW[o][j+1] += w[at]
	}
	// With levels one apart, the sum of w·x·q over all three runs is the total times the top
	// level, less the two prefix sums; that of w·q·q has a term by each cut.
	var total [2][2]float32 // by octet and shift
	var first, second [2][2][17]float32
	for o := range 2 {
		for shift, q := range iq1Levels {
			total[o][shift] = float32(sumX[o][16] * q[2])
			all := float32(sumW[o][16] * q[2] * q[2])
			for i, w := range sumW[o] {
				first[o][shift][i] = all + float32(w*(float32(q[0]*q[0])-float32(q[1]*q[1])))
				second[o][shift][i] = float32(w * (float32(q[1]*q[1]) - float32(q[2]*q[2])))
			}
		}
	}
	best := float32(-math.MaxFloat32)
	for i := range 17 {
		up0, down0 := first[0][shiftedUp][i], first[0][shiftedDown][i]
		up1, down1 := first[1][shiftedUp][i], first[1][shiftedDown][i]
		for j := i; j < 17; j++ {
			x0, x1 := sumX[0][i]+sumX[0][j], sumX[1][i]+sumX[1][j]
			upX0, downX0 := total[0][shiftedUp]-x0, total[0][shiftedDown]-x0
			upX1, downX1 := total[1][shiftedUp]-x1, total[1][shiftedDown]-x1
			upW0, downW0 := up0+second[0][shiftedUp][j], down0+second[0][shiftedDown][j]
			upW1, downW1 := up1+second[1][shiftedUp][j], down1+second[1][shiftedDown][j]
			if sqx, sq2 := upX0+upX1, upW0+upW1; float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shifts, ok = i, j, 0, true
			}
			if sqx, sq2 := upX0+downX1, upW0+downW1; float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shifts, ok = i, j, 1, true
			}
			if sqx, sq2 := downX0+upX1, downW0+upW1; float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shifts, ok = i, j, 2, true
			}
			if sqx, sq2 := downX0+downX1, downW0+downW1; float32(sqx*sqx) > float32(best*sq2) && sq2 > 0 {
				scale = sqx / sq2
				best = scale * sqx
				cut1, cut2, shifts, ok = i, j, 3, true
			}
		}
	}
	return scale, cut1, cut2, shifts, ok
}

// settle turns cuts into grid points: it solves for the scale again if the runs are not points themselves.
// A negative scale is made positive by mirroring the levels.
func (s *iq1Sub) settle(g *grid, x, w []float32, order *[32]uint8, cut1, cut2 int) {
	var digits [32]uint8
	for j, at := range order[:len(x)] {
		switch {
		case j < cut1:
			digits[at] = 0
		case j < cut2:
			digits[at] = 1
		default:
			digits[at] = 2
		}
	}
	if s.scale < 0 {
		s.scale = -s.scale
		for i := range digits {
			digits[i] = 2 - digits[i]
		}
		for o := range s.shift {
			s.shift[o] ^= 1
		}
	}
	off := false
	for o := range len(x) / 8 {
		var key int32
		for _, digit := range digits[8*o:][:8] {
			key = key*3 + int32(digit)
		}
		at := g.at[key]
		if at < 0 {
			off = true
			levels := &iq1Levels[s.shift[o]]
			q := [3]float32{float32(s.scale * levels[0]), float32(s.scale * levels[1]), float32(s.scale * levels[2])}
			s.index[o] = g.nearest8(^at, (*[8]float32)(x[8*o:]), (*[8]float32)(w[8*o:]), &q)
		} else {
			s.index[o] = uint16(at)
		}
	}
	if !off {
		return
	}
	var sqx, sq2 float32
	for i, v := range x {
		q := iq1Levels[s.shift[i/8]][g.codes[s.index[i/8]]>>(i%8*2)&3]
		wq := w[i] * q
		sqx += float32(wq * v)
		sq2 += float32(wq * q)
	}
	if sqx > 0 && sq2 > 0 {
		s.scale = sqx / sq2
	}
}

// encodeIQ1S writes blocks of 50 bytes: the scale d, the low index byte per octet, and per sub-block of 32 a word of
// four times three index bits, the scale and the shift.
func encodeIQ1S(dst []byte, src []float32, cols int, weights []float32) {
	var weight [32]float32
	g := gridIQ1()
	for n := range len(src) / superBlock {
		x := src[n*superBlock:][:superBlock]
		w := weights[n*superBlock%cols:][:superBlock]
		sigma2 := 2 * sumSquares(x) / superBlock
		block := dst[50*n:][:50]
		clear(block)
		var subs [8]iq1Sub
		var largest float32
		for j := range subs {
			s, x := &subs[j], (*[32]float32)(x[32*j:])
			kernels.Weigh(weight[:], w[32*j:][:32], x[:], sigma2)
			if amax, _ := absMax(x[:]); amax < iq1sZero {
				continue
			}
			order := sortOrder(x[:])
			scale, cut1, cut2, shift, ok := cutsIQ1S(x, &weight, &order)
			if !ok {
				continue
			}
			s.scale, s.shift = scale, [4]uint8{shift, shift, shift, shift}
			s.settle(g, x[:], weight[:], &order, cut1, cut2)
			if s.scale > largest {
				largest = s.scale
			}
			word := uint16(0)
			for l, index := range s.index {
				block[2+4*j+l] = uint8(index)
				word |= index >> 8 << (3 * l)
			}
			binary.LittleEndian.PutUint16(block[34+2*j:], word)
		}
		if largest == 0 {
			continue
		}
		d := largest / 15
		binary.LittleEndian.PutUint16(block, f16(d*1.125))
		for j := range subs {
			s := &subs[j]
			block[34+2*j+1] |= uint8(digit(1/d, s.scale, 7)<<4) | s.shift[0]<<7
		}
	}
}

func decodeIQ1S(dst []float32, src []byte) {
	codes := gridIQ1().codes
	for ; len(src) > 0; src, dst = src[50:], dst[superBlock:] {
		d := f32(binary.LittleEndian.Uint16(src))
		for g := range 8 {
			word := binary.LittleEndian.Uint16(src[34+2*g:])
			scale := d * float32(2*(word>>12&7)+1)
			for l := range 4 {
				index := uint16(src[2+4*g+l]) | word>>(3*l)&7<<8
				point1(dst[32*g+8*l:], codes[index], word>>15, scale)
			}
		}
	}
}

// encodeIQ1M writes blocks of 56 bytes: the low index byte per octet, three more index bits and the shift per octet in
// half a byte, and four words of four 3-bit scales each, for 16 values; their upper halves are the super-block's
// scale, four bits in each.
func encodeIQ1M(dst []byte, src []float32, cols int, weights []float32) {
	var weight [superBlock]float32
	g := gridIQ1()
	for n := range len(src) / superBlock {
		x := src[n*superBlock:][:superBlock]
		if weights != nil {
			sigma2 := 2 * sumSquares(x) / superBlock
			kernels.Weigh(weight[:], weights[n*superBlock%cols:][:superBlock], x, sigma2)
		} else {
			for i, v := range x {
				weight[i] = v * v
			}
		}
		block := dst[56*n:][:56]
		clear(block)
		var subs [16]iq1Sub
		var largest float32
		for j := range subs {
			s, x, w := &subs[j], (*[16]float32)(x[16*j:]), (*[16]float32)(weight[16*j:])
			if amax, _ := absMax(x[:]); amax < iq1mZero {
				continue
			}
			order := sortOrder(x[:])
			scale, cut1, cut2, shifts, ok := cutsIQ1M(x, w, &order)
			if !ok {
				continue
			}
			s.scale, s.shift = scale, [4]uint8{shifts >> 1, shifts & 1}
			s.settle(g, x[:], w[:], &order, cut1, cut2)
			if s.scale > largest {
				largest = s.scale
			}
			block[2*j], block[2*j+1] = uint8(s.index[0]), uint8(s.index[1])
			block[32+j] = uint8(s.index[0]>>8 | s.index[1]>>8<<4)
		}
		if largest == 0 {
			continue
		}

		// With the scales rounded, solve for that of the super-block.
		d := largest / 15
		var words [4]uint16
		var sqx, sq2 float32
		for j := range subs {
			s := &subs[j]
			code := digit(1/d, s.scale, 7)
			words[j/4] |= uint16(code) << (j % 4 * 3)
			block[32+j] |= s.shift[0]<<3 | s.shift[1]<<7
			for i, v := range x[16*j:][:16] {
				level := iq1Levels[s.shift[i/8]][g.codes[s.index[i/8]]>>(i%8*2)&3]
				q := level * float32(2*code+1)
				wq := weight[16*j+i] * q
				sqx += float32(wq * v)
				sq2 += float32(wq * q)
			}
		}
		if sq2 > 0 {
			d = sqx / sq2
		}
		h := f16(d * 1.1125)
		for k := range words {
			binary.LittleEndian.PutUint16(block[48+2*k:], words[k]|h>>(4*k)&15<<12)
		}
	}
}

func decodeIQ1M(dst []float32, src []byte) {
	codes := gridIQ1().codes
	for ; len(src) > 0; src, dst = src[56:], dst[superBlock:] {
		var words [4]uint16
		var h uint16
		for k := range words {
			words[k] = binary.LittleEndian.Uint16(src[48+2*k:])
			h |= words[k] >> 12 << (4 * k)
		}
		d := f32(h)
		for o := range 32 {
			high := uint16(src[32+o/2] >> (o % 2 * 4))
			scale := d * float32(2*(words[o/8]>>(o/2%4*3)&7)+1)
			point1(dst[8*o:], codes[uint16(src[o])|high&7<<8], high>>3&1, scale)
		}
	}
}

// point1 decodes an octet; shift is shiftedUp or shiftedDown.
func point1(dst []float32, code, shift uint16, scale float32) {
	levels := &iq1Levels[shift]
	values := [4]float32{scale * levels[0], scale * levels[1], scale * levels[2]}
	for i := range dst[:8] {
		dst[i] = values[code&3]
		code >>= 2
	}
}
