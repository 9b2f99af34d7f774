package quant

import (
	"encoding/binary"
	"math"

	"gguf-forge/kernels"
)

// The legacy types q4_0, q4_1, q5_0, q5_1 and q8_0: blocks of 32 values with one scale d, and in the _1 types
// a minimum m, all f16. A code's low four bits stand in qs, element j in the low half of byte j, element
// j+16 in the high half; the fifth bits of q5 are the bits of the 32-bit word qh.
//
// Without importance weights d follows from the block's extremes alone; with them it is searched for.

const legacyBlock = 32

func packNibbles(qs, l []uint8) {
	qs, lo, hi := qs[:16], l[:16], l[16:32]
	for j := range qs {
		qs[j] = lo[j]&15 | hi[j]<<4
	}
}

// packHighBits gathers bit 4 of 32 codes.
func packHighBits(l *[legacyBlock]uint8) uint32 {
	var qh uint32
	for j, c := range l {
		qh |= uint32(c>>4&1) << j
	}
	return qh
}

// putLegacyCodes fills the rest of a block behind its scale and minimum: the fifth bits, if there is room for
// them, and qs.
func putLegacyCodes(y []byte, l *[legacyBlock]uint8) {
	if len(y) > 16 {
		binary.LittleEndian.PutUint32(y, packHighBits(l))
		y = y[4:]
	}
	packNibbles(y, l[:])
}

// encodeSymmetric encodes q4_0 (n = 8) and q5_0 (n = 16) in blocks of size bytes with importance weights. How much
// a value's own size adds to its weight depends on the mean square of the row.
func encodeSymmetric(n int32, dst []byte, size int, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	for ; len(src) > 0; src = src[cols:] {
		sigma2 := sumSquares(src[:cols]) / float32(cols)
		for i := 0; i < cols; i += batchValues {
			x := src[i:min(i+batchValues, cols)]
			kernels.Weigh(b.weights[:len(x)], weights[i:i+len(x)], x, sigma2)
			for j := 0; j < len(x); j += legacyBlock {
				l := (*[legacyBlock]uint8)(b.codes[j:])
				d := searchSymmetric(n, x[j:j+legacyBlock], b.weights[j:j+legacyBlock], l[:])
				binary.LittleEndian.PutUint16(dst, f16(d))
				putLegacyCodes(dst[2:size], l)
				dst = dst[size:]
			}
		}
	}
}

// encodeAffine does the same for q4_1 and q5_1.
func encodeAffine(search *kernels.QKX, dst []byte, size int, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	for ; len(src) > 0; src = src[cols:] {
		sigma2 := sumSquares(src[:cols]) / float32(cols)
		for i := 0; i < cols; i += batchValues {
			x := src[i:min(i+batchValues, cols)]
			kernels.Weigh(b.weights[:len(x)], weights[i:i+len(x)], x, sigma2)
			b.search(search, x)
			for j := range len(x) / legacyBlock {
				binary.LittleEndian.PutUint16(dst, f16(b.scales[j]))
				binary.LittleEndian.PutUint16(dst[2:], f16(-b.mins[j]))
				putLegacyCodes(dst[4:size], (*[legacyBlock]uint8)(b.codes[j*legacyBlock:]))
				dst = dst[size:]
			}
		}
	}
}

// q4_0: d, 16 bytes qs; value (code − 8)·d.

const q4_0Bytes = 18

func encodeQ4_0(dst []byte, src []float32, cols int, weights []float32) {
	if weights != nil {
		encodeSymmetric(8, dst, q4_0Bytes, src, cols, weights)
		return
	}
	var l [legacyBlock]uint8
	for ; len(src) > 0; src, dst = src[legacyBlock:], dst[q4_0Bytes:] {
		x, y := (*[legacyBlock]float32)(src), (*[q4_0Bytes]byte)(dst)
		_, signed := absMax(x[:])
		d := signed / -8
		inv := inverse(d)
		for i, v := range x {
			l[i] = uint8(min(15, int8(truncInt(float32(v*inv)+8.5))))
		}
		binary.LittleEndian.PutUint16(y[:], f16(d))
		putLegacyCodes(y[2:], &l)
	}
}

func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q4_0Bytes:], dst[legacyBlock:] {
		x, y := (*[legacyBlock]float32)(dst), (*[q4_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		for j, b := range y[2:] {
			x[j] = float32(int32(b&15)-8) * d
			x[j+16] = float32(int32(b>>4)-8) * d
		}
	}
}

// q4_1: d, m, 16 bytes qs; value code·d + m.

const q4_1Bytes = 20

var q4_1Search = weightedSearch(legacyBlock, 15)

func encodeQ4_1(dst []byte, src []float32, cols int, weights []float32) {
	if weights != nil {
		encodeAffine(q4_1Search, dst, q4_1Bytes, src, cols, weights)
		return
	}
	var l [legacyBlock]uint8
	for ; len(src) > 0; src, dst = src[legacyBlock:], dst[q4_1Bytes:] {
		x, y := (*[legacyBlock]float32)(src), (*[q4_1Bytes]byte)(dst)
		lo, hi := extremes(x[:])
		d := (hi - lo) / 15
		inv := inverse(d)
		for i, v := range x {
			l[i] = uint8(min(15, int8(truncInt(float32((v-lo)*inv)+0.5))))
		}
		binary.LittleEndian.PutUint16(y[:], f16(d))
		binary.LittleEndian.PutUint16(y[2:], f16(lo))
		putLegacyCodes(y[4:], &l)
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q4_1Bytes:], dst[legacyBlock:] {
		x, y := (*[legacyBlock]float32)(dst), (*[q4_1Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		m := f32(binary.LittleEndian.Uint16(y[2:]))
		for j, b := range y[4:] {
			x[j] = float32(float32(int32(b&15))*d) + m
			x[j+16] = float32(float32(int32(b>>4))*d) + m
		}
	}
}

// q5_0: d, qh, 16 bytes qs; value (code − 16)·d.

const q5_0Bytes = 22

func encodeQ5_0(dst []byte, src []float32, cols int, weights []float32) {
	if weights != nil {
		encodeSymmetric(16, dst, q5_0Bytes, src, cols, weights)
		return
	}
	var l [legacyBlock]uint8
	for ; len(src) > 0; src, dst = src[legacyBlock:], dst[q5_0Bytes:] {
		x, y := (*[legacyBlock]float32)(src), (*[q5_0Bytes]byte)(dst)
		_, signed := absMax(x[:])
		d := signed / -16
		inv := inverse(d)
		for i, v := range x {
			l[i] = uint8(min(31, int8(truncInt(float32(v*inv)+16.5))))
		}
		binary.LittleEndian.PutUint16(y[:], f16(d))
		putLegacyCodes(y[2:], &l)
	}
}

func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q5_0Bytes:], dst[legacyBlock:] {
		x, y := (*[legacyBlock]float32)(dst), (*[q5_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		qh := binary.LittleEndian.Uint32(y[2:])
		for j, b := range y[6:] {
			x[j] = float32(int32(b&15|uint8(qh>>j&1)<<4)-16) * d
			x[j+16] = float32(int32(b>>4|uint8(qh>>(j+16)&1)<<4)-16) * d
		}
	}
}

// q5_1: d, m, qh, 16 bytes qs; value code·d + m.

const q5_1Bytes = 24

var q5_1Search = weightedSearch(legacyBlock, 31)

func encodeQ5_1(dst []byte, src []float32, cols int, weights []float32) {
	if weights != nil {
		encodeAffine(q5_1Search, dst, q5_1Bytes, src, cols, weights)
		return
	}
	var l [legacyBlock]uint8
	for ; len(src) > 0; src, dst = src[legacyBlock:], dst[q5_1Bytes:] {
		x, y := (*[legacyBlock]float32)(src), (*[q5_1Bytes]byte)(dst)
		lo, hi := extremes(x[:])
		d := (hi - lo) / 31
		inv := inverse(d)
		for i, v := range x {
			l[i] = uint8(truncInt(float32((v-lo)*inv) + 0.5))
		}
		binary.LittleEndian.PutUint16(y[:], f16(d))
		binary.LittleEndian.PutUint16(y[2:], f16(lo))
		putLegacyCodes(y[4:], &l)
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q5_1Bytes:], dst[legacyBlock:] {
		x, y := (*[legacyBlock]float32)(dst), (*[q5_1Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		m := f32(binary.LittleEndian.Uint16(y[2:]))
		qh := binary.LittleEndian.Uint32(y[4:])
		for j, b := range y[8:] {
			x[j] = float32(float32(int32(b&15|uint8(qh>>j&1)<<4))*d) + m
			x[j+16] = float32(float32(int32(b>>4|uint8(qh>>(j+16)&1)<<4))*d) + m
		}
	}
}

// q8_0: d, 32 signed bytes; value code·d. Importance weights are not used.

const q8_0Bytes = 34

func encodeQ8_0(dst []byte, src []float32, _ int, _ []float32) {
	for ; len(src) > 0; src, dst = src[legacyBlock:], dst[q8_0Bytes:] {
		x, y := (*[legacyBlock]float32)(src), (*[q8_0Bytes]byte)(dst)
		d := magnitude(x[:]) / 127
		inv := inverse(d)
		binary.LittleEndian.PutUint16(y[:], f16(d))
		for i, v := range x {
			y[2+i] = uint8(roundAway(v * inv))
		}
	}
}

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q8_0Bytes:], dst[legacyBlock:] {
		x, y := (*[legacyBlock]float32)(dst), (*[q8_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		for i, b := range y[2:] {
			x[i] = float32(int32(int8(b))) * d
		}
	}
}

// inverse returns 1/d, or 0 for a scale of zero.
func inverse(d float32) float32 {
	if d != 0 {
		return 1 / d
	}
	return 0
}

// extremes returns the smallest and the largest value; NaN are neither.
func extremes(x []float32) (lo, hi float32) {
	lo, hi = math.MaxFloat32, -math.MaxFloat32
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

// magnitude returns the largest |x|. A NaN is taken like a larger value, and replaced by what follows it.
func magnitude(x []float32) float32 {
	var top float32
	for _, v := range x {
		if a := abs32(v); !(top > a) {
			top = a
		}
	}
	return top
}
