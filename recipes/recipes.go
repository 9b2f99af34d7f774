// Package recipes holds the recipes in this program, their locks and the schema of the format. It is data only:
// package pipeline gives it meaning.
package recipes

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gguf-forge/internal/fault"
)

//go:embed *.yaml *.lock recipe.schema.json
var files embed.FS

// Recipe is the text of a recipe and where it was found.
type Recipe struct {
	Name string // file name without .yaml
	Dir  string // folder of the file; "" for a recipe in this program
	YAML []byte
}

// Names returns the recipes in this program in alphabetical order.
func Names() []string {
	entries, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, e := range entries {
		entries[i] = strings.TrimSuffix(e, ".yaml")
	}
	return entries
}

// Schema returns the JSON schema of the format.
func Schema() []byte {
	b, err := files.ReadFile("recipe.schema.json")
	if err != nil {
		panic(err) // embedded
	}
	return b
}

// Load returns the recipe of that name in this program or, where name looks like a path or ends in .yaml, the file.
func Load(name string) (Recipe, error) {
	if isPath(name) {
		return loadFile(name)
	}
	b, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return Recipe{}, fault.WithHint(fault.New(fault.BadInput, "there is no recipe %q in this program", name),
			"gguf-forge recipes lists them; give a path such as ./%s.yaml for a recipe of your own", name)
	}
	return Recipe{Name: name, YAML: b}, nil
}

func isPath(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml" || strings.ContainsAny(name, `/\`)
}

// maxRecipe is the size of a file that can't be a recipe any more.
const maxRecipe = 1 << 20

func loadFile(path string) (Recipe, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Recipe{}, fault.WithHint(fault.New(fault.BadInput, "recipe: %w", err), "gguf-forge recipes lists the recipes in this program")
	case info.IsDir():
		return Recipe{}, fault.New(fault.BadInput, "recipe %s is a folder", path)
	case info.Size() > maxRecipe:
		return Recipe{}, fault.New(fault.BadInput, "recipe %s has %d bytes, it can't be a recipe", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Recipe{}, fault.New(fault.BadInput, "recipe: %w", err)
	}
	name := filepath.Base(path)
	return Recipe{Name: strings.TrimSuffix(name, filepath.Ext(name)), Dir: filepath.Dir(path), YAML: b}, nil
}

// lockName is the file name of the recipe's lock.
func (r Recipe) lockName() string { return r.Name + ".lock" }

// Lock returns the recipe's lock and its name: the file beside the recipe, else in the working directory, else the one
// in this program.
func (r Recipe) Lock() (name string, data []byte, err error) {
	places := []string{filepath.Join(r.Dir, r.lockName()), r.lockName()}
	for _, path := range slices.Compact(places) {
		b, err := os.ReadFile(path)
		if err == nil {
			return path, b, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fault.New(fault.BadInput, "lock: %w", err)
		}
	}
	b, err := files.ReadFile(r.lockName())
	if err != nil {
		return "", nil, fault.WithHint(fault.New(fault.BadInput, "recipe %s has no lock", r.Name), "make one with `gguf-forge lock %s`", r.command())
	}
	return fmt.Sprintf("%s (in this program)", r.lockName()), b, nil
}

// HasLock reports whether this program holds a lock for the recipe.
func (r Recipe) HasLock() bool {
	_, err := fs.Stat(files, r.lockName())
	return err == nil
}

// command is the recipe as a user names it.
func (r Recipe) command() string {
	if r.Dir == "" {
		return r.Name
	}
	return filepath.Join(r.Dir, r.Name+".yaml")
}
