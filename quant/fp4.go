package quant

import "math"

// mxfp4 and nvfp4: four-bit floats (E2M1) under a shared eight-bit scale. Importance weights are not used.

// fp4Values are twice the E2M1 values, so that they are integers; the scales are halved in return.
var fp4Values = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// fp4Scaled returns the sixteen values times scale.
func fp4Scaled(scale float32) (values [16]float32) {
	for i, k := range fp4Values {
		values[i] = float32(k * scale)
	}
	return values
}

// fp4Coder finds the code whose value comes nearest, of equally near ones the first.
type fp4Coder struct {
	values  [16]float32
	middles [7]int32 // between the values of the codes 0 to 7, as bits: those of positive floats order as integers
	limit   float32  // up to this magnitude, middles decide
}

func newFP4Coder(scale float32) (c fp4Coder) {
	c.values = fp4Scaled(scale)
	for i := range c.middles {
		c.middles[i] = int32(math.Float32bits((fp4Values[i] + fp4Values[i+1]) / 2 * scale))
	}
	c.limit = 1024 * scale
	if !(scale < 0x1p100) {
		c.limit = -1 // some values may be infinite
	}
	return c
}

// code returns the code for v. Distances to the values on either side of v are exact, so that a comparison with the
// middle says which is smaller; far from all values distances are rounded, perhaps to the same number, and are
// compared themselves.
func (c *fp4Coder) code(v float32) uint8 {
	a := abs32(v)
	if !(a <= c.limit) {
		return c.scan(v)
	}
	var code uint32
	for _, middle := range c.middles {
		code += uint32(middle-int32(math.Float32bits(a))) >> 31 // without a branch: 1 above the middle
	}
	minus := math.Float32bits(v) >> 31 &^ ((code - 1) >> 31)
	return uint8(code | minus<<3)
}

// scan is the definition of code.
func (c *fp4Coder) scan(v float32) uint8 {
	best := 0
	bestErr := abs32(c.values[0] - v)
	for i := 1; i < len(c.values); i++ {
		if err := abs32(c.values[i] - v); err < bestErr {
			best, bestErr = i, err
		}
	}
	return uint8(best)
}

// mxfp4: 32 values; the exponent byte e of a power-of-two scale, then 16 bytes of codes, element j in the
// low half of byte j, element j+16 in the high half.

const (
	mxfp4Block = 32
	mxfp4Bytes = 17
)

// mxfp4Scale returns 2^(e−128), half of what the exponent byte means.
func mxfp4Scale(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// mxfp4Exponent returns the exponent byte for values up to amax. The logarithm is rounded to float32 before
// floor: just below a power of two it can round up to it.
func mxfp4Exponent(amax float32) uint8 {
	if !(amax > 0) {
		return 0
	}
	log := float32(math.Log2(float64(amax)))
	return uint8(truncInt(float32(math.Floor(float64(log))) - 2 + 127))
}

func encodeMXFP4(dst []byte, src []float32, _ int, _ []float32) {
	var l [mxfp4Block]uint8
	for ; len(src) > 0; src, dst = src[mxfp4Block:], dst[mxfp4Bytes:] {
		x, y := (*[mxfp4Block]float32)(src), (*[mxfp4Bytes]byte)(dst)
		amax, _ := absMax(x[:])
		y[0] = mxfp4Exponent(amax)
		coder := newFP4Coder(mxfp4Scale(y[0]))
		for i, v := range x {
			l[i] = coder.code(v)
		}
		packNibbles(y[1:], l[:])
	}
}

func decodeMXFP4(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[mxfp4Bytes:], dst[mxfp4Block:] {
		x, y := (*[mxfp4Block]float32)(dst), (*[mxfp4Bytes]byte)(src)
		values := fp4Scaled(mxfp4Scale(y[0]))
		for j, b := range y[1:] {
			x[j] = values[b&15]
			x[j+16] = values[b>>4]
		}
	}
}

// nvfp4: 64 values in four sub-blocks of 16; four scale bytes (unsigned E4M3), then eight bytes of codes per
// sub-block, element j in the low half of byte j, element j+8 in the high half.

const (
	nvfp4Block = 64
	nvfp4Bytes = 36
	nvfp4Sub   = 16
)

// nvfp4Scale returns half of what the scale byte means. Bit 7 is ignored, and 0x7F (NaN) means 0; 0xFF does not.
func nvfp4Scale(b uint8) float32 {
	e, m := int32(b>>3&15), float32(b&7)
	switch {
	case b == 0x7F:
		return 0
	case e == 0:
		return m * 0x1p-9 * 0.5
	}
	return (1 + float32(m/8)) * math.Float32frombits(uint32(e-7+127)<<23) * 0.5
}

// nvfp4ScaleByte rounds v to an unsigned E4M3, halves up. All from the topmost exponent on (v ≥ 248) becomes
// the largest number, 448.
func nvfp4ScaleByte(v float32) uint8 {
	if !(v > 0) {
		return 0
	}
	b := math.Float32bits(min(v, 448))
	e := int32(b>>23&0xFF) - 127 + 7
	if e <= 0 {
		return uint8(min(7, truncInt(float32(v*512)+0.5)))
	}
	// A carry out of the mantissa goes on into the exponent.
	if code := uint32(e)<<3 + b>>20&7 + b>>19&1; code < 15<<3 {
		return uint8(code)
	}
	return 0x7E
}

func encodeNVFP4(dst []byte, src []float32, _ int, _ []float32) {
	var l [nvfp4Sub]uint8
	for ; len(src) > 0; src, dst = src[nvfp4Block:], dst[nvfp4Bytes:] {
		x, y := (*[nvfp4Block]float32)(src), (*[nvfp4Bytes]byte)(dst)
		for s := range 4 {
			sub := (*[nvfp4Sub]float32)(x[nvfp4Sub*s:])
			amax, _ := absMax(sub[:])
			y[s] = nvfp4ScaleByte(amax / 6)
			coder := newFP4Coder(nvfp4Scale(y[s]))
			for i, v := range sub {
				l[i] = coder.code(v)
			}
			qs := y[4+8*s:][:8]
			for j := range qs {
				qs[j] = l[j] | l[j+8]<<4
			}
		}
	}
}

func decodeNVFP4(dst []float32, src []byte) {
	for ; len(dst) > 0; src, dst = src[nvfp4Bytes:], dst[nvfp4Block:] {
		x, y := (*[nvfp4Block]float32)(dst), (*[nvfp4Bytes]byte)(src)
		for s := range 4 {
			values := fp4Scaled(nvfp4Scale(y[s]))
			sub := (*[nvfp4Sub]float32)(x[nvfp4Sub*s:])
			for j, b := range y[4+8*s:][:8] {
				sub[j] = values[b&15]
				sub[j+8] = values[b>>4]
			}
		}
	}
}
