package tokenizer

import "sync"

// class is what scanners need to know of a character.
type class uint8

// The classes, numbered as in _gen/unicode.py. White space is the 25 code points that every engine agrees on.
const (
	other    class = iota
	upper          // Lu
	lower          // Ll
	title          // Lt
	modifier       // Lm
	letter         // Lo
	mark           // M
	number         // N
	space
	classes
)

//go:generate sh -c "python3 _gen/unicode.py | gofmt > unicode_data.go"

const (
	blockBits = 8
	maxRune   = 0x10FFFF
)

// classTable holds the class of every code point in blocks of 256, equal ones once.
type classTable struct {
	index  [(maxRune + 1) >> blockBits]uint16
	blocks [][1 << blockBits]class
}

func (t *classTable) of(r rune) class {
	if uint32(r) > maxRune {
		return other
	}
	return t.blocks[t.index[r>>blockBits]][r&(1<<blockBits-1)]
}

var (
	unicode151 = sync.OnceValue(func() *classTable { return newClassTable(classRanges151[:]) })
	unicode160 = sync.OnceValue(func() *classTable { return newClassTable(classRanges160[:]) })
)

func newClassTable(ranges []uint32) *classTable {
	t := new(classTable)
	known := map[[1 << blockBits]class]uint16{}
	var block [1 << blockBits]class
	next, now := 0, other
	for c := uint32(0); c <= maxRune; c++ {
		if next < len(ranges) && ranges[next]>>4 == c {
			now = class(ranges[next] & 15)
			next++
		}
		block[c&(1<<blockBits-1)] = now
		if c&(1<<blockBits-1) != 1<<blockBits-1 {
			continue
		}
		n, ok := known[block]
		if !ok {
			n = uint16(len(t.blocks))
			known[block] = n
			t.blocks = append(t.blocks, block)
		}
		t.index[c>>blockBits] = n
	}
	return t
}
