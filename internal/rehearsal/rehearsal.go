// Package rehearsal makes a model file with the header and the tensors of Qwen3.5-2B (BF16, without MTP block, 3.8 GB)
// whose weights are computed from their offset: a full-size source for tests that occupies no disk.
package rehearsal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"gguf-forge/gguf"
)

// The dimensions of Qwen3.5-2B.
const (
	layers    = 24
	interval  = 4 // every fourth layer has full attention
	width     = 2048
	ffn       = 6144
	heads     = 8
	kvHeads   = 2
	headDim   = 256
	keyHeads  = 16
	valHeads  = 16
	stateSize = 128
	convDim   = 2*keyHeads*stateSize + valHeads*stateSize
	vocab     = 248320
	merges    = 247587
)

// Model is the file. It is an io.ReaderAt, safe for concurrent use.
type Model struct {
	layout *gguf.Layout
}

// New lays the file out.
func New() (*Model, error) {
	l, err := gguf.NewLayout(metadata(), tensors(), gguf.GGUFPy, 32)
	if err != nil {
		return nil, err
	}
	return &Model{l}, nil
}

// Size returns the bytes of the file.
func (m *Model) Size() int64 { return m.layout.Size }

// ReadAt computes the bytes at off.
func (m *Model) ReadAt(p []byte, off int64) (int, error) {
	if off >= m.Size() {
		return 0, io.EOF
	}
	short := off+int64(len(p)) > m.Size()
	if short {
		p = p[:m.Size()-off]
	}
	n := 0
	if off < m.layout.DataStart {
		n = copy(p, m.layout.Header[off:])
	}
	for n < len(p) {
		at := off + int64(n) - m.layout.DataStart
		i := sort.Search(len(m.layout.Tensors), func(i int) bool { return m.layout.Tensors[i].Offset > at }) - 1
		t := m.layout.Tensors[i]
		size, _ := t.Size()
		if at >= t.Offset+size { // padding
			p[n] = 0
			n++
			continue
		}
		part := min(int64(len(p)-n), t.Offset+size-at)
		weights(p[n:n+int(part)], uint64(i)<<40, at-t.Offset, t.Type)
		n += int(part)
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// weights fills p with the bytes at offset off of a tensor: each group of 8 bytes is one mixed counter, its exponents
// forced into a narrow range, so that all values are finite and look like weights.
func weights(p []byte, seed uint64, off int64, t gguf.Type) {
	mask, exponent := uint64(0x80ff80ff80ff80ff), uint64(0x3c003c003c003c00) // BF16: ±2^-7 to 2^-5
	if t == gguf.F32 {
		mask, exponent = 0x807fffff807fffff, 0x3f0000003f000000 // ±0.5 to 1
	}
	group := uint64(off) / 8
	if skip := int(off % 8); skip > 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], mix(seed+group)&mask|exponent)
		p = p[copy(p, b[skip:]):]
		group++
	}
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, mix(seed+group)&mask|exponent)
		group++
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], mix(seed+group)&mask|exponent)
	copy(p, b[:])
}

// mix is the finalizer of SplitMix64.
func mix(z uint64) uint64 {
	z *= 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func metadata() *gguf.Metadata {
	m := new(gguf.Metadata)
	const arch = "qwen35"
	m.Put("general.architecture", gguf.StringValue(arch))
	m.Put("general.type", gguf.StringValue("model"))
	m.Put("general.name", gguf.StringValue("Rehearsal of Qwen3.5-2B"))
	m.Put("general.file_type", gguf.Uint32Value(32))
	for _, p := range []struct {
		key string
		n   uint32
	}{
		{"block_count", layers}, {"context_length", 262144}, {"embedding_length", width}, {"feed_forward_length", ffn},
		{"attention.head_count", heads}, {"attention.head_count_kv", kvHeads}, {"attention.key_length", headDim},
		{"attention.value_length", headDim}, {"rope.dimension_count", 64}, {"ssm.conv_kernel", 4}, {"ssm.state_size", stateSize},
		{"ssm.group_count", keyHeads}, {"ssm.time_step_rank", valHeads}, {"ssm.inner_size", valHeads * stateSize},
		{"full_attention_interval", interval},
	} {
		m.Put(arch+"."+p.key, gguf.Uint32Value(p.n))
	}
	m.Put(arch+".attention.layer_norm_rms_epsilon", gguf.Float32Value(1e-6))
	m.Put(arch+".rope.freq_base", gguf.Float32Value(1e7))
	m.Put("tokenizer.ggml.model", gguf.StringValue("gpt2"))
	m.Put("tokenizer.ggml.pre", gguf.StringValue("qwen35"))
	tokens, types, pairs := vocabulary()
	m.Put("tokenizer.ggml.tokens", tokens)
	m.Put("tokenizer.ggml.token_type", types)
	m.Put("tokenizer.ggml.merges", pairs)
	m.Put("tokenizer.ggml.eos_token_id", gguf.Uint32Value(vocab-1))
	return m
}

// vocabulary returns the token list, token types and merges of a byte-level BPE of Qwen3.5's size: the bytes, every pair of bytes, many
// triples that begin with a pair, and special tokens.
func vocabulary() (tokens, types, pairs gguf.Value) {
	list := make([]string, 0, vocab)
	merge := make([]string, 0, merges)
	for b := range 256 {
		list = append(list, string(byteRune(b)))
	}
	add := func(left, right string) {
		list = append(list, left+right)
		merge = append(merge, left+" "+right)
	}
	for i := range 256 * 256 {
		add(list[i/256], list[i%256])
	}
	for i := 0; len(merge) < merges; i++ {
		add(list[256+i%(256*256)], list['a'+i/(256*256)])
	}
	types = gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Len: vocab}
	for i := range vocab {
		kind := byte(1) // normal
		if i >= len(list) {
			list = append(list, fmt.Sprintf("<|special_%d|>", i))
			kind = 3 // control
		}
		types.Raw = append(types.Raw, kind, 0, 0, 0)
	}
	return gguf.StringsValue(list), types, gguf.StringsValue(merge)
}

// byteRune is the character that stands for a byte in the token list of a byte-level BPE: itself where it is printable, else
// the next free one from 256 on.
func byteRune(b int) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff }
	if printable(b) {
		return rune(b)
	}
	n := rune(256)
	for i := range b {
		if !printable(i) {
			n++
		}
	}
	return n
}

func tensors() []gguf.TensorInfo {
	var list []gguf.TensorInfo
	add := func(t gguf.Type, name string, dims ...int64) {
		list = append(list, gguf.TensorInfo{Name: name, Type: t, Shape: dims})
	}
	add(gguf.BF16, "token_embd.weight", width, vocab)
	for n := range layers {
		blk := func(t gguf.Type, name string, dims ...int64) { add(t, fmt.Sprintf("blk.%d.%s", n, name), dims...) }
		blk(gguf.F32, "attn_norm.weight", width)
		blk(gguf.BF16, "ffn_down.weight", ffn, width)
		blk(gguf.BF16, "ffn_gate.weight", width, ffn)
		blk(gguf.BF16, "ffn_up.weight", width, ffn)
		blk(gguf.F32, "post_attention_norm.weight", width)
		if (n+1)%interval == 0 {
			blk(gguf.F32, "attn_k_norm.weight", headDim)
			blk(gguf.BF16, "attn_k.weight", width, kvHeads*headDim)
			blk(gguf.BF16, "attn_output.weight", heads*headDim, width)
			blk(gguf.F32, "attn_q_norm.weight", headDim)
			blk(gguf.BF16, "attn_q.weight", width, 2*heads*headDim)
			blk(gguf.BF16, "attn_v.weight", width, kvHeads*headDim)
			continue
		}
		blk(gguf.F32, "ssm_a", valHeads)
		blk(gguf.F32, "ssm_conv1d.weight", 4, convDim)
		blk(gguf.F32, "ssm_dt.bias", valHeads)
		blk(gguf.BF16, "ssm_alpha.weight", width, valHeads)
		blk(gguf.BF16, "ssm_beta.weight", width, valHeads)
		blk(gguf.BF16, "attn_qkv.weight", width, convDim)
		blk(gguf.BF16, "attn_gate.weight", width, valHeads*stateSize)
		blk(gguf.F32, "ssm_norm.weight", stateSize)
		blk(gguf.BF16, "ssm_out.weight", valHeads*stateSize, width)
	}
	add(gguf.F32, "output_norm.weight", width)
	return list
}

// Imatrix returns an importance matrix for the model, without an entry for the tied embedding, as the reference tool
// leaves it out.
func Imatrix() ([]byte, error) {
	const chunks, chunkSize = 40, 512
	m := new(gguf.Metadata)
	m.Put("general.type", gguf.StringValue("imatrix"))
	m.Put("imatrix.datasets", gguf.StringsValue([]string{"calibration.txt"}))
	m.Put("imatrix.chunk_count", gguf.Uint32Value(chunks))
	m.Put("imatrix.chunk_size", gguf.Uint32Value(chunkSize))
	var infos []gguf.TensorInfo
	for _, t := range tensors() {
		if t.Type == gguf.BF16 && t.Name != "token_embd.weight" {
			infos = append(infos,
				gguf.TensorInfo{Name: t.Name + ".in_sum2", Type: gguf.F32, Shape: []int64{t.Cols(), 1}},
				gguf.TensorInfo{Name: t.Name + ".counts", Type: gguf.F32, Shape: []int64{1, 1}})
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	l, err := gguf.NewLayout(m, infos, gguf.GGML, 32)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(append([]byte(nil), l.Header...))
	for i, t := range l.Tensors {
		data := make([]byte, 4*t.Elements())
		if t.Elements() == 1 {
			// The count: chunks times tokens.
			data = binary.LittleEndian.AppendUint32(data[:0], 0x46a00000) // 20480
		} else {
			weights(data, uint64(i)<<40|1<<63, 0, gguf.F32)
			for j := 3; j < len(data); j += 4 {
				data[j] &= 0x7f
			}
		}
		out.Write(data)
		out.Write(make([]byte, (-len(data))&31))
	}
	return out.Bytes(), nil
}
