package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gguf-forge/internal/bytesize"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

type recipeCmd struct {
	Name   string `arg:"" predictor:"recipe" help:"A recipe in this program (see gguf-forge recipes), or the path of one."`
	Output string `short:"o" placeholder:"FILE" predictor:"file" help:"Write a file instead of stdout. It appears only when it is complete and verified."`
	Offset int64  `placeholder:"N" help:"Begin at this byte of the model, as after a broken pipe."`
	Length int64  `placeholder:"N" help:"End after this many bytes; 0: at the end."`
	Locked bool   `help:"Fail on any difference from the recipe's lock: NAME.lock beside the recipe or in the working directory, else the one in this program."`
	JSON   bool   `name:"json" help:"Print result and errors on stderr as JSON."`
	workFlags
}

func (c *recipeCmd) Run(ctx context.Context, a *app) error {
	if c.Output == "" && a.stdout.isTerminal() {
		return fault.WithHint(fault.New(fault.Usage, "a model is binary data, it is not written to a terminal"),
			"pipe it somewhere, or write a file with -o FILE")
	}
	c.limitMemory()
	return a.withPlan(ctx, c.Name, c.Mem, func(data recipes.Recipe, plan *pipeline.Plan) error { return c.build(ctx, a, data, plan) })
}

func (c *recipeCmd) build(ctx context.Context, a *app, data recipes.Recipe, plan *pipeline.Plan) (err error) {
	if err := plan.Err(); err != nil {
		return err
	}
	run := &recipeRun{recipeCmd: c, app: a, plan: plan}
	if c.Locked {
		if run.lock, err = loadLock(data); err != nil {
			return err
		}
		if err := run.lock.CheckPlan(plan); err != nil {
			return err
		}
	}
	if c.Output != "" {
		return pipeline.WriteFile(c.Output, func(w io.Writer) error { return run.stream(ctx, w) })
	}
	a.resume = run.resumeHint
	err = run.stream(ctx, a.stdout)
	if err != nil && a.stdout.bytes() > 0 && classify(err) != fault.BrokenPipe && fault.KindOf(err) != fault.Verification {
		err = fault.WithHint(err, "%s", joinHints(fault.HintOf(err), run.resumeHint()))
	}
	return err
}

func joinHints(hints ...string) string {
	var list []string
	for _, h := range hints {
		if h != "" {
			list = append(list, h)
		}
	}
	return strings.Join(list, "; ")
}

// withPlan loads a recipe, plans it, and hands it to use.
func (a *app) withPlan(ctx context.Context, name string, memory bytesize.Size, use func(data recipes.Recipe, plan *pipeline.Plan) error) error {
	env, err := a.newEnvironment(int64(memory))
	if err != nil {
		return err
	}
	defer env.Close()
	data, err := recipes.Load(name)
	if err != nil {
		return err
	}
	plan, err := planRecipe(ctx, env, data)
	if err != nil {
		return err
	}
	defer plan.Close()
	return use(data, plan)
}

// planRecipe reads a recipe and the headers of its sources.
func planRecipe(ctx context.Context, env *environment, data recipes.Recipe) (*pipeline.Plan, error) {
	r, err := pipeline.ParseRecipe(data.Name, data.Dir, data.YAML)
	if err != nil {
		return nil, err
	}
	return r.Plan(ctx, env.Env)
}

func loadLock(data recipes.Recipe) (*pipeline.Lock, error) {
	name, b, err := data.Lock()
	if err != nil {
		return nil, err
	}
	return pipeline.ParseLock(name, b)
}

// recipeRun is one streaming of a planned recipe.
type recipeRun struct {
	*recipeCmd
	*app
	plan *pipeline.Plan
	lock *pipeline.Lock // nil: not locked
}

// stream writes the bytes that were asked for to w, compares them with the lock, and prints what they are.
func (r *recipeRun) stream(ctx context.Context, w io.Writer) error {
	opt := pipeline.StreamOptions{Offset: r.Offset, Length: r.Length, Memory: int64(r.Mem), Threads: r.Threads}
	if r.lock != nil {
		opt.Manifest = new(pipeline.Manifest)
	}
	total := r.Length
	if total == 0 {
		total = r.plan.Artifact.Size() - r.Offset
	}
	bar := r.startProgress(total)
	opt.Progress = bar.stream
	res, err := r.plan.Artifact.Stream(ctx, w, opt)
	r.endProgress()
	if err != nil {
		return err
	}
	out := recipeResult{Result: res}
	if r.lock != nil {
		if out.LockedTensors, out.LockedChunks, err = r.lock.CheckStream(opt.Manifest, res); err != nil {
			return err
		}
	}
	return r.tell(out)
}

// recipeResult is what was written and how much of it was compared with the lock.
type recipeResult struct {
	pipeline.Result
	LockedTensors int `json:"locked_tensors,omitempty"`
	LockedChunks  int `json:"locked_chunks,omitempty"`
}

// tell ends the run on stderr: stdout carries the model.
func (r *recipeRun) tell(out recipeResult) error {
	if r.JSON {
		return json.NewEncoder(r.stderr).Encode(out)
	}
	r.say("%d bytes, SHA-256 %s", out.Bytes, out.SHA256)
	if r.lock != nil {
		r.note("equal to the lock: %s, %s", count(out.LockedTensors, "tensor"), count(out.LockedChunks, "chunk"))
	}
	return nil
}

// count returns "1 chunk" or "2 chunks".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// resumeHint is the command that goes on where stdout ended.
func (r *recipeRun) resumeHint() string {
	done := r.stdout.bytes()
	command := fmt.Sprintf("gguf-forge recipe %s --offset %d", r.Name, r.Offset+done)
	if r.Length > 0 {
		command += fmt.Sprintf(" --length %d", r.Length-done)
	}
	return fmt.Sprintf("%d bytes were handed over; continue with `%s`, or from what the receiver has if that is less", done, command)
}
