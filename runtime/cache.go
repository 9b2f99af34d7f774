package runtime

import (
	"fmt"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/kernels"
	"gguf-forge/quant"
)

// KVType is how keys and values are kept.
type KVType int

// The cache types. KVDefault is f16, or f32 for a model loaded with LoadOptions.Exact.
const (
	KVDefault KVType = iota
	KVF16
	KVF32
	KVQ8_0
)

// ParseKVType reads "f16", "f32" or "q8_0".
func ParseKVType(s string) (KVType, error) {
	switch s {
	case "f16":
		return KVF16, nil
	case "f32":
		return KVF32, nil
	case "q8_0":
		return KVQ8_0, nil
	}
	return 0, fault.New(fault.Usage, "unknown cache type %q: f16, f32 and q8_0 exist", s)
}

func (t KVType) String() string {
	switch t {
	case KVDefault:
		return "default"
	case KVF16:
		return "f16"
	case KVF32:
		return "f32"
	case KVQ8_0:
		return "q8_0"
	}
	return fmt.Sprintf("cache type %d", int(t))
}

// stored returns the type of weights that the cache is stored and multiplied as.
func (t KVType) stored() gguf.Type {
	return [...]gguf.Type{KVF16: gguf.F16, KVF32: gguf.F32, KVQ8_0: gguf.Q8_0}[t]
}

// span is the number of consecutive positions that attention works on at a time. Caches are a multiple of it long.
const span = 64

// rows is a table of heads × cells vectors of cols values, stored as the weight type of that name.
type rows struct {
	typ     gguf.Type
	cells   int
	cols    int
	rowSize int
	data    []byte
}

func newRows(a *arena, heads, cells, cols int) rows {
	t := a.kv.stored()
	size, _ := t.RowSize(int64(cols)) // 0 where the type doesn't fit: then the session is refused
	r := rows{typ: t, cells: cells, cols: cols, rowSize: int(size)}
	n := elements(heads, cells, r.rowSize)
	a.memory.KV += n
	if !a.dry {
		r.data = make([]byte, n)
	}
	return r
}

// put stores a vector.
func (r *rows) put(head, cell int, x []float32) {
	if err := quant.Encode(r.typ, r.at(head, cell, 1), x, r.cols, nil); err != nil {
		panic(err) // the type was checked when the session was made
	}
}

// at returns the bytes of n consecutive vectors.
func (r *rows) at(head, cell, n int) []byte {
	at := (head*r.cells + cell) * r.rowSize
	return r.data[at : at+n*r.rowSize]
}

// addable returns n consecutive vectors as bytes of a type that kernels.AddRows knows, decoded to scratch memory of n×cols floats
// if they must be.
func (r *rows) addable(scratch []float32, head, cell, n int) ([]byte, kernels.Weights) {
	raw := r.at(head, cell, n)
	switch r.typ {
	case gguf.F16:
		return raw, kernels.F16
	case gguf.F32:
		return raw, kernels.F32
	}
	scratch = scratch[:n*r.cols]
	if err := quant.Decode(r.typ, scratch, raw); err != nil {
		panic(err) // the type was checked when the session was made
	}
	return bytesOf(scratch), kernels.F32
}

// kvCache holds the keys and values of one layer. Position p lives in cell p mod cells, so a layer with a window keeps
// only as many as it can still see.
type kvCache struct {
	heads  int
	k, v   rows
	cells  int
	window int // positions a query sees, itself included; 0: all
	shared int // above 0: values are the first so many values of the keys, v is empty
}

// cache makes the cache of a layer with heads key heads. window is 0, or the number of positions a query sees.
func (a *arena) cache(heads, keyLen, valLen, window int) *kvCache {
	c := a.newCache(heads, window)
	c.k = newRows(a, heads, c.cells, keyLen)
	c.v = newRows(a, heads, c.cells, valLen)
	return c
}

// sharedCache makes a cache of one head whose values are the first valLen values of its keys.
func (a *arena) sharedCache(keyLen, valLen int) *kvCache {
	c := a.newCache(1, 0)
	c.k = newRows(a, 1, c.cells, keyLen)
	c.shared = valLen
	return c
}

func (a *arena) newCache(heads, window int) *kvCache {
	cells := a.context
	if window > 0 {
		cells = min(cells, window+a.batch) // a whole pass is stored before its first query looks back
	}
	c := &kvCache{heads: heads, cells: (cells + span - 1) / span * span, window: window}
	a.caches = append(a.caches, c)
	return c
}

// spare is how many positions one can go back without missing what was there, for a sequence of any length.
func (c *kvCache) spare() int { return c.cells - c.window }

// stored returns the table that holds the values.
func (c *kvCache) stored() *rows {
	if c.shared > 0 {
		return &c.k
	}
	return &c.v
}

// valLen returns the length of a value.
func (c *kvCache) valLen() int {
	if c.shared > 0 {
		return c.shared
	}
	return c.v.cols
}
