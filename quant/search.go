package quant

// The searches for the scale that loses least when a handful of values is rounded to small integer codes.
// Several families share them; what they return is part of each format's definition down to the last bit,
// so the order of the operations is, too. (The search for scale and minimum is kernels.SearchQKX.)
//
// Codes go into l, one byte per value, non-negative as stored. x, wt and l have the same length.

// tiny is the magnitude below which the values of a sub-block count as all zero.
const tiny = 1e-15

// absMax returns the first value with the largest magnitude, and that magnitude. NaN are never larger.
func absMax(x []float32) (amax, signed float32) {
	for _, v := range x {
		if a := abs32(v); a > amax {
			amax, signed = a, v
		}
	}
	return amax, signed
}

// sumSquares adds up x·x in order.
func sumSquares(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	return sum
}

// sumRuns adds up each run of n weights.
func sumRuns(sums, wt []float32, n int) {
	for j := range sums {
		var sum float32
		for _, w := range wt[j*n : (j+1)*n] {
			sum += w
		}
		sums[j] = sum
	}
}

// searchSymmetric finds a scale for x ≈ scale·(l−n) with codes l in 0..2n−1. The scale can be negative.
func searchSymmetric(n int32, x, wt []float32, l []uint8) float32 {
	wt, l = wt[:len(x)], l[:len(x)]
	amax, signed := absMax(x)
	if amax < tiny {
		clear(l)
		return 0
	}
	assign := func(inv float32) (sumLX, sumL2 float32) {
		for i, v := range x {
			c := float32(max(-n, min(n-1, ri(inv*v))))
			sumLX += float32(wt[i] * v * c)
			sumL2 += float32(wt[i] * c * c)
		}
		return sumLX, sumL2
	}
	inv := -float32(n) / signed
	sumLX, sumL2 := assign(inv)
	var scale float32
	if sumL2 != 0 {
		scale = sumLX / sumL2
	}
	best := scale * sumLX
	for k := int32(-9); k <= 9; k++ {
		if k == 0 {
			continue
		}
		try := -(float32(n) + float32(0.1*float32(k))) / signed
		sumLX, sumL2 := assign(try)
		if sumL2 > 0 && sumLX*sumLX > best*sumL2 {
			inv = try
			scale = sumLX / sumL2
			best = scale * sumLX
		}
	}
	for i, v := range x {
		l[i] = uint8(max(-n, min(n-1, ri(inv*v))) + n)
	}
	return scale
}

// searchPositive finds a scale for x ≈ scale·l with codes l in 0..n, for x that should not be negative.
// Codes are bytes: a negative x (they reach here from one caller) wraps around, and the wrapped code
// counts in the refinement.
func searchPositive(n int32, x, wt []float32, l []uint8) float32 {
	wt, l = wt[:len(x)], l[:len(x)]
	var top float32
	for _, v := range x {
		if !(top > v) { // so that a NaN is taken, and replaced by what follows it
			top = v
		}
	}
	if top < tiny {
		clear(l)
		return 0
	}
	inv := float32(n) / top
	scale := 1 / inv
	var best float32
	for i, v := range x {
		diff := v - float32(scale*float32(uint8(ri(inv*v))))
		best += float32(wt[i] * diff * diff)
	}
	for k := int32(-4); k <= 4; k++ {
		if k == 0 {
			continue
		}
		tryInv := (float32(0.1*float32(k)) + float32(n)) / top
		tryScale := 1 / tryInv
		var mse float32
		for i, v := range x {
			diff := v - float32(tryScale*float32(min(n, ri(tryInv*v))))
			mse += float32(wt[i] * diff * diff)
		}
		if mse < best {
			best, inv = mse, tryInv
		}
	}
	var sumLX, sumL2 float32
	for i, v := range x {
		c := min(n, ri(inv*v))
		l[i] = uint8(c)
		sumLX += float32(wt[i] * v * float32(c))
		sumL2 += float32(wt[i] * float32(c) * float32(c))
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, old := wt[i], float32(l[i])
			slx := sumLX - float32(w*v*old)
			sl2 := sumL2 - float32(w*old*old)
			if !(slx > 0 && sl2 > 0) {
				continue
			}
			c := min(n, ri(v*sl2/slx))
			if c == int32(l[i]) {
				continue
			}
			slx += float32(w * v * float32(c))
			sl2 += float32(w * float32(c) * float32(c))
			if slx*slx*sumL2 > sumLX*sumLX*sl2 {
				l[i] = uint8(c)
				sumLX, sumL2 = slx, sl2
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	if sumL2 > 0 {
		return sumLX / sumL2
	}
	return 0
}

// symmetricCodes rounds x/dl to codes −n..n−1 and stores them plus n.
func symmetricCodes(l []uint8, x []float32, dl float32, n int32) {
	l = l[:len(x)]
	for i, v := range x {
		l[i] = uint8(max(-n, min(n-1, ri(v/dl))) + n)
	}
}
