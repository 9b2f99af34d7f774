package quant

import (
	"fmt"

	"gguf-forge/gguf"
)

// mixture gives some tensors another type than the default of the file type. It goes through the tensors in
// output order and counts what it has seen, because most rules depend on the position among tensors of the same kind.
type mixture struct {
	fileType   FileType
	base       gguf.Type
	outputType *gguf.Type
	imatrix    bool
	model      modelFacts

	// seen and values are counted over tensors that reach choose, totalValues over all of the model.
	seen        map[category]int
	totalValues int
}

// modelFacts is what the rules know of a model.
type modelFacts struct {
	blocks  int
	experts int
	gqa     int  // query heads per key and value head of the first layer; 0 without key and value heads
	noHeads bool // the reference knows nothing of the heads, and aborts where a rule asks for gqa
	large   bool // a 70B-class model, see isLarge
	falcon  bool
	tied    bool // no head of its own: the embedding serves as head
	// feedForwardExperts: only the experts of the feed-forward net count as such under MXFP4_MOE.
	feedForwardExperts bool
}

func newMixture(o Options, meta *gguf.Metadata, choices []Choice, imatrix bool) *mixture {
	base, _ := o.FileType.Default()
	m := &mixture{fileType: o.FileType, base: base, outputType: o.OutputType, imatrix: imatrix,
		model: o.facts(meta), seen: map[category]int{}}
	m.model.tied = true
	for _, c := range choices {
		switch categoryOf(c.Name) {
		case headTensor:
			m.model.tied = false
		case valueTensor:
			m.totalValues++
		}
	}
	return m
}

func (o Options) facts(meta *gguf.Metadata) modelFacts {
	arch := o.architecture(meta)
	if arch == "clip" { // no language model: the reference reads none of the numbers below
		return modelFacts{noHeads: true}
	}
	heads := o.perLayer(meta, arch+".attention.head_count", 0)
	keyHeads := o.perLayer(meta, arch+".attention.head_count_kv", heads)
	f := modelFacts{
		blocks:             int(min(o.number(meta, arch+".block_count", 0), 1<<30)),
		experts:            int(min(o.number(meta, arch+".expert_count", 0), 1<<30)),
		falcon:             arch == "falcon",
		feedForwardExperts: arch == "bailingmoe3",
	}
	if keyHeads > 0 {
		f.gqa = int(min(heads/keyHeads, 1<<30))
	}
	f.large = isLarge(arch, f.blocks, heads, keyHeads)
	return f
}

// number reads an integer of the metadata as the reference's model loader does: a value given on the command line
// stands for one in the file, whether there is one or not.
func (o Options) number(meta *gguf.Metadata, key string, missing uint64) uint64 {
	n := meta.Uint(key, missing)
	for _, v := range o.MetadataValues {
		if given, ok := v.Value.Uint(); ok && v.Key == key && v.Value.Type == gguf.Uint32 {
			n = given
		}
	}
	return n
}

// perLayer reads a number that may be an array with a value for each layer, and returns that of the first. A value given on
// the command line replaces a single number in the file, but neither an array nor a missing number.
func (o Options) perLayer(meta *gguf.Metadata, key string, missing uint64) uint64 {
	v, ok := meta.Get(key)
	if !ok {
		return missing
	}
	if v.Type != gguf.Array {
		return o.number(meta, key, missing)
	}
	if list, ok := v.Ints(); ok && len(list) > 0 && list[0] >= 0 {
		return uint64(list[0])
	}
	return missing
}

// choose returns the type of a tensor by the rules of the file type. Each group of rules that applies decides alone.
func (m *mixture) choose(name string, t gguf.TensorInfo) (gguf.Type, error) {
	c := categoryOf(name)
	switch {
	case c == headTensor, c == embeddingTensor && m.model.tied:
		return m.head(t), nil
	case m.fileType == MXFP4MoE:
		return m.mxfp4(c, t), nil
	case c == embeddingTensor:
		return m.embedding(), nil
	}

	if c == valueTensor && m.model.noHeads && m.asksForHeads() {
		return m.base, fmt.Errorf("the rule of %s for it needs the numbers of heads, which are not known for this architecture", m.fileType)
	}
	defer func() { m.seen[c]++ }()
	if m.is(MostlyIQ2XXS, MostlyIQ2XS, MostlyIQ2S, MostlyIQ2M, MostlyIQ1S, MostlyIQ1M) {
		return m.veryLow(c), nil
	}
	layer, err := m.layer(c, name)
	if err != nil {
		return m.base, err
	}
	switch {
	case c == valueTensor:
		return m.value(), nil
	case c == keyTensor:
		return m.key(), nil
	case c == queryTensor:
		return m.query(), nil
	case c == downTensor:
		return m.down(layer), nil
	case c == attentionOutTensor:
		return m.attentionOut(), nil
	case c == gateTensor, c == upTensor:
		return m.gateOrUp(layer), nil
	}
	return m.base, nil
}

// isLarge tells the models of the 70B class, whose value heads get more bits, by architecture and number of blocks.
func isLarge(arch string, blocks int, heads, keyHeads uint64) bool {
	switch arch {
	case "llama", "llama-embed":
		return blocks == 80 && heads != keyHeads
	case "qwen2", "deci", "olmo":
		return blocks == 80
	case "jais2":
		return blocks == 68
	}
	return false
}

func (m *mixture) is(list ...FileType) bool {
	for _, f := range list {
		if m.fileType == f {
			return true
		}
	}
	return false
}

func (m *mixture) asksForHeads() bool {
	return m.is(MostlyQ2K, MostlyQ2KS, MostlyIQ3XXS, MostlyIQ3XS, MostlyIQ3S, MostlyIQ4NL, MostlyIQ4XS,
		MostlyIQ2XXS, MostlyIQ2XS, MostlyIQ2S, MostlyIQ2M, MostlyIQ1S, MostlyIQ1M)
}

// layer is the position of a feed-forward tensor: how many of its kind came before, or in a model with experts the
// number in its name.
func (m *mixture) layer(c category, name string) (int, error) {
	if c != downTensor && c != gateTensor && c != upTensor || m.model.experts <= 1 {
		return m.seen[c], nil
	}
	n, ok := layerOf(name)
	if !ok {
		return 0, fmt.Errorf("the name does not tell its layer, which the rules for models with experts need")
	}
	if n < 0 || n >= m.model.blocks {
		return 0, fmt.Errorf("layer %d is not one of the model's %d", n, m.model.blocks)
	}
	return n, nil
}

// more picks the first and last eighth of n layers and every third between.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

func (m *mixture) head(t gguf.TensorInfo) gguf.Type {
	switch {
	case m.outputType != nil:
		return *m.outputType
	case m.fileType == MXFP4MoE, m.model.falcon, !fits(m.base, t):
		return gguf.Q8_0
	case m.is(MostlyIQ2XXS, MostlyIQ2XS, MostlyIQ2S, MostlyIQ2M, MostlyIQ3XXS, MostlyIQ1S, MostlyIQ1M):
		return gguf.Q5_K
	case m.base != gguf.Q8_0:
		return gguf.Q6_K
	}
	return gguf.Q8_0
}

// mxfp4 quantizes the experts; a stack of matrices is taken for experts.
func (m *mixture) mxfp4(c category, t gguf.TensorInfo) gguf.Type {
	experts := t.Dim(2) > 1
	if m.model.feedForwardExperts {
		experts = experts && (c == upTensor || c == gateTensor || c == downTensor)
	}
	if experts {
		return gguf.MXFP4
	}
	return gguf.Q8_0
}

func (m *mixture) embedding() gguf.Type {
	switch {
	case m.is(MostlyIQ2XXS, MostlyIQ2XS, MostlyIQ1S, MostlyIQ1M):
		return gguf.Q2_K
	case m.is(MostlyIQ2S, MostlyIQ2M, MostlyIQ3XXS):
		return gguf.IQ3S
	case m.is(MostlyTQ1_0, MostlyTQ2_0, MostlyQ2_0):
		return gguf.Q4_K
	}
	return m.base
}

// veryLow has the rules of the types around 2 bits.
func (m *mixture) veryLow(c category) gguf.Type {
	better := gguf.Q2_K
	if m.is(MostlyIQ2S, MostlyIQ2M) {
		better = gguf.IQ3S
	}
	switch c {
	case valueTensor:
		if m.model.gqa >= 4 || m.model.experts >= 4 {
			return gguf.Q4_K
		}
		return better
	case keyTensor:
		if m.model.experts == 8 {
			return gguf.Q4_K
		}
	case downTensor:
		if m.seen[c] < m.model.blocks/8 {
			return better
		}
	case attentionOutTensor:
		switch {
		case m.model.experts == 8:
			return gguf.Q5_K
		case m.is(MostlyIQ1S, MostlyIQ1M):
			return gguf.IQ2XXS
		case m.is(MostlyIQ2S, MostlyIQ2M):
			return gguf.IQ3S
		}
	}
	return m.base
}

func (m *mixture) value() gguf.Type {
	if m.model.experts == 8 {
		return gguf.Q8_0
	}
	t := m.valueByType()
	if m.model.large && (t == gguf.Q3_K || t == gguf.Q4_K) {
		return gguf.Q5_K
	}
	return t
}

func (m *mixture) valueByType() gguf.Type {
	shared := m.model.gqa >= 4 // few values serve many heads, so they are worth more bits
	i := m.seen[valueTensor]
	switch m.fileType {
	case MostlyQ2K:
		if shared {
			return gguf.Q4_K
		}
		return gguf.Q3_K
	case MostlyQ2KS, MostlyIQ3XS, MostlyIQ3S:
		if shared {
			return gguf.Q4_K
		}
	case MostlyIQ3XXS:
		switch {
		case shared:
			return gguf.Q4_K
		case m.imatrix:
			return gguf.IQ3XXS
		}
		return gguf.IQ3S
	case MostlyIQ3M:
		return gguf.Q4_K
	case MostlyQ3KM:
		if i < 2 {
			return gguf.Q5_K
		}
		return gguf.Q4_K
	case MostlyQ3KL:
		return gguf.Q5_K
	case MostlyIQ4NL, MostlyIQ4XS:
		if shared {
			return gguf.Q5_K
		}
	case MostlyQ4KM, MostlyQ5KM:
		if more(i, m.totalValues) {
			return gguf.Q6_K
		}
	case MostlyQ4KS:
		if i < 4 {
			return gguf.Q5_K
		}
	}
	return m.base
}

func (m *mixture) key() gguf.Type {
	if m.model.experts == 8 {
		return gguf.Q8_0
	}
	return m.query()
}

func (m *mixture) query() gguf.Type {
	switch m.fileType {
	case MostlyIQ3XS:
		return gguf.IQ3XXS
	case MostlyIQ3XXS:
		return gguf.IQ2S
	}
	return m.base
}

func (m *mixture) down(layer int) gguf.Type {
	n, falcon := m.model.blocks, m.model.falcon
	early := layer < n/8
	switch m.fileType {
	case MostlyQ2K:
		return gguf.Q3_K
	case MostlyQ2KS:
		if early {
			return gguf.Q4_K
		}
	case MostlyIQ3XXS:
		switch {
		case m.imatrix:
		case early:
			return gguf.Q4_K
		default:
			return gguf.Q3_K
		}
	case MostlyQ3KM:
		switch {
		case layer < n/16:
			return gguf.Q5_K
		case !falcon, more(layer, n):
			return gguf.Q4_K
		}
		return gguf.Q3_K
	case MostlyIQ3M:
		if early || m.model.experts == 8 && more(layer, n) {
			return gguf.Q4_K
		}
	case MostlyQ3KL:
		if falcon {
			return gguf.Q4_K
		}
		return gguf.Q5_K
	case MostlyQ4KM:
		switch {
		case falcon && layer < n/16:
			return gguf.Q6_K
		case more(layer, n) && falcon:
			return gguf.Q5_K
		case more(layer, n):
			return gguf.Q6_K
		case falcon:
			return gguf.Q4_K
		}
	case MostlyIQ4NL, MostlyIQ4XS:
		if early && !m.imatrix {
			return gguf.Q5_K
		}
	case MostlyQ5KM:
		if more(layer, n) {
			return gguf.Q6_K
		}
	case MostlyQ4KS:
		if early && !falcon {
			return gguf.Q5_K
		}
	case MostlyQ4_0:
		if early && m.imatrix {
			return gguf.Q4_1
		}
	case MostlyQ5_0:
		if early && m.imatrix {
			return gguf.Q5_1
		}
	}
	return m.base
}

func (m *mixture) attentionOut() gguf.Type {
	switch {
	case m.model.falcon:
		if m.is(MostlyQ3KL) {
			return gguf.Q4_K
		}
	case m.model.experts == 8:
		if m.is(MostlyQ2K, MostlyIQ3XS, MostlyIQ3XXS, MostlyQ3KS, MostlyQ3KM, MostlyIQ4NL, MostlyQ4KS, MostlyQ4KM,
			MostlyIQ3S, MostlyIQ3M, MostlyIQ4XS) {
			return gguf.Q5_K
		}
	case m.is(MostlyQ2K):
		return gguf.Q3_K
	case m.is(MostlyIQ3XXS):
		return gguf.IQ3S
	case m.is(MostlyQ3KM, MostlyIQ3M):
		return gguf.Q4_K
	case m.is(MostlyQ3KL):
		return gguf.Q5_K
	}
	return m.base
}

func (m *mixture) gateOrUp(layer int) gguf.Type {
	n := m.model.blocks
	if m.is(MostlyIQ3XS) && layer >= n/8 && layer < 7*n/8 {
		return gguf.IQ3XXS
	}
	return m.base
}
