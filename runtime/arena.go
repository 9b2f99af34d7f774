package runtime

// arena gives out the memory of a session. A dry arena only counts, so that the same code that builds a session
// says beforehand how large it will be.
type arena struct {
	dry     bool
	batch   int // tokens of one pass
	context int // positions of a full cache
	workers int
	kv      KVType

	memory Memory
	states [][]float32 // recurrent state, for resets and snapshots
	caches []*kvCache
}

// elements returns the product of dims, at most 2⁶⁰: sizes beyond any memory are still refused by name.
func elements(dims ...int) int64 {
	n := int64(1)
	for _, d := range dims {
		if d > 0 && n > 1<<60/int64(d) {
			return 1 << 60
		}
		n *= int64(d)
	}
	return n
}

// buffer returns scratch memory for a table of floats.
func (a *arena) buffer(dims ...int) []float32 {
	n := elements(dims...)
	a.memory.Buffers += 4 * n
	return a.floats(n)
}

// perToken returns scratch memory for a table of floats for each token of a pass.
func (a *arena) perToken(dims ...int) []float32 {
	return a.buffer(append([]int{a.batch}, dims...)...)
}

// table returns a table of floats that lasts from pass to pass.
func (a *arena) table(dims ...int) []float32 {
	buf := a.buffer(dims...)
	a.state(buf, elements(dims...))
	return buf
}

// state takes note of n floats at the head of a buffer that last from pass to pass.
func (a *arena) state(buf []float32, n int64) {
	a.memory.State += 4 * n
	a.memory.Buffers -= 4 * n
	if !a.dry {
		a.states = append(a.states, buf[:n])
	}
}

func (a *arena) floats(n int64) []float32 {
	if a.dry {
		return nil
	}
	return make([]float32, n)
}

// Memory is the memory of a model and its sessions, in bytes.
type Memory struct {
	Weights int64 // weights in memory of the process
	Mapped  int64 // weights in the mapped file: resident as far as the system has room
	KV      int64 // key and value cache
	State   int64 // recurrent state: convolution windows, delta-rule and Mamba matrices
	Buffers int64 // activations, scores and logits
}

// Total returns the sum. Mapped weights count: every token reads them.
func (m Memory) Total() int64 { return m.Weights + m.Mapped + m.KV + m.State + m.Buffers }

func (m Memory) plus(o Memory) Memory {
	return Memory{m.Weights + o.Weights, m.Mapped + o.Mapped, m.KV + o.KV, m.State + o.State, m.Buffers + o.Buffers}
}
