package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// check reports a Value whose bytes do not encode what its type says. Parsed values never fail it.
func (v Value) check() error {
	switch {
	case v.Type == String:
		if len(v.Raw) > maxString {
			return fmt.Errorf("string of %d bytes, more than %d", len(v.Raw), maxString)
		}
		return nil
	case v.Type == Array:
		return v.checkArray()
	case v.Type.Size() == 0:
		return fmt.Errorf("unknown value type %d", uint32(v.Type))
	case len(v.Raw) != v.Type.Size():
		return fmt.Errorf("%s of %d bytes", v.Type, len(v.Raw))
	}
	return nil
}

func (v Value) checkArray() error {
	if v.Len < 0 || v.Len > maxElements {
		return fmt.Errorf("array of %d elements", v.Len)
	}
	if v.Elem == Array {
		return errors.New("array of arrays")
	}
	if size := v.Elem.Size(); size > 0 {
		if int64(v.Len)*int64(size) != int64(len(v.Raw)) {
			return fmt.Errorf("array of %d %s with %d bytes", v.Len, v.Elem, len(v.Raw))
		}
		return nil
	}
	if v.Elem != String {
		return fmt.Errorf("array of unknown value type %d", uint32(v.Elem))
	}
	raw := v.Raw
	for range v.Len {
		if len(raw) < 8 {
			return errors.New("string array ends early")
		}
		n := binary.LittleEndian.Uint64(raw)
		if n > uint64(len(raw)-8) {
			return errors.New("string array ends early")
		}
		raw = raw[8+n:]
	}
	if len(raw) > 0 {
		return fmt.Errorf("string array with %d bytes too many", len(raw))
	}
	return nil
}

// AsReference returns the value as llama-quantize copies it from its input: strings, also those inside
// arrays, end at the first NUL, and booleans become 0 or 1. A value it would not change is returned as is.
func (v Value) AsReference() Value {
	switch {
	case v.Type == String:
		v.Raw = cutNUL(v.Raw)
	case v.Type == Bool, v.Type == Array && v.Elem == Bool:
		v.Raw = normalBools(v.Raw)
	case v.Type == Array && v.Elem == String:
		v.Raw = cutNULs(v.Raw, v.Len)
	}
	return v
}

// AsReference returns the pairs as llama-quantize copies them from its input: values as Value.AsReference
// does, keys cut at the first NUL, and a pair whose key occurred before replaces it at the end of the list.
func (m *Metadata) AsReference() *Metadata {
	out := &Metadata{pairs: make([]KV, 0, m.Len())}
	for key, v := range m.All() {
		out.Set(string(cutNUL([]byte(key))), v.AsReference())
	}
	return out
}

func cutNUL(s []byte) []byte {
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i:i]
	}
	return s
}

// cutNULs cuts each of n strings; it copies only if there is one to cut.
func cutNULs(raw []byte, n int) []byte {
	out := raw[:0:0]
	changed := false
	for at := 0; n > 0; n-- {
		end := at + 8 + int(binary.LittleEndian.Uint64(raw[at:]))
		s := raw[at+8 : end]
		short := cutNUL(s)
		if len(short) < len(s) && !changed {
			changed = true
			out = append(make([]byte, 0, len(raw)), raw[:at]...)
		}
		if changed {
			out = binary.LittleEndian.AppendUint64(out, uint64(len(short)))
			out = append(out, short...)
		}
		at = end
	}
	if !changed {
		return raw
	}
	return out
}

func normalBools(raw []byte) []byte {
	for i, b := range raw {
		if b <= 1 {
			continue
		}
		out := bytes.Clone(raw)
		for j := i; j < len(out); j++ {
			out[j] = min(out[j], 1)
		}
		return out
	}
	return raw
}
