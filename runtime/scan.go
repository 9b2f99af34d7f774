package runtime

// The Mamba-2 recurrence. Each head has a state S of P rows of N values; B and C belong to groups of neighbouring heads:
//
//	S ← e^(δ·A) · S + δ · x Bᵀ
//	y = S C + D x
//
// Rows of S don't touch each other, so a part takes some rows through all tokens of the pass.
type scanTask struct {
	state  []float32 // [heads][P][N]
	xbc    []float32 // [tokens][heads·P + 2·groups·N]: x, B, C
	delta  []float32 // [tokens][heads]
	decay  []float32 // [tokens][heads]: e^(δ·A)
	direct []float32 // [heads]: D
	out    []float32 // [tokens][heads][P]
	heads  int
	groups int
	p, n   int
	tokens int
	rows   int // rows of a part
	parts  int // parts of a head
}

// scan runs the recurrence over the tokens of a pass.
func (e *engine) scan(t scanTask) {
	t.rows, t.parts = perPart(t.p, 1, 16)
	e.scans = t
	e.pool.run(&e.scans, t.parts*t.heads)
}

func (t *scanTask) part(_, i int) {
	head := i / t.parts
	lo := i % t.parts * t.rows
	hi := min(lo+t.rows, t.p)
	group := head / (t.heads / t.groups)
	skip := t.heads*t.p + 2*t.groups*t.n
	for r := lo; r < hi; r++ {
		at := (head*t.p + r) * t.n
		s := t.state[at : at+t.n]
		for tok := range t.tokens {
			xbc := t.xbc[tok*skip : (tok+1)*skip]
			b := xbc[t.heads*t.p+group*t.n:][:t.n]
			c := xbc[t.heads*t.p+(t.groups+group)*t.n:][:t.n]
			x := xbc[head*t.p+r]
			y := scanDot(s, t.decay[tok*t.heads+head], b, t.delta[tok*t.heads+head]*x, c)
			t.out[(tok*t.heads+head)*t.p+r] = y + t.direct[head]*x
		}
	}
}

// scanDot makes s decay·s + u·b and returns s·c.
func scanDot(s []float32, decay float32, b []float32, u float32, c []float32) float32 {
	b, c = b[:len(s)], c[:len(s)]
	var sums [4]float32
	for len(s) >= 4 && len(b) >= 4 && len(c) >= 4 {
		w, x, y, z := decay*s[0]+u*b[0], decay*s[1]+u*b[1], decay*s[2]+u*b[2], decay*s[3]+u*b[3]
		s[0], s[1], s[2], s[3] = w, x, y, z
		sums[0] += w * c[0]
		sums[1] += x * c[1]
		sums[2] += y * c[2]
		sums[3] += z * c[3]
		s, b, c = s[4:], b[4:], c[4:]
	}
	for i := range s {
		s[i] = decay*s[i] + u*b[i]
		sums[0] += s[i] * c[i]
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}
