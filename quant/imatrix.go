package quant

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"gguf-forge/internal/fault"
)

// Imatrix is an importance matrix: for every weight tensor that a calibration text went through, the mean square
// of each input column. A nil *Imatrix has no entries.
type Imatrix struct {
	File       string   // path as given, for the output's metadata
	Datasets   []string // calibration texts, as their collector named them
	ChunkCount int32    // chunks of text evaluated; 0 where unknown
	ChunkSize  int32    // tokens per chunk; 0 in the older format, which doesn't tell
	Legacy     bool     // read from the older .dat format
	Entries    []Entry  // sorted by name
}

// Entry is the record of one tensor: for each of its matrices (1, or the number of experts) the sums of squares
// per column and the number of rows that were summed.
type Entry struct {
	Name   string
	Sums   []float32 // [matrices × columns]
	Counts []int64   // [matrices]
	// legacy entries hold mean × count in Sums, and values without a count are used as they are.
	legacy bool
}

// Weights returns the importance of every column as the encoders take it, [matrices × columns]: sum / count, all 1 for a
// matrix without data.
func (e *Entry) Weights() []float32 {
	w := slices.Clone(e.Sums)
	columns := e.columns()
	for i, count := range e.Counts {
		row := w[i*columns : (i+1)*columns]
		for j := range row {
			row[j] = e.weight(row[j], count)
		}
	}
	return w
}

func (e *Entry) columns() int {
	if len(e.Counts) == 0 {
		return 0
	}
	return len(e.Sums) / len(e.Counts)
}

func (e *Entry) weight(sum float32, count int64) float32 {
	switch {
	case count > 0:
		return sum / float32(count)
	case e.legacy:
		return sum
	}
	return 1
}

// Uncovered returns the matrices without data: experts that the calibration text never reached. Files in the older
// format don't tell.
func (e *Entry) Uncovered() []int {
	var list []int
	for i, count := range e.Counts {
		if count <= 0 && !e.legacy {
			list = append(list, i)
		}
	}
	return list
}

func (m *Imatrix) has() bool { return m != nil && len(m.Entries) > 0 }

// Lookup returns the entry of a tensor.
func (m *Imatrix) Lookup(name string) (*Entry, bool) {
	if m == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(m.Entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil, false
	}
	return &m.Entries[i], true
}

// Filter returns a matrix with only the entries whose name contains one of include, or without those whose
// name contains one of exclude; giving both is an error. Entries are shared with m.
func (m *Imatrix) Filter(include, exclude []string) (*Imatrix, error) {
	if len(include) > 0 && len(exclude) > 0 {
		return nil, fault.New(fault.Usage, "weights can be included or excluded, not both")
	}
	if m == nil || len(include)+len(exclude) == 0 {
		return m, nil
	}
	parts, keep := exclude, false
	if len(include) > 0 {
		parts, keep = include, true
	}
	out := *m
	out.Entries = nil
	for _, e := range m.Entries {
		if keep == slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(e.Name, part) }) {
			out.Entries = append(out.Entries, e)
		}
	}
	return &out, nil
}

// checkFinite reports the first weight that is infinite or not a number.
func (m *Imatrix) checkFinite() error {
	if m == nil {
		return nil
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		columns := e.columns()
		for j, sum := range e.Sums {
			if w := float64(e.weight(sum, e.Counts[j/columns])); math.IsNaN(w) || math.IsInf(w, 0) {
				return fault.New(fault.BadInput, "importance matrix: value %d of %q is %v", j, e.Name, w)
			}
		}
	}
	return nil
}

// ReadImatrix reads an importance matrix of size bytes in either format: what does not start as a GGUF file is
// taken for the older one. Counts and lengths are checked against the bytes present before memory is
// allocated. File is left to the caller. All errors but those of r are of kind fault.BadInput.
func ReadImatrix(r io.ReaderAt, size int64) (*Imatrix, error) {
	var start [4]byte
	if size < int64(len(start)) {
		return nil, fault.New(fault.BadInput, "importance matrix: a file of %d bytes is too short", size)
	}
	if err := readFull(r, start[:], 0); err != nil {
		return nil, err
	}
	var m *Imatrix
	var err error
	if string(start[:]) == "GGUF" {
		m, err = readImatrixGGUF(r, size)
	} else {
		m, err = readImatrixDat(r, size)
	}
	if err != nil {
		return nil, err
	}
	if len(m.Entries) == 0 {
		return nil, fault.New(fault.BadInput, "importance matrix: there are no entries")
	}
	return m, nil
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}

// readFull reads len(p) bytes at off.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return fault.New(fault.BadInput, "importance matrix: the file ends at byte %d, before the %d that are expected", off+int64(n), off+int64(len(p)))
	}
	return err
}
