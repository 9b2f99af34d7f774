package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

type tokensCmd struct {
	Model string `arg:"" predictor:"file" help:"Tokenizer: a GGUF, tokenizer.json or tokenizer.bin, as path, URL or org/name[@revision]:file."`
	File  string `arg:"" optional:"" default:"-" predictor:"file" help:"Text; - is stdin, the default."`

	JSON    bool   `help:"Print one object with count and ids."`
	JSONL   bool   `name:"jsonl" xor:"input" help:"Read lines {\"text\":…} or {\"hex\":…} and answer an object a line."`
	Decode  bool   `xor:"input" help:"Read ids and write the text they stand for."`
	Pieces  bool   `help:"Print the text of each token behind its id."`
	Special bool   `help:"Take texts of special tokens for these tokens; with --decode show them."`
	BOS     bool   `name:"bos" help:"Add what the model wants around a text, such as BOS."`
	CleanUp bool   `help:"With --decode: drop spaces before punctuation where llama.cpp does."`
	As      string `placeholder:"WHOSE" help:"Whose ids to give where programs differ: llama.cpp or hf; by default the one the tokenizer's file is for."`
}

func (c *tokensCmd) Help() string {
	return "A GGUF is read as llama.cpp reads it, a tokenizer.json as Hugging Face's library. Without --json ids are printed one a line. " +
		"--decode reads ids as numbers, or what --json prints. With --jsonl a line that is no such object, or whose text the program " +
		"in question refuses, is answered by {\"error\":…}, and the rest goes on."
}

func (c *tokensCmd) Run(ctx context.Context, a *app) (err error) {
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	t, err := a.openTokenizer(ctx, env.Client, c.Model, c.As)
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return fault.New(systemKind(err), "%w", err)
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriterSize(a.stdout, 1<<16)
	if c.JSONL {
		err = c.lines(ctx, t, in, out)
	} else {
		err = c.whole(a, t, in, out)
	}
	return errors.Join(err, out.Flush())
}

func (c *tokensCmd) options() tokenizer.EncodeOptions {
	return tokenizer.EncodeOptions{ParseSpecial: c.Special, AddSpecial: c.BOS}
}

// whole takes all of the input for one text or one list of ids.
func (c *tokensCmd) whole(a *app, t *tokenizer.Tokenizer, in io.Reader, out *bufio.Writer) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return fault.New(systemKind(err), "%w", err)
	}
	if c.Decode {
		ids, err := readIDs(data, t.Size())
		if err != nil {
			return err
		}
		_, err = out.Write(t.Decode(nil, ids, tokenizer.DecodeOptions{Special: c.Special, CleanUp: c.CleanUp}))
		return err
	}
	ids, err := t.Encode(nil, data, c.options())
	if err != nil {
		return err
	}
	if n := countBytes(data, t.MissingBytes()); n > 0 {
		a.note("gguf-forge: %d bytes have no token in this vocabulary and are left out", n)
	}
	if c.JSON {
		return writeIDs(out, ids)
	}
	for _, id := range ids {
		line := strconv.AppendInt(nil, int64(id), 10)
		if c.Pieces {
			line = strconv.AppendQuote(append(line, '\t'), string(t.Piece(id)))
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// countBytes returns how often bytes of set occur in data.
func countBytes(data, set []byte) int {
	n := 0
	for _, b := range set {
		n += bytes.Count(data, []byte{b})
	}
	return n
}

// lines answers every line. Each answer is written when the next line has to be waited for.
func (c *tokensCmd) lines(ctx context.Context, t *tokenizer.Tokenizer, in io.Reader, out *bufio.Writer) error {
	r := bufio.NewReaderSize(in, 1<<16)
	var ids []int32
	for ctx.Err() == nil {
		if r.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fault.New(systemKind(err), "%w", err)
		}
		if len(line) > 0 {
			text, bad := readLine(line)
			if bad == nil {
				ids, bad = t.Encode(ids[:0], text, c.options())
			}
			if err := answer(out, ids, bad); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
	return ctx.Err()
}

func answer(out *bufio.Writer, ids []int32, bad error) error {
	if bad == nil {
		return writeIDs(out, ids)
	}
	line, err := json.Marshal(map[string]string{"error": bad.Error()})
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

func writeIDs(out *bufio.Writer, ids []int32) error {
	line := append(strconv.AppendInt([]byte(`{"count":`), int64(len(ids)), 10), `,"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendInt(line, int64(id), 10)
	}
	_, err := out.Write(append(line, "]}\n"...))
	return err
}

// readLine returns the text of a line {"text":…} or {"hex":…}.
func readLine(line []byte) ([]byte, error) {
	var l struct{ Text, Hex *string }
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not UTF-8; give such bytes as hex")
	}
	if json.Unmarshal(line, &l) != nil {
		return nil, errors.New(`the line is no object with "text" or "hex"`)
	}
	switch {
	case (l.Text == nil) == (l.Hex == nil):
		return nil, errors.New(`the line has not one of "text" and "hex"`)
	case l.Hex != nil:
		return hex.DecodeString(*l.Hex)
	case replaced(*l.Text) > replaced(string(line))+bytes.Count(bytes.ToLower(line), []byte(`\ufffd`)):
		return nil, errors.New("the text has half a surrogate pair, which is no character")
	}
	return []byte(*l.Text), nil
}

// replaced counts the characters that the decoder puts in place of what is none.
func replaced(s string) int { return bytes.Count([]byte(s), []byte("\uFFFD")) }

// readIDs reads numbers with spaces, commas or brackets around them, or an object with ids.
func readIDs(data []byte, size int) ([]int32, error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		var o struct{ IDs json.RawMessage }
		if err := json.Unmarshal(trimmed, &o); err != nil {
			return nil, fault.New(fault.BadInput, "ids: %w", err)
		}
		if o.IDs == nil {
			return nil, fault.New(fault.BadInput, "the object has no ids")
		}
		data = o.IDs
	}
	var ids []int32
	for word := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r <= ' ' || r == ',' || r == '[' || r == ']' }) {
		id, err := strconv.ParseInt(string(word), 10, 32)
		if err != nil {
			return nil, fault.New(fault.BadInput, "%q is no token id", word)
		}
		if id < 0 || id >= int64(size) {
			return nil, fault.New(fault.BadInput, "token id %d is not in a vocabulary of %d", id, size)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
