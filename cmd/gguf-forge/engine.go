package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gguf-forge/internal/bytesize"
	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/runtime"
	"gguf-forge/tokenizer"
)

// engineFlags say how a model is run. Results depend on --exact and --kv only.
type engineFlags struct {
	Threads   int           `short:"t" placeholder:"N" help:"Workers; by default one per CPU."`
	Context   int           `short:"c" placeholder:"N" help:"Positions; by default what the model was trained for, at most 4096."`
	Batch     int           `short:"b" placeholder:"N" help:"Prompt tokens that go through the model together (default 64)."`
	Exact     bool          `help:"Keep all activations and the cache in float32."`
	KV        string        `name:"kv" placeholder:"TYPE" help:"Cache type: f16 (default), f32 or q8_0."`
	NoMmap    bool          `help:"Read the weights into memory instead of mapping the file."`
	MaxMemory bytesize.Size `placeholder:"SIZE" help:"Refuse what needs more memory than this."`
}

// Validate is called by the parser.
func (f engineFlags) Validate() error {
	switch {
	case f.Threads < 0:
		return fmt.Errorf("--threads is negative")
	case f.Context < 0:
		return fmt.Errorf("--context is negative")
	case f.Batch < 0:
		return fmt.Errorf("--batch is negative")
	case f.MaxMemory < 0:
		return fmt.Errorf("--max-memory is negative")
	}
	if f.KV != "" {
		_, err := runtime.ParseKVType(f.KV)
		return err
	}
	return nil
}

// session returns the options of a session for at least need tokens: a longer context than the default is taken for them if the
// model was trained for it.
func (f engineFlags) session(need, trained int) runtime.SessionOptions {
	opt := runtime.SessionOptions{Context: f.Context, Batch: f.Batch}
	if f.KV != "" {
		opt.KV, _ = runtime.ParseKVType(f.KV)
	}
	if f.Context == 0 && need > runtime.DefaultContext {
		opt.Context = min(need, max(trained, runtime.DefaultContext))
	}
	return opt
}

// engine is a loaded model with a session, and what must be closed after them.
type engine struct {
	model   *runtime.Model
	session *runtime.Session
	closers []func() error
}

// Close closes the model and its files.
func (e *engine) Close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	return errors.Join(errs...)
}

// openEngine loads a model behind any kind of reference; a local file is mapped.
func (a *app) openEngine(ctx context.Context, name string, f engineFlags) (_ *engine, err error) {
	ref, err := remote.ParseReference(name)
	if err != nil {
		return nil, err
	}
	e := &engine{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	opt := runtime.LoadOptions{Threads: f.Threads, Exact: f.Exact, NoMmap: f.NoMmap, MaxMemory: int64(f.MaxMemory), Session: f.session(0, 0)}
	if ref.Kind == remote.File {
		e.model, err = runtime.OpenFile(ref.Path, opt)
	} else {
		e.model, err = a.loadRemote(ctx, e, name, opt)
	}
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.model.Close)
	return e, nil
}

// start makes a session with room for need tokens and prints what memory is taken.
func (e *engine) start(a *app, f engineFlags, need int, shift bool) error {
	opt := f.session(need, e.model.TrainedContext())
	opt.Shift = shift
	memory, err := e.model.Memory(opt)
	if err != nil {
		return err
	}
	a.noteMemory(memory)
	e.session, err = e.model.NewSession(opt)
	return err
}

// loadRemote loads a model through the readers of its source: from a hub, or from a recipe that computes it.
func (a *app) loadRemote(ctx context.Context, e *engine, name string, opt runtime.LoadOptions) (*runtime.Model, error) {
	m, err := a.openModel(ctx, name)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, m.Close)
	src, err := runtime.NewSource(m.Model)
	if err != nil {
		return nil, err
	}
	return runtime.Load(src, opt)
}

func (a *app) noteMemory(m runtime.Memory) {
	size := func(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) }
	a.note("memory: %s MiB (weights %s, of these mapped %s; cache %s, state %s, buffers %s)",
		size(m.Total()), size(m.Weights+m.Mapped), size(m.Mapped), size(m.KV), size(m.State), size(m.Buffers))
}

// engineTokenizer returns the tokenizer of a model: file if given, the model's own, or for a llama2.c checkpoint the
// tokenizer.bin beside it.
func (a *app) engineTokenizer(ctx context.Context, e *engine, model, file string) (*tokenizer.Tokenizer, error) {
	if file == "" {
		if _, ok := e.model.Metadata().Get("tokenizer.ggml.model"); ok {
			return tokenizer.FromGGUF(e.model.Metadata())
		}
		file = filepath.Join(filepath.Dir(model), "tokenizer.bin")
		if _, err := os.Stat(file); err != nil {
			return nil, fault.WithHint(fault.New(fault.BadInput, "the model has no tokenizer, and there is no %s", file), "name one with --tokenizer, or give --prompt-ids and --ids")
		}
	}
	env, err := a.newEnvironment(0)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	return a.openTokenizer(ctx, env.Client, file, "")
}

// parseIDs reads token ids such as "1,2,3".
func parseIDs(flag, text string) ([]int32, error) {
	var ids []int32
	for word := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || id < 0 {
			return nil, fault.New(fault.Usage, "%s: %q is no token id; they are given as 1,2,3", flag, word)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
