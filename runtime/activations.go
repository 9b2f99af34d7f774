package runtime

import (
	"gguf-forge/gguf"
	"gguf-forge/kernels"
)

// The reference engine rounds activations before it multiplies them with weights: to the weights' own type where that is
// f16 or bf16, else to blocks of 8-bit codes. formOf says which.
func formOf(t gguf.Type) kernels.Form {
	switch t {
	case gguf.F32:
		return kernels.FormF32
	case gguf.F16:
		return kernels.FormF16
	case gguf.BF16:
		return kernels.FormBF16
	case gguf.Q4_1, gguf.Q5_1:
		return kernels.FormQ8_1
	case gguf.Q1_0, gguf.Q2_0, gguf.Q4_0, gguf.Q5_0, gguf.Q8_0, gguf.MXFP4, gguf.NVFP4, gguf.IQ4NL:
		return kernels.FormQ8_0
	}
	return kernels.FormQ8_K
}

// kernelOf returns the kernel type of weights that kernels multiply as they are stored.
func kernelOf(t gguf.Type) (kernels.Weights, bool) { return kernels.WeightsNamed(t.String()) }

const forms = int(kernels.FormQ8_K) + 1

// activationSizes is how many values of one token a session has to hold in each form.
type activationSizes struct {
	native  [forms]int64 // for kernels
	decoded [forms]int64 // rounded to the form, then float32 again, for weights that are decoded too
	rowCols int          // values of the longest weight row that is decoded
}

// add makes room for the input of w, rows vectors a token.
func (s *activationSizes) add(w *matrix, rows int, exact bool) {
	form := formOf(w.typ)
	if exact {
		form = kernels.FormF32
	}
	n := elements(rows, w.in)
	s.native[form] = max(s.native[form], n)
	if w.decodes(exact) {
		s.rowCols = max(s.rowCols, w.in)
		if form != kernels.FormF32 {
			s.decoded[form] = max(s.decoded[form], n)
		}
	}
}

// activations are the input vectors of matrix products, and what became of them for each kind of weight. They are rounded
// when the first product needs them.
type activations struct {
	x          []float32 // rows × cols
	rows, cols int
	exact      bool
	native     [forms]roundedRows
	decoded    [forms]roundedRows
	values     []float32 // [workers][cols]

	job struct { // what part does
		form    kernels.Form
		decoded bool
	}
}

type roundedRows struct {
	a     *kernels.Activations
	valid bool
}

func newActivations(a *arena, s activationSizes, exact bool) activations {
	act := activations{exact: exact, values: a.buffer(a.workers, s.rowCols)}
	room := func(form kernels.Form, n int64) roundedRows {
		if n == 0 {
			return roundedRows{}
		}
		const unit = 256 // a multiple of every block
		count := (min(n, 1<<40)*int64(a.batch) + unit - 1) / unit
		a.memory.Buffers += count * kernels.ActivationBytes(form, unit)
		if a.dry {
			return roundedRows{}
		}
		return roundedRows{a: kernels.NewActivations(form, unit, int(count))}
	}
	for f := range forms {
		act.native[f] = room(kernels.Form(f), s.native[f])
		act.decoded[f] = room(kernels.FormF32, s.decoded[f])
	}
	return act
}

// set makes x, rows vectors of cols values, the input of the next products. x must not change before the last of them.
func (a *activations) set(x []float32, rows, cols int) {
	a.x, a.rows, a.cols = x[:rows*cols], rows, cols
	for f := range forms {
		a.native[f].valid, a.decoded[f].valid = false, false
	}
}

// as returns the activations as the weights w are multiplied with them.
func (a *activations) as(p *pool, w *matrix) *kernels.Activations {
	form := formOf(w.typ)
	if a.exact {
		form = kernels.FormF32
	}
	a.round(p, &a.native[form], form, false)
	if form == kernels.FormF32 || !w.decodes(a.exact) {
		return a.native[form].a
	}
	a.round(p, &a.decoded[form], form, true)
	return a.decoded[form].a
}

func (a *activations) round(p *pool, r *roundedRows, form kernels.Form, decoded bool) {
	if r.valid {
		return
	}
	r.a.Reshape(a.cols)
	a.job.form, a.job.decoded = form, decoded
	p.run(a, a.rows)
	r.valid = true
}

// part rounds row i.
func (a *activations) part(worker, i int) {
	native, x := a.native[a.job.form].a, a.x[i*a.cols:(i+1)*a.cols]
	if !a.job.decoded {
		native.Set(i, x)
		return
	}
	values := a.values[worker*a.cols : (worker+1)*a.cols]
	native.Values(values, i)
	a.decoded[a.job.form].a.Set(i, values)
}
