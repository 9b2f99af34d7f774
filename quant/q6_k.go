package quant

import "encoding/binary"

// q6_K: super-blocks of 256 in sub-blocks of 16; 128 bytes with the low four bits of the codes, 64 bytes with
// the upper two, sixteen signed bytes of scales, d f16. The value is (d·scale)·(code − 32).
//
// In each half of 128, byte j of 64 low bytes holds elements j and j+64, byte j of 32 upper bytes elements
// j, j+32, j+64 and j+96.

const q6KBytes = 210

func encodeQ6K(dst []byte, src []float32, cols int, weights []float32) {
	var (
		l      [superBlock]uint8
		wt     [superBlock]float32
		scales [16]float32
		i      int
	)
	for ; len(src) > 0; src, dst = src[superBlock:], dst[q6KBytes:] {
		x, y := (*[superBlock]float32)(src), (*[q6KBytes]byte)(dst)
		w := blockWeights(weights, &i, cols, superBlock)
		if w == nil {
			for i, v := range x {
				wt[i] = v * v
			}
			w = wt[:]
		}
		for j := range scales {
			scales[j] = searchSymmetric(32, x[16*j:][:16], w[16*j:][:16], l[16*j:][:16])
		}
		amax, signed := absMax(scales[:])
		if amax < tiny {
			clear(y[:])
			continue
		}
		inv := -128 / signed
		d := f16(1 / inv)
		for j, s := range scales {
			scale := int8(min(127, ri(inv*s)))
			y[192+j] = uint8(scale)
			if dl := f32(d) * float32(scale); dl != 0 {
				symmetricCodes(l[16*j:][:16], x[16*j:][:16], dl, 32)
			}
		}
		for half := range 2 {
			in := (*[128]uint8)(l[128*half:])
			low, high := (*[64]byte)(y[64*half:]), (*[32]byte)(y[128+32*half:])
			for j := range low {
				low[j] = in[j]&15 | in[j+64]<<4
			}
			for j := range high {
				high[j] = in[j]>>4 | in[j+32]>>4<<2 | in[j+64]>>4<<4 | in[j+96]>>4<<6
			}
		}
		binary.LittleEndian.PutUint16(y[208:], d)
	}
}

func decodeQ6K(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q6KBytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[q6KBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[208:]))
		for half := range 2 {
			low, high := (*[64]byte)(y[64*half:]), (*[32]byte)(y[128+32*half:])
			out := (*[128]float32)(x[128*half:])
			for j := range 16 {
				for s := range 2 { // the first and the second sub-block of each 32
					i := j + 16*s
					scales := y[192+8*half+s:][:7]
					a, b, h := low[i], low[i+32], high[i]
					out[i] = d * float32(int8(scales[0])) * float32(int32(a&15|h&3<<4)-32)
					out[i+32] = d * float32(int8(scales[2])) * float32(int32(b&15|h>>2&3<<4)-32)
					out[i+64] = d * float32(int8(scales[4])) * float32(int32(a>>4|h>>4&3<<4)-32)
					out[i+96] = d * float32(int8(scales[6])) * float32(int32(b>>4|h>>6<<4)-32)
				}
			}
		}
	}
}
