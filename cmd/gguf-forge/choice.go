package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gguf-forge/corpus"
	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// ruleFlags say which ids a head keeps, in a file as a recipe has it or one by one.
type ruleFlags struct {
	Rule     string   `placeholder:"FILE" predictor:"file" help:"YAML with select, corpora and heldout as in a recipe, instead of the flags below."`
	Corpus   []string `sep:"none" placeholder:"NAME[*WEIGHT]=FILE" help:"A text to choose from, or its count vector in a .counts file; in the order in which frequencies are summed."`
	Always   []string `placeholder:"KIND" help:"Kinds of tokens to keep whatever the text says: special, control, byte."`
	Below    uint32   `placeholder:"N" help:"Keep all ids below N."`
	Keep     string   `placeholder:"IDS" help:"Ids to keep, as in 0-255,2040."`
	KeepList string   `placeholder:"LIST" predictor:"file" help:"Id list whose ids are kept."`
	Budget   []string `sep:"none" placeholder:"NAME,NAME:ROWS" help:"Keep the ROWS most frequent ids of these corpora by themselves; NN% instead of ROWS is a coverage."`
	Rows     int      `placeholder:"N" help:"Fill up to N rows with the most frequent ids."`
	Share    float64  `placeholder:"X" help:"Fill up to this share of the vocabulary."`
	Coverage float64  `placeholder:"X" help:"Fill up until this share of the tokens is kept."`
	MinCount uint64   `placeholder:"N" help:"Take no id with fewer occurrences."`
	Multiple int      `placeholder:"N" help:"Round the number of rows up to a multiple of N by taking the next ids."`
}

// selection returns the rule of the flags.
func (r ruleFlags) selection() (tokenizer.Selection, error) {
	s := tokenizer.Selection{Below: r.Below, IDs: r.Keep, List: r.KeepList, Rows: r.Rows, Share: r.Share, Coverage: r.Coverage, MinCount: r.MinCount, Multiple: r.Multiple}
	for _, k := range r.Always {
		s.Always = append(s.Always, tokenizer.Kind(k))
	}
	for _, text := range r.Budget {
		names, amount, ok := strings.Cut(text, ":")
		b := tokenizer.Budget{Corpora: strings.Split(names, ",")}
		var err error
		if percent, is := strings.CutSuffix(amount, "%"); is {
			b.Coverage, err = strconv.ParseFloat(percent, 64)
			b.Coverage /= 100
		} else {
			b.Rows, err = strconv.Atoi(amount)
		}
		if !ok || err != nil {
			return s, fault.New(fault.Usage, "--budget %s: NAME,NAME:ROWS or NAME,NAME:NN%% is needed", text)
		}
		s.Budgets = append(s.Budgets, b)
	}
	return s, nil
}

// given reports whether there is a rule at all.
func (r ruleFlags) given() bool {
	s, err := r.selection()
	return err != nil || r.Rule != "" || len(r.Corpus) > 0 || s.Check() == nil
}

// made is a choice that was made on the command line.
type made struct {
	list    *tokenizer.IDList
	order   []uint32
	fixed   int
	corpora []tokenizer.Counted
	heldOut []tokenizer.Counted
	floors  map[string]float64 // least coverage of held-out texts, by name
}

// choose reads all texts and applies the rule. Without a rule only held-out texts are read.
func (a *app) choose(ctx context.Context, env *environment, t *tokenizer.Tokenizer, r ruleFlags, heldOut []string, f textFlags) (*made, error) {
	m := &made{floors: map[string]float64{}}
	rule, err := r.selection()
	if err != nil {
		return nil, err
	}
	opt := f.options(a)
	defer a.endProgress()
	base := ""
	if r.Rule != "" {
		if base, rule, err = a.ruleFile(ctx, env, t, r, opt, m); err != nil {
			return nil, err
		}
	} else {
		for _, text := range r.Corpus {
			c, err := readNamed(ctx, env.Client, t, text, f, opt)
			if err != nil {
				return nil, err
			}
			m.corpora = append(m.corpora, c)
		}
	}
	for _, text := range heldOut {
		c, err := readNamed(ctx, env.Client, t, text, f, opt)
		if err != nil {
			return nil, err
		}
		m.heldOut = append(m.heldOut, c)
	}
	if !r.given() {
		return m, nil
	}
	var kept *tokenizer.IDList
	if rule.List != "" {
		path := rule.List
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		if kept, err = corpus.ReadList(ctx, env.Client, remote.Reference{Kind: remote.File, Path: path}); err != nil {
			return nil, err
		}
	}
	v := t.Vocabulary()
	chosen, err := rule.Select(v, m.corpora, kept)
	if err != nil {
		return nil, err
	}
	m.list, m.order, m.fixed = chosen.List(rule, v, m.corpora), chosen.Order, chosen.Fixed
	return m, nil
}

// ruleFile reads a rule and the texts it declares. dir is where its relative paths start.
func (a *app) ruleFile(ctx context.Context, env *environment, t *tokenizer.Tokenizer, r ruleFlags, opt corpus.CountOptions, m *made) (dir string, rule tokenizer.Selection, err error) {
	only := r
	only.Rule = ""
	if only.given() {
		return "", rule, fault.New(fault.Usage, "--rule can't be combined with other flags of a rule")
	}
	data, err := os.ReadFile(r.Rule)
	if err != nil {
		return "", rule, fault.New(fault.BadInput, "%w", err)
	}
	choice, err := corpus.ParseChoice(data)
	if err != nil {
		return "", rule, fmt.Errorf("%s: %w", r.Rule, err)
	}
	dir = filepath.Dir(r.Rule)
	e := corpus.Env{Surroundings: remote.Surroundings{Client: env.Client, Embedded: env.Embedded, Dir: dir}, Options: opt}
	for _, s := range choice.Corpora {
		if !choice.Select.NeedsCorpora() {
			break
		}
		c, err := e.Count(ctx, t, s)
		if err != nil {
			return "", rule, err
		}
		m.corpora = append(m.corpora, c)
	}
	for _, s := range choice.HeldOut {
		c, err := e.Count(ctx, t, s)
		if err != nil {
			return "", rule, err
		}
		m.heldOut = append(m.heldOut, c)
		m.floors[s.Name] = s.MinCoverage
	}
	return dir, choice.Select, nil
}

// checkFloors wants the coverage of every held-out text to reach its floor.
func (m *made) checkFloors(ids []uint32) error {
	var bad []error
	for _, c := range m.heldOut {
		h := corpus.HeldOut{Name: c.Name, Coverage: tokenizer.Cover(c.Counts, ids), MinCoverage: m.floors[c.Name]}
		bad = append(bad, h.Err())
	}
	return errors.Join(bad...)
}

// countsSuffix is the end of the name of a file with a count vector.
const countsSuffix = ".counts"

// readNamed counts what NAME[*WEIGHT]=FILE stands for.
func readNamed(ctx context.Context, client *remote.Client, t *tokenizer.Tokenizer, text string, f textFlags, opt corpus.CountOptions) (tokenizer.Counted, error) {
	c := tokenizer.Counted{}
	name, file, ok := strings.Cut(text, "=")
	name, weight, weighted := strings.Cut(name, "*")
	if weighted {
		var err error
		if c.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(c.Weight > 0) {
			return c, fault.New(fault.Usage, "%s: the weight is no positive number", text)
		}
	}
	if !ok || file == "" || !tokenizer.ValidCorpusName(name) {
		return c, fault.WithHint(fault.New(fault.Usage, "%q names no text", text), "NAME=FILE is needed, where NAME has letters, digits, and . _ + -")
	}
	c.Name = name
	in, err := f.input(client, file)
	if err != nil {
		return c, err
	}
	if strings.HasSuffix(file, countsSuffix) {
		c.Counts, err = readCounts(ctx, client, file, t.Size())
		return c, err
	}
	found, err := corpus.Count(ctx, t, []corpus.Input{in}, opt)
	if err != nil {
		return c, err
	}
	c.Counts, c.Text = found.Counts, found.Files[0].SHA256
	if found.Counts.Tokens() == 0 {
		return c, fault.New(fault.BadInput, "text %s is empty: %s has no tokens", name, in.Name)
	}
	return c, nil
}

// readCounts reads the count vector behind a reference.
func readCounts(ctx context.Context, client *remote.Client, file string, size int) (_ corpus.Counts, err error) {
	ref, err := remote.ParseReference(file)
	if err != nil {
		return nil, err
	}
	src, err := client.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remote.CloseSource(src)) }()
	counts, err := corpus.ReadCounts(io.NewSectionReader(remote.ReaderAt(ctx, src), 0, src.Size()), size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return counts, nil
}

// usageErrorOf is an error of the command line with the next step.
func usageErrorOf(message, hint string) error {
	return fault.WithHint(fault.New(fault.Usage, "%s", message), "%s", hint)
}
