package quant

import (
	"strings"

	"gguf-forge/gguf"
)

// Names of tensors that have rules of their own.
const (
	outputName         = "output.weight"
	embeddingName      = "token_embd.weight"
	layerEmbeddingName = "per_layer_token_embd.weight"
)

func isEmbedding(name string) bool { return name == embeddingName || name == layerEmbeddingName }

// keptNames are parts of the names of tensors that are never quantized: routers, small convolutions and
// mixing matrices, position tables, encoders of images and sound. The list grows with the architectures; this is
// the reference's of August 2026.
var keptNames = []string{
	"_norm.weight",
	"ffn_gate_inp.weight",
	"ffn_gate_tid2eid.weight",
	"altup",
	"laurel",
	"per_layer_model_proj",
	"ssm_conv1d",
	"shortconv.conv.weight",
	"indexer.k_proj.weight",
	"indexer.q_proj.weight",
	"time_mix_first.weight",
	"time_mix_w0.weight",
	"time_mix_w1.weight",
	"time_mix_w2.weight",
	"time_mix_v0.weight",
	"time_mix_v1.weight",
	"time_mix_v2.weight",
	"time_mix_a0.weight",
	"time_mix_a1.weight",
	"time_mix_a2.weight",
	"time_mix_g1.weight",
	"time_mix_g2.weight",
	"time_mix_decay_w1.weight",
	"time_mix_decay_w2.weight",
	"time_mix_lerp_fused.weight",
	"attn_rel_b.weight",
	".position_embd",
	"sam.pos_embd",
	"sam.neck.",
	"sam.net_",
	".rel_pos",
	".patch_embd",
	".patch_merger",
	"a.rvq.codebook",
	"mm.a.code_embd",
}

// keep returns why a tensor is not quantized at all, or "" if it is.
func (o Options) keep(name string, t gguf.TensorInfo) string {
	switch {
	case o.FileType == Copy:
		return "copied"
	case dimensions(t) < 2:
		return "one dimension"
	case !strings.HasSuffix(name, "weight"):
		return "no weight"
	case o.LeaveOutput && name == outputName:
		return "output left as it is"
	case name == "position_embd.weight" || name == "token_types.weight":
		return "never quantized"
	}
	for _, part := range keptNames {
		if strings.Contains(name, part) {
			return "never quantized"
		}
	}
	return ""
}

// dimensions counts up to the last dimension larger than 1.
func dimensions(t gguf.TensorInfo) int {
	for i := len(t.Shape) - 1; i > 0; i-- {
		if t.Shape[i] > 1 {
			return i + 1
		}
	}
	return 1
}

// category is the role of a tensor in the mixture rules.
type category int

const (
	other category = iota
	headTensor
	embeddingTensor
	valueTensor // also fused query, key and value
	keyTensor
	queryTensor
	attentionOutTensor
	upTensor
	gateTensor
	downTensor
)

func (c category) String() string {
	return [...]string{"other", "head", "embedding", "attention value", "attention key", "attention query", "attention output",
		"feed-forward up", "feed-forward gate", "feed-forward down"}[c]
}

// categoryOf is decided by the first part of the name that is found.
func categoryOf(name string) category {
	switch {
	case name == outputName:
		return headTensor
	case isEmbedding(name):
		return embeddingTensor
	}
	for _, e := range []struct {
		part string
		is   category
	}{
		{"attn_qkv.weight", valueTensor},
		{"attn_kv_b.weight", valueTensor},
		{"attn_v.weight", valueTensor},
		{"attn_k.weight", keyTensor},
		{"attn_q.weight", queryTensor},
		{"attn_output.weight", attentionOutTensor},
		{"ffn_up", upTensor},
		{"ffn_gate", gateTensor},
		{"ffn_down", downTensor},
	} {
		if strings.Contains(name, e.part) {
			return e.is
		}
	}
	return other
}
