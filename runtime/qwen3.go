package runtime

// qwen3: llama with an RMS norm of each query and key head and NEOX rotation. The head size is a key of its own.

type qwen3 struct {
	common
	rope   rope
	blocks []llamaBlock
	ff     int
}

func loadQwen3(k *keys, l *loader, m *Model) weights {
	w := &qwen3{common: readCommon(k), ff: k.need("feed_forward_length")}
	w.rope = readRope(k, k.count("rope.dimension_count", w.keyLen), true, k.scale("rope.freq_base", 10000), readScaling(k, w.context))
	w.rope.mustFit(k, w.keyLen)
	m.ends.declare(k, l, w.common, "output_norm.weight")
	w.blocks = make([]llamaBlock, w.layers)
	for i := range w.blocks {
		b := &w.blocks[i]
		l.vector(&b.attnNorm, block(i, "attn_norm.weight"), w.width)
		b.attn.declare(l, w.common, i, false)
		b.attn.declareNorms(l, i)
		l.vector(&b.ffnNorm, block(i, "ffn_norm.weight"), w.width)
		b.ffn.declare(l, block(i, ""), "", w.width, w.ff)
	}
	return w
}

// session: norms before the rotation are the attention layer's own business, so the pass is that of llama.
func (w *qwen3) session(a *arena) network {
	return newLlamaState(a, w.common, w.rope, w.blocks, w.ff)
}
