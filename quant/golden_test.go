package quant

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/kernels/kerneltest"
)

// testdata/quant.json is the list of golden vectors of the reference quantizer (ggml 0.25.3, commit 0c1e570,
// built for baseline x86-64: no FMA, no contraction): for every block type, input and kind of importance, the
// SHA-256 of the encoded bytes and of the float32 values decoded from them. The inputs are computed
// here, and their hashes compared before anything else.

type goldenFile struct {
	Seed    uint64
	Rows    int
	Cols    int
	Inputs  map[string]string
	Vectors []goldenVector
}

type goldenVector struct {
	Type, Case, Imatrix string
	Bytes               int
	SHA256              string
	DequantSHA256       string `json:"dequant_sha256"`
}

func readGolden(tb testing.TB) goldenFile {
	tb.Helper()
	data, err := os.ReadFile("testdata/quant.json")
	if err != nil {
		tb.Fatal(err)
	}
	var golden goldenFile
	if err := json.Unmarshal(data, &golden); err != nil {
		tb.Fatal(err)
	}
	return golden
}

// splitMix is the SplitMix64 generator.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// gauss is roughly normal: the sum of the draw's four 16-bit lanes, centred.
func (s *splitMix) gauss() float32 {
	z := s.next()
	sum := int64(z&0xFFFF) + int64(z>>16&0xFFFF) + int64(z>>32&0xFFFF) + int64(z>>48)
	return float32(sum-131070) * 0x1p-16
}

// goldenInput computes an input of the golden vectors, rows × cols values.
func goldenInput(name string, seed uint64, rows, cols int) []float32 {
	x := make([]float32, rows*cols)
	s := splitMix(seed)
	for i := range x {
		v := s.gauss()
		row, column := i/cols, i%cols
		switch name {
		case "gauss":
			x[i] = v
		case "outlier":
			x[i] = v
			if i%97 == 0 {
				x[i] = v * 32
			}
		case "zero":
		case "tiny":
			x[i] = v * 0x1p-100
		case "huge":
			x[i] = v * 0x1p10
		case "constant":
			x[i] = 0.375 * float32(row-3)
		case "sparse":
			if s.next()%8 == 0 {
				x[i] = v
			}
		case "bf16":
			x[i] = math.Float32frombits(math.Float32bits(v)&0xFFFF0000) * 0x1p-5
		case "ramp":
			x[i] = float32(column-512) * 0x1p-9
		case "alternating":
			x[i] = float32(float32(column%2)*0.5) - 0.25
		case "offset":
			x[i] = float32(v*0.0625) + 1
		default:
			return nil
		}
	}
	return x
}

// goldenWeights computes importance weights of the golden vectors; for "none" they are nil.
func goldenWeights(kind string, seed uint64, cols int) []float32 {
	if kind == "none" {
		return nil
	}
	w := make([]float32, cols)
	s := splitMix(seed ^ 0xABCDEF)
	for i := range w {
		r := s.next()
		w[i] = float32(r&0xFFF+1) * 0x1p-8
		if kind == "some-zero" && r>>20%16 == 0 {
			w[i] = 0
		}
	}
	return w
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestGolden(t *testing.T) {
	golden := readGolden(t)
	inputs := map[string][]float32{}
	for name, want := range golden.Inputs {
		x := goldenInput(name, golden.Seed, golden.Rows, golden.Cols)
		if got := hash(floatBytes(x)); got != want {
			t.Fatalf("input %s: hash %s, want %s", name, got, want)
		}
		inputs[name] = x
	}
	byType := map[string][]goldenVector{}
	for _, v := range golden.Vectors {
		byType[v.Type] = append(byType[v.Type], v)
	}
	if n, types := len(golden.Vectors), len(byType); n != 615 || types != 27 {
		t.Fatalf("%d vectors of %d types, want 615 of 27", n, types)
	}
	kerneltest.ForEach(t, func(t *testing.T) {
		for name, vectors := range byType {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				typ, err := gguf.ParseType(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range vectors {
					x := inputs[v.Case]
					w := goldenWeights(v.Imatrix, golden.Seed, golden.Cols)
					data := make([]byte, v.Bytes)
					if err := Encode(typ, data, x, golden.Cols, w); err != nil {
						t.Fatalf("%s, imatrix %s: %v", v.Case, v.Imatrix, err)
					}
					if got := hash(data); got != v.SHA256 {
						t.Errorf("%s, imatrix %s: encoded hash %s, want %s", v.Case, v.Imatrix, got, v.SHA256)
						continue
					}
					values := make([]float32, len(x))
					if err := Decode(typ, values, data); err != nil {
						t.Fatalf("%s, imatrix %s: %v", v.Case, v.Imatrix, err)
					}
					if got := hash(floatBytes(values)); got != v.DequantSHA256 {
						t.Errorf("%s, imatrix %s: decoded hash %s, want %s", v.Case, v.Imatrix, got, v.DequantSHA256)
					}
					if err := Validate(typ, data); err != nil {
						t.Errorf("%s, imatrix %s: %v", v.Case, v.Imatrix, err)
					}
				}
			})
		}
	})
}
