package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// maxRecord bounds a line of a JSON lines file, which must be in memory as a whole.
const maxRecord = 64 << 20

// record is one line or row of a file with many texts.
type record struct {
	number int64 // from 1
	data   []byte
	json   bool // data is a line; else it is the text itself
}

func (r record) unit() string {
	if r.json {
		return "line"
	}
	return "row"
}

// text returns the record's text.
func (r record) text(in *Input) ([]byte, error) {
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, fault.New(fault.BadInput, "%s, %s %d: %w", in.Name, r.unit(), r.number, fmt.Errorf(format, args...))
	}
	if (r.json || !in.Any) && !utf8.Valid(r.data) {
		return bad("it is not valid UTF-8")
	}
	if !r.json {
		return r.data, nil
	}
	if !json.Valid(r.data) {
		return bad("it is no JSON")
	}
	value, ok := fieldOf(r.data, in.field())
	if !ok {
		return bad("there is no object with a field %q", in.field())
	}
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return bad("the field %q is no string", in.field())
	}
	return []byte(*text), nil
}

// fieldOf returns the value of a field of an object, the last one if there are several. data is valid JSON. Only this value
// has to be decoded then, which for small records takes most of the time.
func fieldOf(data []byte, name string) (value []byte, ok bool) {
	data = bytes.TrimSpace(data)
	if data[0] != '{' {
		return nil, false
	}
	depth, start, key := 0, 0, []byte(nil)
	take := func(end int) {
		if depth == 1 && key != nil && sameString(key, name) {
			value, ok = bytes.TrimSpace(data[start:end]), true
		}
	}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			begin := i
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 1 && key == nil {
				key = data[begin : i+1]
			}
		case ':':
			if depth == 1 {
				start = i + 1
			}
		case '{', '[':
			depth++
		case ',':
			take(i)
			if depth == 1 {
				key = nil
			}
		case '}', ']':
			take(i)
			depth--
		}
	}
	return value, ok
}

// sameString reports whether a JSON string stands for name.
func sameString(s []byte, name string) bool {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s[1:len(s)-1]) == name
	}
	var decoded string
	return json.Unmarshal(s, &decoded) == nil && decoded == name
}

// readLines calls yield for every line that isn't blank. The record's data is its own.
func readLines(in *Input, r io.Reader, yield func(record) error) error {
	lines := bufio.NewReaderSize(r, streamBuffer)
	for number := int64(1); ; number++ {
		var line []byte
		for {
			part, err := lines.ReadSlice('\n')
			if len(line)+len(part) > maxRecord {
				return fault.New(fault.BadInput, "%s, line %d: it is longer than %d MiB", in.Name, number, maxRecord>>20)
			}
			line = append(line, part...)
			if err == nil {
				break
			}
			if err == io.EOF {
				if len(bytes.TrimSpace(line)) == 0 {
					return nil
				}
				return yield(record{number, line, true})
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := yield(record{number, line, true}); err != nil {
			return err
		}
	}
}

// parquetBuffer is what is read of a column at once.
const parquetBuffer = 1 << 20

// readParquet calls yield for every row of the text column. Only that column is read.
func readParquet(in *Input, r io.ReaderAt, size int64, yield func(record) error) (err error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.BadInput, "%s: %w", in.Name, fmt.Errorf(format, args...))
	}
	defer func() {
		// The library doesn't promise to survive every damaged file.
		if p := recover(); p != nil {
			err = bad("it is a damaged Parquet file: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(parquetBuffer))
	if err != nil {
		return keepKind(err, bad)
	}
	leaf, ok := f.Schema().Lookup(in.field())
	if !ok {
		return fault.WithHint(bad("there is no column %q", in.field()), "name the column with the text; it has %v", columnNames(f))
	}
	if leaf.Node.Repeated() || leaf.Node.Type().Kind() != parquet.ByteArray {
		return bad("the column %q holds no texts", in.field())
	}
	number := int64(0)
	values := make([]parquet.Value, 64)
	for _, group := range f.RowGroups() {
		pages := group.ColumnChunks()[leaf.ColumnIndex].Pages()
		err := readPages(pages, values, func(v parquet.Value) error {
			number++
			if v.IsNull() {
				return bad("row %d has no text", number)
			}
			return yield(record{number: number, data: bytes.Clone(v.ByteArray())})
		})
		if err := errors.Join(err, pages.Close()); err != nil {
			return keepKind(err, bad)
		}
	}
	if number != f.NumRows() {
		return bad("it has %d rows, its footer says %d", number, f.NumRows())
	}
	return nil
}

func readPages(pages parquet.Pages, values []parquet.Value, each func(parquet.Value) error) error {
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		err = readPage(page, values, each)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
}

func readPage(page parquet.Page, values []parquet.Value, each func(parquet.Value) error) error {
	r := page.Values()
	for {
		n, err := r.ReadValues(values)
		for _, v := range values[:n] {
			if err := each(v); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func columnNames(f *parquet.File) []string {
	var names []string
	for _, c := range f.Root().Columns() {
		names = append(names, c.Name())
	}
	return names
}

// keepKind returns an error that has a kind as it is; others are the file's.
func keepKind(err error, bad func(string, ...any) error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return bad("reading it as Parquet: %w", err)
}

// window makes many small reads of a distant source into few large ones. Reads mostly go forward.
type window struct {
	r    io.ReaderAt
	size int64
	at   int64
	buf  []byte
}

const windowSize = 4 << 20

func newWindow(r io.ReaderAt, src remote.Source) *window { return &window{r: r, size: src.Size()} }

// ReadAt is not safe for concurrent use.
func (w *window) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= w.at && at < w.at+int64(len(w.buf)) {
			n += copy(p[n:], w.buf[at-w.at:])
			continue
		}
		if at >= w.size {
			return n, io.EOF
		}
		if cap(w.buf) == 0 {
			w.buf = make([]byte, 0, windowSize)
		}
		buf := w.buf[:min(windowSize, w.size-at)]
		w.buf = w.buf[:0]
		if m, err := w.r.ReadAt(buf, at); m < len(buf) {
			return n, err
		}
		w.at, w.buf = at, buf
	}
	return n, nil
}
