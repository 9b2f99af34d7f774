package runtime

import (
	"io"
	"os"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Source is a model as the engine sees it: a file, a mapping, or an artifact that was never written.
type Source interface {
	Metadata() *gguf.Metadata
	// Tensors returns the tensor table. Only names, types and shapes are used.
	Tensors() []gguf.TensorInfo
	// ReadTensor fills p with the bytes of tensor i (its index in Tensors) from off on. It is called from
	// one goroutine at a time, only for bytes within the tensor's size.
	ReadTensor(i int, p []byte, off int64) error
}

// Mapped is a Source whose tensors are in memory already.
type Mapped interface {
	// TensorBytes returns all bytes of tensor i, or nil where that tensor is not in memory. They are valid and unchanged
	// until the source is closed.
	TensorBytes(i int) []byte
}

// modelSource is a GGUF model of one or several files.
type modelSource struct {
	*gguf.Model
	infos []gguf.TensorInfo
	maps  [][]byte // file contents by shard, nil where not mapped
}

// NewSource returns a GGUF model as a Source. Its data is read through the model's readers.
func NewSource(m *gguf.Model) (Source, error) {
	if err := m.CheckData(); err != nil {
		return nil, err
	}
	s := &modelSource{Model: m, infos: make([]gguf.TensorInfo, len(m.Tensors)), maps: make([][]byte, len(m.Shards))}
	for i, t := range m.Tensors {
		s.infos[i] = t.TensorInfo
	}
	return s, nil
}

func (s *modelSource) Metadata() *gguf.Metadata   { return s.Model.Metadata }
func (s *modelSource) Tensors() []gguf.TensorInfo { return s.infos }

func (s *modelSource) ReadTensor(i int, p []byte, off int64) error {
	t := s.Model.Tensors[i]
	return readFull(s.Shards[t.Shard].Data, p, t.At+off)
}

func (s *modelSource) TensorBytes(i int) []byte {
	t := s.Model.Tensors[i]
	size, ok := t.Size()
	if file := s.maps[t.Shard]; ok && t.At+size <= int64(len(file)) {
		return file[t.At : t.At+size : t.At+size]
	}
	return nil
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// files are the open files behind a source, and their mappings.
type files struct {
	open []*os.File
	maps [][]byte
}

// add opens a file and maps it unless told not to. A mapping that fails is no error: the data is read instead.
func (f *files) add(name string, noMmap bool) (*os.File, int64, []byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, nil, fault.New(fault.BadInput, "%w", err)
	}
	f.open = append(f.open, file)
	info, err := file.Stat()
	if err != nil {
		return nil, 0, nil, err
	}
	if info.IsDir() {
		return nil, 0, nil, fault.WithHint(fault.New(fault.BadInput, "%s is a folder", name), "name the model file itself")
	}
	var mapping []byte
	if !noMmap && info.Mode().IsRegular() {
		mapping, _ = mapFile(file, info.Size())
	}
	f.maps = append(f.maps, mapping)
	return file, info.Size(), mapping, nil
}

func (f *files) Close() error {
	var first error
	for _, m := range f.maps {
		if m != nil {
			if err := unmapFile(m); err != nil && first == nil {
				first = err
			}
		}
	}
	for _, file := range f.open {
		if err := file.Close(); err != nil && first == nil {
			first = err
		}
	}
	f.maps, f.open = nil, nil
	return first
}

// openFiles opens a GGUF model (all parts of a split one) or a llama2.c checkpoint.
func openFiles(path string, noMmap bool) (Source, *files, error) {
	f := &files{}
	src, err := f.source(path, noMmap)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return src, f, nil
}

func (f *files) source(path string, noMmap bool) (Source, error) {
	if isCheckpoint(path) {
		file, size, mapping, err := f.add(path, noMmap)
		if err != nil {
			return nil, err
		}
		return newCheckpoint(path, file, size, mapping)
	}
	m, err := gguf.OpenModel(path, func(name string) (io.ReaderAt, int64, error) {
		file, size, _, err := f.add(name, noMmap)
		return file, size, err
	})
	if err != nil {
		return nil, err
	}
	src, err := NewSource(m)
	if err != nil {
		return nil, err
	}
	copy(src.(*modelSource).maps, f.maps)
	return src, nil
}
