package tokenizer

import (
	"encoding/binary"
	"math"

	"gguf-forge/internal/fault"
)

// FromLlama2C returns the tokenizer of a llama2.c tokenizer.bin with vocab tokens. The file doesn't say how many there are;
// vocab 0 takes all.
//
// The file is the length of the longest token, then of each token the score (float32), the length (uint32) and the bytes,
// all little-endian. Ids 0, 1 and 2 are unknown, BOS and EOS, then come the 256 bytes, then the pieces with spaces.
func FromLlama2C(data []byte, vocab int) (*Tokenizer, error) {
	d, err := readLlama2C(data, vocab)
	if err != nil {
		return nil, err
	}
	return d.build(Llama2C)
}

const llama2cFirst = 3 + 256 // the first id that is a piece

func readLlama2C(data []byte, vocab int) (*definition, error) {
	if vocab < 0 || vocab > maxTokens {
		return nil, fault.New(fault.BadInput, "a vocabulary of %d tokens", vocab)
	}
	d := &definition{source: Llama2C, kind: sentencePiece, addBOS: true, addSpace: true,
		ids: SpecialIDs{BOS: 1, EOS: 2, EOT: None, EOM: None, Unknown: 0, Separator: None, Padding: None, Mask: None}}
	for i := range d.fill {
		d.fill[i] = None
	}
	rest := data
	if len(rest) < 4 {
		return nil, fault.New(fault.BadInput, "tokenizer.bin of %d bytes", len(data))
	}
	longest := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	for id := 0; id < vocab || vocab == 0 && len(rest) > 0; id++ {
		if len(rest) < 8 {
			return nil, fault.WithHint(fault.New(fault.BadInput, "tokenizer.bin ends in token %d", id), "it is cut off, or the vocabulary has fewer tokens")
		}
		score := math.Float32frombits(binary.LittleEndian.Uint32(rest))
		n := binary.LittleEndian.Uint32(rest[4:])
		rest = rest[8:]
		if n > longest || int64(n) > int64(len(rest)) {
			return nil, fault.New(fault.BadInput, "token %d of tokenizer.bin has %d bytes, more than there are or than it says the longest has (%d)", id, n, longest)
		}
		if score != score {
			return nil, fault.New(fault.BadInput, "the score of token %d is not a number", id)
		}
		if id == maxTokens {
			return nil, checkTokenCount(id + 1)
		}
		d.addLlama2C(id, score, rest[:n])
		rest = rest[n:]
	}
	if d.texts.len() < llama2cFirst {
		return nil, fault.New(fault.BadInput, "tokenizer.bin has %d tokens: the three special ones and 256 bytes are expected", d.texts.len())
	}
	return d, d.indexTexts()
}

// addLlama2C adds a token with the text it has in a GGUF file.
func (d *definition) addLlama2C(id int, score float32, text []byte) {
	attr := Normal
	switch {
	case id == 0:
		attr = Unknown
	case id == 1:
		attr, text = Control, []byte("<s>")
	case id == 2:
		attr, text = Control, []byte("</s>")
	case id < llama2cFirst:
		attr, text = Byte, []byte(byteText(byte(id-3)))
	}
	d.attrs = append(d.attrs, attr)
	d.scores = append(d.scores, score)
	for i, b := range text {
		if b == ' ' && attr == Normal {
			d.texts.blob = append(d.texts.blob, spaceMark...)
		} else {
			d.texts.blob = append(d.texts.blob, text[i])
		}
	}
	d.texts.close()
}
