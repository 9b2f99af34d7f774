package corpus

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// Gutenberg fetches books of Project Gutenberg by number, from a mirror: the main site is for people only. The text of
// book N is at cache/epub/N/pgN.txt. Header and licence around the book are taken off, and lines end with a line feed.
type Gutenberg struct {
	Endpoint string // base address of a mirror; "" is GutenbergEndpoint
	Books    []int
}

// GutenbergEndpoint is the mirror that Project Gutenberg names for copying its collection.
const GutenbergEndpoint = "https://aleph.gutenberg.org"

// Wants implements Service.
func (g *Gutenberg) Wants(id string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "gutenberg:"))
	return err == nil && slices.Contains(g.Books, n) && id == g.id(n)
}

func (g *Gutenberg) id(book int) string { return "gutenberg:" + strconv.Itoa(book) }

// Fetch implements Service.
func (g *Gutenberg) Fetch(ctx context.Context, f *Fetcher, r Received) error {
	endpoint := g.Endpoint
	if endpoint == "" {
		endpoint = GutenbergEndpoint
	}
	for _, n := range g.Books {
		if n <= 0 {
			return fault.New(fault.Usage, "%d is no number of a book", n)
		}
		if r.Has(g.id(n)) {
			continue
		}
		b, _, err := f.read(ctx, fmt.Sprintf("%s/cache/epub/%d/pg%d.txt", strings.TrimRight(endpoint, "/"), n, n), nil)
		if err != nil {
			return fmt.Errorf("book %d: %w", n, err)
		}
		d, err := book(n, b)
		if err != nil {
			return err
		}
		d.ID = g.id(n)
		if err := r.Add(d); err != nil {
			return err
		}
	}
	return nil
}

// The lines around a book. Both spellings are in use.
var (
	bookStart = regexp.MustCompile(`(?m)^\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG EBOOK.*$`)
	bookEnd   = regexp.MustCompile(`(?m)^\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG EBOOK`)
	bookTitle = regexp.MustCompile(`(?m)^Title: (.+)$`)
)

// book takes the book out of a file.
func book(n int, file []byte) (Document, error) {
	d := Document{SHA256: hexSHA256(file)}
	if !utf8.Valid(file) {
		return d, fault.New(fault.BadInput, "book %d is not valid UTF-8", n)
	}
	text := bytes.ReplaceAll(bytes.TrimPrefix(file, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	start, end := bookStart.FindIndex(text), bookEnd.FindIndex(text)
	if start == nil || end == nil || end[0] < start[1] {
		return d, fault.New(fault.BadInput, "book %d has no lines that say where it starts and ends", n)
	}
	if m := bookTitle.FindSubmatch(text[:start[0]]); m != nil {
		d.Title = string(m[1])
	}
	d.Text = strings.Trim(string(text[start[1]:end[0]]), "\n")
	if d.Text == "" {
		return d, fault.New(fault.BadInput, "book %d is empty", n)
	}
	return d, nil
}
