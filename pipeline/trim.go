package pipeline

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

// The keys of a trimmed vocabulary.
const (
	KeyTrimFrom   = "forge.trim.vocabulary"        // entries of the whole vocabulary
	KeyTrimSHA256 = "forge.trim.vocabulary_sha256" // of its token list
	KeyTrimIDs    = "forge.trim.ids"               // i32 array: the old id of every token
)

// trimVocabulary cuts a model's vocabulary to ids, ascending and closed under merges: embedding and head rows, token list, scores,
// types and merges. What is left is an ordinary model with a smaller vocabulary, whose ids count from 0 again.
func trimVocabulary(tensors []Tensor, meta *gguf.Metadata, t *tokenizer.Tokenizer, ids []uint32) ([]Tensor, *gguf.Metadata, error) {
	tensors, err := trimTensors(tensors, ids)
	if err != nil {
		return nil, nil, err
	}
	meta, err = trimMetadata(meta, t, ids)
	return tensors, meta, err
}

// vocabularyMatrices are the tensors with a row for every token, without the layer in front.
var vocabularyMatrices = []string{
	embeddingName, outputName, "per_layer_token_embd.weight", "nextn.embed_tokens.weight", "nextn.shared_head_head.weight",
}

func trimTensors(tensors []Tensor, ids []uint32) ([]Tensor, error) {
	out := slices.Clone(tensors)
	for i, t := range tensors {
		name := layerNumber.ReplaceAllString(t.Info().Name, "")
		switch {
		case name == outputIDsName:
			return nil, fault.New(fault.BadInput, "the model's head is pruned (it has %s): a vocabulary can be trimmed if the head is whole", outputIDsName)
		case name == "output.bias":
			return nil, fault.New(fault.BadInput, "tensor %q: a head with a bias can't be trimmed", name)
		case slices.Contains(vocabularyMatrices, name):
			rows, err := Gather(t, t.Info().Name, ids, 0)
			if err != nil {
				return nil, err
			}
			out[i] = rows
		}
	}
	return out, nil
}

func trimMetadata(meta *gguf.Metadata, t *tokenizer.Tokenizer, ids []uint32) (*gguf.Metadata, error) {
	out := meta.Clone()
	number := make(map[int64]int64, len(ids)) // new ids by old ones
	for i, id := range ids {
		number[int64(id)] = int64(i)
	}
	for key, v := range meta.All() {
		name, ok := strings.CutPrefix(key, "tokenizer.ggml.")
		if !ok {
			continue
		}
		switch {
		case name == "tokens" || name == "scores" || name == "token_type":
			if v.Type != gguf.Array || v.Len != t.Size() {
				return nil, fault.New(fault.BadInput, "%s has %d entries, the vocabulary %d", key, v.Len, t.Size())
			}
			out.Put(key, pick(v, func(i int) bool { _, kept := number[int64(i)]; return kept }))
		case name == "merges":
			merges := t.Merges()
			if v.Len != len(merges) {
				return nil, fault.New(fault.BadInput, "%s has %d entries, %d of them are merges of tokens", key, v.Len, len(merges))
			}
			out.Put(key, pick(v, func(i int) bool {
				for _, id := range []int32{merges[i].Left, merges[i].Right, merges[i].Result} {
					if _, kept := number[int64(id)]; !kept {
						return false
					}
				}
				return true
			}))
		case strings.HasSuffix(name, "_token_id"):
			old, _ := v.Int()
			id, kept := number[old]
			if !kept {
				return nil, fault.New(fault.BadInput, "%s is %d, which the trimmed vocabulary does not have", key, old)
			}
			n, err := integerValue(id, v.Type)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			out.Put(key, n)
		}
	}
	out.Delete("tokenizer.huggingface.json") // it describes the whole vocabulary
	if key := meta.Architecture() + ".vocab_size"; meta.ArchUint("vocab_size", 0) > 0 {
		out.Put(key, gguf.Uint32Value(uint32(len(ids))))
	}
	return out, nil
}

// pick returns the elements of an array for which keep is true.
func pick(v gguf.Value, keep func(i int) bool) gguf.Value {
	out := gguf.Value{Type: gguf.Array, Elem: v.Elem}
	size, raw := v.Elem.Size(), v.Raw
	for i := range v.Len {
		n := size
		if v.Elem == gguf.String {
			n = 8 + int(binary.LittleEndian.Uint64(raw))
		}
		if keep(i) {
			out.Raw = append(out.Raw, raw[:n]...)
			out.Len++
		}
		raw = raw[n:]
	}
	return out
}

// setTrim records in meta which vocabulary was trimmed and to which ids.
func setTrim(meta *gguf.Metadata, whole tokenizer.Vocabulary, ids []uint32) {
	meta.Set(KeyTrimFrom, gguf.Uint32Value(uint32(whole.Size)))
	meta.Set(KeyTrimSHA256, gguf.StringValue(whole.Hash))
	list := gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Len: len(ids)}
	for _, id := range ids {
		list.Raw = binary.LittleEndian.AppendUint32(list.Raw, id)
	}
	meta.Set(KeyTrimIDs, list)
}
