package pipeline

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"gguf-forge/corpus"
	"gguf-forge/gguf"
	"gguf-forge/internal/bytesize"
	"gguf-forge/quant"
	"gguf-forge/tokenizer"
)

// Report is what a plan says, for people and machines.
type Report struct {
	Recipe        string         `json:"recipe"`
	Description   string         `json:"description,omitempty"`
	Sources       []SourceReport `json:"sources"`
	Fetch         int64          `json:"fetch_bytes"`
	Size          int64          `json:"output_bytes,omitempty"`
	Weights       int64          `json:"weights,omitempty"`
	BitsPerWeight float64        `json:"bits_per_weight,omitempty"`
	PeakMemory    int64          `json:"peak_memory_bytes,omitempty"`
	Groups        []GroupReport  `json:"groups,omitempty"`
	Imatrix       *Coverage      `json:"imatrix,omitempty"`
	Head          *HeadReport    `json:"head,omitempty"`
	Notebook      map[string]any `json:"notebook,omitempty"`
	Notes         []string       `json:"notes,omitempty"`
	Problems      []string       `json:"problems,omitempty"`
}

// SourceReport is one pinned source.
type SourceReport struct {
	Name       string `json:"name"`
	Source     string `json:"source"`
	Size       int64  `json:"bytes"`
	SHA256     string `json:"sha256,omitempty"`
	Fetch      int64  `json:"fetch_bytes"`
	Unverified string `json:"unverified,omitempty"`
}

// GroupReport sums the tensors that differ only in their layer number.
type GroupReport struct {
	Name   string `json:"name"` // with * for the layer
	Count  int    `json:"count"`
	From   string `json:"from"`
	Type   string `json:"type"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason,omitempty"`
}

// Coverage says which of the tensors that are encoded with importance have an entry in the matrix.
type Coverage struct {
	Entries   int      `json:"entries"`           // in the file
	Covered   int      `json:"covered"`           // tensors encoded with importance
	Missing   []string `json:"missing,omitempty"` // encoded without
	NoExperts []string `json:"experts_without_data,omitempty"`
}

// HeadReport is a pruned head: its rows and what they can say of held-out text.
type HeadReport struct {
	Rows       int          `json:"rows"`
	Vocabulary int          `json:"vocabulary"`
	SHA256     string       `json:"ids_sha256"`
	Rule       string       `json:"rule,omitempty"`
	Texts      []HeadedText `json:"heldout,omitempty"`
}

// HeadedText is the coverage of one held-out text, and the most frequent tokens that the head can't say.
type HeadedText struct {
	corpus.HeldOut
	Missing []MissingToken `json:"missing,omitempty"`
}

// MissingToken is a token that the head can't say, as text.
type MissingToken struct {
	ID    uint32 `json:"id"`
	Count uint64 `json:"count"`
	Text  string `json:"text"`
}

// Report summarizes the plan.
func (p *Plan) Report() Report {
	r := Report{Recipe: p.Recipe.Name, Description: p.Recipe.Description, Notebook: p.Recipe.Notebook, Notes: p.Notes}
	for _, s := range p.Sources {
		r.Sources = append(r.Sources, SourceReport{s.Name, s.Pinned, s.Size, s.SHA256, s.Fetch, s.Unverified})
		r.Fetch += s.Fetch
	}
	for _, err := range p.Problems {
		r.Problems = append(r.Problems, err.Error())
	}
	if p.Choices != nil {
		r.Groups = groups(p)
		r.Imatrix = p.coverage()
	}
	r.Head = p.headReport
	if p.Artifact == nil {
		return r
	}
	r.Size = p.Artifact.Size()
	for _, t := range p.Artifact.layout.Tensors {
		r.Weights += t.Elements()
	}
	if r.Weights > 0 {
		r.BitsPerWeight = float64(r.Size-p.Artifact.layout.DataStart) * 8 / float64(r.Weights)
	}
	r.PeakMemory = p.peakMemory()
	return r
}

var layerNumber = regexp.MustCompile(`^blk\.[0-9]+\.`)

func groups(p *Plan) []GroupReport {
	var list []GroupReport
	index := map[GroupReport]int{}
	for _, c := range p.Choices {
		out := gguf.TensorInfo{Type: c.Type, Shape: c.Source.Shape}
		size, _ := out.Size()
		g := GroupReport{Name: layerNumber.ReplaceAllString(c.Source.Name, "blk.*."), From: c.Source.Type.String(), Type: c.Type.String(), Reason: c.Reason}
		i, ok := index[g]
		if !ok {
			i = len(list)
			index[g] = i
			list = append(list, g)
		}
		list[i].Count++
		list[i].Bytes += size
	}
	return list
}

func newHeadReport(c *corpus.Chosen, t *tokenizer.Tokenizer) *HeadReport {
	h := &HeadReport{Rows: len(c.List.IDs), Vocabulary: t.Size(), SHA256: c.List.Hash(), Rule: c.List.Rule}
	for _, held := range c.HeldOut {
		text := HeadedText{HeldOut: held}
		for _, m := range held.Missing {
			text.Missing = append(text.Missing, MissingToken{m.ID, m.Count, string(t.Piece(int32(m.ID)))})
		}
		h.Texts = append(h.Texts, text)
	}
	return h
}

func (p *Plan) coverage() *Coverage {
	if p.imatrix == nil {
		return nil
	}
	c := &Coverage{Entries: len(p.imatrix.Entries)}
	for _, ch := range p.Choices {
		switch {
		case ch.Importance != nil:
			c.Covered++
		case !ch.Copied() && quant.UsesImportance(ch.Type):
			c.Missing = append(c.Missing, ch.Name)
		}
	}
	for _, e := range p.imatrix.Entries {
		if n := len(e.Uncovered()); n > 0 {
			c.NoExperts = append(c.NoExperts, fmt.Sprintf("%s: %d of %d", e.Name, n, len(e.Counts)))
		}
	}
	return c
}

// The parts of a stream's memory that the budget does not cover.
const (
	baseMemory   = 24 << 20 // program, runtime, connections
	workerMemory = 3 << 20  // a slab's source rows, float32 values and encoder scratch
)

// peakMemory estimates the resident memory of a stream: budget, headers, importance matrix, workers.
func (p *Plan) peakMemory() int64 {
	n := int64(baseMemory) + min(p.memory, 2*p.Artifact.Size()) + 2*int64(len(p.Artifact.layout.Header))
	for _, c := range p.Choices {
		if c.Importance != nil {
			n += int64(len(c.Importance.Sums)) * 2 * 4 // sums and weights
		}
	}
	return n + 2*workerMemory
}

// Text prints the report for people.
func (r Report) Text(w io.Writer) error {
	b := new(strings.Builder)
	fmt.Fprintf(b, "recipe %s", r.Recipe)
	if r.Description != "" {
		fmt.Fprintf(b, ": %s", r.Description)
	}
	b.WriteString("\n\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "source\tbytes\tto fetch\tpinned")
	for _, s := range r.Sources {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, bytesize.Size(s.Size), bytesize.Size(s.Fetch), s.Source)
	}
	if len(r.Groups) > 0 {
		fmt.Fprintln(t, "\ntensors\tcount\tfrom\tto\tbytes\twhy")
		for _, g := range r.Groups {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", g.Name, g.Count, g.From, g.Type, bytesize.Size(g.Bytes), g.Reason)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	if c := r.Imatrix; c != nil {
		fmt.Fprintf(b, "imatrix: %d entries, %d tensors covered, %d encoded without\n", c.Entries, c.Covered, len(c.Missing))
		for _, name := range c.Missing {
			fmt.Fprintf(b, "  no importance: %s\n", name)
		}
		for _, e := range c.NoExperts {
			fmt.Fprintf(b, "  experts without data: %s\n", e)
		}
	}
	if h := r.Head; h != nil {
		fmt.Fprintf(b, "head: %d of %d rows (%s), ids %.12s…\n", h.Rows, h.Vocabulary, h.Rule, h.SHA256)
		for _, t := range h.Texts {
			fmt.Fprintf(b, "  coverage of %s: %.2f %% of %d tokens; missing most often:", t.Name, 100*t.Coverage.Share(), t.Coverage.Tokens)
			for _, m := range t.Missing {
				fmt.Fprintf(b, " %q %d", m.Text, m.Count)
			}
			b.WriteString("\n")
		}
	}
	if r.Size > 0 {
		fmt.Fprintf(b, "output: %d bytes (%s), %.3f bits per weight\n", r.Size, bytesize.Size(r.Size), r.BitsPerWeight)
		fmt.Fprintf(b, "to fetch: %d bytes (%s)\n", r.Fetch, bytesize.Size(r.Fetch))
		fmt.Fprintf(b, "peak memory: about %s\n", bytesize.Size(r.PeakMemory))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
	for _, e := range r.Problems {
		fmt.Fprintf(b, "problem: %s\n", e)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
