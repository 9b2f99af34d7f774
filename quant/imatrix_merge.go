package quant

import (
	"maps"
	"slices"

	"gguf-forge/internal/fault"
)

// defaultChunkSize is the collector's: tokens per chunk.
const defaultChunkSize = 512

// Merge adds importance matrices up: sums and counts of the same tensor are summed in the order given, calibration
// texts are listed one after the other, and the number of chunks is the largest count divided by the chunk size. Matrices in the
// older format are scaled back by the chunk size. An entry with one count takes on the counts of a later one per expert.
//
// chunkSize 0 means that of the first matrix that tells it, else 512; the reference always takes its own (512 unless
// told otherwise). The result is in no older format, whatever the inputs were.
func Merge(chunkSize int32, list ...*Imatrix) (*Imatrix, error) {
	for _, m := range list {
		if chunkSize == 0 && m.ChunkSize > 0 {
			chunkSize = m.ChunkSize
		}
	}
	if chunkSize == 0 {
		chunkSize = defaultChunkSize
	}
	if chunkSize < 0 {
		return nil, fault.New(fault.Usage, "a chunk size of %d is not possible", chunkSize)
	}
	out := &Imatrix{ChunkSize: chunkSize}
	byName := map[string]*Entry{}
	for _, m := range list {
		out.Datasets = append(out.Datasets, m.Datasets...)
		for i := range m.Entries {
			e := m.Entries[i].unscaled(chunkSize)
			sum, ok := byName[e.Name]
			if !ok {
				byName[e.Name] = &e
				continue
			}
			if err := sum.add(e, m.Legacy); err != nil {
				return nil, err
			}
		}
	}
	largest := int64(0)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		e := *byName[name]
		e.legacy = false
		out.Entries = append(out.Entries, e)
		largest = max(largest, e.maxCount())
	}
	out.ChunkCount = int32(largest / int64(chunkSize))
	return out, nil
}

func (e *Entry) maxCount() int64 { return slices.Max(e.Counts) }

// unscaled returns a copy with sums and counts over tokens.
func (e Entry) unscaled(chunkSize int32) Entry {
	e.Sums, e.Counts = slices.Clone(e.Sums), slices.Clone(e.Counts)
	if e.legacy {
		for i := range e.Sums {
			e.Sums[i] *= float32(chunkSize)
		}
		for i := range e.Counts {
			e.Counts[i] *= int64(chunkSize)
		}
	}
	return e
}

// add adds o to e. The one count of an entry of the older format stands for all experts of e.
func (e *Entry) add(o Entry, legacy bool) error {
	if len(o.Sums) != len(e.Sums) {
		return fault.New(fault.BadInput, "importance matrix: entry %q has %d values in one file and %d in another", e.Name, len(e.Sums), len(o.Sums))
	}
	if len(e.Counts) == 1 {
		e.Counts = repeat(e.Counts[0], len(o.Counts))
	}
	if len(o.Counts) == 1 && legacy {
		o.Counts = repeat(o.Counts[0], len(e.Counts))
	}
	if len(o.Counts) != len(e.Counts) {
		return fault.New(fault.BadInput, "importance matrix: entry %q has %d counts in one file and %d in another", e.Name, len(e.Counts), len(o.Counts))
	}
	for i, x := range o.Sums {
		e.Sums[i] += x
	}
	for i, n := range o.Counts {
		e.Counts[i] += n
	}
	return nil
}

func repeat(n int64, times int) []int64 { return slices.Repeat([]int64{n}, times) }
