package quant

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"sync"
)

// The codebook types store, instead of a group of values, the number of a point in a fixed grid.
// Six grids serve seven types. A grid is an ascending list of codes; a code packs the digits of one
// point, element 0 in the lowest bits. What a digit means is the type's business: decoding maps it
// to a level, encoding to the odd coordinate 2·digit+1.
//
// gridData holds the six lists one after the other, every code as the uvarint difference to the
// one before it (the first to 0). The lists are facts of the file format, fixed for all time;
// they were read back from the reference decoder by giving it one block per index and turning the
// levels it returned into digits. The test checks the CRC-32 of every list.
//
//go:embed iq_grid.bin
var gridData []byte

// gridShape describes one grid: its length, the digits of a point, and how many of the smallest
// distances its neighbour lists take in.
type gridShape struct {
	points int
	digits int // 8 of two bits, or 4 of three bits
	radix  int // digit values that encoding asks for: 3 or 8
	nwant  int
}

var gridShapes = [6]gridShape{
	{256, 8, 3, 2},  // iq2_xxs
	{512, 8, 3, 2},  // iq2_xs
	{1024, 8, 3, 1}, // iq2_s
	{2048, 8, 3, 3}, // iq1_s, iq1_m
	{256, 4, 8, 2},  // iq3_xxs
	{512, 4, 8, 3},  // iq3_s
}

var (
	gridIQ2XXS = sync.OnceValue(func() *grid { return newGrid(0) })
	gridIQ2XS  = sync.OnceValue(func() *grid { return newGrid(1) })
	gridIQ2S   = sync.OnceValue(func() *grid { return newGrid(2) })
	gridIQ1    = sync.OnceValue(func() *grid { return newGrid(3) })
	gridIQ3XXS = sync.OnceValue(func() *grid { return newGrid(4) })
	gridIQ3S   = sync.OnceValue(func() *grid { return newGrid(5) })
)

// A grid is one code list prepared for search.
//
// at has one entry for every combination of digits below radix, numbered with the digit of element
// 0 as the most significant one (its "key"). An entry ≥ 0 is the index of the point with those digits; otherwise ^entry
// is where the combination's list starts in near: its length, then the indices of the nearest
// points, ascending by (distance, index).
type grid struct {
	codes []uint16
	at    []int32
	near  []uint16
}

// gridCodes unpacks code list n of gridData.
func gridCodes(n int) []uint16 {
	data := gridData
	var codes []uint16
	for i := 0; i <= n; i++ {
		codes = make([]uint16, gridShapes[i].points)
		code := uint64(0)
		for j := range codes {
			step, size := binary.Uvarint(data)
			data = data[size:]
			code += step
			codes[j] = uint16(code)
		}
	}
	return codes
}

func newGrid(n int) *grid {
	shape := gridShapes[n]
	g := &grid{codes: gridCodes(n)}
	bits := 16 / shape.digits
	if shape.digits == 4 {
		bits = 3
	}

	// The key of every point, in two halves: distances are then two table lookups.
	half := 1
	for range shape.digits / 2 {
		half *= shape.radix
	}
	keys := make([]int, len(g.codes))
	for i, code := range g.codes {
		for d := range shape.digits {
			keys[i] = keys[i]*shape.radix + int(code)>>(bits*d)&(1<<bits-1)
		}
	}
	apart := make([]uint8, half*half) // squared distance between two half keys, in digits
	for a := range half {
		for b := range half {
			sum := 0
			for x, y := a, b; x+y > 0; x, y = x/shape.radix, y/shape.radix {
				d := x%shape.radix - y%shape.radix
				sum += d * d
			}
			apart[a*half+b] = uint8(sum)
		}
	}

	g.at = make([]int32, half*half)
	for i := range g.at {
		g.at[i] = -1
	}
	for i, key := range keys {
		g.at[key] = int32(i)
	}
	distance := make([]uint8, len(keys))
	for key, at := range g.at {
		if at >= 0 {
			continue
		}
		high, low := apart[key/half*half:][:half], apart[key%half*half:][:half]
		var seen [256]bool
		for i, other := range keys {
			distance[i] = high[other/half] + low[other%half]
			seen[distance[i]] = true
		}
		start := len(g.near)
		g.at[key] = ^int32(start)
		g.near = append(g.near, 0)
		for d, wanted := 0, shape.nwant; wanted > 0 && d < len(seen); d++ {
			if !seen[d] {
				continue
			}
			wanted--
			for i := range distance {
				if int(distance[i]) == d {
					g.near = append(g.near, uint16(i))
				}
			}
		}
		g.near[start] = uint16(len(g.near) - start - 1)
	}
	g.near = slices.Clone(g.near) // without the spare room
	return g
}
