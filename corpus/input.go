package corpus

import (
	"bufio"
	"bytes"

	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// Format says how texts stand in a file.
type Format string

// The formats. Compression with gzip or zstd around text and JSON lines is found by content.
const (
	FormatText    Format = "text"    // the whole file is one text
	FormatJSONL   Format = "jsonl"   // every line is an object; one of its fields is a text
	FormatParquet Format = "parquet" // every row of a column is a text
)

// DefaultField is the field of JSON lines and the column of Parquet files that holds the text.
const DefaultField = "text"

// Input is a file with one or more texts.
type Input struct {
	Name   string    // in errors, and for the format if that isn't given
	Format Format    // "" is found by name (.jsonl, .ndjson) and content (Parquet)
	Field  string    // "" is DefaultField
	SHA256 string    // expected hash of the file as it is stored; "" is not checked
	Any    bool      // take bytes that are not UTF-8 as the tokenizer takes them, instead of refusing them
	Reader io.Reader // a stream such as stdin; nil: Open
	Open   func(context.Context) (remote.Source, error)
}

// FileInput returns the input behind a path, URL or hub reference.
func FileInput(client *remote.Client, name string) (Input, error) {
	ref, err := remote.ParseReference(name)
	if err != nil {
		return Input{}, err
	}
	return Input{Name: name, Open: func(ctx context.Context) (remote.Source, error) { return client.Open(ctx, ref) }}, nil
}

// stream is an opened input: its text, decompressed, and the hash of its stored bytes once all of them were read.
type stream struct {
	name   string
	raw    *bufio.Reader // what is stored
	text   io.Reader
	sum    hash.Hash
	size   int64 // expected stored bytes; -1 if it isn't known
	read   int64 // stored bytes so far
	closer []func() error
}

const (
	streamBuffer = 256 << 10
	maxWindow    = 128 << 20 // of zstd: what zstd --ultra -22 uses; more would not be bounded memory
)

// newStream reads raw, which has size bytes or, if size is negative, any number.
func newStream(name string, raw io.Reader, size int64) (*stream, error) {
	s := &stream{name: name, sum: sha256.New(), size: size}
	s.raw = bufio.NewReaderSize(countingReader{raw, s}, streamBuffer)
	magic, err := s.raw.Peek(4)
	if err != nil && err != io.EOF {
		return nil, s.wrap(err)
	}
	s.text = s.raw
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(s.raw)
		if err != nil {
			return nil, s.wrap(err)
		}
		s.text = z
	case isZstd(magic):
		z, err := zstd.NewReader(s.raw, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, s.wrap(err)
		}
		s.closer = append(s.closer, func() error { z.Close(); return nil })
		s.text = z
	}
	return s, nil
}

// isZstd recognizes a frame, and a skippable frame, with which some files begin.
func isZstd(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	return bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) || magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})
}

// countingReader hashes what is stored.
type countingReader struct {
	r io.Reader
	s *stream
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.s.sum.Write(p[:n])
	c.s.read += int64(n)
	return n, err
}

// Read returns text. Errors name the input.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.text.Read(p)
	if err != nil && err != io.EOF {
		err = s.wrap(err)
	}
	return n, err
}

// wrap makes damaged compression an error of the input. An error that has a kind already came from below.
func (s *stream) wrap(err error) error {
	var known *fault.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fault.New(fault.BadInput, "%s: its zstd window is larger than %d MiB", s.name, maxWindow>>20)
	}
	return fault.New(fault.BadInput, "%s: %w", s.name, err)
}

// finish wants all stored bytes read and returns their hash.
func (s *stream) finish() (string, error) {
	if _, err := io.Copy(io.Discard, s.raw); err != nil {
		return "", s.wrap(err)
	}
	if s.size >= 0 && s.read != s.size {
		return "", fault.New(fault.BadInput, "%s: %d of %d bytes were read", s.name, s.read, s.size)
	}
	return hex.EncodeToString(s.sum.Sum(nil)), nil
}

func (s *stream) Close() error {
	var errs []error
	for _, c := range s.closer {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// checkHash compares the hash of an input with the one that was promised.
func (in Input) checkHash(got string) error {
	if in.SHA256 == "" || in.SHA256 == got {
		return nil
	}
	err := fault.New(fault.Verification, "%s has SHA-256 %s, expected is %s", in.Name, got, in.SHA256)
	return fault.WithHint(err, "the text isn't the one that was meant; if the change is wanted, write the new hash down")
}

// format returns the format that is given, else the one that the name says, text if it says nothing.
func (in Input) format() Format {
	if in.Format != "" {
		return in.Format
	}
	name := strings.ToLower(in.Name)
	for {
		switch path.Ext(name) {
		case ".gz", ".zst", ".zstd":
			name = strings.TrimSuffix(name, path.Ext(name))
			continue
		case ".jsonl", ".ndjson":
			return FormatJSONL
		case ".parquet":
			return FormatParquet
		}
		return FormatText
	}
}

func (in Input) field() string {
	if in.Field == "" {
		return DefaultField
	}
	return in.Field
}

// parquetMagic begins and ends a Parquet file.
const parquetMagic = "PAR1"

// open opens a source and says whether it is a Parquet file.
func (in Input) open(ctx context.Context) (src remote.Source, parquet bool, err error) {
	if src, err = in.Open(ctx); err != nil {
		return nil, false, fmt.Errorf("%s: %w", in.Name, err)
	}
	format := in.format()
	if format == FormatParquet || in.Format != "" || src.Size() < 12 {
		return src, format == FormatParquet, nil
	}
	magic := make([]byte, len(parquetMagic))
	if _, err := src.ReadAt(ctx, magic, 0); err != nil {
		return nil, false, errors.Join(err, remote.CloseSource(src))
	}
	return src, string(magic) == parquetMagic, nil
}

// readSource reads all bytes of a source in order.
func readSource(ctx context.Context, src remote.Source) (io.ReadCloser, error) {
	if s, ok := src.(remote.Streamer); ok {
		return s.Stream(ctx, 0, src.Size())
	}
	return io.NopCloser(io.NewSectionReader(remote.ReaderAt(ctx, src), 0, src.Size())), nil
}
