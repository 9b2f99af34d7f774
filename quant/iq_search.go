package quant

import (
	"math"

	"gguf-forge/kernels"
)

// latticeFormat says how one of the types iq2_xxs, iq2_xs, iq2_s, iq3_xxs and iq3_s is searched. They
// share the search below: a sub-block is scale × signs × grid points, points have the odd
// coordinates 2·digit+1, and the best scale is found by trying some, rounding the values to points
// and solving for the scale that fits these points best.
type latticeFormat struct {
	grid   func() *grid
	sub    int       // values in a sub-block
	group  int       // values in a grid point: 8 with digits 0 to 2, or 4 with digits 0 to 7
	trials []float32 // the reciprocal scales to try, times the sub-block's largest value

	sigma      float32 // the mean square is sigma·sum/256
	plainSigma float32 // without importance an element weighs plainSigma·(mean square) + x·x
	evenSigns  bool    // the number of negatives in an octet must be even
	zero       float32 // sub-blocks whose largest value is below it (or zero) are skipped
	fitFirst   bool    // searchPositive finds the first scale, and its largest value takes the place of the data's
	refine     refinement
	factor     float32 // on the stored scale
}

// refinement says which groups are rounded once more to the scale that was found.
type refinement int

const (
	refineOff      refinement = iota // those that were off the grid
	refineAllIfOff                   // all, if one was off the grid or no trial was any good
	refineAll                        // all
)

// trialScales lists middle + k·step for k from −n to n.
func trialScales(middle float32, n int, step float32) []float32 {
	trials := make([]float32, 0, 2*n+1)
	for k := -n; k <= n; k++ {
		trials = append(trials, middle+float32(float32(k)*step))
	}
	return trials
}

// latticeSearch is the result of encoding one super-block, and the memory to get there.
type latticeSearch struct {
	format *latticeFormat
	grid   *grid

	index [superBlock / 4]uint16 // grid point per group
	signs [superBlock / 8]uint8  // per octet, a set bit is a minus
	empty [superBlock / 16]bool  // per sub-block, whether it was skipped
	code  [superBlock / 16]uint8 // per sub-block, its scale as a 4-bit number
	d     uint16                 // the scale of the super-block
	zero  bool                   // all scales are zero

	scales [superBlock / 16]float32

	// The sub-block at hand: magnitudes (negative where evenSigns forced the wrong sign on an
	// element), weights and their roots.
	x, weight, root [32]float32
	levels          [32]uint8
	// The terms (w·x)·q and (w·q)·q of the two sums, per element and digit.
	wxq, wqq [256]float32
	// The scale at hand: its reciprocal, and its product with the coordinate of every digit.
	id float32
	q  [8]float32
	// The points of a trial and of the best one so far.
	trial, best groupPoints
}

// groupPoints are the grid points chosen for the groups of a sub-block.
type groupPoints struct {
	index [8]uint16
	off   [8]bool // the rounded values were not a point themselves
}

// block encodes super-block n of src, rows of cols values with the importance w, or none.
func (s *latticeSearch) block(f *latticeFormat, src []float32, n, cols int, w []float32) {
	s.format, s.grid = f, f.grid()
	x := src[n*superBlock:][:superBlock]
	column := n * superBlock % cols
	sigma2 := f.sigma * sumSquares(x) / superBlock

	s.index, s.signs = [len(s.index)]uint16{}, [len(s.signs)]uint8{}
	var largest float32
	for j := range superBlock / f.sub {
		from := j * f.sub
		s.weigh(x[from:][:f.sub], w, column+from, sigma2)
		signs := s.signs[from/8:][:f.sub/8]
		s.split(signs, x[from:][:f.sub])
		scale, ok := s.fit()
		s.empty[j] = !ok
		if !ok {
			s.scales[j] = 0
			clear(signs)
			continue
		}
		if scale < 0 {
			scale = -scale
			for i := range signs {
				signs[i] = ^signs[i]
			}
		}
		copy(s.index[from/f.group:], s.best.index[:f.sub/f.group])
		s.scales[j] = scale
		if scale > largest {
			largest = scale
		}
	}

	s.zero, s.d = largest == 0, 0
	s.code = [len(s.code)]uint8{}
	if s.zero {
		return
	}
	d := largest / 31
	s.d = f16(d * f.factor)
	id := 1 / d
	for j, scale := range s.scales[:superBlock/f.sub] {
		s.code[j] = uint8(digit(id, scale, 15))
	}
}

// weigh sets the weights of a sub-block that starts at a column; w is the importance of its row, or nil.
func (s *latticeSearch) weigh(x, w []float32, column int, sigma2 float32) {
	weight := s.weight[:len(x)]
	switch plain := s.format.plainSigma; {
	case w != nil:
		kernels.Weigh(weight, w[column:][:len(x)], x, sigma2)
	case plain > 0:
		for i, v := range x {
			weight[i] = float32(plain*sigma2) + float32(v*v)
		}
	default:
		for i, v := range x {
			weight[i] = v * v
		}
	}
	for i, v := range weight {
		s.root[i] = sqrt32(v)
	}
}

// split sets the magnitudes of a sub-block and the sign bits of its octets.
func (s *latticeSearch) split(signs []uint8, sub []float32) {
	for o := range signs {
		octet := sub[8*o:][:8]
		x := s.x[8*o:][:8]
		var bits uint8
		odd := false
		for i, v := range octet {
			x[i] = v
			if !(v >= 0) {
				x[i] = -v
				bits |= 1 << i
				odd = !odd
			}
		}
		if odd && s.format.evenSigns {
			// The element that costs least gets the wrong sign.
			least, cost := 0, float32(0)
			for i, v := range octet {
				c := s.weight[8*o+i] * v * v
				if i == 0 || c < cost {
					least, cost = i, c
				}
			}
			x[least] = -x[least]
			bits ^= 1 << least
		}
		signs[o] = bits
	}
}

// fit finds the scale and the points (in s.best) of the sub-block at hand. It reports false if the
// sub-block counts as zero.
func (s *latticeSearch) fit() (scale float32, ok bool) {
	f := s.format
	x := s.x[:f.sub]
	largest := x[0]
	for _, v := range x[1:] {
		if v > largest {
			largest = v
		}
	}
	if largest < f.zero || largest == 0 {
		return 0, false
	}
	if f.fitFirst {
		scale = searchPositive(4, x, s.weight[:f.sub], s.levels[:f.sub])
		largest = scale * 3
		if largest <= 0 {
			return 0, false
		}
	} else {
		scale = largest / f.trials[len(f.trials)/2]
	}

	s.tabulate()
	s.best = groupPoints{}
	for g := range s.best.off {
		s.best.off[g] = f.refine != refineOff
	}
	var best float32
	for _, trial := range f.trials {
		id := trial / largest
		s.aim(id, 1/id)
		for g := range f.sub / f.group {
			s.trial.index[g], s.trial.off[g] = s.point(g)
		}
		sqx, sq2 := s.sums(&s.trial)
		if sq2 > 0 && float32(sqx*sqx) > float32(best*sq2) {
			scale = sqx / sq2
			best = scale * sqx
			s.best = s.trial
		}
	}

	off := f.refine == refineAll
	for g := range f.sub / f.group {
		off = off || s.best.off[g]
	}
	if !(scale > 0) || !off {
		return scale, true
	}
	s.aim(1/scale, scale)
	for g := range f.sub / f.group {
		if s.best.off[g] || f.refine != refineOff {
			s.best.index[g], _ = s.point(g)
		}
	}
	if sqx, sq2 := s.sums(&s.best); sq2 > 0 {
		scale = sqx / sq2
	}
	return scale, true
}

// tabulate fills the tables of terms.
func (s *latticeSearch) tabulate() {
	digits, stride := 3, 4
	if s.format.group == 4 {
		digits, stride = 8, 8
	}
	for i := range s.format.sub {
		w := s.weight[i]
		wx := w * s.x[i]
		for digit := range digits {
			q := float32(2*digit + 1)
			s.wxq[i*stride+digit] = float32(wx * q)
			s.wqq[i*stride+digit] = float32(w * q * q)
		}
	}
}

// sums adds up w·x·q and w·q·q over the sub-block.
func (s *latticeSearch) sums(p *groupPoints) (sqx, sq2 float32) {
	codes := s.grid.codes
	if s.format.group == 8 {
		at := 0
		for _, index := range p.index[:s.format.sub/8] {
			code := int(codes[index])
			for range 8 {
				term := uint8(at | code&3)
				sqx += s.wxq[term]
				sq2 += s.wqq[term]
				at += 4
				code >>= 2
			}
		}
		return sqx, sq2
	}
	at := 0
	for _, index := range p.index[:s.format.sub/4] {
		code := int(codes[index])
		for range 4 {
			term := uint8(at | code&7)
			sqx += s.wxq[term]
			sq2 += s.wqq[term]
			at += 8
			code >>= 3
		}
	}
	return sqx, sq2
}

// aim sets the coordinates of a scale and its reciprocal, for point.
func (s *latticeSearch) aim(id, scale float32) {
	s.id = id
	for digit := range s.q {
		s.q[digit] = float32(scale * float32(2*digit+1))
	}
}

// point rounds group g to the grid.
func (s *latticeSearch) point(g int) (index uint16, off bool) {
	id := s.id
	if s.format.group == 8 {
		x := (*[8]float32)(s.x[8*g:])
		key := digit(id, x[0], 2)
		key = key*3 + digit(id, x[1], 2)
		key = key*3 + digit(id, x[2], 2)
		key = key*3 + digit(id, x[3], 2)
		key = key*3 + digit(id, x[4], 2)
		key = key*3 + digit(id, x[5], 2)
		key = key*3 + digit(id, x[6], 2)
		key = key*3 + digit(id, x[7], 2)
		at := s.grid.at[key]
		if at >= 0 {
			return uint16(at), false
		}
		return s.grid.nearest8(^at, x, (*[8]float32)(s.root[8*g:]), (*[3]float32)(s.q[:])), true
	}
	x := (*[4]float32)(s.x[4*g:])
	key := digit(id, x[0], 7)<<9 | digit(id, x[1], 7)<<6 | digit(id, x[2], 7)<<3 | digit(id, x[3], 7)
	at := s.grid.at[key]
	if at >= 0 {
		return uint16(at), false
	}
	return s.grid.nearest4(^at, x, (*[4]float32)(s.root[4*g:]), &s.q), true
}

// digit rounds id·x to the nearest coordinate 2·digit+1 with digit from 0 to most.
func digit(id, x float32, most int32) int32 {
	return min(most, max(0, ri(0.5*(float32(id*x)-1))))
}

// slack is more than the error that adding up eight terms in another order can make, relative to the sum,
// as long as no term is negative.
const slack = 1 + 0x1p-19

// nearest8 returns the point of the list at near[list:] for which Σ w·(q − x)² is smallest, the first
// of them where several are; q has the values that the digits 0 to 2 stand for.
func (g *grid) nearest8(list int32, x, w *[8]float32, q *[3]float32) uint16 {
	// The terms of the sum, per element and digit, and their sums for two elements at a time: with these
	// most points are found to be too far without adding up all terms in order.
	var term [32]float32
	var pair [64]float32
	prune := true
	for i := 0; i < 8; i += 2 {
		wa, wb := w[i], w[i+1]
		if wa < 0 || wb < 0 {
			prune = false
		}
		a0, a1, a2 := q[0]-x[i], q[1]-x[i], q[2]-x[i]
		a0, a1, a2 = float32(wa*a0*a0), float32(wa*a1*a1), float32(wa*a2*a2)
		b0, b1, b2 := q[0]-x[i+1], q[1]-x[i+1], q[2]-x[i+1]
		b0, b1, b2 = float32(wb*b0*b0), float32(wb*b1*b1), float32(wb*b2*b2)
		t := (*[8]float32)(term[4*i:])
		t[0], t[1], t[2], t[4], t[5], t[6] = a0, a1, a2, b0, b1, b2
		p := (*[16]float32)(pair[8*i:])
		p[0], p[1], p[2] = a0+b0, a1+b0, a2+b0
		p[4], p[5], p[6] = a0+b1, a1+b1, a2+b1
		p[8], p[9], p[10] = a0+b2, a1+b2, a2+b2
	}
	near := g.near[list+1:][:g.near[list]]
	found, least, bound := near[0], float32(math.MaxFloat32), float32(math.Inf(1))
	for _, index := range near {
		code := g.codes[index]
		if pair[code&15]+pair[16|code>>4&15]+(pair[32|code>>8&15]+pair[48|code>>12]) > bound {
			continue
		}
		sum := term[code&3]
		sum += term[4|code>>2&3]
		sum += term[8|code>>4&3]
		sum += term[12|code>>6&3]
		sum += term[16|code>>8&3]
		sum += term[20|code>>10&3]
		sum += term[24|code>>12&3]
		sum += term[28|code>>14&3]
		if sum < least {
			found, least = index, sum
			if prune {
				bound = least * slack
			}
		}
	}
	return found
}

// nearest4 is nearest8 for points of four coordinates with digits from 0 to 7.
func (g *grid) nearest4(list int32, x, w *[4]float32, q *[8]float32) uint16 {
	near := g.near[list+1:][:g.near[list]]
	found, least := near[0], float32(math.MaxFloat32)
	for _, index := range near {
		code := g.codes[index]
		d0, d1, d2, d3 := q[code&7]-x[0], q[code>>3&7]-x[1], q[code>>6&7]-x[2], q[code>>9&7]-x[3]
		sum := float32(w[0] * d0 * d0)
		sum += float32(w[1] * d1 * d1)
		sum += float32(w[2] * d2 * d2)
		sum += float32(w[3] * d3 * d3)
		if sum < least {
			found, least = index, sum
		}
	}
	return found
}
