package runtime

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// TestLoadRefused wants one clear error, without a byte of weights read, for models that can't be.
func TestLoadRefused(t *testing.T) {
	put := func(key string, v gguf.Value) func(*memoryModel) {
		return func(m *memoryModel) { m.meta.Put(key, v) }
	}
	drop := func(key string) func(*memoryModel) { return func(m *memoryModel) { m.meta.Delete(key) } }
	remove := func(name string) func(*memoryModel) { return func(m *memoryModel) { m.remove(name) } }
	shape := func(name string, dims ...int64) func(*memoryModel) {
		return func(m *memoryModel) { m.infos[m.index(name)].Shape = dims }
	}
	retype := func(name string, to gguf.Type) func(*memoryModel) {
		return func(m *memoryModel) { m.infos[m.index(name)].Type = to }
	}
	u32 := gguf.Uint32Value
	for _, c := range []struct {
		name, arch string
		change     func(*memoryModel)
		want       string
	}{
		{"architecture", "llama", put("general.architecture", gguf.StringValue("mamba7")), `architecture "mamba7" is not supported`},
		{"no architecture", "llama", drop("general.architecture"), `architecture "" is not supported`},
		{"missing tensor", "llama", remove("blk.1.ffn_up.weight"), `no tensor "blk.1.ffn_up.weight"`},
		{"missing embedding", "qwen3", remove("token_embd.weight"), `no tensor "token_embd.weight"`},
		{"missing norm", "qwen3", remove("blk.0.attn_q_norm.weight"), `no tensor "blk.0.attn_q_norm.weight"`},
		{"shape", "llama", shape("blk.0.attn_q.weight", 64, 32), `tensor "blk.0.attn_q.weight" has shape [64 32], not [64 64 1]`},
		{"empty", "llama", shape("token_embd.weight", 64, 0), `is empty`},
		{"norm length", "llama", shape("blk.0.attn_norm.weight", 32), `tensor "blk.0.attn_norm.weight" has shape [32], not 64 elements`},
		{"bias length", "llama-fused", shape("blk.0.attn_qkv.bias", 64), `tensor "blk.0.attn_qkv.bias" has shape [64], not 128 elements`},
		{"scale length", "llama-fused", shape("blk.0.attn_output.scale", 2), `has 2 elements`},
		{"integer weights", "llama", retype("blk.0.attn_q.weight", gguf.I32), `is of type i32, which can't be a weight`},
		{"unknown type", "llama", retype("blk.0.attn_q.weight", 99), `is of type type 99, which can't be a weight`},
		{"activation type", "llama", retype("blk.0.attn_q.weight", gguf.Q8_K), `which can't be a weight`},
		{"twice", "llama", func(m *memoryModel) { m.add(m.infos[3], m.data[3]) }, `two tensors named "blk.0.ffn_norm.weight"`},
		{"huge", "llama", shape("token_embd.weight", 64, 1<<60), `too large`},

		{"no layers", "llama", put("llama.block_count", u32(0)), `block_count`},
		{"too many layers", "llama", put("llama.block_count", u32(1<<31)), `block_count`},
		{"layers of a string", "llama", put("llama.block_count", gguf.StringValue("two")), `block_count is "two"`},
		{"more layers than tensors", "llama", put("llama.block_count", u32(3)), `no tensor "blk.2.attn_norm.weight"`},
		{"no width", "llama", drop("llama.embedding_length"), `no llama.embedding_length`},
		{"no heads", "llama", put("llama.attention.head_count", u32(0)), `head_count`},
		{"heads that can't share", "llama", put("llama.attention.head_count_kv", u32(3)), `4 query heads can't share 3 key heads`},
		{"no key heads", "llama", put("llama.attention.head_count_kv", u32(0)), `0 key heads`},
		{"no epsilon", "llama", drop("llama.attention.layer_norm_rms_epsilon"), `layer_norm_rms_epsilon`},
		{"head length", "qwen3", put("qwen3.attention.key_length", u32(0)), `0 and 16 values`},
		{"odd rotation", "qwen3", put("qwen3.rope.dimension_count", u32(7)), `no even number`},
		{"long rotation", "qwen3", put("qwen3.rope.dimension_count", u32(32)), `rotates 32 values of heads of 16`},
		{"partial rotation", "llama", put("llama.rope.dimension_count", u32(8)), `rotates 8 of the 16`},
		{"base", "llama", put("llama.rope.freq_base", gguf.Float32Value(-1)), `base -1`},
		{"scaling", "llama", put("llama.rope.scaling.type", gguf.StringValue("longrope")), `"longrope"`},
		{"next blocks", "qwen35", put("qwen35.nextn_predict_layers", u32(4)), `4 NextN blocks`},
		{"sections", "qwen35", drop("qwen35.rope.dimension_sections"), `dimension_sections`},
		{"value heads", "qwen35", put("qwen35.ssm.time_step_rank", u32(3)), `qwen35.ssm`},
		{"no key heads for DeltaNet", "qwen35", put("qwen35.ssm.group_count", u32(0)), `ssm.group_count`},
		{"only the NextN block", "qwen35", remove("blk.0.attn_norm.weight"), `only the NextN block`},
		{"taps", "lfm2", put("lfm2.shortconv.l_cache", u32(4)), `has 3 taps, not 4`},
		{"taps per layer", "lfm2", put("lfm2.attention.head_count_kv", intArray([]int{0, 2})), `no number for each of 3 layers`},
		{"negative heads", "lfm2", put("lfm2.attention.head_count_kv", intArray([]int{0, -2, 0})), `holds -2`},
		{"window", "lfm2", put("lfm2.attention.sliding_window", u32(9)), `not supported`},
		{"groups", "granitehybrid", put("granitehybrid.ssm.group_count", u32(3)), `granitehybrid.ssm`},
		{"no states", "granitehybrid", drop("granitehybrid.ssm.state_size"), `granitehybrid.ssm`},
		{"experts", "bailingmoe2", put("bailingmoe2.expert_used_count", u32(9)), `uses 9 of 8 experts`},
		{"expert groups", "bailingmoe2", put("bailingmoe2.expert_group_count", u32(3)), `groups`},
		{"few experts in groups", "bailingmoe2", put("bailingmoe2.expert_group_used_count", u32(1)), `groups`},
		{"gating", "bailingmoe2", put("bailingmoe2.expert_gating_func", u32(3)), `expert_gating_func is 3`},
		{"negative scale", "granitehybrid", put("granitehybrid.attention.scale", gguf.Float32Value(-1)), `which is negative`},
		{"no bound", "bailingmoe3", drop("bailingmoe3.kda.gate_lower_bound"), `gate_lower_bound`},
		{"unsafe gate", "bailingmoe3", put("bailingmoe3.kda.safe_gate", gguf.BoolValue(false)), `safe_gate`},
		{"latent", "bailingmoe3", put("bailingmoe3.attention.kv_lora_rank", u32(31)), `has shape`},
		{"pattern", "gemma3", put("gemma3.attention.sliding_window_pattern", intArray([]int{1})), `no flag for each of 3 layers`},

		{"pruned ids of another type", "qwen3", func(m *memoryModel) { pruneHead(m, []int32{1, 2}); retype("output_ids.weight", gguf.F32)(m) }, `must hold as many i32`},
		{"pruned ids too few", "qwen3", func(m *memoryModel) { pruneHead(m, []int32{1, 2}); shape("output_ids.weight", 1)(m) }, `must hold as many i32`},
		{"pruned ids without rows", "qwen3", func(m *memoryModel) { pruneHead(m, []int32{1, 2}); m.remove("output.weight") }, `must hold as many i32`},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := tinyModel(t, c.arch)
			c.change(src)
			m, err := Load(src, LoadOptions{Threads: 1})
			if err == nil {
				m.Close()
				t.Fatal("it was loaded")
			}
			if !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q of kind %d, want %q", err, fault.KindOf(err), c.want)
			}
			if src.read != 0 {
				t.Errorf("%d bytes of weights were read", src.read)
			}
		})
	}
	for _, ids := range [][]int32{{1, 1}, {1, tinyVocab}, {-2, 1}} {
		src := tinyModel(t, "qwen3")
		pruneHead(src, []int32{1, 2})
		raw := src.data[src.index("output_ids.weight")]
		for i, id := range ids {
			raw[4*i], raw[4*i+1], raw[4*i+2], raw[4*i+3] = byte(id), byte(id>>8), byte(id>>16), byte(id>>24)
		}
		if _, err := Load(src, LoadOptions{Threads: 1}); err == nil || !strings.Contains(err.Error(), "output_ids.weight holds id") {
			t.Errorf("head ids %v give %v", ids, err)
		}
	}
}

// TestStaleNextN wants a model whose metadata count NextN blocks that it doesn't have to run without them.
func TestStaleNextN(t *testing.T) {
	for arch, gone := range map[string]string{"qwen35": "blk.3.", "bailingmoe3": "blk.2.", "bailingmoe2": "blk.2."} {
		src := tinyModel(t, arch)
		if arch == "bailingmoe2" {
			src.meta.Put("bailingmoe2.block_count", gguf.Uint32Value(3))
			src.meta.Put("bailingmoe2.nextn_predict_layers", gguf.Uint32Value(1))
		}
		for i := len(src.infos) - 1; i >= 0; i-- {
			if strings.HasPrefix(src.infos[i].Name, gone) {
				src.remove(src.infos[i].Name)
			}
		}
		m := loadMemory(t, src, LoadOptions{Threads: 1})
		if m.HasMTP() {
			t.Errorf("%s: a NextN block without tensors", arch)
		}
		if _, err := newSession(t, m, SessionOptions{}).Eval([]int32{1, 2}); err != nil {
			t.Error(err)
		}
	}
	src := tinyModel(t, "bailingmoe3") // the last block is one of the trunk
	src.remove(block(2, "nextn.eh_proj.weight"))
	if m := loadMemory(t, src, LoadOptions{Threads: 1}); m.HasMTP() || m.weights.(*bailingMoE3).layers != 3 {
		t.Error("a block that is no NextN block was left out")
	}
}

type failingSource struct{ *memoryModel }

func (failingSource) ReadTensor(int, []byte, int64) error {
	return fault.New(fault.Network, "%w", io.ErrUnexpectedEOF)
}

func TestReadErrors(t *testing.T) {
	_, err := Load(failingSource{tinyModel(t, "llama")}, LoadOptions{Threads: 1})
	if !errors.Is(err, io.ErrUnexpectedEOF) || fault.KindOf(err) != fault.Network || !strings.Contains(err.Error(), "token_embd") && !strings.Contains(err.Error(), "blk.") && !strings.Contains(err.Error(), "output") && !strings.Contains(err.Error(), "rope") {
		t.Errorf("a source that can't be read gives %v", err)
	}
}

func TestOpenFileRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model, err := os.ReadFile("testdata/llama-yarn.gguf")
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := os.ReadFile("testdata/llama2c.bin")
	if err != nil {
		t.Fatal(err)
	}
	change := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "no.gguf"), "no such file"},
		{"folder", dir, "is a folder"},
		{"empty", write("empty.gguf", nil), "empty.gguf"},
		{"cut off", write("cut.gguf", model[:len(model)-100]), "is not in the file"},
		{"only a header", write("header.gguf", model[:20000]), "is not in the file"},
		{"text", write("page.gguf", []byte("<html><body>not found</body></html>")), "page.gguf"},
		{"short checkpoint", write("short.bin", checkpoint[:20]), "no llama2.c checkpoint"},
		{"cut checkpoint", write("cut.bin", checkpoint[:len(checkpoint)-4]), "no llama2.c checkpoint"},
		{"zeros", write("zeros.bin", make([]byte, 1000)), "no llama2.c checkpoint"},
		{"heads of a checkpoint", write("heads.bin", change(checkpoint, 12, 5)), "no llama2.c checkpoint"},
		{"key heads of a checkpoint", write("kv.bin", change(checkpoint, 16, 3)), "no llama2.c checkpoint"},
		{"layers of a checkpoint", write("layers.bin", change(checkpoint, 11, 0x40)), "no llama2.c checkpoint"},
	} {
		for _, noMmap := range []bool{false, true} {
			m, err := OpenFile(c.path, LoadOptions{Threads: 1, NoMmap: noMmap})
			if err == nil {
				m.Close()
				t.Fatalf("%s: it was opened", c.name)
			}
			if !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput {
				t.Errorf("%s: error %q of kind %d, want %q", c.name, err, fault.KindOf(err), c.want)
			}
		}
	}
}

// TestSplitModel opens a model of two files.
func TestSplitModel(t *testing.T) {
	whole := readModel(t, "testdata/llama-yarn.gguf")
	dir := t.TempDir()
	half := len(whole.infos) / 2
	for part, list := range [][2]int{{0, half}, {half, len(whole.infos)}} {
		meta := &gguf.Metadata{}
		if part == 0 {
			meta = whole.meta.Clone()
		}
		meta.Put("split.no", gguf.Uint16Value(uint16(part)))
		meta.Put("split.count", gguf.Uint16Value(2))
		meta.Put("split.tensors.count", gguf.Int32Value(int32(len(whole.infos))))
		file := encodeModel(t, &memoryModel{meta: meta, infos: whole.infos[list[0]:list[1]], data: whole.data[list[0]:list[1]]})
		if err := os.WriteFile(filepath.Join(dir, gguf.ShardName("m", part+1, 2)), file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := readGolden(t, "testdata", "llama-yarn")
	want := evalAll(t, newSession(t, openModel(t, "testdata/llama-yarn.gguf", LoadOptions{}), SessionOptions{}), g.Prompt)
	for _, noMmap := range []bool{false, true} {
		m := openModel(t, filepath.Join(dir, gguf.ShardName("m", 1, 2)), LoadOptions{NoMmap: noMmap})
		if mapped := m.memory.Mapped > 0; mapped == noMmap && physicalMemory() > 0 {
			t.Errorf("NoMmap %t: %d bytes mapped", noMmap, m.memory.Mapped)
		}
		for i, row := range evalAll(t, newSession(t, m, SessionOptions{}), g.Prompt) {
			sameBits(t, "split", row, want[i])
		}
	}
}

// encodeModel writes a model as a GGUF file.
func encodeModel(t testing.TB, m *memoryModel) []byte {
	t.Helper()
	layout, err := gguf.NewLayout(m.meta, m.infos, gguf.Style(0), 32)
	if err != nil {
		t.Fatal(err)
	}
	file := make([]byte, layout.Size)
	copy(file, layout.Header)
	for i, info := range layout.Tensors {
		copy(file[int64(len(layout.Header))+info.Offset:], m.data[i])
	}
	return file
}

// FuzzLoad changes bytes of small models of all architectures. Whatever the changes are, a model is refused or runs;
// nothing panics and no memory beyond the limit is taken.
func FuzzLoad(f *testing.F) {
	var models [][]byte
	for _, arch := range tinyArchitectures {
		models = append(models, encodeModel(f, tinyModel(f, arch)))
	}
	for i := range models {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte{0, 40, 7, 0, 90, 255, 1, 200, 0})
		f.Add(uint8(i), bytes.Repeat([]byte{3, 17, 0x80}, 30))
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		file := bytes.Clone(models[int(which)%len(models)])
		for ; len(edits) >= 3; edits = edits[3:] { // most of the first 64 KiB is header
			file[(int(edits[0])<<8|int(edits[1]))%len(file)] = edits[2]
		}
		tryModel(t, file)
	})
}

func tryModel(t testing.TB, file []byte) {
	m, err := gguf.OpenModel("fuzz.gguf", func(string) (io.ReaderAt, int64, error) { return bytes.NewReader(file), int64(len(file)), nil })
	if err != nil {
		return
	}
	src, err := NewSource(m)
	if err != nil {
		return
	}
	opt := SessionOptions{Context: 12, Batch: 5}
	model, err := Load(src, LoadOptions{Threads: 1, MaxMemory: 1 << 25, Session: opt})
	if err != nil {
		if k := fault.KindOf(err); k != fault.BadInput && k != fault.Resources {
			t.Errorf("error of kind %d: %v", k, err)
		}
		return
	}
	defer model.Close()
	s, err := model.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	last := int32(model.Vocab() - 1)
	if _, err := s.Eval([]int32{0, last, 0, last, 0, last, 0}); err != nil {
		t.Fatal(err)
	}
	if !model.HasMTP() {
		return
	}
	d, err := model.NewDrafter(opt)
	if fault.KindOf(err) == fault.Resources {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Eval([]int32{last, 0}, make([]float32, 2*model.Width()), nil); err != nil {
		t.Fatal(err)
	}
}

// TestMutatedModels changes every byte range of the headers of tiny and golden models in turn, as the fuzz target does at random.
func TestMutatedModels(t *testing.T) {
	step := 29
	if testing.Short() {
		step = 397
	}
	for _, arch := range tinyArchitectures {
		file := encodeModel(t, tinyModel(t, arch))
		for at := 0; at < min(len(file), 6000); at += step {
			for _, v := range []byte{0, 1, 0x7F, 0xFF} {
				changed := bytes.Clone(file)
				changed[at] = v
				tryModel(t, changed)
			}
		}
	}
}
