package corpus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// Fetched is a finished file of documents.
type Fetched struct {
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	Documents int    `json:"documents"`
	Size      int64  `json:"size"`
	New       int    `json:"new"` // documents that this run received
}

// Fetch brings the documents of a service into dir/name.jsonl, and the SHA-256 of the file and of every document as it was
// received into dir/name.sha256. What was received stands in dir/name.jsonl.part meanwhile; the next run goes on there. A
// finished file is not fetched again. pins, if there are any, are the only documents and hashes that are accepted.
func (f *Fetcher) Fetch(ctx context.Context, s Service, dir, name string, pins []Pin) (_ *Fetched, err error) {
	path := filepath.Join(dir, name+".jsonl")
	if _, err := os.Stat(path); err == nil {
		return finished(path, s, pins)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	shelf, err := openShelf(path+".part", s, pins)
	if err != nil {
		return nil, err
	}
	before := shelf.Len()
	if before > 0 {
		f.log(fmt.Sprintf("%d documents are there already", before))
	}
	if err := errors.Join(s.Fetch(ctx, f, shelf), shelf.close()); err != nil {
		return nil, err
	}
	if err := shelf.complete(pins); err != nil {
		return nil, err
	}
	if shelf.Len() == 0 {
		return nil, fault.New(fault.BadInput, "the service has no documents of this kind")
	}
	if err := os.Rename(path+".part", path); err != nil {
		return nil, err
	}
	done, err := finished(path, s, pins)
	if err == nil {
		done.New = done.Documents - before
	}
	return done, err
}

// shelf is the file that documents are added to.
type shelf struct {
	file    *os.File
	service Service
	known   map[string]bool // by id
	list    []Pin
	pins    map[string]string // id → hash; nil: everything is accepted
}

func newShelf(s Service, pins []Pin) *shelf {
	b := &shelf{service: s, known: map[string]bool{}}
	if len(pins) > 0 {
		b.pins = map[string]string{}
		for _, p := range pins {
			b.pins[p.ID] = p.SHA256
		}
	}
	return b
}

// openShelf opens a file of documents to go on with it. A last line without its end was being written when something went
// wrong, and is removed.
func openShelf(path string, s Service, pins []Pin) (_ *shelf, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	b := newShelf(s, pins)
	b.file = f
	whole, err := b.read(path, f)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(whole); err != nil {
		return nil, err
	}
	_, err = f.Seek(whole, io.SeekStart)
	return b, err
}

// read notes the document of every line that is complete and returns where the last one ends.
func (b *shelf) read(path string, r io.Reader) (whole int64, err error) {
	lines := bufio.NewReaderSize(r, streamBuffer)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return whole, nil
		} else if err != nil {
			return 0, err
		}
		whole += int64(len(line))
		var d Document
		if err := json.Unmarshal(line, &d); err != nil || d.ID == "" || !remote.IsSHA256(d.SHA256) {
			return 0, fault.New(fault.BadInput, "%s, line %d: it is no document", path, n)
		}
		if !b.service.Wants(d.ID) {
			return 0, fault.WithHint(fault.New(fault.BadInput, "%s has the document %s, which isn't asked for", path, d.ID), "another name for the corpus starts anew")
		}
		if err := b.note(d); err != nil {
			return 0, err
		}
	}
}

// note takes a document into the list if it is new and its hash is right.
func (b *shelf) note(d Document) error {
	if b.Has(d.ID) {
		return fault.New(fault.BadInput, "the document %s is there twice", d.ID)
	}
	if b.pins != nil {
		want, ok := b.pins[d.ID]
		if !ok {
			return fault.New(fault.Verification, "the document %s is not in the list of hashes", d.ID)
		}
		if want != d.SHA256 {
			return fault.WithHint(fault.New(fault.Verification, "%s (%s) has SHA-256 %s, the list says %s", d.ID, d.Title, d.SHA256, want),
				"the document was changed at its source; only a copy of the file that was fetched then is the same corpus")
		}
	}
	b.known[d.ID] = true
	b.list = append(b.list, Pin{d.SHA256, d.ID, d.Revision})
	return nil
}

// Has implements Received.
func (b *shelf) Has(id string) bool { return b.known[id] }

// Len implements Received.
func (b *shelf) Len() int { return len(b.list) }

// Revision implements Received.
func (b *shelf) Revision(prefix string) string {
	for _, p := range b.list {
		if strings.HasPrefix(p.ID, prefix) {
			return p.Revision
		}
	}
	return ""
}

// Add implements Received. What it wrote stays if the program is stopped.
func (b *shelf) Add(d Document) error {
	if strings.ContainsAny(d.ID+d.Revision, "\n\t") {
		return fault.New(fault.BadInput, "the document %q has no usable name", d.ID)
	}
	if err := b.note(d); err != nil {
		return err
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return err
	}
	_, err := b.file.Write(line.Bytes())
	return err
}

func (b *shelf) close() error {
	return errors.Join(b.file.Sync(), b.file.Close())
}

// complete wants every pinned document to have arrived.
func (b *shelf) complete(pins []Pin) error {
	for _, p := range pins {
		if !b.Has(p.ID) {
			return fault.New(fault.Verification, "the document %s of the list of hashes did not arrive", p.ID)
		}
	}
	return nil
}

// finished describes a complete file and sees to it that its list of hashes is there.
func finished(path string, s Service, pins []Pin) (*Fetched, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := newShelf(s, pins)
	raw, err := newStream(path, f, -1)
	if err != nil {
		return nil, err
	}
	if _, err := b.read(path, raw); err != nil {
		return nil, err
	}
	if err := b.complete(pins); err != nil {
		return nil, err
	}
	sum, err := raw.finish()
	if err != nil {
		return nil, err
	}
	list := strings.TrimSuffix(path, ".jsonl") + ".sha256"
	if err := writePins(list, sum, filepath.Base(path), b.list); err != nil {
		return nil, err
	}
	return &Fetched{Path: path, SHA256: sum, Documents: b.Len(), Size: raw.read}, nil
}
