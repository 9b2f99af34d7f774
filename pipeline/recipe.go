package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"gguf-forge/corpus"
	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

// Recipe says how an artifact is made. It is read from YAML, strictly: unknown keys are errors.
// docs/recipes.md describes every field for users; the schema is published beside it.
type Recipe struct {
	Description string                `yaml:"description,omitempty" json:"description,omitempty" jsonschema:"description=One line for the list of recipes"`
	Sources     map[string]SourceSpec `yaml:"sources" json:"sources" jsonschema:"description=Files the artifact is made of; 'model' is the one whose tensors are taken"`
	Quantize    QuantizeSpec          `yaml:"quantize" json:"quantize"`
	Head        *HeadSpec             `yaml:"head,omitempty" json:"head,omitempty" jsonschema:"description=Keep only some rows of the output head"`
	Metadata    MetadataSpec          `yaml:"metadata,omitempty" json:"metadata,omitempty"`
	Order       Order                 `yaml:"order,omitempty" json:"order,omitempty" jsonschema:"enum=reference,enum=source,description=Tensor order: by layer and name as the reference quantizer writes it (default) or as in the source"`
	Provenance  string                `yaml:"provenance,omitempty" json:"provenance,omitempty" jsonschema:"enum=none,description=none leaves out the forge.* keys"`
	Notebook    map[string]any        `yaml:"notebook,omitempty" json:"notebook,omitempty" jsonschema:"description=Figures from the notebook: shown but never enforced"`

	Name   string `yaml:"-" json:"-"` // file name without .yaml
	SHA256 string `yaml:"-" json:"-"` // of the file's bytes
	Dir    string `yaml:"-" json:"-"` // where relative paths start; "" for an embedded recipe
}

// SourceSpec declares a source: where it is and how it is pinned.
type SourceSpec struct {
	remote.Place `yaml:",inline"`
	Size         int64 `yaml:"size,omitempty" json:"size,omitempty" jsonschema:"description=Expected bytes"`
}

// QuantizeSpec says which type every tensor gets.
type QuantizeSpec struct {
	Type              string         `yaml:"type" json:"type" jsonschema:"description=File type of the reference quantizer (Q4_K_M\\, IQ3_XS\\, COPY)"`
	Pure              bool           `yaml:"pure,omitempty" json:"pure,omitempty" jsonschema:"description=One type for all tensors instead of the file type's mixture"`
	Imatrix           string         `yaml:"imatrix,omitempty" json:"imatrix,omitempty" jsonschema:"description=Name of the source that holds the importance matrix"`
	Tensors           []OverrideSpec `yaml:"tensors,omitempty" json:"tensors,omitempty" jsonschema:"description=Types for single tensors; the first match counts"`
	Fallback          Allow          `yaml:"fallback,omitempty" json:"fallback,omitempty" jsonschema:"enum=allow,description=Let tensors whose rows do not fit the type take the reference's fallback type"`
	Requantize        Allow          `yaml:"requantize,omitempty" json:"requantize,omitempty" jsonschema:"enum=allow,description=Let tensors that are already quantized be decoded and encoded again"`
	MissingImportance Allow          `yaml:"missing_importance,omitempty" json:"missing_importance,omitempty" jsonschema:"enum=allow,description=Let tensors without an entry in the imatrix be encoded without weights"`
}

// OverrideSpec gives the tensors it matches a type of their own.
type OverrideSpec struct {
	Match  string `yaml:"match" json:"match" jsonschema:"description=Tensor name without blk.N. and .weight; * stands for any characters"`
	Layers string `yaml:"layers,omitempty" json:"layers,omitempty" jsonschema:"description=Layers as in 0-3\\, 7\\, 20-23; without it all layers and tensors outside layers"`
	Type   string `yaml:"type" json:"type" jsonschema:"description=ggml type (q6_K)"`
}

// HeadSpec prunes the output head: the ids it keeps, the texts they are chosen from and those that coverage is measured on.
type HeadSpec struct {
	corpus.Choice `yaml:",inline"`
	Trim          bool `yaml:"trim,omitempty" json:"trim,omitempty" jsonschema:"description=Cut embedding and tokenizer too\\, so that any engine loads the file; ids that merges need are added"`
	Pad           int  `yaml:"pad,omitempty" json:"pad,omitempty" jsonschema:"description=Round the number of rows up to a multiple of this with rows of zeros; a selection rounds better by taking the next ids"`
}

// MetadataSpec changes the metadata of the artifact.
type MetadataSpec struct {
	Set    map[string]any `yaml:"set,omitempty" json:"set,omitempty" jsonschema:"description=Values by key: a string\\, number or bool; {type: u64\\, value: 5} for a certain type; {file: PATH} for a file's text"`
	Remove []string       `yaml:"remove,omitempty" json:"remove,omitempty" jsonschema:"description=Keys to leave out"`
}

// Allow is a switch that is off unless the recipe says allow.
type Allow string

// Order is the order of tensors in an artifact.
type Order string

// The tensor orders.
const (
	OrderReference Order = "reference"
	OrderSource    Order = "source"
)

// ParseRecipe reads a recipe. name is its file name without .yaml, dir the folder relative paths start from.
func ParseRecipe(name, dir string, data []byte) (*Recipe, error) {
	sum := sha256.Sum256(data)
	r := &Recipe{Name: name, Dir: dir, SHA256: hex.EncodeToString(sum[:])}
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := dec.Decode(r); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fault.New(fault.BadInput, "recipe %s: %s", name, firstLine(err))
	}
	if problems := r.check(); len(problems) > 0 {
		return nil, fault.New(fault.BadInput, "recipe %s: %w", name, errors.Join(problems...))
	}
	return r, nil
}

// firstLine shortens the YAML library's message, which repeats the source below it, to position and reason.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// check returns everything about the recipe that is wrong by itself.
func (r *Recipe) check() []error {
	var bad []error
	fail := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if _, ok := r.Sources["model"]; !ok {
		fail("sources: there is no source named model")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Sources)) {
		if err := r.Sources[name].check(); err != nil {
			fail("sources.%s: %w", name, err)
		}
	}
	q := r.Quantize
	if _, err := quant.ParseFileType(q.Type); err != nil {
		fail("quantize.type: %w", err)
	}
	if _, ok := r.Sources[q.Imatrix]; q.Imatrix != "" && !ok {
		fail("quantize.imatrix: there is no source named %s", q.Imatrix)
	}
	for i, o := range q.Tensors {
		if _, err := o.pattern(); err != nil {
			fail("quantize.tensors[%d]: %w", i, err)
		}
		if _, err := gguf.ParseType(o.Type); err != nil {
			fail("quantize.tensors[%d]: %w", i, err)
		}
	}
	for key, a := range map[string]Allow{"fallback": q.Fallback, "requantize": q.Requantize, "missing_importance": q.MissingImportance} {
		if a != "" && a != "allow" {
			fail("quantize.%s is %q, it can only be allow", key, a)
		}
	}
	if r.Head != nil {
		for _, err := range r.Head.Check() {
			fail("head: %w", err)
		}
		if r.Head.Trim && r.Head.Pad != 0 {
			fail("head: pad belongs to a pruned head, not to a trimmed vocabulary")
		}
		if r.Head.Pad < 0 || r.Head.Pad > maxPad {
			fail("head.pad is %d, it can be up to %d", r.Head.Pad, maxPad)
		}
	}
	if r.Order != "" && r.Order != OrderReference && r.Order != OrderSource {
		fail("order is %q, it can be reference or source", r.Order)
	}
	if r.Provenance != "" && r.Provenance != "none" {
		fail("provenance is %q, it can only be none", r.Provenance)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Metadata.Set)) {
		if key == "" {
			fail("metadata.set: a key is empty")
		}
		if slices.Contains(r.Metadata.Remove, key) {
			fail("metadata: %s is both set and removed", key)
		}
	}
	return bad
}

func (s SourceSpec) check() error {
	if s.Size < 0 {
		return errors.New("size is negative")
	}
	return s.Place.Check()
}

var matchPattern = regexp.MustCompile(`^[A-Za-z0-9_.*]+$`)

// pattern returns the regular expression of the tensor names that o matches.
func (o OverrideSpec) pattern() (string, error) {
	if !matchPattern.MatchString(o.Match) {
		return "", fmt.Errorf("match %q: a tensor name of letters, digits, _ and . is needed, with * for any characters", o.Match)
	}
	name := strings.ReplaceAll(regexp.QuoteMeta(o.Match), `\*`, `.*`)
	if o.Layers == "" {
		return `^(blk\.[0-9]+\.)?` + name + `(\.weight)?$`, nil
	}
	layers, err := parseLayers(o.Layers)
	if err != nil {
		return "", err
	}
	numbers := make([]string, len(layers))
	for i, n := range layers {
		numbers[i] = strconv.Itoa(n)
	}
	return `^blk\.(` + strings.Join(numbers, "|") + `)\.` + name + `(\.weight)?$`, nil
}

// maxPad bounds the padding of a head: far more rows than any kernel takes at once.
const maxPad = 4096

// maxLayers bounds what a layer range can expand to.
const maxLayers = 10000

// parseLayers reads "0-3, 7, 20-23".
func parseLayers(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.ParseUint(strings.TrimSpace(from), 10, 31)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(strings.TrimSpace(to), 10, 31)
		}
		if err != nil || hi < lo || hi >= maxLayers {
			return nil, fmt.Errorf("layers %q: numbers and ranges such as 0-3, 20-23 are needed", s)
		}
		for n := lo; n <= hi; n++ {
			list = append(list, int(n))
		}
	}
	return list, nil
}
