package quant

import (
	"fmt"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Options says how a model is quantized: the flags of llama-quantize that decide types and metadata.
//
// Without Strict, Choose and EditMetadata do exactly what the reference does, and fail where it fails (or
// aborts), but before anything is written; only an override that matches no tensor is an error of ours.
// Strict, the mode of recipes, also refuses what the reference does silently: see AllowFallback and
// AllowMissingImportance.
type Options struct {
	FileType        FileType
	Pure            bool       // the default type for every tensor, no mixture
	AllowRequantize bool       // convert tensors that are quantized already
	LeaveOutput     bool       // keep output.weight as it is
	OutputType      *gguf.Type // of output.weight
	EmbeddingType   *gguf.Type // of token_embd.weight and per_layer_token_embd.weight
	Overrides       []Override // the first match decides
	MetadataValues  []MetadataValue
	PruneLayers     []int // layers to leave out, by number; duplicates and numbers without a layer are ignored

	Strict bool
	// AllowFallback lets a Strict policy replace a type whose block does not fit the rows.
	AllowFallback bool
	// AllowMissingImportance lets a Strict policy with an importance matrix quantize a tensor it has no entry
	// for (to a type that would use one). Embeddings and head never need one: collectors don't record them.
	AllowMissingImportance bool
}

// Choice is what happens to one tensor of the output.
type Choice struct {
	Source gguf.TensorInfo
	Name   string    // in the output; differs from Source.Name only where layers were pruned
	Type   gguf.Type // in the output
	Wanted gguf.Type // what the policy asked for: differs from Type only by the shape fallback
	// Importance holds the weights for the encoder; nil if there are none or the type does not use any.
	Importance *Entry
	Reason     string // which rule decided, for people
}

// Copied reports whether the bytes stay as they are.
func (c Choice) Copied() bool { return c.Type == c.Source.Type }

// Fallback reports whether the shape forced another type than the policy asked for.
func (c Choice) Fallback() bool { return c.Type != c.Wanted }

// Target returns the row of the output's tensor table, without its offset.
func (c Choice) Target() gguf.TensorInfo {
	return gguf.TensorInfo{Name: c.Name, Type: c.Type, Shape: c.Source.Shape}
}

// Choose decides the type of every output tensor. The tensors are in output order (SortTensors, or that of the
// source shards); the result has the same order, without pruned layers. im may be nil; it is filtered already.
//
// The errors are all problems found, each naming its tensor and reason; with any of them the choices are
// good for display only. The rules are the reference's of August 2026 ("gguf-and-quantization", section 4).
func (o Options) Choose(meta *gguf.Metadata, tensors []gguf.TensorInfo, im *Imatrix) ([]Choice, []error) {
	var problems []error
	overrides, errs := compileOverrides(o.Overrides)
	problems = append(problems, errs...)
	if err := im.checkFinite(); err != nil {
		problems = append(problems, err)
	}
	names, _, err := o.outputNames(tensors)
	if err != nil {
		return nil, append(problems, err)
	}

	p := policy{Options: o, overrides: overrides, im: im}
	var choices []Choice
	for i, t := range tensors {
		if names[i] != "" {
			choices = append(choices, Choice{Source: t, Name: names[i]})
		}
	}
	p.mixture = newMixture(o, meta, choices, im.has())
	for i := range choices {
		if err := p.decide(&choices[i]); err != nil {
			problems = append(problems, err)
		}
	}
	if p.needy > 0 {
		problems = append(problems, p.noImatrix())
	}
	for _, f := range overrides {
		if err := f.unmatched(choices); err != nil {
			problems = append(problems, err)
		}
	}
	return choices, problems
}

// policy is the state of one Choose.
type policy struct {
	Options
	overrides []override
	mixture   *mixture
	im        *Imatrix

	// Without an importance matrix all tensors that need one make one problem: needy of them, the first of which
	// is here.
	needy      int
	firstNeedy Choice
}

// decide fills in the type, the reason and the importance of c.
func (p *policy) decide(c *Choice) error {
	if err := p.decideType(c); err != nil {
		return fault.New(fault.BadInput, "tensor %q: %w", c.Name, err)
	}
	if c.Source.Type == gguf.Q8_1 || !c.Source.Type.Known() {
		return fault.New(fault.BadInput, "tensor %q: its type %s cannot be read from a file", c.Name, c.Source.Type)
	}
	if p.im.has() {
		if err := p.decideImportance(c); err != nil {
			return err
		}
	} else if p.requiresImportance(*c) || !c.Copied() && RequiresWeights(c.Type) {
		if p.needy++; p.needy == 1 {
			p.firstNeedy = *c
		}
	}
	if !c.Copied() {
		return p.checkConversion(*c)
	}
	return nil
}

// decideType is the order of precedence: what is not quantized at all, the types given by flag, the
// overrides, the mixture; then the shape fallback.
func (p *policy) decideType(c *Choice) error {
	set := func(t gguf.Type, reason string) error {
		c.Type, c.Wanted, c.Reason = t, t, reason
		return nil
	}
	base, ok := p.FileType.Default()
	if why := p.keep(c.Name, c.Source); why != "" || !ok {
		if why == "" {
			why = "copied"
		}
		return set(c.Source.Type, why)
	}
	switch {
	case p.EmbeddingType != nil && isEmbedding(c.Name):
		return set(*p.EmbeddingType, "token embedding type given")
	case p.OutputType != nil && c.Name == outputName:
		return set(*p.OutputType, "output tensor type given")
	case !base.Quantized():
		return set(base, "default of "+p.FileType.String())
	}

	set(base, "default of "+p.FileType.String())
	if f, ok := p.override(c.Name); ok {
		set(f.Type, "override "+f.text())
	} else if !p.Pure {
		t, err := p.mixture.choose(c.Name, c.Source)
		if err != nil {
			return err
		}
		if t != base {
			set(t, p.FileType.String()+" mixture: "+categoryOf(c.Name).String())
		}
	}
	return p.fitShape(c)
}

func (p *policy) override(name string) (override, bool) {
	for _, f := range p.overrides {
		if f.matches(name) {
			return f, true
		}
	}
	return override{}, false
}

// fitShape replaces a type whose block size does not divide the row.
func (p *policy) fitShape(c *Choice) error {
	if fits(c.Type, c.Source) {
		return nil
	}
	t, ok := shapeFallback(c.Wanted)
	cols := c.Source.Cols()
	elems, _ := c.Wanted.Block()
	if !ok {
		return fmt.Errorf("rows of %d are no multiple of the %d of a block of %s, and no other type is defined for it", cols, elems, c.Wanted)
	}
	if !fits(t, c.Source) {
		t = gguf.F16
	}
	if p.Strict && !p.AllowFallback {
		return fault.WithHint(fmt.Errorf("rows of %d are no multiple of the %d of a block of %s", cols, elems, c.Wanted),
			"give it a type that fits by an override, or allow fallbacks (here %s)", t)
	}
	c.Type = t
	return nil
}

func fits(t gguf.Type, source gguf.TensorInfo) bool {
	elems, _ := t.Block()
	return source.Cols()%elems == 0
}

// shapeFallback is the type to try where t does not fit; ok is false where none is defined. Types with blocks
// of 32 are their own: where 32 does not fit either, the tensor becomes f16.
func shapeFallback(t gguf.Type) (fallback gguf.Type, ok bool) {
	switch t {
	case gguf.IQ1S, gguf.IQ1M, gguf.IQ2XXS, gguf.IQ2XS, gguf.IQ2S, gguf.IQ3XXS, gguf.IQ3S, gguf.IQ4XS:
		return gguf.IQ4NL, true
	case gguf.Q2_0, gguf.Q2_K, gguf.Q3_K, gguf.TQ1_0, gguf.TQ2_0:
		return gguf.Q4_0, true
	case gguf.Q4_K:
		return gguf.Q5_0, true
	case gguf.Q5_K:
		return gguf.Q5_1, true
	case gguf.Q6_K:
		return gguf.Q8_0, true
	}
	elems, _ := t.Block()
	return t, elems == 32
}

// checkConversion reports a source that cannot be converted to the target.
func (p *policy) checkConversion(c Choice) error {
	from := c.Source.Type
	switch {
	case from.Quantized() && !p.AllowRequantize:
		return fault.WithHint(fault.New(fault.BadInput, "tensor %q: requantizing from %s to %s is disabled", c.Name, from, c.Type),
			"start from a 16 or 32 bit file, or allow requantizing")
	case !CanDecode(from):
		return fault.New(fault.BadInput, "tensor %q: %s cannot be converted to %s", c.Name, from, c.Type)
	case !CanEncode(c.Type):
		return fault.New(fault.BadInput, "tensor %q: there is no encoder for %s", c.Name, c.Type)
	case c.Source.Dim(3) != 1:
		return fault.New(fault.BadInput, "tensor %q: tensors of four dimensions cannot be converted", c.Name)
	case c.Source.Elements() == 0:
		return fault.New(fault.BadInput, "tensor %q: it is empty, nothing can be converted", c.Name)
	}
	return nil
}

// decideImportance looks up the weights of a tensor that is converted.
func (p *policy) decideImportance(c *Choice) error {
	if c.Copied() {
		return nil
	}
	e, ok := p.im.Lookup(c.Source.Name)
	if want := c.Source.Cols() * c.Source.Dim(2); ok && int64(len(e.Sums)) != want {
		if !isEmbedding(c.Name) {
			return fault.New(fault.BadInput, "tensor %q: the importance matrix has %d values, the tensor needs %d", c.Name, len(e.Sums), want)
		}
		ok = false // the reference then quantizes embeddings without weights
	}
	if ok {
		if UsesImportance(c.Type) {
			c.Importance = e
		}
		return nil
	}
	switch {
	case p.requiresImportance(*c), RequiresWeights(c.Type):
		return fault.WithHint(fault.New(fault.BadInput, "tensor %q: the importance matrix has no entry for it and %s cannot do without", c.Name, c.Type),
			"give it another type by an override")
	case p.Strict && !p.AllowMissingImportance && UsesImportance(c.Type) && !isEmbedding(c.Name) && c.Name != outputName:
		return fault.WithHint(fault.New(fault.BadInput, "tensor %q: the importance matrix has no entry for it", c.Name),
			"give it a type that uses none by an override, or allow missing importance")
	}
	return nil
}

// requiresImportance is the reference's rule for types that are useless without weights. It holds even for
// tensors that would be copied.
func (p *policy) requiresImportance(c Choice) bool {
	if isEmbedding(c.Name) || c.Name == outputName || p.FileType == Copy || p.keep(c.Name, c.Source) != "" {
		return false
	}
	switch c.Type {
	case gguf.IQ3XXS, gguf.IQ2XXS, gguf.IQ2XS, gguf.IQ2S, gguf.IQ1M, gguf.IQ1S:
		return true
	case gguf.Q2_K:
		return p.FileType == MostlyQ2KS
	}
	return false
}

func (p *policy) noImatrix() error {
	others := ""
	if p.needy > 1 {
		others = fmt.Sprintf(" (so do %d more tensors)", p.needy-1)
	}
	err := fault.New(fault.BadInput, "tensor %q: %s requires an importance matrix%s", p.firstNeedy.Name, p.firstNeedy.Type, others)
	return fault.WithHint(err, "give one with --imatrix, or choose another file type")
}

// UsesImportance reports whether the encoder of t makes use of importance weights.
func UsesImportance(t gguf.Type) bool {
	switch t {
	case gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
		gguf.IQ4NL, gguf.IQ4XS, gguf.IQ3S, gguf.IQ3XXS, gguf.IQ2S, gguf.IQ2XS, gguf.IQ2XXS, gguf.IQ1S, gguf.IQ1M:
		return true
	}
	return false
}
