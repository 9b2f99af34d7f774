package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// maxList bounds an id list that is read: more ids than any vocabulary has.
const maxList = 64 << 20

// Count counts one declared text, and wants it to have the declared hash and at least one token.
func (e Env) Count(ctx context.Context, t *tokenizer.Tokenizer, s Spec) (tokenizer.Counted, error) {
	in, err := e.input(s)
	if err != nil {
		return tokenizer.Counted{}, err
	}
	found, err := Count(ctx, t, []Input{in}, e.Options)
	if err != nil {
		return tokenizer.Counted{}, fmt.Errorf("text %s: %w", s.Name, err)
	}
	if found.Counts.Tokens() == 0 {
		return tokenizer.Counted{}, fault.New(fault.BadInput, "text %s is empty: %s has no tokens", s.Name, in.Name)
	}
	return tokenizer.Counted{Name: s.Name, Weight: s.Weight, Counts: found.Counts, Text: found.Files[0].SHA256}, nil
}

// Choose applies a rule to declared texts. The list records rule, texts and vocabulary; chosen.Order is the order in which a
// head of any size would take its rows.
func (e Env) Choose(ctx context.Context, t *tokenizer.Tokenizer, rule tokenizer.Selection, specs []Spec) (list *tokenizer.IDList, chosen *tokenizer.Selected, err error) {
	if err := rule.Check(); err != nil {
		return nil, nil, err
	}
	var corpora []tokenizer.Counted
	if rule.NeedsCorpora() {
		for _, s := range specs {
			c, err := e.Count(ctx, t, s)
			if err != nil {
				return nil, nil, err
			}
			corpora = append(corpora, c)
		}
	}
	var base *tokenizer.IDList
	if rule.List != "" {
		if base, err = e.readList(ctx, rule.List); err != nil {
			return nil, nil, err
		}
	}
	v := t.Vocabulary()
	if chosen, err = rule.Select(v, corpora, base); err != nil {
		return nil, nil, err
	}
	if rule.OnlyList() {
		return base, chosen, nil // with what its header says
	}
	return chosen.List(rule, v, corpora), chosen, nil
}

// readList reads the id list that a rule names: a file, or a list inside the program.
func (e Env) readList(ctx context.Context, name string) (*tokenizer.IDList, error) {
	if e.Lists != nil {
		data, err := fs.ReadFile(e.Lists, name)
		if err != nil {
			return nil, fault.New(fault.BadInput, "there is no id list %s inside the program", name)
		}
		return parseList(name, data)
	}
	return ReadList(ctx, e.Client, remote.Reference{Kind: remote.File, Path: e.InDir(name)})
}

// ReadList reads the id list behind a reference.
func ReadList(ctx context.Context, client *remote.Client, ref remote.Reference) (*tokenizer.IDList, error) {
	src, err := client.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	data, err := remote.ReadAll(ctx, src, maxList)
	if err := errors.Join(err, remote.CloseSource(src)); err != nil {
		return nil, err
	}
	return parseList(ref.String(), data)
}

func parseList(name string, data []byte) (*tokenizer.IDList, error) {
	list, err := tokenizer.ParseIDList(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// HeldOut is the coverage of a held-out text.
type HeldOut struct {
	Name        string             `json:"name"`
	Language    string             `json:"language,omitempty"`
	Coverage    tokenizer.Coverage `json:"coverage"`
	MinCoverage float64            `json:"min_coverage,omitempty"`
	Missing     []tokenizer.Miss   `json:"-"` // the most frequent ones
}

// Err returns an error if the coverage is below its floor.
func (h HeldOut) Err() error {
	if h.Coverage.Share() >= h.MinCoverage {
		return nil
	}
	return fault.WithHint(fault.New(fault.BadInput, "the head covers %.2f %% of the held-out text %s, min_coverage asks for %.2f %%",
		100*h.Coverage.Share(), h.Name, 100*h.MinCoverage), "keep more rows, or choose them from text of the same language")
}

// HeldOut measures how much of declared texts a head with these ids can say. missing is how many of the most frequent tokens
// that it can't say are named. Whoever wants the floors kept asks every result's Err.
func (e Env) HeldOut(ctx context.Context, t *tokenizer.Tokenizer, ids []uint32, specs []Spec, missing int) ([]HeldOut, error) {
	var list []HeldOut
	for _, s := range specs {
		c, err := e.Count(ctx, t, s)
		if err != nil {
			return nil, err
		}
		list = append(list, HeldOut{s.Name, s.Language, tokenizer.Cover(c.Counts, ids), s.MinCoverage, tokenizer.Missing(c.Counts, ids, missing)})
	}
	return list, nil
}
