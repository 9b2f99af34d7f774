package recipes_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
)

var update = flag.Bool("update", false, "write recipe.schema.json")

// schema is made from the type that recipes are read into.
func schema(t *testing.T) []byte {
	t.Helper()
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}
	s := r.Reflect(&pipeline.Recipe{})
	s.Title = "gguf-forge recipe"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestSchemaIsCurrent(t *testing.T) {
	want := schema(t)
	if *update {
		if err := os.WriteFile("recipe.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(recipes.Schema())); diff != "" {
		t.Errorf("recipe.schema.json is old, run go test ./recipes -update (-want +got):\n%s", diff)
	}
}

func TestRecipesParse(t *testing.T) {
	names := recipes.Names()
	if len(names) < 3 {
		t.Fatalf("only %d recipes", len(names))
	}
	for _, name := range names {
		data, err := recipes.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pipeline.ParseRecipe(data.Name, data.Dir, data.YAML)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for source, s := range r.Sources {
			// The real hub was never reached: only what the program itself serves is verified.
			if s.Unverified == "" && s.Endpoint != "embedded" {
				t.Errorf("%s: source %s is not marked unverified", name, source)
			}
		}
	}
}

func TestLocksBelongToRecipes(t *testing.T) {
	locks, err := filepath.Glob("*.lock")
	if err != nil || len(locks) == 0 {
		t.Fatalf("no locks: %v", err)
	}
	for _, path := range locks {
		data, err := recipes.Load(strings.TrimSuffix(path, ".lock"))
		if err != nil {
			t.Error(err)
			continue
		}
		name, b, err := data.Lock()
		if err != nil {
			t.Error(err)
			continue
		}
		l, err := pipeline.ParseLock(name, b)
		if err != nil {
			t.Error(err)
			continue
		}
		r, err := pipeline.ParseRecipe(data.Name, data.Dir, data.YAML)
		if err != nil {
			t.Error(err)
			continue
		}
		if l.RecipeSHA256 != r.SHA256 {
			t.Errorf("%s is for a recipe with SHA-256 %s, it has %s: run gguf-forge lock %s", path, l.RecipeSHA256, r.SHA256, data.Name)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte("sources: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge.yaml")
	if err := os.WriteFile(huge, bytes.Repeat([]byte{'#'}, 2<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("file", func(t *testing.T) {
		got, err := recipes.Load(mine)
		want := recipes.Recipe{Name: "mine", Dir: dir, YAML: []byte("sources: {}\n")}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	for _, bad := range []string{"no-such-recipe", filepath.Join(dir, "missing.yaml"), dir + string(filepath.Separator), huge, ""} {
		if _, err := recipes.Load(bad); fault.KindOf(err) != fault.BadInput {
			t.Errorf("Load(%q): %v, want bad input", bad, err)
		}
	}
}

func TestLockPlaces(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(elsewhere)
	r, err := recipes.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Lock(); fault.KindOf(err) != fault.BadInput || fault.HintOf(err) == "" {
		t.Errorf("without a lock: %v", err)
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, b, err := r.Lock(); string(b) != text {
			t.Errorf("lock is %q, %v, want %q", b, err, text)
		}
	}
	put("mine.lock", "in the working directory")
	put(filepath.Join(dir, "mine.lock"), "beside the recipe")

	demo, err := recipes.Load("demo-q4k")
	if err != nil {
		t.Fatal(err)
	}
	inside, _, err := demo.Lock()
	if err != nil || !demo.HasLock() {
		t.Errorf("demo-q4k: %v", err)
	}
	if err := os.WriteFile("demo-q4k.lock", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if name, b, err := demo.Lock(); string(b) != "mine" || name == inside {
		t.Errorf("the lock in the working directory does not win: %s, %v", name, err)
	}
}
