package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gguf-forge/pipeline"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

type imatrixCmd struct {
	Show  imatrixShowCmd  `cmd:"" help:"Say what an importance matrix holds."`
	Merge imatrixMergeCmd `cmd:"" help:"Add importance matrices up."`
}

type imatrixShowCmd struct {
	File string `arg:"" predictor:"file" help:"Path, URL or org/name[@revision]:file of a GGUF or .dat file."`
	JSON bool   `help:"Print as JSON."`
}

// imatrixReport is what imatrix show prints.
type imatrixReport struct {
	File       string         `json:"file"`
	Format     string         `json:"format"`
	Datasets   []string       `json:"datasets"`
	ChunkCount int32          `json:"chunk_count"`
	ChunkSize  int32          `json:"chunk_size,omitempty"`
	Entries    []imatrixEntry `json:"entries"`
}

type imatrixEntry struct {
	Name      string `json:"name"`
	Columns   int    `json:"columns"`
	Matrices  int    `json:"matrices"`
	Least     int64  `json:"least_count"`
	Most      int64  `json:"most_count"`
	Uncovered []int  `json:"uncovered,omitempty"` // matrices without data
}

func (c *imatrixShowCmd) Run(ctx context.Context, a *app) error {
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	m, err := openImatrix(ctx, env.Client, c.File)
	if err != nil {
		return err
	}
	r := newImatrixReport(m)
	if c.JSON {
		return a.printJSON(r)
	}
	return r.text(a.stdout)
}

// openImatrix reads the matrix behind a reference.
func openImatrix(ctx context.Context, client *remote.Client, name string) (*quant.Imatrix, error) {
	ref, err := remote.ParseReference(name)
	if err != nil {
		return nil, err
	}
	src, err := client.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	m, err := quant.ReadImatrix(remote.ReaderAt(ctx, src), src.Size())
	if err := errors.Join(err, remote.CloseSource(src)); err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	m.File = name
	return m, nil
}

func newImatrixReport(m *quant.Imatrix) imatrixReport {
	r := imatrixReport{File: m.File, Format: "gguf", Datasets: m.Datasets, ChunkCount: m.ChunkCount, ChunkSize: m.ChunkSize}
	if m.Legacy {
		r.Format = "dat"
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		n := imatrixEntry{Name: e.Name, Columns: len(e.Sums) / len(e.Counts), Matrices: len(e.Counts), Least: e.Counts[0], Uncovered: e.Uncovered()}
		for _, count := range e.Counts {
			n.Least, n.Most = min(n.Least, count), max(n.Most, count)
		}
		r.Entries = append(r.Entries, n)
	}
	return r
}

func (r imatrixReport) text(w io.Writer) error {
	b := new(strings.Builder)
	fmt.Fprintf(b, "%s: %d entries, %d chunks", r.File, len(r.Entries), r.ChunkCount)
	if r.ChunkSize > 0 {
		fmt.Fprintf(b, " of %d tokens", r.ChunkSize)
	}
	fmt.Fprintf(b, ", format %s\n", r.Format)
	for _, d := range r.Datasets {
		fmt.Fprintf(b, "dataset %q\n", d)
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tensor\tcolumns\tmatrices\tcounts\twithout data")
	for _, e := range r.Entries {
		counts := fmt.Sprint(e.Least)
		if e.Most != e.Least {
			counts = fmt.Sprintf("%d to %d", e.Least, e.Most)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\n", e.Name, e.Columns, e.Matrices, counts, len(e.Uncovered))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

type imatrixMergeCmd struct {
	Output    string   `short:"o" required:"" placeholder:"FILE" predictor:"file" help:"Where to write the sum; .dat is the older format."`
	ChunkSize int32    `placeholder:"N" help:"Tokens per chunk; by default those of the first file that says, else 512."`
	Files     []string `arg:"" predictor:"file" help:"Two or more matrices, in either format."`
}

func (c *imatrixMergeCmd) Run(ctx context.Context, a *app) error {
	env, err := a.newEnvironment(0)
	if err != nil {
		return err
	}
	defer env.Close()
	var list []*quant.Imatrix
	for _, f := range c.Files {
		m, err := openImatrix(ctx, env.Client, f)
		if err != nil {
			return err
		}
		list = append(list, m)
	}
	sum, err := quant.Merge(c.ChunkSize, list...)
	if err != nil {
		return err
	}
	write := sum.WriteGGUF
	if strings.HasSuffix(c.Output, ".dat") {
		write = sum.WriteDat
	}
	if err := pipeline.WriteFile(c.Output, write); err != nil {
		return err
	}
	a.say("%s: %d entries, %d chunks of %d tokens", c.Output, len(sum.Entries), sum.ChunkCount, sum.ChunkSize)
	return nil
}
