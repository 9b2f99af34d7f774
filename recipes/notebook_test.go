package recipes_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"gguf-forge/internal/rehearsal"
	"gguf-forge/internal/testhub"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
	"gguf-forge/remote"
)

// TestNotebookRecipesFit plans the recipes for Qwen3.5-2B with a model that has exactly its tensors: every override
// matches, every type fits. Only the size of the file differs from the real one.
func TestNotebookRecipesFit(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a large header")
	}
	model, err := rehearsal.New()
	if err != nil {
		t.Fatal(err)
	}
	imatrix, err := rehearsal.Imatrix()
	if err != nil {
		t.Fatal(err)
	}
	hub, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	hub.Repo("unsloth/Qwen3.5-2B-GGUF").Add("Qwen3.5-2B-BF16.gguf", model).Add("imatrix_unsloth.gguf_file", bytes.NewReader(imatrix))
	client, err := remote.NewClient(remote.WithEndpoint(hub.Endpoint()), remote.WithCache(""), remote.WithToken(""), remote.WithOffline(false))
	if err != nil {
		t.Fatal(err)
	}
	size := regexp.MustCompile(`^source model has \d+ bytes, the recipe says 3775709216$`)
	tried := 0
	for _, name := range recipes.Names() {
		if !strings.HasPrefix(name, "qwen35-2b-") {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			data, err := recipes.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := pipeline.ParseRecipe(data.Name, data.Dir, data.YAML)
			if err != nil {
				t.Fatal(err)
			}
			p, err := r.Plan(t.Context(), pipeline.Env{Client: client})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if len(p.Problems) != 1 || !size.MatchString(p.Problems[0].Error()) {
				t.Errorf("problems: %v", p.Problems)
			}
			for _, c := range p.Choices {
				if c.Fallback() {
					t.Errorf("%s falls back from %s to %s", c.Name, c.Wanted, c.Type)
				}
			}
		})
	}
	if tried < 8 {
		t.Errorf("only %d recipes", tried)
	}
}
