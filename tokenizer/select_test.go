package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gguf-forge/internal/fault"
)

// demoTokens is testdata/demo-tokens.json: token counts of the demo model's texts, the rule of its pruned head in words and
// its result, computed by a script of the demo model's own with another tokenizer library.
type demoTokens struct {
	Counts   map[string][]uint64
	Budget   int
	Kept     []uint32
	Zero     int                       `json:"kept_with_zero_score"`
	Coverage map[string]map[string]any // of the held-out texts, which are other texts than those of Counts
}

func readDemoTokens(t *testing.T) demoTokens {
	t.Helper()
	b, err := os.ReadFile("testdata/demo-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var d demoTokens
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// demoVocabulary is the demo model's: 256 bytes, merges, three specials, five unused entries.
func demoVocabulary() Vocabulary {
	v := Vocabulary{Size: 2048, Hash: strings.Repeat("5a", 32), Kinds: map[Kind][]uint32{KindSpecial: {2040, 2041, 2042}, KindControl: {2040, 2041, 2042}}}
	for id := range uint32(256) {
		v.Kinds[KindByte] = append(v.Kinds[KindByte], id)
	}
	return v
}

func (d demoTokens) corpora(names ...string) []Counted {
	var list []Counted
	for _, name := range names {
		list = append(list, Counted{Name: name, Counts: d.Counts[name]})
	}
	return list
}

func TestSelectDemo(t *testing.T) {
	d := readDemoTokens(t)
	for _, rule := range []Selection{
		{Always: []Kind{KindSpecial, KindByte}, Share: 0.65, Multiple: 8},
		{Always: []Kind{KindControl, KindByte}, Rows: 1332, Multiple: 8},
		{IDs: "2040-2042", Below: 256, Rows: 1336},
	} {
		t.Run(rule.String(), func(t *testing.T) {
			got, err := rule.Select(demoVocabulary(), d.corpora("en", "ru"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.IDs) != d.Budget {
				t.Errorf("%d ids, want %d", len(got.IDs), d.Budget)
			}
			if diff := cmp.Diff(d.Kept, got.IDs); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			zero := 0
			for _, id := range got.IDs {
				if d.Counts["en"][id]+d.Counts["ru"][id] == 0 {
					zero++
				}
			}
			if zero != d.Zero {
				t.Errorf("%d ids without occurrences, want %d", zero, d.Zero)
			}
		})
	}
}

// small is a vocabulary of ten ids; the counts of a are 9, 8 … 0.
func small(a, b []uint64) (Vocabulary, []Counted) {
	v := Vocabulary{Size: 10, Kinds: map[Kind][]uint32{KindByte: {0, 1}, KindControl: {9}, KindSpecial: {8, 9}}}
	list := []Counted{{Name: "a", Counts: a}}
	if b != nil {
		list = append(list, Counted{Name: "b", Counts: b})
	}
	return v, list
}

func TestSelectRules(t *testing.T) {
	falling := []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}
	rising := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	even := []uint64{5, 0, 5, 0, 5, 0, 5, 0, 5, 0}
	for _, c := range []struct {
		name  string
		rule  Selection
		a, b  []uint64
		want  []uint32
		fixed int
	}{
		{"rows", Selection{Rows: 3}, falling, nil, []uint32{0, 1, 2}, 0},
		{"ties by id", Selection{Rows: 7}, even, nil, []uint32{0, 1, 2, 3, 4, 6, 8}, 0},
		{"share rounds up", Selection{Share: 0.21}, falling, nil, []uint32{0, 1, 2}, 0},
		{"kinds first", Selection{Always: []Kind{KindSpecial}, Rows: 3}, falling, nil, []uint32{0, 8, 9}, 2},
		{"fixed only", Selection{Always: []Kind{KindControl}, Below: 2, IDs: "5,  3-4"}, falling, nil, []uint32{0, 1, 3, 4, 5, 9}, 6},
		{"coverage", Selection{Coverage: 0.5}, falling, nil, []uint32{0, 1, 2}, 0},                                    // 24 of 45
		{"coverage counts what is fixed", Selection{IDs: "8", Coverage: 0.55}, falling, nil, []uint32{0, 1, 2, 8}, 1}, // 25 of 45
		{"coverage of all", Selection{Coverage: 1}, falling, nil, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}, 0},
		{"rows before coverage", Selection{Coverage: 0.9, Rows: 2}, falling, nil, []uint32{0, 1}, 0},
		{"coverage before rows", Selection{Coverage: 0.3, Rows: 9}, falling, nil, []uint32{0, 1}, 0},
		{"minimum count", Selection{MinCount: 6}, falling, nil, []uint32{0, 1, 2, 3}, 0},
		{"minimum count bounds rows", Selection{MinCount: 6, Rows: 8}, falling, nil, []uint32{0, 1, 2, 3}, 0},
		{"multiple takes the next", Selection{Rows: 3, Multiple: 4}, falling, nil, []uint32{0, 1, 2, 3}, 0},
		{"multiple takes below the minimum", Selection{MinCount: 8, Multiple: 4}, falling, nil, []uint32{0, 1, 2, 3}, 0},
		{"multiple of a fixed set goes by frequency", Selection{IDs: "9", Multiple: 2}, falling, nil, []uint32{0, 9}, 1},
		{"multiple that fits", Selection{Rows: 4, Multiple: 4}, falling, nil, []uint32{0, 1, 2, 3}, 0},
		{"sum of two", Selection{Rows: 2}, falling, []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, []uint32{0, 9}, 0},
		{"budget", Selection{Budgets: []Budget{{Corpora: []string{"b"}, Rows: 2}}}, falling, rising, []uint32{8, 9}, 2},
		{"budgets join", Selection{Budgets: []Budget{{Corpora: []string{"b"}, Rows: 2}, {Corpora: []string{"a"}, Rows: 1}}}, falling, rising, []uint32{0, 8, 9}, 3},
		{"budget of both", Selection{Budgets: []Budget{{Corpora: []string{"b", "a"}, Rows: 2}}}, falling, rising, []uint32{0, 1}, 2}, // all scores are equal
		{"budget takes no unseen ids", Selection{Budgets: []Budget{{Corpora: []string{"a"}, Rows: 9}}}, even, nil, []uint32{0, 2, 4, 6, 8}, 5},
		{"budget coverage", Selection{Below: 2, Budgets: []Budget{{Corpora: []string{"a"}, Coverage: 0.5}}}, falling, nil, []uint32{0, 1, 2}, 3},
		{"budget minimum", Selection{Budgets: []Budget{{Corpora: []string{"a"}, MinCount: 8}}}, falling, nil, []uint32{0, 1}, 2},
		{"hybrid of low ids and budgets", Selection{Below: 3, Budgets: []Budget{{Corpora: []string{"b"}, Rows: 1}}, Rows: 5}, falling, rising, []uint32{0, 1, 2, 3, 9}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, corpora := small(c.a, c.b)
			got, err := c.rule.Select(v, corpora, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.IDs); diff != "" || got.Fixed != c.fixed {
				t.Errorf("fixed %d, want %d; ids (-want +got):\n%s", got.Fixed, c.fixed, diff)
			}
		})
	}
}

func TestSelectWeight(t *testing.T) {
	v, corpora := small([]uint64{10, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []uint64{0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	for weight, want := range map[float64]uint32{0: 0, 0.5: 0, 1: 0, 1.5: 1} {
		corpora[1].Weight = weight
		got, err := Selection{Rows: 1}.Select(v, corpora, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.IDs[0] != want {
			t.Errorf("weight %g: id %d, want %d", weight, got.IDs[0], want)
		}
	}
}

func TestSelectErrors(t *testing.T) {
	ones := []uint64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	v, corpora := small(ones, nil)
	list := &IDList{IDs: []uint32{1, 2}}
	for _, c := range []struct {
		name    string
		rule    Selection
		corpora []Counted
		list    *IDList
		want    string
	}{
		{"nothing", Selection{Multiple: 8}, corpora, nil, "keeps nothing"},
		{"kind", Selection{Always: []Kind{"bytes"}}, corpora, nil, `"bytes" is none of`},
		{"no corpora", Selection{Rows: 5}, nil, nil, "there are no corpora"},
		{"empty corpus", Selection{Rows: 5}, []Counted{{Name: "x", Counts: make([]uint64, 10)}}, nil, "corpus x is empty"},
		{"other vocabulary", Selection{Rows: 5}, []Counted{{Name: "x", Counts: make([]uint64, 11)}}, nil, "counts of 11 ids, the vocabulary has 10"},
		{"twice", Selection{Rows: 5}, append(corpora, corpora...), nil, "two corpora named a"},
		{"weight", Selection{Rows: 5}, []Counted{{Name: "x", Counts: ones, Weight: -1}}, nil, "weight -1"},
		{"weight that is none", Selection{Rows: 5}, []Counted{{Name: "x", Counts: ones, Weight: math.NaN()}}, nil, "weight NaN"},
		{"rows and share", Selection{Rows: 5, Share: 0.5}, corpora, nil, "both"},
		{"too many rows", Selection{Rows: 11}, corpora, nil, "more than the 10 entries"},
		{"too few rows", Selection{Below: 6, Rows: 5}, corpora, nil, "6 ids are kept anyway, more than 5 rows"},
		{"negative rows", Selection{Rows: -1, Below: 1}, corpora, nil, "rows is negative"},
		{"share", Selection{Share: 1.1}, corpora, nil, "share must"},
		{"coverage", Selection{Coverage: math.NaN()}, corpora, nil, "coverage must"},
		{"coverage out of reach", Selection{Coverage: 0.5, MinCount: 2}, corpora, nil, "cover 0.0000 of the text, not 0.5"},
		{"below", Selection{Below: 11}, corpora, nil, "below 11"},
		{"id", Selection{IDs: "3-10"}, corpora, nil, "10 is out of range"},
		{"ids", Selection{IDs: "3-2"}, corpora, nil, "numbers and ranges"},
		{"no ids", Selection{IDs: ","}, corpora, nil, "numbers and ranges"},
		{"multiple", Selection{Below: 9, Multiple: 8}, corpora, nil, "no multiple of 8"},
		{"budget of nothing", Selection{Budgets: []Budget{{Corpora: []string{"a"}}}}, corpora, nil, "needs rows"},
		{"budget without corpora", Selection{Budgets: []Budget{{Rows: 5}}}, corpora, nil, "names no corpora"},
		{"budget of unknown corpora", Selection{Budgets: []Budget{{Corpora: []string{"a", "z"}, Rows: 1}}}, corpora, nil, "no corpus named z"},
		{"list of another vocabulary", Selection{List: "l"}, nil, &IDList{IDs: []uint32{1}, VocabSize: 11}, "vocabulary of 11 entries"},
		{"list out of range", Selection{List: "l"}, nil, &IDList{IDs: []uint32{1, 10}}, "only has ids below 10"},
		{"nothing kept", Selection{Always: []Kind{KindByte}}, corpora, nil, "no id is kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := v
			if c.name == "nothing kept" {
				v.Kinds = nil
			}
			_, err := c.rule.Select(v, c.corpora, c.list)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput {
				t.Errorf("got %v, want bad input with %q", err, c.want)
			}
		})
	}
	if _, err := (Selection{List: "l"}).Select(v, nil, list); err != nil {
		t.Error(err)
	}
}

// TestSelectGrows wants heads of one rule to be nested, and Order to say how they grow.
func TestSelectGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 60).Draw(t, "size")
		counts := func(label string) []uint64 {
			c := rapid.SliceOfN(rapid.Uint64Range(0, 5), size, size).Draw(t, label)
			c[rapid.IntRange(0, size-1).Draw(t, label+" seen")]++
			return c
		}
		v := Vocabulary{Size: size, Kinds: map[Kind][]uint32{KindByte: {0}}}
		corpora := []Counted{{Name: "a", Counts: counts("a")}, {Name: "b", Counts: counts("b"), Weight: 0.25}}
		rule := Selection{Always: []Kind{KindByte}, Rows: 1 + rapid.IntRange(0, size-1).Draw(t, "rows")}
		got, err := rule.Select(v, corpora, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.IDs) != rule.Rows || !slices.IsSorted(got.IDs) || len(got.Order) != size {
			t.Fatalf("%d ids of %d in an order of %d", len(got.IDs), rule.Rows, len(got.Order))
		}
		all := slices.Sorted(slices.Values(got.Order))
		if len(slices.Compact(all)) != size {
			t.Fatal("the order is no permutation")
		}
		rule.Rows = size
		whole, err := rule.Select(v, corpora, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.Order, got.Order); diff != "" {
			t.Fatal(diff)
		}
		n := len(got.IDs)
		at := CoverAt(corpora[0].Counts, got.Order, []int{0, n, size, size + 5})
		want := []Coverage{{sumCounts(corpora[0].Counts), 0}, Cover(corpora[0].Counts, got.IDs), {at[2].Tokens, at[2].Tokens}, {at[2].Tokens, at[2].Tokens}}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCoverDemo(t *testing.T) {
	d := readDemoTokens(t)
	if got, want := Cover(d.Counts["de"], d.Kept).Tokens, sumCounts(d.Counts["de"]); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	c := Coverage{Tokens: 10056, Kept: 9977}
	if got := fmt.Sprintf("%.6f %d", c.Share(), c.Misses()); got != "0.992144 79" {
		t.Errorf("got %s", got)
	}
	if (Coverage{}).Share() != 0 {
		t.Error("a text without tokens is covered")
	}
}

func TestMissing(t *testing.T) {
	counts := []uint64{5, 3, 9, 3, 0, 7}
	got := Missing(counts, []uint32{2, 4}, 3)
	if diff := cmp.Diff([]Miss{{5, 7}, {0, 5}, {1, 3}}, got); diff != "" {
		t.Error(diff)
	}
	if got := Missing(counts, nil, 10); len(got) != 5 {
		t.Errorf("%v", got)
	}
	if got := Missing(counts, []uint32{0, 1, 2, 3, 4, 5}, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
