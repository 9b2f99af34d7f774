package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gguf-forge/internal/fault"
)

// Selection says which ids of a vocabulary an output head keeps. Its parts add up: what is kept whatever the text says
// (always, below, ids, list), what single corpora ask for (budgets), and the most frequent of the rest up to a number of
// rows or a coverage. See Select for the order of these steps.
type Selection struct {
	Always   []Kind   `yaml:"always,omitempty" json:"always,omitempty" jsonschema:"enum=special,enum=control,enum=byte,description=Kinds of tokens that are kept whatever the text says"`
	Below    uint32   `yaml:"below,omitempty" json:"below,omitempty" jsonschema:"description=Keep all ids below this one"`
	IDs      string   `yaml:"ids,omitempty" json:"ids,omitempty" jsonschema:"description=Ids to keep as in 0-255\\, 2040"`
	List     string   `yaml:"list,omitempty" json:"list,omitempty" jsonschema:"description=File of an id list whose ids are kept; relative to the recipe's folder"`
	Budgets  []Budget `yaml:"budgets,omitempty" json:"budgets,omitempty" jsonschema:"description=What single corpora ask for\\, each ranked by itself"`
	Rows     int      `yaml:"rows,omitempty" json:"rows,omitempty" jsonschema:"description=Fill up to this number of rows with the most frequent ids of all corpora"`
	Share    float64  `yaml:"share,omitempty" json:"share,omitempty" jsonschema:"description=Like rows\\, as a share of the vocabulary rounded up"`
	Coverage float64  `yaml:"coverage,omitempty" json:"coverage,omitempty" jsonschema:"description=Fill up with the most frequent ids of all corpora until this share of their tokens is kept; with rows whatever comes first"`
	MinCount uint64   `yaml:"min_count,omitempty" json:"min_count,omitempty" jsonschema:"description=Least number of occurrences in all corpora together for an id to be taken as frequent"`
	Multiple int      `yaml:"multiple,omitempty" json:"multiple,omitempty" jsonschema:"description=Round the number of rows up to a multiple of this by taking the next ids"`
}

// OnlyList reports whether the rule keeps the ids of a list and nothing else.
func (s Selection) OnlyList() bool {
	return s.List != "" && s.String() == Selection{List: s.List}.String()
}

// Budget is what one corpus, or several ranked together, adds to a selection.
type Budget struct {
	Corpora  []string `yaml:"corpora" json:"corpora" jsonschema:"description=Names of the corpora"`
	Rows     int      `yaml:"rows,omitempty" json:"rows,omitempty" jsonschema:"description=Keep this many of their most frequent ids"`
	Coverage float64  `yaml:"coverage,omitempty" json:"coverage,omitempty" jsonschema:"description=Keep their most frequent ids until this share of their tokens is kept; with rows whatever comes first"`
	MinCount uint64   `yaml:"min_count,omitempty" json:"min_count,omitempty" jsonschema:"description=Least number of occurrences in these corpora for an id to be kept"`
}

// Kind is a kind of tokens that a selection can keep as a whole.
type Kind string

// The kinds of tokens.
const (
	// KindSpecial are all tokens that stand outside ordinary text: those of KindControl, the user-defined ones, and those
	// that the model names for a purpose, such as the end of a turn.
	KindSpecial Kind = "special"
	// KindControl are the tokens of type control and the unknown token.
	KindControl Kind = "control"
	// KindByte are the tokens that stand for one byte, with which any text can be spelt.
	KindByte Kind = "byte"
)

// Vocabulary is what a selection needs to know of a vocabulary.
type Vocabulary struct {
	Size  int               // entries: the largest id + 1
	Hash  string            // hex digits of the hash of the token list
	Kinds map[Kind][]uint32 // ids by kind, ascending
}

// Counted is a corpus as token counts.
type Counted struct {
	Name   string
	Weight float64  // of its frequencies in the sum; 0 stands for 1
	Counts []uint64 // by id, as many as the vocabulary has entries
	Text   string   // SHA-256 of the text as it is stored; "" if it isn't known
}

// Selected is what a selection keeps.
type Selected struct {
	IDs   []uint32 // ascending
	Order []uint32 // the whole vocabulary in the order in which a growing head takes it; the first len(IDs) are IDs
	Fixed int      // how many of Order are kept whatever the number of rows
}

// Check returns everything about the rule that is wrong by itself.
func (s Selection) Check() error {
	var bad []error
	fail := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	for _, k := range s.Always {
		if k != KindSpecial && k != KindControl && k != KindByte {
			fail("always: %q is none of special, control and byte", k)
		}
	}
	if _, err := parseIDRanges(s.IDs); err != nil {
		fail("ids: %w", err)
	}
	for i, b := range s.Budgets {
		if len(b.Corpora) == 0 {
			fail("budgets[%d] names no corpora", i)
		}
		if b.Rows == 0 && b.Coverage == 0 && b.MinCount == 0 {
			fail("budgets[%d] needs rows, coverage or min_count", i)
		}
		if b.Rows < 0 {
			fail("budgets[%d].rows is negative", i)
		}
		if !isShare(b.Coverage) {
			fail("budgets[%d].coverage must lie above 0 and be at most 1", i)
		}
	}
	switch {
	case s.Rows < 0:
		fail("rows is negative")
	case s.Rows > 0 && s.Share != 0:
		fail("rows and share can't be given both")
	}
	if !isShare(s.Share) {
		fail("share must lie above 0 and be at most 1")
	}
	if !isShare(s.Coverage) {
		fail("coverage must lie above 0 and be at most 1")
	}
	if s.Multiple < 0 {
		fail("multiple is negative")
	}
	if s.empty() {
		fail("the rule keeps nothing: it needs at least one of always, below, ids, list, budgets, rows, share, coverage and min_count")
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.New(fault.BadInput, "selection: %w", errors.Join(bad...))
}

// isShare accepts what can be a share; 0 stands for none.
func isShare(x float64) bool { return x >= 0 && x <= 1 }

func (s Selection) empty() bool {
	return len(s.Always) == 0 && s.Below == 0 && s.IDs == "" && s.List == "" && len(s.Budgets) == 0 && !s.fills()
}

// fills reports whether the most frequent ids of all corpora are taken.
func (s Selection) fills() bool {
	return s.Rows > 0 || s.Share > 0 || s.Coverage > 0 || s.MinCount > 0
}

// NeedsCorpora reports whether the rule can be applied only with text.
func (s Selection) NeedsCorpora() bool { return len(s.Budgets) > 0 || s.fills() }

// String returns the rule on one line, as JSON.
func (s Selection) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error() // a coverage that is no number, which Check refuses
	}
	return string(b)
}

// rows returns the number of rows that the rule asks for, 0 if it asks for none.
func (s Selection) rows(size int) int {
	if s.Share > 0 {
		return int(math.Ceil(s.Share * float64(size)))
	}
	return s.Rows
}

// Select applies the rule. list is the content of the rule's List, nil if it has none.
//
//  1. Kept first are the kinds of Always, the ids below Below, IDs and list.
//  2. Every budget adds the most frequent ids of its corpora: Rows of them, or as many as it takes until, with the ids
//     of step 1, Coverage of their tokens are kept. Ids that don't occur are not taken.
//  3. The rest is taken by falling score up to Rows rows in all, or until Coverage is reached. Ids with fewer than MinCount
//     occurrences are not taken; without MinCount, ids that don't occur are.
//  4. The number of rows is rounded up to Multiple by taking the next ids.
//
// The score of an id is the sum over the corpora, in their order, of weight · count / tokens of the corpus, in float64. Equal
// scores are taken by rising id. Coverage of several corpora is the mean of their coverages by weight.
func (s Selection) Select(v Vocabulary, corpora []Counted, list *IDList) (*Selected, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	texts, err := weighTexts(v, corpora)
	if err != nil {
		return nil, err
	}
	if s.NeedsCorpora() && len(texts) == 0 {
		return nil, fault.New(fault.BadInput, "selection: the rule counts text, but there are no corpora")
	}
	p := &headPicker{kept: make([]bool, v.Size)}
	if err := s.keepFixed(p, v, list); err != nil {
		return nil, err
	}
	first := slices.Clone(p.kept)
	for i, b := range s.Budgets {
		group, err := pickTexts(texts, b.Corpora)
		if err != nil {
			return nil, fault.New(fault.BadInput, "selection: budgets[%d]: %w", i, err)
		}
		b.keep(p, group, first)
	}
	p.sortFixed()
	fixed := len(p.order)
	ranked, frequent := rankIDs(texts, s.MinCount, p.kept)
	if s.fills() {
		if err := s.fill(p, texts, ranked[:frequent], v.Size); err != nil {
			return nil, err
		}
	}
	for _, id := range ranked {
		if s.Multiple == 0 || len(p.order)%s.Multiple == 0 {
			break
		}
		p.keep(id)
	}
	n := len(p.order)
	switch {
	case n == 0:
		return nil, fault.New(fault.BadInput, "selection: no id is kept")
	case s.Multiple > 0 && n%s.Multiple != 0:
		return nil, fault.New(fault.BadInput, "selection: all %d ids are kept, which is no multiple of %d", n, s.Multiple)
	}
	for _, id := range ranked {
		p.keep(id)
	}
	ids := slices.Clone(p.order[:n])
	slices.Sort(ids)
	return &Selected{IDs: ids, Order: p.order, Fixed: fixed}, nil
}

// headPicker is a head that grows.
type headPicker struct {
	kept  []bool // by id
	order []uint32
}

func (p *headPicker) keep(id uint32) {
	if !p.kept[id] {
		p.kept[id] = true
		p.order = append(p.order, id)
	}
}

// sortFixed forgets in which order the ids came that are kept anyway: their steps don't follow one another.
func (p *headPicker) sortFixed() { slices.Sort(p.order) }

// keepFixed does step 1.
func (s Selection) keepFixed(p *headPicker, v Vocabulary, list *IDList) error {
	for _, k := range s.Always {
		for _, id := range v.Kinds[k] {
			p.keep(id)
		}
	}
	if int64(s.Below) > int64(v.Size) {
		return fault.New(fault.BadInput, "selection: below %d: the vocabulary has only %d entries", s.Below, v.Size)
	}
	for id := range s.Below {
		p.keep(id)
	}
	ranges, err := parseIDRanges(s.IDs)
	if err != nil {
		return fault.New(fault.BadInput, "selection: ids: %w", err)
	}
	for _, r := range ranges {
		if int64(r.hi) >= int64(v.Size) {
			return fault.New(fault.BadInput, "selection: ids: %d is out of range, the vocabulary has %d entries", r.hi, v.Size)
		}
		for id := r.lo; id <= r.hi; id++ {
			p.keep(id)
		}
	}
	if (list != nil) != (s.List != "") {
		return fmt.Errorf("selection: the rule and the id list it is given don't belong together")
	}
	if list != nil {
		if err := list.Check(v); err != nil {
			return fmt.Errorf("selection: list %s: %w", s.List, err)
		}
		for _, id := range list.IDs {
			p.keep(id)
		}
	}
	return nil
}

// keep does step 2 for one budget. first are the ids of step 1.
func (b Budget) keep(p *headPicker, group []weighed, first []bool) {
	ranked, frequent := rankIDs(group, max(b.MinCount, 1), nil)
	reached := newReached(group, first)
	for i, id := range ranked[:frequent] {
		if b.Rows > 0 && i == b.Rows || b.Coverage > 0 && reached.share() >= b.Coverage {
			return
		}
		if !first[id] {
			reached.add(id)
		}
		p.keep(id)
	}
}

// fill does step 3.
func (s Selection) fill(p *headPicker, texts []weighed, frequent []uint32, size int) error {
	rows := s.rows(size)
	switch {
	case rows > size:
		return fault.New(fault.BadInput, "selection: %d rows are more than the %d entries of the vocabulary", rows, size)
	case rows > 0 && len(p.order) > rows:
		return fault.New(fault.BadInput, "selection: %d ids are kept anyway, more than %d rows", len(p.order), rows)
	}
	reached := newReached(texts, p.kept)
	for _, id := range frequent {
		if rows > 0 && len(p.order) >= rows || s.Coverage > 0 && reached.share() >= s.Coverage {
			return nil
		}
		reached.add(id)
		p.keep(id)
	}
	if share := reached.share(); s.Coverage > 0 && share < s.Coverage && (rows == 0 || len(p.order) < rows) {
		return fault.WithHint(fault.New(fault.BadInput, "selection: ids with at least %d occurrences cover %.4f of the text, not %g", s.MinCount, share, s.Coverage),
			"lower min_count or coverage")
	}
	return nil
}

// weighed is a corpus ready for sums.
type weighed struct {
	Counted
	weight float64
	tokens uint64
}

// weighTexts checks the corpora.
func weighTexts(v Vocabulary, corpora []Counted) ([]weighed, error) {
	names := map[string]bool{}
	list := make([]weighed, 0, len(corpora))
	for _, c := range corpora {
		t := weighed{Counted: c, weight: c.Weight}
		if t.weight == 0 {
			t.weight = 1
		}
		switch {
		case len(c.Counts) != v.Size:
			return nil, fault.New(fault.BadInput, "corpus %s: it has counts of %d ids, the vocabulary has %d entries", c.Name, len(c.Counts), v.Size)
		case names[c.Name]:
			return nil, fault.New(fault.BadInput, "there are two corpora named %s", c.Name)
		case !(t.weight > 0) || math.IsInf(t.weight, 0):
			return nil, fault.New(fault.BadInput, "corpus %s: the weight %g is no positive number", c.Name, t.weight)
		}
		if t.tokens = sumCounts(c.Counts); t.tokens == 0 {
			return nil, fault.New(fault.BadInput, "corpus %s is empty: it has no tokens", c.Name)
		}
		names[c.Name] = true
		list = append(list, t)
	}
	return list, nil
}

func sumCounts(counts []uint64) uint64 {
	n := uint64(0)
	for _, c := range counts {
		n += c
	}
	return n
}

// pickTexts returns the corpora with the given names in the order in which they are declared.
func pickTexts(texts []weighed, names []string) ([]weighed, error) {
	var group []weighed
	for _, t := range texts {
		if slices.Contains(names, t.Name) {
			group = append(group, t)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(texts, func(t weighed) bool { return t.Name == name }) {
			return nil, fmt.Errorf("there is no corpus named %s", name)
		}
	}
	return group, nil
}

// rankIDs returns all ids that are not skipped: first those with at least least occurrences, then the others, both by
// falling score and, where it is equal, rising id. frequent is the number of the first.
func rankIDs(texts []weighed, least uint64, skip []bool) (ids []uint32, frequent int) {
	size := len(skip)
	if len(texts) > 0 {
		size = len(texts[0].Counts)
	}
	score := make([]float64, size)
	total := make([]uint64, size)
	for _, t := range texts {
		tokens := float64(t.tokens)
		for id, n := range t.Counts {
			f := float64(n) / tokens
			score[id] += float64(t.weight * f)
			total[id] += n
		}
	}
	for id := range size {
		if skip == nil || !skip[id] {
			ids = append(ids, uint32(id))
			if total[id] >= least {
				frequent++
			}
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int {
		if enough := total[a] >= least; enough != (total[b] >= least) {
			if enough {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
	})
	return ids, frequent
}

// reached follows the coverage of a growing head. Counts stay whole numbers, so that all tokens kept is exactly 1.
type reached struct {
	texts []weighed
	kept  []uint64 // tokens kept, by text
}

func newReached(texts []weighed, kept []bool) *reached {
	r := &reached{texts, make([]uint64, len(texts))}
	for id, ok := range kept {
		if ok {
			r.add(uint32(id))
		}
	}
	return r
}

func (r *reached) add(id uint32) {
	for i, t := range r.texts {
		r.kept[i] += t.Counts[id]
	}
}

func (r *reached) share() float64 {
	covered, weights := 0.0, 0.0
	for i, t := range r.texts {
		covered += float64(t.weight * (float64(r.kept[i]) / float64(t.tokens)))
		weights += t.weight
	}
	return covered / weights
}

// idRange is all ids from lo to hi.
type idRange struct{ lo, hi uint32 }

// parseIDRanges reads "0-255, 2040"; "" is none.
func parseIDRanges(s string) ([]idRange, error) {
	var list []idRange
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.ParseUint(strings.TrimSpace(from), 10, 31)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(strings.TrimSpace(to), 10, 31)
		}
		if err != nil || hi < lo {
			return nil, fmt.Errorf("%q: numbers and ranges such as 0-255, 2040 are needed", s)
		}
		list = append(list, idRange{uint32(lo), uint32(hi)})
	}
	return list, nil
}
