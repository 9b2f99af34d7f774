package gguf

import (
	"fmt"
	"io"
	"regexp"
	"strconv"

	"gguf-forge/internal/fault"
)

// The keys of split files. Only the first shard has further metadata.
const (
	splitNo      = "split.no"            // u16, from 0
	splitCount   = "split.count"         // u16
	splitTensors = "split.tensors.count" // i32, over all shards
)

// Shard is one file of a model.
type Shard struct {
	Name   string
	Header *Header
	Data   io.ReaderAt
}

// ModelTensor is a tensor and where its data is.
type ModelTensor struct {
	TensorInfo
	Shard int
	At    int64 // offset in the shard's file
}

// Model is one GGUF file or all files of a split one.
type Model struct {
	Metadata *Metadata // of the first shard
	Shards   []Shard
	Tensors  []ModelTensor // in shard and table order

	byName map[string]int
}

var shardName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// ParseShardName splits PREFIX-00002-of-00003.gguf into prefix, part (from 1) and number of parts.
func ParseShardName(name string) (prefix string, part, count int, ok bool) {
	m := shardName.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	part, _ = strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	return m[1], part, count, part >= 1 && part <= count
}

// ShardName returns the name of a part, counted from 1.
func ShardName(prefix string, part, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, part, count)
}

// OpenModel reads the header of name and, if it is the first part of a split model, those of all other
// parts. open returns the bytes and size of a file; closing what it opened is up to the caller. Errors name the file.
//
// A split model must be given by its first part, and its parts must agree in number, order, and total of
// tensors. Missing tensor data is no error here: see CheckData.
func OpenModel(name string, open func(name string) (io.ReaderAt, int64, error)) (*Model, error) {
	m := &Model{byName: map[string]int{}}
	if err := m.add(name, open); err != nil {
		return nil, err
	}
	m.Metadata = m.Shards[0].Header.Metadata
	prefix, count, err := m.splitOf(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for part := 2; part <= count; part++ {
		next := ShardName(prefix, part, count)
		if err := m.add(next, open); err != nil {
			return nil, err
		}
		if err := checkPart(m.Shards[part-1].Header.Metadata, part, count); err != nil {
			return nil, fmt.Errorf("%s: %w", next, err)
		}
	}
	if count > 1 {
		if err := m.checkTotal(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m, nil
}

// Find returns the tensor of that name.
func (m *Model) Find(name string) (ModelTensor, bool) {
	i, ok := m.byName[name]
	if !ok {
		return ModelTensor{}, false
	}
	return m.Tensors[i], true
}

// CheckData returns an error that names the first tensor whose data is not completely there.
func (m *Model) CheckData() error {
	for _, s := range m.Shards {
		if err := s.Header.CheckData(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// add reads one file and appends its tensors.
func (m *Model) add(name string, open func(string) (io.ReaderAt, int64, error)) error {
	data, size, err := open(name)
	if err != nil {
		return err
	}
	h, err := ReadHeader(data, size)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	shard := len(m.Shards)
	m.Shards = append(m.Shards, Shard{name, h, data})
	for _, t := range h.Tensors {
		if i, ok := m.byName[t.Name]; ok {
			return fault.New(fault.BadInput, "%s: tensor %q is also in %s", name, t.Name, m.Shards[m.Tensors[i].Shard].Name)
		}
		m.byName[t.Name] = len(m.Tensors)
		m.Tensors = append(m.Tensors, ModelTensor{t, shard, h.DataStart + t.Offset})
	}
	return nil
}

// splitOf checks the first file's split keys against its name and returns what the other parts' names are made of.
func (m *Model) splitOf(name string) (prefix string, count int, err error) {
	stated, err := splitUint(m.Metadata, splitCount, 1)
	if err != nil {
		return "", 0, err
	}
	prefix, part, count, named := ParseShardName(name)
	if stated <= 1 {
		if named && count > 1 {
			err = fault.New(fault.BadInput, "its name says part %d of %d, but its metadata has no %s above 1", part, count, splitCount)
			return "", 0, fault.WithHint(err, "rename it if it is a complete model")
		}
		return "", 1, nil
	}
	no, err := splitUint(m.Metadata, splitNo, 0)
	if err != nil {
		return "", 0, err
	}
	if !named {
		err = fault.New(fault.BadInput, "it is part %d of %d of a split model, but is not named like one", no+1, stated)
		return "", 0, fault.WithHint(err, "name the parts %s to %s and give the first", ShardName("NAME", 1, stated), ShardName("NAME", stated, stated))
	}
	if no != 0 || part != 1 {
		err = fault.New(fault.BadInput, "it is part %d of a split model, which must be given by its first part", max(no+1, part))
		return "", 0, fault.WithHint(err, "give %s", ShardName(prefix, 1, stated))
	}
	return prefix, count, checkPart(m.Metadata, 1, count)
}

// checkPart compares a part's split keys with its name.
func checkPart(meta *Metadata, part, count int) error {
	stated, err := splitUint(meta, splitCount, 0)
	if err != nil {
		return err
	}
	no, err := splitUint(meta, splitNo, -1)
	if err != nil {
		return err
	}
	if stated != count {
		return fault.New(fault.BadInput, "%s is %d, but its name says part %d of %d", splitCount, stated, part, count)
	}
	if no != part-1 {
		return fault.New(fault.BadInput, "%s is %d, it must be %d in part %d of %d", splitNo, no, part-1, part, count)
	}
	return nil
}

func (m *Model) checkTotal() error {
	total, err := splitUint(m.Metadata, splitTensors, -1)
	if err != nil {
		return err
	}
	if total < 0 {
		return fault.New(fault.BadInput, "%s is missing", splitTensors)
	}
	if total != len(m.Tensors) {
		return fault.New(fault.BadInput, "%s is %d, but its %d parts hold %d tensors", splitTensors, total, len(m.Shards), len(m.Tensors))
	}
	return nil
}

// splitUint returns the number under key, or def if it is missing.
func splitUint(meta *Metadata, key string, def int) (int, error) {
	v, ok := meta.Get(key)
	if !ok {
		return def, nil
	}
	n, ok := v.Uint()
	if !ok || n > 1<<31-1 {
		return 0, fault.New(fault.BadInput, "%s is %s, it must be a small number", key, v.Format())
	}
	return int(n), nil
}
