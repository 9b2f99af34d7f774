package recipes_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

// TestDocs reads every example of docs/recipes.md, and wants every field of the schema to be described.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(examples) < 4 {
		t.Errorf("only %d examples", len(examples))
	}
	for _, m := range examples {
		if _, err := pipeline.ParseRecipe("example", "", []byte(m[1])); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	type object struct {
		Properties map[string]json.RawMessage
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(recipes.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	schema.Defs["the top level"] = schema.object
	for name, def := range schema.Defs {
		if len(def.Properties) == 0 {
			t.Errorf("%s has no fields", name)
		}
		for field := range def.Properties {
			if !strings.Contains(text, "\n| `"+field+"` |") {
				t.Errorf("field %s of %s is not described", field, name)
			}
		}
	}
}
