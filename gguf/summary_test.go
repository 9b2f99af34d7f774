package gguf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParts(t *testing.T) {
	blocks := map[Part]string{
		PartEmbedding:   "token_embd.weight position_embd.weight token_types.weight per_layer_token_embd.weight",
		PartHead:        "output.weight output.bias output_ids.weight d2t",
		PartNorms:       "output_norm.weight token_embd_norm.weight blk.0.attn_norm.weight blk.0.attn_norm_2.weight blk.0.post_ffw_norm.weight blk.0.attn_q_norm.weight blk.1.ssm_norm.weight",
		PartAttention:   "blk.0.attn_q.weight blk.0.attn_output.bias blk.0.attn_kv_a_mqa.weight blk.0.attn_sinks.weight blk.3.attn_qkv.weight",
		PartRecurrent:   "blk.1.ssm_a blk.1.ssm_beta.weight blk.1.attn_qkv.weight blk.1.attn_gate.weight blk.3.ssm_in.weight blk.3.ssm_a blk.4.shortconv.in_proj.weight",
		PartFeedForward: "blk.0.ffn_up.weight blk.0.ffn_gate_inp.weight blk.0.ffn_up_shexp.weight blk.0.exp_probs_b.bias",
		PartExperts:     "blk.0.ffn_gate_up_exps.weight blk.0.ffn_down_exps.bias blk.0.ffn_down.7.weight",
		PartMTP:         "blk.2.nextn.eh_proj.weight blk.2.attn_q.weight blk.2.ffn_up_exps.weight blk.2.attn_norm.weight mtp.fc.weight",
		PartOther:       "rope_freqs.weight blk.x.attn_q.weight blk.5 blk..attn_q.weight blk.-1.attn_q.weight v.blk.0.attn_q.weight blk.99999999999999999999.attn_q.weight blk.0.unheard_of.weight",
	}
	var names []string
	for _, list := range blocks {
		names = append(names, strings.Fields(list)...)
	}
	rule := newPartitioner(names)
	for want, list := range blocks {
		for _, name := range strings.Fields(list) {
			if got := rule.part(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// model opens a header whose data is there but zero.
func model(t *testing.T, m *Metadata, tensors ...TensorInfo) *Model {
	t.Helper()
	l, err := NewLayout(m, tensors, GGUFPy, 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := OpenModel("m.gguf", func(string) (io.ReaderAt, int64, error) { return &sparseFile{l.Header, l.Size}, l.Size, nil })
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func tensor(name string, typ Type, shape ...int64) TensorInfo {
	return TensorInfo{Name: name, Type: typ, Shape: shape}
}

// TestReadPerToken has the embedding of the 2B model of the lab notebook: 417 MB, all of it read because it is tied.
func TestReadPerToken(t *testing.T) {
	meta := &Metadata{}
	meta.Put("general.architecture", StringValue("qwen35"))
	embedding := tensor("token_embd.weight", Q6_K, 2048, 248320)
	norm := tensor("blk.0.attn_norm.weight", F32, 2048)
	const table, row = 417_177_600, 1680

	tied := Summarize(model(t, meta, embedding, norm))
	if !tied.TiedHead || tied.ReadPerToken != table+row+8192 || tied.Bytes != table+8192 {
		t.Errorf("tied: %+v", tied)
	}
	want := []PartSummary{
		{PartEmbedding, 1, 2048 * 248320, table, row},
		{PartHead, 0, 0, 0, table},
		{PartNorms, 1, 2048, 8192, 8192},
	}
	if diff := cmp.Diff(want, tied.Parts); diff != "" {
		t.Error(diff)
	}

	pruned := Summarize(model(t, meta, embedding, norm, tensor("output.weight", Q4_K, 2048, 65536), tensor("output_ids.weight", I32, 65536)))
	if pruned.TiedHead || pruned.ReadPerToken != row+8192+65536*1152+65536*4 {
		t.Errorf("pruned: %d", pruned.ReadPerToken)
	}

	moe := meta.Clone()
	moe.Put("qwen35.expert_count", Uint32Value(8))
	moe.Put("qwen35.expert_used_count", Uint32Value(3))
	experts := Summarize(model(t, moe, embedding, norm, tensor("blk.0.ffn_up_exps.weight", F16, 64, 32, 8), tensor("blk.1.nextn.eh_proj.weight", F16, 64, 64), tensor("blk.1.ffn_up_exps.weight", F16, 64, 32, 8)))
	if experts.ReadPerToken != tied.ReadPerToken+64*32*3*2 {
		t.Errorf("experts: %d", experts.ReadPerToken)
	}
	for _, counts := range [][2]uint32{{0, 0}, {8, 0}, {0, 3}, {3, 8}, {math.MaxUint32, math.MaxUint32}} {
		moe.Put("qwen35.expert_count", Uint32Value(counts[0]))
		moe.Put("qwen35.expert_used_count", Uint32Value(counts[1]))
		s := Summarize(model(t, moe, embedding, norm, tensor("blk.0.ffn_up_exps.weight", F16, 64, 32, 8)))
		if s.ReadPerToken != tied.ReadPerToken+64*32*8*2 {
			t.Errorf("experts %v: %d", counts, s.ReadPerToken)
		}
	}
}

// TestSummarizeReal reads a header of a tiny MoE model with recurrent layers and an MTP block, without its data.
func TestSummarizeReal(t *testing.T) {
	m := openFiles(t, "b.gguf", files{"b.gguf": testHeader(t, "ggufpy-bailingmoe3-mtp.gguf")})
	s := Summarize(m)
	want := []PartSummary{
		{PartEmbedding, 1, 40960, 81920, 256},
		{PartHead, 1, 40960, 81920, 81920},
		{PartAttention, 6, 68096, 136192, 136192},
		{PartRecurrent, 12, 100484, 204304, 204304},
		{PartFeedForward, 8, 62472, 127008, 127008},
		{PartExperts, 3, 98304, 196608, 73728},
		{PartMTP, 21, 213192, 429856, 0},
		{PartNorms, 7, 736, 2944, 2944},
	}
	if diff := cmp.Diff(want, s.Parts); diff != "" {
		t.Error(diff)
	}
	if s.What != "model" || s.Parameters != 625204 || s.Bytes != 1260752 || s.ReadPerToken != 626352 || fmt.Sprintf("%.3f", s.BitsPerWeight) != "16.132" {
		t.Errorf("%+v", s)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "1260768 missing") {
		t.Errorf("warnings: %q", s.Warnings)
	}
	var text bytes.Buffer
	if err := s.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`model, architecture bailingmoe3, "bailingmoe3-mtp"`,
		"b.gguf: 11040 bytes, GGUF version 3, 59 tensors, data from 11040, alignment 32",
		"626352 bytes read per generated token",
		"experts             3           98304          196608   15.6 %           73728",
		"f16        37          620032         1240064   98.4 %",
		`tokenizer.ggml.tokens = [str; 320] "Ā" "ā" "Ă" "ă" "Ą" "ą" …`,
		"blk.0.ssm_conv1d_q.weight       f32   4×1×128×1            2048  recurrent",
	} {
		if !strings.Contains(text.String(), "\n"+line+"\n") && !strings.HasPrefix(text.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, text.String())
		}
	}
}

func TestWhat(t *testing.T) {
	key := func(pairs ...string) *Metadata {
		m := &Metadata{}
		for i := 0; i < len(pairs); i += 2 {
			m.Put(pairs[i], StringValue(pairs[i+1]))
		}
		return m
	}
	embedding, block := tensor("token_embd.weight", F32, 2, 2), tensor("blk.0.attn_q.weight", F32, 2, 2)
	for _, c := range []struct {
		want string
		m    *Model
	}{
		{"model", model(t, key("general.architecture", "llama"), embedding, block)},
		{"part of a model", model(t, key("general.architecture", "llama"), embedding)},
		{"part of a model", model(t, key("general.architecture", "llama"), tensor("blk.7.attn_q.weight", F32, 1))},
		{"importance matrix", model(t, key("general.type", "imatrix"))},
		{"adapter", model(t, key("general.type", "adapter", "general.architecture", "llama"))},
		{"multimodal projector", model(t, key("general.architecture", "clip"))},
		{"vocabulary", model(t, key("general.architecture", "llama", "tokenizer.ggml.tokens", "x"))},
		{"GGUF without an architecture", model(t, key())},
	} {
		s := Summarize(c.m)
		if s.What != c.want || (s.ReadPerToken > 0) != (c.want == "model") {
			t.Errorf("%s, %d bytes per token, want %s", s.What, s.ReadPerToken, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	meta := func(b *raw) *raw {
		return b.str("general.architecture").u32(uint32(String)).str("a").kvU32("a.nextn_predict_layers", 1)
	}
	file := meta(head(2, 2)).tensor("new", 99, 0, 8).tensor("b", F32, 64, 8).pad(32).zeros(64 + 32).Bytes()
	s := Summarize(openFiles(t, "m.gguf", files{"m.gguf": file}))
	want := []string{"1 tensors are of unknown type 99: their size is not counted", "the metadata counts MTP blocks (nextn_predict_layers), but the file has none"}
	if diff := cmp.Diff(want, s.Warnings); diff != "" {
		t.Error(diff)
	}
	if s.Tensors[0].Bytes != nil || *s.Tensors[1].Bytes != 32 || s.BitsPerWeight != 32 {
		t.Errorf("%+v", s)
	}
	file = head(1, 0).tensor("b", F32, 0, 8).pad(32).zeros(32 + 5).Bytes()
	s = Summarize(openFiles(t, "m.gguf", files{"m.gguf": file}))
	if diff := cmp.Diff([]string{"m.gguf: 5 bytes follow the last tensor"}, s.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryMetadata(t *testing.T) {
	m := &Metadata{}
	long := make([]string, 65)
	m.Put("list", StringsValue(long))
	m.Put("short", StringsValue(long[:64]))
	m.Put("nan", Float32Value(float32(math.NaN())))
	m.Put("inf", Value{Type: Float64, Raw: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0xff}})
	m.Put("f32", Float32Value(0.1))
	m.Put("u64", Uint64Value(math.MaxUint64))
	m.Put("i64", Int64Value(math.MinInt64))
	m.Put("false", BoolValue(false))
	m.Put("zero", Uint32Value(0))
	m.Put("empty", StringValue(""))
	m.Put("none", StringsValue(nil))
	m.Put("binary", StringValue("\xff"))
	m.Put("binaries", StringsValue([]string{"\xff"}))
	m.Put("evil\x1b[2J", StringValue("\x1b[2J"+strings.Repeat("wide ✓ ", 50)))
	s := Summarize(model(t, m, tensor("evil\x1b[2J", F32, 1)))

	encoded, err := json.Marshal(s.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"key":"list","type":"arr","elem":"str","length":65,"sha256":"20aa497d9bd4c19e851e3df6e386700faada213db38acf7679f6365832830b3d"}`,
		`{"key":"nan","type":"f32","value":"NaN"}`,
		`{"key":"inf","type":"f64","value":"-Inf"}`,
		`{"key":"f32","type":"f32","value":0.1}`,
		`{"key":"u64","type":"u64","value":18446744073709551615}`,
		`{"key":"i64","type":"i64","value":-9223372036854775808}`,
		`{"key":"false","type":"bool","value":false}`,
		`{"key":"zero","type":"u32","value":0}`,
		`{"key":"empty","type":"str","value":""}`,
		`{"key":"none","type":"arr","elem":"str","length":0,"value":[]}`,
		`{"key":"binary","type":"str","value":"\ufffd","sha256":"a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"}`,
		`"key":"binaries","type":"arr","elem":"str","length":1,"value":["\ufffd"],"sha256":`,
	} {
		if !strings.Contains(string(encoded), want) {
			t.Errorf("no %s in\n%s", want, encoded)
		}
	}
	if n := strings.Count(string(encoded), `"key":"short"`); n != 1 || strings.Count(string(encoded), `""`) != 65 {
		t.Errorf("an array of 64 elements is not complete: %s", encoded)
	}

	var text bytes.Buffer
	if err := s.Text(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			t.Errorf("control character in %q", line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("space at the end of %q", line)
		}
		if n := len([]rune(line)); n > lineWidth+30 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestShorten(t *testing.T) {
	exact := strings.Repeat("é", lineWidth)
	if got := shorten(exact); got != exact {
		t.Error("cut a text that fits")
	}
	if got := shorten(exact + "x"); got != strings.Repeat("é", lineWidth-1)+"…" {
		t.Error(got)
	}
}
