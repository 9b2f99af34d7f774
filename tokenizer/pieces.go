package tokenizer

import "encoding/binary"

// pieceTable maps pieces of text to one word each. It holds a bounded number of pieces and of bytes; when it is full, its
// owner empties it.
type pieceTable struct {
	slots []pieceSlot
	shift uint
	used  int
	long  []byte // the bytes of pieces beyond 16
}

// pieceSlot is one piece. Up to 16 bytes are their own key; of longer ones a is the hash and b where the bytes are.
type pieceSlot struct {
	a, b   uint64
	value  uint64
	length uint32 // 0: free
	_      uint32
}

const (
	firstSlots = 1 << 12
	maxSlots   = 1 << 18
	inlineMax  = 16
	pieceMax   = 256     // bytes of the longest piece that is kept
	maxLong    = 4 << 20 // bytes of all pieces beyond 16
)

func (t *pieceTable) reset() {
	if t.slots == nil || len(t.slots) > firstSlots {
		t.slots = make([]pieceSlot, firstSlots)
		t.shift = 64 - 12
	} else {
		clear(t.slots)
	}
	t.used = 0
	t.long = t.long[:0]
}

// full reports whether the table must be emptied before another piece is added.
func (t *pieceTable) full() bool {
	return len(t.slots) == maxSlots && t.used >= maxSlots*3/4 || len(t.long) > maxLong-pieceMax
}

// find returns the slot of text[start:end], a piece of at most pieceMax bytes. If it is not there, the slot is one with
// length 0 that add fills.
func (t *pieceTable) find(text []byte, start, end int) (slot *pieceSlot, a, b uint64) {
	n := end - start
	if n <= inlineMax {
		if start+16 <= len(text) {
			a = binary.LittleEndian.Uint64(text[start:])
			b = binary.LittleEndian.Uint64(text[start+8:])
			if n < 8 {
				a &= 1<<(8*uint(n)) - 1
				b = 0
			} else {
				b &= 1<<(8*uint(n-8)&63) - 1 | -uint64(n>>4)
			}
		} else {
			var key [16]byte
			copy(key[:], text[start:end])
			a = binary.LittleEndian.Uint64(key[:])
			b = binary.LittleEndian.Uint64(key[8:])
		}
		return t.probe(a, b, uint32(n)), a, b
	}
	h := hashBytes(text[start:end])
	mask := uint64(len(t.slots) - 1)
	for i := h >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if s.length == 0 {
			return s, h, 0
		}
		if s.a == h && s.length == uint32(n) && string(t.long[s.b:s.b+uint64(n)]) == string(text[start:end]) {
			return s, h, s.b
		}
	}
}

func (t *pieceTable) probe(a, b uint64, n uint32) *pieceSlot {
	mask := uint64(len(t.slots) - 1)
	for i := hashWords(a+uint64(n), b) >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if s.a == a && s.b == b && s.length == n || s.length == 0 {
			return s
		}
	}
}

// add fills the free slot that find returned and returns where the piece is now. The table must not be full.
func (t *pieceTable) add(s *pieceSlot, a, b uint64, piece []byte, value uint64) {
	if len(piece) > inlineMax {
		b = uint64(len(t.long))
		t.long = append(t.long, piece...)
	}
	*s = pieceSlot{a: a, b: b, value: value, length: uint32(len(piece))}
	t.used++
	if t.used > len(t.slots)/2 && len(t.slots) < maxSlots {
		t.grow()
	}
}

func (t *pieceTable) grow() {
	old := t.slots
	t.slots = make([]pieceSlot, 4*len(old))
	t.shift -= 2
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.length == 0 {
			continue
		}
		h := s.a
		if s.length <= inlineMax {
			h = hashWords(s.a+uint64(s.length), s.b)
		}
		i := h >> t.shift
		for t.slots[i&mask].length != 0 {
			i++
		}
		t.slots[i&mask] = s
	}
}

// bytes returns the piece of a slot. scratch must hold 16 bytes.
func (t *pieceTable) bytes(s *pieceSlot, scratch *[16]byte) []byte {
	if s.length > inlineMax {
		return t.long[s.b : s.b+uint64(s.length)]
	}
	binary.LittleEndian.PutUint64(scratch[:], s.a)
	binary.LittleEndian.PutUint64(scratch[8:], s.b)
	return scratch[:s.length]
}
