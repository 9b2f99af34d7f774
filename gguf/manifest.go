package gguf

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gguf-forge/internal/fault"
)

// Manifest prints the digests as llama-gguf-hash does: one line per tensor and algorithm, then the payload, all with
// the file's name in front. The SHA-256 of the file itself is not part of that form.
func (h *Hashes) Manifest(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, f := range h.Files {
		for _, t := range f.Tensors {
			for _, d := range t.Digests {
				fmt.Fprintf(b, "%-8s  %s  %s:%s\n", d.Algorithm, d.Hex, f.Name, t.Name)
			}
		}
		for _, d := range f.Payload {
			fmt.Fprintf(b, "%-8s  %s  %s\n", d.Algorithm, d.Hex, f.Name)
		}
	}
	return b.Flush()
}

// digestSize is the number of hex digits of each algorithm's digests.
var digestSize = map[Algorithm]int{XXH64: 16, SHA1: 40, SHA256: 64}

// Manifest is a parsed list of digests in the form of llama-gguf-hash.
type Manifest struct {
	entries []entry
}

// entry is one line: label is a file name, or a file name, a colon and a tensor name.
type entry struct {
	Digest
	label string
}

// ReadManifest reads digests in the form of llama-gguf-hash. Lines of other algorithms are ignored, but a
// manifest without a known one is an error.
func ReadManifest(r io.Reader) (*Manifest, error) {
	m := &Manifest{}
	seen := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for no := 1; lines.Scan(); no++ {
		line := strings.TrimRight(lines.Text(), "\r")
		name, rest, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
		size, ok := digestSize[Algorithm(name)]
		if !ok {
			continue
		}
		digest, label, ok := strings.Cut(strings.TrimLeft(rest, " "), "  ")
		if _, err := hex.DecodeString(digest); err != nil || len(digest) != size || !ok || label == "" {
			return nil, fault.New(fault.BadInput, "line %d of the manifest is no digest and name: %q", no, shorten(line))
		}
		e := entry{Digest{Algorithm(name), strings.ToLower(digest)}, label}
		if before, ok := seen[name+label]; ok && before != e.Hex {
			return nil, fault.New(fault.BadInput, "line %d of the manifest gives another digest of %q than an earlier line", no, label)
		}
		seen[name+label] = e.Hex
		m.entries = append(m.entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if len(m.entries) == 0 {
		return nil, fault.WithHint(fault.New(fault.BadInput, "the manifest holds no digest of a known kind"),
			"its lines look like: sha256    HEX  FILE:TENSOR")
	}
	return m, nil
}

// Algorithm returns the strongest algorithm of the manifest, which is the one to compute and compare.
func (m *Manifest) Algorithm() Algorithm {
	best := m.entries[0].Algorithm
	for _, e := range m.entries {
		if digestSize[e.Algorithm] > digestSize[best] {
			best = e.Algorithm
		}
	}
	return best
}

// CheckState says how a digest compares, in llama-gguf-hash's words where it has them.
type CheckState string

// The states. Anything but Matches is a failure.
const (
	Matches  CheckState = "Ok"
	Differs  CheckState = "Mismatch"
	Unlisted CheckState = "Not Found"       // the manifest does not list it
	Absent   CheckState = "Not In The File" // the file does not have it
)

// Check is the outcome for one tensor, or for a payload where Tensor is empty.
type Check struct {
	Algorithm Algorithm  `json:"algorithm"`
	File      string     `json:"file"`
	Tensor    string     `json:"tensor,omitempty"`
	State     CheckState `json:"state"`
	Want      string     `json:"want,omitempty"` // hex digest of the manifest; empty if Unlisted
	Got       string     `json:"got,omitempty"`  // hex digest of the file; empty if Absent
}

// String prints the check as llama-gguf-hash does, which shows the file's digest.
func (c Check) String() string {
	return fmt.Sprintf("%-8s  %s  %s  -  %s", c.Algorithm, cmp.Or(c.Got, c.Want), c.label(), c.State)
}

func (c Check) label() string {
	if c.Tensor == "" {
		return c.File
	}
	return c.File + ":" + c.Tensor
}

// Check compares digests, computed with m.Algorithm(), with the manifest, by its strongest algorithm. It returns
// every outcome in file order and an error of kind fault.Verification, naming what failed, unless all match.
//
// A file is looked up under its name as given, then under the last element of its path; a manifest of only
// one file is taken whatever name it states. Unlike llama-gguf-hash, a tensor that is missing on either side is a failure.
func (m *Manifest) Check(h *Hashes) ([]Check, error) {
	algorithm := m.Algorithm()
	var all []Check
	for _, f := range h.Files {
		want := m.of(f.Name, algorithm)
		compare := func(tensor string, digests []Digest) {
			i := slices.IndexFunc(digests, func(d Digest) bool { return d.Algorithm == algorithm })
			if i < 0 {
				return
			}
			c := Check{Algorithm: algorithm, File: f.Name, Tensor: tensor, Got: digests[i].Hex, Want: want[tensor], State: Matches}
			if c.Want == "" {
				c.State = Unlisted
			} else if c.Want != c.Got {
				c.State = Differs
			}
			delete(want, tensor)
			all = append(all, c)
		}
		for _, t := range f.Tensors {
			compare(t.Name, t.Digests)
		}
		compare("", f.Payload)
		if f.Tensors == nil {
			continue // not computed: nothing can be said about them
		}
		for _, tensor := range slices.Sorted(maps.Keys(want)) {
			all = append(all, Check{Algorithm: algorithm, File: f.Name, Tensor: tensor, Want: want[tensor], State: Absent})
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Internal, "no %s was computed to compare with the manifest", algorithm)
	}
	return all, checkError(all)
}

// checkError names the first failures, tensors before payloads.
func checkError(all []Check) error {
	const shown = 3
	var bad []string
	for _, c := range all {
		if c.State != Matches && c.Tensor != "" {
			bad = append(bad, fmt.Sprintf("%s (%s)", c.Tensor, strings.ToLower(string(c.State))))
		}
	}
	if len(bad) > shown {
		bad = append(bad[:shown], fmt.Sprintf("%d more", len(bad)-shown))
	}
	for _, c := range all {
		if c.State != Matches && c.Tensor == "" && len(bad) == 0 {
			bad = append(bad, fmt.Sprintf("payload of %s (%s)", c.File, strings.ToLower(string(c.State))))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.New(fault.Verification, "the manifest does not match: %s", strings.Join(bad, ", "))
}

// of returns the digests of one file by tensor name, the payload's under the empty name.
func (m *Manifest) of(file string, algorithm Algorithm) map[string]string {
	if exact := m.under(file, algorithm); len(exact) > 0 {
		return exact
	}
	groups := m.groups(algorithm)
	var same []map[string]string
	for label, g := range groups {
		if base(label) == base(file) || len(groups) == 1 {
			same = append(same, g)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return map[string]string{}
}

// under returns the digests of the labels that begin with this file name.
func (m *Manifest) under(file string, algorithm Algorithm) map[string]string {
	found := map[string]string{}
	for _, e := range m.entries {
		if e.Algorithm != algorithm {
			continue
		}
		if e.label == file {
			found[""] = e.Hex
		} else if tensor, ok := strings.CutPrefix(e.label, file+":"); ok {
			found[tensor] = e.Hex
		}
	}
	return found
}

// groups returns the digests of each file by its name. File names may hold colons, so the lines
// are read from the end: a file's payload stands behind its tensors, whose labels begin with its label.
func (m *Manifest) groups(algorithm Algorithm) map[string]map[string]string {
	all := map[string]map[string]string{}
	file := ""
	for _, e := range slices.Backward(m.entries) {
		if e.Algorithm != algorithm {
			continue
		}
		if tensor, ok := strings.CutPrefix(e.label, file+":"); ok && file != "" {
			all[file][tensor] = e.Hex
			continue
		}
		file = e.label
		all[file] = map[string]string{"": e.Hex}
	}
	return all
}

// base returns the last element of a path of any system.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
