package quant

import (
	"encoding/binary"

	"gguf-forge/kernels"
)

// q2_K: super-blocks of 256 in sub-blocks of 16; 16 bytes with scale (low half) and minimum (high half) of each
// sub-block, 64 bytes of two-bit codes, then d and dmin, f16. The value is (d·scale)·code − dmin·minimum.

const q2KBytes = 84

var (
	q2KSearch         = &kernels.QKX{Size: 16, Max: 3, First: -0.5, Step: 0.1, Trials: 16, Abs: true}
	q2KWeightedSearch = weightedSearch(16, 3)
)

func encodeQ2K(dst []byte, src []float32, cols int, weights []float32) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	search := q2KSearch
	if weights != nil {
		search = q2KWeightedSearch
	}
	for column := 0; len(src) > 0; {
		x := src[:min(batchValues, len(src))]
		src = src[len(x):]
		for i := 0; i < len(x); i += superBlock {
			values, wt := x[i:i+superBlock], b.weights[i:i+superBlock]
			if w := blockWeights(weights, &column, cols, superBlock); w != nil {
				kernels.Weigh(wt, w, values, sumSquares(values)/superBlock)
			} else {
				for k, v := range values {
					wt[k] = abs32(v)
				}
			}
		}
		b.search(search, x)
		for i := 0; i < len(x); i += superBlock {
			b.putQ2KScales(i/superBlock, dst[i/superBlock*q2KBytes:], weights != nil)
		}
		b.round(search, x)
		for i := 0; i < len(x); i += superBlock {
			packPairs(dst[16:80], (*[superBlock]uint8)(b.codes[i:]))
			dst = dst[q2KBytes:]
		}
	}
}

// putQ2KScales rounds the scales and minimums of a super-block to four bits, writes them to y and leaves what
// they are worth in their place.
func (b *batch) putQ2KScales(block int, y []byte, weighted bool) {
	scales, mins := b.scales[16*block:][:16], b.mins[16*block:][:16]
	var ls, lm [16]uint8
	var d, dmin uint16
	if weighted {
		var sums [16]float32
		sumRuns(sums[:], b.weights[superBlock*block:][:superBlock], 16)
		d = f16(searchPositive(15, scales, sums[:], ls[:]))
		dmin = f16(searchPositive(15, mins, sums[:], lm[:]))
	} else {
		d = f16(scaleCodes(ls[:], scales, 15))
		dmin = f16(scaleCodes(lm[:], mins, 15))
	}
	binary.LittleEndian.PutUint16(y[80:], d)
	binary.LittleEndian.PutUint16(y[82:], dmin)
	for j := range ls {
		y[j] = ls[j] | lm[j]<<4
		scales[j] = f32(d) * float32(y[j]&15)
		mins[j] = f32(dmin) * float32(y[j]>>4)
	}
}

func decodeQ2K(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q2KBytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[q2KBytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[80:]))
		dmin := f32(binary.LittleEndian.Uint16(y[82:]))
		for j, s := range y[:16] {
			var values [4]float32
			dl, ml := d*float32(s&15), dmin*float32(s>>4)
			for q := range values {
				values[q] = float32(dl*float32(q)) - float32(ml)
			}
			// Sub-block j is one half of the 32 bytes of its 128 elements, at two bits that depend on j.
			shift := 2 * (j % 8 / 2)
			qs := (*[16]byte)(y[16+32*(j/8)+16*(j%2):])
			out := (*[16]float32)(x[16*j:])
			for i, b := range qs {
				out[i] = values[b>>shift&3]
			}
		}
	}
}
