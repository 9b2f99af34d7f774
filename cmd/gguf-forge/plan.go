package main

import (
	"context"

	"gguf-forge/internal/bytesize"
	"gguf-forge/recipes"
)

type planCmd struct {
	Name string        `arg:"" predictor:"recipe" help:"A recipe in this program, or the path of one."`
	Mem  bytesize.Size `default:"256MiB" placeholder:"SIZE" help:"Memory for data in flight, as recipe would be given (default 256MiB)."`
	JSON bool          `help:"Print as JSON."`
}

func (c *planCmd) Run(ctx context.Context, a *app) error {
	env, err := a.newEnvironment(int64(c.Mem))
	if err != nil {
		return err
	}
	defer env.Close()
	data, err := recipes.Load(c.Name)
	if err != nil {
		return err
	}
	plan, err := planRecipe(ctx, env, data)
	if err != nil {
		return err
	}
	defer plan.Close()
	report := plan.Report()
	if c.JSON {
		err = a.printJSON(report)
	} else {
		err = report.Text(a.stdout)
	}
	if err != nil {
		return err
	}
	return plan.Err()
}
