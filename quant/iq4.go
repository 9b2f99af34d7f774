package quant

import (
	"encoding/binary"

	"gguf-forge/kernels"
)

// iq4_nl and iq4_xs: four-bit codes into a table of sixteen unevenly spaced values. Element j of each 32
// stands in the low half of byte j, element j+16 in the high half.

// iq4Values are what the codes mean, before the scale.
var iq4Values = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// iq4Step has, for every integer part from −127 to 112, how many code boundaries (the middles between
// neighbouring values) lie below all numbers with that integer part. At most one lies among them.
var iq4Step, iq4Middle = func() (step [240]uint8, middle [16]float32) {
	for i := range 15 {
		middle[i] = (iq4Values[i] + iq4Values[i+1]) / 2
		for t := range step {
			lowest := float32(t - 127) // numbers with a negative integer part reach down to, not including, the next
			if lowest <= 0 {
				lowest--
			}
			if middle[i] <= lowest {
				step[t]++
			}
		}
	}
	middle[15] = 128 // never reached
	return step, middle
}()

// nearestIQ4 returns the code of the value nearest to v, the upper one half way between. NaN gets the last.
func nearestIQ4(v float32) uint8 {
	if !(v < 113) {
		return 15
	}
	if v <= -127 {
		return 0
	}
	code := iq4Step[int32(v)+127]
	if v >= iq4Middle[code] {
		code++
	}
	return code
}

// searchIQ4 finds a scale for x ≈ scale·value[code].
func searchIQ4(x, wt []float32) float32 {
	wt = wt[:len(x)]
	amax, signed := absMax(x)
	if amax < tiny {
		return 0
	}
	sums := func(inv float32) (sumQX, sumQ2 float32) {
		for i, v := range x {
			q := iq4Values[nearestIQ4(inv*v)]
			sumQX += float32(wt[i] * q * v)
			sumQ2 += float32(wt[i] * q * q)
		}
		return sumQX, sumQ2
	}
	var scale float32
	sumQX, sumQ2 := sums(1 / (-signed / -127))
	if sumQ2 > 0 {
		scale = sumQX / sumQ2
	}
	best := scale * sumQX
	for k := -7; k <= 7; k++ {
		sumQX, sumQ2 := sums((float32(k) - 127) / signed)
		if sumQ2 > 0 && sumQX*sumQX > best*sumQ2 {
			scale = sumQX / sumQ2
			best = scale * sumQX
		}
	}
	return scale
}

// iq4Weights fills wt for a super-block.
func iq4Weights(wt, w, x []float32) {
	if w == nil {
		for i, v := range x {
			wt[i] = v * v
		}
		return
	}
	kernels.Weigh(wt, w, x, sumSquares(x)*(2/float32(len(x))))
}

// iq4Codes writes the codes of 32 values.
func iq4Codes(qs []byte, x *[32]float32, inv float32) {
	qs = qs[:16]
	for j := range qs {
		qs[j] = nearestIQ4(inv*x[j]) | nearestIQ4(inv*x[j+16])<<4
	}
}

func decodeIQ4Codes(dst []float32, qs []byte, d float32) {
	var values [16]float32
	for i, k := range iq4Values {
		values[i] = d * k
	}
	out := (*[32]float32)(dst)
	for j, b := range qs[:16] {
		out[j] = values[b&15]
		out[j+16] = values[b>>4]
	}
}

// iq4_nl: 32 values; d f16, 16 bytes qs.

const (
	iq4NLBlock = 32
	iq4NLBytes = 18
)

func encodeIQ4NL(dst []byte, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	wt := b.weights[:iq4NLBlock]
	for i := 0; len(src) > 0; src, dst = src[iq4NLBlock:], dst[iq4NLBytes:] {
		x, y := (*[iq4NLBlock]float32)(src), (*[iq4NLBytes]byte)(dst)
		iq4Weights(wt, blockWeights(weights, &i, cols, iq4NLBlock), x[:])
		scale := searchIQ4(x[:], wt)
		binary.LittleEndian.PutUint16(y[:], f16(scale))
		iq4Codes(y[2:], x, inverse(scale))
	}
}

func decodeIQ4NL(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[iq4NLBytes:], dst[iq4NLBlock:] {
		decodeIQ4Codes(dst, src[2:], f32(binary.LittleEndian.Uint16(src)))
	}
}

// iq4_xs: super-blocks of 256; d f16, the eight sub-block scales in six bits each (offset 32): the high two
// bits of all in the 16-bit word scales_h, the low four in 4 bytes scales_l; then 128 bytes qs.

const iq4XSBytes = 136

func encodeIQ4XS(dst []byte, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	wt := b.weights[:superBlock]
	for i := 0; len(src) > 0; src, dst = src[superBlock:], dst[iq4XSBytes:] {
		x, y := (*[superBlock]float32)(src), (*[iq4XSBytes]byte)(dst)
		iq4Weights(wt, blockWeights(weights, &i, cols, superBlock), x[:])
		var scales [8]float32
		for b := range scales {
			scales[b] = searchIQ4(x[32*b:][:32], wt[32*b:][:32])
		}
		_, signed := absMax(scales[:])
		d := -signed / 32
		binary.LittleEndian.PutUint16(y[:], f16(d))
		inv := inverse(d)
		var high uint16
		clear(y[4:8])
		for b, scale := range scales {
			l := max(-32, min(31, ri(inv*scale)))
			iq4Codes(y[8+16*b:], (*[32]float32)(x[32*b:]), inverse(d*float32(l)))
			code := uint8(l + 32)
			y[4+b/2] |= code & 15 << (4 * (b & 1))
			high |= uint16(code>>4) << (2 * b)
		}
		binary.LittleEndian.PutUint16(y[2:], high)
	}
}

func decodeIQ4XS(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[iq4XSBytes:], dst[superBlock:] {
		y := (*[iq4XSBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		high := binary.LittleEndian.Uint16(y[2:])
		for b := range 8 {
			l := int32(y[4+b/2]>>(4*(b&1))&15) | int32(high>>(2*b)&3)<<4
			decodeIQ4Codes(dst[32*b:], y[8+16*b:], d*float32(l-32))
		}
	}
}
