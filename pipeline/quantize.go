package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

// QuantizeOptions are the flags of the reference quantizer.
type QuantizeOptions struct {
	quant.Options
	Imatrix        string   // a model reference; its text is recorded in the output
	IncludeWeights []string // use only the entries of the imatrix whose names contain one of these
	ExcludeWeights []string // leave out the entries whose names contain one of these
	KeepSplit      bool     // write the shards of the source again
	Stream         StreamOptions
}

// Quantization is a model about to be quantized as the reference quantizer would. Close it in the end.
type Quantization struct {
	Choices  []quant.Choice
	Shards   []*Artifact // one, unless the source's shards are kept
	Imatrix  *quant.Imatrix
	model    *remote.Model
	tensors  []Tensor // of the source, in its order
	opt      QuantizeOptions
	inSource map[string]int // shard of each source tensor
}

// OpenQuantization reads the headers of in and the importance matrix and decides the type of every tensor. Everything that
// would make the reference fail is an error here, before any weight is read.
func OpenQuantization(ctx context.Context, client *remote.Client, in remote.Reference, opt QuantizeOptions) (_ *Quantization, err error) {
	q := &Quantization{opt: opt}
	if q.model, err = client.OpenModel(ctx, in); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.Close())
		}
	}()
	if q.model.Format != "gguf" {
		return nil, fault.WithHint(fault.New(fault.BadInput, "%s is %s: only GGUF models can be quantized", in, q.model.Format), "convert it to GGUF first")
	}
	if opt.Imatrix != "" {
		if err := q.openImatrix(ctx, client); err != nil {
			return nil, err
		}
	}
	if q.tensors, err = storedAll(q.model); err != nil {
		return nil, err
	}
	var problems []error
	if q.Choices, problems = opt.Choose(q.model.Metadata, q.order(), q.Imatrix); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return q, q.layOut()
}

func (q *Quantization) openImatrix(ctx context.Context, client *remote.Client) error {
	ref, err := remote.ParseReference(q.opt.Imatrix)
	if err != nil {
		return err
	}
	src, err := client.Open(ctx, ref)
	if err != nil {
		return err
	}
	im, err := quant.ReadImatrix(remote.ReaderAt(ctx, src), src.Size())
	if err = errors.Join(err, remote.CloseSource(src)); err != nil {
		return fmt.Errorf("importance matrix %s: %w", q.opt.Imatrix, err)
	}
	im.File = q.opt.Imatrix
	q.Imatrix, err = im.Filter(q.opt.IncludeWeights, q.opt.ExcludeWeights)
	return err
}

// order returns the source's tensors in output order: by layer and name or, where shards are kept, as they lie in them.
func (q *Quantization) order() []gguf.TensorInfo {
	if !q.opt.KeepSplit {
		list := infos(q.tensors)
		quant.SortTensors(list)
		return list
	}
	tensors := slices.Clone(q.model.Tensors)
	q.inSource = map[string]int{}
	for _, t := range tensors {
		q.inSource[t.Name] = slices.Index(q.model.Sources, t.Source)
	}
	slices.SortStableFunc(tensors, func(a, b remote.Tensor) int {
		if d := q.inSource[a.Name] - q.inSource[b.Name]; d != 0 {
			return d
		}
		return int(min(max(a.At-b.At, -1), 1))
	})
	list := make([]gguf.TensorInfo, len(tensors))
	for i, t := range tensors {
		list[i] = t.TensorInfo
	}
	return list
}

// layOut makes the artifacts: a single one, or one for each shard of the source.
func (q *Quantization) layOut() error {
	meta, err := q.opt.EditMetadata(q.model.Metadata, infos(q.tensors), q.Imatrix)
	if err != nil {
		return err
	}
	list, err := encodeAll(q.tensors, q.Choices)
	if err != nil {
		return err
	}
	count := 1
	if q.opt.KeepSplit {
		count = len(q.model.Sources)
	}
	shards := make([][]Tensor, count)
	for i, c := range q.Choices {
		n := q.inSource[c.Source.Name] // 0 where shards are not kept
		shards[n] = append(shards[n], list[i])
	}
	for i, tensors := range shards {
		if count > 1 {
			if i > 0 {
				meta = new(gguf.Metadata)
			}
			meta.Set("split.no", gguf.Uint16Value(uint16(i)))
			meta.Set("split.count", gguf.Uint16Value(uint16(count)))
			meta.Set("split.tensors.count", gguf.Int32Value(int32(len(list))))
		}
		a, err := newReferenceArtifact(meta, tensors)
		if err != nil {
			return err
		}
		q.Shards = append(q.Shards, a)
	}
	return nil
}

// newReferenceArtifact lays out tensors as the reference quantizer writes them.
func newReferenceArtifact(meta *gguf.Metadata, tensors []Tensor) (*Artifact, error) {
	return NewArtifact(meta, tensors, gguf.GGML, 32)
}

// Close closes the source.
func (q *Quantization) Close() error { return q.model.Close() }

// Size returns the bytes that Write writes.
func (q *Quantization) Size() int64 {
	var n int64
	for _, a := range q.Shards {
		n += a.Size()
	}
	return n
}

// Files returns the paths that Write writes for out: out itself or, where shards are kept, one path for each.
func (q *Quantization) Files(out string) []string {
	if !q.opt.KeepSplit {
		return []string{out}
	}
	var list []string
	for i := range q.Shards {
		list = append(list, fmt.Sprintf("%s-%05d-of-%05d.gguf", strings.TrimSuffix(out, ".gguf"), i+1, len(q.Shards)))
	}
	return list
}

// Write streams the shards to their files, each of which appears complete or not at all. A file that is one of the
// sources is refused.
func (q *Quantization) Write(ctx context.Context, out string) ([]Result, error) {
	files := q.Files(out)
	for _, f := range files {
		if err := refuseSource(q.model, f); err != nil {
			return nil, err
		}
	}
	var results []Result
	var done int64
	for i, a := range q.Shards {
		err := WriteFile(files[i], func(w io.Writer) error {
			opt := q.opt.Stream
			if report := opt.Progress; report != nil {
				opt.Progress = func(p Progress) {
					report(Progress{Tensor: p.Tensor, Written: done + p.Written, Total: q.Size()})
				}
			}
			res, err := a.Stream(ctx, w, opt)
			results = append(results, res)
			return err
		})
		if err != nil {
			return results, err
		}
		done += a.Size()
	}
	return results, nil
}

// refuseSource fails if path is a file that m is read from.
func refuseSource(m *remote.Model, path string) error {
	out, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.BadInput, "%w", err)
	}
	for _, s := range m.Sources {
		id := s.Identity()
		if in, err := os.Stat(id.Path); id.Kind == "file" && err == nil && os.SameFile(in, out) {
			return fault.WithHint(fault.New(fault.Usage, "%s is both input and output", filepath.Clean(path)), "name another output file")
		}
	}
	return nil
}
