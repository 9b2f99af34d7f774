package tokenizer

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Coverage is how much of a text a head with some rows can say.
type Coverage struct {
	Tokens uint64 // of the text in the whole vocabulary
	Kept   uint64 // those whose id the head has
}

// Misses returns the number of tokens that the head can't produce.
func (c Coverage) Misses() uint64 { return c.Tokens - c.Kept }

// Share returns the share of tokens that are kept, 0 for a text without tokens.
func (c Coverage) Share() float64 {
	if c.Tokens == 0 {
		return 0
	}
	return float64(c.Kept) / float64(c.Tokens)
}

// MarshalJSON writes tokens, kept and their quotient.
func (c Coverage) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Tokens   uint64  `json:"tokens"`
		Kept     uint64  `json:"kept"`
		Coverage float64 `json:"coverage"`
	}{c.Tokens, c.Kept, c.Share()})
}

// Add returns the coverage of two texts together.
func (c Coverage) Add(d Coverage) Coverage { return Coverage{c.Tokens + d.Tokens, c.Kept + d.Kept} }

// Cover returns the coverage of a text, given as counts by id, by a head that keeps ids. Ids outside the counts are no
// tokens of the text.
func Cover(counts []uint64, ids []uint32) Coverage {
	c := Coverage{Tokens: sumCounts(counts)}
	for _, id := range ids {
		if int64(id) < int64(len(counts)) {
			c.Kept += counts[id]
		}
	}
	return c
}

// CoverAt returns the coverage by the first rows[i] ids of order, for every i. Order is that of Selected. More rows than
// there are ids are all ids.
func CoverAt(counts []uint64, order []uint32, rows []int) []Coverage {
	tokens := sumCounts(counts)
	upTo := make([]uint64, len(order)+1)
	for i, id := range order {
		upTo[i+1] = upTo[i]
		if int64(id) < int64(len(counts)) {
			upTo[i+1] += counts[id]
		}
	}
	list := make([]Coverage, len(rows))
	for i, n := range rows {
		list[i] = Coverage{tokens, upTo[min(max(n, 0), len(order))]}
	}
	return list
}

// Miss is a token of a text that a head doesn't have.
type Miss struct {
	ID    uint32
	Count uint64
}

// Missing returns the n most frequent tokens of a text that a head keeping ids (ascending) can't produce, by falling count and
// rising id.
func Missing(counts []uint64, ids []uint32, n int) []Miss {
	var list []Miss
	for id, count := range counts {
		for len(ids) > 0 && int64(ids[0]) < int64(id) {
			ids = ids[1:]
		}
		if count > 0 && (len(ids) == 0 || int64(ids[0]) != int64(id)) {
			list = append(list, Miss{uint32(id), count})
		}
	}
	slices.SortFunc(list, func(a, b Miss) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID)) })
	return list[:min(n, len(list))]
}
