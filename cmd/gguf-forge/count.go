package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"gguf-forge/corpus"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/remote"
)

type countCmd struct {
	Model  string   `arg:"" predictor:"file" help:"Tokenizer: a GGUF, tokenizer.json or tokenizer.bin, as path, URL or org/name[@revision]:file."`
	Texts  []string `arg:"" predictor:"file" help:"Texts: paths, URLs or datasets/org/name[@revision]:file; - is stdin."`
	Output string   `short:"o" placeholder:"FILE" predictor:"file" help:"Where to write the counts; without it stdout."`
	JSON   bool     `help:"Write the ids that occur as JSON instead of a count vector."`
	As     string   `placeholder:"WHOSE" help:"Whose ids to give where programs differ: llama.cpp or hf; by default the one the tokenizer's file is for."`
	textFlags
}

func (c *countCmd) Help() string {
	return "Texts are plain, gzip or zstd; every line of a .jsonl file and every row of a Parquet file is a text of its own. " +
		"A count vector is one little-endian 64-bit number per id. Special tokens are not parsed: all of a text is text."
}

// textFlags say how texts are read.
type textFlags struct {
	Format   string `enum:"text,jsonl,parquet," default:"" placeholder:"FORMAT" help:"How texts stand in their files: text, jsonl or parquet; by default by name and content."`
	Field    string `default:"text" placeholder:"NAME" help:"Field of JSON lines or column of Parquet files with the text (default text)."`
	AnyBytes bool   `help:"Count bytes that are not UTF-8 as the tokenizer takes them, instead of refusing the text."`
	Threads  int    `short:"t" placeholder:"N" help:"Workers; by default one per CPU. They never change a count."`
}

// input returns the input behind a name on the command line.
func (f textFlags) input(client *remote.Client, name string) (corpus.Input, error) {
	in, err := corpus.Input{Name: "stdin", Reader: os.Stdin}, error(nil)
	if name != "-" {
		in, err = corpus.FileInput(client, name)
	}
	in.Format, in.Field, in.Any = corpus.Format(f.Format), f.Field, f.AnyBytes
	return in, err
}

// options shows the progress of counting.
func (f textFlags) options(a *app) corpus.CountOptions {
	bar := a.startProgress(0)
	return corpus.CountOptions{Threads: f.Threads, Progress: func(done, total int64) { bar.of(done, total) }}
}

func (c *countCmd) Run(ctx context.Context, a *app) error {
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	if c.Output == "" && !c.JSON && a.stdout.isTerminal() {
		return fault.WithHint(fault.New(fault.Usage, "a count vector is not for a terminal"), "name a file with -o, or add --json")
	}
	t, err := a.openTokenizer(ctx, env.Client, c.Model, c.As)
	if err != nil {
		return err
	}
	var inputs []corpus.Input
	for _, name := range c.Texts {
		in, err := c.input(env.Client, name)
		if err != nil {
			return err
		}
		inputs = append(inputs, in)
	}
	found, err := corpus.Count(ctx, t, inputs, c.options(a))
	a.endProgress()
	if err != nil {
		return err
	}
	tokens := found.Counts.Tokens()
	if tokens == 0 {
		return fault.New(fault.BadInput, "the text is empty: it has no tokens")
	}
	if err := c.write(a, found.Counts); err != nil {
		return err
	}
	texts := int64(0)
	for _, f := range found.Files {
		texts += f.Texts
	}
	a.note("%d tokens in %d texts", tokens, texts)
	return nil
}

func (c *countCmd) write(a *app, counts corpus.Counts) error {
	write := func(w io.Writer) error { _, err := counts.WriteTo(w); return err }
	if c.JSON {
		write = counts.WriteJSON
	}
	if c.Output == "" {
		return write(a.stdout)
	}
	if err := pipeline.WriteFile(c.Output, write); err != nil {
		return fmt.Errorf("writing %s: %w", c.Output, err)
	}
	return nil
}

// of moves the bar to done bytes of as many as are known so far.
func (p *progress) of(done, total int64) {
	if p != nil {
		p.bar.SetTotal(total).SetCurrent(done)
	}
}
