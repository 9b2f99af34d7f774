package kernels

import "math"

// Form is what activations are rounded to before they are multiplied with weights, as in the reference engine.
type Form uint8

const (
	FormF32  Form = iota // as they are
	FormF16              // to the nearest half
	FormBF16             // to the nearest bfloat16
	FormQ8_0             // 32 codes of −127..127 with a scale that is a half
	FormQ8_1             // the same, with the sum of the values as a half
	FormQ8_K             // 256 codes of −127..127 with a float32 scale, and sums of 16 codes each
)

// Activations are vectors of activations in the form that some type of weights is multiplied with. The form
// only says which numbers these are; they lie in memory as suits the kernels: codes, scales and sums apart.
//
// Methods may run at the same time if they are about different vectors.
type Activations struct {
	form     Form
	n, count int

	floats []float32 // of FormF32, FormF16 and FormBF16: n each
	codes  []int8    // n each
	scales []float32 // one a block
	sums   []int32   // of FormQ8_0: the sum of the codes of a block
	mins   []float32 // of FormQ8_1: half(scale·sum of the codes), with the unrounded scale
	bsums  []int16   // of FormQ8_K: the sums of 16 codes each
}

// block returns the number of activations that share a scale.
func (f Form) block() int {
	switch f {
	case FormQ8_0, FormQ8_1:
		return 32
	case FormQ8_K:
		return 256
	}
	return 1
}

// NewActivations returns room for count vectors of n values, which must be a multiple of the form's block.
func NewActivations(form Form, n, count int) *Activations {
	if n < 0 || count < 0 || form > FormQ8_K || n%form.block() != 0 {
		panic("kernels: bad parameters of NewActivations")
	}
	a := &Activations{form: form, n: n, count: count}
	blocks := count * (n / form.block())
	switch form {
	case FormF32, FormF16, FormBF16:
		a.floats = make([]float32, count*n)
		return a
	case FormQ8_0:
		a.sums = make([]int32, blocks)
	case FormQ8_1:
		a.mins = make([]float32, blocks)
	case FormQ8_K:
		a.bsums = make([]int16, count*(n/16))
	}
	a.codes = make([]int8, count*n)
	a.scales = make([]float32, blocks)
	return a
}

// ActivationBytes is the memory that NewActivations takes for one vector.
func ActivationBytes(form Form, n int) int64 {
	switch n := int64(n); form {
	case FormQ8_0, FormQ8_1:
		return n + n/32*8
	case FormQ8_K:
		return n + n/256*4 + n/16*2
	default:
		return 4 * n
	}
}

// Form returns the form of the activations.
func (a *Activations) Form() Form { return a.form }

// Reshape makes the memory of a hold vectors of n values, as many as fit, and returns how many these are. What it
// held is lost.
func (a *Activations) Reshape(n int) int {
	if n <= 0 || n%a.form.block() != 0 {
		panic("kernels: bad length of Reshape")
	}
	a.count = max(cap(a.floats), cap(a.codes)) / n
	a.n = n
	return a.count
}

// Set makes the vectors from first on those of x, rounded to the form. x is a whole number of vectors.
//
// A NaN makes the scale of its block NaN. An infinity makes it infinite and codes of its block 0, so that products are NaN.
func (a *Activations) Set(first int, x []float32) {
	if first < 0 || a.n == 0 && len(x) > 0 || a.n > 0 && (len(x)%a.n != 0 || first+len(x)/a.n > a.count) {
		panic("kernels: bad vectors of Set")
	}
	if len(x) == 0 {
		return
	}
	at := first * a.n
	switch a.form {
	case FormF32:
		copy(a.floats[at:], x)
	case FormF16:
		for i, v := range x {
			a.floats[at+i] = fromHalf(toHalf(v))
		}
	case FormBF16:
		for i, v := range x {
			a.floats[at+i] = fromBF16(toBF16(v))
		}
	case FormQ8_0:
		b, blocks := at/32, len(x)/32
		quantizeQ8_0(a.codes[at:at+len(x)], a.scales[b:b+blocks], a.sums[b:b+blocks], x)
	case FormQ8_1:
		b, blocks := at/32, len(x)/32
		quantizeQ8_1(a.codes[at:at+len(x)], a.scales[b:b+blocks], a.mins[b:b+blocks], x)
	case FormQ8_K:
		b, blocks := at/256, len(x)/256
		quantizeQ8_K(a.codes[at:at+len(x)], a.scales[b:b+blocks], a.bsums[at/16:(at+len(x))/16], x)
	}
}

// quantize32Generic is the definition of FormQ8_0 and FormQ8_1: the multiplier is 127/amax, products are rounded half to even.
// (The reference multiplies with 1/(amax/127) on arm64; here all machines compute the same.)
func quantize32Generic(codes []int8, scales []float32, sums []int32, mins []float32, x []float32) {
	for b := range scales {
		block := x[32*b : 32*b+32]
		amax := math.Float32frombits(absMax(block))
		scale, inverse := amax/127, float32(0)
		if amax != 0 {
			inverse = 127 / amax
		}
		sum := int32(0)
		for i, v := range block {
			c := code(float32(v * inverse))
			codes[32*b+i] = int8(c)
			sum += c
		}
		scales[b] = fromHalf(toHalf(scale))
		if sums != nil {
			sums[b] = sum
		} else {
			mins[b] = fromHalf(toHalf(float32(scale * float32(sum))))
		}
	}
}

// quantize256Generic is the definition of FormQ8_K: the first value of the largest magnitude gets code −127.
func quantize256Generic(codes []int8, scales []float32, bsums []int16, x []float32) {
	for b := range scales {
		block := x[256*b : 256*b+256]
		most := absMax(block)
		if most == 0 {
			scales[b] = 0
			clear(codes[256*b : 256*b+256])
			clear(bsums[16*b : 16*b+16])
			continue
		}
		var top float32
		for _, v := range block {
			if math.Float32bits(v)&^(1<<31) == most {
				top = v
				break
			}
		}
		inverse := -127 / top
		for g := range 16 {
			sum := int32(0)
			for i := 256*b + 16*g; i < 256*b+16*g+16; i++ {
				c := code(float32(inverse * x[i]))
				codes[i] = int8(c)
				sum += c
			}
			bsums[16*b+g] = int16(sum)
		}
		scales[b] = 1 / inverse
	}
}

// absMax returns the bits of the largest absolute value, where infinity is larger than all numbers and NaN than infinity.
func absMax(x []float32) uint32 {
	most := uint32(0)
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}

// code rounds to the nearest integer, ties to even, of those from −127 to 127. NaN becomes 0.
func code(v float32) int32 {
	if v != v {
		return 0
	}
	return nearest(min(max(v, -127), 127))
}

// Vectors are some of the vectors of Activations, in some order.
type Vectors struct {
	a            *Activations
	index        []int32 // vector i is index[i]; nil: first + i
	first, count int
}

// Range returns the vectors from lo to hi, without hi.
func (a *Activations) Range(lo, hi int) Vectors {
	if lo < 0 || hi < lo || hi > a.count {
		panic("kernels: bad range of vectors")
	}
	return Vectors{a: a, first: lo, count: hi - lo}
}

// Pick returns the vectors with the given numbers.
func (a *Activations) Pick(index []int32) Vectors {
	for _, i := range index {
		if i < 0 || int(i) >= a.count {
			panic("kernels: bad number of a vector")
		}
	}
	return Vectors{a: a, index: index, count: len(index)}
}

// at returns the number of vector i.
func (v *Vectors) at(i int) int {
	if v.index != nil {
		return int(v.index[i])
	}
	return v.first + i
}
