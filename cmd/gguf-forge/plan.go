package main

import (
	"context"

	"gguf-forge/internal/bytesize"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

type planCmd struct {
	Name string        `arg:"" predictor:"recipe" help:"A recipe in this program, or the path of one."`
	Mem  bytesize.Size `default:"256MiB" placeholder:"SIZE" help:"Memory for data in flight, as recipe would be given (default 256MiB)."`
	JSON bool          `help:"Print as JSON."`
}

func (c *planCmd) Run(ctx context.Context, a *app) error {
	return a.withPlan(ctx, c.Name, c.Mem, func(_ recipes.Recipe, plan *pipeline.Plan) error {
		var err error
		if c.JSON {
			err = a.printJSON(plan.Report())
		} else {
			err = plan.Report().Text(a.stdout)
		}
		if err != nil {
			return err
		}
		return plan.Err()
	})
}
