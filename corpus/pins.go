package corpus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// Pin is a document as it was received once.
type Pin struct {
	SHA256   string
	ID       string
	Revision string // "" if the service has none
}

// pinsTitle begins a list of hashes.
const pinsTitle = "# gguf-forge corpus 1"

// writePins writes the list of hashes of a fetched file: a line with the hash of the whole file, then hash, id and revision of every document, divided by tabs.
func writePins(path, sum, file string, list []Pin) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n# file %s  %s\n", pinsTitle, sum, file)
	for _, p := range list {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", p.SHA256, p.ID, p.Revision)
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b.Bytes()) {
		return nil
	}
	if err := os.WriteFile(path+".part", b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// ReadPins reads a list of hashes.
func ReadPins(r io.Reader) ([]Pin, error) {
	var list []Pin
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 && line != pinsTitle {
			return nil, fault.New(fault.BadInput, "it is no list of hashes of a fetched corpus: the first line is not %q", pinsTitle)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || !remote.IsSHA256(f[0]) || f[1] == "" || seen[f[1]] {
			return nil, fault.New(fault.BadInput, "line %d: a hash, the id of a document that wasn't there yet, and its revision are needed, with tabs between them", n)
		}
		seen[f[1]] = true
		list = append(list, Pin{f[0], f[1], f[2]})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fault.New(fault.BadInput, "a line is too long")
	} else if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fault.New(fault.BadInput, "it names no documents")
	}
	return list, nil
}
