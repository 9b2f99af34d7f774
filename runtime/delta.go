package runtime

import "math"

// The gated delta rule. Each value head has a state S of dv rows of dk values, kept as [value][key]. For a token with key
// k, value v, query q (divided by √dk), log decay g ≤ 0 and strength β:
//
//	S ← e^g · S              of every key channel alike (DeltaNet), or each with its own g (KDA)
//	u = β (v − S k)
//	S ← S + u kᵀ
//	o = S q
//
// Rows of S don't touch each other, so a part takes some rows through all tokens of the pass.
type deltaTask struct {
	state   []float32 // [heads][dv][dk]
	q, k, v []float32 // [tokens][skip…]: rows of all heads, q and k of keyHeads
	skip    int       // floats from one token to the next in q, k and v
	decay   []float32 // e^g: [tokens][heads], or [tokens][heads][dk]
	beta    []float32 // [tokens][heads]
	out     []float32 // [tokens][heads][dv]
	heads   int       // value heads
	shared  int       // key heads; value head j uses key head j mod shared
	dk, dv  int
	tokens  int
	channel bool // decay by channel
	rows    int  // rows of a part
	parts   int  // parts of a head
}

// delta runs the rule over the tokens of a pass.
func (e *engine) delta(t deltaTask) {
	t.rows, t.parts = perPart(t.dv, 1, 16)
	e.deltas = t
	e.pool.run(&e.deltas, t.parts*t.heads)
}

func (t *deltaTask) part(_, i int) {
	head := i / t.parts
	lo := i % t.parts * t.rows
	hi := min(lo+t.rows, t.dv)
	key := head % t.shared * t.dk
	scale := float32(1 / math.Sqrt(float64(t.dk)))
	for r := lo; r < hi; r++ {
		at := (head*t.dv + r) * t.dk
		s := t.state[at : at+t.dk]
		for tok := range t.tokens {
			from := tok*t.skip + key
			k, q := t.k[from:from+t.dk], t.q[from:from+t.dk]
			var predicted float32
			if t.channel {
				d := (tok*t.heads + head) * t.dk
				predicted = decayEachDot(s, t.decay[d:d+t.dk], k)
			} else {
				predicted = decayDot(s, t.decay[tok*t.heads+head], k)
			}
			u := t.beta[tok*t.heads+head] * (t.v[tok*t.skip+head*t.dv+r] - predicted)
			t.out[(tok*t.heads+head)*t.dv+r] = scale * addDot(s, k, u, q)
		}
	}
}

// decayDot multiplies s by f and returns s·k.
func decayDot(s []float32, f float32, k []float32) float32 {
	k = k[:len(s)]
	var sums [4]float32
	for len(s) >= 4 && len(k) >= 4 {
		a, b, c, d := s[0]*f, s[1]*f, s[2]*f, s[3]*f
		s[0], s[1], s[2], s[3] = a, b, c, d
		sums[0] += a * k[0]
		sums[1] += b * k[1]
		sums[2] += c * k[2]
		sums[3] += d * k[3]
		s, k = s[4:], k[4:]
	}
	for i := range s {
		s[i] *= f
		sums[0] += s[i] * k[i]
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}

// decayEachDot multiplies each s by its f and returns s·k.
func decayEachDot(s, f, k []float32) float32 {
	f, k = f[:len(s)], k[:len(s)]
	var sums [4]float32
	for len(s) >= 4 && len(k) >= 4 && len(f) >= 4 {
		a, b, c, d := s[0]*f[0], s[1]*f[1], s[2]*f[2], s[3]*f[3]
		s[0], s[1], s[2], s[3] = a, b, c, d
		sums[0] += a * k[0]
		sums[1] += b * k[1]
		sums[2] += c * k[2]
		sums[3] += d * k[3]
		s, f, k = s[4:], f[4:], k[4:]
	}
	for i := range s {
		s[i] *= f[i]
		sums[0] += s[i] * k[i]
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}

// addDot adds u·k to s and returns s·q.
func addDot(s, k []float32, u float32, q []float32) float32 {
	k, q = k[:len(s)], q[:len(s)]
	var sums [4]float32
	for len(s) >= 4 && len(k) >= 4 && len(q) >= 4 {
		a, b, c, d := s[0]+u*k[0], s[1]+u*k[1], s[2]+u*k[2], s[3]+u*k[3]
		s[0], s[1], s[2], s[3] = a, b, c, d
		sums[0] += a * q[0]
		sums[1] += b * q[1]
		sums[2] += c * q[2]
		sums[3] += d * q[3]
		s, k, q = s[4:], k[4:], q[4:]
	}
	for i := range s {
		s[i] += u * k[i]
		sums[0] += s[i] * q[i]
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}
