package corpus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"gguf-forge/internal/fault"
)

// Counts are the tokens of a text by id. The sum of the counts of parts are the counts of the whole.
type Counts []uint64

// Tokens returns the number of tokens.
func (c Counts) Tokens() uint64 {
	n := uint64(0)
	for _, v := range c {
		n += v
	}
	return n
}

// Add adds the counts of another text in the same vocabulary.
func (c Counts) Add(d []uint64) {
	for i, v := range d {
		c[i] += v
	}
}

// WriteTo writes one little-endian uint64 per id, the form of a count vector in a file.
func (c Counts) WriteTo(w io.Writer) (int64, error) {
	b := bufio.NewWriter(w)
	for _, v := range c {
		b.Write(binary.LittleEndian.AppendUint64(b.AvailableBuffer(), v))
	}
	if err := b.Flush(); err != nil {
		return 0, err
	}
	return int64(len(c)) * 8, nil
}

// WriteJSON writes an object with the ids that occur, rising: {"5":12,"17":1}.
func (c Counts) WriteJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteByte('{')
	first := true
	for id, v := range c {
		if v == 0 {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(b, `"%s":%d`, strconv.Itoa(id), v)
	}
	b.WriteString("}\n")
	return b.Flush()
}

// ReadCounts reads a count vector for a vocabulary of size entries.
func ReadCounts(r io.Reader, size int) (Counts, error) {
	c := make(Counts, size)
	in := bufio.NewReader(r)
	var b [8]byte
	for i := range c {
		if _, err := io.ReadFull(in, b[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, otherVocabulary("the count vector ends after %d entries, the vocabulary has %d", i, size)
		} else if err != nil {
			return nil, err
		}
		c[i] = binary.LittleEndian.Uint64(b[:])
	}
	if _, err := in.ReadByte(); err == nil {
		return nil, otherVocabulary("the count vector has more than the %d entries of the vocabulary", size)
	} else if err != io.EOF {
		return nil, err
	}
	const most = 1 << 56 // so that sums of many vectors stay exact
	for id, v := range c {
		if v > most {
			return nil, fault.New(fault.BadInput, "the count vector says %d for id %d: it is no count vector", v, id)
		}
	}
	return c, nil
}

func otherVocabulary(format string, args ...any) error {
	return fault.WithHint(fault.New(fault.BadInput, format, args...), "counts belong to one vocabulary; count again with this model")
}
