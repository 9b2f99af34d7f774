package kernels

// Values writes the numbers that vector i stands for to dst: scale · code for the quantized forms. Sums are left out.
func (a *Activations) Values(dst []float32, i int) {
	if i < 0 || i >= a.count || len(dst) != a.n {
		panic("kernels: bad vector of Values")
	}
	at, block := i*a.n, a.form.block()
	if block == 1 {
		copy(dst, a.floats[at:at+a.n])
		return
	}
	for j := range dst {
		dst[j] = a.scales[(at+j)/block] * float32(a.codes[at+j])
	}
}

// ToHalf rounds to the nearest IEEE half, ties to even.
func ToHalf(v float32) uint16 { return toHalf(v) }

// FromHalf converts an IEEE half, exactly.
func FromHalf(h uint16) float32 { return fromHalf(h) }
