package tokenizer

import "slices"

// EndTokens returns the ids that end a generation, ascending: the end tokens that the file names, and tokens with one of the
// texts that llama.cpp takes for an end. With llama2.c, whose stories stand between BOS tokens, BOS is one too.
func (t *Tokenizer) EndTokens() []int32 {
	s := t.Special()
	ids := []int32{s.EOS, s.EOT, s.EOM}
	if t.mode == Llama2C {
		ids = append(ids, s.BOS)
	}
	for _, text := range endTexts {
		ids = append(ids, t.Lookup(text))
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id int32) bool { return id == None })
}
