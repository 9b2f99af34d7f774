package quant

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestTruncInt(t *testing.T) {
	tests := []struct {
		v    float32
		want int32
	}{
		{0, 0}, {0.99, 0}, {-0.99, 0}, {1.5, 1}, {-1.5, -1}, {2147483520, 2147483520}, {-2147483648, math.MinInt32},
		{2147483648, math.MinInt32}, {-2147483904, math.MinInt32}, {3e38, math.MinInt32},
		{float32(math.Inf(1)), math.MinInt32}, {float32(math.Inf(-1)), math.MinInt32}, {float32(math.NaN()), math.MinInt32},
	}
	for _, tt := range tests {
		if got := truncInt(tt.v); got != tt.want {
			t.Errorf("truncInt(%v) = %d, want %d", tt.v, got, tt.want)
		}
	}
}

func TestRoundAway(t *testing.T) {
	tests := []struct {
		v    float32
		want int32
	}{
		{0.5, 1}, {-0.5, -1}, {1.5, 2}, {2.5, 3}, {-2.5, -3}, {0.49999997, 0}, {-0.49999997, 0},
		{8388607.5, 8388608}, {-8388607.5, -8388608}, {16777215, 16777215}, {2147483520, 2147483520},
		{-2147483648, math.MinInt32}, {2147483648, math.MinInt32}, {float32(math.NaN()), math.MinInt32},
	}
	for _, tt := range tests {
		if got := roundAway(tt.v); got != tt.want {
			t.Errorf("roundAway(%v) = %d, want %d", tt.v, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32Range(-1e7, 1e7).Draw(t, "v")
		if got, want := roundAway(v), int32(math.Round(float64(v))); got != want {
			t.Fatalf("roundAway(%v) = %d, want %d", v, got, want)
		}
	})
}

func TestNearestInt(t *testing.T) {
	tests := []struct {
		v    float32
		want int32
	}{
		{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {4194303, 4194303}, {-4194304, -4194304},
		// What follows is outside the range where ri rounds: the bits decide.
		{4194304, -4194304}, {float32(math.Inf(1)), -4194304}, {float32(math.Inf(-1)), -4194304},
		{math.Float32frombits(0x7FC00000), 0}, {math.Float32frombits(0x7FC00007), 7}, {1e10, -2804999},
	}
	for _, tt := range tests {
		if got := ri(tt.v); got != tt.want {
			t.Errorf("ri(%v) = %d, want %d", tt.v, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32Range(-4e6, 4e6).Draw(t, "v")
		if got, want := ri(v), int32(math.RoundToEven(float64(v))); got != want {
			t.Fatalf("ri(%v) = %d, want %d", v, got, want)
		}
	})
}

// half is the value of an IEEE half, by definition.
func half(h uint16) float64 {
	e, m := int(h>>10&31), float64(h&0x3FF)
	v := math.Ldexp(m, -24)
	switch {
	case e == 31 && m == 0:
		v = math.Inf(1)
	case e == 31:
		v = math.NaN()
	case e > 0:
		v = math.Ldexp(1024+m, e-25)
	}
	if h&0x8000 != 0 {
		v = math.Copysign(v, -1)
	}
	return v
}

func TestHalfToFloat(t *testing.T) {
	for h := range 1 << 16 {
		got := f32(uint16(h))
		want := half(uint16(h))
		if want != want {
			if bits := math.Float32bits(got); bits != uint32(h&0x8000)<<16|uint32(h&0x7FFF)<<13|0x7FC00000 {
				t.Errorf("f32(%#04x) has bits %#x", h, bits)
			}
			continue
		}
		if math.Float64bits(float64(got)) != math.Float64bits(want) {
			t.Errorf("f32(%#04x) = %v, want %v", h, got, want)
		}
	}
}

// TestFloatToHalf looks at every half, its neighbours among the float32 numbers, and the middle to the next half
// with its neighbours.
func TestFloatToHalf(t *testing.T) {
	check := func(v float32, want uint16) {
		t.Helper()
		if got := f16(v); got != want {
			t.Errorf("f16(%v) = %#04x, want %#04x", v, got, want)
		}
		if got := f16(-v); got != want|0x8000 {
			t.Errorf("f16(%v) = %#04x, want %#04x", -v, got, want|0x8000)
		}
	}
	inf := float32(math.Inf(1))
	for h := range uint16(0x7C00) {
		v := float32(half(h))
		next := float32(half(h + 1))
		if h == 0x7BFF {
			next = 65536
		}
		middle := (v + next) / 2
		check(v, h)
		check(math.Nextafter32(v, inf), h)
		check(math.Nextafter32(middle, 0), h)
		check(middle, h+h&1) // to even
		check(math.Nextafter32(middle, inf), h+1)
	}
	check(inf, 0x7C00)
	check(math.MaxFloat32, 0x7C00)
	check(math.SmallestNonzeroFloat32, 0)
	for _, bits := range []uint32{0x7FC00000, 0x7F800001, 0x7FFFFFFF} {
		check(math.Float32frombits(bits), 0x7E00)
	}
}

func TestBF16(t *testing.T) {
	tests := []struct {
		bits uint32
		want uint16
	}{
		{0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82}, {0xBF818000, 0xBF82},
		{0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x00008001, 0x0001}, {0x80000000, 0x8000},
		{0x7F800001, 0x7FC0}, {0xFFC12345, 0xFFC1}, {0x7FFFFFFF, 0x7FFF},
	}
	for _, tt := range tests {
		if got := bf16(math.Float32frombits(tt.bits)); got != tt.want {
			t.Errorf("bf16(%#08x) = %#04x, want %#04x", tt.bits, got, tt.want)
		}
	}
}

// TestNearestIQ4 compares the table with the definition: bracket by halving, then the nearer end, the upper
// one half way.
func TestNearestIQ4(t *testing.T) {
	definition := func(v float32) uint8 {
		lo, hi := 0, 15
		if v <= iq4Values[0] {
			return 0
		}
		if v >= iq4Values[15] {
			return 15
		}
		for hi-lo > 1 {
			mid := (lo + hi) / 2
			if v < iq4Values[mid] {
				hi = mid
			} else {
				lo = mid
			}
		}
		if v-iq4Values[lo] < iq4Values[hi]-v {
			return uint8(lo)
		}
		return uint8(hi)
	}
	check := func(v float32) {
		if got, want := nearestIQ4(v), definition(v); got != want {
			t.Errorf("nearestIQ4(%v) = %d, want %d", v, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for i := -1200; i <= 1200; i++ {
		v := float32(i) / 8
		check(v)
		check(math.Nextafter32(v, inf))
		check(math.Nextafter32(v, -inf))
	}
	for _, v := range []float32{inf, -inf, float32(math.NaN()), 1e30, -1e30, 1e-40} {
		check(v)
	}
}

func TestMXFP4Exponent(t *testing.T) {
	tests := []struct {
		amax float32
		want uint8
	}{
		{0, 0}, {float32(math.NaN()), 0}, {1, 125}, {2, 126}, {6, 127}, {0.75, 124},
		{math.Nextafter32(8, 0), 128}, {math.Nextafter32(2, 0), 125}, // log₂ of the first rounds up to 3
		{math.Nextafter32(0.25, 0), 123}, {math.Nextafter32(0.5, 0), 123}, // and of 1/4 to −2
		{math.MaxFloat32, 253}, {0x1p-125, 0}, {float32(math.Inf(1)), 0},
		{0x1p-126, 255}, // the exponent −1 wraps
	}
	for _, tt := range tests {
		if got := mxfp4Exponent(tt.amax); got != tt.want {
			t.Errorf("mxfp4Exponent(%v) = %d, want %d", tt.amax, got, tt.want)
		}
	}
}

// TestFP4Code compares the codes with the definition for every scale, at and around all middles and values, far out
// and for what isn't a number.
func TestFP4Code(t *testing.T) {
	inf := float32(math.Inf(1))
	check := func(c *fp4Coder, v float32) {
		t.Helper()
		for _, v := range [...]float32{v, -v, math.Nextafter32(v, inf), -math.Nextafter32(v, inf), math.Nextafter32(v, -inf), -math.Nextafter32(v, -inf)} {
			if got, want := c.code(v), c.scan(v); got != want {
				t.Errorf("scale %v: code %d for %v, want %d", c.values[1], got, v, want)
			}
		}
	}
	for b := range 256 {
		for _, scale := range [...]float32{mxfp4Scale(uint8(b)), nvfp4Scale(uint8(b))} {
			c := newFP4Coder(scale)
			for i := range c.middles {
				check(&c, math.Float32frombits(uint32(c.middles[i])))
				check(&c, c.values[i])
				check(&c, c.values[i+1])
			}
			for _, v := range [...]float32{c.limit, 2 * c.limit, 0x1p24 * c.limit, 1, 1e-30, 1e30, inf, float32(math.NaN()), math.MaxFloat32, math.SmallestNonzeroFloat32} {
				check(&c, v)
			}
		}
	}
}

func TestNVFP4Scale(t *testing.T) {
	for b, want := range map[uint8]float32{0: 0, 0x80: 0, 1: 0x1p-10, 7: 7 * 0x1p-10, 8: 0x1p-7, 0x38: 0.5, 0x7E: 224, 0x7F: 0, 0xFE: 224, 0xFF: 240} {
		if got := nvfp4Scale(b); got != want {
			t.Errorf("nvfp4Scale(%#02x) = %v, want %v", b, got, want)
		}
	}
	for v, want := range map[float32]uint8{
		0: 0, -1: 0, float32(math.NaN()): 0, 0x1p-10: 1, 0x1p-11: 0, 0x1p-9: 1, 7.5 * 0x1p-9: 7, 0x1p-6: 8, 1: 0x38, 1.0625: 0x39, 1.0624: 0x38,
		247.9: 0x77, 248: 0x7E, 300: 0x7E, 448: 0x7E, 1e30: 0x7E, float32(math.Inf(1)): 0x7E,
	} {
		if got := nvfp4ScaleByte(v); got != want {
			t.Errorf("nvfp4ScaleByte(%v) = %#02x, want %#02x", v, got, want)
		}
	}
}
