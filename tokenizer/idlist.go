package tokenizer

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gguf-forge/internal/fault"
)

// IDList is the rows that a pruned head keeps, and where they come from. docs/formats.md describes its text form.
type IDList struct {
	IDs       []uint32     // ascending, each once
	Rule      string       // how they were chosen, on one line; "" if it isn't known
	Corpora   []ListCorpus // what they were chosen from
	VocabSize int          // entries of the vocabulary; 0 if it isn't known
	VocabHash string       // hex digits of the hash of its token list; "" if it isn't known
}

// ListCorpus is a text that ids were chosen from, as a list records it.
type ListCorpus struct {
	Name   string
	Weight float64 // 0 stands for 1
	Tokens uint64
	Counts string // SHA-256 of the count vector
	Text   string // SHA-256 of the text as it is stored; "" if it isn't known
}

// String returns the corpus as it stands in a header line.
func (c ListCorpus) String() string {
	s := "name=" + c.Name
	if c.Weight != 0 {
		s += " weight=" + strconv.FormatFloat(c.Weight, 'g', -1, 64)
	}
	s += fmt.Sprintf(" tokens=%d counts=%s", c.Tokens, c.Counts)
	if c.Text != "" {
		s += " text=" + c.Text
	}
	return s
}

const (
	listTitle   = "gguf-forge id list"
	listVersion = 1
	maxListLine = 1 << 20 // bytes
)

// List returns the selection as an id list.
func (s *Selected) List(rule Selection, v Vocabulary, corpora []Counted) *IDList {
	l := &IDList{IDs: s.IDs, Rule: rule.String(), VocabSize: v.Size, VocabHash: v.Hash}
	if !rule.NeedsCorpora() {
		return l
	}
	for _, c := range corpora {
		l.Corpora = append(l.Corpora, ListCorpus{Name: c.Name, Weight: c.Weight, Tokens: sumCounts(c.Counts), Counts: HashCounts(c.Counts), Text: c.Text})
	}
	return l
}

// HashCounts returns the SHA-256 of a count vector as it stands in a file: a little-endian uint64 per id.
func HashCounts(counts []uint64) string {
	h := sha256.New()
	var b [8]byte
	for _, n := range counts {
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Hash returns the hex digits of the list's hash: SHA-256 of the ids as little-endian uint32.
func (l *IDList) Hash() string {
	h := sha256.New()
	var b [4]byte
	for _, id := range l.IDs {
		binary.LittleEndian.PutUint32(b[:], id)
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Check returns an error if the list was made for another vocabulary than v. A list that doesn't name its vocabulary, as
// a plain file of numbers, only has to fit.
func (l *IDList) Check(v Vocabulary) error {
	switch n := len(l.IDs); {
	case l.VocabHash != "" && v.Hash != "" && l.VocabHash != v.Hash:
		err := fault.New(fault.BadInput, "the id list was made for another vocabulary: its token list has hash %.12s…, this one has %.12s…", l.VocabHash, v.Hash)
		return fault.WithHint(err, "make the list from this model's tokenizer with gguf-forge select")
	case l.VocabSize != 0 && l.VocabSize != v.Size:
		return fault.New(fault.BadInput, "the id list was made for a vocabulary of %d entries, this one has %d", l.VocabSize, v.Size)
	case n > 0 && int64(l.IDs[n-1]) >= int64(v.Size):
		return fault.New(fault.BadInput, "the id list has %d, the vocabulary only has ids below %d", l.IDs[n-1], v.Size)
	}
	return nil
}

// Write writes the text form: header lines that begin with #, then one id a line.
func (l *IDList) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s %d\n", listTitle, listVersion)
	if l.Rule != "" {
		fmt.Fprintf(b, "# rule: %s\n", l.Rule)
	}
	for _, c := range l.Corpora {
		fmt.Fprintf(b, "# corpus: %s\n", c)
	}
	if l.VocabHash != "" {
		fmt.Fprintf(b, "# vocabulary: entries=%d sha256=%s\n", l.VocabSize, l.VocabHash)
	}
	fmt.Fprintf(b, "# ids: count=%d sha256=%s\n", len(l.IDs), l.Hash())
	for _, id := range l.IDs {
		b.Write(strconv.AppendUint(b.AvailableBuffer(), uint64(id), 10))
		b.WriteByte('\n')
	}
	return b.Flush()
}

// ParseIDList reads the text form. Header lines it doesn't know are comments; a file of nothing but ids is a list too. Ids
// must rise from line to line. What the header says about the ids must be true.
func ParseIDList(r io.Reader) (*IDList, error) {
	l, claimed := &IDList{}, listClaim{count: -1}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxListLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		var err error
		if header, ok := strings.CutPrefix(line, "#"); ok {
			err = l.parseHeader(strings.TrimSpace(header), &claimed)
		} else {
			err = l.parseID(line)
		}
		if err != nil {
			return nil, fault.New(fault.BadInput, "id list, line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err == bufio.ErrTooLong {
		return nil, fault.New(fault.BadInput, "id list, line %d: it is longer than %d bytes", n+1, maxListLine)
	} else if err != nil {
		return nil, fmt.Errorf("id list: %w", err)
	}
	switch {
	case len(l.IDs) == 0:
		return nil, fault.New(fault.BadInput, "the id list has no ids")
	case claimed.count >= 0 && claimed.count != int64(len(l.IDs)):
		return nil, fault.New(fault.BadInput, "the id list has %d ids, its header says %d", len(l.IDs), claimed.count)
	case claimed.hash != "" && claimed.hash != l.Hash():
		return nil, fault.New(fault.BadInput, "the ids have hash %s, the list's header says %s", l.Hash(), claimed.hash)
	}
	return l, nil
}

// listClaim is what a header says about the ids.
type listClaim struct {
	count int64
	hash  string
}

// parseID reads a line with an id.
func (l *IDList) parseID(line string) error {
	id, err := strconv.ParseUint(line, 10, 31)
	if err != nil {
		return fmt.Errorf("%.40q is no token id", line)
	}
	if n := len(l.IDs); n > 0 {
		switch last := uint64(l.IDs[n-1]); {
		case id == last:
			return fmt.Errorf("id %d is there twice", id)
		case id < last:
			return fmt.Errorf("id %d stands after %d: ids must rise, each once", id, last)
		}
	}
	l.IDs = append(l.IDs, uint32(id))
	return nil
}

// parseHeader reads a header line without its mark.
func (l *IDList) parseHeader(line string, claimed *listClaim) error {
	if v, ok := strings.CutPrefix(line, listTitle+" "); ok {
		if n, err := strconv.Atoi(v); err != nil || n < 1 || n > listVersion {
			return fmt.Errorf("the list is of version %.20q, only version %d is known", v, listVersion)
		}
		return nil
	}
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	f := headerFields{rest: strings.Fields(value)}
	switch key {
	case "rule":
		l.Rule = value
	case "corpus":
		c := ListCorpus{Name: f.match("name", namePattern), Weight: f.weight(), Tokens: f.number("tokens"),
			Counts: f.match("counts", hashPattern), Text: f.optional("text", hashPattern)}
		l.Corpora = append(l.Corpora, c)
	case "vocabulary":
		size := f.number("entries")
		if size == 0 || size > 1<<31 {
			f.fail("entries")
		}
		l.VocabSize, l.VocabHash = int(min(size, 1<<31-1)), f.match("sha256", hashPattern)
	case "ids":
		claimed.count = int64(min(f.number("count"), 1<<62))
		claimed.hash = f.match("sha256", hashPattern)
	default:
		return nil
	}
	if key != "rule" && len(f.rest) > 0 {
		f.fail(f.rest[0])
	}
	return f.err
}

var (
	// namePattern is what a corpus can be called: it stands in header lines and file names.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ValidCorpusName reports whether a corpus can have this name: letters, digits, and . _ + - after the first one.
func ValidCorpusName(name string) bool { return len(name) <= 100 && namePattern.MatchString(name) }

// headerFields reads the key=value words of a header line in order, with a sticky error.
type headerFields struct {
	rest []string
	err  error
}

func (f *headerFields) fail(what string) {
	if f.err == nil {
		f.err = fmt.Errorf("the header line has no valid %.60q here", what)
	}
}

// take returns the value of the next word if it is key's.
func (f *headerFields) take(key string) (string, bool) {
	if len(f.rest) == 0 {
		return "", false
	}
	v, ok := strings.CutPrefix(f.rest[0], key+"=")
	if ok {
		f.rest = f.rest[1:]
	}
	return v, ok
}

func (f *headerFields) match(key string, pattern *regexp.Regexp) string {
	v, ok := f.take(key)
	if !ok || !pattern.MatchString(v) {
		f.fail(key)
	}
	return v
}

func (f *headerFields) optional(key string, pattern *regexp.Regexp) string {
	v, ok := f.take(key)
	if ok && !pattern.MatchString(v) {
		f.fail(key)
	}
	return v
}

func (f *headerFields) number(key string) uint64 {
	v, _ := f.take(key)
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		f.fail(key)
	}
	return n
}

func (f *headerFields) weight() float64 {
	v, ok := f.take("weight")
	if !ok {
		return 0
	}
	w, err := strconv.ParseFloat(v, 64)
	if err != nil || !(w > 0) || w > 1e300 {
		f.fail("weight")
	}
	return w
}
