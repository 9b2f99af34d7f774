package quant

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"gguf-forge/gguf"
)

// gridDigits returns the digits of a code of grid n.
func gridDigits(n int, code uint16) []int {
	digits := make([]int, gridShapes[n].digits)
	bits := 2
	if len(digits) == 4 {
		bits = 3
	}
	for i := range digits {
		digits[i] = int(code>>(i*bits)) & (1<<bits - 1)
	}
	return digits
}

func TestGridCodes(t *testing.T) {
	for n, want := range []uint32{0xd01c53f2, 0x622e679a, 0xf8ad4e5e, 0xa0911588, 0xf68a6a07, 0xa43c1089} {
		var table []byte
		for _, code := range gridCodes(n) {
			table = binary.LittleEndian.AppendUint16(table, code)
		}
		if got := crc32.ChecksumIEEE(table); got != want {
			t.Errorf("grid %d: CRC-32 %08x, want %08x", n, got, want)
		}
	}
}

// TestGridNeighbours compares the lists with their definition: all points sorted by distance, as far as the nwant
// smallest distances reach.
func TestGridNeighbours(t *testing.T) {
	for n, shape := range gridShapes {
		g := newGrid(n)
		points := make([][]int, len(g.codes))
		for i, code := range g.codes {
			points[i] = gridDigits(n, code)
		}
		step := 29
		if testing.Short() {
			step = 101
		}
		for key := 0; key < len(g.at); key += step {
			digits := make([]int, shape.digits)
			for i, rest := shape.digits-1, key; i >= 0; i, rest = i-1, rest/shape.radix {
				digits[i] = rest % shape.radix
			}
			if at := g.at[key]; at >= 0 {
				if !slices.Equal(points[at], digits) {
					t.Fatalf("grid %d: %v is said to be point %d, %v", n, digits, at, points[at])
				}
				continue
			}
			type neighbour struct{ distance, index int }
			var all []neighbour
			for i, point := range points {
				distance := 0
				for j, digit := range point {
					distance += (digit - digits[j]) * (digit - digits[j])
				}
				all = append(all, neighbour{distance, i})
			}
			slices.SortFunc(all, func(a, b neighbour) int {
				return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.index, b.index))
			})
			var want []uint16
			distances := 0
			for i, a := range all {
				if i == 0 || a.distance != all[i-1].distance {
					distances++
				}
				if distances > shape.nwant {
					break
				}
				want = append(want, uint16(a.index))
			}
			list := ^g.at[key]
			if got := g.near[list+1:][:g.near[list]]; !slices.Equal(got, want) {
				t.Fatalf("grid %d: neighbours of %v are %d, want %d", n, digits, got, want)
			}
		}
	}
}

// TestNearestExact compares the search that prunes with the plain sum, on ties above all.
func TestNearestExact(t *testing.T) {
	s := splitMix(1)
	for n, g := range map[int]*grid{0: gridIQ2XXS(), 1: gridIQ2XS(), 2: gridIQ2S(), 3: gridIQ1()} {
		for trial := range 2000 {
			var x, w [8]float32
			for i := range x {
				x[i], w[i] = abs32(s.gauss()), abs32(s.gauss())
				switch trial % 5 {
				case 1: // many ties
					x[i], w[i] = float32(s.next()%4), 1
				case 2:
					w[i] = float32(s.next() % 2)
				case 3: // almost ties
					x[i], w[i] = float32(s.next()%4)+s.gauss()*0x1p-22, 1+s.gauss()*0x1p-22
				case 4: // sums that can be negative
					w[i] = s.gauss()
				}
			}
			q := [3]float32{0.3, float32(0.3 * 3), float32(0.3 * 5)}
			key := s.next() % uint64(len(g.at))
			at := g.at[key]
			if at >= 0 {
				continue
			}
			near := g.near[^at+1:][:g.near[^at]]
			want, least := near[0], float32(3.4e38)
			for _, index := range near {
				var sum float32
				for i, digit := range gridDigits(n, g.codes[index]) {
					d := q[digit] - x[i]
					sum += float32(w[i] * d * d)
				}
				if sum < least {
					want, least = index, sum
				}
			}
			if got := g.nearest8(^at, &x, &w, &q); got != want {
				t.Fatalf("grid %d: point %d, want %d for %v, weights %v", n, got, want, x, w)
			}
		}
	}
}

// TestIQ3SZeroSubBlock pins the place where iq3_s stores what follows a sub-block of zeros: one too early.
func TestIQ3SZeroSubBlock(t *testing.T) {
	x := goldenInput("gauss", 3, 1, superBlock)
	full := mustEncode(t, gguf.IQ3S, x, superBlock, nil)
	clear(x[32*3 : 32*4])
	block := mustEncode(t, gguf.IQ3S, x, superBlock, nil)
	for _, part := range []struct {
		name      string
		from, sub int
	}{{"indices", 2, 8}, {"signs", 74, 4}} {
		got, was := block[part.from:][:8*part.sub], full[part.from:][:8*part.sub]
		want := slices.Concat(was[:3*part.sub], was[4*part.sub:], make([]byte, part.sub))
		if !bytes.Equal(got, want) {
			t.Errorf("%s %x, want %x", part.name, got, want)
		}
	}
	want := bytes.Clone(full[66:74])
	want[3] = 0
	if got := block[66:74]; !bytes.Equal(got, want) {
		t.Errorf("ninth index bits %x, want %x", got, want)
	}
}

func BenchmarkGrid(b *testing.B) {
	for n := range gridShapes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newGrid(n)
			}
		})
	}
}
