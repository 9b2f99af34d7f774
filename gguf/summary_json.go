package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"
)

// jsonElements is the longest array that a PairSummary carries in full.
const jsonElements = 64

// PairSummary is a metadata pair for machines.
//
// Numbers, booleans and strings stand as such; numbers JSON cannot express are the strings "NaN", "+Inf" and "-Inf".
// An array of more than 64 elements is replaced by its length and the SHA-256 of its encoded elements. A string that is
// not UTF-8, alone or in an array, is printed with replacement characters, and SHA256 is given as well.
type PairSummary struct {
	Key    string `json:"key"`
	Type   string `json:"type"`
	Elem   string `json:"elem,omitempty"`   // element type of an array
	Length *int   `json:"length,omitempty"` // of an array
	Value  any    `json:"value,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the encoded value, where Value does not carry all of it
	text   string // for people
}

func summarizeMetadata(m *Metadata) []PairSummary {
	list := make([]PairSummary, 0, m.Len())
	for key, v := range m.All() {
		p := PairSummary{Key: key, Type: v.Type.String(), text: v.Format()}
		exact := true
		if v.Type == Array {
			p.Elem = v.Elem.String()
			p.Length = &v.Len
			if exact = v.Len <= jsonElements; exact {
				values := make([]any, 0, v.Len)
				for _, e := range v.elements() {
					values = append(values, e.plain())
					exact = exact && e.isText()
				}
				p.Value = values
			}
		} else {
			p.Value = v.plain()
			exact = v.isText()
		}
		if !exact {
			sum := sha256.Sum256(v.Raw)
			p.SHA256 = hex.EncodeToString(sum[:])
		}
		list = append(list, p)
	}
	return list
}

// isText reports whether v can stand in JSON unchanged.
func (v Value) isText() bool { return v.Type != String || utf8.Valid(v.Raw) }

// plain returns a scalar or string as the Go value that JSON prints exactly.
func (v Value) plain() any {
	switch v.Type {
	case String:
		return string(v.Raw)
	case Bool:
		return v.Raw[0] != 0
	case Float32, Float64:
		f, _ := v.Float()
		switch {
		case math.IsNaN(f) || math.IsInf(f, 0):
			return strconv.FormatFloat(f, 'g', -1, 64)
		case v.Type == Float32:
			return float32(f)
		}
		return f
	case Uint64:
		n, _ := v.Uint()
		return n
	}
	n, _ := v.Int()
	return n
}
