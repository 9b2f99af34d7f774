package quant

import "encoding/binary"

// tq1_0 and tq2_0: super-blocks of 256 values −d, 0 or d, d their largest magnitude. Importance weights are
// not used.

// ternaryDigits rounds x/d to digits 0, 1, 2 and returns d.
func ternaryDigits(digits *[superBlock]uint8, x *[superBlock]float32) float32 {
	d := magnitude(x[:])
	inv := inverse(d)
	for i, v := range x {
		digits[i] = uint8(roundAway(v*inv) + 1)
	}
	return d
}

// tq1_0: 48 bytes qs and 4 bytes qh of base-3 digits, then d. Byte j of a run of n bytes holds, most
// significant first, the digits of elements j, j+n, j+2n, …: five of them in qs (a run of 32 bytes and one
// of 16), four in qh. A number q of five digits is stored as ⌈256·q/243⌉, so that the digits come off the
// top by multiplying with 3.

const tq1_0Bytes = 54

// tq1Runs are tq1_0's runs of bytes: where they begin, their first element, and their shape.
var tq1Runs = [...]struct{ start, first, bytes, digits int }{
	{0, 0, 32, 5},
	{32, 160, 16, 5},
	{48, 240, 4, 4},
}

func encodeTQ1_0(dst []byte, src []float32, _ int, _ []float32) {
	var digits [superBlock]uint8
	for ; len(src) > 0; src, dst = src[superBlock:], dst[tq1_0Bytes:] {
		x, y := (*[superBlock]float32)(src), (*[tq1_0Bytes]byte)(dst)
		d := ternaryDigits(&digits, x)
		for _, run := range tq1Runs {
			for j := range run.bytes {
				var q uint8
				for n := range run.digits {
					q = q*3 + digits[run.first+n*run.bytes+j]
				}
				if run.digits == 4 {
					q *= 3
				}
				y[run.start+j] = uint8((uint32(q)*256 + 242) / 243)
			}
		}
		binary.LittleEndian.PutUint16(y[52:], f16(d))
	}
}

func decodeTQ1_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[tq1_0Bytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[tq1_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[52:]))
		value := twoBitValues(d)
		for _, run := range tq1Runs {
			power := uint8(1)
			for n := range run.digits {
				out := x[run.first+n*run.bytes:][:run.bytes]
				for j, b := range y[run.start:][:run.bytes] {
					out[j] = value[uint16(b*power)*3>>8]
				}
				power *= 3
			}
		}
	}
}

// tq2_0: 64 bytes qs of two-bit digits, then d. Byte j of a half holds elements j, j+32, j+64, j+96 of it,
// lowest bits first. Digit 3 is decoded (as 2d) but never written.

const tq2_0Bytes = 66

func encodeTQ2_0(dst []byte, src []float32, _ int, _ []float32) {
	var digits [superBlock]uint8
	for ; len(src) > 0; src, dst = src[superBlock:], dst[tq2_0Bytes:] {
		x, y := (*[superBlock]float32)(src), (*[tq2_0Bytes]byte)(dst)
		d := ternaryDigits(&digits, x)
		packPairs(y[:64], &digits)
		binary.LittleEndian.PutUint16(y[64:], f16(d))
	}
}

func decodeTQ2_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[tq2_0Bytes:], dst[superBlock:] {
		x, y := (*[superBlock]float32)(dst), (*[tq2_0Bytes]byte)(src)
		d := f32(binary.LittleEndian.Uint16(y[64:]))
		value := twoBitValues(d)
		for half := range 2 {
			qs := (*[32]byte)(y[32*half:])
			out := (*[128]float32)(x[128*half:])
			for j, b := range qs {
				out[j] = value[b&3]
				out[j+32] = value[b>>2&3]
				out[j+64] = value[b>>4&3]
				out[j+96] = value[b>>6]
			}
		}
	}
}

// packPairs packs the low two bits of 256 codes: byte j of a half holds elements j, j+32, j+64, j+96 of it.
func packPairs(qs []byte, l *[superBlock]uint8) {
	for half := range 2 {
		out := (*[32]byte)(qs[32*half:])
		in := (*[128]uint8)(l[128*half:])
		for j := range out {
			out[j] = in[j]&3 | in[j+32]&3<<2 | in[j+64]&3<<4 | in[j+96]<<6
		}
	}
}
