package main

import (
	"fmt"
	"text/tabwriter"

	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

type recipesCmd struct {
	Name   string `arg:"" optional:"" predictor:"recipe" help:"A recipe in this program."`
	Print  bool   `help:"Print the recipe, to copy and change it."`
	Schema bool   `help:"Print the JSON schema of recipes."`
	JSON   bool   `help:"Print the list as JSON."`
}

// recipeEntry is a line of the list.
type recipeEntry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Locked      bool   `json:"locked"` // a lock is in the program
	Unverified  bool   `json:"unverified"`
}

func (c *recipesCmd) Run(a *app) error {
	switch {
	case c.Schema:
		_, err := a.stdout.Write(recipes.Schema())
		return err
	case c.Name != "" && !c.Print:
		return fault.WithHint(fault.New(fault.Usage, "recipes takes a name only to print it"), "gguf-forge recipes %s --print", c.Name)
	case c.Print && c.Name == "":
		return fault.WithHint(fault.New(fault.Usage, "--print needs the name of a recipe"), "gguf-forge recipes lists them")
	case c.Print:
		data, err := recipes.Load(c.Name)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(data.YAML)
		return err
	}
	var list []recipeEntry
	for _, name := range recipes.Names() {
		data, err := recipes.Load(name)
		if err != nil {
			return err
		}
		r, err := pipeline.ParseRecipe(data.Name, data.Dir, data.YAML)
		if err != nil {
			return err
		}
		e := recipeEntry{Name: name, Description: r.Description, Locked: data.HasLock()}
		for _, s := range r.Sources {
			e.Unverified = e.Unverified || s.Unverified != ""
		}
		list = append(list, e)
	}
	if c.JSON {
		return a.printJSON(list)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, e := range list {
		mark := ""
		if e.Unverified {
			mark = " (unverified sources)"
		}
		fmt.Fprintf(t, "%s\t%s%s\n", e.Name, e.Description, mark)
	}
	return t.Flush()
}
