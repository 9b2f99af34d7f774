package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/remote"
	"gguf-forge/tokenizer"
)

// maxTokenizer bounds a tokenizer.json or tokenizer.bin, which is read as a whole. The largest known one has 33 MB.
const maxTokenizer = 256 << 20

// openTokenizer reads the tokenizer of a GGUF, a tokenizer.json or a tokenizer.bin behind any kind of reference. as says whose
// behaviour it gets, "" that of the kind of file.
func (a *app) openTokenizer(ctx context.Context, client *remote.Client, name, as string) (*tokenizer.Tokenizer, error) {
	t, err := a.readTokenizer(ctx, client, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if as == "" {
		return t, nil
	}
	mode, err := tokenizer.ParseMode(as)
	if err != nil {
		return nil, err
	}
	return t.As(mode)
}

func (a *app) readTokenizer(ctx context.Context, client *remote.Client, name string) (_ *tokenizer.Tokenizer, err error) {
	ref, err := remote.ParseReference(name)
	if err != nil {
		return nil, err
	}
	if ref.Kind == remote.Recipe {
		m, err := a.openModel(ctx, name)
		if err != nil {
			return nil, err
		}
		t, err := tokenizer.FromGGUF(m.Metadata)
		return t, errors.Join(err, m.Close())
	}
	if ref, err = client.Pin(ctx, ref); err != nil {
		return nil, err
	}
	src, err := client.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remote.CloseSource(src)) }()
	start := make([]byte, min(src.Size(), 64))
	if _, err := src.ReadAt(ctx, start, 0); err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\ufeff")), " \t\r\n"), []byte("{")):
		data, err := remote.ReadAll(ctx, src, maxTokenizer)
		if err != nil {
			return nil, err
		}
		config, err := readBeside(ctx, client, ref, "tokenizer_config.json")
		if err != nil {
			return nil, err
		}
		return tokenizer.FromJSON(data, config)
	case strings.HasSuffix(fileName(ref), ".bin"):
		data, err := remote.ReadAll(ctx, src, maxTokenizer)
		if err != nil {
			return nil, err
		}
		return tokenizer.FromLlama2C(data, 0)
	}
	h, err := gguf.ReadHeader(remote.ReaderAt(ctx, src), src.Size())
	if err != nil {
		return nil, err
	}
	return tokenizer.FromGGUF(h.Metadata)
}

// readBeside reads a small file in the same folder as ref, nil if there is none.
func readBeside(ctx context.Context, client *remote.Client, ref remote.Reference, name string) ([]byte, error) {
	if ref.Kind == remote.File {
		name = filepath.Join(filepath.Dir(ref.Path), name)
	} else {
		name = path.Join(path.Dir(fileName(ref)), name)
	}
	src, err := client.Open(ctx, sibling(ref, name))
	if kind := classify(err); err != nil && kind == fault.BadInput {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	data, err := remote.ReadAll(ctx, src, maxTokenizer)
	return data, errors.Join(err, remote.CloseSource(src))
}
