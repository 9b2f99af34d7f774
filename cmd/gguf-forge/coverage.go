package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"gguf-forge/corpus"
	"gguf-forge/corpus/chart"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

type coverageCmd struct {
	Model   string   `arg:"" predictor:"file" help:"Tokenizer: a GGUF, tokenizer.json or tokenizer.bin, as path, URL or org/name[@revision]:file."`
	Lists   []string `arg:"" optional:"" predictor:"file" help:"Id lists of heads to compare."`
	HeldOut []string `name:"heldout" sep:"none" placeholder:"NAME=FILE" help:"A text, or its .counts file, to measure on; once per language."`
	At      []int    `placeholder:"ROWS,ROWS" help:"Also compare heads of these sizes by the rule below."`
	Missing int      `default:"10" placeholder:"N" help:"Show the N most frequent tokens that each head lacks (default 10)."`
	Least   float64  `name:"min-coverage" placeholder:"X" help:"Fail if a head keeps less than this share of the tokens of a text."`
	Plot    string   `placeholder:"FILE" predictor:"file" help:"Draw coverage against rows as .svg or .png."`
	JSON    bool     `help:"Print as JSON."`
	As      string   `placeholder:"WHOSE" help:"Whose ids to give where programs differ: llama.cpp or hf; by default the one the tokenizer's file is for."`
	ruleFlags
	textFlags
}

func (c *coverageCmd) Help() string {
	return "A miss is a token of held-out text whose id a head doesn't have. With a rule, as select takes it, heads of any size are compared and drawn as a curve."
}

func (c *coverageCmd) Run(ctx context.Context, a *app) error {
	if c.Plot != "" && c.plotFormat() == "" {
		return fault.New(fault.Usage, "--plot %s: the picture can be .svg or .png", c.Plot)
	}
	if len(c.Lists) == 0 && !c.given() {
		return usageErrorOf("there is no head to measure", "name id lists, or a rule with --rule or flags such as --corpus en=en.txt --rows 65536")
	}
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	t, err := a.openTokenizer(ctx, env.Client, c.Model, c.As)
	if err != nil {
		return err
	}
	heads, err := readHeads(ctx, env.Client, c.Lists, t.Vocabulary())
	if err != nil {
		return err
	}
	m, err := a.choose(ctx, env, t, c.ruleFlags, c.HeldOut, c.textFlags)
	if err != nil {
		return err
	}
	if len(m.heldOut) == 0 {
		return usageErrorOf("there is no text to measure on", "name one with --heldout en=FILE")
	}
	sized, err := c.sizes(m)
	if err != nil {
		return err
	}
	heads = append(heads, sized...)
	r := corpus.NewReport(heads, m.heldOut, c.Missing)
	if err := c.print(a, t, r); err != nil {
		return err
	}
	if c.Plot != "" {
		if err := pipeline.WriteFile(c.Plot, func(w io.Writer) error { return c.draw(w, m, heads) }); err != nil {
			return err
		}
	}
	return c.floor(m, r)
}

func (c *coverageCmd) plotFormat() string {
	switch ext := strings.ToLower(filepath.Ext(c.Plot)); ext {
	case ".svg", ".png":
		return ext[1:]
	}
	return ""
}

func readHeads(ctx context.Context, client *remote.Client, names []string, v tokenizer.Vocabulary) ([]corpus.Head, error) {
	var heads []corpus.Head
	for _, name := range names {
		ref, err := remote.ParseReference(name)
		if err != nil {
			return nil, err
		}
		list, err := corpus.ReadList(ctx, client, ref)
		if err != nil {
			return nil, err
		}
		if err := list.Check(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		heads = append(heads, corpus.Head{Name: filepath.Base(name), IDs: list.IDs})
	}
	return heads, nil
}

// sizes returns the heads that the rule makes.
func (c *coverageCmd) sizes(m *made) ([]corpus.Head, error) {
	if m.list == nil {
		if len(c.At) > 0 {
			return nil, usageErrorOf("--at needs a rule", "the ids of a head of another size come from a rule: --rule, or flags such as --corpus en=en.txt --rows 65536")
		}
		return nil, nil
	}
	heads := []corpus.Head{}
	for _, n := range c.At {
		if n < m.fixed || n > len(m.order) || n < 1 {
			return nil, fault.New(fault.Usage, "--at %d: a head by this rule has %d to %d rows", n, max(m.fixed, 1), len(m.order))
		}
		ids := slices.Clone(m.order[:n])
		slices.Sort(ids)
		heads = append(heads, corpus.Head{Name: strconv.Itoa(n), IDs: ids})
	}
	if len(c.At) == 0 {
		heads = append(heads, corpus.Head{Name: "rule", IDs: m.list.IDs})
	}
	return heads, nil
}

func (c *coverageCmd) print(a *app, t *tokenizer.Tokenizer, r *corpus.Report) error {
	piece := func(id uint32) string { return pieceText(t, id) }
	if c.JSON {
		return a.printJSON(r.JSON(piece))
	}
	b := new(strings.Builder)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "held-out\ttokens\t")
	for _, h := range r.Heads {
		fmt.Fprintf(w, "%s\t", h.Name)
	}
	fmt.Fprint(w, "\n\trows\t")
	for _, h := range r.Heads {
		fmt.Fprintf(w, "%d\t", len(h.IDs))
	}
	fmt.Fprintln(w)
	rows := r.Texts
	if len(rows) > 1 {
		rows = append(slices.Clone(rows), r.Total)
	}
	for _, text := range rows {
		fmt.Fprintf(w, "%s\t%d\t", text.Name, text.Coverage[0].Tokens)
		for _, v := range text.Coverage {
			fmt.Fprintf(w, "%s\t", missText(v))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range r.Texts {
		for i, h := range r.Heads {
			if len(text.Missing[i]) == 0 {
				continue
			}
			fmt.Fprintf(b, "\nmissing in %s, %s:\n", h.Name, text.Name)
			for _, miss := range text.Missing[i] {
				fmt.Fprintf(b, "%9d  %-6d  %s\n", miss.Count, miss.ID, strconv.Quote(piece(miss.ID)))
			}
		}
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// missText is the number of misses and their share, as the notebook has it.
func missText(c tokenizer.Coverage) string {
	return fmt.Sprintf("%d (%.2f %%)", c.Misses(), 100*(1-c.Share()))
}

// coverageText is the share that is kept.
func coverageText(c tokenizer.Coverage) string {
	return fmt.Sprintf("%.2f %% of %d tokens, %d misses", 100*c.Share(), c.Tokens, c.Misses())
}

// pieceText is a token's text as it would stand in an output. A token that is a part of a character shows its bytes.
func pieceText(t *tokenizer.Tokenizer, id uint32) string {
	b := t.Piece(int32(id))
	if utf8.Valid(b) {
		return string(b)
	}
	return fmt.Sprintf("bytes % x", b)
}

func (c *coverageCmd) draw(w io.Writer, m *made, heads []corpus.Head) error {
	var texts []chart.Text
	for _, held := range m.heldOut {
		t := chart.Text{Name: held.Name}
		if m.order != nil {
			t.Curve = chart.Curve(held.Counts, m.order, m.fixed)
		}
		for _, h := range heads {
			t.Heads = append(t.Heads, chart.Point{Rows: len(h.IDs), Coverage: tokenizer.Cover(held.Counts, h.IDs).Share()})
		}
		texts = append(texts, t)
	}
	return chart.Write(w, c.plotFormat(), "Coverage of held-out text", texts)
}

// floor fails if a head keeps too little of a text. What the rule's file asks for is meant for the rule's own head.
func (c *coverageCmd) floor(m *made, r *corpus.Report) error {
	for i, h := range r.Heads {
		for _, text := range r.Texts {
			least := c.Least
			if m.list != nil && slices.Equal(h.IDs, m.list.IDs) {
				least = max(least, m.floors[text.Name])
			}
			if share := text.Coverage[i].Share(); share < least {
				return fault.WithHint(fault.New(fault.BadInput, "head %s keeps %.2f %% of %s, at least %.2f %% are asked for", h.Name, 100*share, text.Name, 100*least),
					"keep more rows, or choose them from text of the same language")
			}
		}
	}
	return nil
}
