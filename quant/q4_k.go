package quant

import (
	"encoding/binary"

	"gguf-forge/kernels"
)

// q4_K and q5_K: super-blocks of 256 in sub-blocks of 32; d and dmin, f16, 12 bytes with six-bit scales
// and minimums of the eight sub-blocks, in q5_K 32 bytes with the fifth bit of every code (bit e/32 of byte
// e%32), and 128 bytes of four-bit codes. The value is (d·scale)·code − dmin·minimum.

const (
	q4KBytes = 144
	q5KBytes = 176
)

var (
	q4KSearch         = &kernels.QKX{Size: 32, Max: 15, First: -1, Step: 0.1, Trials: 21}
	q5KSearch         = &kernels.QKX{Size: 32, Max: 31, First: -0.5, Step: 0.1, Trials: 16}
	q4KWeightedSearch = weightedSearch(32, 15)
	q5KWeightedSearch = weightedSearch(32, 31)
)

func encodeQ4K(dst []byte, src []float32, cols int, weights []float32) {
	search := q4KSearch
	if weights != nil {
		search = q4KWeightedSearch
	}
	encodeK4(search, dst, q4KBytes, src, cols, weights)
}

func encodeQ5K(dst []byte, src []float32, cols int, weights []float32) {
	search := q5KSearch
	if weights != nil {
		search = q5KWeightedSearch
	}
	encodeK4(search, dst, q5KBytes, src, cols, weights)
}

// encodeK4 encodes super-blocks of size bytes, to q4_K or, if there is room for fifth bits, q5_K.
func encodeK4(search *kernels.QKX, dst []byte, size int, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	for column := 0; len(src) > 0; {
		x := src[:min(batchValues, len(src))]
		src = src[len(x):]
		for i := 0; i < len(x); i += superBlock {
			values, wt := x[i:i+superBlock], b.weights[i:i+superBlock]
			if w := blockWeights(weights, &column, cols, superBlock); w != nil {
				kernels.Weigh(wt, w, values, 2*sumSquares(values)/superBlock)
			} else {
				plainK4Weights(wt, values)
			}
		}
		b.search(search, x)
		for i := range len(x) / superBlock {
			b.putK4Scales(i, dst[i*size:], weights != nil, weights == nil || size == q5KBytes)
		}
		b.round(search, x)
		for i := 0; i < len(x); i += superBlock {
			y, l := dst[:size], (*[superBlock]uint8)(b.codes[i:])
			dst = dst[size:]
			if size == q5KBytes {
				packBits((*[32]byte)(y[16:]), l, 4)
			}
			packHalves(y[size-128:], l)
		}
	}
}

// plainK4Weights fills the weights used without importance: the sub-block's root mean square plus |x|.
func plainK4Weights(wt, x []float32) {
	for j := 0; j < len(x); j += 32 {
		values := x[j : j+32]
		rms := sqrt32(sumSquares(values) / 32)
		for i, v := range values {
			wt[j+i] = rms + abs32(v)
		}
	}
}

// putK4Scales rounds the scales and minimums of a super-block to six bits, writes them to y and leaves what
// they are worth in their place.
//
// Where hardly a weight is above zero, scales can come out negative and their codes beyond six bits. Capped,
// these become 63; q4_K with weights packs their low bits instead: that is what the reference does.
func (b *batch) putK4Scales(block int, y []byte, weighted, capped bool) {
	scales, mins := b.scales[8*block:][:8], b.mins[8*block:][:8]
	var ls, lm [8]uint8
	var d, dmin uint16
	if weighted {
		var sums [8]float32
		sumRuns(sums[:], b.weights[superBlock*block:][:superBlock], 32)
		d = f16(searchPositive(63, scales, sums[:], ls[:]))
		dmin = f16(searchPositive(63, mins, sums[:], lm[:]))
	} else {
		d = f16(scaleCodes(ls[:], scales, 63))
		dmin = f16(scaleCodes(lm[:], mins, 63))
	}
	if capped {
		for j := range ls {
			ls[j], lm[j] = min(63, ls[j]), min(63, lm[j])
		}
	}
	binary.LittleEndian.PutUint16(y, d)
	binary.LittleEndian.PutUint16(y[2:], dmin)
	packK4(y[4:], &ls, &lm)
	for j := range scales {
		sc, mn := unpackK4(y[4:], j)
		scales[j] = f32(d) * float32(sc)
		mins[j] = f32(dmin) * float32(mn)
	}
}

// packK4 packs eight six-bit scales and minimums: the first four whole, into bytes 0..3 and 4..7; of the last
// four the low halves together into bytes 8..11 and the upper two bits above the first four.
func packK4(b []byte, sc, mn *[8]uint8) {
	b = b[:12]
	for j := range 4 {
		b[j] = sc[j] | sc[j+4]>>4<<6
		b[j+4] = mn[j] | mn[j+4]>>4<<6
		b[j+8] = sc[j+4]&15 | mn[j+4]<<4
	}
}

func unpackK4(b []byte, j int) (sc, mn uint8) {
	b = b[:12]
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// packHalves packs the low four bits of 256 codes: byte j of 32 holds elements j and j+32 of their 64.
func packHalves(qs []byte, l *[superBlock]uint8) {
	for c := range 4 {
		out, in := (*[32]byte)(qs[32*c:]), (*[64]uint8)(l[64*c:])
		for j := range out {
			out[j] = in[j]&15 | in[j+32]<<4
		}
	}
}

func decodeQ4K(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q4KBytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[q4KBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		dmin := f32(binary.LittleEndian.Uint16(y[2:]))
		for c := range 4 {
			var lo, hi [16]float32
			affineValues(lo[:], y[4:16], 2*c, d, dmin)
			affineValues(hi[:], y[4:16], 2*c+1, d, dmin)
			out := (*[64]float32)(x[64*c:])
			for j, b := range (*[32]byte)(y[16+32*c:]) {
				out[j] = lo[b&15]
				out[j+32] = hi[b>>4]
			}
		}
	}
}

func decodeQ5K(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q5KBytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[q5KBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		dmin := f32(binary.LittleEndian.Uint16(y[2:]))
		qh := (*[32]byte)(y[16:])
		for c := range 4 {
			var lo, hi [32]float32
			affineValues(lo[:], y[4:16], 2*c, d, dmin)
			affineValues(hi[:], y[4:16], 2*c+1, d, dmin)
			out := (*[64]float32)(x[64*c:])
			for j, b := range (*[32]byte)(y[48+32*c:]) {
				out[j] = lo[b&15|qh[j]>>(2*c)&1<<4]
				out[j+32] = hi[b>>4|qh[j]>>(2*c+1)&1<<4]
			}
		}
	}
}

// affineValues lists what the codes of sub-block j mean.
func affineValues(values []float32, packed []byte, j int, d, dmin float32) {
	sc, mn := unpackK4(packed, j)
	dl, ml := d*float32(sc), dmin*float32(mn)
	for q := range values {
		values[q] = float32(dl*float32(q)) - float32(ml)
	}
}
