package main

import (
	"context"
	"io"

	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

type lockCmd struct {
	Name   string `arg:"" predictor:"recipe" help:"A recipe in this program, or the path of one."`
	Output string `short:"o" placeholder:"FILE" predictor:"file" help:"Write the lock here instead of NAME.lock in the working directory."`
	workFlags
}

func (c *lockCmd) Run(ctx context.Context, a *app) error {
	c.limitMemory()
	return a.withPlan(ctx, c.Name, c.Mem, func(data recipes.Recipe, plan *pipeline.Plan) error { return c.write(ctx, a, data, plan) })
}

// write builds the recipe and writes its lock.
func (c *lockCmd) write(ctx context.Context, a *app, data recipes.Recipe, plan *pipeline.Plan) error {
	if err := plan.Err(); err != nil {
		return err
	}
	lock, err := c.build(ctx, a, plan)
	if err != nil {
		return err
	}
	text, err := lock.Encode()
	if err != nil {
		return err
	}
	path := c.Output
	if path == "" {
		path = data.Name + ".lock"
	}
	if err := pipeline.WriteFile(path, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return err
	}
	a.say("%s: %d bytes, SHA-256 %s, %s, %s", path, lock.Size, lock.SHA256, count(len(lock.Tensors), "tensor"), count(len(lock.Chunks), "chunk"))
	return nil
}

// build streams the whole artifact to nowhere and keeps its hashes.
func (c *lockCmd) build(ctx context.Context, a *app, plan *pipeline.Plan) (*pipeline.Lock, error) {
	opt := pipeline.StreamOptions{Memory: int64(c.Mem), Threads: c.Threads, Manifest: new(pipeline.Manifest)}
	bar := a.startProgress(plan.Artifact.Size())
	opt.Progress = bar.stream
	res, err := plan.Artifact.Stream(ctx, io.Discard, opt)
	a.endProgress()
	if err != nil {
		return nil, err
	}
	return pipeline.NewLock(plan, opt.Manifest, res)
}
