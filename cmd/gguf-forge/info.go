package main

import (
	"context"

	"gguf-forge/gguf"
)

type infoCmd struct {
	Model string `arg:"" predictor:"file" help:"Path, URL, org/name[@revision]:file or recipe:NAME."`
	JSON  bool   `help:"Print as JSON."`
}

func (c *infoCmd) Run(ctx context.Context, a *app) error {
	m, err := a.openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	s := gguf.Summarize(m.Model)
	if c.JSON {
		return a.printJSON(s)
	}
	return s.Text(a.stdout)
}
