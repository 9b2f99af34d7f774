package runtime

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newSampler(t testing.TB, opt SamplerOptions) *Sampler {
	t.Helper()
	s, err := NewSampler(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s *Sampler, logits []float32) int32 {
	t.Helper()
	id, err := s.Next(logits)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSamplerGreedy(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{3, 3, 2}, 0},
		{[]float32{inf, nan, -7, inf}, 2},
		{[]float32{float32(math.Inf(1)), 2}, 0},
	} {
		if got := next(t, newSampler(t, SamplerOptions{}), c.logits); got != c.want {
			t.Errorf("%v: token %d, want %d", c.logits, got, c.want)
		}
	}
	for _, opt := range []SamplerOptions{{}, {Temperature: 1}, {Temperature: 1, TopK: 3, TopP: 0.5, MinP: 0.5}} {
		if id, err := newSampler(t, opt).Next([]float32{inf, nan, inf}); err == nil {
			t.Errorf("token %d was chosen of none", id)
		}
	}
}

// TestSamplerCandidates compares the heap and the cuts with a sort of everything.
func TestSamplerCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-9, 9), 1, 60).Draw(t, "logits")
		if rapid.Bool().Draw(t, "coarse") { // many equals
			for i := range logits {
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		}
		for i := range logits {
			if rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		opt := SamplerOptions{Temperature: 1, TopK: rapid.IntRange(0, 70).Draw(t, "k"),
			TopP: rapid.SampledFrom([]float32{0, 0.1, 0.5, 0.9, 1}).Draw(t, "p"), MinP: rapid.SampledFrom([]float32{0, 0.05, 0.5, 1}).Draw(t, "min")}
		s, err := NewSampler(opt)
		if err != nil {
			t.Fatal(err)
		}
		s.collect(logits)
		if len(s.candidates) > 0 {
			s.cut()
		}
		var got []int32
		for _, c := range s.candidates {
			got = append(got, c.id)
		}
		if opt.TopK == 0 || opt.TopK >= len(logits) { // in no order but for the first
			slices.SortFunc(got[min(1, len(got)):], func(a, b int32) int {
				return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
			})
		}
		if diff := gocmp.Diff(sortedCandidates(logits, opt), got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func sortedCandidates(logits []float32, o SamplerOptions) []int32 {
	var ids []int32
	for i, v := range logits {
		if !math.IsInf(float64(v), -1) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	if o.TopK > 0 && len(ids) > o.TopK {
		ids = ids[:o.TopK]
	}
	if len(ids) == 0 {
		return nil
	}
	weight := func(id int32) float64 { return math.Exp(float64(logits[id]) - float64(logits[ids[0]])) }
	if o.TopP > 0 && o.TopP < 1 {
		total := 0.0
		for _, id := range ids {
			total += weight(id)
		}
		sum, n := 0.0, 0
		for n < len(ids) && sum < float64(o.TopP)*total {
			sum += weight(ids[n])
			n++
		}
		ids = ids[:n]
	}
	if o.MinP > 0 {
		n := 1
		for n < len(ids) && float64(logits[ids[n]]) >= float64(logits[ids[0]])+math.Log(float64(o.MinP)) {
			n++
		}
		ids = ids[:n]
	}
	return ids
}

func TestSamplerDraws(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(5)), float32(math.Inf(-1))}
	s := newSampler(t, SamplerOptions{Temperature: 1, Seed: 7})
	counts := make([]float64, 4)
	const n = 8000
	var first []int32
	for range n {
		id := next(t, s, logits)
		counts[id]++
		first = append(first, id)
	}
	for i, p := range []float64{1.0 / 8, 2.0 / 8, 5.0 / 8, 0} {
		if sigma := math.Sqrt(p * (1 - p) / n); math.Abs(counts[i]/n-p) > 5*sigma {
			t.Errorf("token %d was drawn with frequency %.3f, not %.3f", i, counts[i]/n, p)
		}
	}
	s.Reset()
	for i := range 100 {
		if id := next(t, s, logits); id != first[i] {
			t.Fatalf("draw %d after a reset is %d, not %d", i, id, first[i])
		}
	}
	if same := newSampler(t, SamplerOptions{Temperature: 1, Seed: 8}); func() bool {
		for i := range 40 {
			if next(t, same, logits) != first[i] {
				return false
			}
		}
		return true
	}() {
		t.Error("another seed gave the same draws")
	}
	cold := newSampler(t, SamplerOptions{Temperature: 0.01, Seed: 1})
	for range 100 {
		if id := next(t, cold, logits); id != 2 {
			t.Fatalf("token %d at temperature 0.01", id)
		}
	}
}

func TestSamplerPenalties(t *testing.T) {
	s := newSampler(t, SamplerOptions{RepeatPenalty: 2, PenaltyWindow: 3})
	logits := []float32{8, 7, 6, 5, -1}
	var got []int32
	for range 6 {
		got = append(got, next(t, s, logits))
	}
	// Halved for three turns each: 8 7 6 5, then 8/2 has left the window.
	if diff := gocmp.Diff([]int32{0, 1, 2, 3, 0, 1}, got); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]float32{8, 7, 6, 5, -1}, logits); diff != "" {
		t.Error("the logits were changed: ", diff)
	}

	s = newSampler(t, SamplerOptions{PresencePenalty: 0.5, FrequencyPenalty: 1, PenaltyWindow: -1})
	got = nil
	for range 5 {
		got = append(got, next(t, s, []float32{3, 2.4, 1}))
	}
	// 3; 1.5 < 2.4; 1.5 > 0.9; 0.5 < 0.9, 1; all of 1: 0.5, 0.9, −0.5
	if diff := gocmp.Diff([]int32{0, 1, 0, 2, 1}, got); diff != "" {
		t.Error(diff)
	}

	s = newSampler(t, SamplerOptions{RepeatPenalty: 2})
	s.Accept(0)
	s.Accept(99) // of another vocabulary
	s.Accept(-1)
	if id := next(t, s, []float32{-1, -1.5}); id != 1 {
		t.Errorf("a negative logit was not lowered: token %d", id)
	}
}

func TestSamplerDRY(t *testing.T) {
	accept := func(s *Sampler, ids ...int32) {
		for _, id := range ids {
			s.Accept(id)
		}
	}
	logits := []float32{0, 1, 1, 1, 5, 4, 0, 0, 0, 0}
	s := newSampler(t, SamplerOptions{DRYMultiplier: 1, DRYBase: 2, DRYAllowed: 2})
	accept(s, 1, 2, 3, 4, 9, 1, 2, 3) // 4 would prolong three tokens: penalty 2
	if id := next(t, s, logits); id != 5 {
		t.Errorf("token %d prolongs a repetition", id)
	}
	s.Reset()
	accept(s, 7, 3, 4, 9, 8, 3) // one token is allowed
	if id := next(t, s, logits); id != 4 {
		t.Errorf("token %d: a repetition of one token was punished", id)
	}
	s = newSampler(t, SamplerOptions{DRYMultiplier: 1, DRYBase: 2, DRYAllowed: 2, DRYBreakers: []int32{2}})
	accept(s, 1, 2, 3, 4, 9, 1, 2, 3)
	if id := next(t, s, logits); id != 4 {
		t.Errorf("token %d: a repetition reached across a breaker", id)
	}
	s = newSampler(t, SamplerOptions{DRYMultiplier: 1, DRYBase: 2, DRYWindow: 4})
	accept(s, 1, 2, 3, 4, 9, 1, 2, 3)
	if id := next(t, s, logits); id != 4 {
		t.Errorf("token %d: a repetition beyond the window was punished", id)
	}
}

// TestSamplerMatches compares the linear algorithm with the definition.
func TestSamplerMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SliceOfN(rapid.Int32Range(0, 2), 0, 40).Draw(t, "history")
		s, _ := NewSampler(SamplerOptions{})
		s.longestMatches(h)
		for i := range h {
			n := 0
			for n <= i && h[i-n] == h[len(h)-1-n] {
				n++
			}
			if int(s.matches[i]) != n {
				t.Fatalf("%v: %d at %d, want %d", h, s.matches[i], i, n)
			}
		}
	})
}

func TestSamplerOptionsRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, opt := range []SamplerOptions{{Temperature: -1}, {Temperature: nan}, {TopP: 1.5}, {TopP: -1}, {MinP: 2}, {TopK: -1}, {RepeatPenalty: -1},
		{DRYBase: 0.5}, {DRYMultiplier: nan}, {DRYAllowed: -1}, {PresencePenalty: nan}, {FrequencyPenalty: float32(math.Inf(1))}} {
		if _, err := NewSampler(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

func TestSamplerAllocations(t *testing.T) {
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(i*7919%5000) / 500
	}
	s := newSampler(t, SamplerOptions{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, PenaltyWindow: 64, DRYMultiplier: 0.8, DRYWindow: 128})
	for range 1000 {
		next(t, s, logits)
	}
	if n := testing.AllocsPerRun(100, func() { next(t, s, logits) }); n > 0 {
		t.Errorf("%g allocations per token", n)
	}
}

func BenchmarkSampler(b *testing.B) {
	logits := make([]float32, 151669)
	r := uint32(1)
	for i := range logits {
		r = r*1664525 + 1013904223
		logits[i] = float32(r>>8)/float32(1<<24)*20 - 10
	}
	for _, c := range []struct {
		name string
		opt  SamplerOptions
	}{
		{"greedy", SamplerOptions{}},
		{"top-40", SamplerOptions{Temperature: 0.8, TopK: 40, MinP: 0.05, RepeatPenalty: 1.1}},
		{"top-p", SamplerOptions{Temperature: 0.8, TopP: 0.9}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSampler(b, c.opt)
			b.ReportAllocs()
			for b.Loop() {
				next(b, s, logits)
			}
		})
	}
}
