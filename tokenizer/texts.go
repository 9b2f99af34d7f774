package tokenizer

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// texts is a list of byte strings in one block, which the garbage collector need not walk.
type texts struct {
	blob []byte
	ends []uint32
}

func newTexts(n, size int) texts {
	return texts{blob: make([]byte, 0, size), ends: make([]uint32, 0, n)}
}

func (t *texts) len() int { return len(t.ends) }

func (t *texts) at(id int32) []byte {
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	end := t.ends[id]
	return t.blob[start:end:end]
}

func (t *texts) add(parts ...[]byte) {
	for _, p := range parts {
		t.blob = append(t.blob, p...)
	}
	t.close()
}

// close ends the string whose bytes were appended to the block.
func (t *texts) close() { t.ends = append(t.ends, uint32(len(t.blob))) }

// index finds a string of a texts. Slots hold 20 bits of id + 1 and 12 bits of hash.
type index struct {
	slots []uint32
	shift uint
}

const (
	idBits = 20
	idMask = 1<<idBits - 1

	// maxTokens is the largest vocabulary: ids fit into 20 bits, so that a merge fits into one machine word. The
	// largest known one has 262,208 tokens.
	maxTokens = 1<<idBits - 1
)

func newIndex(n int) index {
	size := max(bits.Len(uint(n)+uint(n)/2), 4)
	return index{slots: make([]uint32, 1<<size), shift: uint(64 - size)}
}

// add puts the string id into the index. It returns an equal string that is there already and is kept, or None.
func (x *index) add(t *texts, id int32) int32 {
	text := t.at(id)
	h := hashBytes(text)
	tag := uint32(h) &^ idMask
	mask := uint32(len(x.slots) - 1)
	for i := uint32(h >> x.shift); ; i++ {
		s := &x.slots[i&mask]
		if *s == 0 {
			*s = tag | uint32(id+1)
			return None
		}
		if other := int32(*s&idMask) - 1; *s&^idMask == tag && string(t.at(other)) == string(text) {
			return other
		}
	}
}

// find returns the id of text or None.
func (x *index) find(t *texts, text []byte) int32 {
	if x.slots == nil {
		return None
	}
	h := hashBytes(text)
	tag := uint32(h) &^ idMask
	mask := uint32(len(x.slots) - 1)
	for i := uint32(h >> x.shift); ; i++ {
		s := x.slots[i&mask]
		if s == 0 {
			return None
		}
		if id := int32(s&idMask) - 1; s&^idMask == tag && string(t.at(id)) == string(text) {
			return id
		}
	}
}

// Hashes differ from run to run, so that no file or text can be made to collide. No result depends on them.
var (
	hashSeed = rand.Uint64()
	hashMul1 = rand.Uint64() | 1
	hashMul2 = rand.Uint64() | 1
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func hashBytes(p []byte) uint64 {
	h := hashSeed ^ uint64(len(p))
	for ; len(p) > 16; p = p[16:] {
		h = mix(binary.LittleEndian.Uint64(p)^h^hashMul1, binary.LittleEndian.Uint64(p[8:])^hashMul2)
	}
	a, b := shortKey(p)
	return hashWords(a^h, b)
}

func hashWords(a, b uint64) uint64 {
	return mix(mix(a^hashMul1, b^hashMul2), hashMul1)
}

// shortKey packs up to 16 bytes into two words. With the length they are a unique key.
func shortKey(p []byte) (a, b uint64) {
	switch n := len(p); {
	case n >= 8:
		return binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(p)) | uint64(binary.LittleEndian.Uint32(p[n-4:]))<<32, 0
	case n > 0:
		return uint64(p[0]) | uint64(p[n/2])<<8 | uint64(p[n-1])<<16, 0
	}
	return 0, 0
}
