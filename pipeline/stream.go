package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"gguf-forge/internal/fault"
)

// StreamOptions say which bytes to stream and with which means. None of them changes a byte.
type StreamOptions struct {
	Offset   int64
	Length   int64          // 0: to the end
	Memory   int64          // budget for source bytes and output in flight; 0: DefaultMemory
	Threads  int            // workers; 0: one per CPU
	Fetches  int            // ranges in flight; 0: 16
	Progress func(Progress) // called from one goroutine after every write
	Manifest *Manifest      // collects the hashes of a lock
}

// DefaultMemory is the byte budget of a stream.
const DefaultMemory = 256 << 20

// Progress is the state of a running stream.
type Progress struct {
	Tensor  string // the tensor being written, "" in the header
	Written int64
	Total   int64
}

// Result describes what was streamed.
type Result struct {
	Offset  int64         `json:"offset"`
	Bytes   int64         `json:"bytes"`
	SHA256  string        `json:"sha256"` // of the bytes streamed
	Sources []SourceCheck `json:"sources,omitempty"`
}

// SourceCheck says whether a source whose SHA-256 is known passed through completely and was checked against it.
type SourceCheck struct {
	Source  string `json:"source"`
	Checked bool   `json:"checked"`
}

// Stream writes bytes [Offset, Offset+Length) to w, in order, and returns their hash. Sources are read ahead in a few
// large ranges, rows are computed by a pool of workers, and all of it stays inside the memory budget. On an error,
// Result.Bytes says how much was written; what was written is right.
func (a *Artifact) Stream(ctx context.Context, w io.Writer, opt StreamOptions) (Result, error) {
	if opt.Offset < 0 || opt.Offset > a.Size() || opt.Length < 0 || opt.Length > a.Size()-opt.Offset {
		return Result{}, fault.New(fault.Usage, "offset %d and length %d lie outside the artifact of %d bytes", opt.Offset, opt.Length, a.Size())
	}
	if opt.Length == 0 {
		opt.Length = a.Size() - opt.Offset
	}
	s := newStream(a, w, opt)
	err := s.run(ctx)
	res := Result{Offset: opt.Offset, Bytes: s.written, SHA256: hex.EncodeToString(s.hash.Sum(nil))}
	if err != nil {
		return res, err
	}
	res.Sources, err = s.sources.checks()
	return res, err
}

// stream is one run of Stream. Three stages are joined by channels: the planner takes batches of slabs in order, reserves
// their memory and starts their reads; workers compute slabs as their source bytes arrive; the writer emits slabs in order,
// hashes them and gives the memory back. Memory is reserved in output order, so the batch the writer waits for always has
// its share and the stages can't block each other.
type stream struct {
	a        *Artifact
	opt      StreamOptions
	out      io.Writer
	hash     hash.Hash
	end      int64
	pos      int64 // next byte of the artifact to emit
	written  int64
	budget   *semaphore.Weighted
	total    int64 // of the budget
	fetch    int64 // bytes of a batch, read and written
	slab     int64 // bytes of a slab
	ordered  chan *batch
	jobs     chan *unit
	fetching chan struct{}
	buffers  bufferList
	sources  tracks
}

// verbatim is a tensor whose rows are the bytes of their only range: nothing is computed, and nothing need be copied.
type verbatim interface {
	Check(lo, hi int64, in []byte) error // of the rows, as Rows would
}

// unit is a slab on its way from source bytes to output.
type unit struct {
	slab
	same  verbatim // nil: rows are computed into dst
	dst   []byte
	needs []need
	in    [][]byte // the bytes of needs
	err   error
	done  chan struct{}
}

// need is where the bytes of one Range lie in the batch's reads.
type need struct {
	read     int
	from, to int64
}

// batch is a run of units whose source bytes are read together.
type batch struct {
	units   []*unit
	reads   []Range
	in      [][]byte // of reads
	cost    int64    // of the budget: source bytes and output
	buf     []byte   // behind in
	outputs []byte   // behind the units' dst
	err     error
	fetched chan struct{}
}

// The sizes of a batch's reads and of a slab: large enough to hide a round trip, small enough for several in a budget.
const (
	minFetch = 256 << 10
	maxFetch = 8 << 20
	// More batches in flight than that would only take memory.
	maxBatches = 10
	maxSlab    = 1 << 20
)

func newStream(a *Artifact, w io.Writer, opt StreamOptions) *stream {
	if opt.Memory <= 0 {
		opt.Memory = DefaultMemory
	}
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	if opt.Fetches <= 0 {
		opt.Fetches = 16
	}
	s := &stream{
		a: a, opt: opt, end: opt.Offset + opt.Length, pos: opt.Offset, hash: sha256.New(),
		budget: semaphore.NewWeighted(opt.Memory), total: opt.Memory,
		fetch:    min(max(opt.Memory/12, minFetch), maxFetch),
		ordered:  make(chan *batch, maxBatches),
		jobs:     make(chan *unit),
		fetching: make(chan struct{}, opt.Fetches),
	}
	s.slab = min(s.fetch/4, maxSlab)
	sinks := []io.Writer{w, s.hash}
	if opt.Manifest != nil {
		sinks = append(sinks, opt.Manifest.writers(a, opt.Offset)...)
	}
	s.out = newTee(sinks)
	s.sources = newTracks(a, opt)
	return s
}

func (s *stream) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.plan(ctx) })
	for range s.opt.Threads {
		g.Go(func() error { s.work(); return nil })
	}
	g.Go(func() error { return s.write(ctx) })
	return g.Wait()
}

// plan reserves memory for one batch after the other and starts their reads.
func (s *stream) plan(ctx context.Context) error {
	var reads sync.WaitGroup
	defer func() {
		reads.Wait()
		close(s.jobs)
	}()
	defer close(s.ordered)
	for b := range s.batches {
		if err := s.budget.Acquire(ctx, b.cost); err != nil {
			return err
		}
		select {
		case s.ordered <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		reads.Go(func() { s.read(ctx, b) })
	}
	return nil
}

// batches yields the slabs of the stream in groups of about s.fetch bytes read or written.
func (s *stream) batches(yield func(*batch) bool) {
	b := new(batch)
	for sl := range s.a.slabs(s.opt.Offset, s.end, s.slab) {
		ranges := s.a.tensors[sl.tensor].Needs(sl.lo, sl.hi)
		n := sl.size
		for _, r := range ranges {
			n += r.Len
		}
		if b.cost > 0 && b.cost+n > s.fetch {
			if !yield(s.finish(b)) {
				return
			}
			b = new(batch)
		}
		// Rows of one matrix are near each other on purpose; what lies between two tensors is needed elsewhere, unless it
		// is padding.
		gap := int64(paddingGap)
		if n := len(b.units); n > 0 && b.units[n-1].tensor == sl.tensor {
			gap = coalesceGap
		}
		u := &unit{slab: sl, done: make(chan struct{})}
		for _, r := range s.sources.withGaps(ranges) {
			u.needs = append(u.needs, b.add(r, gap))
			gap = coalesceGap
		}
		// Gaps are read for the source's hash only; the slab does not see them.
		u.needs = u.needs[len(u.needs)-len(ranges):]
		if u.same, _ = s.a.tensors[sl.tensor].(verbatim); u.same == nil {
			b.cost += sl.size
		}
		b.units = append(b.units, u)
	}
	for _, r := range s.sources.tails() {
		b.add(r, 0)
	}
	if len(b.units) > 0 || len(b.reads) > 0 {
		yield(s.finish(b))
	}
}

// How many bytes are read in vain to save a request: between the rows of a pruned head one or two, which take no longer than a
// request's share of a round trip; between tensors padding.
const (
	coalesceGap = 8 << 10
	paddingGap  = 64
)

// add notes that r must be read and says where; ranges with at most so many bytes between them become one read.
func (b *batch) add(r Range, most int64) need {
	if last := len(b.reads) - 1; last >= 0 && b.reads[last].Source == r.Source {
		from := r.Off - b.reads[last].Off
		if gap := from - b.reads[last].Len; gap >= 0 && gap <= most {
			b.reads[last].Len = from + r.Len
			b.cost += gap + r.Len
			return need{last, from, from + r.Len}
		}
	}
	b.cost += r.Len
	b.reads = append(b.reads, r)
	return need{len(b.reads) - 1, 0, r.Len}
}

// finish makes a batch ready for the stages.
func (s *stream) finish(b *batch) *batch {
	b.cost = min(b.cost, s.total)
	b.fetched = make(chan struct{})
	return b
}

// read fetches the source bytes of b and hands its units to the workers.
func (s *stream) read(ctx context.Context, b *batch) {
	defer close(b.fetched)
	var in, out int64
	for _, r := range b.reads {
		in += r.Len
	}
	for _, u := range b.units {
		if u.same == nil {
			out += u.size
		}
	}
	b.buf, b.outputs = s.buffers.get(in), s.buffers.get(out)
	if b.err = s.fetchAll(ctx, b); b.err != nil {
		return
	}
	rest := b.outputs
	for _, u := range b.units {
		for _, n := range u.needs {
			u.in = append(u.in, b.in[n.read][n.from:n.to])
		}
		if u.same != nil {
			u.dst = u.in[0]
		} else {
			u.dst, rest = rest[:u.size:u.size], rest[u.size:]
		}
		select {
		case s.jobs <- u:
		case <-ctx.Done():
			b.err = ctx.Err()
			return
		}
	}
}

// fetchAll reads all ranges of b into its buffer, several at once.
func (s *stream) fetchAll(ctx context.Context, b *batch) error {
	g, ctx := errgroup.WithContext(ctx)
	rest := b.buf
	for _, r := range b.reads {
		p := rest[:r.Len:r.Len]
		rest = rest[r.Len:]
		b.in = append(b.in, p)
		select {
		case s.fetching <- struct{}{}:
		case <-ctx.Done():
			return cmp.Or(g.Wait(), ctx.Err())
		}
		g.Go(func() error {
			defer func() { <-s.fetching }()
			_, err := r.Source.ReadAt(ctx, p, r.Off)
			return err
		})
	}
	return g.Wait()
}

// work computes slabs until there are no more.
func (s *stream) work() {
	for u := range s.jobs {
		if u.same != nil {
			u.err = u.same.Check(u.lo, u.hi, u.dst)
		} else {
			u.err = s.a.tensors[u.tensor].Rows(u.dst, u.lo, u.hi, u.in)
		}
		close(u.done)
	}
}

// write emits slabs in order, with header and padding between them.
func (s *stream) write(ctx context.Context) error {
	for b := range s.ordered {
		if err := s.writeBatch(ctx, b); err != nil {
			return err
		}
		s.buffers.put(b.buf)
		s.buffers.put(b.outputs)
		s.budget.Release(b.cost)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.writeFixed(s.end, "")
}

func (s *stream) writeBatch(ctx context.Context, b *batch) error {
	for _, u := range b.units {
		name := s.a.layout.Tensors[u.tensor].Name
		if err := s.writeFixed(u.at, name); err != nil {
			return err
		}
		select {
		case <-u.done:
		case <-b.fetched:
			// Either every unit of the batch went to a worker, or the read failed and none of the rest will.
			if b.err != nil {
				return b.err
			}
			<-u.done
		case <-ctx.Done():
			return ctx.Err()
		}
		if u.err != nil {
			return u.err
		}
		if err := s.emit(u.dst[s.pos-u.at:min(u.size, s.end-u.at)], name); err != nil {
			return err
		}
	}
	select {
	case <-b.fetched:
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.err != nil {
		return b.err
	}
	for i, r := range b.reads {
		s.sources.observe(r, b.in[i])
	}
	return nil
}

// writeFixed emits header and padding up to offset to.
func (s *stream) writeFixed(to int64, name string) error {
	for s.pos < to {
		p := make([]byte, min(to-s.pos, maxSlab))
		s.a.fixed(p, s.pos)
		if err := s.emit(p, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) emit(p []byte, name string) error {
	n, err := s.out.Write(p)
	s.pos += int64(n)
	s.written += int64(n)
	if err != nil {
		return fmt.Errorf("writing at byte %d: %w", s.pos, err)
	}
	if s.opt.Progress != nil {
		s.opt.Progress(Progress{Tensor: name, Written: s.written, Total: s.opt.Length})
	}
	return nil
}
