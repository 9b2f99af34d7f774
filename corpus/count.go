package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"gguf-forge/internal/fault"
	"gguf-forge/remote"
)

// CountOptions never change a count.
type CountOptions struct {
	Threads  int                     // workers; 0: one per CPU
	Progress func(done, total int64) // stored bytes read and known so far; may be called from several goroutines
}

// Counted is what Count found.
type Counted struct {
	Counts Counts
	Files  []FileCount // in the order of the inputs
}

// FileCount is an input as it was read.
type FileCount struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"` // of the file as it is stored; "" for a Parquet file without an expected hash
	Size   int64  `json:"size"`             // stored bytes
	Texts  int64  `json:"texts"`
}

// counter counts the tokens of texts; it serves one goroutine. What it keeps is bounded.
type counter interface {
	Text(io.Reader) error // one whole text
	Counts() []uint64     // sums so far, by id
}

// vocabulary makes counters.
type vocabulary interface {
	size() int
	counter() counter
	together(io.Reader, []counter) error // counts one text with several counters at once
}

// How much goes to a worker at once.
const (
	batchSize    = 256 << 10 // bytes
	batchRecords = 4096
)

// countInputs reads the inputs, each with its own reader, and counts with opt.Threads workers. Readers only read and cut into
// records; text is parsed and encoded by the workers. If there are fewer inputs than threads, one text is divided.
func countInputs(ctx context.Context, v vocabulary, inputs []Input, opt CountOptions) (*Counted, error) {
	threads := opt.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	result := &Counted{Counts: make(Counts, v.size()), Files: make([]FileCount, len(inputs))}
	workers, ctx := errgroup.WithContext(ctx)
	jobs := make(chan func(*worker) error)
	var mu sync.Mutex
	for range threads {
		workers.Go(func() error {
			w := &worker{v: v, own: []counter{v.counter()}, share: max(threads/max(len(inputs), 1), 1)}
			for job := range jobs {
				if err := job(w); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, c := range w.own {
				result.Counts.Add(c.Counts())
			}
			return nil
		})
	}
	workers.Go(func() error {
		defer close(jobs)
		readers, ctx := errgroup.WithContext(ctx)
		readers.SetLimit(threads)
		p := &progress{report: opt.Progress}
		for i := range inputs {
			readers.Go(func() (err error) {
				result.Files[i], err = readInput(ctx, &inputs[i], jobs, p)
				return err
			})
		}
		return readers.Wait()
	})
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// worker counts what it is handed. A text by itself gets as many counters as there are threads for every input.
type worker struct {
	v     vocabulary
	own   []counter
	share int
}

// record counts a text that is small beside others.
func (w *worker) record(text []byte) error { return w.own[0].Text(bytes.NewReader(text)) }

// text counts a text of any size.
func (w *worker) text(r io.Reader) error {
	if w.share == 1 {
		return w.own[0].Text(r)
	}
	for len(w.own) < w.share {
		w.own = append(w.own, w.v.counter())
	}
	return w.v.together(r, w.own)
}

// progress sums up what all readers did.
type progress struct {
	report      func(done, total int64)
	done, total atomic.Int64
}

func (p *progress) add(done, total int64) {
	d, t := p.done.Add(done), p.total.Add(total)
	if p.report != nil {
		p.report(d, t)
	}
}

// readInput hands the texts of one input to the workers and checks its hash.
func readInput(ctx context.Context, in *Input, jobs chan<- func(*worker) error, p *progress) (f FileCount, err error) {
	f.Name = in.Name
	if in.Reader != nil {
		if in.format() == FormatParquet {
			return f, fault.WithHint(fault.New(fault.BadInput, "%s: a Parquet file can't be read from a pipe", in.Name), "store it and name the file")
		}
		return f, in.readStream(ctx, in.Reader, -1, jobs, p, &f)
	}
	src, parquet, err := in.open(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, remote.CloseSource(src)) }()
	if parquet {
		return f, in.readParquet(ctx, src, jobs, p, &f)
	}
	r, err := readSource(ctx, src)
	if err != nil {
		return f, err
	}
	return f, errors.Join(in.readStream(ctx, r, src.Size(), jobs, p, &f), r.Close())
}

// readStream reads text or JSON lines.
func (in *Input) readStream(ctx context.Context, r io.Reader, size int64, jobs chan<- func(*worker) error, p *progress, f *FileCount) error {
	p.add(0, max(size, 0))
	s, err := newStream(in.Name, progressReader{r, p}, size)
	if err != nil {
		return err
	}
	if in.format() == FormatJSONL {
		b := &batch{ctx: ctx, in: in, jobs: jobs}
		if err = readLines(in, s, b.add); err == nil {
			err = b.flush()
		}
		f.Texts = b.texts
	} else {
		f.Texts = 1
		err = handOver(ctx, jobs, func(w *worker) error { return w.text(in.checked(s)) })
	}
	if err == nil {
		f.SHA256, err = s.finish()
		f.Size = s.read
	}
	if err == nil {
		err = in.checkHash(f.SHA256)
	}
	return errors.Join(err, s.Close())
}

type progressReader struct {
	r io.Reader
	p *progress
}

func (r progressReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.p.add(int64(n), 0)
	return n, err
}

// readParquet reads a column. The hash, if one is expected, costs a read of its own: a column is a part of the file.
func (in *Input) readParquet(ctx context.Context, src remote.Source, jobs chan<- func(*worker) error, p *progress, f *FileCount) error {
	f.Size = src.Size()
	p.add(0, f.Size)
	if in.SHA256 != "" {
		r, err := readSource(ctx, src)
		if err != nil {
			return err
		}
		s, err := newStream(in.Name, r, src.Size())
		if err == nil {
			f.SHA256, err = s.finish()
		}
		if err == nil {
			err = in.checkHash(f.SHA256)
		}
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	b := &batch{ctx: ctx, in: in, jobs: jobs}
	w := newWindow(remote.ReaderAt(ctx, src), src)
	err := readParquet(in, w, src.Size(), b.add)
	if err == nil {
		err = b.flush()
	}
	f.Texts = b.texts
	p.add(f.Size, 0)
	return err
}

// batch collects records for one job.
type batch struct {
	ctx     context.Context
	in      *Input
	jobs    chan<- func(*worker) error
	records []record
	bytes   int
	texts   int64
}

func (b *batch) add(r record) error {
	b.records = append(b.records, r)
	b.bytes += len(r.data)
	b.texts++
	if b.bytes < batchSize && len(b.records) < batchRecords {
		return nil
	}
	return b.flush()
}

// flush gives the records to a worker and goes on without waiting for it.
func (b *batch) flush() error {
	records, in := b.records, b.in
	if len(records) == 0 {
		return nil
	}
	b.records, b.bytes = nil, 0
	job := func(w *worker) error {
		for _, r := range records {
			text, err := r.text(in)
			if err != nil {
				return err
			}
			if err := w.record(text); err != nil {
				return fmt.Errorf("%s, text %d: %w", in.Name, r.number, err)
			}
		}
		return nil
	}
	select {
	case b.jobs <- job:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// handOver gives a job to a worker and waits until it is done.
func handOver(ctx context.Context, jobs chan<- func(*worker) error, job func(*worker) error) error {
	done := make(chan error, 1)
	waited := func(w *worker) error {
		err := job(w)
		done <- err
		return err
	}
	select {
	case jobs <- waited:
		return <-done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
