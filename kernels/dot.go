package kernels

// Weights is a type of weights, as they are stored in GGUF files.
type Weights uint8

const (
	F32 Weights = iota
	F16
	BF16
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	IQ4NL
	Q1_0
	Q2_0
	Q2K
	Q3K
	Q4K
	Q5K
	Q6K
	IQ4XS
	TQ1_0
	TQ2_0
	weightTypes
)

// format is what the kernels have to know about a type of weights.
type format struct {
	name          string
	values, bytes int // of a block
	form          Form
}

var formats = [weightTypes]format{
	F32:   {"f32", 1, 4, FormF32},
	F16:   {"f16", 1, 2, FormF16},
	BF16:  {"bf16", 1, 2, FormBF16},
	Q4_0:  {"q4_0", 32, 18, FormQ8_0},
	Q4_1:  {"q4_1", 32, 20, FormQ8_1},
	Q5_0:  {"q5_0", 32, 22, FormQ8_0},
	Q5_1:  {"q5_1", 32, 24, FormQ8_1},
	Q8_0:  {"q8_0", 32, 34, FormQ8_0},
	IQ4NL: {"iq4_nl", 32, 18, FormQ8_0},
	Q1_0:  {"q1_0", 128, 18, FormQ8_0},
	Q2_0:  {"q2_0", 64, 18, FormQ8_0},
	Q2K:   {"q2_K", 256, 84, FormQ8_K},
	Q3K:   {"q3_K", 256, 110, FormQ8_K},
	Q4K:   {"q4_K", 256, 144, FormQ8_K},
	Q5K:   {"q5_K", 256, 176, FormQ8_K},
	Q6K:   {"q6_K", 256, 210, FormQ8_K},
	IQ4XS: {"iq4_xs", 256, 136, FormQ8_K},
	TQ1_0: {"tq1_0", 256, 54, FormQ8_K},
	TQ2_0: {"tq2_0", 256, 66, FormQ8_K},
}

// WeightsNamed returns the type that GGUF tools call so, in lower case except for the K of "q4_K".
func WeightsNamed(name string) (w Weights, ok bool) {
	for i, f := range formats {
		if f.name == name {
			return Weights(i), true
		}
	}
	return 0, false
}

// String returns the name of the type.
func (w Weights) String() string { return formats[w].name }

// Form returns the form that activations must have for these weights.
func (w Weights) Form() Form { return formats[w].form }

// RowBytes returns the size of a row of n weights, a multiple of the block of the type.
func (w Weights) RowBytes(n int) int { return n / formats[w].values * formats[w].bytes }

// Mul multiplies rows of weights with vectors of activations: out[i·stride + r] becomes the dot product of row r and
// vector i. There are len(rows)/w.RowBytes(n) rows, and stride is at least that many.
//
// The result is the same to the last bit on every machine, for any number of rows or vectors in a call. Of quantized weights, the
// codes of a block are multiplied and summed as integers, exactly; that sum is multiplied by the rounded product of
// the scales, and such terms are added in the order of the blocks, each step rounded to float32. So the error is
// that of a plain sum of the terms, below (blocks + 2)·2⁻²⁴·Σ|terms|. Of F32, F16 and BF16, 16 interleaved sums
// are added pairwise at the end: below (n/16 + 5)·2⁻²⁴·Σ|terms|. See the definitions in dot_blocks.go,
// dot_super.go and dot_floats.go.
//
// Any bytes are allowed as weights; those that stand for infinities or NaN give what the arithmetic gives.
func Mul(out []float32, stride int, w Weights, rows []byte, x Vectors) {
	if x.a == nil || w >= weightTypes || x.a.form != w.Form() || x.a.n%formats[w].values != 0 {
		panic("kernels: bad parameters of Mul")
	}
	size := w.RowBytes(x.a.n)
	if x.count == 0 || size == 0 {
		if len(rows) != 0 && size == 0 {
			panic("kernels: bad rows of Mul")
		}
		return
	}
	count := len(rows) / size
	if count*size != len(rows) || stride < count || len(out) < (x.count-1)*stride+count {
		panic("kernels: bad lengths of Mul")
	}
	if count > 0 {
		mul(out, stride, w, rows, count, size, &x)
	}
}

// mulGeneric is the definition.
func mulGeneric(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	for i := range x.count {
		for r := range count {
			out[i*stride+r] = dotGeneric(w, rows[r*size:(r+1)*size], x.a, x.at(i))
		}
	}
}

// dotGeneric returns the dot product of one row and one vector.
func dotGeneric(w Weights, row []byte, a *Activations, vector int) float32 {
	lo, hi := vector*a.n, (vector+1)*a.n
	switch a.form {
	case FormF32, FormF16, FormBF16:
		return dotFloats(w, row, a.floats[lo:hi])
	case FormQ8_0:
		return dotBlocks(w, row, a.codes[lo:hi], a.scales[lo/32:hi/32])
	case FormQ8_1:
		return dotBlocksMin(w, row, a.codes[lo:hi], a.scales[lo/32:hi/32], a.mins[lo/32:hi/32])
	default:
		return dotSuper(w, row, a.codes[lo:hi], a.scales[lo/256:hi/256], a.bsums[lo/16:hi/16])
	}
}
