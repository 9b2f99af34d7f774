package tokenizer

import "encoding/hex"

// Vocabulary returns what a selection needs to know of t's vocabulary.
func (t *Tokenizer) Vocabulary() Vocabulary {
	hash := t.VocabHash()
	v := Vocabulary{Size: t.Size(), Hash: hex.EncodeToString(hash[:]), Kinds: map[Kind][]uint32{}}
	named := map[int32]bool{}
	s := t.Special()
	for _, id := range []int32{s.BOS, s.EOS, s.EOT, s.EOM, s.Unknown, s.Separator, s.Padding, s.Mask} {
		named[id] = true
	}
	var spelt []uint32 // ordinary tokens of one byte: the byte tokens of a byte-level vocabulary
	for id := range int32(v.Size) {
		a := t.Attributes(id)
		add := func(k Kind) { v.Kinds[k] = append(v.Kinds[k], uint32(id)) }
		if a&(Control|Unknown) != 0 {
			add(KindControl)
		}
		if a&(Control|Unknown|UserDefined) != 0 || named[id] {
			add(KindSpecial)
		}
		if a&Byte != 0 {
			add(KindByte)
		} else if a&Normal != 0 && len(t.Piece(id)) == 1 {
			spelt = append(spelt, uint32(id))
		}
	}
	if len(v.Kinds[KindByte]) == 0 {
		v.Kinds[KindByte] = spelt
	}
	return v
}
