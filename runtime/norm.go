package runtime

import "math"

// rms returns 1/√(mean(x²)+ε).
func rms(x []float32, eps float32) float32 {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a, b, c, d := float64(x[i]), float64(x[i+1]), float64(x[i+2]), float64(x[i+3])
		s0 += a * a
		s1 += b * b
		s2 += c * c
		s3 += d * d
	}
	for ; i < len(x); i++ {
		s0 += float64(x[i]) * float64(x[i])
	}
	return float32(1 / math.Sqrt(((s0+s1)+(s2+s3))/float64(len(x))+float64(eps)))
}

// normalize writes w·x/√(mean(x²)+ε) to dst, which may be x.
func normalize(dst, x, w []float32, eps float32) {
	f := rms(x, eps)
	w, dst = w[:len(x)], dst[:len(x)]
	for i, v := range x {
		dst[i] = v * f * w[i]
	}
}

// normalizeLength divides x by max(‖x‖, ε).
func normalizeLength(x []float32, eps float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	f := float32(1 / max(math.Sqrt(sum), float64(eps)))
	for i := range x {
		x[i] *= f
	}
}

// normTask normalizes rows.
type normTask struct {
	dst, x, w  []float32
	cols, skip int // a row, and from one row to the next
	eps        float32
	rows, size int
	length     bool
}

func (t *normTask) part(_, i int) {
	for r := i * t.size; r < min((i+1)*t.size, t.rows); r++ {
		at := r * t.skip
		if t.length {
			normalizeLength(t.x[at:at+t.cols], t.eps)
		} else {
			normalize(t.dst[at:at+t.cols], t.x[at:at+t.cols], t.w, t.eps)
		}
	}
}

func (e *engine) runNorm(least int) {
	t := &e.norms
	var parts int
	t.size, parts = perPart(t.rows, e.pool.workers, least)
	e.pool.run(t, parts)
}

// normRows normalizes rows of len(w) values, one behind the other. dst may be x.
func (e *engine) normRows(dst, x, w []float32, rows int, eps float32) {
	e.norms = normTask{dst: dst, x: x, w: w, cols: len(w), skip: len(w), eps: eps, rows: rows}
	e.runNorm(max(1, 4096/len(w)))
}

// normHeads normalizes the first len(w) values of each of the rows of skip values in place.
func (e *engine) normHeads(x, w []float32, rows, skip int, eps float32) {
	e.norms = normTask{dst: x, x: x, w: w, cols: len(w), skip: skip, eps: eps, rows: rows}
	e.runNorm(max(1, 4096/len(w)))
}

// lengthHeads scales each of the rows of cols values to length 1 in place.
func (e *engine) lengthHeads(x []float32, rows, cols int, eps float32) {
	e.norms = normTask{x: x, cols: cols, skip: cols, eps: eps, rows: rows, length: true}
	e.runNorm(max(1, 4096/cols))
}
