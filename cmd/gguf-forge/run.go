package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"gguf-forge/internal/fault"
	"gguf-forge/runtime"
	"gguf-forge/tokenizer"
)

type runCmd struct {
	Model string `arg:"" predictor:"file" help:"Path (GGUF, or a llama2.c .bin), URL, org/name[@revision]:file or recipe:NAME."`
	File  string `arg:"" optional:"" predictor:"file" help:"Text to continue; - is stdin, the default."`

	Prompt    string `short:"p" placeholder:"TEXT" xor:"prompt" help:"Text to continue."`
	PromptIDs string `name:"prompt-ids" placeholder:"1,2,3" xor:"prompt" help:"Token ids to continue, taken as they are."`
	N         int    `short:"n" default:"-1" placeholder:"N" help:"Tokens to generate; -1: until the model ends or the context is full."`
	IDs       bool   `name:"ids" help:"Print exactly -n ids, separated by commas, instead of text. End tokens don't stop them."`
	IgnoreEOS bool   `name:"ignore-eos" help:"Go on after end tokens."`
	Special   bool   `help:"Show special tokens in the text."`
	Shift     bool   `help:"At the end of the context forget the older half of the text, instead of stopping."`
	Tokenizer string `placeholder:"FILE" predictor:"file" help:"Tokenizer of a llama2.c checkpoint (default: tokenizer.bin beside it)."`
	samplingFlags
	engineFlags
}

func (c *runCmd) Help() string {
	return "Continues a text, without a chat template: BOS is added if the model wants it, texts of special tokens become these tokens. Only " +
		"what was generated is printed."
}

// Validate is called by the parser.
func (c *runCmd) Validate() error {
	switch {
	case c.N < -1:
		return fmt.Errorf("-n is negative")
	case c.IDs && c.N < 0:
		return fmt.Errorf("--ids needs -n")
	case c.File != "" && (c.Prompt != "" || c.PromptIDs != ""):
		return fmt.Errorf("a file and a prompt were given")
	}
	return c.engineFlags.Validate()
}

func (c *runCmd) Run(ctx context.Context, a *app) (err error) {
	sampler, err := c.sampler()
	if err != nil {
		return err
	}
	ids, text, err := c.input()
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, c.Model, c.engineFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var t *tokenizer.Tokenizer
	if c.PromptIDs == "" || !c.IDs {
		if t, err = a.engineTokenizer(ctx, e, c.Model, c.Tokenizer); err != nil {
			return err
		}
	}
	if c.PromptIDs == "" {
		if ids, err = t.Encode(nil, text, tokenizer.EncodeOptions{ParseSpecial: true, AddSpecial: true}); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return fault.New(fault.Usage, "the prompt has no token, and the model wants none before it")
	}
	if err := e.start(a, c.engineFlags, len(ids)+max(c.N, 0), c.Shift); err != nil {
		return err
	}
	if c.IDs {
		return c.printIDs(ctx, a, e, sampler, ids)
	}
	return c.printText(ctx, a, e, sampler, t, ids)
}

// input returns the prompt as ids or as text.
func (c *runCmd) input() (ids []int32, text []byte, err error) {
	if c.PromptIDs != "" {
		ids, err = parseIDs("--prompt-ids", c.PromptIDs)
		return ids, nil, err
	}
	if c.Prompt != "" {
		return nil, []byte(c.Prompt), nil
	}
	if c.File == "" || c.File == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(c.File)
	}
	if err != nil {
		return nil, nil, fault.New(systemKind(err), "%w", err)
	}
	return nil, text, nil
}

// printIDs prints exactly N ids. Whether they fit into the context is known before the first.
func (c *runCmd) printIDs(ctx context.Context, a *app, e *engine, s *runtime.Sampler, prompt []int32) error {
	if n := len(prompt) + c.N - 1; n > e.session.Context() && !c.Shift {
		err := fault.New(fault.BadInput, "%d prompt tokens and %d generated ones need %d positions, and the context has %d", len(prompt), c.N, n, e.session.Context())
		return fault.WithHint(err, "take a longer context with -c, or --shift")
	}
	line := []byte{}
	n := 0
	err := generate(ctx, e.session, s, prompt, c.N, func(id int32) (bool, error) {
		if n++; n > 1 {
			line = append(line, ',')
		}
		line = strconv.AppendInt(line, int64(id), 10)
		return true, nil
	})
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(line, '\n'))
	return err
}

// printText prints what the generated tokens stand for, each as it comes.
func (c *runCmd) printText(ctx context.Context, a *app, e *engine, s *runtime.Sampler, t *tokenizer.Tokenizer, prompt []int32) error {
	ends := t.EndTokens()
	err := generate(ctx, e.session, s, prompt, c.N, func(id int32) (bool, error) {
		if !c.IgnoreEOS && slices.Contains(ends, id) {
			return false, nil
		}
		if !c.Special && t.Attributes(id)&(tokenizer.Control|tokenizer.Unknown) != 0 {
			return true, nil
		}
		_, err := a.stdout.Write(t.Piece(id))
		return true, err
	})
	if errors.Is(err, runtime.ErrContextFull) && e.session.Position() >= len(prompt) {
		a.note("gguf-forge: stopped: the context of %d tokens is full", e.session.Context())
		err = nil
	}
	if err == nil && a.stdout.isTerminal() {
		_, err = a.stdout.Write([]byte{'\n'})
	}
	return err
}

// promptPiece is how many tokens of a prompt are evaluated between two looks at whether the user still wants them.
const promptPiece = 256

// evalPrompt evaluates a prompt, or refuses it as a whole.
func evalPrompt(ctx context.Context, s *runtime.Session, prompt []int32) (logits []float32, err error) {
	if len(prompt) > s.Context()-s.Position() {
		return s.Eval(prompt)
	}
	for piece := range slices.Chunk(prompt, promptPiece) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if logits, err = s.Eval(piece); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// generate continues a prompt with n tokens, or without end if n is negative, and hands each to take as soon as it is chosen;
// take says whether to go on.
func generate(ctx context.Context, s *runtime.Session, sampler *runtime.Sampler, prompt []int32, n int, take func(id int32) (bool, error)) error {
	for _, id := range prompt {
		sampler.Accept(id)
	}
	logits, err := evalPrompt(ctx, s, prompt)
	if err != nil {
		return err
	}
	for ; n != 0; n-- {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		id, err := sampler.Next(logits)
		if err != nil {
			return err
		}
		if more, err := take(id); err != nil || !more {
			return err
		}
		if n == 1 {
			return nil
		}
		if logits, err = s.Eval([]int32{id}); err != nil {
			return err
		}
	}
	return nil
}
