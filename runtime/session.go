package runtime

import (
	"errors"
	"fmt"

	"gguf-forge/internal/fault"
)

// SessionOptions say how large a session is. The zero value is fit for use.
type SessionOptions struct {
	Context int    // positions; 0: what the model was trained for, at most 4096
	KV      KVType // of the cache
	Batch   int    // tokens that go through the network together; 0: 64
	Shift   bool   // at the end of the context forget the older half instead of stopping
	Keep    int    // tokens at the beginning that a shift never forgets
	Hidden  bool   // keep hidden vectors for Session.Hidden and drafting
	Logits  int    // positions whose logits EvalAll computes together, which is faster; 0: 1. Each takes Vocab floats
}

// DefaultContext is the longest context that is taken without being asked for.
const DefaultContext = 4096

const (
	defaultBatch = 64
	maxContext   = 1 << 24
	maxBatch     = 4096
)

// ErrContextFull says that a sequence has reached the end of its context. Nothing was evaluated.
var ErrContextFull = errors.New("the context is full")

// complete fills in defaults and refuses what can't be.
func (m *Model) complete(opt SessionOptions) (SessionOptions, error) {
	if opt.Context == 0 {
		opt.Context = DefaultContext
		if n := m.common.context; n > 0 {
			opt.Context = min(opt.Context, n)
		}
	}
	if opt.Batch == 0 {
		opt.Batch = defaultBatch
	}
	if opt.Context < 1 || opt.Context > maxContext {
		return opt, fault.New(fault.Usage, "a context of %d tokens can't be had; 1 to %d can", opt.Context, maxContext)
	}
	if opt.Batch < 1 || opt.Batch > maxBatch {
		return opt, fault.New(fault.Usage, "batches of %d tokens can't be had; 1 to %d can", opt.Batch, maxBatch)
	}
	opt.Batch = min(opt.Batch, opt.Context)
	if opt.Logits < 0 {
		return opt, fault.New(fault.Usage, "logits of %d positions can't be had", opt.Logits)
	}
	opt.Logits = min(max(opt.Logits, 1), opt.Batch)
	if opt.KV == KVDefault {
		opt.KV = KVF16
		if m.opt.Exact {
			opt.KV = KVF32
		}
	}
	if opt.Keep < 0 || opt.Shift && opt.Keep > opt.Context/2 {
		return opt, fault.New(fault.Usage, "%d tokens of a context of %d can't be kept in a shift; at most half can", opt.Keep, opt.Context)
	}
	return opt, m.checkKV(opt.KV)
}

// checkKV refuses a cache type whose blocks don't fit the heads.
func (m *Model) checkKV(t KVType) error {
	if t < KVF16 || t > KVQ8_0 {
		return fault.New(fault.Usage, "unknown cache type %d", int(t))
	}
	if t != KVQ8_0 {
		return nil
	}
	a := &arena{dry: true, context: 1, batch: 1, workers: 1, kv: t}
	m.weights.session(a)
	for _, c := range a.caches {
		if c.k.cols%32 != 0 || c.valLen()%32 != 0 {
			return fault.New(fault.BadInput, "heads of %d and %d values can't be cached as q8_0, which stores 32 at a time", c.k.cols, c.valLen())
		}
	}
	return nil
}

func (m *Model) arena(opt SessionOptions, dry bool) *arena {
	return &arena{dry: dry, batch: opt.Batch, context: opt.Context, workers: m.opt.Threads, kv: opt.KV}
}

func (m *Model) sessionMemory(opt SessionOptions) Memory {
	a := m.arena(opt, true)
	m.newSession(opt, a)
	return a.memory
}

// Session is one sequence of tokens, with its cache and state. It is for one goroutine at a time.
type Session struct {
	m      *Model
	opt    SessionOptions
	arena  *arena
	engine *engine
	net    network

	tokens  []int32   // evaluated so far, in the cache
	x       []float32 // [batch][d]
	last    []float32 // [d], hidden vector of the newest token
	hidden  []float32 // [context][d] with SessionOptions.Hidden
	logits  []float32 // [Logits][vocab]
	pruned  []float32 // [Logits][head rows]
	shifted int       // tokens forgotten so far
	edits   int       // how often positions were given up, for snapshots
}

// NewSession makes an empty sequence. It fails if its memory would exceed the limit of the model.
func (m *Model) NewSession(opt SessionOptions) (*Session, error) {
	opt, err := m.complete(opt)
	if err != nil {
		return nil, err
	}
	need := m.sessionMemory(opt)
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.memory.plus(need)
	all.Buffers += m.used
	if err := m.fits(all); err != nil {
		return nil, err
	}
	m.used += need.Total()
	return m.newSession(opt, m.arena(opt, false)), nil
}

func (m *Model) newSession(opt SessionOptions, a *arena) *Session {
	s := &Session{m: m, opt: opt, arena: a, engine: newEngine(m.pool, a, m.acts, m.opt.Exact), net: m.weights.session(a)}
	width := m.common.width
	s.x = a.perToken(width)
	s.last = a.buffer(width)
	s.logits = a.buffer(opt.Logits, m.ends.vocab)
	if m.ends.idsTensor >= 0 {
		s.pruned = a.buffer(opt.Logits, m.ends.head.out)
	}
	if opt.Hidden {
		s.hidden = a.buffer(opt.Context, width)
	}
	a.memory.Buffers += 4 * int64(opt.Context)
	if !a.dry {
		s.tokens = make([]int32, 0, opt.Context)
	}
	return s
}

// Close gives the session's share of the memory limit back. The session must not be used afterwards.
func (s *Session) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.used -= s.arena.memory.Total()
	*s = Session{}
}

// Model returns the model of the session.
func (s *Session) Model() *Model { return s.m }

// Memory returns what the session takes, without weights.
func (s *Session) Memory() Memory { return s.arena.memory }

// Context returns how many positions there are.
func (s *Session) Context() int { return s.opt.Context }

// Position returns the number of tokens evaluated: the position of the next one.
func (s *Session) Position() int { return len(s.tokens) }

// Shifted returns how many tokens were forgotten by shifts.
func (s *Session) Shifted() int { return s.shifted }

// Tokens returns the tokens evaluated. The slice is the session's own.
func (s *Session) Tokens() []int32 { return s.tokens }

// Eval appends tokens and returns the logits after the last of them, [vocab]; tokens of a pruned head that
// are not in it have −∞. The slice is valid until the next call. With no tokens it returns nil.
//
// At the end of the context it returns an error that is ErrContextFull before anything is evaluated, or, with
// SessionOptions.Shift, forgets the older half of the tokens, as if they had never been there. More tokens than the context has
// positions are refused in any case.
func (s *Session) Eval(ids []int32) ([]float32, error) {
	if err := s.prepare(ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	if err := s.eval(ids, nil); err != nil {
		return nil, err
	}
	s.head(s.last, 1)
	return s.logits[:s.m.ends.vocab], nil
}

// EvalAll appends tokens as Eval does and calls each with the index of a token and the logits after it, in order. The
// logits are valid during the call. An error of each ends the evaluation after that batch and is returned.
func (s *Session) EvalAll(ids []int32, each func(i int, logits []float32) error) error {
	if err := s.prepare(ids); err != nil {
		return err
	}
	width, vocab := s.m.common.width, s.m.ends.vocab
	return s.eval(ids, func(first, n int, hidden []float32) error {
		for lo := 0; lo < n; lo += s.opt.Logits {
			hi := min(lo+s.opt.Logits, n)
			s.head(hidden[lo*width:hi*width], hi-lo)
			for i := lo; i < hi; i++ {
				if err := each(first+i, s.logits[(i-lo)*vocab:(i-lo+1)*vocab]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Hidden returns the hidden vector (after the final norm) of the token at a position. It needs SessionOptions.Hidden.
func (s *Session) Hidden(pos int) []float32 {
	width := s.m.common.width
	return s.hidden[pos*width : (pos+1)*width]
}

// prepare checks tokens and makes room for them.
func (s *Session) prepare(ids []int32) error {
	if err := s.m.ends.check(ids); err != nil {
		return err
	}
	room := s.opt.Context - len(s.tokens)
	if len(ids) <= room {
		return nil
	}
	if len(ids) > s.opt.Context {
		err := fault.New(fault.BadInput, "%w: %d tokens don't fit into %d positions", ErrContextFull, len(ids), s.opt.Context)
		return fault.WithHint(err, "take a longer context")
	}
	if !s.opt.Shift {
		err := fault.New(fault.BadInput, "%w: %d positions are taken, %d more don't fit into %d", ErrContextFull, len(s.tokens), len(ids), s.opt.Context)
		return fault.WithHint(err, "take a longer context, or allow it to shift")
	}
	return s.shift(len(ids))
}

// shift forgets tokens after the first Keep until need more fit: at least half of the others. What remains is evaluated
// anew, so the session is exactly that of the remaining tokens, recurrent layers included.
func (s *Session) shift(need int) error {
	keep := min(s.opt.Keep, len(s.tokens), s.opt.Context-need)
	drop := max((len(s.tokens)-keep+1)/2, len(s.tokens)+need-s.opt.Context)
	rest := append(append([]int32(nil), s.tokens[:keep]...), s.tokens[keep+drop:]...)
	s.Reset()
	s.shifted += drop
	return s.eval(rest, nil)
}

// eval runs tokens through the network, batch by batch. each, if not nil, is called with the number of the first token of a batch,
// the number of tokens, and their hidden vectors.
func (s *Session) eval(ids []int32, each func(first, n int, hidden []float32) error) error {
	width := s.m.common.width
	for done := 0; done < len(ids); {
		n := min(s.opt.Batch, len(ids)-done)
		p := pass{tokens: n, pos: len(s.tokens), x: s.x[:n*width]}
		for i, id := range ids[done : done+n] {
			s.m.ends.embedding(p.x[i*width:(i+1)*width], id)
		}
		s.net.forward(s.engine, p)
		s.tokens = append(s.tokens, ids[done:done+n]...)
		if each != nil || s.opt.Hidden {
			s.engine.normRows(p.x, p.x, s.m.ends.norm, n, s.m.ends.eps)
			copy(s.last, p.x[(n-1)*width:])
		} else {
			normalize(s.last, p.x[(n-1)*width:], s.m.ends.norm, s.m.ends.eps)
		}
		if s.opt.Hidden {
			copy(s.hidden[p.pos*width:], p.x)
		}
		if each != nil {
			if err := each(done, n, p.x); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}

// head computes logits of rows hidden vectors.
func (s *Session) head(hidden []float32, rows int) {
	s.m.ends.logits(s.engine, nil, s.logits, s.pruned, hidden, rows)
}

// Reset forgets all tokens.
func (s *Session) Reset() {
	for _, st := range s.arena.states {
		clear(st)
	}
	s.tokens = s.tokens[:0]
	s.edits++
}

// Snapshot is the state of a session at a position. Keys and values are not copied: a snapshot is good as long as
// the session still has the tokens before that position.
type Snapshot struct {
	session  *Session
	position int
	edits    int
	states   [][]float32
	last     []float32
}

// Snapshot takes a copy of the recurrent state. For a model without one it is small.
func (s *Session) Snapshot() *Snapshot {
	snap := &Snapshot{session: s, position: len(s.tokens), edits: s.edits, last: append([]float32(nil), s.last...)}
	for _, st := range s.arena.states {
		snap.states = append(snap.states, append([]float32(nil), st...))
	}
	return snap
}

// Restore goes back to a snapshot: later tokens are forgotten. It fails if the session was reset, shifted or restored to an
// earlier position in between, or if a layer with a sliding window no longer has what that position sees.
func (s *Session) Restore(snap *Snapshot) error {
	if snap.session != s || snap.edits != s.edits && snap.position > 0 {
		return errors.New("the snapshot is of another sequence")
	}
	if err := s.canDrop(len(s.tokens) - snap.position); err != nil {
		return err
	}
	for i, st := range snap.states {
		copy(s.arena.states[i], st)
	}
	copy(s.last, snap.last)
	s.tokens = s.tokens[:snap.position]
	return nil
}

// canDrop reports whether the newest n positions can be given up.
func (s *Session) canDrop(n int) error {
	for _, c := range s.arena.caches {
		if c.window > 0 && len(s.tokens) > c.cells && n > c.spare() {
			return fmt.Errorf("%d positions can't be taken back: a sliding window keeps only %d", n, c.spare())
		}
	}
	return nil
}

// Truncate forgets all tokens from a position on. Models with recurrent state can't: they need a Snapshot.
func (s *Session) Truncate(pos int) error {
	if pos < 0 || pos > len(s.tokens) {
		return fmt.Errorf("position %d is not among the %d of the session", pos, len(s.tokens))
	}
	if pos == len(s.tokens) {
		return nil
	}
	if len(s.arena.states) > 0 && pos > 0 {
		return errors.New("the model has recurrent state, which can't be cut back without a snapshot")
	}
	if pos == 0 {
		s.Reset()
		return nil
	}
	if err := s.canDrop(len(s.tokens) - pos); err != nil {
		return err
	}
	s.tokens = s.tokens[:pos]
	return nil
}
