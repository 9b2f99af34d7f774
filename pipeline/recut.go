package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// Recut is a finished model with another head: the rows that list names, bytes unchanged, from the model's head or, where
// that is tied, from its embedding. Close it in the end.
type Recut struct {
	Artifact *Artifact
	model    *remote.Model
}

// OpenRecut reads the header of a finished model and lays out the same model with a pruned head. The result equals, byte for byte,
// what a build from the model's source with that list gives: tensors stand in the reference's order if the model's do, else
// the new ones stand where the old head was or behind the embedding.
func OpenRecut(ctx context.Context, client *remote.Client, ref remote.Reference, list *tokenizer.IDList) (_ *Recut, err error) {
	m, err := client.OpenModel(ctx, ref)
	if err != nil {
		return nil, err
	}
	r := &Recut{model: m}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if m.Format != "gguf" {
		return nil, fault.New(fault.BadInput, "%s is %s, only a GGUF model has a head that can be cut", ref, m.Format)
	}
	t, err := tokenizer.FromGGUF(m.Metadata)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	if err := list.Check(t.Vocabulary()); err != nil {
		return nil, err
	}
	tensors, err := storedAll(m)
	if err != nil {
		return nil, err
	}
	inOrder := isSorted(tensors)
	if tensors, err = pruneHead(tensors, list, 0); err != nil {
		return nil, err
	}
	if inOrder {
		tensors = sorted(tensors)
	}
	meta := m.Metadata.Clone()
	setHead(meta, list)
	r.Artifact, err = newReferenceArtifact(meta, tensors)
	return r, err
}

// Close closes the model.
func (r *Recut) Close() error { return r.model.Close() }

// Refuse fails if path is the file that the model is read from.
func (r *Recut) Refuse(path string) error { return refuseSource(r.model, path) }

// sorted returns tensors in the order of the reference quantizer's output.
func sorted(tensors []Tensor) []Tensor {
	byName := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		byName[t.Info().Name] = t
	}
	order := infos(tensors)
	quant.SortTensors(order)
	out := make([]Tensor, len(order))
	for i, info := range order {
		out[i] = byName[info.Name]
	}
	return out
}

func isSorted(tensors []Tensor) bool {
	return slices.EqualFunc(tensors, sorted(tensors), func(a, b Tensor) bool { return a.Info().Name == b.Info().Name })
}
