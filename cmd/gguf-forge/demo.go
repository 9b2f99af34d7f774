package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gguf-forge/internal/bytesize"
	"gguf-forge/internal/demo"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

type demoCmd struct {
	Output string `short:"o" placeholder:"FILE" predictor:"file" help:"Keep the model; otherwise it is built, verified and thrown away."`
}

// demoRecipe is what the demo builds.
const demoRecipe = "demo-h65"

func (c *demoCmd) Run(ctx context.Context, a *app) error {
	if !demo.Included {
		return fault.WithHint(fault.New(fault.BadInput, "this program was built without the demo model"), "build it without the tag nodemo")
	}
	start := time.Now()
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	data, err := recipes.Load(demoRecipe)
	if err != nil {
		return err
	}
	plan, err := planRecipe(ctx, env, data)
	if err != nil {
		return err
	}
	defer plan.Close()
	if err := plan.Err(); err != nil {
		return err
	}
	if err := a.tellPlan(plan.Report()); err != nil {
		return err
	}
	lock, err := loadLock(data)
	if err != nil {
		return err
	}
	var result demoResult
	build := func(w io.Writer) error { result, err = buildDemo(ctx, w, plan, lock); return err }
	if c.Output == "" {
		err = build(io.Discard)
	} else {
		err = pipeline.WriteFile(c.Output, build)
	}
	if err != nil {
		return err
	}
	return c.tellResult(a, result, time.Since(start))
}

// demoResult is what was built and how much of it was compared.
type demoResult struct {
	pipeline.Result
	tensors, chunks, reference int
}

// buildDemo streams the model to w and compares it with the lock and with what the reference wrote.
func buildDemo(ctx context.Context, w io.Writer, plan *pipeline.Plan, lock *pipeline.Lock) (r demoResult, err error) {
	if err := lock.CheckPlan(plan); err != nil {
		return r, err
	}
	manifest := new(pipeline.Manifest)
	if r.Result, err = plan.Artifact.Stream(ctx, w, pipeline.StreamOptions{Manifest: manifest}); err != nil {
		return r, err
	}
	if r.tensors, r.chunks, err = lock.CheckStream(manifest, r.Result); err != nil {
		return r, err
	}
	want := demo.ReferenceTensors()
	for _, t := range manifest.Tensors() {
		if pipeline.IsHead(t.Name) { // made of rows of the embedding; only the lock knows it
			continue
		}
		if want[t.Name] != t.SHA256 {
			return r, fault.New(fault.Verification, "tensor %q has SHA-256 %s, llama-quantize wrote %s", t.Name, t.SHA256, want[t.Name])
		}
		r.reference++
	}
	if r.reference != len(want) {
		return r, fault.New(fault.Verification, "%d tensors were built, llama-quantize wrote %d", r.reference, len(want))
	}
	return r, nil
}

func (a *app) tellPlan(r pipeline.Report) error {
	b := new(strings.Builder)
	fmt.Fprintf(b, "A hub started on the loopback interface. It serves %s, a model of %.2f million weights.\n\n", demo.Repo, float64(r.Weights)/1e6)
	fmt.Fprintf(b, "recipe %s: %s\n", r.Recipe, r.Description)
	for _, s := range r.Sources {
		fmt.Fprintf(b, "  %-8s %s (%s)\n", s.Name, s.Source, bytesize.Size(s.Size))
	}
	fmt.Fprintf(b, "  %-8s %d bytes, %.2f bits per weight\n\n", "output", r.Size, r.BitsPerWeight)
	fmt.Fprintf(b, "The head keeps %d of %d tokens, chosen by counting them in English and Russian text. Of text it has not seen it can say\n", r.Head.Rows, r.Head.Vocabulary)
	for _, t := range r.Head.Texts {
		fmt.Fprintf(b, "  %-8s %.2f %% of %d tokens\n", t.Name, 100*t.Coverage.Share(), t.Coverage.Tokens)
	}
	b.WriteString("\n")
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

func (c *demoCmd) tellResult(a *app, r demoResult, took time.Duration) error {
	where, next := "thrown away", "keep the model with `gguf-forge demo -o spark.gguf`, then look at it with `gguf-forge info spark.gguf`"
	if c.Output != "" {
		where, next = c.Output, fmt.Sprintf("look at it with `gguf-forge info %s`", c.Output)
	}
	_, err := fmt.Fprintf(a.stdout, `built     %d bytes in %.1f s: %s
verified  SHA-256 %s
          equal to the lock: the file, %s, %s
          equal to what llama-quantize wrote: %s

Next: %s.
The recipe to copy: gguf-forge recipes %s --print
`, r.Bytes, took.Seconds(), where, r.SHA256, count(r.tensors, "tensor"), count(r.chunks, "chunk"), count(r.reference, "tensor"), next, demoRecipe)
	return err
}
