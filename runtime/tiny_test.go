package runtime

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/quant"
)

// tinyArchitectures are the models that tinyModel makes: every architecture, with what is special about it.
var tinyArchitectures = []string{"llama", "llama-fused", "qwen3", "qwen35", "gemma3", "lfm2", "granitehybrid", "granitehybrid-moe", "bailingmoe2", "bailingmoe3"}

const (
	tinyWidth = 64
	tinyVocab = 96
)

// tiny builds a model of random weights in memory.
type tiny struct {
	*memoryModel
	t    testing.TB
	arch string
	rng  *rand.Rand
}

func tinyModel(t testing.TB, name string) *memoryModel {
	t.Helper()
	b := &tiny{memoryModel: &memoryModel{meta: &gguf.Metadata{}}, t: t, rng: rand.New(rand.NewPCG(1, 2))}
	switch name {
	case "llama", "llama-fused":
		b.llama(name == "llama-fused")
	case "qwen3":
		b.start("qwen3", 2, 2)
		for i := range 2 {
			b.attention(i, 4, 2, 16, true)
			b.dense(i, "", 64)
		}
	case "qwen35":
		b.qwen35()
	case "gemma3":
		b.gemma3()
	case "lfm2":
		b.lfm2()
	case "granitehybrid", "granitehybrid-moe":
		b.granite(name == "granitehybrid-moe")
	case "bailingmoe2":
		b.bailing2()
	case "bailingmoe3":
		b.bailing3()
	default:
		t.Fatalf("no tiny model %q", name)
	}
	return b.memoryModel
}

func (b *tiny) key(name string, v gguf.Value)    { b.meta.Put(b.arch+"."+name, v) }
func (b *tiny) number(name string, v int)        { b.key(name, gguf.Uint32Value(uint32(v))) }
func (b *tiny) float(name string, v float32)     { b.key(name, gguf.Float32Value(v)) }
func (b *tiny) flag(name string, v bool)         { b.key(name, gguf.BoolValue(v)) }
func (b *tiny) numbers(name string, list ...int) { b.key(name, intArray(list)) }

func intArray(list []int) gguf.Value {
	v := gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Len: len(list)}
	for _, n := range list {
		v.Raw = binary.LittleEndian.AppendUint32(v.Raw, uint32(n))
	}
	return v
}

// start writes the keys and tensors that all architectures share. A tied model has no head.
func (b *tiny) start(arch string, layers, kvHeads int) {
	b.arch = arch
	b.meta.Put("general.architecture", gguf.StringValue(arch))
	b.number("block_count", layers)
	b.number("context_length", 256)
	b.number("embedding_length", tinyWidth)
	b.number("feed_forward_length", 64)
	b.number("attention.head_count", 4)
	b.number("attention.head_count_kv", kvHeads)
	b.float("attention.layer_norm_rms_epsilon", 1e-5)
	b.matrix("token_embd", tinyWidth, tinyVocab)
	b.vector("output_norm.weight", tinyWidth, 1)
	for i := range layers {
		b.vector(block(i, "attn_norm.weight"), tinyWidth, 1)
		b.vector(block(i, "ffn_norm.weight"), tinyWidth, 1)
	}
}

// tensor adds random values around mean. Matrices are f16 and q8_0 in turn.
func (b *tiny) tensor(name string, typ gguf.Type, mean, spread float64, shape ...int) {
	info := gguf.TensorInfo{Name: name, Type: typ}
	n := 1
	for _, s := range shape {
		info.Shape = append(info.Shape, int64(s))
		n *= s
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(mean + spread*b.rng.NormFloat64())
	}
	size, ok := info.Size()
	if !ok {
		b.t.Fatalf("tensor %q of %v %s has no size", name, shape, typ)
	}
	raw := make([]byte, size)
	if err := quant.Encode(typ, raw, values, shape[0], nil); err != nil {
		b.t.Fatal(err)
	}
	b.add(info, raw)
}

func (b *tiny) matrix(name string, shape ...int) {
	typ := []gguf.Type{gguf.F16, gguf.Q8_0, gguf.F32, gguf.BF16}[len(b.infos)%4]
	if shape[0]%32 != 0 && typ == gguf.Q8_0 {
		typ = gguf.F16
	}
	b.tensor(name+".weight", typ, 0, 1.5/math.Sqrt(float64(shape[0])), shape...)
}

func (b *tiny) vector(name string, n int, mean float64) { b.tensor(name, gguf.F32, mean, 0.3, n) }

func (b *tiny) attention(i, heads, kvHeads, headLen int, norms bool) {
	b.matrix(block(i, "attn_q"), tinyWidth, heads*headLen)
	b.matrix(block(i, "attn_k"), tinyWidth, kvHeads*headLen)
	b.matrix(block(i, "attn_v"), tinyWidth, kvHeads*headLen)
	b.matrix(block(i, "attn_output"), heads*headLen, tinyWidth)
	if norms {
		b.headNorms(i, headLen)
	}
}

func (b *tiny) headNorms(i, headLen int) {
	b.vector(block(i, "attn_q_norm.weight"), headLen, 1)
	b.vector(block(i, "attn_k_norm.weight"), headLen, 1)
}

func (b *tiny) dense(i int, suffix string, hidden int) {
	b.matrix(block(i, "ffn_gate"+suffix), tinyWidth, hidden)
	b.matrix(block(i, "ffn_up"+suffix), tinyWidth, hidden)
	b.matrix(block(i, "ffn_down"+suffix), hidden, tinyWidth)
}

func (b *tiny) experts(i, count, hidden int, fused bool) {
	b.tensor(block(i, "ffn_gate_inp.weight"), gguf.F32, 0, 0.2, tinyWidth, count)
	if fused {
		b.matrix(block(i, "ffn_gate_up_exps"), tinyWidth, 2*hidden, count)
	} else {
		b.matrix(block(i, "ffn_gate_exps"), tinyWidth, hidden, count)
		b.matrix(block(i, "ffn_up_exps"), tinyWidth, hidden, count)
	}
	b.matrix(block(i, "ffn_down_exps"), hidden, tinyWidth, count)
}

func (b *tiny) llama(fused bool) {
	b.start("llama", 2, 2)
	b.matrix("output", tinyWidth, tinyVocab)
	b.tensor("rope_freqs.weight", gguf.F32, 2, 0.3, 8)
	for i := range 2 {
		if fused {
			b.matrix(block(i, "attn_qkv"), tinyWidth, (4+2+2)*16)
			b.vector(block(i, "attn_qkv.bias"), (4+2+2)*16, 0)
			b.matrix(block(i, "attn_output"), 64, tinyWidth)
			b.vector(block(i, "attn_output.scale"), 1, 1)
		} else {
			b.attention(i, 4, 2, 16, false)
			b.vector(block(i, "attn_q.bias"), 64, 0)
		}
		b.dense(i, "", 64)
		b.vector(block(i, "ffn_down.bias"), tinyWidth, 0)
	}
}

func (b *tiny) qwen35() {
	b.start("qwen35", 4, 1)
	b.number("nextn_predict_layers", 1)
	b.number("attention.key_length", 32)
	b.number("attention.value_length", 32)
	b.number("rope.dimension_count", 16)
	b.numbers("rope.dimension_sections", 3, 3, 2, 0)
	b.number("ssm.conv_kernel", 4)
	b.number("ssm.state_size", 16)
	b.number("ssm.group_count", 2)
	b.number("ssm.time_step_rank", 4)
	b.number("ssm.inner_size", 64)
	b.number("full_attention_interval", 3)
	for i := range 4 {
		if i < 2 {
			b.matrix(block(i, "attn_qkv"), tinyWidth, 128)
			b.matrix(block(i, "attn_gate"), tinyWidth, 64)
			b.matrix(block(i, "ssm_beta"), tinyWidth, 4)
			b.matrix(block(i, "ssm_alpha"), tinyWidth, 4)
			b.tensor(block(i, "ssm_conv1d.weight"), gguf.F32, 0, 0.5, 4, 128)
			b.vector(block(i, "ssm_dt.bias"), 4, -1)
			b.vector(block(i, "ssm_a"), 4, -1)
			b.vector(block(i, "ssm_norm.weight"), 16, 1)
			b.matrix(block(i, "ssm_out"), 64, tinyWidth)
		} else {
			b.matrix(block(i, "attn_q"), tinyWidth, 256)
			b.matrix(block(i, "attn_k"), tinyWidth, 32)
			b.matrix(block(i, "attn_v"), tinyWidth, 32)
			b.matrix(block(i, "attn_output"), 128, tinyWidth)
			b.headNorms(i, 32)
		}
		b.vector(block(i, "post_attention_norm.weight"), tinyWidth, 1)
		b.dense(i, "", 64)
	}
	b.nextn(3)
	b.matrix(block(3, "nextn.embed_tokens"), tinyWidth, tinyVocab)
	b.matrix(block(3, "nextn.shared_head_head"), tinyWidth, tinyVocab)
}

func (b *tiny) nextn(i int) {
	b.matrix(block(i, "nextn.eh_proj"), 2*tinyWidth, tinyWidth)
	b.vector(block(i, "nextn.enorm.weight"), tinyWidth, 1)
	b.vector(block(i, "nextn.hnorm.weight"), tinyWidth, 1)
}

func (b *tiny) gemma3() {
	b.start("gemma3", 3, 1)
	b.number("attention.key_length", 32)
	b.number("attention.value_length", 32)
	b.number("attention.sliding_window", 7)
	b.number("attention.sliding_window_pattern", 3)
	b.float("final_logit_softcapping", 20)
	for i := range 3 {
		b.attention(i, 4, 1, 32, true)
		b.vector(block(i, "post_attention_norm.weight"), tinyWidth, 1)
		b.vector(block(i, "post_ffw_norm.weight"), tinyWidth, 1)
		b.dense(i, "", 64)
	}
}

func (b *tiny) lfm2() {
	b.start("lfm2", 3, 0)
	b.numbers("attention.head_count_kv", 0, 2, 0)
	b.number("shortconv.l_cache", 3)
	b.vector("token_embd_norm.weight", tinyWidth, 1)
	for i := range 3 {
		if i == 1 {
			b.attention(i, 4, 2, 16, true)
		} else {
			b.matrix(block(i, "shortconv.in_proj"), tinyWidth, 3*tinyWidth)
			b.tensor(block(i, "shortconv.conv.weight"), gguf.F32, 0, 0.6, 3, tinyWidth)
			b.matrix(block(i, "shortconv.out_proj"), tinyWidth, tinyWidth)
		}
		b.dense(i, "", 64)
	}
}

func (b *tiny) granite(moe bool) {
	b.start("granitehybrid", 3, 0)
	b.numbers("attention.head_count_kv", 0, 2, 0)
	b.float("attention.scale", 0.3)
	b.float("embedding_scale", 3)
	b.float("residual_scale", 0.5)
	b.float("logit_scale", 2)
	b.number("ssm.conv_kernel", 4)
	b.number("ssm.inner_size", 128)
	b.number("ssm.state_size", 16)
	b.number("ssm.group_count", 2)
	b.number("ssm.time_step_rank", 8)
	b.flag("rope.scaling.finetuned", moe)
	if moe {
		b.number("expert_count", 6)
		b.number("expert_used_count", 2)
		b.number("expert_shared_feed_forward_length", 32)
	}
	for i := range 3 {
		if i == 1 {
			b.attention(i, 4, 2, 16, false)
		} else {
			b.matrix(block(i, "ssm_in"), tinyWidth, 128+192+8)
			b.tensor(block(i, "ssm_conv1d.weight"), gguf.F32, 0, 0.5, 4, 192)
			b.vector(block(i, "ssm_conv1d.bias"), 192, 0)
			b.vector(block(i, "ssm_dt.bias"), 8, -1)
			b.tensor(block(i, "ssm_a"), gguf.F32, -1, 0.2, 1, 8)
			b.tensor(block(i, "ssm_d"), gguf.F32, 1, 0.2, 1, 8)
			b.tensor(block(i, "ssm_norm.weight"), gguf.F32, 1, 0.2, 64, 2)
			b.matrix(block(i, "ssm_out"), 128, tinyWidth)
		}
		if moe {
			b.experts(i, 6, 64, false)
			b.dense(i, "_shexp", 32)
		} else {
			b.dense(i, "", 96) // not feed_forward_length
		}
	}
}

func (b *tiny) routing() {
	b.number("leading_dense_block_count", 1)
	b.number("expert_count", 8)
	b.number("expert_used_count", 3)
	b.number("expert_group_count", 4)
	b.number("expert_group_used_count", 2)
	b.number("expert_feed_forward_length", 32)
	b.number("expert_shared_feed_forward_length", 32)
	b.number("expert_shared_count", 1)
	b.float("expert_weights_scale", 2.5)
	b.flag("expert_weights_norm", true)
	b.number("expert_gating_func", 2)
}

func (b *tiny) bailing2() {
	b.start("bailingmoe2", 2, 1)
	b.matrix("output", tinyWidth, tinyVocab)
	b.number("rope.dimension_count", 8)
	b.routing()
	for i := range 2 {
		b.matrix(block(i, "attn_qkv"), tinyWidth, 6*16)
		b.matrix(block(i, "attn_output"), 64, tinyWidth)
		b.headNorms(i, 16)
		if i == 0 {
			b.dense(i, "", 64)
			continue
		}
		b.experts(i, 8, 32, true)
		b.vector(block(i, "exp_probs_b.bias"), 8, 0)
		b.dense(i, "_shexp", 32)
	}
}

func (b *tiny) bailing3() {
	b.start("bailingmoe3", 3, 0)
	b.numbers("attention.head_count_kv", 0, 1, 1)
	b.number("nextn_predict_layers", 1)
	b.number("attention.key_length", 48)
	b.number("attention.key_length_mla", 24)
	b.number("attention.value_length_mla", 16)
	b.number("attention.kv_lora_rank", 32)
	b.number("rope.dimension_count", 8)
	b.number("ssm.conv_kernel", 4)
	b.number("kda.head_dim", 16)
	b.float("kda.gate_lower_bound", -5)
	b.routing()
	for i := range 3 {
		if i == 0 {
			for _, x := range []string{"q", "k", "v"} {
				b.matrix(block(i, "attn_"+x), tinyWidth, 64)
				b.tensor(block(i, "ssm_conv1d_"+x+".weight"), gguf.F32, 0, 0.5, 4, 1, 64, 1)
			}
			b.matrix(block(i, "ssm_f"), tinyWidth, 64) // the short name
			b.vector(block(i, "ssm_dt.bias"), 64, -1)
			b.tensor(block(i, "ssm_a"), gguf.F32, 1, 0.2, 1, 4)
			b.matrix(block(i, "ssm_beta"), tinyWidth, 4)
			b.matrix(block(i, "ssm_g_a"), tinyWidth, 64)
			b.vector(block(i, "ssm_norm.weight"), 16, 1)
			b.matrix(block(i, "attn_output"), 64, tinyWidth)
			b.dense(i, "", 64)
			continue
		}
		b.matrix(block(i, "attn_q_a"), tinyWidth, 32)
		b.vector(block(i, "attn_q_a_norm.weight"), 32, 1)
		b.matrix(block(i, "attn_q_b"), 32, 4*24)
		b.matrix(block(i, "attn_kv_a_mqa"), tinyWidth, 40)
		b.vector(block(i, "attn_kv_a_norm.weight"), 32, 1)
		b.matrix(block(i, "attn_k_b"), 16, 32, 4)
		b.matrix(block(i, "attn_v_b"), 32, 16, 4)
		b.matrix(block(i, "attn_gate"), tinyWidth, 4)
		b.matrix(block(i, "attn_output"), 64, tinyWidth)
		b.experts(i, 8, 32, false)
		b.vector(block(i, "exp_probs_b.bias"), 8, 0)
		b.dense(i, "_shexp", 32)
	}
	b.nextn(2)
}

// tinyTokens returns n tokens of the tiny vocabulary.
func tinyTokens(n int) []int32 {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(tinyVocab)
	}
	return ids
}
