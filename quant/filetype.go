package quant

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// FileType is a llama-quantize target: the number that stands in general.file_type. It names a default
// type and, for most, a mixture: rules that give some tensors another type.
type FileType uint32

// The file types of the reference. MostlyX is written X on a command line.
const (
	AllF32       FileType = 0
	MostlyF16    FileType = 1
	MostlyQ4_0   FileType = 2
	MostlyQ4_1   FileType = 3
	MostlyQ8_0   FileType = 7
	MostlyQ5_0   FileType = 8
	MostlyQ5_1   FileType = 9
	MostlyQ2K    FileType = 10
	MostlyQ3KS   FileType = 11
	MostlyQ3KM   FileType = 12
	MostlyQ3KL   FileType = 13
	MostlyQ4KS   FileType = 14
	MostlyQ4KM   FileType = 15
	MostlyQ5KS   FileType = 16
	MostlyQ5KM   FileType = 17
	MostlyQ6K    FileType = 18
	MostlyIQ2XXS FileType = 19
	MostlyIQ2XS  FileType = 20
	MostlyQ2KS   FileType = 21
	MostlyIQ3XS  FileType = 22
	MostlyIQ3XXS FileType = 23
	MostlyIQ1S   FileType = 24
	MostlyIQ4NL  FileType = 25
	MostlyIQ3S   FileType = 26
	MostlyIQ3M   FileType = 27
	MostlyIQ2S   FileType = 28
	MostlyIQ2M   FileType = 29
	MostlyIQ4XS  FileType = 30
	MostlyIQ1M   FileType = 31
	MostlyBF16   FileType = 32
	MostlyTQ1_0  FileType = 36
	MostlyTQ2_0  FileType = 37
	MXFP4MoE     FileType = 38
	MostlyNVFP4  FileType = 39 // known to files, not to the command line
	MostlyQ1_0   FileType = 40
	MostlyQ2_0   FileType = 41

	// Copy keeps every tensor as it is. It never stands in a file: see Options.Metadata.
	Copy FileType = math.MaxUint32
)

// guessedFileType is the bit that marks a general.file_type derived from the tensors.
const guessedFileType FileType = 1024

type fileTypeInfo struct {
	value FileType
	name  string
	base  gguf.Type // the default type
}

// fileTypes is the list of the command line, in numeric order.
var fileTypes = []fileTypeInfo{
	{AllF32, "F32", gguf.F32},
	{MostlyF16, "F16", gguf.F16},
	{MostlyQ4_0, "Q4_0", gguf.Q4_0},
	{MostlyQ4_1, "Q4_1", gguf.Q4_1},
	{MostlyQ8_0, "Q8_0", gguf.Q8_0},
	{MostlyQ5_0, "Q5_0", gguf.Q5_0},
	{MostlyQ5_1, "Q5_1", gguf.Q5_1},
	{MostlyQ2K, "Q2_K", gguf.Q2_K},
	{MostlyQ3KS, "Q3_K_S", gguf.Q3_K},
	{MostlyQ3KM, "Q3_K_M", gguf.Q3_K},
	{MostlyQ3KL, "Q3_K_L", gguf.Q3_K},
	{MostlyQ4KS, "Q4_K_S", gguf.Q4_K},
	{MostlyQ4KM, "Q4_K_M", gguf.Q4_K},
	{MostlyQ5KS, "Q5_K_S", gguf.Q5_K},
	{MostlyQ5KM, "Q5_K_M", gguf.Q5_K},
	{MostlyQ6K, "Q6_K", gguf.Q6_K},
	{MostlyIQ2XXS, "IQ2_XXS", gguf.IQ2XXS},
	{MostlyIQ2XS, "IQ2_XS", gguf.IQ2XS},
	{MostlyQ2KS, "Q2_K_S", gguf.Q2_K},
	{MostlyIQ3XS, "IQ3_XS", gguf.IQ3S},
	{MostlyIQ3XXS, "IQ3_XXS", gguf.IQ3XXS},
	{MostlyIQ1S, "IQ1_S", gguf.IQ1S},
	{MostlyIQ4NL, "IQ4_NL", gguf.IQ4NL},
	{MostlyIQ3S, "IQ3_S", gguf.IQ3S},
	{MostlyIQ3M, "IQ3_M", gguf.IQ3S},
	{MostlyIQ2S, "IQ2_S", gguf.IQ2XS},
	{MostlyIQ2M, "IQ2_M", gguf.IQ2S},
	{MostlyIQ4XS, "IQ4_XS", gguf.IQ4XS},
	{MostlyIQ1M, "IQ1_M", gguf.IQ1M},
	{MostlyBF16, "BF16", gguf.BF16},
	{MostlyTQ1_0, "TQ1_0", gguf.TQ1_0},
	{MostlyTQ2_0, "TQ2_0", gguf.TQ2_0},
	{MXFP4MoE, "MXFP4_MOE", gguf.MXFP4},
	{MostlyQ1_0, "Q1_0", gguf.Q1_0},
	{MostlyQ2_0, "Q2_0", gguf.Q2_0},
}

const copyName = "COPY"

// fileTypeAliases are the command line's other names.
var fileTypeAliases = map[string]FileType{"Q3_K": MostlyQ3KM, "Q4_K": MostlyQ4KM, "Q5_K": MostlyQ5KM, copyName: Copy}

func (f FileType) info() (fileTypeInfo, bool) {
	i, ok := slices.BinarySearchFunc(fileTypes, f, func(e fileTypeInfo, f FileType) int { return int(e.value) - int(f) })
	if !ok {
		return fileTypeInfo{}, false
	}
	return fileTypes[i], true
}

// FileTypes returns every file type of the command line in numeric order, without Copy.
func FileTypes() []FileType {
	list := make([]FileType, len(fileTypes))
	for i, e := range fileTypes {
		list[i] = e.value
	}
	return list
}

// String returns the command line's name ("Q4_K_M"), "COPY", or the number of a type it has no name for. Of a
// value guessed from the tensors (bit 1024) it says so.
func (f FileType) String() string {
	switch e, ok := f.info(); {
	case ok:
		return e.name
	case f == Copy:
		return copyName
	case f == MostlyNVFP4:
		return "NVFP4"
	case f >= guessedFileType && f < 2*guessedFileType:
		return (f - guessedFileType).String() + " (guessed)"
	}
	return "file type " + strconv.FormatUint(uint64(f), 10)
}

// Default returns the type of the tensors that no rule treats otherwise; ok is false for Copy and
// for values that are no target.
func (f FileType) Default() (t gguf.Type, ok bool) {
	e, ok := f.info()
	return e.base, ok
}

// ParseFileType reads a target as the reference's command line does: a name in any case ("q4_k_m", "Q4_K",
// "COPY") or the number of general.file_type. The error (kind Usage) lists the nearest names.
func ParseFileType(s string) (FileType, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		if f := FileType(n); f != Copy {
			if _, ok := f.info(); ok {
				return f, nil
			}
		}
		return 0, fault.WithHint(fault.New(fault.Usage, "no file type has the number %s", s), "name the type, for example Q4_K_M")
	}
	upper := strings.ToUpper(s)
	if f, ok := fileTypeAliases[upper]; ok {
		return f, nil
	}
	for _, e := range fileTypes {
		if e.name == upper {
			return e.value, nil
		}
	}
	err := fault.New(fault.Usage, "unknown file type %q", s)
	return 0, fault.WithHint(err, "did you mean %s?", strings.Join(nearestFileTypes(upper), ", "))
}

// nearestFileTypes returns the names with the smallest edit distance to s, at most five.
func nearestFileTypes(s string) []string {
	type candidate struct {
		name string
		far  int
	}
	var list []candidate
	for _, e := range fileTypes {
		list = append(list, candidate{e.name, editDistance(s, e.name)})
	}
	for name := range fileTypeAliases {
		list = append(list, candidate{name, editDistance(s, name)})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.far != b.far {
			return a.far - b.far
		}
		return strings.Compare(a.name, b.name)
	})
	var names []string
	for _, c := range list {
		if len(names) == 5 || c.far > list[0].far+1 {
			break
		}
		names = append(names, c.name)
	}
	return names
}

// editDistance is the number of single-byte insertions, deletions and replacements that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// typicalFileType is the file type that stands for a file whose most frequent type is t.
func typicalFileType(t gguf.Type) FileType {
	switch t {
	case gguf.Q2_K:
		return MostlyQ2K
	case gguf.Q3_K:
		return MostlyQ3KM
	case gguf.Q4_K:
		return MostlyQ4KM
	case gguf.Q5_K:
		return MostlyQ5KM
	case gguf.IQ2XS:
		return MostlyIQ2XS
	case gguf.IQ2S:
		return MostlyIQ2S
	case gguf.IQ3S:
		return MostlyIQ3S
	case gguf.NVFP4:
		return MostlyNVFP4
	case gguf.MXFP4: // the reference knows no file type for it here
		return AllF32
	}
	for _, e := range fileTypes {
		if e.base == t {
			return e.value
		}
	}
	return AllF32
}
