package gguf

import (
	"strconv"
	"strings"
)

// Part is a part of a model that people count bytes of.
type Part string

// The parts, in the order in which they are printed.
const (
	PartEmbedding   Part = "embedding"
	PartHead        Part = "head"
	PartAttention   Part = "attention"
	PartRecurrent   Part = "recurrent"    // state-space, delta-rule and short-convolution mixers
	PartFeedForward Part = "feed-forward" // with shared experts and routers, which every token reads
	PartExperts     Part = "experts"      // the routed ones
	PartMTP         Part = "mtp"          // whole blocks that predict further tokens
	PartNorms       Part = "norms"
	PartOther       Part = "other"
)

var allParts = []Part{PartEmbedding, PartHead, PartAttention, PartRecurrent, PartFeedForward, PartExperts, PartMTP, PartNorms, PartOther}

// block splits blk.12.attn_q.weight into 12 and attn_q.weight; a tensor outside the blocks has number -1.
func block(name string) (no int, rest string) {
	after, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return -1, name
	}
	digits, rest, ok := strings.Cut(after, ".")
	no, err := strconv.Atoi(digits)
	if !ok || err != nil || no < 0 {
		return -1, name
	}
	return no, rest
}

// partitioner knows what names alone don't tell: which blocks predict further tokens, and in which ones
// the attn_* tensors belong to a recurrent mixer.
type partitioner struct {
	mtp   map[int]bool
	delta map[int]bool
}

// newPartitioner looks at all names. MTP blocks are found by their nextn tensors, because files exist whose metadata
// counts blocks they don't have. A block with ssm_* tensors but without ssm_in is a delta-rule mixer, which keeps its
// projections in attn_*; one with ssm_in is a Mamba mixer, beside which attention may stand in the same block.
func newPartitioner(names []string) partitioner {
	p := partitioner{mtp: map[int]bool{}, delta: map[int]bool{}}
	mamba := map[int]bool{}
	for _, name := range names {
		no, rest := block(name)
		switch {
		case no < 0:
		case strings.HasPrefix(rest, "nextn."):
			p.mtp[no] = true
		case strings.HasPrefix(rest, "ssm_in."):
			mamba[no] = true
		case strings.HasPrefix(rest, "ssm_"):
			p.delta[no] = true
		}
	}
	for no := range mamba {
		delete(p.delta, no)
	}
	return p
}

func (p partitioner) part(name string) Part {
	no, rest := block(name)
	if no < 0 {
		return globalPart(name)
	}
	stem, kind, _ := strings.Cut(rest, ".")
	switch {
	case p.mtp[no]:
		return PartMTP
	case strings.HasSuffix(stem, "norm") || strings.HasPrefix(stem, "attn_norm") || stem == "ffn_norm_exps":
		return PartNorms
	case strings.HasSuffix(stem, "_exps"), strings.HasPrefix(stem, "ffn_") && kind != "" && isDigit(kind[0]): // ffn_up.3.weight: one expert each, as of 2023
		return PartExperts
	case hasAnyPrefix(stem, "ssm_", "shortconv", "time_mix"):
		return PartRecurrent
	case strings.HasPrefix(stem, "attn_") && p.delta[no]:
		return PartRecurrent
	case hasAnyPrefix(stem, "attn_", "cross_attn", "indexer"):
		return PartAttention
	case hasAnyPrefix(stem, "ffn_", "exp_probs_b", "channel_mix"):
		return PartFeedForward
	}
	return PartOther
}

// globalPart sorts the tensors outside the blocks.
func globalPart(name string) Part {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "token_embd", "token_types", "position_embd", "per_layer_token_embd":
		return PartEmbedding
	case "output", "output_ids", "d2t": // the maps from rows of a pruned head to token ids
		return PartHead
	case "mtp", "nextn":
		return PartMTP
	}
	if strings.HasSuffix(stem, "norm") {
		return PartNorms
	}
	return PartOther
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
