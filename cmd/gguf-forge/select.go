package main

import (
	"context"

	"gguf-forge/pipeline"
	"gguf-forge/tokenizer"
)

type selectCmd struct {
	Model  string `arg:"" predictor:"file" help:"Tokenizer: a GGUF, tokenizer.json or tokenizer.bin, as path, URL or org/name[@revision]:file."`
	Output string `short:"o" placeholder:"LIST" predictor:"file" help:"Where to write the id list; without it stdout."`
	JSON   bool   `help:"Print what was chosen as JSON; needs -o."`
	As     string `placeholder:"WHOSE" help:"Whose ids to give where programs differ: llama.cpp or hf; by default the one the tokenizer's file is for."`
	ruleFlags
	HeldOut []string `name:"heldout" sep:"none" placeholder:"NAME=FILE" help:"A text, or its .counts file, to report the coverage of."`
	textFlags
}

func (c *selectCmd) Help() string {
	return "Kept first are --always, --below, --keep and --keep-list, then what every --budget asks for; the rest is taken by " +
		"falling sum of frequencies, equal ones by rising id, up to --rows, --share or --coverage."
}

// Validate is called by the parser.
func (c *selectCmd) Validate() error {
	if c.JSON && c.Output == "" {
		return usageText("--json needs -o: the id list and the report can't both go to stdout")
	}
	return nil
}

// usageText is an error of the command line.
type usageText string

func (e usageText) Error() string { return string(e) }

// selectReport is what select prints as JSON.
type selectReport struct {
	Rows       int                           `json:"rows"`
	Fixed      int                           `json:"fixed"` // rows that are kept whatever the size
	SHA256     string                        `json:"sha256"`
	Vocabulary string                        `json:"vocabulary_sha256"`
	Corpora    map[string]tokenizer.Coverage `json:"corpora"`
	HeldOut    map[string]tokenizer.Coverage `json:"heldout"`
}

func (c *selectCmd) Run(ctx context.Context, a *app) error {
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	t, err := a.openTokenizer(ctx, env.Client, c.Model, c.As)
	if err != nil {
		return err
	}
	if !c.given() {
		return usageErrorOf("there is no rule", "give --rule FILE, or flags such as --corpus en=en.txt --always special,byte --rows 65536 --multiple 8")
	}
	m, err := a.choose(ctx, env, t, c.ruleFlags, c.HeldOut, c.textFlags)
	if err != nil {
		return err
	}
	if err := m.checkFloors(m.list.IDs); err != nil {
		return err
	}
	if c.Output == "" {
		if err := m.list.Write(a.stdout); err != nil {
			return err
		}
	} else if err := pipeline.WriteFile(c.Output, m.list.Write); err != nil {
		return err
	}
	r := selectReport{Rows: len(m.list.IDs), Fixed: m.fixed, SHA256: m.list.Hash(), Vocabulary: m.list.VocabHash,
		Corpora: coverOf(m.corpora, m.list.IDs), HeldOut: coverOf(m.heldOut, m.list.IDs)}
	if c.JSON {
		return a.printJSON(r)
	}
	a.note("%d of %d ids, hash %s", r.Rows, t.Size(), r.SHA256)
	for _, text := range m.corpora {
		a.note("%s: %s", text.Name, coverageText(r.Corpora[text.Name]))
	}
	for _, text := range m.heldOut {
		a.note("held-out %s: %s", text.Name, coverageText(r.HeldOut[text.Name]))
	}
	return nil
}

func coverOf(texts []tokenizer.Counted, ids []uint32) map[string]tokenizer.Coverage {
	m := map[string]tokenizer.Coverage{}
	for _, t := range texts {
		m[t.Name] = tokenizer.Cover(t.Counts, ids)
	}
	return m
}
