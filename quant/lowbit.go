package quant

import "encoding/binary"

// q1_0 and q2_0: one f16 scale d, then codes of one or two bits, least significant bits first. Importance
// weights are not used.

// q1_0: 128 values ±d, d their mean magnitude; a set bit is +d.

const (
	q1_0Block = 128
	q1_0Bytes = 18
)

func encodeQ1_0(dst []byte, src []float32, _ int, _ []float32) {
	for ; len(src) > 0; src, dst = src[q1_0Block:], dst[q1_0Bytes:] {
		x, y := (*[q1_0Block]float32)(src), (*[q1_0Bytes]byte)(dst)
		var sum float32
		for _, v := range x {
			sum += abs32(v)
		}
		binary.LittleEndian.PutUint16(y[:], f16(sum/q1_0Block))
		qs := y[2:]
		for j := range qs {
			var b uint8
			for i, v := range x[8*j : 8*j+8] {
				if v >= 0 {
					b |= 1 << i
				}
			}
			qs[j] = b
		}
	}
}

func decodeQ1_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q1_0Bytes:], dst[q1_0Block:] {
		x, y := (*[q1_0Block]float32)(dst), (*[q1_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		value := [2]float32{-d, d}
		for j, b := range y[2:] {
			out := x[8*j : 8*j+8]
			for i := range out {
				out[i] = value[b>>i&1]
			}
		}
	}
}

// q2_0: 64 values (code − 1)·d, d their largest magnitude. Code 3 is decoded but never written.

const (
	q2_0Block = 64
	q2_0Bytes = 18
)

func encodeQ2_0(dst []byte, src []float32, _ int, _ []float32) {
	for ; len(src) > 0; src, dst = src[q2_0Block:], dst[q2_0Bytes:] {
		x, y := (*[q2_0Block]float32)(src), (*[q2_0Bytes]byte)(dst)
		d, _ := absMax(x[:])
		var inv float32
		if d > 0 {
			inv = 1 / d
		}
		binary.LittleEndian.PutUint16(y[:], f16(d))
		qs := y[2:]
		for j := range qs {
			var b uint8
			for i, v := range x[4*j : 4*j+4] {
				b |= uint8(max(0, min(3, roundAway(v*inv)+1))) << (2 * i)
			}
			qs[j] = b
		}
	}
}

func decodeQ2_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[q2_0Bytes:], dst[q2_0Block:] {
		x, y := (*[q2_0Block]float32)(dst), (*[q2_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[:]))
		value := twoBitValues(d)
		for j, b := range y[2:] {
			out := x[4*j : 4*j+4]
			for i := range out {
				out[i] = value[b>>(2*i)&3]
			}
		}
	}
}

// twoBitValues lists (code − 1)·d. They are products, not ±d, so that a NaN keeps its sign.
func twoBitValues(d float32) (values [4]float32) {
	for code := range values {
		values[code] = float32(code-1) * d
	}
	return values
}
