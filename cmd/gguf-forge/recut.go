package main

import (
	"context"
	"io"

	"gguf-forge/corpus"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/remote"
)

type recutCmd struct {
	Model  string `arg:"" predictor:"file" help:"A finished model with a whole head or embedding: a path, a URL or org/name[@revision]:file."`
	IDs    string `name:"ids" required:"" placeholder:"LIST" predictor:"file" help:"Id list of the rows to keep, as gguf-forge select writes it."`
	Output string `short:"o" placeholder:"FILE" predictor:"file" help:"Write a file instead of stdout. It appears only when it is complete."`
	workFlags
}

func (c *recutCmd) Run(ctx context.Context, a *app) error {
	if c.Output == "" && a.stdout.isTerminal() {
		return fault.WithHint(fault.New(fault.Usage, "a model is binary data, it is not written to a terminal"),
			"pipe it somewhere, or write a file with -o FILE")
	}
	ref, err := remote.ParseReference(c.Model)
	if err != nil {
		return err
	}
	listRef, err := remote.ParseReference(c.IDs)
	if err != nil {
		return err
	}
	c.limitMemory()
	env, err := a.newEnvironment(int64(c.Mem))
	if err != nil {
		return err
	}
	defer env.Close()
	list, err := corpus.ReadList(ctx, env.Client, listRef)
	if err != nil {
		return err
	}
	cut, err := pipeline.OpenRecut(ctx, env.Client, ref, list)
	if err != nil {
		return err
	}
	defer cut.Close()
	stream := func(w io.Writer) error {
		bar := a.startProgress(cut.Artifact.Size())
		res, err := cut.Artifact.Stream(ctx, w, pipeline.StreamOptions{Memory: int64(c.Mem), Threads: c.Threads, Progress: bar.stream})
		a.endProgress()
		if err == nil {
			a.say("%d bytes, SHA-256 %s", res.Bytes, res.SHA256)
		}
		return err
	}
	if c.Output == "" {
		return stream(a.stdout)
	}
	if err := cut.Refuse(c.Output); err != nil {
		return err
	}
	return pipeline.WriteFile(c.Output, stream)
}
