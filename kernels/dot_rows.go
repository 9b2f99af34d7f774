//go:build amd64 || arm64

package kernels

import "unsafe"

// dotArgs is what the assembly sees, as declared in csrc/dot.h.
type dotArgs struct {
	out           *float32
	rows          *byte
	stride, count int64
	y             unsafe.Pointer
	size          int64
	dy            *float32
	sums          unsafe.Pointer
	work          unsafe.Pointer
	_             [6]uintptr // state of the assembly
}

// dotWork is the memory that csrc/dot_super.c works in: two vectors for each of eight rows, eight vectors of indices, and room to
// align them.
type dotWork [(2*8+8)*32 + 64]byte

// mulRows multiplies groups of rows in assembly, vector by vector, or floats by two vectors at a time. The last group overlaps the
// one before; where there are not enough rows for one, each row makes a group of copies of itself.
func mulRows(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	if w.Form() < FormQ8_0 {
		mulFloatRows(out, stride, w, rows, count, size, x)
		return
	}
	var work dotWork
	var copies [rowsAtOnce]float32
	args := dotArgs{work: unsafe.Pointer(&work[-uintptr(unsafe.Pointer(&work))%64])}
	whole := count / rowsAtOnce * rowsAtOnce
	for i := range x.count {
		sums := out[i*stride:][:count]
		x.a.arguments(&args, x.at(i))
		if whole == 0 {
			for r := range count {
				args.out, args.rows, args.stride, args.count = &copies[0], &rows[r*size], 0, rowsAtOnce
				args.run(w)
				sums[r] = copies[0]
			}
			continue
		}
		args.out, args.rows, args.stride, args.count = &sums[0], &rows[0], int64(size), int64(whole)
		args.run(w)
		if whole < count {
			args.out, args.rows, args.count = &sums[count-rowsAtOnce], &rows[(count-rowsAtOnce)*size], rowsAtOnce
			args.run(w)
		}
	}
}

// floatRows is ROWS of csrc/dot_floats.c.
const floatRows = 2

// mulFloatRows is mulRows for floats. What is left of a row after whole runs of 16 is added here.
func mulFloatRows(out []float32, stride int, w Weights, rows []byte, count, size int, x *Vectors) {
	n := x.a.n
	whole := n / floatLanes * floatLanes
	for i := 0; i < x.count; i += 2 {
		pair := i+1 < x.count
		j := min(i+1, x.count-1)
		a, b := x.a.floats[x.at(i)*n:][:n], x.a.floats[x.at(j)*n:][:n]
		sums, others := out[i*stride:][:count], out[j*stride:][:count]
		if whole == 0 {
			clear(sums)
			clear(others)
		} else {
			args := dotArgs{y: unsafe.Pointer(&a[0]), sums: unsafe.Pointer(&b[0]), size: int64(4 * whole)}
			if count < floatRows {
				var copies, more [floatRows]float32
				args.out, args.work, args.rows, args.count = &copies[0], unsafe.Pointer(&more[0]), &rows[0], floatRows
				args.runFloats(w, pair)
				others[0] = more[0]
				sums[0] = copies[0]
			} else {
				args.out, args.work, args.rows = &sums[0], unsafe.Pointer(&others[0]), &rows[0]
				args.stride, args.count = int64(size), int64(count/floatRows*floatRows)
				args.runFloats(w, pair)
				if r := count - floatRows; count%floatRows != 0 {
					args.out, args.work, args.rows, args.count = &sums[r], unsafe.Pointer(&others[r]), &rows[r*size], floatRows
					args.runFloats(w, pair)
				}
			}
		}
		for r := 0; r < count && whole < n; r++ {
			row := rows[r*size : (r+1)*size]
			sums[r] = addProducts(sums[r], w, row, a, whole)
			if pair {
				others[r] = addProducts(others[r], w, row, b, whole)
			}
		}
	}
}

// arguments makes vector i that of the product.
func (a *Activations) arguments(args *dotArgs, i int) {
	lo, hi := i*a.n, (i+1)*a.n
	switch a.form {
	case FormQ8_0:
		args.sums = unsafe.Pointer(&a.sums[lo/32])
	case FormQ8_1:
		args.sums = unsafe.Pointer(&a.mins[lo/32])
	case FormQ8_K:
		args.sums = unsafe.Pointer(&a.bsums[lo/16])
	}
	v := a.codes[lo:hi]
	args.y, args.size = unsafe.Pointer(&v[0]), int64(len(v))
	args.dy = &a.scales[lo/a.form.block()]
}
