package runtime

import (
	"math"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Limits on what metadata may ask for. Real models are far below; beyond them sizes might overflow.
const (
	maxLayers = 4096
	maxCount  = 4096    // heads, their lengths, groups, experts
	maxSize   = 1 << 22 // widths
	maxTaps   = 64      // of a convolution
)

// keys reads the metadata of one architecture. The first thing wrong with it stays in err.
type keys struct {
	meta *gguf.Metadata
	arch string
	err  error
}

func (k *keys) fail(format string, args ...any) {
	if k.err == nil {
		k.err = fault.New(fault.BadInput, format, args...)
	}
}

func (k *keys) get(key string) (gguf.Value, bool) { return k.meta.Get(k.arch + "." + key) }

// size returns a width, def where it is missing.
func (k *keys) size(key string, def int) int { return k.number(key, def, maxSize) }

// count returns a number of things, def where it is missing.
func (k *keys) count(key string, def int) int { return k.number(key, def, maxCount) }

func (k *keys) number(key string, def, limit int) int {
	v, ok := k.get(key)
	if !ok {
		return def
	}
	n, ok := v.Uint()
	if !ok || n > uint64(limit) {
		k.fail("%s.%s is %s, not a number between 0 and %d", k.arch, key, v.Format(), limit)
		return def
	}
	return int(n)
}

// need is size and needCount is count for a key that must be there and not be 0.
func (k *keys) need(key string) int      { return k.positive(key, maxSize) }
func (k *keys) needCount(key string) int { return k.positive(key, maxCount) }

func (k *keys) positive(key string, limit int) int {
	n := k.number(key, 0, limit)
	if n == 0 {
		k.fail("the model has no %s.%s, or it is 0", k.arch, key)
		return 1 // no divisions by zero before the error is seen
	}
	return n
}

// perLayer returns a count for each of n layers, from a number or an array.
func (k *keys) perLayer(key string, n, def, limit int) []int {
	list := make([]int, n)
	v, ok := k.get(key)
	if !ok || v.Type != gguf.Array {
		one := k.number(key, def, limit)
		for i := range list {
			list[i] = one
		}
		return list
	}
	ints, ok := v.Ints()
	if !ok || len(ints) < n {
		k.fail("%s.%s has no number for each of %d layers", k.arch, key, n)
		return list
	}
	for i := range list {
		if ints[i] < 0 || ints[i] > int64(limit) {
			k.fail("%s.%s holds %d", k.arch, key, ints[i])
			return list
		}
		list[i] = int(ints[i])
	}
	return list
}

// flags returns an array of n booleans; ok is false where the key is no array.
func (k *keys) flags(key string, n int) (list []bool, ok bool) {
	v, has := k.get(key)
	if !has || v.Type != gguf.Array {
		return nil, false
	}
	ints, good := v.Ints()
	if !good || len(ints) < n {
		k.fail("%s.%s has no flag for each of %d layers", k.arch, key, n)
		return nil, false
	}
	list = make([]bool, n)
	for i := range list {
		list[i] = ints[i] != 0
	}
	return list, true
}

// float returns a finite number, def where it is missing.
func (k *keys) float(key string, def float64) float64 {
	v, ok := k.get(key)
	if !ok {
		return def
	}
	f, ok := v.Float()
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		k.fail("%s.%s is %s, not a finite number", k.arch, key, v.Format())
		return def
	}
	return f
}

// scale is float for a factor where 0 and missing both mean def.
func (k *keys) scale(key string, def float64) float64 {
	if f := k.float(key, def); f != 0 {
		return f
	}
	return def
}

func (k *keys) flag(key string, def bool) bool {
	v, ok := k.get(key)
	if !ok {
		return def
	}
	b, ok := v.Bool()
	if !ok {
		k.fail("%s.%s is %s, not true or false", k.arch, key, v.Format())
		return def
	}
	return b
}

func (k *keys) text(key string) string { return k.meta.Text(k.arch + "." + key) }

// common is what all architectures have.
type common struct {
	layers  int     // of the trunk
	nextn   int     // NextN blocks after the trunk
	width   int     // d, the embedding length
	context int     // positions the model was trained for
	heads   int     // H, query heads
	kvHeads []int   // Hkv of each block; 0: the block is recurrent
	keyLen  int     // dh of queries and keys
	valLen  int     // dh of values
	eps     float32 // of every RMS norm
}

func readCommon(k *keys) common {
	c := common{
		layers:  k.needCount("block_count"),
		nextn:   k.count("nextn_predict_layers", 0),
		width:   k.need("embedding_length"),
		context: int(min(k.meta.ArchUint("context_length", 0), math.MaxInt32)),
		heads:   k.needCount("attention.head_count"),
		eps:     float32(k.float("attention.layer_norm_rms_epsilon", -1)),
	}
	if c.eps < 0 {
		k.fail("the model has no %s.attention.layer_norm_rms_epsilon, or it is negative", k.arch)
	}
	if c.layers > maxLayers || c.nextn >= c.layers {
		k.fail("%s.block_count is %d with %d NextN blocks", k.arch, c.layers, c.nextn)
		c.layers, c.nextn = 1, 0
	}
	c.kvHeads = k.perLayer("attention.head_count_kv", c.layers, c.heads, maxCount)
	c.layers -= c.nextn
	c.keyLen = k.count("attention.key_length", min(c.width/c.heads, maxCount))
	c.valLen = k.count("attention.value_length", min(c.width/c.heads, maxCount))
	for _, h := range c.kvHeads {
		if h > 0 && c.heads%h != 0 {
			k.fail("%d query heads can't share %d key heads", c.heads, h)
		}
	}
	return c
}
