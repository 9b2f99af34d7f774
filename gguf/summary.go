package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Summary says what a model is and where its bytes are. All sizes are bytes of tensor data without padding.
type Summary struct {
	What          string          `json:"what"` // "model", "importance matrix", …
	Architecture  string          `json:"architecture,omitempty"`
	Title         string          `json:"title,omitempty"` // general.name
	Files         []FileSummary   `json:"files"`
	Parameters    int64           `json:"parameters"`
	Bytes         int64           `json:"bytes"`
	BitsPerWeight float64         `json:"bits_per_weight"` // of the tensors of known type
	ReadPerToken  int64           `json:"read_per_token"`  // see Summarize; 0 if the file generates no tokens
	TiedHead      bool            `json:"tied_head"`
	Parts         []PartSummary   `json:"parts"`
	Types         []TypeSummary   `json:"types"`
	Warnings      []string        `json:"warnings,omitempty"`
	Metadata      []PairSummary   `json:"metadata"`
	Tensors       []TensorSummary `json:"tensors"`
}

// FileSummary describes one file of a model.
type FileSummary struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Version   uint32 `json:"version"`
	Alignment int64  `json:"alignment"`
	DataStart int64  `json:"data_start"`
	Tensors   int    `json:"tensors"`
	Missing   int64  `json:"missing"` // bytes of tensor data that are not there
}

// PartSummary counts one part of the model.
type PartSummary struct {
	Part       Part  `json:"part"`
	Tensors    int   `json:"tensors"`
	Parameters int64 `json:"parameters"`
	Bytes      int64 `json:"bytes"`
	Read       int64 `json:"read_per_token"`
}

// TypeSummary counts the tensors of one type.
type TypeSummary struct {
	Type       string `json:"type"`
	Tensors    int    `json:"tensors"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
	Known      bool   `json:"known"` // false: the size is unknown and counted as 0
}

// TensorSummary is a row of the tensor table.
type TensorSummary struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"` // ne0 first
	Part   Part    `json:"part"`
	Bytes  *int64  `json:"bytes"`  // null for an unknown type
	File   int     `json:"file"`   // index into Files
	Offset int64   `json:"offset"` // in that file
}

// Summarize analyses a model from its headers alone.
//
// ReadPerToken is the number of weight bytes that generating one token reads: every block weight once, of the
// routed experts the share expert_used_count / expert_count, the whole output head, one row of the embedding, and
// no MTP block. With a tied embedding the head reads the whole embedding table. States and KV caches are not counted.
func Summarize(m *Model) *Summary {
	s := &Summary{
		What:         describe(m),
		Architecture: m.Metadata.Architecture(),
		Title:        m.Metadata.Text("general.name"),
		Metadata:     summarizeMetadata(m.Metadata),
	}
	for _, f := range m.Shards {
		s.Files = append(s.Files, FileSummary{f.Name, f.Header.Size, f.Header.Version, f.Header.Alignment, f.Header.DataStart, len(f.Header.Tensors), f.Header.Missing})
	}
	s.count(m)
	s.warn(m)
	return s
}

// describe says what kind of file it is.
func describe(m *Model) string {
	kind := m.Metadata.Text("general.type")
	arch := m.Metadata.Architecture()
	switch {
	case kind == "imatrix":
		return "importance matrix"
	case kind == "adapter":
		return "adapter"
	case kind == "mmproj" || arch == "clip":
		return "multimodal projector"
	case kind == "vocab" || len(m.Tensors) == 0 && m.has("tokenizer.ggml.tokens"):
		return "vocabulary"
	case arch == "":
		return "GGUF without an architecture"
	case !m.generates():
		return "part of a model"
	}
	return "model"
}

func (m *Model) has(key string) bool {
	_, ok := m.Metadata.Get(key)
	return ok
}

// generates reports whether the file has what it takes to put out tokens.
func (m *Model) generates() bool {
	if kind := m.Metadata.Text("general.type"); kind != "" && kind != "model" {
		return false
	}
	_, embedding := m.Find("token_embd.weight")
	_, trunk := m.Find("blk.0.attn_norm.weight")
	if !trunk {
		trunk = slices.ContainsFunc(m.Tensors, func(t ModelTensor) bool { return strings.HasPrefix(t.Name, "blk.0.") })
	}
	return m.Metadata.Architecture() != "" && embedding && trunk
}

// count fills in everything that is summed over tensors.
func (s *Summary) count(m *Model) {
	names := make([]string, len(m.Tensors))
	for i, t := range m.Tensors {
		names[i] = t.Name
	}
	rule := newPartitioner(names)
	generates := m.generates()
	_, head := m.Find("output.weight")
	s.TiedHead = generates && !head
	experts := newExpertShare(m.Metadata)

	parts := map[Part]*PartSummary{}
	for _, p := range allParts {
		parts[p] = &PartSummary{Part: p}
	}
	types := map[Type]*TypeSummary{}
	var knownParameters int64
	for _, t := range m.Tensors {
		size, known := t.Size()
		part := rule.part(t.Name)
		n := t.Elements()

		p := parts[part]
		p.Tensors++
		p.Parameters += n
		p.Bytes += size
		if generates {
			p.Read += readPerToken(t.TensorInfo, part, size, experts)
			if s.TiedHead && t.Name == "token_embd.weight" {
				parts[PartHead].Read += size
			}
		}

		if types[t.Type] == nil {
			types[t.Type] = &TypeSummary{Type: t.Type.String(), Known: t.Type.Known()}
		}
		types[t.Type].Tensors++
		types[t.Type].Parameters += n
		types[t.Type].Bytes += size

		s.Parameters += n
		s.Bytes += size
		row := TensorSummary{Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Part: part, File: t.Shard, Offset: t.At}
		if known {
			row.Bytes = &size
			knownParameters += n
		}
		s.Tensors = append(s.Tensors, row)
	}
	if knownParameters > 0 {
		s.BitsPerWeight = 8 * float64(s.Bytes) / float64(knownParameters)
	}
	for _, part := range allParts {
		if p := parts[part]; p.Tensors > 0 || p.Read > 0 {
			s.Parts = append(s.Parts, *p)
			s.ReadPerToken += p.Read
		}
	}
	for _, t := range types {
		s.Types = append(s.Types, *t)
	}
	slices.SortFunc(s.Types, func(a, b TypeSummary) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
}

// readPerToken returns the bytes of one tensor that generating a token reads.
func readPerToken(t TensorInfo, part Part, size int64, experts expertShare) int64 {
	switch part {
	case PartMTP:
		return 0
	case PartEmbedding:
		row, _ := t.RowSize()
		return min(row, size)
	case PartExperts:
		return experts.of(size)
	}
	return size
}

// expertShare is the part of the routed experts that a token uses. All experts have the same size.
type expertShare struct{ used, count int64 }

// newExpertShare reads the counts; without usable ones a token uses all experts.
func newExpertShare(meta *Metadata) expertShare {
	used, count := meta.ArchUint("expert_used_count", 0), meta.ArchUint("expert_count", 0)
	if used == 0 || used > count || count > math.MaxInt32 {
		return expertShare{1, 1}
	}
	return expertShare{int64(used), int64(count)}
}

func (e expertShare) of(size int64) int64 { return size / e.count * e.used }

// warn collects what a user should know before relying on the file.
func (s *Summary) warn(m *Model) {
	for _, f := range m.Shards {
		h := f.Header
		if err := h.CheckData(); err != nil {
			s.Warnings = append(s.Warnings, f.Name+": "+err.Error())
		}
		if extra := h.Size - h.PaddedSize(); extra > 0 && len(h.Tensors) > 0 && h.allKnown() {
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s: %d bytes follow the last tensor", f.Name, extra))
		}
	}
	for _, t := range s.Types {
		if !t.Known {
			s.Warnings = append(s.Warnings, fmt.Sprintf("%d tensors are of unknown %s: their size is not counted", t.Tensors, t.Type))
		}
	}
	if m.Metadata.ArchUint("nextn_predict_layers", 0) > 0 && !slices.ContainsFunc(s.Parts, func(p PartSummary) bool { return p.Part == PartMTP }) {
		s.Warnings = append(s.Warnings, "the metadata counts MTP blocks (nextn_predict_layers), but the file has none")
	}
}

func (h *Header) allKnown() bool {
	return !slices.ContainsFunc(h.Tensors, func(t TensorInfo) bool { return !t.Type.Known() })
}
