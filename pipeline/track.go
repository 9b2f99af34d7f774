package pipeline

import (
	"gguf-forge/remote"
)

// track follows the bytes of one source whose digest is known while a whole artifact is streamed.
type track struct {
	source  remote.Source
	tracker *remote.Tracker // nil: it does not pass through in order
	next    int64           // first byte that no read covers yet
}

type tracks map[remote.Source]*track

// maxGap is how many bytes between two tensors are read just for the hash.
const maxGap = 1 << 20

// newTracks returns a track for every source that passes through completely and in order when all of a is streamed:
// only then can its hash be checked without reading it twice.
func newTracks(a *Artifact, opt StreamOptions) tracks {
	if opt.Offset != 0 || opt.Length != a.Size() {
		return nil
	}
	all := tracks{}
	next := map[remote.Source]int64{}
	broken := map[remote.Source]bool{}
	for _, t := range a.tensors {
		for _, r := range t.Needs(0, t.Info().Rows()) {
			if _, known := all[r.Source]; !known {
				all[r.Source] = nil
				if tracker := remote.NewTracker(r.Source); tracker.Checkable() {
					all[r.Source] = &track{source: r.Source, tracker: tracker}
				}
			}
			at, seen := next[r.Source]
			if r.Off < at || seen && r.Off-at > maxGap {
				broken[r.Source] = true
			}
			next[r.Source] = r.Off + r.Len
		}
	}
	for src, t := range all {
		switch {
		case t == nil:
			delete(all, src)
		case broken[src] || src.Size()-next[src] > maxGap:
			t.tracker = nil
		}
	}
	return all
}

// withGaps returns ranges, preceded by the bytes between the last read of each tracked source and them.
func (ts tracks) withGaps(ranges []Range) []Range {
	var gaps []Range
	for _, r := range ranges {
		t := ts[r.Source]
		if t == nil || t.tracker == nil {
			continue
		}
		if r.Off > t.next {
			gaps = append(gaps, Range{r.Source, t.next, r.Off - t.next})
		}
		t.next = r.Off + r.Len
	}
	return append(gaps, ranges...)
}

// tails returns what of the tracked sources lies behind the last read.
func (ts tracks) tails() []Range {
	var rest []Range
	for _, t := range ts {
		if t.tracker != nil && t.next < t.source.Size() {
			rest = append(rest, Range{t.source, t.next, t.source.Size() - t.next})
			t.next = t.source.Size()
		}
	}
	return rest
}

// observe hashes the bytes of a read. Reads of one source arrive in the order in which they were planned.
func (ts tracks) observe(r Range, p []byte) {
	if t := ts[r.Source]; t != nil && t.tracker != nil {
		t.tracker.Observe(r.Off, p)
	}
}

// checks compares the hashes. An error names the source that is not what the hub says it is.
func (ts tracks) checks() ([]SourceCheck, error) {
	var list []SourceCheck
	for _, t := range ts {
		check := SourceCheck{Source: t.source.Identity().String()}
		if t.tracker != nil {
			checked, err := t.tracker.Done()
			if err != nil {
				return list, err
			}
			check.Checked = checked
		}
		list = append(list, check)
	}
	return list, nil
}
