package main

import (
	"context"
	"fmt"
	"os"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

type hashCmd struct {
	Model string `arg:"" predictor:"file" help:"Path, URL, org/name[@revision]:file or recipe:NAME."`

	SHA256  bool   `name:"sha256" help:"Print SHA-256, the default."`
	SHA1    bool   `name:"sha1" help:"Print SHA-1."`
	XXH64   bool   `name:"xxh64" help:"Print XXH64, which is no protection against intent."`
	All     bool   `help:"Print all three."`
	NoLayer bool   `help:"Leave out the tensors."`
	Check   string `short:"c" placeholder:"MANIFEST" predictor:"file" help:"Compare with what this or llama-gguf-hash printed."`
	JSON    bool   `help:"Print as JSON."`
}

func (c *hashCmd) Help() string {
	return "Lines have the form of llama-gguf-hash: of each tensor's data, then of all data together. " +
		"The last line, file-sha256, is the SHA-256 of the file itself, as sha256sum gives it."
}

// fileLabel begins the line with the SHA-256 of the whole file. llama-gguf-hash ignores such lines.
const fileLabel = "file-sha256"

func (c *hashCmd) Run(ctx context.Context, a *app) error {
	m, err := a.openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	var total int64
	for _, s := range m.Shards {
		total += s.Header.Size
	}
	opt := gguf.HashOptions{Algorithms: c.algorithms(), NoTensors: c.NoLayer}
	var manifest *gguf.Manifest
	if c.Check != "" {
		if manifest, err = readManifest(c.Check); err != nil {
			return err
		}
		opt.Algorithms = []gguf.Algorithm{manifest.Algorithm()}
	}
	bar := a.startProgress(total)
	opt.Progress = bar.add
	h, err := gguf.HashModel(ctx, m.Model, opt)
	a.endProgress()
	if err != nil {
		return err
	}
	if manifest != nil {
		return c.compare(a, manifest, h)
	}
	if c.JSON {
		return a.printJSON(h)
	}
	if err := h.Manifest(a.stdout); err != nil {
		return err
	}
	for _, f := range h.Files {
		if _, err := fmt.Fprintf(a.stdout, "%s  %s  %s\n", fileLabel, f.File, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// algorithms returns what the flags ask for, in the order of the reference.
func (c *hashCmd) algorithms() []gguf.Algorithm {
	var list []gguf.Algorithm
	for _, f := range []struct {
		on   bool
		what gguf.Algorithm
	}{{c.XXH64 || c.All, gguf.XXH64}, {c.SHA1 || c.All, gguf.SHA1}, {c.SHA256 || c.All, gguf.SHA256}} {
		if f.on {
			list = append(list, f.what)
		}
	}
	return list
}

func readManifest(path string) (*gguf.Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.BadInput, "%w", err)
	}
	defer f.Close()
	m, err := gguf.ReadManifest(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// compare prints every outcome; the error names what differs.
func (c *hashCmd) compare(a *app, manifest *gguf.Manifest, h *gguf.Hashes) error {
	checks, failed := manifest.Check(h)
	if c.JSON {
		if err := a.printJSON(checks); err != nil {
			return err
		}
		return failed
	}
	for _, check := range checks {
		if _, err := fmt.Fprintln(a.stdout, check); err != nil {
			return err
		}
	}
	return failed
}
