package runtime

// feedForward is the gated network W_down(act(W_gate x) · W_up x).
type feedForward struct {
	gate, up matrix // [d, F]
	down     matrix // [F, d]
	kind     gate
	clamp    float32 // see gluTask
}

// declare reads the tensors PREFIXffn_gate, ffn_up and ffn_down with a suffix such as "_shexp".
func (f *feedForward) declare(l *loader, prefix, suffix string, width, hidden int) {
	l.matrix(&f.gate, prefix+"ffn_gate"+suffix, width, hidden)
	l.matrix(&f.up, prefix+"ffn_up"+suffix, width, hidden)
	l.matrix(&f.down, prefix+"ffn_down"+suffix, hidden, width)
}

// feedForwardScratch is the memory of the hidden layer, for the widest network.
type feedForwardScratch struct {
	gate, up []float32 // [tokens][F]
}

func newFeedForwardScratch(a *arena, hidden int) feedForwardScratch {
	return feedForwardScratch{a.perToken(hidden), a.perToken(hidden)}
}

// feed writes the network's output for the current activations to dst, [rows][d].
func (e *engine) feed(dst []float32, f *feedForward, s feedForwardScratch) {
	rows := e.act.rows
	gate, up := s.gate[:rows*f.gate.out], s.up[:rows*f.gate.out]
	e.mul(gate, &f.gate)
	e.mul(up, &f.up)
	e.gated(gate, up, f.kind, f.clamp)
	e.act.set(gate, rows, f.gate.out)
	e.mul(dst, &f.down)
}
