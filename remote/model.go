package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"

	"golang.org/x/sync/errgroup"
)

// NoType marks a tensor whose element type ggml doesn't have; its DType says what it is.
const NoType = gguf.Type(1<<32 - 1)

// Tensor is one tensor of an opened model and where its bytes are.
type Tensor struct {
	gguf.TensorInfo        // shape in ggml order; Type is NoType where ggml has no such type
	DType           string // safetensors dtype where Type is NoType, else ""
	Source          Source
	At              int64 // first byte in Source
	Length          int64 // bytes in Source; -1 for a GGUF type of unknown size
}

// Model is an opened set of tensors with its sources. Close it when no source is read any more.
type Model struct {
	Format   string         // "gguf" or "safetensors"
	Metadata *gguf.Metadata // of the first GGUF file; nil for safetensors
	Tensors  []Tensor       // GGUF: in table order, file by file; safetensors: by offset, file by file
	Sources  []Source       // one for each file
	Files    []string       // their names, as Sources
	Shards   []*gguf.Header // GGUF: the headers, as Sources
}

// Close closes every source that needs it.
func (m *Model) Close() error {
	var errs []error
	for _, s := range m.Sources {
		errs = append(errs, CloseSource(s))
	}
	return errors.Join(errs...)
}

// CloseSource closes a source if it holds anything open.
func CloseSource(s Source) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Streamer is implemented by sources that can give a long sequential read in one request. All sources of this
// package do.
//
// Stream returns the n bytes from off on. The reader goes on after failures as ReadAt does, and ends with
// io.EOF only after the last byte; it must be closed. A range beyond the end is refused with
// io.ErrUnexpectedEOF. The reader is for one goroutine.
type Streamer interface {
	Stream(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// OpenModel opens a GGUF file or the first part of a split one, a safetensors file, or the index of a sharded one.
// A local folder stands for its model.safetensors, else for its model.safetensors.index.json. Only headers are
// read. All files of a hub model are of the same commit.
//
// Missing tensor data of a GGUF is no error here: whoever reads data asks [gguf.Header.CheckData] of each shard.
func (c *Client) OpenModel(ctx context.Context, ref Reference) (*Model, error) {
	ref, err := c.Pin(ctx, ref)
	if err != nil {
		return nil, err
	}
	if ref.Kind == Recipe {
		return nil, fault.New(fault.Usage, "%s is a recipe, not a model file", ref)
	}
	if ref.Kind == File {
		if ref.Path, err = modelInFolder(ref.Path); err != nil {
			return nil, err
		}
	}
	m := &Model{}
	if err := c.openModel(ctx, m, ref); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// modelInFolder returns the model file of a folder, and any other path as it is.
func modelInFolder(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return dir, nil // opening a missing file gives the better error
	}
	for _, name := range []string{"model.safetensors", "model" + indexSuffix} {
		if p := filepath.Join(dir, name); isFile(p) {
			return p, nil
		}
	}
	return "", fault.WithHint(fault.New(fault.BadInput, "the folder %s has no model.safetensors and no model%s", dir, indexSuffix), "name the model file itself")
}

func isFile(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular()
}

func (c *Client) openModel(ctx context.Context, m *Model, ref Reference) error {
	name := strings.ToLower(ref.name())
	switch {
	case strings.HasSuffix(name, indexSuffix):
		return c.openSharded(ctx, m, ref)
	case strings.HasSuffix(name, ".safetensors"):
		return c.openSafetensors(ctx, m, ref)
	case strings.HasSuffix(name, ".gguf"):
		return c.openGGUF(ctx, m, ref)
	}
	// The name tells nothing: the first bytes do.
	src, err := c.Open(ctx, ref)
	if err != nil {
		return err
	}
	head := make([]byte, min(9, src.Size()))
	_, err = src.ReadAt(ctx, head, 0)
	if err := errors.Join(err, CloseSource(src)); err != nil {
		return err
	}
	if len(head) == 9 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxSafetensorsHeader {
		return c.openSafetensors(ctx, m, ref)
	}
	return c.openGGUF(ctx, m, ref)
}

func (c *Client) openGGUF(ctx context.Context, m *Model, ref Reference) error {
	// The package gguf names the files in its errors and makes the names of further parts from the first one:
	// the whole reference is the name, so that the errors say where the file is.
	folder := ref.folder()
	model, err := gguf.OpenModel(folder+ref.name(), func(name string) (io.ReaderAt, int64, error) {
		part := ref.sibling(strings.TrimPrefix(name, folder))
		src, err := c.Open(ctx, part)
		if err != nil {
			return nil, 0, err
		}
		m.Sources = append(m.Sources, src)
		m.Files = append(m.Files, part.name())
		return ReaderAt(ctx, src), src.Size(), nil
	})
	if err != nil {
		return err
	}
	m.Format, m.Metadata = "gguf", model.Metadata
	for _, s := range model.Shards {
		m.Shards = append(m.Shards, s.Header)
	}
	for _, t := range model.Tensors {
		length, ok := t.Size()
		if !ok {
			length = -1
		}
		m.Tensors = append(m.Tensors, Tensor{TensorInfo: t.TensorInfo, Source: m.Sources[t.Shard], At: t.At, Length: length})
	}
	return nil
}

func (c *Client) openSafetensors(ctx context.Context, m *Model, ref Reference) error {
	src, err := c.Open(ctx, ref)
	if err != nil {
		return err
	}
	m.Format, m.Sources, m.Files = "safetensors", []Source{src}, []string{ref.name()}
	if oneOfMany.MatchString(ref.name()) {
		c.logf("%s is one file of a sharded model; its index opens all of them", ref)
	}
	m.Tensors, err = readSafetensors(ctx, src)
	return err
}

var oneOfMany = regexp.MustCompile(`[-_][0-9]{5,6}-of-[0-9]{5,6}\.safetensors$`)

// openSharded opens the files of an index, several at a time.
func (c *Client) openSharded(ctx context.Context, m *Model, ref Reference) error {
	index, err := c.readIndex(ctx, ref)
	if err != nil {
		return err
	}
	files := slices.Sorted(slices.Values(index.files))
	sources := make([]Source, len(files))
	tensors := make([][]Tensor, len(files))
	unmapped := make([]int, len(files))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, file := range files {
		group.Go(func() (err error) {
			if sources[i], err = c.Open(gctx, ref.sibling(file)); err != nil {
				return err
			}
			if tensors[i], err = readSafetensors(gctx, sources[i]); err != nil {
				return err
			}
			if unmapped[i], err = index.check(file, tensors[i]); err != nil {
				return fault.New(kindOr(err, fault.BadInput), "%s: %w", ref, err)
			}
			return nil
		})
	}
	err = group.Wait()
	for i, src := range sources {
		if src != nil { // after an error some are missing; the others are closed through m
			m.Sources = append(m.Sources, src)
			m.Files = append(m.Files, ref.sibling(files[i]).name())
		}
	}
	if err != nil {
		return err
	}
	m.Format = "safetensors"
	home := map[string]string{}
	extra := 0
	for i, list := range tensors {
		extra += unmapped[i]
		for _, t := range list {
			if other, dup := home[t.Name]; dup {
				return fault.New(fault.BadInput, "%s: tensor %q is in %s and in %s", ref, t.Name, other, files[i])
			}
			home[t.Name] = files[i]
			m.Tensors = append(m.Tensors, t)
		}
	}
	if extra > 0 {
		c.logf("%s: the files hold %d tensors that the index doesn't name", ref, extra)
	}
	return nil
}

func (c *Client) readIndex(ctx context.Context, ref Reference) (*shardIndex, error) {
	src, err := c.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer CloseSource(src)
	text, err := ReadAll(ctx, src, maxIndex)
	if err != nil {
		return nil, err
	}
	index, err := parseIndex(text)
	if err != nil {
		return nil, fault.New(kindOr(err, fault.BadInput), "%s: %w", ref, err)
	}
	return index, nil
}

// name returns the last part of the path of a file.
func (r Reference) name() string {
	switch r.Kind {
	case URL:
		if u, err := url.Parse(r.URL); err == nil {
			return path.Base(u.Path)
		}
		return ""
	case Hub:
		return path.Base(r.File)
	}
	return filepath.Base(r.Path)
}

// folder returns what stands before the name when the reference is shown.
func (r Reference) folder() string {
	s := r.String()
	if r.Kind == URL { // the name is shown with escapes
		return s[:strings.LastIndexByte(s, '/')+1]
	}
	return strings.TrimSuffix(s, r.name())
}

// sibling returns the reference of another file in the same folder; name may go into subfolders.
func (r Reference) sibling(name string) Reference {
	switch r.Kind {
	case URL:
		if u, err := url.Parse(r.URL); err == nil {
			u.Path, u.RawPath = path.Join(path.Dir(u.Path), name), ""
			r.URL = u.String()
		}
	case Hub:
		r.File = path.Join(path.Dir(r.File), name)
	default:
		r.Path = filepath.Join(filepath.Dir(r.Path), filepath.FromSlash(name))
	}
	return r
}
