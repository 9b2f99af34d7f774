package runtime

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gguf-forge/internal/fault"
)

// SamplerOptions say how the next token is chosen. The zero value takes the most likely one. Steps apply in the order of the
// fields: penalties, DRY, top-k, top-p, min-p, temperature, draw.
type SamplerOptions struct {
	// Penalties for tokens among the last PenaltyWindow accepted ones (0: 64; negative: all).
	PenaltyWindow    int
	RepeatPenalty    float32 // positive logits are divided by it, others multiplied; 0 and 1: off
	PresencePenalty  float32 // subtracted once
	FrequencyPenalty float32 // subtracted for every occurrence

	// DRY lowers tokens that would prolong a repetition of DRYAllowed tokens or more, by DRYMultiplier · DRYBase^(length −
	// DRYAllowed). 0: off. Repetitions don't reach across a breaker.
	DRYMultiplier float32
	DRYBase       float32 // 0: 1.75
	DRYAllowed    int     // 0: 2
	DRYWindow     int     // accepted tokens looked at; 0: 1024; negative: all
	DRYBreakers   []int32

	TopK        int     // the k most likely tokens; 0: all
	TopP        float32 // of those the fewest that have this probability together; 0 and 1: all
	MinP        float32 // of those the ones at least this likely relative to the first; 0: all
	Temperature float32 // 0: the most likely token, without a draw
	Seed        uint64  // the same seed gives the same draws
}

// Sampler chooses tokens. It is for one goroutine.
type Sampler struct {
	opt     SamplerOptions
	random  *rand.Rand
	history []int32         // accepted tokens, as many as the windows need
	keep    int             // how many those are; 0: all
	counts  map[int32]int32 // occurrences in the penalty window

	candidates []candidate
	patched    []candidate // logits as they were
	matches    []int32     // DRY: see longestMatches
	repeats    map[int32]int32
}

type candidate struct {
	id    int32
	logit float32
}

// NewSampler checks the options.
func NewSampler(opt SamplerOptions) (*Sampler, error) {
	for _, f := range []struct {
		name string
		v    float32
		ok   bool
	}{
		{"temperature", opt.Temperature, opt.Temperature >= 0},
		{"top-p", opt.TopP, opt.TopP >= 0 && opt.TopP <= 1},
		{"min-p", opt.MinP, opt.MinP >= 0 && opt.MinP <= 1},
		{"repeat penalty", opt.RepeatPenalty, opt.RepeatPenalty >= 0},
		{"presence penalty", opt.PresencePenalty, true},
		{"frequency penalty", opt.FrequencyPenalty, true},
		{"DRY multiplier", opt.DRYMultiplier, opt.DRYMultiplier >= 0},
		{"DRY base", opt.DRYBase, opt.DRYBase == 0 || opt.DRYBase >= 1},
	} {
		if !f.ok || math.IsInf(float64(f.v), 0) || math.IsNaN(float64(f.v)) {
			return nil, fault.New(fault.Usage, "a %s of %g makes no sense", f.name, f.v)
		}
	}
	if opt.TopK < 0 || opt.DRYAllowed < 0 {
		return nil, fault.New(fault.Usage, "top-k %d and the length %d that DRY allows must not be negative", opt.TopK, opt.DRYAllowed)
	}
	setDefault(&opt.PenaltyWindow, 64)
	setDefault(&opt.RepeatPenalty, 1)
	setDefault(&opt.DRYBase, 1.75)
	setDefault(&opt.DRYAllowed, 2)
	setDefault(&opt.DRYWindow, 1024)
	s := &Sampler{opt: opt, counts: map[int32]int32{}, repeats: map[int32]int32{}}
	if opt.PenaltyWindow > 0 && opt.DRYWindow > 0 {
		s.keep = max(opt.PenaltyWindow, opt.DRYWindow)
	}
	s.Reset()
	return s, nil
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// Reset forgets the accepted tokens and starts the draws anew.
func (s *Sampler) Reset() {
	s.random = rand.New(rand.NewPCG(s.opt.Seed, 0x9E3779B97F4A7C15))
	s.history = s.history[:0]
	clear(s.counts)
}

// Accept takes note of a token of the sequence: of the prompt, or chosen by other means.
func (s *Sampler) Accept(id int32) {
	s.history = append(s.history, id)
	s.counts[id]++
	if w := s.opt.PenaltyWindow; w > 0 && len(s.history) > w {
		old := s.history[len(s.history)-1-w]
		if s.counts[old]--; s.counts[old] == 0 {
			delete(s.counts, old)
		}
	}
	if s.keep > 0 && len(s.history) >= 2*s.keep { // drop what no window sees any more, now and then
		n := copy(s.history, s.history[len(s.history)-s.keep:])
		s.history = s.history[:n]
	}
}

// Next chooses a token and accepts it. Tokens whose logits are −∞ or NaN are never chosen; it is an error if all are. The
// logits are unchanged afterwards.
func (s *Sampler) Next(logits []float32) (int32, error) {
	s.patched = s.patched[:0]
	s.penalize(logits)
	s.dry(logits)
	id := s.choose(logits)
	for _, c := range slices.Backward(s.patched) {
		logits[c.id] = c.logit
	}
	if id < 0 {
		return 0, fault.New(fault.BadInput, "no token can be chosen: all %d logits are −∞ or no numbers", len(logits))
	}
	s.Accept(id)
	return id, nil
}

// patch changes a logit until Next is done. Tokens outside the vocabulary, from another model, are passed over.
func (s *Sampler) patch(logits []float32, id int32, to func(float32) float32) {
	if id >= 0 && int(id) < len(logits) {
		s.patched = append(s.patched, candidate{id, logits[id]})
		logits[id] = to(logits[id])
	}
}

func (s *Sampler) penalize(logits []float32) {
	o := &s.opt
	if o.RepeatPenalty == 1 && o.PresencePenalty == 0 && o.FrequencyPenalty == 0 {
		return
	}
	for id, count := range s.counts {
		s.patch(logits, id, func(v float32) float32 {
			if v > 0 {
				v /= o.RepeatPenalty
			} else {
				v *= o.RepeatPenalty
			}
			return v - o.PresencePenalty - float32(count)*o.FrequencyPenalty
		})
	}
}

// dry finds, for every token that once followed what the sequence ends in, how long that repetition is.
func (s *Sampler) dry(logits []float32) {
	o := &s.opt
	if o.DRYMultiplier == 0 {
		return
	}
	h := s.history
	if o.DRYWindow > 0 && len(h) > o.DRYWindow {
		h = h[len(h)-o.DRYWindow:]
	}
	limit := len(h) // repetitions are counted back to the last breaker
	for i, id := range slices.Backward(h) {
		if slices.Contains(o.DRYBreakers, id) {
			limit = len(h) - 1 - i
			break
		}
	}
	if limit < o.DRYAllowed {
		return
	}
	clear(s.repeats)
	s.longestMatches(h)
	for i := range len(h) - 1 {
		n := min(int(s.matches[i]), limit)
		if next := h[i+1]; n >= o.DRYAllowed && int32(n) > s.repeats[next] && !slices.Contains(o.DRYBreakers, next) {
			s.repeats[next] = int32(n)
		}
	}
	for id, n := range s.repeats {
		penalty := o.DRYMultiplier * float32(math.Pow(float64(o.DRYBase), float64(int(n)-o.DRYAllowed)))
		s.patch(logits, id, func(v float32) float32 { return v - penalty })
	}
}

// longestMatches sets matches[i] to the length of the longest common suffix of h[:i+1] and h. It is the Z function of h
// read backwards.
func (s *Sampler) longestMatches(h []int32) {
	n := len(h)
	s.matches = slices.Grow(s.matches[:0], n)[:n]
	z := func(i int) *int32 { return &s.matches[n-1-i] } // of the suffix that starts i from the end
	at := func(i int) int32 { return h[n-1-i] }
	lo, hi := 0, 0
	for i := 1; i < n; i++ {
		k := 0
		if i < hi {
			k = min(hi-i, int(*z(i - lo)))
		}
		for i+k < n && at(k) == at(i+k) {
			k++
		}
		*z(i) = int32(k)
		if i+k > hi {
			lo, hi = i, i+k
		}
	}
	if n > 0 {
		*z(0) = int32(n)
	}
}

// choose returns a token, −1 if there is none to choose.
func (s *Sampler) choose(logits []float32) int32 {
	if s.opt.Temperature == 0 {
		best, top := int32(-1), float32(math.Inf(-1))
		for i, v := range logits {
			if v > top {
				best, top = int32(i), v
			}
		}
		return best
	}
	s.collect(logits)
	if len(s.candidates) == 0 {
		return -1
	}
	s.cut()
	return s.draw()
}

// collect gathers the tokens that pass top-k, the likeliest first; without top-k only the first has its place. It keeps the
// best k seen so far in a heap whose root is the worst of them, so that almost all tokens cost one comparison.
func (s *Sampler) collect(logits []float32) {
	k := s.opt.TopK
	if k == 0 || k > len(logits) {
		k = len(logits)
	}
	list := slices.Grow(s.candidates[:0], k)
	for i, v := range logits {
		c := candidate{int32(i), v}
		switch {
		case !(v > float32(math.Inf(-1))):
		case len(list) < k:
			if list = append(list, c); len(list) == k && k < len(logits) {
				heapify(list, worse)
			}
		case v > list[0].logit: // of equals the first ones stay
			list[0] = c
			sink(list, 0, worse)
		}
	}
	if k < len(logits) {
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
		})
	} else if len(list) > 0 {
		heapify(list, better)
	}
	s.candidates = list
}

// heapify makes a heap: no candidate comes before the one above it.
func heapify(heap []candidate, before func(a, b candidate) bool) {
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i, before)
	}
}

// sink restores the heap below i.
func sink(heap []candidate, i int, before func(a, b candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && before(heap[child+1], heap[child]) {
			child++
		}
		if !before(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// worse and better order candidates; of equal logits the later token is worse.
func worse(a, b candidate) bool  { return a.logit < b.logit || a.logit == b.logit && a.id > b.id }
func better(a, b candidate) bool { return worse(b, a) }

// cut applies top-p and min-p. The first candidate is the best one and stays.
func (s *Sampler) cut() {
	top := float64(s.candidates[0].logit)
	if p := float64(s.opt.TopP); p > 0 && p < 1 {
		s.cutMass(top, p)
	}
	if p := float64(s.opt.MinP); p > 0 {
		least := top + math.Log(p)
		rest := slices.DeleteFunc(s.candidates[1:], func(c candidate) bool { return float64(c.logit) < least })
		s.candidates = s.candidates[:1+len(rest)]
	}
}

// cutMass keeps the fewest candidates that have a share p of the probability. It takes them from a heap, best first, to the end of
// the list: a sorted list is such a heap too, and few of all tokens have to be sorted.
func (s *Sampler) cutMass(top, p float64) {
	list := s.candidates
	total := 0.0
	for _, c := range list {
		total += math.Exp(float64(c.logit) - top)
	}
	n := len(list)
	for sum := 0.0; n > 0 && sum < p*total; {
		sum += math.Exp(float64(list[0].logit) - top)
		n--
		list[0], list[n] = list[n], list[0]
		sink(list[:n], 0, better)
	}
	s.candidates = list[:copy(list, list[n:])]
	slices.Reverse(s.candidates)
}

// draw takes one of the candidates with probability ∝ e^(logit/temperature).
func (s *Sampler) draw() int32 {
	list, t := s.candidates, float64(s.opt.Temperature)
	top := float64(list[0].logit)
	if math.IsInf(top, 1) {
		return list[0].id
	}
	total := 0.0
	for _, c := range list {
		total += math.Exp((float64(c.logit) - top) / t)
	}
	u := s.random.Float64() * total
	for _, c := range list {
		if u -= math.Exp((float64(c.logit) - top) / t); u < 0 {
			return c.id
		}
	}
	return list[len(list)-1].id
}

// Top returns the ids of the n largest logits, the largest first, of equals the smaller id. Those that are −∞ or NaN are left
// out.
func Top(logits []float32, n int) []int32 {
	s := Sampler{opt: SamplerOptions{TopK: n}}
	s.collect(logits)
	slices.SortFunc(s.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
	})
	ids := make([]int32, len(s.candidates))
	for i, c := range s.candidates {
		ids[i] = c.id
	}
	return ids
}
