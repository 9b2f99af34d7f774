package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

// Choice is the part of a recipe that says which ids a head keeps, from what, and how that is judged.
type Choice struct {
	Corpora []Spec              `yaml:"corpora,omitempty" json:"corpora,omitempty" jsonschema:"description=Texts that ids are chosen from\\, in the order in which their frequencies are summed"`
	HeldOut []Spec              `yaml:"heldout,omitempty" json:"heldout,omitempty" jsonschema:"description=Texts that coverage is measured on"`
	Select  tokenizer.Selection `yaml:"select,omitempty" json:"select,omitempty" jsonschema:"description=Which ids are kept"`
}

// ParseChoice reads a choice from YAML, strictly.
func ParseChoice(data []byte) (*Choice, error) {
	c := &Choice{}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(c); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fault.New(fault.BadInput, "%s", line)
	}
	if bad := c.Check(); len(bad) > 0 {
		return nil, fault.New(fault.BadInput, "%w", errors.Join(bad...))
	}
	return c, nil
}

// Check returns everything that is wrong with the choice by itself.
func (c *Choice) Check() []error {
	var bad []error
	if err := c.Select.Check(); err != nil {
		bad = append(bad, err)
	}
	for _, err := range CheckCorpora(c.Corpora, c.Select) {
		bad = append(bad, fmt.Errorf("corpora%w", err))
	}
	for _, err := range CheckHeldOut(c.HeldOut) {
		bad = append(bad, fmt.Errorf("heldout%w", err))
	}
	names := map[string]bool{}
	for _, s := range c.Corpora {
		names[s.Name] = true
	}
	for i, b := range c.Select.Budgets {
		for _, name := range b.Corpora {
			if !names[name] {
				bad = append(bad, fmt.Errorf("selection: budgets[%d]: there is no corpus named %s", i, name))
			}
		}
	}
	return bad
}

// Chosen is a choice made.
type Chosen struct {
	List    *tokenizer.IDList
	Order   []uint32  // the whole vocabulary in the order in which a head of any size takes its rows
	HeldOut []HeldOut // in the order of the declaration
}

// Err returns an error that names every held-out text whose coverage is below its floor, nil if there is none.
func (c *Chosen) Err() error {
	var bad []error
	for _, h := range c.HeldOut {
		if err := h.Err(); err != nil {
			bad = append(bad, err)
		}
	}
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return bad[0]
	}
	return fault.WithHint(fault.New(fault.BadInput, "%w", errors.Join(bad...)), "%s", fault.HintOf(bad[0]))
}

// Run counts the texts, applies the rule and measures the coverage. missing is how many of the most frequent tokens that the
// head can't say are named for every held-out text. Coverage below a floor is no error here: see Chosen.Err.
func (c *Choice) Run(ctx context.Context, e Env, t *tokenizer.Tokenizer, missing int) (*Chosen, error) {
	list, selected, err := e.Choose(ctx, t, c.Select, c.Corpora)
	if err != nil {
		return nil, err
	}
	heldOut, err := e.HeldOut(ctx, t, list.IDs, c.HeldOut, missing)
	if err != nil {
		return nil, err
	}
	return &Chosen{list, selected.Order, heldOut}, nil
}
