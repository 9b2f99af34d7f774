package runtime

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// task is work that falls into independent parts. part is called once for every i below the number of parts, from any
// worker; what it writes depends on i alone. worker numbers the caller, for scratch memory.
type task interface {
	part(worker, i int)
}

// spins is how often a worker looks for new work before it parks: some ten microseconds, longer than the gaps within
// a forward pass and short enough to cost nothing between tokens.
const spins = 1 << 14

// pool is a fixed set of workers that live as long as the model. Between two tasks they spin for a while, then sleep. run is
// a barrier: it returns when all parts are done, but doesn't wait for workers that came too late to do any. Starting a task
// allocates nothing.
type pool struct {
	workers int

	mu    sync.Mutex // one task at a time
	task  task
	parts int64

	turn   atomic.Uint64 // odd while a task is open; poolClosed at the end
	next   atomic.Int64  // the next part
	active atomic.Int64  // workers that may be looking at the task

	sleepMu  sync.Mutex
	wake     sync.Cond
	sleeping int
}

const poolClosed = 1<<63 | 1

// newPool starts workers-1 goroutines; the caller of run is the last worker.
func newPool(workers int) *pool {
	p := &pool{workers: workers}
	p.wake.L = &p.sleepMu
	for w := 1; w < workers; w++ {
		go p.work(w)
	}
	return p
}

// run executes all parts of t and returns when they are done.
func (p *pool) run(t task, parts int) {
	if p.workers == 1 || parts <= 1 {
		for i := range parts {
			t.part(0, i)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.task, p.parts = t, int64(parts)
	p.next.Store(0)
	p.turn.Add(1)
	p.sleepMu.Lock()
	if p.sleeping > 0 {
		p.wake.Broadcast()
	}
	p.sleepMu.Unlock()
	p.take(0)
	p.turn.Add(1) // whoever comes from now on finds no task
	for i := 1; p.active.Load() > 0; i++ {
		if i%64 == 0 {
			goruntime.Gosched()
		}
	}
}

// take executes parts until none is left.
func (p *pool) take(worker int) {
	for {
		i := p.next.Add(1) - 1
		if i >= p.parts {
			return
		}
		p.task.part(worker, int(i))
	}
}

func (p *pool) work(worker int) {
	for seen := uint64(0); ; {
		turn := p.await(seen)
		if turn == poolClosed {
			return
		}
		seen = turn
		// run waits for active workers only after it closed the turn: seeing it open here means that the task stays.
		p.active.Add(1)
		if p.turn.Load() == turn {
			p.take(worker)
		}
		p.active.Add(-1)
	}
}

// await returns the number of an open turn other than seen.
func (p *pool) await(seen uint64) uint64 {
	for range spins {
		if t := p.turn.Load(); t%2 == 1 && t != seen {
			return t
		}
	}
	p.sleepMu.Lock()
	defer p.sleepMu.Unlock()
	p.sleeping++
	defer func() { p.sleeping-- }()
	for {
		if t := p.turn.Load(); t%2 == 1 && t != seen {
			return t
		}
		p.wake.Wait()
	}
}

// close ends the workers. No task may be running.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn.Store(poolClosed)
	p.sleepMu.Lock()
	p.wake.Broadcast()
	p.sleepMu.Unlock()
}
