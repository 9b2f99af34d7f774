package kernels

import "math"

// expConstants are those of eˣ, in the order in which csrc/exp.h has them.
type expConstants struct {
	high, low          float32 // beyond these results are +Inf and 0
	log2e, magic       float32
	ln2, rest          float32 // ln 2 in two parts, of which the first has few enough bits for exact products
	p0, p1, p2, p3, p4 float32 // the minimax polynomial of the Cephes library
	p5                 float32
}

var expTable = expConstants{
	high: 89, low: -104,
	log2e: math.Log2E, magic: 3 << 22,
	ln2: 0.693359375, rest: -2.12194440e-4,
	p0: 1.9875691500e-4, p1: 1.3981999507e-3, p2: 8.3334519073e-3, p3: 4.1665795894e-2, p4: 1.6666665459e-1, p5: 5.0000001201e-1,
}

// exp32 is the definition of eˣ: with x = n·ln 2 + r and |r| ≤ ½ ln 2 (and a bit) it is 2ⁿ·(1 + r + r²·p(r)). The relative error is
// below 2⁻²², or half the least subnormal number where the result is subnormal.
func exp32(x float32) float32 {
	c := &expTable
	if x > c.high {
		x = c.high
	}
	if x < c.low {
		x = c.low
	}
	n := float32(x*c.log2e) + c.magic
	k := int32(math.Float32bits(n) - math.Float32bits(c.magic))
	n -= c.magic
	r := (x - float32(n*c.ln2)) - float32(n*c.rest)
	p := float32(c.p0*r) + c.p1
	p = float32(p*r) + c.p2
	p = float32(p*r) + c.p3
	p = float32(p*r) + c.p4
	p = float32(p*r) + c.p5
	y := (float32(float32(p*r)*r) + r) + 1
	// In two steps, since 2ⁿ itself may be too large or too small for a float32.
	half := k >> 1
	return float32(y*powerOf2(half)) * powerOf2(k-half)
}

func powerOf2(k int32) float32 { return math.Float32frombits(uint32(k)<<23 + 0x3F800000) }

// Exp returns eˣ as ExpSum computes it.
func Exp(x float32) float32 { return exp32(x) }

// Max returns the largest of x, −Inf if there is none. NaN is passed over. Of zeros it returns the positive one.
func Max(x []float32) float32 {
	var lanes [floatLanes]float32
	for i := range lanes {
		lanes[i] = float32(math.Inf(-1))
	}
	most := lanes[0]
	for _, v := range x[maxOf(x, &lanes):] {
		if v > most {
			most = v
		}
	}
	for _, v := range lanes {
		if v > most {
			most = v
		}
	}
	return most + 0
}

// ExpSum replaces each x by e^(scale·x − top), the numerators of a softmax, and returns their sum: of the whole runs of 16 in 16 interleaved
// sums that are added pairwise as those of Mul, then the rest in order. The result is the same to the last bit on every machine.
func ExpSum(x []float32, scale, top float32) float32 {
	var lanes [floatLanes]float32
	whole := expSum(x, scale, top, &lanes)
	for i, v := range x[whole:] {
		x[whole+i] = exp32(float32(v*scale) - top)
	}
	sum := addPairwise(&lanes)
	for _, v := range x[whole:] {
		sum += v
	}
	return sum
}

// expSumGeneric is the definition for the whole runs of 16. It returns how many values these are.
func expSumGeneric(x []float32, scale, top float32, lanes *[floatLanes]float32) int {
	whole := len(x) / floatLanes * floatLanes
	for i, v := range x[:whole] {
		x[i] = exp32(float32(v*scale) - top)
		lanes[i%floatLanes] += x[i]
	}
	return whole
}

// SiluMul replaces each gate by gate/(1 + e^−gate)·up. The result is the same to the last bit on every machine.
func SiluMul(gate, up []float32) {
	if len(gate) != len(up) {
		panic("kernels: lengths of SiluMul differ")
	}
	whole := siluMul(gate, up)
	siluMulGeneric(gate[whole:], up[whole:])
}

// siluMulGeneric is the definition.
func siluMulGeneric(gate, up []float32) {
	up = up[:len(gate)]
	for i, v := range gate {
		gate[i] = float32(v/(1+exp32(-v))) * up[i]
	}
}

// AddRows adds weights[j]·row j to dst, row after row, each product and sum rounded to float32. Rows are of len(dst) values of type F32 or
// F16, one behind the other. The result is the same to the last bit on every machine.
func AddRows(dst, weights []float32, w Weights, rows []byte) {
	if w != F32 && w != F16 || len(rows) != len(weights)*w.RowBytes(len(dst)) {
		panic("kernels: bad parameters of AddRows")
	}
	if len(weights) == 0 || len(dst) == 0 {
		return
	}
	whole := addRows(dst, weights, w, rows)
	addRowsGeneric(dst, weights, w, rows, whole)
}

// addRowsGeneric is the definition, from a column on.
func addRowsGeneric(dst, weights []float32, w Weights, rows []byte, from int) {
	size := w.RowBytes(len(dst))
	for j, f := range weights {
		row := rows[j*size : (j+1)*size]
		for i := from; i < len(dst); i++ {
			dst[i] += float32(f * floatAt(w, row, i))
		}
	}
}
