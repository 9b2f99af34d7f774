package tokenizer

import "slices"

// Closure returns the ids of a vocabulary that can stand alone: ids, all special and byte tokens, and everything that merges go
// through on their way to one of them. A text whose tokens are all in ids is encoded to the same tokens by the smaller
// vocabulary.
//
// With a merge list that holds for every text, since all merges that end in a kept token are kept with their parts. With
// scores (SentencePiece) it is the way on which a token's own text is merged.
func (t *Tokenizer) Closure(ids []uint32) []uint32 {
	kept := make([]bool, t.Size())
	var todo []uint32
	add := func(id uint32) {
		if !kept[id] {
			kept[id] = true
			todo = append(todo, id)
		}
	}
	for _, id := range ids {
		add(id)
	}
	kinds := t.Vocabulary().Kinds
	for _, id := range slices.Concat(kinds[KindSpecial], kinds[KindByte]) {
		add(id)
	}
	parts := t.parts()
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, part := range parts(id) {
			add(part)
		}
	}
	var all []uint32
	for id, k := range kept {
		if k {
			all = append(all, uint32(id))
		}
	}
	return all
}

// parts returns a function that lists what an id is merged from.
func (t *Tokenizer) parts() func(id uint32) []uint32 {
	if !t.HasMerges() {
		return t.scoredParts
	}
	from := map[uint32][]uint32{}
	for _, m := range t.Merges() {
		from[uint32(m.Result)] = append(from[uint32(m.Result)], uint32(m.Left), uint32(m.Right))
	}
	return func(id uint32) []uint32 { return from[id] }
}

// scoredParts merges the text of id as SentencePiece does, always the neighbours whose union has the highest score, the
// leftmost of several, and returns every token on the way.
func (t *Tokenizer) scoredParts(id uint32) []uint32 {
	if t.Attributes(int32(id))&Normal == 0 {
		return nil
	}
	var symbols []string
	for _, r := range string(t.Text(int32(id))) {
		symbols = append(symbols, string(r))
	}
	var parts []uint32
	note := func(text string) {
		if id := t.Lookup(text); id >= 0 {
			parts = append(parts, uint32(id))
		}
	}
	for _, s := range symbols {
		note(s)
	}
	for {
		best, score := -1, float32(0)
		for i := range len(symbols) - 1 {
			if id := t.Lookup(symbols[i] + symbols[i+1]); id >= 0 && (best < 0 || t.Score(id) > score) {
				best, score = i, t.Score(id)
			}
		}
		if best < 0 {
			return parts
		}
		symbols[best] += symbols[best+1]
		symbols = slices.Delete(symbols, best+1, best+2)
		note(symbols[best])
	}
}
