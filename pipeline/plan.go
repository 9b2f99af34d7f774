package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gguf-forge/corpus"
	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// Env is what a recipe needs from its surroundings.
type Env struct {
	Client   *remote.Client                 // hub, http and local files
	Embedded func() (*remote.Client, error) // starts the hub inside the program; nil if the program has none
	Memory   int64                          // budget of the stream that is planned; 0: DefaultMemory
}

// Plan is a recipe applied to the headers of its sources: everything about the artifact that is known before a weight
// is read. Close it when the artifact is no longer read.
type Plan struct {
	Recipe   *Recipe
	Sources  []PlanSource // by name
	Choices  []quant.Choice
	Head     *corpus.Chosen // the rows of a pruned head and their coverage; nil: it is whole
	Artifact *Artifact      // nil if there are Problems
	Problems []error
	Notes    []string

	memory  int64
	imatrix *quant.Imatrix
	model   *remote.Model

	// Of a recipe that prunes the head or trims the vocabulary:
	whole           tokenizer.Vocabulary // of the model; the tokenizer itself is not kept, it is large
	headReport      *HeadReport
	trimmed         []uint32 // ids of the trimmed vocabulary; nil: it is whole
	trimmedMetadata *gguf.Metadata

	tensors []Tensor // of the model, after the recipe's stages, before they are encoded
	extra   []remote.Source
}

// PlanSource is one source of a plan, pinned.
type PlanSource struct {
	Name       string
	Pinned     string // a reference that always means the same bytes
	Size       int64  // of all its files
	SHA256     string // if known: from the hub, the recipe, or computed
	Fetch      int64  // bytes the stream will read, headers included
	Unverified string // what the recipe says was not checked
}

// Err returns all problems as one error, nil if there are none.
func (p *Plan) Err() error {
	if len(p.Problems) == 0 {
		return nil
	}
	return fault.New(fault.BadInput, "recipe %s can't be built: %w", p.Recipe.Name, errors.Join(p.Problems...))
}

// Close closes the sources.
func (p *Plan) Close() error {
	var errs []error
	if p.model != nil {
		errs = append(errs, p.model.Close())
	}
	for _, s := range p.extra {
		errs = append(errs, remote.CloseSource(s))
	}
	return errors.Join(errs...)
}

func (p *Plan) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Errorf(format, args...))
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Plan opens the recipe's sources, reads their headers and lays out the artifact. The error is for sources that
// can't be read; everything that is wrong with the recipe for these sources is in Plan.Problems, all of it.
func (r *Recipe) Plan(ctx context.Context, env Env) (_ *Plan, err error) {
	p := &Plan{Recipe: r, memory: env.Memory}
	if p.memory <= 0 {
		p.memory = DefaultMemory
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.openModel(ctx, env); err != nil {
		return nil, err
	}
	if err := p.openImatrix(ctx, env); err != nil {
		return nil, err
	}
	if r.Head != nil {
		if err := p.pruneHead(ctx, env); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Sources)) {
		if name != "model" && name != r.Quantize.Imatrix {
			p.problem("source %s is not used", name)
		}
	}
	slices.SortFunc(p.Sources, func(a, b PlanSource) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range p.Sources {
		if s.Unverified != "" {
			p.note("source %s is unverified: %s", s.Name, s.Unverified)
		}
	}
	tensors := p.chooseTypes()
	if len(p.Problems) > 0 {
		return p, nil
	}
	meta, err := p.metadata()
	if err != nil {
		p.Problems = append(p.Problems, err)
		return p, nil
	}
	if p.Artifact, err = newReferenceArtifact(meta, tensors); err != nil {
		p.Artifact = nil
		p.Problems = append(p.Problems, err)
		return p, nil
	}
	p.countFetches()
	return p, nil
}

func (r *Recipe) surroundings(env Env) remote.Surroundings {
	return remote.Surroundings{Client: env.Client, Embedded: env.Embedded, Dir: r.Dir}
}

func (p *Plan) openModel(ctx context.Context, env Env) error {
	spec := p.Recipe.Sources["model"]
	ref, client, err := spec.Resolve(p.Recipe.surroundings(env))
	if err != nil {
		return fmt.Errorf("source model: %w", err)
	}
	if p.model, err = client.OpenModel(ctx, ref); err != nil {
		return fmt.Errorf("source model: %w", err)
	}
	src := PlanSource{Name: "model", Unverified: spec.Unverified}
	for i, f := range p.model.Sources {
		src.Size += f.Size()
		if i == 0 {
			src.Pinned = spec.Pinned(f.Identity())
		}
	}
	if len(p.model.Sources) == 1 {
		src.SHA256 = p.model.Sources[0].Identity().SHA256
		if src.SHA256 == "" && spec.SHA256 != "" {
			p.expect(spec.SHA256)
		}
	} else if spec.SHA256 != "" {
		p.problem("source model: sha256 is for a single file, this model has %d", len(p.model.Sources))
	}
	p.Sources = append(p.Sources, p.checkSource(spec, src))
	if p.model.Format != "gguf" {
		p.problem("source model is %s: only GGUF models can be built from yet", p.model.Format)
		return nil
	}
	if p.tensors, err = storedAll(p.model); err != nil {
		p.Problems = append(p.Problems, err)
	}
	return nil
}

// expected is a source with the hash that the recipe states for it.
type expected struct {
	remote.Source
	sha256 string
}

func (e expected) Identity() remote.Identity {
	id := e.Source.Identity()
	id.SHA256 = e.sha256
	return id
}

// expect lets the model's only source carry the recipe's hash, so that a stream checks it.
func (p *Plan) expect(sum string) {
	src := &expected{p.model.Sources[0], sum}
	for i := range p.model.Tensors {
		p.model.Tensors[i].Source = src
	}
}

// checkSource compares a source with the size and hash its recipe states.
func (p *Plan) checkSource(spec SourceSpec, s PlanSource) PlanSource {
	if spec.Size != 0 && spec.Size != s.Size {
		p.problem("source %s has %d bytes, the recipe says %d", s.Name, s.Size, spec.Size)
	}
	switch {
	case s.SHA256 == "":
		s.SHA256 = spec.SHA256
	case spec.SHA256 != "" && spec.SHA256 != s.SHA256:
		p.problem("source %s has SHA-256 %s, the recipe says %s", s.Name, s.SHA256, spec.SHA256)
	}
	return s
}

// maxImatrix bounds what is read as an importance matrix: the largest known models have about 300 MB.
const maxImatrix = 2 << 30

func (p *Plan) openImatrix(ctx context.Context, env Env) error {
	name := p.Recipe.Quantize.Imatrix
	if name == "" {
		return nil
	}
	spec := p.Recipe.Sources[name]
	ref, client, err := spec.Resolve(p.Recipe.surroundings(env))
	if err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	src, err := client.Open(ctx, ref)
	if err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	p.extra = append(p.extra, src)
	data, err := remote.ReadAll(ctx, src, maxImatrix)
	if err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	sum := sha256.Sum256(data)
	id := src.Identity()
	s := PlanSource{Name: name, Pinned: spec.Pinned(id), Size: src.Size(), SHA256: hex.EncodeToString(sum[:]), Unverified: spec.Unverified, Fetch: src.Size()}
	p.Sources = append(p.Sources, p.checkSource(spec, s))
	if p.imatrix, err = quant.ReadImatrix(bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	p.imatrix.File = imatrixName(spec)
	return nil
}

// imatrixName is what quantize.imatrix.file records: the file as the recipe names it.
func imatrixName(s SourceSpec) string {
	switch {
	case s.Hub != "":
		return s.File
	case s.Path != "":
		return s.Path
	}
	return s.URL[strings.LastIndex(s.URL, "/")+1:]
}

// missingTokens is how many of the tokens that a head can't say are named for every held-out text.
const missingTokens = 10

// pruneHead chooses the rows of the head from the recipe's texts and takes them.
func (p *Plan) pruneHead(ctx context.Context, env Env) error {
	if p.model.Metadata == nil || len(p.Problems) > 0 {
		return nil // there is no model to prune
	}
	t, err := tokenizer.FromGGUF(p.model.Metadata)
	if err != nil {
		return fmt.Errorf("source model: %w", err)
	}
	e := corpus.Env{Surroundings: p.Recipe.surroundings(env)}
	if p.Head, err = p.Recipe.Head.Run(ctx, e, t, missingTokens); err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if err := p.Head.Err(); err != nil {
		p.Problems = append(p.Problems, err)
	}
	for _, s := range slices.Concat(p.Recipe.Head.Corpora, p.Recipe.Head.HeldOut) {
		if s.Unverified != "" {
			p.note("text %s is unverified: %s", s.Name, s.Unverified)
		}
	}
	p.whole = t.Vocabulary()
	p.headReport = newHeadReport(p.Head, t)
	if p.Recipe.Head.Trim {
		err = p.trim(t)
	} else {
		p.tensors, err = pruneHead(p.tensors, p.Head.List, p.Recipe.Head.Pad)
	}
	if err != nil {
		p.Problems = append(p.Problems, err)
	}
	return nil
}

// trim cuts the vocabulary to the head's ids and what merges need for them.
func (p *Plan) trim(t *tokenizer.Tokenizer) (err error) {
	ids := t.Closure(p.Head.List.IDs)
	if added := len(ids) - len(p.Head.List.IDs); added > 0 {
		p.note("the trimmed vocabulary has %d more ids, which merges, specials and bytes need: %s", added, sample(t, minus(ids, p.Head.List.IDs)))
	}
	if lost := t.Size() - len(ids); lost > 0 {
		p.note("%d tokens are no longer one token, such as %s", lost, sample(t, minusAll(t.Size(), ids)))
	}
	p.trimmed = ids
	p.tensors, p.trimmedMetadata, err = trimVocabulary(p.tensors, p.model.Metadata, t, ids)
	return err
}

// sample prints the first few of ids as text.
func sample(t *tokenizer.Tokenizer, ids []uint32) string {
	var list []string
	for _, id := range ids[:min(len(ids), missingTokens)] {
		list = append(list, strconv.Quote(string(t.Piece(int32(id)))))
	}
	return strings.Join(list, " ")
}

// minus returns the ids that are in all and not in some; both ascend.
func minus(all, some []uint32) []uint32 {
	var rest []uint32
	for _, id := range all {
		if _, found := slices.BinarySearch(some, id); !found {
			rest = append(rest, id)
		}
	}
	return rest
}

// minusAll returns the ids below size that are not in some.
func minusAll(size int, some []uint32) []uint32 {
	all := make([]uint32, size)
	for i := range all {
		all[i] = uint32(i)
	}
	return minus(all, some)
}

// chooseTypes decides the type of every tensor and returns the nodes in output order.
func (p *Plan) chooseTypes() []Tensor {
	if p.model.Format != "gguf" {
		return nil
	}
	opt, err := p.Recipe.policy()
	if err != nil { // found by ParseRecipe before
		p.Problems = append(p.Problems, err)
		return nil
	}
	order := infos(p.tensors)
	if p.Recipe.Order != OrderSource {
		quant.SortTensors(order)
	}
	choices, problems := opt.Choose(p.model.Metadata, order, p.imatrix)
	p.Choices = choices
	if p.Problems = append(p.Problems, problems...); len(problems) > 0 {
		return nil
	}
	for _, c := range choices {
		if c.Source.Type.Quantized() && !c.Copied() {
			p.note("%s is already quantized (%s) and loses more by being encoded again as %s", c.Name, c.Source.Type, c.Type)
		}
	}
	list, err := encodeAll(p.tensors, choices)
	if err != nil {
		p.Problems = append(p.Problems, err)
	}
	return list
}

// policy translates the recipe's types.
func (r *Recipe) policy() (quant.Options, error) {
	q := r.Quantize
	t, err := quant.ParseFileType(q.Type)
	if err != nil {
		return quant.Options{}, err
	}
	opt := quant.Options{
		FileType: t, Pure: q.Pure, AllowRequantize: q.Requantize == "allow",
		Strict: true, AllowFallback: q.Fallback == "allow", AllowMissingImportance: q.MissingImportance == "allow",
	}
	for _, o := range q.Tensors {
		pattern, err := o.pattern()
		if err != nil {
			return opt, err
		}
		typ, err := gguf.ParseType(o.Type)
		if err != nil {
			return opt, err
		}
		opt.Overrides = append(opt.Overrides, quant.Override{Pattern: pattern, Type: typ, Label: o.label()})
	}
	return opt, nil
}

func (o OverrideSpec) label() string {
	if o.Layers == "" {
		return o.Match
	}
	return o.Match + " in layers " + o.Layers
}

// metadata returns the pairs of the artifact: the model's, changed as the reference quantizer would, then as the
// recipe says, then where it comes from.
func (p *Plan) metadata() (*gguf.Metadata, error) {
	opt, err := p.Recipe.policy()
	if err != nil {
		return nil, err
	}
	meta := p.model.Metadata
	if p.trimmed != nil {
		meta = p.trimmedMetadata
	}
	meta, err = opt.EditMetadata(meta, infos(p.tensors), p.imatrix)
	if err != nil {
		return nil, err
	}
	if err := p.Recipe.Metadata.apply(meta, p.Recipe.Dir); err != nil {
		return nil, err
	}
	if p.Head != nil {
		setHead(meta, p.Head.List)
	}
	if p.trimmed != nil {
		setTrim(meta, p.whole, p.trimmed)
	}
	if p.Recipe.Provenance == "none" {
		return meta, nil
	}
	meta.Set(KeyRecipe, gguf.StringValue(p.Recipe.Name))
	meta.Set(KeyRecipeSHA256, gguf.StringValue(p.Recipe.SHA256))
	var refs []string
	for _, s := range p.Sources {
		refs = append(refs, s.Name+"="+s.Pinned)
	}
	meta.Set(KeySources, gguf.StringsValue(refs))
	return meta, nil
}

// countFetches sums what a stream of the whole artifact reads from the model's files: headers, tensor data, and the gaps that
// are read to save requests.
func (p *Plan) countFetches() {
	var n int64
	for _, h := range p.model.Shards {
		n += h.DataStart
	}
	newStream(p.Artifact, nil, StreamOptions{Length: p.Artifact.Size(), Memory: p.memory}).batches(func(b *batch) bool {
		for _, r := range b.reads {
			n += r.Len
		}
		return true
	})
	for i := range p.Sources {
		if p.Sources[i].Name == "model" {
			p.Sources[i].Fetch = n
		}
	}
}
