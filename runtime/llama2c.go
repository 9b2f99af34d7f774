package runtime

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// A llama2.c checkpoint of version 0: seven little-endian i32 and then float32 arrays, without magic or names.
// It is the llama architecture under another name: rows are interleaved as the NORM rotation wants them, ε is
// 1e-5 and the rotation's base 10000.

// checkpointHeader is the head of the file. Vocab is negative if the file has a head of its own.
type checkpointHeader struct {
	Dim, Hidden, Layers, Heads, KVHeads, Vocab, SeqLen int32
}

const checkpointHeaderSize = 28

// checkpoint is such a file as a Source. Each tensor is a stretch of the file.
type checkpoint struct {
	meta    *gguf.Metadata
	infos   []gguf.TensorInfo // offsets from the start of the file
	data    io.ReaderAt
	mapping []byte
}

// isCheckpoint reports whether the name and the first bytes of a file say that it is one: it has no magic of its own.
func isCheckpoint(path string) bool {
	if !strings.EqualFold(filepath.Ext(path), ".bin") {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false // opening it again gives the error
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) != "GGUF"
}

func newCheckpoint(path string, data io.ReaderAt, size int64, mapping []byte) (*checkpoint, error) {
	bad := func(format string, args ...any) error {
		err := fault.New(fault.BadInput, "%s is no llama2.c checkpoint: "+format, append([]any{path}, args...)...)
		return fault.WithHint(err, "version 0 checkpoints are read, such as stories15M.bin; convert others to GGUF")
	}
	var raw [checkpointHeaderSize]byte
	if size < checkpointHeaderSize {
		return nil, bad("it has only %d bytes", size)
	}
	if err := readFull(data, raw[:], 0); err != nil {
		return nil, err
	}
	var h checkpointHeader
	for i, p := range []*int32{&h.Dim, &h.Hidden, &h.Layers, &h.Heads, &h.KVHeads, &h.Vocab, &h.SeqLen} {
		*p = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	vocab := int64(h.Vocab)
	own := vocab < 0
	if own {
		vocab = -vocab
	}
	const limit = 1 << 20
	for _, n := range []int64{int64(h.Dim), int64(h.Hidden), int64(h.Layers), int64(h.Heads), int64(h.KVHeads), vocab, int64(h.SeqLen)} {
		if n < 1 || n > limit {
			return nil, bad("its header holds %v", h)
		}
	}
	if h.Layers > maxLayers || h.Dim%h.Heads != 0 || h.Heads%h.KVHeads != 0 || h.Dim/h.Heads%2 != 0 {
		return nil, bad("its header holds %v", h)
	}
	c := &checkpoint{data: data, mapping: mapping}
	if end := c.lay(h, vocab, own); end != size {
		return nil, bad("a file with this header has %d bytes, not %d", end, size)
	}
	c.meta = h.metadata(vocab)
	return c, nil
}

// metadata returns the header as keys of the llama architecture.
func (h checkpointHeader) metadata(vocab int64) *gguf.Metadata {
	m := &gguf.Metadata{}
	m.Put("general.architecture", gguf.StringValue("llama"))
	for _, kv := range []struct {
		key   string
		value int64
	}{
		{"block_count", int64(h.Layers)}, {"context_length", int64(h.SeqLen)}, {"embedding_length", int64(h.Dim)},
		{"feed_forward_length", int64(h.Hidden)}, {"attention.head_count", int64(h.Heads)},
		{"attention.head_count_kv", int64(h.KVHeads)}, {"vocab_size", vocab},
	} {
		m.Put("llama."+kv.key, gguf.Uint32Value(uint32(kv.value)))
	}
	m.Put("llama.attention.layer_norm_rms_epsilon", gguf.Float32Value(1e-5))
	return m
}

// lay names the arrays in file order and returns where the file ends. Matrices are stored as GGUF stores them.
func (c *checkpoint) lay(h checkpointHeader, vocab int64, own bool) int64 {
	at := int64(checkpointHeaderSize)
	add := func(name string, shape ...int64) {
		c.infos = append(c.infos, gguf.TensorInfo{Name: name, Type: gguf.F32, Shape: shape, Offset: at})
		n := int64(4)
		for _, s := range shape {
			n *= s
		}
		at += n
	}
	perLayer := func(suffix string, shape ...int64) {
		for i := range int(h.Layers) {
			add(block(i, suffix), shape...)
		}
	}
	dim, hidden := int64(h.Dim), int64(h.Hidden)
	kv := dim / int64(h.Heads) * int64(h.KVHeads)
	add("token_embd.weight", dim, vocab)
	perLayer("attn_norm.weight", dim)
	perLayer("attn_q.weight", dim, dim)
	perLayer("attn_k.weight", dim, kv)
	perLayer("attn_v.weight", dim, kv)
	perLayer("attn_output.weight", dim, dim)
	perLayer("ffn_norm.weight", dim)
	perLayer("ffn_gate.weight", dim, hidden)
	perLayer("ffn_down.weight", hidden, dim)
	perLayer("ffn_up.weight", dim, hidden)
	add("output_norm.weight", dim)
	at += 4 * int64(h.SeqLen) * (dim / int64(h.Heads)) // two rotation tables of seqLen × hs/2, computed here instead
	if own {
		add("output.weight", dim, vocab)
	}
	return at
}

func (c *checkpoint) Metadata() *gguf.Metadata   { return c.meta }
func (c *checkpoint) Tensors() []gguf.TensorInfo { return c.infos }

func (c *checkpoint) ReadTensor(i int, p []byte, off int64) error {
	return readFull(c.data, p, c.infos[i].Offset+off)
}

func (c *checkpoint) TensorBytes(i int) []byte {
	if c.mapping == nil {
		return nil
	}
	at := c.infos[i].Offset
	size, _ := c.infos[i].Size()
	return c.mapping[at : at+size : at+size]
}
