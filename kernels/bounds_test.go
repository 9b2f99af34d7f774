//go:build linux || darwin

package kernels_test

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"gguf-forge/kernels"
	"gguf-forge/kernels/kerneltest"
)

// The tests of this file make sure that no kernel touches memory beyond its arguments.

func TestSearchQKXBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(4)
		g := newGuards(t, 5, 36*32*4)
		for _, s := range searches {
			for count := 0; count <= 36; count += 1 + count%2 {
				values, weights := r.blocks(count, s.Size), r.weights(count, s.Size)
				want := search(&s.QKX, values, weights)
				g.each(func(at func(i, size int) []byte) {
					x, w := asFloats(at(0, 4*len(values))), asFloats(at(1, 4*len(values)))
					copy(x, values)
					copy(w, weights)
					scales, mins, codes := asFloats(at(2, 4*count)), asFloats(at(3, 4*count)), at(4, len(values))
					kernels.SearchQKX(&s.QKX, scales, mins, codes, x, w)
					if string(codes) != string(want.codes) {
						t.Fatalf("%d blocks: other codes", count)
					}
				})
			}
		}
	})
}

func TestRoundAffineBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		g := newGuards(t, 4, 4*32*20)
		for count := range 20 {
			for _, size := range []int{16, 32} {
				g.each(func(at func(i, size int) []byte) {
					codes, x := at(0, count*size), asFloats(at(1, 4*count*size))
					scales, mins := asFloats(at(2, 4*count)), asFloats(at(3, 4*count))
					for b := range scales {
						scales[b] = float32(b)
					}
					kernels.RoundAffine(codes, x, size, scales, mins, 15)
				})
			}
		}
	})
}

func TestWeighBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		g := newGuards(t, 3, 4*100)
		for n := range 100 {
			g.each(func(at func(i, size int) []byte) {
				dst, w, x := asFloats(at(0, 4*n)), asFloats(at(1, 4*n)), asFloats(at(2, 4*n))
				kernels.Weigh(dst, w, x, 1)
				checkWeigh(t, w, x, 1)
				kernels.Weigh(w, w, x, 1)
				kernels.Weigh(x, w, x, 1)
			})
		}
	})
}

func TestMulBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := newFloats(8)
		g := newGuards(t, 2, 1<<16)
		for _, w := range allWeights() {
			for _, n := range []int{256, 512} {
				a := r.vectors(w, 9, n)
				for _, count := range []int{1, 3, 4, 5, 8, 11, 16, 17} {
					weights := r.rows(w, count, n)
					for _, vectors := range []int{1, 4, 9} {
						g.each(func(at func(i, size int) []byte) {
							rows, out := at(0, len(weights)), asFloats(at(1, 4*count*vectors))
							copy(rows, weights)
							kernels.Mul(out, count, w, rows, a.Range(0, vectors))
						})
					}
				}
			}
		}
	})
}

func TestExpBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		g := newGuards(t, 3, 4*100)
		for n := range 70 {
			g.each(func(at func(i, size int) []byte) {
				x, y := asFloats(at(0, 4*n)), asFloats(at(1, 4*n))
				kernels.ExpSum(x, 1, 0)
				kernels.SiluMul(x, y)
				kernels.Max(x)
				kernels.AddRows(x, y[:min(n, 1)], kernels.F32, at(2, 4*n*min(n, 1)))
				kernels.AddRows(x, y[:min(n, 2)], kernels.F16, at(2, 2*n*min(n, 2)))
			})
		}
	})
}

// guards are pieces of memory with an unmapped page on either side: a byte read or written outside faults.
type guards [][]byte

// newGuards returns count pieces of at least size bytes, until the end of the test.
func newGuards(t *testing.T, count, size int) guards {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	g := make(guards, count)
	for i := range g {
		m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Munmap(m) })
		for _, outside := range [][]byte{m[:page], m[page+size:]} {
			if err := syscall.Mprotect(outside, syscall.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
		g[i] = m[page : page+size : page+size]
	}
	before := debug.SetPanicOnFault(true)
	t.Cleanup(func() { debug.SetPanicOnFault(before) })
	return g
}

// each calls f twice: at(i, size) is size bytes at the start of piece i, then at its end.
func (g guards) each(f func(at func(i, size int) []byte)) {
	f(func(i, size int) []byte { return g[i][:size:size] })
	f(func(i, size int) []byte { return g[i][len(g[i])-size:] })
}

// asFloats is the same memory as floats.
func asFloats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
