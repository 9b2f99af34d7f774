package pipeline

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/tokenizer"
)

func TestGather(t *testing.T) {
	a, src := testArtifact(t, 9, []shape{{"token_embd.weight", gguf.F32, []int64{256, 3000}, gguf.F32}, {"cube.weight", gguf.F32, []int64{4, 2, 2}, gguf.F32}})
	src.sha256 = ""
	table := a.Tensors()[0]
	whole := rowsOf(t, table)
	rng := rand.New(rand.NewPCG(3, 3))
	var ids []uint32
	for id := uint32(0); id < 3000; id += 1 + uint32(rng.IntN(4)*rng.IntN(60)) {
		ids = append(ids, id)
	}
	for _, to := range []gguf.Type{gguf.F32, gguf.Q4_K} {
		node, err := Gather(table, "output.weight", ids, 3)
		if err != nil {
			t.Fatal(err)
		}
		full := whole
		if to != gguf.F32 {
			if node, err = Encode(node, to, nil); err != nil {
				t.Fatal(err)
			}
			encoded, err := Encode(table, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			full = rowsOf(t, encoded)
		}
		row, _ := node.Info().RowSize()
		var want []byte
		for _, id := range ids {
			want = append(want, full[int64(id)*row:int64(id+1)*row]...)
		}
		got := rowsOf(t, node)
		if !bytes.Equal(got[:len(want)], want) {
			t.Errorf("%s: wrong rows", to)
		}
		if to == gguf.F32 && slices.ContainsFunc(got[len(want):], func(b byte) bool { return b != 0 }) {
			t.Errorf("%s: padding is not zero", to)
		}
		if int64(len(got)) != int64(len(want))+3*row {
			t.Errorf("%s: %d bytes, want %d rows more than %d", to, len(got), 3, len(want))
		}
		art, err := NewArtifact(benchMetadata(), []Tensor{node, int32Tensor("output_ids.weight", []int32{1, -1})}, gguf.GGML, 32)
		if err != nil {
			t.Fatal(err)
		}
		src.read.Store(0)
		var streamed bytes.Buffer
		if _, err := art.Stream(t.Context(), &streamed, StreamOptions{Memory: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		at := art.Layout().DataStart + art.Layout().Tensors[0].Offset
		if !bytes.Equal(streamed.Bytes()[at:at+int64(len(got))], got) {
			t.Errorf("%s: the stream has other rows", to)
		}
		// Rows are read with the gaps that are cheaper than another request, not the whole table.
		var wanted int64
		for i, id := range ids {
			wanted += 1024
			if gap := int64(0); i > 0 {
				if gap = 1024 * int64(id-ids[i-1]-1); gap <= coalesceGap {
					wanted += gap
				}
			}
		}
		if got := src.read.Load(); got > wanted || got < int64(len(ids))*1024 {
			t.Errorf("%s: %d bytes were read, %d are needed with small gaps", to, got, wanted)
		}
	}
	for name, bad := range map[string][]uint32{"beyond": {3000}, "twice": {5, 5}, "falling": {6, 5}} {
		if _, err := Gather(table, "output.weight", bad, 0); err == nil || !strings.Contains(err.Error(), "token_embd.weight") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Gather(a.Tensors()[1], "x", []uint32{0}, 0); err == nil {
		t.Error("rows of a stack are picked")
	}
}

// rowsOf computes a whole tensor.
func rowsOf(t *testing.T, node Tensor) []byte {
	t.Helper()
	a, err := NewArtifact(benchMetadata(), []Tensor{node}, gguf.GGML, 32)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := node.Info().Size()
	p := make([]byte, size)
	if _, err := a.ReadAt(p, a.Layout().DataStart); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return p
}

func TestPruneHead(t *testing.T) {
	embedding := shape{"token_embd.weight", gguf.F32, []int64{32, 16}, gguf.F32}
	head := shape{"output.weight", gguf.F32, []int64{32, 16}, gguf.F32}
	norm := shape{"output_norm.weight", gguf.F32, []int64{32}, gguf.F32}
	list := &tokenizer.IDList{IDs: []uint32{1, 2, 5, 15}, Rule: "by hand", VocabHash: strings.Repeat("ab", 32)}
	for _, c := range []struct {
		shapes []shape
		order  []string
		from   int
	}{
		{[]shape{embedding, norm}, []string{"token_embd.weight", "output.weight", "output_ids.weight", "output_norm.weight"}, 0},
		{[]shape{norm, head, embedding}, []string{"output_norm.weight", "output.weight", "output_ids.weight", "token_embd.weight"}, 1},
	} {
		a, _ := testArtifact(t, 4, c.shapes)
		out, err := pruneHead(a.Tensors(), list, 8)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range out {
			names = append(names, n.Info().Name)
		}
		if !slices.Equal(names, c.order) {
			t.Fatalf("order %v", names)
		}
		whole, got := rowsOf(t, a.Tensors()[c.from]), rowsOf(t, out[1])
		for i, id := range list.IDs {
			if !bytes.Equal(got[i*128:i*128+128], whole[id*128:id*128+128]) {
				t.Errorf("row %d is not that of id %d", i, id)
			}
		}
		if ids := rowsOf(t, out[2]); !bytes.Equal(ids, []byte{1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 15, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}) {
			t.Errorf("ids %v", ids)
		}
		if _, err := pruneHead(out, list, 1); err == nil || !strings.Contains(err.Error(), "pruned already") {
			t.Errorf("pruned twice: %v", err)
		}
	}
	a, _ := testArtifact(t, 4, []shape{norm})
	if _, err := pruneHead(a.Tensors(), list, 1); err == nil {
		t.Error("a model without embedding is pruned")
	}
	meta := benchMetadata()
	setHead(meta, list)
	if meta.Text(KeyHeadRule) != "by hand" || meta.Uint(KeyHeadCount, 0) != 4 || meta.Text(KeyHeadSHA256) != list.Hash() || meta.Text(KeyHeadVocabulary) != list.VocabHash {
		t.Errorf("metadata %v", meta)
	}
}
