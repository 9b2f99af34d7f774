package quant

import (
	"encoding/binary"
	"math"
)

// The plain types f32, f16 and bf16: one value after the other, little-endian, no blocks.

func encodeF32(dst []byte, src []float32, _ int, _ []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:4*i+4], math.Float32bits(v))
	}
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i : 4*i+4]))
	}
}

func encodeF16(dst []byte, src []float32, _ int, _ []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:2*i+2], f16(v))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = f32(binary.LittleEndian.Uint16(src[2*i : 2*i+2]))
	}
}

func encodeBF16(dst []byte, src []float32, _ int, _ []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:2*i+2], bf16(v))
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:2*i+2])) << 16)
	}
}
