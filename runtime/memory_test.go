package runtime

import (
	"os"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/quant"
)

// memoryModel is a model in memory that tests change as they like.
type memoryModel struct {
	meta  *gguf.Metadata
	infos []gguf.TensorInfo
	data  [][]byte
	read  int64 // bytes read through ReadTensor
}

func (m *memoryModel) Metadata() *gguf.Metadata   { return m.meta }
func (m *memoryModel) Tensors() []gguf.TensorInfo { return m.infos }

func (m *memoryModel) ReadTensor(i int, p []byte, off int64) error {
	m.read += int64(len(p))
	copy(p, m.data[i][off:off+int64(len(p))])
	return nil
}

// readModel reads a GGUF file into memory.
func readModel(t testing.TB, path string) *memoryModel {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.ReadHeader(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryModel{meta: h.Metadata.Clone()}
	for _, tensor := range h.Tensors {
		size, _ := tensor.Size()
		raw := make([]byte, size)
		if _, err := f.ReadAt(raw, h.DataStart+tensor.Offset); err != nil {
			t.Fatal(err)
		}
		m.add(tensor, raw)
	}
	return m
}

func (m *memoryModel) add(info gguf.TensorInfo, raw []byte) {
	m.infos = append(m.infos, info)
	m.data = append(m.data, raw)
}

// index returns the number of a tensor, −1 if there is none.
func (m *memoryModel) index(name string) int {
	for i, t := range m.infos {
		if t.Name == name {
			return i
		}
	}
	return -1
}

func (m *memoryModel) remove(name string) {
	i := m.index(name)
	m.infos = append(m.infos[:i:i], m.infos[i+1:]...)
	m.data = append(m.data[:i:i], m.data[i+1:]...)
}

// convert changes the type of a tensor.
func (m *memoryModel) convert(t testing.TB, i int, to gguf.Type) {
	t.Helper()
	info := m.infos[i]
	if info.Type == to {
		return
	}
	values := make([]float32, info.Elements())
	if err := quant.Decode(info.Type, values, m.data[i]); err != nil {
		t.Fatal(err)
	}
	info.Type = to
	size, _ := info.Size()
	raw := make([]byte, size)
	if err := quant.Encode(to, raw, values, int(info.Cols()), nil); err != nil {
		t.Fatal(err)
	}
	m.infos[i], m.data[i] = info, raw
}

func loadMemory(t testing.TB, src Source, opt LoadOptions) *Model {
	t.Helper()
	m, err := Load(src, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
