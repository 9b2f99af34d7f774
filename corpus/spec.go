package corpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// Spec declares a text in a recipe: where it is, how it is pinned, and what it counts.
type Spec struct {
	remote.Place `yaml:",inline"`
	Name         string `yaml:"name" json:"name" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._+-]*$,description=Name in budgets\\, id lists and tables"`
	Language     string `yaml:"language,omitempty" json:"language,omitempty" jsonschema:"description=Language of the text\\, as its code (en) or 'code'"`
	Format       Format `yaml:"format,omitempty" json:"format,omitempty" jsonschema:"enum=text,enum=jsonl,enum=parquet,description=How texts stand in the file; found by name and content without it"`
	Field        string `yaml:"field,omitempty" json:"field,omitempty" jsonschema:"description=Field of JSON lines or column of Parquet with the text; default text"`

	Weight      float64 `yaml:"weight,omitempty" json:"weight,omitempty" jsonschema:"description=Weight of its frequencies in the sum over the corpora; default 1"`
	MinCoverage float64 `yaml:"min_coverage,omitempty" json:"min_coverage,omitempty" jsonschema:"description=Least share of the tokens of this held-out text that the head must keep"`
}

// Check returns what is wrong with the declaration by itself.
func (s Spec) Check() error {
	if !tokenizer.ValidCorpusName(s.Name) {
		return fmt.Errorf("name %q: letters, digits, and . _ + - after the first one are needed", s.Name)
	}
	if err := s.Place.Check(); err != nil {
		return err
	}
	switch {
	case s.Format != "" && s.Format != FormatText && s.Format != FormatJSONL && s.Format != FormatParquet:
		return fmt.Errorf("format is %q, it can be text, jsonl or parquet", s.Format)
	case !(s.Weight >= 0) || s.Weight > 1e300:
		return errors.New("weight must be a positive number")
	case !(s.MinCoverage >= 0 && s.MinCoverage <= 1):
		return errors.New("min_coverage must lie above 0 and be at most 1")
	}
	return nil
}

// CheckCorpora checks texts that ids are chosen from; rule is the selection that names them.
func CheckCorpora(specs []Spec, rule tokenizer.Selection) []error {
	bad := checkAll(specs)
	for i, s := range specs {
		if s.MinCoverage != 0 {
			bad = append(bad, fmt.Errorf("[%d] (%s): min_coverage belongs to held-out texts", i, s.Name))
		}
	}
	if rule.NeedsCorpora() && len(specs) == 0 {
		bad = append(bad, errors.New(": the selection counts text, but none is declared"))
	}
	return bad
}

// CheckHeldOut checks texts that coverage is measured on.
func CheckHeldOut(specs []Spec) []error {
	bad := checkAll(specs)
	for i, s := range specs {
		if s.Weight != 0 {
			bad = append(bad, fmt.Errorf("[%d] (%s): weight belongs to texts that ids are chosen from", i, s.Name))
		}
	}
	return bad
}

func checkAll(specs []Spec) []error {
	var bad []error
	names := map[string]bool{}
	for i, s := range specs {
		if err := s.Check(); err != nil {
			bad = append(bad, fmt.Errorf("[%d] (%s): %w", i, s.Name, err))
		}
		if names[s.Name] {
			bad = append(bad, fmt.Errorf("[%d]: there are two texts named %s", i, s.Name))
		}
		names[s.Name] = true
	}
	return bad
}

// Env is what declared texts need from their surroundings.
type Env struct {
	remote.Surroundings
	Lists   fs.FS // id lists inside the program, for rules of recipes inside the program; nil: files
	Options CountOptions
}

// input returns where a declared text is.
func (e Env) input(s Spec) (Input, error) {
	if err := s.Check(); err != nil {
		return Input{}, fault.New(fault.BadInput, "text %s: %w", s.Name, err)
	}
	ref, client, err := s.Resolve(e.Surroundings)
	if err != nil {
		return Input{}, fmt.Errorf("text %s: %w", s.Name, err)
	}
	return Input{Name: ref.String(), Format: s.Format, Field: s.Field, SHA256: s.SHA256,
		Open: func(ctx context.Context) (remote.Source, error) { return client.Open(ctx, ref) }}, nil
}
