package quant

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// SortTensors puts tensors in the reference's output order: by layer (-1 for names that don't start with
// "blk." and a number), then by the bytes of the name.
func SortTensors(tensors []gguf.TensorInfo) {
	slices.SortFunc(tensors, func(a, b gguf.TensorInfo) int {
		return cmp.Or(cmp.Compare(sortLayer(a.Name), sortLayer(b.Name)), strings.Compare(a.Name, b.Name))
	})
}

func sortLayer(name string) int {
	if n, ok := layerOf(name); ok {
		return n
	}
	return -1
}

// layerOf returns the number after a leading "blk.". It reads what C's scanf does for "blk.%d": white space and
// a sign may come first, anything may follow, and numbers beyond 64 bits saturate before the low 32 bits are taken.
func layerOf(name string) (layer int, ok bool) {
	s, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, false
	}
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	digits := leadingDigits(s)
	if digits == "" {
		return 0, false
	}
	if negative {
		digits = "-" + digits
	}
	n, _ := strconv.ParseInt(digits, 10, 64) // saturates where out of range
	return int(int32(n)), true
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}

// outputNames returns the name of each tensor in the output, "" for those of a pruned layer, and the number of
// layers that are left. Without pruning all names stay and blocks is 0.
//
// The layers after the first pruned one are numbered anew, without gaps, in the order of the sorted tensors. Any
// name with "blk.N." in it belongs to layer N, also behind a prefix.
func (o Options) outputNames(tensors []gguf.TensorInfo) (names []string, blocks int, err error) {
	names = make([]string, len(tensors))
	for i, t := range tensors {
		names[i] = t.Name
	}
	if len(o.PruneLayers) == 0 {
		return names, 0, nil
	}
	first := slices.Min(o.PruneLayers)
	sorted := slices.Clone(tensors)
	SortTensors(sorted)
	numbers := map[int]int{}
	for _, t := range sorted {
		layer, _, _, ok := layerAnywhere(t.Name)
		if !ok {
			continue
		}
		if layer < 0 {
			return nil, 0, fault.New(fault.BadInput, "tensor %q: its layer number is too large to prune layers", t.Name)
		}
		if _, known := numbers[layer]; known || slices.Contains(o.PruneLayers, layer) {
			continue
		}
		if layer < first {
			blocks = layer
		}
		numbers[layer] = blocks
		blocks++
	}
	for i, t := range tensors {
		layer, before, after, ok := layerAnywhere(t.Name)
		if !ok {
			continue
		}
		names[i] = ""
		if n, kept := numbers[layer]; kept {
			names[i] = before + strconv.Itoa(n) + after
		}
	}
	return names, blocks, nil
}

// layerAnywhere finds the first "blk.N." of a name and what stands around N. layer is -1 where N is no 32-bit number.
func layerAnywhere(name string) (layer int, before, after string, ok bool) {
	for at := 0; ; {
		i := strings.Index(name[at:], "blk.")
		if i < 0 {
			return 0, "", "", false
		}
		at += i + len("blk.")
		digits := leadingDigits(name[at:])
		end := at + len(digits)
		if digits == "" || !strings.HasPrefix(name[end:], ".") {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > math.MaxInt32 {
			n = -1
		}
		return int(n), name[:at], name[end:], true
	}
}

// ParseLayers reads the argument of --prune-layers: layer numbers between commas.
func ParseLayers(s string) ([]int, error) {
	var list []int
	for _, field := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Usage, "layers to prune %q: %q is no layer number", s, field)
		}
		list = append(list, int(n))
	}
	return list, nil
}
