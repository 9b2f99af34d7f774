package gguf

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// lineWidth is the number of characters of a metadata value that Text prints.
const lineWidth = 100

// Text prints the summary for people: what the file is, bytes per part and type, metadata, tensors.
// Control characters from the file are never printed as they are.
func (s *Summary) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	s.textHead(b)
	table(b, func(t io.Writer) {
		fmt.Fprintf(t, "part\t%7s\t%14s\t%14s\t%7s\t%14s\n", "tensors", "parameters", "bytes", "share", "read per token")
		for _, p := range s.Parts {
			note := ""
			if p.Part == PartHead && s.TiedHead {
				note = "\ttied: reads the embedding"
			}
			fmt.Fprintf(t, "%s\t%7d\t%14d\t%14d\t%7s\t%14d%s\n", p.Part, p.Tensors, p.Parameters, p.Bytes, s.share(p.Bytes), p.Read, note)
		}
	})
	table(b, func(t io.Writer) {
		fmt.Fprintf(t, "type\t%7s\t%14s\t%14s\t%7s\n", "tensors", "parameters", "bytes", "share")
		for _, y := range s.Types {
			fmt.Fprintf(t, "%s\t%7d\t%14d\t%14s\t%7s\n", y.Type, y.Tensors, y.Parameters, bytesOrUnknown(y.Bytes, y.Known), s.share(y.Bytes))
		}
	})
	for _, p := range s.Metadata {
		fmt.Fprintf(b, "%s = %s\n", printable(p.Key), shorten(p.text))
	}
	fmt.Fprintln(b)
	table(b, func(t io.Writer) {
		fmt.Fprintf(t, "tensor\ttype\tshape\t%14s\tpart\n", "bytes")
		for _, r := range s.Tensors {
			size, known := int64(0), r.Bytes != nil
			if known {
				size = *r.Bytes
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%14s\t%s\n", printable(r.Name), r.Type, shape(r.Shape), bytesOrUnknown(size, known), r.Part)
		}
	})
	return b.Flush()
}

func (s *Summary) textHead(w io.Writer) {
	what := s.What
	if s.Architecture != "" {
		what += ", architecture " + printable(s.Architecture)
	}
	if s.Title != "" {
		what += ", " + shorten(strconv.Quote(s.Title))
	}
	fmt.Fprintln(w, what)
	for _, f := range s.Files {
		fmt.Fprintf(w, "%s: %d bytes, GGUF version %d, %d tensors, data from %d, alignment %d\n", printable(f.Name), f.Size, f.Version, f.Tensors, f.DataStart, f.Alignment)
	}
	fmt.Fprintf(w, "%d parameters in %d bytes, %.3f bits per weight\n", s.Parameters, s.Bytes, s.BitsPerWeight)
	if s.ReadPerToken > 0 {
		fmt.Fprintf(w, "%d bytes read per generated token\n", s.ReadPerToken)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	fmt.Fprintln(w)
}

// table aligns the columns of rows.
func table(w io.Writer, rows func(io.Writer)) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(t)
	t.Flush()
	fmt.Fprintln(w)
}

// share prints n as part of all tensor bytes.
func (s *Summary) share(n int64) string {
	if s.Bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(s.Bytes))
}

func bytesOrUnknown(n int64, known bool) string {
	if !known {
		return "unknown"
	}
	return strconv.FormatInt(n, 10)
}

func shape(dims []int64) string {
	parts := make([]string, len(dims))
	for i, n := range dims {
		parts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(parts, "×")
}

// printable returns s, quoted if a terminal could take part of it for more than text.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// shorten cuts a text longer than a line.
func shorten(s string) string {
	if utf8.RuneCountInString(s) <= lineWidth {
		return s
	}
	n := 0
	for i := range s {
		if n == lineWidth-1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
