package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/kernels"
	"gguf-forge/quant"
)

// randomMatrix makes n maps of random weights; types that can't be encoded without importance get equal ones.
func randomMatrix(t *testing.T, typ gguf.Type, in, out, n int, r *rand.Rand) *matrix {
	t.Helper()
	values := make([]float32, in*out*n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	row, ok := typ.RowSize(int64(in))
	if !ok {
		t.Fatalf("no rows of %d %s", in, typ)
	}
	w := &matrix{name: typ.String(), typ: typ, in: in, out: out, n: n, rowSize: int(row), data: make([]byte, int(row)*out*n)}
	weights := make([]float32, in)
	for i := range weights {
		weights[i] = 1
	}
	if err := quant.Encode(typ, w.data, values, in, weights); err != nil {
		t.Fatal(err)
	}
	return w
}

// rounded returns x as weights of w's type see it.
func rounded(x []float32, w *matrix, exact bool) []float32 {
	form := formOf(w.typ)
	if exact {
		form = kernels.FormF32
	}
	a := kernels.NewActivations(form, len(x), 1)
	a.Set(0, x)
	out := make([]float32, len(x))
	a.Values(out, 0)
	return out
}

// TestProducts compares products with every type of weights with a float64 sum over the decoded weights and the rounded
// activations: plain ones, and stacks where groups of inputs meet different maps.
func TestProducts(t *testing.T) {
	const in, out, maps, rows = 256, 37, 3, 7
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, rows*in)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	groups := []group{{2, 0, 2}, {0, 2, 3}, {1, 3, 7}}
	source := []int32{3, 0, 6, 6, 1, 2, 5}
	for _, typ := range gguf.Types() {
		if !quant.CanDecode(typ) || !quant.CanEncode(typ) {
			continue
		}
		for _, exact := range []bool{false, true} {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprint(typ, "/", exact, "/", threads), func(t *testing.T) {
					w := randomMatrix(t, typ, in, out, maps, r)
					w.bias = x[:out*maps]
					w.scale = []float32{1, 2, 3}
					var sizes activationSizes
					sizes.add(w, 1, exact)
					p := newPool(threads)
					defer p.close()
					a := &arena{batch: rows, workers: threads}
					e := newEngine(p, a, sizes, exact)
					dry := &arena{dry: true, batch: rows, workers: threads}
					newEngine(p, dry, sizes, exact)
					if a.memory != dry.memory {
						t.Errorf("%+v planned, %+v taken", dry.memory, a.memory)
					}
					e.act.set(x, rows, in)
					got := make([]float32, rows*(out+2))
					e.mulGroups(got, out+2, w, groups, source)
					for _, g := range groups {
						for i := g.lo; i < g.hi; i++ {
							at := int(source[i])
							check(t, got[i*(out+2):], rounded(x[at*in:(at+1)*in], w, exact), w, g.which)
						}
					}
					if typ == gguf.Q4_1 || typ == gguf.Q5_1 {
						return // the sums of q8_1 are rounded for themselves
					}
					one := *w
					one.n, one.bias, one.scale = 1, nil, nil
					plain := make([]float32, rows*out)
					e.act.set(x, rows, in)
					e.mul(plain, &one)
					for i := range rows {
						check(t, plain[i*out:], rounded(x[i*in:(i+1)*in], w, exact), &one, 0)
					}
				})
			}
		}
	}
}

func check(t *testing.T, got, x []float32, w *matrix, which int) {
	t.Helper()
	row := make([]float32, w.in)
	for r := range w.out {
		w.decode(row, which*w.out+r)
		sum, size := 0.0, 0.0
		for i, v := range row {
			sum += float64(v) * float64(x[i])
			size += math.Abs(float64(v) * float64(x[i]))
		}
		if w.scale != nil {
			sum *= float64(w.scale[which])
			size *= float64(w.scale[which])
		}
		if w.bias != nil {
			sum += float64(w.bias[which*w.out+r])
		}
		tolerance := 1e-5 * (size + 1)
		if (w.typ == gguf.Q4_1 || w.typ == gguf.Q5_1) && formOf(w.typ) == kernels.FormQ8_1 {
			tolerance = 2e-3 * (size + 1)
		}
		if !(math.Abs(float64(got[r])-sum) <= tolerance) {
			t.Fatalf("row %d is %g, want %g", r, got[r], sum)
		}
	}
}

// countTask notes how often each part ran.
type countTask struct {
	ran     []int32
	workers int
	t       *testing.T
}

func (c *countTask) part(worker, i int) {
	if worker < 0 || worker >= c.workers {
		c.t.Errorf("worker %d of %d", worker, c.workers)
	}
	c.ran[i]++
}

// TestPool wants every part to run once, with workers awake and asleep, and no allocation.
func TestPool(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		p := newPool(workers)
		c := &countTask{ran: make([]int32, 100), workers: workers, t: t}
		for round := range 300 {
			n := round % 101
			clear(c.ran)
			p.run(c, n)
			for i, ran := range c.ran {
				if want := int32(0); i < n && ran != 1 || i >= n && ran != want {
					t.Fatalf("%d workers, round %d: part %d ran %d times", workers, round, i, ran)
				}
			}
			if round%50 == 49 {
				for range 10 * spins { // they fall asleep
					_ = p.turn.Load()
				}
			}
		}
		if n := testing.AllocsPerRun(100, func() { p.run(c, 100) }); n > 0 {
			t.Errorf("%d workers: %g allocations a task", workers, n)
		}
		p.close()
	}
}
