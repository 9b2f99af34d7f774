package main

import (
	"fmt"
	"runtime/debug"

	"gguf-forge/internal/bytesize"
)

// workFlags bound what a verb that computes tensors takes of the machine. They never change a byte of the result.
type workFlags struct {
	Mem     bytesize.Size `default:"256MiB" placeholder:"SIZE" help:"Memory for data in flight (default 256MiB)."`
	Threads int           `short:"t" placeholder:"N" help:"Workers; by default one per CPU."`
}

// minMemory is the least that still holds a few rows of a large tensor.
const minMemory = 1 << 20

// Validate is called by the parser.
func (w workFlags) Validate() error {
	if w.Mem < minMemory {
		return fmt.Errorf("--mem must be at least 1MiB")
	}
	if w.Threads < 0 {
		return fmt.Errorf("--threads is negative")
	}
	return nil
}

// The collector's limits: the heap beyond the budget holds headers, importance and encoder scratch. With these the
// resident size stays below the budget plus 128 MiB.
const (
	heapOverhead = 72 << 20
	gcPercent    = 25
)

// limitMemory makes the collector keep the heap near the budget.
func (w workFlags) limitMemory() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(int64(w.Mem) + heapOverhead)
}
