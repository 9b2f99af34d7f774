package tokenizer

import (
	"math/bits"
	"slices"
)

// model is what makes ids out of the bytes of one piece.
//
// A piece begins as a row of symbols: bytes in byte-level models, characters in the others. Again and again the adjacent
// pair of lowest rank is merged, the leftmost of equal ones, until no pair has a rank. Ranks are places in the list of
// merges, or in models with scores the scores themselves, highest first.
type model struct {
	kind   kind
	pairs  pairTable
	merged []int32 // by rank: the token that a pair becomes

	// With scores, the pair's bytes are looked up among the tokens; keys are the tokens' bytes in the form that pieces
	// have (a space for ▁), those that merges can't reach being empty. Other models use them for whole pieces and characters.
	scored bool
	ranks  []uint32 // by id
	keys   texts
	index  index

	whole    bool       // a piece that is a token needs no merges (ignore_merges)
	newlines bool       // so does one of nothing but newlines
	bytes    [256]int32 // the symbol of each byte
	ascii    [128]int32 // the symbol of each ASCII character
	fallback [256]int32 // the tokens of bytes that no character covers

	unknown     int32 // the token for what has no token, or None: nothing
	fuseUnknown bool  // one for neighbouring ones
	strict      bool  // a byte without a token is an error
	drop        bool  // symbols without any token are gone before symbols are merged, not after
	escape      bool  // a space stands for ▁
}

const noRank = 1<<32 - 1

// pairTable maps two ids to the rank of their merge. An entry is one word: left and right of 20 bits, rank of 24.
type pairTable struct {
	slots []uint64
	shift uint
}

const (
	rankBits  = 24
	maxMerges = 1<<rankBits - 1
	freeSlot  = 1<<64 - 1
)

func newPairTable(n int) pairTable {
	size := max(bits.Len(uint(n)+uint(n)/2), 4)
	t := pairTable{slots: make([]uint64, 1<<size), shift: uint(64 - size)}
	for i := range t.slots {
		t.slots[i] = freeSlot
	}
	return t
}

func pairKey(l, r int32) uint64 { return uint64(uint32(l))<<idBits | uint64(uint32(r)) }

// put stores a rank. An existing pair keeps the rank it has, unless last is set.
func (t *pairTable) put(l, r int32, rank uint32, last bool) {
	key := pairKey(l, r)
	mask := uint64(len(t.slots) - 1)
	for i := (key * hashMul1) >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if *s == freeSlot || (*s>>rankBits == key && last) {
			*s = key<<rankBits | uint64(rank)
			return
		}
		if *s>>rankBits == key {
			return
		}
	}
}

// rank returns the rank of a pair of ids, or noRank. Neither may be None.
func (t *pairTable) rank(l, r int32) uint32 {
	key := pairKey(l, r)
	mask := uint64(len(t.slots) - 1)
	for i := (key * hashMul1) >> t.shift; ; i++ {
		s := t.slots[i&mask]
		if s>>rankBits == key {
			return uint32(s & maxMerges)
		}
		if s == freeSlot {
			return noRank
		}
	}
}

// symbol is a part of a piece: a token, or a byte or character without one.
type symbol struct {
	id    int32
	start int32
}

// merger is the working memory of a model.
type merger struct {
	syms       []symbol // one more than there are, for the end
	rank       []uint32 // of each symbol and its right neighbour
	next, prev []int32  // the neighbours, in long pieces
	into       []int32  // what each symbol and its neighbour become, with scores
	heap       []uint64 // rank << 32 | place

	step    int // bytes that are merged at once
	dropped int // bytes that were gone before symbols were merged, in the last piece

	joined []symbol // of pieces that are merged in several steps
	saved  []symbol // of the piece that a check of a join interrupts
}

// symbols fills m.syms with the symbols of piece.
func (m *merger) symbols(md *model, piece []byte) {
	m.syms = m.syms[:0]
	if md.kind == byteLevel && !md.drop {
		m.syms = slices.Grow(m.syms, len(piece)+1)[:len(piece)+1]
		for i, b := range piece {
			m.syms[i] = symbol{md.bytes[b], int32(i)}
		}
		m.syms[len(piece)] = symbol{None, int32(len(piece))}
		return
	}
	for i := 0; i < len(piece); {
		n, id := 1, None
		switch b := piece[i]; {
		case md.kind == byteLevel:
			id = md.bytes[b]
		case b < 0x80:
			id = md.ascii[b]
		default:
			n = min(charLen(b), len(piece)-i)
			id = md.index.find(&md.keys, piece[i:i+n])
		}
		if id < 0 && md.drop && (md.kind == byteLevel || !md.hasBytes(md.shown(piece[i:i+n]))) {
			m.dropped += n
		} else {
			m.syms = append(m.syms, symbol{id, int32(i)})
		}
		i += n
	}
	m.syms = append(m.syms, symbol{None, int32(len(piece))})
}

// charLen is the length of a UTF-8 character by its first byte alone.
func charLen(b byte) int {
	switch {
	case b >= 0xF0:
		return 4
	case b >= 0xE0:
		return 3
	case b >= 0xC0:
		return 2
	}
	return 1
}

// look returns the rank of two neighbouring symbols, and the token they become.
func (m *merger) look(md *model, piece []byte, l, r symbol, end int32) (uint32, int32) {
	if md.scored {
		id := md.index.find(&md.keys, piece[l.start:end])
		if id < 0 {
			return noRank, None
		}
		return md.ranks[id], id
	}
	if l.id < 0 || r.id < 0 {
		return noRank, None
	}
	if rank := md.pairs.rank(l.id, r.id); rank != noRank {
		return rank, md.merged[rank]
	}
	return noRank, None
}

// scanMax is the number of symbols up to which looking through all ranks beats a heap.
const scanMax = 48

// stepMax is the number of bytes of a long piece that are merged at once.
const stepMax = 8 << 10

// merge returns the symbols of a piece after all merges, and one more whose start is the end. They stay valid until the
// next call.
func (m *merger) merge(md *model, piece []byte) []symbol {
	m.dropped = 0
	if m.step == 0 {
		m.step = stepMax
	}
	if len(piece) > m.step {
		return m.mergeSteps(md, piece)
	}
	return m.mergeOne(md, piece)
}

func (m *merger) mergeOne(md *model, piece []byte) []symbol {
	m.symbols(md, piece)
	if n := len(m.syms) - 1; n > 1 {
		if n <= scanMax {
			m.mergeShort(md, piece)
		} else {
			m.mergeLong(md, piece)
		}
	}
	return m.syms
}

// ranks fills m.rank and m.into for all neighbours.
func (m *merger) ranks(md *model, piece []byte) {
	n := len(m.syms) - 1
	m.rank = slices.Grow(m.rank[:0], n)[:n]
	m.into = slices.Grow(m.into[:0], n)[:n]
	for i := range n - 1 {
		m.rank[i], m.into[i] = m.look(md, piece, m.syms[i], m.syms[i+1], m.syms[i+2].start)
	}
	m.rank[n-1] = noRank
}

func (m *merger) mergeShort(md *model, piece []byte) {
	m.ranks(md, piece)
	for {
		best, at := uint32(noRank), -1
		for i, r := range m.rank {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return
		}
		m.syms[at].id = m.into[at]
		m.syms = slices.Delete(m.syms, at+1, at+2)
		m.rank = slices.Delete(m.rank, at+1, at+2)
		m.into = slices.Delete(m.into, at+1, at+2)
		if m.rank[at] = noRank; at+1 < len(m.rank) {
			m.rank[at], m.into[at] = m.look(md, piece, m.syms[at], m.syms[at+1], m.syms[at+2].start)
		}
		if at > 0 {
			m.rank[at-1], m.into[at-1] = m.look(md, piece, m.syms[at-1], m.syms[at], m.syms[at+1].start)
		}
	}
}

// mergeLong does the same with a heap and a list of neighbours. An entry is out of date if the rank at its place has
// changed. Where it has the same rank again, another entry says the same, and the first one taken does its work.
func (m *merger) mergeLong(md *model, piece []byte) {
	m.ranks(md, piece)
	n := int32(len(m.syms) - 1)
	m.next = slices.Grow(m.next[:0], int(n)+1)[:n+1]
	m.prev = slices.Grow(m.prev[:0], int(n)+1)[:n+1]
	m.heap = m.heap[:0]
	for i := range n {
		m.next[i], m.prev[i] = i+1, i-1
		if r := m.rank[i]; r != noRank {
			m.heap = append(m.heap, uint64(r)<<32|uint64(i))
		}
	}
	m.next[n], m.prev[n] = n, n-1
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	for len(m.heap) > 0 {
		top := m.heap[0]
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.sink(0)
		at := int32(top & 0xFFFFFFFF)
		if m.rank[at] != uint32(top>>32) {
			continue
		}
		gone := m.next[at]
		after := m.next[gone]
		m.syms[at].id = m.into[at]
		m.rank[gone] = noRank
		m.next[at] = after
		m.prev[after] = at
		m.update(md, piece, at, after)
		if before := m.prev[at]; before >= 0 {
			m.update(md, piece, before, at)
		}
	}
	kept := m.syms[:0]
	for i := int32(0); i < n; i = m.next[i] {
		kept = append(kept, m.syms[i])
	}
	m.syms = append(kept, symbol{None, int32(len(piece))})
}

// update looks up the rank of the symbols at l and r anew.
func (m *merger) update(md *model, piece []byte, l, r int32) {
	m.rank[l] = noRank
	if int(r) == len(m.syms)-1 {
		return
	}
	m.rank[l], m.into[l] = m.look(md, piece, m.syms[l], m.syms[r], m.syms[m.next[r]].start)
	if m.rank[l] != noRank {
		m.push(uint64(m.rank[l])<<32 | uint64(l))
	}
}

func (m *merger) push(e uint64) {
	m.heap = append(m.heap, e)
	i := len(m.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if m.heap[up] <= e {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = e
}

func (m *merger) sink(i int) {
	h := m.heap
	if i >= len(h) {
		return
	}
	e := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if e <= h[c] {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = e
}

// joinTries is the number of places at which a join is tried before a step is made longer.
const joinTries = 16

// mergeSteps merges a long piece step by step in bounded working memory.
//
// Merging two neighbouring stretches apart gives what merging them together gives if and only if no merge crosses the place
// where they meet. The first one that would joins a part of the last symbol on the left with a part of the first one on the
// right, and what happens inside these two up to then depends on nothing else. So it is enough to merge the bytes of
// these two symbols alone: they must come out as they went in. And a result cut at the end of any of its symbols
// is the result of that much text. Both hold for any ranks.
func (m *merger) mergeSteps(md *model, piece []byte) []symbol {
	done, size := m.step, m.step
	m.joined = append(m.joined[:0], m.fresh(md, piece[:done], 0)...)
	for done < len(piece) {
		joined := false
		end := 0
		for try := range joinTries {
			k := len(m.joined) - 1 - try
			if k < 2 {
				break
			}
			// The last symbols may change with what follows: continue before them.
			at := int(m.joined[k-1].start)
			end = min(at+size, len(piece))
			if end <= done {
				break
			}
			next := m.fresh(md, piece[at:end], at)
			left := piece[m.joined[k-2].start:next[1].start]
			if m.stands(md, left, at-int(m.joined[k-2].start), m.joined[k-2].id, next[0].id) {
				m.joined = append(m.joined[:k-1], next...)
				joined = true
				break
			}
		}
		if !joined {
			// Begin again with a longer first step: costs twice as much at most.
			size *= 2
			end = min(max(2*done, size), len(piece))
			m.joined = append(m.joined[:0], m.fresh(md, piece[:end], 0)...)
		}
		done = end
	}
	return m.joined
}

// fresh merges part and returns its symbols with base added to their starts.
func (m *merger) fresh(md *model, part []byte, base int) []symbol {
	syms := m.mergeOne(md, part)
	if base > 0 {
		for i := range syms {
			syms[i].start += int32(base)
		}
	}
	return syms
}

// stands reports whether the bytes of two symbols, l up to cut and r from there, come out of a merge as l and r.
func (m *merger) stands(md *model, both []byte, cut int, l, r int32) bool {
	m.saved = append(m.saved[:0], m.syms...)
	syms := m.mergeOne(md, both)
	ok := len(syms) == 3 && int(syms[1].start) == cut && syms[0].id == l && syms[1].id == r
	m.syms = append(m.syms[:0], m.saved...)
	return ok
}
