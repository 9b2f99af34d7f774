package runtime

import (
	"math"
	"strconv"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
)

// block returns the name of a tensor of block i.
func block(i int, suffix string) string { return "blk." + strconv.Itoa(i) + "." + suffix }

// loader connects the weights of a network with the tensors of a source, in two steps. While the network is built, each
// weight is declared: its tensor is looked up and its type and shape are checked. load then gets the data. The first
// thing wrong stays in err, and nothing of size is allocated before all is known to be right.
type loader struct {
	src    Source
	infos  []gguf.TensorInfo
	byName map[string]int
	exact  bool
	err    error

	vectors  []vectorFill
	matrices []matrixFill
	memory   Memory
	acts     activationSizes
}

// vectorFill gets elements [lo,hi) of a tensor.
type vectorFill struct {
	dst    *[]float32
	tensor int
	lo, hi int
}

// matrixFill gets the rows of dst from row first on.
type matrixFill struct {
	dst    *matrix
	tensor int
	first  int
}

func newLoader(src Source, exact bool) (*loader, error) {
	l := &loader{src: src, infos: src.Tensors(), byName: map[string]int{}, exact: exact}
	for i, t := range l.infos {
		if _, twice := l.byName[t.Name]; twice {
			return nil, fault.New(fault.BadInput, "the model has two tensors named %q", t.Name)
		}
		l.byName[t.Name] = i
	}
	return l, nil
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fault.New(fault.BadInput, format, args...)
	}
}

func (l *loader) has(name string) bool {
	_, ok := l.byName[name]
	return ok
}

// dim returns dimension i of a tensor, 0 if there is none of that name.
func (l *loader) dim(name string, i int) int {
	t, ok := l.byName[name]
	if !ok || l.infos[t].Dim(i) > math.MaxInt32 {
		return 0
	}
	return int(l.infos[t].Dim(i))
}

// elements returns the number of elements of a tensor, 0 if there is none of that name.
func (l *loader) elements(name string) int {
	t, ok := l.byName[name]
	if !ok || l.infos[t].Elements() > math.MaxInt32 {
		return 0
	}
	return int(l.infos[t].Elements())
}

// find looks a tensor up and checks that it can be decoded and fits into the memory of this machine.
func (l *loader) find(name string) (int, bool) {
	i, ok := l.byName[name]
	if !ok {
		l.fail("the model has no tensor %q", name)
		return 0, false
	}
	t := l.infos[i]
	if !quant.CanDecode(t.Type) {
		l.fail("tensor %q is of type %s, which can't be a weight", name, t.Type)
		return 0, false
	}
	size, ok := t.Size()
	if !ok || size > math.MaxInt-64 || t.Elements() > math.MaxInt-64 {
		l.fail("tensor %q of %v %s is too large for this machine", name, t.Shape, t.Type)
		return 0, false
	}
	return i, true
}

// vector declares a weight of n elements that is decoded to float32. Dimensions of 1 don't matter.
func (l *loader) vector(dst *[]float32, name string, n int) {
	i, ok := l.find(name)
	if !ok {
		return
	}
	if l.infos[i].Elements() != int64(n) {
		l.fail("tensor %q has shape %v, not %d elements", name, l.infos[i].Shape, n)
		return
	}
	l.memory.Weights += 4 * int64(n)
	l.vectors = append(l.vectors, vectorFill{dst, i, 0, n})
}

// optional declares a vector if its tensor is there.
func (l *loader) optional(dst *[]float32, name string, n int) {
	if l.has(name) {
		l.vector(dst, name, n)
	}
}

// matrix declares a linear map [in, out], and its bias [out] if NAME.bias is there. name has no suffix.
func (l *loader) matrix(dst *matrix, name string, in, out int) { l.stack(dst, name, in, out, 1, 1) }

// stack declares n linear maps [in, out, n]. rows is how many input vectors each token brings along.
func (l *loader) stack(dst *matrix, name string, in, out, n, rows int) {
	i, ok := l.table(name+".weight", in, out, n)
	if !ok {
		return
	}
	l.declare(dst, i, in, out, n, 0, rows)
	l.optional(&dst.bias, name+".bias", out*n)
	l.scale(dst, name, n)
}

// fused declares several linear maps [in, out] whose rows stand one after the other in one tensor.
func (l *loader) fused(name string, in int, dst []*matrix, out []int) {
	total := 0
	for _, n := range out {
		total += n
	}
	i, ok := l.table(name+".weight", in, total, 1)
	if !ok {
		return
	}
	bias, biased := 0, l.has(name+".bias")
	if biased {
		if bias, ok = l.find(name + ".bias"); !ok {
			return
		}
		if l.infos[bias].Elements() != int64(total) {
			l.fail("tensor %q has shape %v, not %d elements", l.infos[bias].Name, l.infos[bias].Shape, total)
			return
		}
		l.memory.Weights += 4 * int64(total)
	}
	first := 0
	for j, m := range dst {
		l.declare(m, i, in, out[j], 1, first, 1)
		if biased {
			l.vectors = append(l.vectors, vectorFill{&m.bias, bias, first, first + out[j]})
		}
		l.scale(m, name, 1)
		first += out[j]
	}
}

// table looks up a tensor of shape [in, out, n].
func (l *loader) table(name string, in, out, n int) (tensor int, ok bool) {
	i, ok := l.find(name)
	if !ok {
		return 0, false
	}
	t := l.infos[i]
	if t.Dim(0) != int64(in) || t.Dim(1) != int64(out) || t.Dim(2) != int64(n) || t.Dim(3) != 1 {
		l.fail("tensor %q has shape %v, not [%d %d %d]", t.Name, t.Shape, in, out, n)
		return 0, false
	}
	if in == 0 || out == 0 || n == 0 {
		l.fail("tensor %q is empty", t.Name)
		return 0, false
	}
	return i, true
}

func (l *loader) declare(dst *matrix, tensor, in, out, n, first, rows int) {
	t := l.infos[tensor]
	rowSize, _ := t.RowSize()
	*dst = matrix{name: t.Name, typ: t.Type, in: in, out: out, n: n, rowSize: int(rowSize)}
	size := rowSize * int64(out) * int64(n)
	if l.tensorBytes(tensor) != nil {
		l.memory.Mapped += size
	} else {
		l.memory.Weights += size
	}
	l.matrices = append(l.matrices, matrixFill{dst, tensor, first})
	l.acts.add(dst, rows, l.exact)
}

// scale declares the factor of a matrix or of each map of a stack, if there is one.
func (l *loader) scale(dst *matrix, name string, n int) {
	s := name + ".scale"
	if !l.has(s) {
		return
	}
	if e := l.elements(s); e != 1 && e != n {
		l.fail("tensor %q has %d elements, neither 1 nor %d", s, e, n)
		return
	}
	l.vector(&dst.scale, s, l.elements(s))
}

func (l *loader) tensorBytes(i int) []byte {
	if m, ok := l.src.(Mapped); ok {
		return m.TensorBytes(i)
	}
	return nil
}

// load gets the data of everything declared.
func (l *loader) load() error {
	for _, v := range l.vectors {
		t := l.infos[v.tensor]
		size, _ := t.Size()
		raw, err := l.bytes(v.tensor, 0, size)
		if err != nil {
			return err
		}
		all := make([]float32, t.Elements())
		if err := quant.Decode(t.Type, all, raw); err != nil {
			return err
		}
		*v.dst = all[v.lo:v.hi]
	}
	for _, m := range l.matrices {
		at := int64(m.first) * int64(m.dst.rowSize)
		raw, err := l.bytes(m.tensor, at, int64(m.dst.rowSize)*int64(m.dst.out)*int64(m.dst.n))
		if err != nil {
			return err
		}
		m.dst.data = raw
	}
	return nil
}

// bytes returns a part of a tensor where it is mapped, else a copy.
func (l *loader) bytes(tensor int, off, size int64) ([]byte, error) {
	t := l.infos[tensor]
	if raw := l.tensorBytes(tensor); raw != nil {
		if total, _ := t.Size(); int64(len(raw)) != total {
			return nil, fault.New(fault.BadInput, "tensor %q has %d bytes, not %d", t.Name, len(raw), total)
		}
		return raw[off : off+size : off+size], nil
	}
	raw := make([]byte, size)
	if err := l.src.ReadTensor(tensor, raw, off); err != nil {
		return nil, fault.New(fault.KindOf(err), "tensor %q: %w", t.Name, err)
	}
	return raw, nil
}
