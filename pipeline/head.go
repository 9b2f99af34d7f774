package pipeline

import (
	"fmt"
	"slices"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

// The tensors and keys of a pruned head. docs/formats.md describes them.
const (
	outputName    = "output.weight"
	outputIDsName = "output_ids.weight"
	embeddingName = "token_embd.weight"

	KeyHeadRule       = "forge.head.rule"              // how the rows were chosen
	KeyHeadCount      = "forge.head.count"             // rows kept, without padding
	KeyHeadSHA256     = "forge.head.ids_sha256"        // of the ids as little-endian uint32
	KeyHeadVocabulary = "forge.head.vocabulary_sha256" // of the token list the ids belong to
	KeyHeadCorpora    = "forge.head.corpora"           // the texts that were counted, as in the header of an id list
)

// gathered is some rows of a matrix: row i is row ids[i] of from, a row of zeros where ids[i] is negative.
type gathered struct {
	from Tensor
	info gguf.TensorInfo
	ids  []int32 // ascending but for the padding, which is last
}

// Gather returns the rows of from named by ids, which ascend, followed by pad rows of zero bytes. It is called name.
func Gather(from Tensor, name string, ids []uint32, pad int) (Tensor, error) {
	src := from.Info()
	if src.Dims() > 2 {
		return nil, fault.New(fault.BadInput, "tensor %q: rows can be picked from a matrix, not from %d dimensions", src.Name, src.Dims())
	}
	g := gathered{from: from, info: gguf.TensorInfo{Name: name, Type: src.Type, Shape: []int64{src.Cols(), int64(len(ids) + pad)}}}
	for i, id := range ids {
		if int64(id) >= src.Rows() || i > 0 && id <= ids[i-1] {
			return nil, fault.New(fault.BadInput, "tensor %q has %d rows, row %d can't be picked in this place", src.Name, src.Rows(), id)
		}
		g.ids = append(g.ids, int32(id))
	}
	g.ids = append(g.ids, slices.Repeat([]int32{-1}, pad)...)
	return g, nil
}

func (g gathered) Info() gguf.TensorInfo { return g.info }

// runs calls f for every run of neighbouring source rows behind rows [lo,hi): n rows, the first is at of g and id of from.
func (g gathered) runs(lo, hi int64, f func(at, id, n int64)) {
	for i := lo; i < hi; {
		n := int64(1)
		for i+n < hi && g.ids[i+n] == g.ids[i]+int32(n) && g.ids[i] >= 0 {
			n++
		}
		if g.ids[i] >= 0 {
			f(i, int64(g.ids[i]), n)
		}
		i += n
	}
}

func (g gathered) Needs(lo, hi int64) []Range {
	var needs []Range
	g.runs(lo, hi, func(_, id, n int64) { needs = append(needs, g.from.Needs(id, id+n)...) })
	return needs
}

func (g gathered) Rows(dst []byte, lo, hi int64, in [][]byte) error {
	row, _ := g.info.RowSize() // that of from, which has it
	clear(dst)
	var err error
	g.runs(lo, hi, func(at, id, n int64) {
		if err != nil {
			return
		}
		k := len(g.from.Needs(id, id+n))
		err = g.from.Rows(dst[(at-lo)*row:(at-lo+n)*row], id, id+n, in[:k])
		in = in[k:]
	})
	return err
}

// constant is a tensor whose bytes are known.
type constant struct {
	info gguf.TensorInfo
	data []byte
}

func (c constant) Info() gguf.TensorInfo { return c.info }

func (c constant) Needs(lo, hi int64) []Range { return nil }

func (c constant) Rows(dst []byte, lo, hi int64, in [][]byte) error {
	row, _ := c.info.RowSize()
	copy(dst, c.data[lo*row:hi*row])
	return nil
}

// int32Tensor returns a vector of integers.
func int32Tensor(name string, values []int32) Tensor {
	c := constant{info: gguf.TensorInfo{Name: name, Type: gguf.I32, Shape: []int64{int64(len(values))}}}
	for _, v := range values {
		c.data = append(c.data, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return c
}

// pruneHead replaces the head of a model by the rows that list keeps: output.weight takes them from the head or, where that
// is tied to the embedding, from there; output_ids.weight says which they are. The rows are padded with zeros and id -1 up
// to a multiple of roundUp, if it is more than 1.
func pruneHead(tensors []Tensor, list *tokenizer.IDList, roundUp int) ([]Tensor, error) {
	index := func(name string) int {
		return slices.IndexFunc(tensors, func(t Tensor) bool { return t.Info().Name == name })
	}
	if index(outputIDsName) >= 0 {
		return nil, fault.New(fault.BadInput, "the model's head is pruned already (it has %s)", outputIDsName)
	}
	head, embedding := index(outputName), index(embeddingName)
	if embedding < 0 {
		return nil, fault.New(fault.BadInput, "the model has no %s", embeddingName)
	}
	from := tensors[embedding]
	if head >= 0 {
		from = tensors[head]
	}
	pad := 0
	if roundUp > 1 {
		pad = (-len(list.IDs)%roundUp + roundUp) % roundUp
	}
	rows, err := Gather(from, outputName, list.IDs, pad)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	ids := rows.(gathered).ids
	out := slices.Clone(tensors)
	if head >= 0 {
		out = slices.Delete(out, head, head+1)
	} else {
		head = embedding + 1
	}
	return slices.Insert(out, head, rows, int32Tensor(outputIDsName, ids)), nil
}

// IsHead reports whether a tensor of that name belongs to a pruned head.
func IsHead(name string) bool { return name == outputName || name == outputIDsName }

// setHead records in meta where the rows of a pruned head come from, before the keys that record where the artifact comes
// from. Everything comes from the list, so that a head cut from a finished file is recorded like one cut from its source.
func setHead(meta *gguf.Metadata, list *tokenizer.IDList) {
	var provenance []gguf.KV
	for _, key := range []string{KeyRecipe, KeyRecipeSHA256, KeySources} {
		if v, ok := meta.Get(key); ok {
			provenance = append(provenance, gguf.KV{Key: key, Value: v})
			meta.Delete(key)
		}
	}
	if list.Rule != "" {
		meta.Set(KeyHeadRule, gguf.StringValue(list.Rule))
	}
	meta.Set(KeyHeadCount, gguf.Uint32Value(uint32(len(list.IDs))))
	meta.Set(KeyHeadSHA256, gguf.StringValue(list.Hash()))
	if list.VocabHash != "" {
		meta.Set(KeyHeadVocabulary, gguf.StringValue(list.VocabHash))
	}
	if len(list.Corpora) > 0 {
		var texts []string
		for _, c := range list.Corpora {
			texts = append(texts, c.String())
		}
		meta.Set(KeyHeadCorpora, gguf.StringsValue(texts))
	}
	for _, p := range provenance {
		meta.Set(p.Key, p.Value)
	}
}
