package quant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// encodable lists the types Encode knows, in id order.
func encodable() []gguf.Type {
	var types []gguf.Type
	for _, t := range gguf.Types() {
		if CanEncode(t) {
			types = append(types, t)
		}
	}
	return types
}

func rowSize(t gguf.Type, cols int) int {
	size, _ := t.RowSize(int64(cols))
	return int(size)
}

func mustEncode(tb testing.TB, t gguf.Type, x []float32, cols int, w []float32) []byte {
	tb.Helper()
	data := make([]byte, len(x)/cols*rowSize(t, cols))
	if err := Encode(t, data, x, cols, w); err != nil {
		tb.Fatal(err)
	}
	return data
}

func mustDecode(tb testing.TB, t gguf.Type, data []byte) []float32 {
	tb.Helper()
	elems, size := t.Block()
	x := make([]float32, len(data)/int(size)*int(elems))
	if err := Decode(t, x, data); err != nil {
		tb.Fatal(err)
	}
	return x
}

func TestTypes(t *testing.T) {
	for _, typ := range gguf.Types() {
		var want bool
		switch typ {
		case gguf.I8, gguf.I16, gguf.I32, gguf.I64, gguf.F64, gguf.Q8_1, gguf.Q8_K:
		default:
			want = true
		}
		if CanEncode(typ) != want || CanDecode(typ) != want {
			t.Errorf("%v: can encode %v, can decode %v, want both %v", typ, CanEncode(typ), CanDecode(typ), want)
		}
	}
	for _, typ := range []gguf.Type{4, 31, 43, 99, math.MaxUint32} {
		if CanEncode(typ) || CanDecode(typ) {
			t.Errorf("%v: encoded or decoded", typ)
		}
	}
}

// TestSecondVectors covers vectors that are independent of the golden file: a heavy-tailed input of 4 rows of
// 1024 values, and the first 16 digits of the SHA-256 of what the reference makes of it.
func TestSecondVectors(t *testing.T) {
	const rows, cols = 4, 1024
	state := uint32(1)
	next := func() int32 {
		state = state*1664525 + 1013904223
		return int32(state >> 8)
	}
	x := make([]float32, rows*cols)
	for i := range x {
		u := float32(next()-8388608) / 8388608
		x[i] = u * u * u
	}
	state = 2
	w := make([]float32, cols)
	for i := range w {
		w[i] = float32(float64(next())/16777216 + 1.0/1024)
	}
	if got := hash(floatBytes(x))[:16]; got != "4fb759d6c358cefa" {
		t.Fatalf("input hash %s", got)
	}
	if got := hash(floatBytes(w))[:16]; got != "f33f0df5f8d4fa61" {
		t.Fatalf("weights hash %s", got)
	}
	tests := []struct {
		typ                                            gguf.Type
		plain, plainDecoded, weighted, weightedDecoded string // "" in plain: needs weights; "" in weighted: same
	}{
		{gguf.F16, "f00c00a0394b5a97", "1b15c29cd0aaf488", "", ""},
		{gguf.BF16, "d30ec5e99df83f9c", "4bb8ce3a6e716bfe", "", ""},
		{gguf.Q4_0, "8ff38fa88bbee944", "248aaa75ec1a25b7", "7ca19f551b46735c", "2b78d93e53fc6c88"},
		{gguf.Q4_1, "85d6ef259ebc4622", "187c30244719c0cc", "7fa6ea443ae2d4d4", "7b8c440f2535f38e"},
		{gguf.Q5_0, "3556b003114251dc", "6b45332a3f909728", "dbd49a8b95a32d84", "83647ef09fffc4d8"},
		{gguf.Q5_1, "fffb374d30ad8472", "aebce3a409ac993f", "6c8e7139e5e01715", "52755f93f5afb988"},
		{gguf.Q8_0, "2077899bbc532249", "32a238096d689e04", "", ""},
		{gguf.Q2_K, "c2d6aff52e40d85a", "c37725823ab2bb12", "a0e6dd29056b48ef", "38618591719c33c5"},
		{gguf.Q3_K, "d2d4f1d376dbbc09", "44b24de8a133de96", "71541ef7a7c09759", "f2561e99f64eef24"},
		{gguf.Q4_K, "0050e78fc24eba9f", "55668175d0ed265d", "31500ede384809be", "8cae0913c7eaa277"},
		{gguf.Q5_K, "85151a1adeeb6df1", "53dcbccc4fff5da2", "45ff71c4df8fa225", "beea0286ca777f2f"},
		{gguf.Q6_K, "55716aa3cfbdad12", "c3f10c157ea52f30", "f1e9d401b3bcc3e9", "558a9c22e7035541"},
		{gguf.IQ4NL, "9b1a35c6c17fa181", "b23ca625417d08c5", "2289d508f027ecd1", "8dbfac2a51cd0d05"},
		{gguf.IQ4XS, "13a70b24a5ca9261", "67ebdfafd54b9bc1", "c724e5aafd6bf93d", "4201fa5908f3a923"},
		{gguf.TQ1_0, "217a98aa41b85d68", "3295e74c2b4bcb18", "", ""},
		{gguf.TQ2_0, "ff3d5c552d951f04", "3295e74c2b4bcb18", "", ""},
		{gguf.MXFP4, "77aede48b4ae328c", "c6c3f65ba417d6be", "", ""},
		{gguf.NVFP4, "7d6528b52de5d05f", "4dcf32e460f437e8", "", ""},
		{gguf.Q1_0, "b75a55c5fd74db3a", "410c3428d79d2b65", "", ""},
		{gguf.Q2_0, "dd7fbd691d88414e", "b849e3c6fe3ee347", "", ""},
		{gguf.IQ2S, "6c295f77598b05ef", "e14dfd8b7b287144", "f2399168e6134abb", "8c2fc869d6d060a4"},
		{gguf.IQ3XXS, "d0f9e6c36e57e171", "346951ad23873a6a", "d3886da2cf6a64ae", "b843b4a65137724b"},
		{gguf.IQ3S, "6006e88b2b6d7ddf", "5f34f81883232131", "40be277ddf72be21", "eac4d6b071d9311c"},
		{gguf.IQ1M, "43f24b65e175cd66", "8e984f6f5dd2f9fc", "c1a1ee3133a88b2f", "a8b99907e6e13bcf"},
		{gguf.IQ2XXS, "", "", "f5e7593c64b55263", "5150d6a20f11ba15"},
		{gguf.IQ2XS, "", "", "5c05647ba48a546c", "c1f73a9f633099d8"},
		{gguf.IQ1S, "", "", "aa487e157dbfb704", "f13b2da6a3fef11c"},
	}
	for _, tt := range tests {
		t.Run(tt.typ.String(), func(t *testing.T) {
			check := func(w []float32, encoded, decoded string) {
				t.Helper()
				data := mustEncode(t, tt.typ, x, cols, w)
				if got := hash(data)[:16]; got != encoded {
					t.Errorf("encoded hash %s, want %s", got, encoded)
				}
				if got := hash(floatBytes(mustDecode(t, tt.typ, data)))[:16]; got != decoded {
					t.Errorf("decoded hash %s, want %s", got, decoded)
				}
			}
			if tt.plain != "" {
				check(nil, tt.plain, tt.plainDecoded)
			}
			if tt.weighted == "" {
				check(w, tt.plain, tt.plainDecoded)
			} else {
				check(w, tt.weighted, tt.weightedDecoded)
			}
		})
	}
}

// TestZeroBlocks: what a block of zeros becomes is rarely all zero bytes.
func TestZeroBlocks(t *testing.T) {
	rep := func(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	plain := map[gguf.Type][]byte{
		gguf.Q4_0:  cat([]byte{0, 0x80}, rep(16, 0x88)),
		gguf.Q5_0:  cat([]byte{0, 0x80}, rep(4, 0xFF), rep(16, 0)),
		gguf.IQ4NL: cat(rep(2, 0), rep(16, 0x88)),
		gguf.IQ4XS: cat([]byte{0, 0x80, 0xAA, 0xAA}, rep(4, 0), rep(128, 0x88)),
		gguf.TQ1_0: cat(rep(48, 0x80), rep(4, 0x7F), rep(2, 0)),
		gguf.TQ2_0: cat(rep(64, 0x55), rep(2, 0)),
		gguf.Q1_0:  cat(rep(2, 0), rep(16, 0xFF)),
		gguf.Q2_0:  cat(rep(2, 0), rep(16, 0x55)),
	}
	for _, typ := range encodable() {
		elems, size := typ.Block()
		x := make([]float32, elems)
		w := make([]float32, elems)
		for i := range w {
			w[i] = 1
		}
		want := plain[typ]
		if want == nil {
			want = rep(int(size), 0)
		}
		if !RequiresWeights(typ) {
			if diff := cmp.Diff(want, mustEncode(t, typ, x, len(x), nil)); diff != "" {
				t.Errorf("%v without weights (-want +got):\n%s", typ, diff)
			}
		}
		if typ == gguf.Q4_0 || typ == gguf.Q5_0 {
			want = rep(int(size), 0)
		}
		if diff := cmp.Diff(want, mustEncode(t, typ, x, len(x), w)); diff != "" {
			t.Errorf("%v with weights (-want +got):\n%s", typ, diff)
		}
	}
}

func TestNoRows(t *testing.T) {
	for _, typ := range encodable() {
		if err := Encode(typ, nil, nil, 256, make([]float32, 256)); err != nil {
			t.Errorf("%v: encoding no rows: %v", typ, err)
		}
		if err := Decode(typ, nil, nil); err != nil {
			t.Errorf("%v: decoding no blocks: %v", typ, err)
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	floats, buf := make([]float32, 4096), make([]byte, 4096)
	tests := []struct {
		name    string
		typ     gguf.Type
		dst     []byte
		src     []float32
		cols    int
		weights []float32
		want    string
	}{
		{"integer type", gguf.I32, buf[:4], floats[:1], 1, nil, "i32: this type cannot be encoded"},
		{"activation type", gguf.Q8_K, buf[:292], floats[:256], 256, nil, "q8_K: this type cannot be encoded"},
		{"unknown type", 99, buf[:1], floats[:1], 1, nil, "type 99: this type cannot be encoded"},
		{"columns", gguf.Q4_K, buf[:144], floats[:128], 128, nil, "q4_K: rows of 128 values cannot be encoded, the block size is 256"},
		{"no columns", gguf.F16, nil, nil, 0, nil, "f16: rows of 0 values cannot be encoded, the block size is 1"},
		{"negative columns", gguf.Q8_0, nil, floats[:32], -32, nil, "q8_0: rows of -32 values cannot be encoded, the block size is 32"},
		{"part of a row", gguf.Q8_0, buf[:68], floats[:96], 64, nil, "q8_0: 96 values are not whole rows of 64"},
		{"room too small", gguf.Q8_0, buf[:67], floats[:64], 64, nil, "q8_0: encoding 1 rows of 64 values takes 68 bytes, not 67"},
		{"room too large", gguf.Q8_0, buf[:69], floats[:64], 32, nil, "q8_0: encoding 2 rows of 32 values takes 68 bytes, not 69"},
		{"weights for fewer columns", gguf.Q4_0, buf[:36], floats[:64], 64, floats[:32], "q4_0: 32 importance weights for rows of 64 values"},
		{"empty weights", gguf.Q4_0, buf[:36], floats[:64], 64, floats[:0], "q4_0: 0 importance weights for rows of 64 values"},
		{"iq2_xxs without weights", gguf.IQ2XXS, buf[:66], floats[:256], 256, nil, "iq2_xxs: this type cannot be encoded without importance weights"},
		{"iq2_xs without weights", gguf.IQ2XS, buf[:74], floats[:256], 256, nil, "iq2_xs: this type cannot be encoded without importance weights"},
		{"iq1_s without weights", gguf.IQ1S, buf[:50], floats[:256], 256, nil, "iq1_s: this type cannot be encoded without importance weights"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkError(t, Encode(tt.typ, tt.dst, tt.src, tt.cols, tt.weights), tt.want)
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	floats, buf := make([]float32, 4096), make([]byte, 4096)
	tests := []struct {
		name string
		typ  gguf.Type
		dst  []float32
		src  []byte
		want string
	}{
		{"integer type", gguf.I8, floats[:1], buf[:1], "i8: this type cannot be decoded"},
		{"unknown type", 31, floats[:1], buf[:1], "type 31: this type cannot be decoded"},
		{"part of a block", gguf.Q6_K, floats[:256], buf[:209], "q6_K: 209 bytes are not whole blocks of 210"},
		{"room too small", gguf.Q6_K, floats[:256], buf[:420], "q6_K: 420 bytes decode to 512 values, not 256"},
		{"room too large", gguf.F16, floats[:3], buf[:4], "f16: 4 bytes decode to 2 values, not 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkError(t, Decode(tt.typ, tt.dst, tt.src), tt.want)
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if err.Error() != want || fault.KindOf(err) != fault.BadInput {
		t.Errorf("error %q (kind %d), want %q of kind BadInput", err, fault.KindOf(err), want)
	}
}

// hostile are inputs no model should have: they must neither panic nor give different bytes from one call to the
// next.
func hostile(n int) map[string][]float32 {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	inputs := map[string][]float32{}
	fill := func(name string, value func(i int, v float32) float32) {
		s := splitMix(1)
		x := make([]float32, n)
		for i := range x {
			x[i] = value(i, s.gauss())
		}
		inputs[name] = x
	}
	constant := func(c float32) func(int, float32) float32 {
		return func(int, float32) float32 { return c }
	}
	fill("inf", constant(inf))
	fill("minus inf", constant(-inf))
	fill("nan", constant(nan))
	fill("minus zero", constant(float32(math.Copysign(0, -1))))
	fill("largest", constant(math.MaxFloat32))
	fill("smallest", constant(math.SmallestNonzeroFloat32))
	fill("denormal", func(_ int, v float32) float32 { return v * 0x1p-130 })
	fill("any size", func(i int, v float32) float32 { return v * float32(math.Ldexp(1, i%250-125)) })
	fill("any bits", func(_ int, v float32) float32 { return math.Float32frombits(math.Float32bits(v) * 2654435761) })
	for name, bad := range map[string]float32{"one inf": inf, "one minus inf": -inf, "one nan": nan} {
		fill(name, func(i int, v float32) float32 {
			if i%256 == 77 {
				return bad
			}
			return v
		})
	}
	fill("largest of both signs", func(i int, v float32) float32 {
		return float32(math.Copysign(math.MaxFloat32, float64(v)))
	})
	return inputs
}

func TestHostileValues(t *testing.T) {
	const cols = 512
	for _, typ := range encodable() {
		for name, x := range hostile(cols) {
			for weightsName, w := range hostile(cols) {
				if testing.Short() && weightsName != name {
					continue
				}
				first := mustEncode(t, typ, x, cols, w)
				if !bytes.Equal(first, mustEncode(t, typ, x, cols, w)) {
					t.Errorf("%v, values %s, weights %s: two calls, two results", typ, name, weightsName)
				}
				mustDecode(t, typ, first)
			}
		}
	}
}

// TestSpoiledInput: one infinite value must not pass validation where its block has a scale to spoil.
func TestSpoiledInput(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q1_0, gguf.Q2_0, gguf.TQ1_0, gguf.TQ2_0} {
		x := hostile(1024)["one inf"]
		err := Validate(typ, mustEncode(t, typ, x, len(x), nil))
		if err == nil {
			t.Errorf("%v: an infinite value passed", typ)
			continue
		}
		elems, _ := typ.Block()
		if want := fmt.Sprintf(" %d", 77/elems); !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %q doesn't name block%s", typ, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	const inf, nan = 0x7C00, 0xFE01
	half := func(typ gguf.Type, block, offset int, h uint16) []byte {
		_, size := typ.Block()
		data := make([]byte, 3*size)
		binary.LittleEndian.PutUint16(data[block*int(size)+offset:], h)
		return data
	}
	tests := []struct {
		name string
		typ  gguf.Type
		data []byte
		want string // "" for valid
	}{
		{"part of a block", gguf.Q4_0, make([]byte, 19), "q4_0: 19 bytes are not whole blocks of 18"},
		{"unknown type", 99, make([]byte, 4), "type 99: data of this type cannot be checked"},
		{"q8_1", gguf.Q8_1, make([]byte, 36), "q8_1: data of this type cannot be checked"},
		{"f32", gguf.F32, floatBytes([]float32{1, math.MaxFloat32, float32(math.Inf(-1))}), "f32: value 2 is -Inf"},
		{"f32 finite", gguf.F32, floatBytes([]float32{1, math.MaxFloat32, -0}), ""},
		{"f64", gguf.F64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e39)), "f64: value 0 is 1e+39"},
		{"f64 finite", gguf.F64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e38)), ""},
		{"f16", gguf.F16, []byte{0, 0x3C, 0, 0x7C}, "f16: value 1 is +Inf"},
		{"bf16", gguf.BF16, []byte{0xC0, 0xFF}, "bf16: value 0 is NaN"},
		{"bf16 finite", gguf.BF16, []byte{0x7F, 0x7F}, ""},
		{"i32", gguf.I32, []byte{0, 0, 0x80, 0x7F}, ""},
		{"mxfp4", gguf.MXFP4, append(make([]byte, 17), bytes.Repeat([]byte{0xFF}, 17)...), "mxfp4: block 1: the exponent e is 255"},
		{"nvfp4", gguf.NVFP4, bytes.Repeat([]byte{0xFF}, 36), ""},
		{"q8_K", gguf.Q8_K, append([]byte{0, 0, 0x80, 0x7F}, make([]byte, 288)...), "q8_K: block 0: d is +Inf"},
		{"iq1_m", gguf.IQ1M, append(make([]byte, 55), 0xF0), ""}, // 0xF000 alone is finite
		{"iq1_m assembled", gguf.IQ1M, append(make([]byte, 53), 0xC0, 0, 0x70), "iq1_m: block 0: d is +Inf"},
		{"q4_0", gguf.Q4_0, half(gguf.Q4_0, 2, 0, inf), "q4_0: block 2: d is +Inf"},
		{"q4_1 m", gguf.Q4_1, half(gguf.Q4_1, 1, 2, nan), "q4_1: block 1: m is NaN"},
		{"q5_0", gguf.Q5_0, half(gguf.Q5_0, 0, 0, nan), "q5_0: block 0: d is NaN"},
		{"q5_1 m", gguf.Q5_1, half(gguf.Q5_1, 0, 2, inf), "q5_1: block 0: m is +Inf"},
		{"q8_0", gguf.Q8_0, half(gguf.Q8_0, 1, 0, inf), "q8_0: block 1: d is +Inf"},
		{"q8_0 codes", gguf.Q8_0, half(gguf.Q8_0, 1, 2, inf), ""},
		{"q1_0", gguf.Q1_0, half(gguf.Q1_0, 1, 0, inf), "q1_0: block 1: d is +Inf"},
		{"q2_0", gguf.Q2_0, half(gguf.Q2_0, 1, 0, inf), "q2_0: block 1: d is +Inf"},
		{"q2_K", gguf.Q2_K, half(gguf.Q2_K, 1, 80, inf), "q2_K: block 1: d is +Inf"},
		{"q2_K dmin", gguf.Q2_K, half(gguf.Q2_K, 1, 82, inf), "q2_K: block 1: dmin is +Inf"},
		{"q3_K", gguf.Q3_K, half(gguf.Q3_K, 1, 108, inf), "q3_K: block 1: d is +Inf"},
		{"q4_K", gguf.Q4_K, half(gguf.Q4_K, 1, 0, inf), "q4_K: block 1: d is +Inf"},
		{"q4_K dmin", gguf.Q4_K, half(gguf.Q4_K, 1, 2, inf), "q4_K: block 1: dmin is +Inf"},
		{"q5_K dmin", gguf.Q5_K, half(gguf.Q5_K, 1, 2, inf), "q5_K: block 1: dmin is +Inf"},
		{"q6_K", gguf.Q6_K, half(gguf.Q6_K, 1, 208, inf), "q6_K: block 1: d is +Inf"},
		{"tq1_0", gguf.TQ1_0, half(gguf.TQ1_0, 1, 52, inf), "tq1_0: block 1: d is +Inf"},
		{"tq2_0", gguf.TQ2_0, half(gguf.TQ2_0, 1, 64, inf), "tq2_0: block 1: d is +Inf"},
		{"iq4_nl", gguf.IQ4NL, half(gguf.IQ4NL, 1, 0, inf), "iq4_nl: block 1: d is +Inf"},
		{"iq4_xs", gguf.IQ4XS, half(gguf.IQ4XS, 1, 0, inf), "iq4_xs: block 1: d is +Inf"},
		{"iq2_xxs", gguf.IQ2XXS, half(gguf.IQ2XXS, 1, 0, inf), "iq2_xxs: block 1: d is +Inf"},
		{"iq2_xs", gguf.IQ2XS, half(gguf.IQ2XS, 1, 0, inf), "iq2_xs: block 1: d is +Inf"},
		{"iq2_s", gguf.IQ2S, half(gguf.IQ2S, 1, 0, inf), "iq2_s: block 1: d is +Inf"},
		{"iq3_xxs", gguf.IQ3XXS, half(gguf.IQ3XXS, 1, 0, inf), "iq3_xxs: block 1: d is +Inf"},
		{"iq3_s", gguf.IQ3S, half(gguf.IQ3S, 1, 0, inf), "iq3_s: block 1: d is +Inf"},
		{"iq1_s", gguf.IQ1S, half(gguf.IQ1S, 1, 0, inf), "iq1_s: block 1: d is +Inf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Validate(tt.typ, tt.data)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			checkError(t, err, tt.want)
		})
	}
}

// TestRowsIndependent: rows encoded together are the rows encoded one by one, and decode block by block.
func TestRowsIndependent(t *testing.T) {
	types := encodable()
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		rows := rapid.IntRange(1, 7).Draw(t, "rows")
		cols := 256 * rapid.IntRange(1, 3).Draw(t, "super-blocks")
		s := splitMix(rapid.Uint64().Draw(t, "seed"))
		exponent := rapid.IntRange(-40, 40).Draw(t, "exponent")
		x, w := make([]float32, rows*cols), make([]float32, cols)
		for i := range x {
			x[i] = float32(math.Ldexp(float64(s.gauss()), exponent))
		}
		for i := range w {
			w[i] = float32(s.next()%1000) * 0x1p-5
		}
		if !RequiresWeights(typ) && rapid.Bool().Draw(t, "plain") {
			w = nil
		}
		size := rowSize(typ, cols)
		together := make([]byte, rows*size)
		if err := Encode(typ, together, x, cols, w); err != nil {
			t.Fatal(err)
		}
		values := make([]float32, rows*cols)
		if err := Decode(typ, values, together); err != nil {
			t.Fatal(err)
		}
		elems, blockSize := typ.Block()
		for r := range rows {
			one := bytes.Repeat([]byte{0xA5}, size) // whatever was there before must not shine through
			if err := Encode(typ, one, x[r*cols:(r+1)*cols], cols, w); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(one, together[r*size:(r+1)*size]) {
				t.Fatalf("row %d of %d differs when encoded alone", r, rows)
			}
		}
		block := make([]float32, elems)
		for b := range len(together) / int(blockSize) {
			if err := Decode(typ, block, together[b*int(blockSize):(b+1)*int(blockSize)]); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(floatBytes(block), floatBytes(values[b*int(elems):(b+1)*int(elems)])) {
				t.Fatalf("block %d differs when decoded alone", b)
			}
		}
	})
}

// TestErrorBound: what comes back is near what went in, so that a fault common to encoder and decoder shows.
func TestErrorBound(t *testing.T) {
	x := goldenInput("gauss", 5, 4, 1024)
	w := goldenWeights("positive", 5, 1024)
	var power float64
	for _, v := range x {
		power += float64(v) * float64(v)
	}
	for _, typ := range encodable() {
		var loss float64
		for i, v := range mustDecode(t, typ, mustEncode(t, typ, x, 1024, w)) {
			loss += float64(v-x[i]) * float64(v-x[i])
		}
		elems, size := typ.Block()
		// A bit per weight is worth a factor of four; what is allowed here is twelve times the ideal.
		bits := float64(8*size) / float64(elems)
		if limit := 12 * power * math.Pow(4, -min(bits, 8.5)); loss > limit {
			t.Errorf("%v: loses %.2g of the power, more than %.2g", typ, loss/power, limit/power)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	const cols = 512
	x := goldenInput("gauss", 3, 2, cols)
	w := goldenWeights("positive", 3, cols)
	for _, typ := range encodable() {
		data := make([]byte, 2*rowSize(typ, cols))
		values := make([]float32, len(x))
		for name, f := range map[string]func() error{
			"weighted": func() error { return Encode(typ, data, x, cols, w) },
			"decode":   func() error { return Decode(typ, values, data) },
			"plain": func() error {
				if RequiresWeights(typ) {
					return nil
				}
				return Encode(typ, data, x, cols, nil)
			},
			"validate": func() error { return Validate(typ, data) },
		} {
			if n := testing.AllocsPerRun(2, func() {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v %s: %v allocations", typ, name, n)
			}
		}
	}
}

// FuzzEncode feeds any bits as values and weights.
func FuzzEncode(f *testing.F) {
	f.Add(uint8(gguf.Q4_K), true, []byte{0, 0, 0x80, 0x7F, 1, 2, 3, 4})
	f.Add(uint8(gguf.IQ2XXS), false, []byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Add(uint8(gguf.Q6_K), false, []byte("\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, id uint8, weighted bool, bits []byte) {
		typ := gguf.Type(id)
		if !CanEncode(typ) || len(bits) < 4 {
			return
		}
		const cols = 512
		at := func(i int) float32 {
			var b [4]byte
			for k := range b {
				b[k] = bits[(i*4+k)%len(bits)]
			}
			return math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
		}
		x, w := make([]float32, cols), make([]float32, cols)
		for i := range x {
			x[i], w[i] = at(i), at(i+cols+1)
		}
		if !weighted && !RequiresWeights(typ) {
			w = nil
		}
		data := mustEncode(t, typ, x, cols, w)
		if !bytes.Equal(data, mustEncode(t, typ, x, cols, w)) {
			t.Fatal("two calls, two results")
		}
		_ = Validate(typ, data)
		mustDecode(t, typ, data)
	})
}

// FuzzDecode feeds any bytes as blocks.
func FuzzDecode(f *testing.F) {
	for _, typ := range gguf.Types() {
		_, size := typ.Block()
		f.Add(uint8(typ), bytes.Repeat([]byte{0xFF}, int(size)))
	}
	f.Fuzz(func(t *testing.T, id uint8, data []byte) {
		typ := gguf.Type(id)
		_ = Validate(typ, data)
		elems, size := typ.Block()
		if !CanDecode(typ) {
			return
		}
		data = data[:len(data)/int(size)*int(size)]
		values := make([]float32, len(data)/int(size)*int(elems))
		if err := Decode(typ, values, data); err != nil {
			t.Fatal(err)
		}
	})
}

// Every infinity and NaN is found and named wherever it stands; the largest numbers are none.
func TestValidateFindsEveryBadNumber(t *testing.T) {
	for _, c := range []struct {
		typ       gguf.Type
		size      int
		good, bad []uint32
	}{
		{gguf.F16, 2, []uint32{0, 0x8000, 0x7BFF, 0xFBFF, 0x03FF}, []uint32{0x7C00, 0xFC00, 0x7E01, 0xFFFF}},
		{gguf.BF16, 2, []uint32{0, 0x8000, 0x7F7F, 0xFF7F, 0x007F}, []uint32{0x7F80, 0xFF80, 0x7FC1, 0xFFFF}},
		{gguf.F32, 4, []uint32{0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x007FFFFF}, []uint32{0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF}},
	} {
		put := func(data []byte, i int, v uint32) {
			for k := range c.size {
				data[i*c.size+k] = byte(v >> (8 * k))
			}
		}
		for n := range 50 {
			data := make([]byte, n*c.size)
			for i := range n {
				put(data, i, c.good[i%len(c.good)])
			}
			if err := Validate(c.typ, data); err != nil {
				t.Fatalf("%d finite values: %v", n, err)
			}
			for i := range n {
				put(data, i, c.bad[i%len(c.bad)])
				if err := Validate(c.typ, data); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("value %d is", i)) {
					t.Fatalf("%v, value %d of %d: %v", c.typ, i, n, err)
				}
				put(data, i, 0)
			}
		}
	}
}
