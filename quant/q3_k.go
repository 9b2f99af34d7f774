package quant

import (
	"encoding/binary"

	"gguf-forge/kernels"
)

// q3_K: super-blocks of 256 in sub-blocks of 16; 32 bytes hmask with the third bit of every code (bit e/32 of
// byte e%32), 64 bytes with the low two bits, 12 bytes with sixteen six-bit scales, d f16. The value is
// (d·(scale − 32))·(code − 4).

const q3KBytes = 110

func encodeQ3K(dst []byte, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	wt := b.weights[:superBlock]
	var (
		l      [superBlock]uint8
		scales [16]float32
		sums   [16]float32
		ls     [16]uint8
		i      int
	)
	for ; len(src) > 0; src, dst = src[superBlock:], dst[q3KBytes:] {
		x, y := (*[superBlock]float32)(src), (*[q3KBytes]byte)(dst)
		var d uint16
		if w := blockWeights(weights, &i, cols, superBlock); w != nil {
			kernels.Weigh(wt, w, x[:], 2*sumSquares(x[:])/superBlock)
			for j := range scales {
				scales[j] = searchSymmetric(4, x[16*j:][:16], wt[16*j:][:16], l[16*j:][:16])
			}
			sumRuns(sums[:], wt, 16)
			d = f16(searchSymmetric(32, scales[:], sums[:], ls[:]))
			packQ3Scales(y[96:108], &ls)
		} else {
			for j := range scales {
				scales[j] = searchQ3((*[16]float32)(x[16*j:]), (*[16]uint8)(l[16*j:]))
			}
			if _, signed := absMax(scales[:]); signed != 0 {
				inv := -32 / signed
				for j, s := range scales {
					ls[j] = uint8(max(-32, min(31, int8(ri(inv*s)))) + 32)
				}
				d = f16(1 / inv)
				packQ3Scales(y[96:108], &ls)
			} else {
				clear(y[96:108])
				clear(ls[:]) // scale bytes of zero read as this
			}
		}
		for j, s := range ls {
			if dl := f32(d) * float32(int32(s)-32); dl != 0 {
				symmetricCodes(l[16*j:][:16], x[16*j:][:16], dl, 4)
			}
		}
		packBits((*[32]byte)(y[:]), &l, 2)
		packPairs(y[32:96], &l)
		binary.LittleEndian.PutUint16(y[108:], d)
	}
}

// searchQ3 finds a scale for x ≈ scale·(l−4) with codes l in 0..7, every value weighing as much as its
// square, by improving one code at a time.
func searchQ3(x *[16]float32, l *[16]uint8) float32 {
	const n = 4
	amax, signed := absMax(x[:])
	if amax < tiny {
		clear(l[:])
		return 0
	}
	inv := -n / signed
	var codes [16]int32
	var sumLX, sumL2 float32
	for i, v := range x {
		c := max(-n, min(n-1, ri(inv*v)))
		codes[i] = c
		w := v * v
		sumLX += float32(w * v * float32(c))
		sumL2 += float32(w * float32(c) * float32(c))
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, old := v*v, float32(codes[i])
			slx := sumLX - float32(w*v*old)
			if !(slx > 0) {
				continue
			}
			sl2 := sumL2 - float32(w*old*old)
			c := max(-n, min(n-1, ri(v*sl2/slx)))
			if c == codes[i] {
				continue
			}
			slx += float32(w * v * float32(c))
			sl2 += float32(w * float32(c) * float32(c))
			if sl2 > 0 && slx*slx*sumL2 > sumLX*sumLX*sl2 {
				codes[i] = c
				sumLX, sumL2 = slx, sl2
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	for i, c := range codes {
		l[i] = uint8(c + n)
	}
	if sumL2 > 0 {
		return sumLX / sumL2
	}
	return 0
}

// packBits gathers one bit of each of 256 codes: bit e/32 of byte e%32.
func packBits(dst *[32]byte, l *[superBlock]uint8, bit int) {
	for j := range dst {
		var b uint8
		for k := range 8 {
			b |= l[32*k+j] >> bit & 1 << k
		}
		dst[j] = b
	}
}

// packQ3Scales packs sixteen six-bit scales: low halves into bytes 0..7, two sub-blocks (j and j+8) a byte, the
// upper two bits into bytes 8..11, four sub-blocks (j, j+4, j+8, j+12) a byte.
func packQ3Scales(b []byte, s *[16]uint8) {
	b = b[:12]
	for j := range 8 {
		b[j] = s[j]&15 | s[j+8]<<4
	}
	for j := range 4 {
		b[8+j] = s[j]>>4 | s[j+4]>>4<<2 | s[j+8]>>4<<4 | s[j+12]>>4<<6
	}
}

func unpackQ3Scale(b []byte, j int) uint8 {
	return b[j%8]>>(4*(j/8))&15 | b[8+j%4]>>(2*(j/4))&3<<4
}

func decodeQ3K(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q3KBytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[q3KBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[108:]))
		for j := range 16 {
			dl := d * float32(int32(unpackQ3Scale(y[96:108], j))-32)
			var values [8]float32
			for q := range values {
				values[q] = dl * float32(q-4)
			}
			shift := 2 * (j % 8 / 2)
			qs := (*[16]byte)(y[32+32*(j/8)+16*(j%2):])
			hm := (*[16]byte)(y[16*(j%2):])
			out := (*[16]float32)(x[16*j:])
			for i := range out {
				out[i] = values[qs[i]>>shift&3|hm[i]>>(j/2)&1<<2]
			}
		}
	}
}
