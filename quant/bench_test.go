package quant

import "testing"

// The benchmarks count weights: MB/s reads as million weights per second. Decoding one writes 4 bytes.

const benchRows, benchCols = 16, 1024

func BenchmarkEncode(b *testing.B) {
	x := goldenInput("gauss", 1, benchRows, benchCols)
	for _, kind := range []string{"none", "positive"} {
		w := goldenWeights(kind, 1, benchCols)
		for _, typ := range encodable() {
			if w == nil && RequiresWeights(typ) {
				continue
			}
			b.Run(typ.String()+"/"+kind, func(b *testing.B) {
				data := make([]byte, benchRows*rowSize(typ, benchCols))
				b.SetBytes(int64(len(x)))
				b.ReportAllocs()
				for b.Loop() {
					if err := Encode(typ, data, x, benchCols, w); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	x := goldenInput("gauss", 1, benchRows, benchCols)
	w := goldenWeights("positive", 1, benchCols)
	for _, typ := range encodable() {
		b.Run(typ.String(), func(b *testing.B) {
			data := mustEncode(b, typ, x, benchCols, w)
			values := make([]float32, len(x))
			b.SetBytes(int64(len(x)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(typ, values, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	x := goldenInput("gauss", 1, benchRows, benchCols)
	w := goldenWeights("positive", 1, benchCols)
	for _, typ := range encodable() {
		b.Run(typ.String(), func(b *testing.B) {
			data := mustEncode(b, typ, x, benchCols, w)
			b.SetBytes(int64(len(x)))
			for b.Loop() {
				if err := Validate(typ, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
