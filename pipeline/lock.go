package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gguf-forge/internal/fault"
)

// LockVersion is the version of the lock format this package writes. Readers take every version up to it.
const LockVersion = 1

// EncoderVersion names the reference whose block encoders ours equal. It stands in every lock, since types change:
// iq1_m did in autumn 2026.
const EncoderVersion = "ggml 0.25.3"

// Lock pins what a recipe builds, down to the bytes. docs/formats.md describes the file.
type Lock struct {
	Version      int          `json:"version"`
	Recipe       string       `json:"recipe"`
	RecipeSHA256 string       `json:"recipe_sha256"`
	Encoder      string       `json:"encoder"`
	Sources      []LockSource `json:"sources"`
	Size         int64        `json:"size"`
	SHA256       string       `json:"sha256"`
	ChunkSize    int64        `json:"chunk_size"`
	Tensors      []LockTensor `json:"tensors"`
	Chunks       []string     `json:"chunks"` // SHA-256 of every ChunkSize bytes, the last chunk shorter
}

// LockSource is a source as it was read: what it is, pinned, and its hash where it is known.
type LockSource struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
}

// LockTensor is one row of the artifact's tensor table and the SHA-256 of its data without padding.
type LockTensor struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"`
	Offset int64   `json:"offset"` // from the start of the file
	Size   int64   `json:"size"`
	SHA256 string  `json:"sha256"`
}

// NewLock describes the artifact of p after all of it was streamed with m.
func NewLock(p *Plan, m *Manifest, res Result) (*Lock, error) {
	if res.Offset != 0 || res.Bytes != p.Artifact.Size() {
		return nil, fmt.Errorf("a lock needs the whole artifact, %d of %d bytes passed", res.Bytes, p.Artifact.Size())
	}
	l := &Lock{
		Version: LockVersion, Recipe: p.Recipe.Name, RecipeSHA256: p.Recipe.SHA256, Encoder: EncoderVersion,
		Size: res.Bytes, SHA256: res.SHA256, ChunkSize: ChunkSize,
	}
	for _, s := range p.Sources {
		l.Sources = append(l.Sources, LockSource{Name: s.Name, Source: s.Pinned, Size: s.Size, SHA256: s.SHA256})
	}
	for i, t := range m.tensors {
		start, _ := p.Artifact.span(i)
		l.Tensors = append(l.Tensors, LockTensor{t.Name, t.Type.String(), t.Shape, start, t.Size, t.SHA256})
	}
	for _, c := range m.chunks {
		l.Chunks = append(l.Chunks, c.SHA256)
	}
	return l, nil
}

// ParseLock reads a lock file.
func ParseLock(name string, data []byte) (*Lock, error) {
	var version struct{ Version int }
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fault.New(fault.BadInput, "lock %s: %w", name, err)
	}
	if version.Version < 1 || version.Version > LockVersion {
		return nil, fault.WithHint(fault.New(fault.BadInput, "lock %s has version %d, this program reads up to %d", name, version.Version, LockVersion),
			"use a newer gguf-forge")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	l := new(Lock)
	if err := dec.Decode(l); err != nil {
		return nil, fault.New(fault.BadInput, "lock %s: %w", name, err)
	}
	if l.ChunkSize != ChunkSize || int64(len(l.Chunks)) != (l.Size+ChunkSize-1)/ChunkSize {
		return nil, fault.New(fault.BadInput, "lock %s: %d chunks of %d bytes do not make %d bytes", name, len(l.Chunks), l.ChunkSize, l.Size)
	}
	return l, nil
}

// Encode returns the lock as indented JSON with a final newline.
func (l *Lock) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(l, "", " ")
	return append(b, '\n'), err
}

// CheckPlan compares what is known before a weight is read: recipe, sources, size and tensor table.
func (l *Lock) CheckPlan(p *Plan) error {
	if l.RecipeSHA256 != p.Recipe.SHA256 {
		return l.differs("the recipe is not the one that was locked (SHA-256 %.12s…, locked %.12s…)", p.Recipe.SHA256, l.RecipeSHA256)
	}
	if l.Encoder != EncoderVersion {
		return l.differs("it was made with the encoders of %s, this program has those of %s", l.Encoder, EncoderVersion)
	}
	locked := map[string]LockSource{}
	for _, s := range l.Sources {
		locked[s.Name] = s
	}
	for _, s := range p.Sources {
		was, ok := locked[s.Name]
		switch {
		case !ok:
			return l.differs("source %s is new", s.Name)
		case was.SHA256 != "" && was.SHA256 == s.SHA256: // the same bytes, wherever they come from
		case was.Source != s.Pinned || was.Size != s.Size || was.SHA256 != "" && s.SHA256 != "":
			return l.differs("source %s is %s with %d bytes, locked was %s with %d bytes", s.Name, s.Pinned, s.Size, was.Source, was.Size)
		}
	}
	tensors := p.Artifact.layout.Tensors
	for i, t := range tensors {
		if i >= len(l.Tensors) {
			return l.differs("tensor %q is not in the lock", t.Name)
		}
		was := l.Tensors[i]
		if start, _ := p.Artifact.span(i); was.Name != t.Name || was.Type != t.Type.String() || was.Offset != start {
			return l.differs("tensor %d is %q, %s at byte %d; locked was %q, %s at byte %d", i, t.Name, t.Type, start, was.Name, was.Type, was.Offset)
		}
	}
	if len(tensors) != len(l.Tensors) || l.Size != p.Artifact.Size() {
		return l.differs("the artifact has %d tensors and %d bytes, locked were %d and %d", len(tensors), p.Artifact.Size(), len(l.Tensors), l.Size)
	}
	return nil
}

// CheckStream compares the hashes of a stream with the lock and names the first tensor or chunk that differs.
// It returns how many tensors and chunks passed completely and were compared.
func (l *Lock) CheckStream(m *Manifest, res Result) (tensors, chunks int, err error) {
	locked := map[string]string{}
	for _, t := range l.Tensors {
		locked[t.Name] = t.SHA256
	}
	for _, t := range m.tensors {
		if locked[t.Name] != t.SHA256 {
			return 0, 0, l.differs("tensor %q has SHA-256 %s, locked was %s", t.Name, t.SHA256, locked[t.Name])
		}
	}
	for _, c := range m.chunks {
		if l.Chunks[c.Index] != c.SHA256 {
			return 0, 0, l.differs("bytes %d to %d have SHA-256 %s, locked was %s",
				c.Index*ChunkSize, min((c.Index+1)*ChunkSize, l.Size), c.SHA256, l.Chunks[c.Index])
		}
	}
	if res.Bytes == l.Size && res.SHA256 != l.SHA256 {
		return 0, 0, l.differs("the file has SHA-256 %s, locked was %s", res.SHA256, l.SHA256)
	}
	return len(m.tensors), len(m.chunks), nil
}

func (l *Lock) differs(format string, args ...any) error {
	err := fault.New(fault.Verification, "recipe %s differs from its lock: %w", l.Recipe, fmt.Errorf(format, args...))
	return fault.WithHint(err, "run `gguf-forge lock %s` if the change is wanted", l.Recipe)
}
