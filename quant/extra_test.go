package quant

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gguf-forge/gguf"
)

// testdata/extra.json complements the golden vectors with difficult rows. For every type and kind of row it has
// the first 16 hex digits of a SHA-256 over what the reference (the same build, through ggml_quantize_chunk) wrote
// for all kinds of importance in turn: extraRows rows of extraColumns values each time, the bytes
// one after the other. Types that need importance leave out the first kind, none.

const (
	extraRows    = 2
	extraColumns = 512
)

// extraKinds are the kinds of rows. Each function changes value number i of a row, having got v, roughly
// normal with a standard deviation of about half; base is a power of two and c uniform in [−1, 1), both drawn once
// per row.
var extraKinds = []struct {
	name  string
	value func(s *splitMix, i int, v, base, c float32) float32
}{
	{"scaled", func(_ *splitMix, _ int, v, base, _ float32) float32 { return v * base }},
	{"heavy", func(_ *splitMix, _ int, v, base, _ float32) float32 { return v * v * v * base }},
	{"outlier", func(s *splitMix, _ int, v, base, _ float32) float32 {
		return v * base * pick[float32](s.next()%64 == 0, 50, 1)
	}},
	{"far outlier", func(s *splitMix, _ int, v, _, _ float32) float32 {
		return v * pick[float32](s.next()%200 == 0, 0x1p20, 1)
	}},
	{"sparse", func(s *splitMix, _ int, v, base, _ float32) float32 {
		return v * base * pick[float32](s.next()%4 == 0, 1, 0)
	}},
	{"very sparse", func(s *splitMix, _ int, v, _, _ float32) float32 { return v * pick[float32](s.next()%32 == 0, 1, 0) }},
	{"one per sub-block", func(_ *splitMix, i int, v, _, c float32) float32 {
		return pick(i%32 == int(abs32(c)*31), v, 0)
	}},
	{"signed sub-blocks", func(_ *splitMix, i int, v, base, _ float32) float32 {
		return []float32{-abs32(v), abs32(v), v}[i/16%3] * base
	}},
	{"zero sub-blocks", func(_ *splitMix, i int, v, base, c float32) float32 {
		zero := i/32%5 == 2 || (i/16+int(c*16))%3 == 0
		return pick(zero, 0, v*base)
	}},
	{"zero blocks", func(_ *splitMix, i int, v, base, _ float32) float32 { return pick(i%512 < 256, 0, v*base) }},
	{"tiny sub-blocks", func(_ *splitMix, i int, v, _, _ float32) float32 {
		return v * []float32{1, 0x1p-40, 0x1p-24, 1, 0x1p-60}[i/16%5]
	}},
	{"scales apart", func(s *splitMix, _ int, v, _, _ float32) float32 { return v * exp2(int(s.next()%40)-20) }},
	{"about to count as zero", func(_ *splitMix, i int, v, _, _ float32) float32 {
		return v * []float32{2e-15, 2e-12, 2e-8, 2e-7, 4e-15, 6e-8}[i/32%6]
	}},
	{"small", func(_ *splitMix, _ int, v, _, _ float32) float32 { return v * 0x1p-26 }},
	{"very small", func(s *splitMix, _ int, v, _, _ float32) float32 { return v * exp2(-30-int(s.next()%30)) }},
	{"subnormal", func(_ *splitMix, _ int, v, _, _ float32) float32 { return v * 0x1p-130 }},
	{"large", func(_ *splitMix, _ int, v, _, _ float32) float32 { return v * 0x1p14 }},
	{"very large", func(_ *splitMix, _ int, v, _, c float32) float32 { return v * exp2(24+int(c*8)) }},
	{"constant", func(_ *splitMix, _ int, _, _, c float32) float32 { return c }},
	{"two values", func(_ *splitMix, _ int, v, _, c float32) float32 { return pick(v < 0, c, c*-0.5) }},
	{"plus or minus", func(_ *splitMix, _ int, v, base, _ float32) float32 { return pick(v < 0, base, -base) }},
	{"ternary", func(s *splitMix, _ int, _, base, _ float32) float32 { return float32(int(s.next()%3)-1) * base }},
	{"integers", func(s *splitMix, _ int, _, _, _ float32) float32 { return float32(int(s.next()%9) - 4) }},
	{"ramps", func(_ *splitMix, i int, _, base, _ float32) float32 { return float32(i%32-16) * base }},
	{"offset", func(_ *splitMix, _ int, v, base, _ float32) float32 { return float32(v*base) + 3*base }},
	{"bf16", func(_ *splitMix, _ int, v, base, _ float32) float32 {
		return math.Float32frombits(math.Float32bits(v)&0xFFFF0000) * base
	}},
}

// extraWeights are the kinds of importance: a function of a draw r, a value v that is uniform in (0, 16], and the column.
var extraWeights = []struct {
	name   string
	weight func(r uint64, v float32, column int) float32
}{
	{"none", nil},
	{"uniform", func(_ uint64, v float32, _ int) float32 { return v }},
	{"equal", func(uint64, float32, int) float32 { return 1 }},
	{"some zero", func(r uint64, v float32, _ int) float32 { return pick(r>>20%5 == 0, 0, v) }},
	{"zero sub-blocks", func(_ uint64, v float32, i int) float32 { return pick(i/16%4 == 1 || i/32%5 == 3, 0, v) }},
	{"hardly any", func(r uint64, v float32, _ int) float32 { return pick(r>>20%20 == 0, v, 0) }},
	{"far apart", func(r uint64, v float32, _ int) float32 { return v * exp2(int(r>>24%40)-20) }},
	{"small", func(_ uint64, v float32, _ int) float32 { return v * 0x1p-50 }},
	{"zero", func(uint64, float32, int) float32 { return 0 }},
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func exp2(n int) float32 { return float32(math.Ldexp(1, n)) }

// extraInput computes the rows and the weights of a kind; the generator's seed is a number that names the pair.
func extraInput(kind, weight, rows, columns int) (x, w []float32) {
	s := splitMix(1000*kind + weight)
	if f := extraWeights[weight].weight; f != nil {
		w = make([]float32, columns)
		for i := range w {
			r := s.next()
			w[i] = f(r, float32(r&0xFFFF+1)*0x1p-12, i)
		}
	}
	x = make([]float32, rows*columns)
	for row := range rows {
		base := exp2(int(s.next()%16) - 12)
		c := float32(int64(s.next()>>40)-1<<23) * 0x1p-23
		for i := range columns {
			x[row*columns+i] = extraKinds[kind].value(&s, i, s.gauss(), base, c)
		}
	}
	return x, w
}

func TestExtra(t *testing.T) {
	data, err := os.ReadFile("testdata/extra.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != 27 {
		t.Fatalf("%d types, want 27", len(want))
	}
	for name, kinds := range want {
		if len(kinds) != len(extraKinds) {
			t.Errorf("%s: %d kinds, want %d", name, len(kinds), len(extraKinds))
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ, err := gguf.ParseType(name)
			if err != nil {
				t.Fatal(err)
			}
			for k, kind := range extraKinds {
				if got := extraHash(t, typ, k); got != kinds[kind.name] {
					t.Errorf("%s rows: hash %s, want %s", kind.name, got, kinds[kind.name])
				}
			}
		})
	}
}

func extraHash(t *testing.T, typ gguf.Type, kind int) string {
	size, _ := typ.RowSize(extraColumns)
	var all []byte
	for weight := range extraWeights {
		x, w := extraInput(kind, weight, extraRows, extraColumns)
		if w == nil && RequiresWeights(typ) {
			continue
		}
		dst := make([]byte, extraRows*size)
		if err := Encode(typ, dst, x, extraColumns, w); err != nil {
			t.Fatal(err)
		}
		all = append(all, dst...)
	}
	return hash(all)[:16]
}
