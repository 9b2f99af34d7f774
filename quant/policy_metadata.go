package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// maxMetadataText is the longest string, in bytes, of a value set by flag and of an imatrix key.
const maxMetadataText = 127

// MetadataValue is a pair to set.
type MetadataValue struct {
	Key   string
	Value gguf.Value
}

// ParseMetadataValue reads the argument of --override-kv: KEY=TYPE:VALUE, where TYPE is int, float, bool or str and
// a key or string has at most 127 bytes. Numbers are read as C does: the part of VALUE that is a number counts, 0
// if there is none. An int is stored as the low 32 bits of its absolute value. Errors are of kind Usage.
func ParseMetadataValue(s string) (MetadataValue, error) {
	key, rest, ok := strings.Cut(s, "=")
	fail := func(why string) (MetadataValue, error) {
		return MetadataValue{}, fault.WithHint(fault.New(fault.Usage, "metadata value %q: %s", s, why), "write KEY=TYPE:VALUE, TYPE being int, float, bool or str")
	}
	switch {
	case !ok:
		return fail("there is no =")
	case key == "":
		return fail("the key is empty")
	case len(key) > maxMetadataText:
		return fail("the key has more than 127 bytes")
	}
	kind, text, ok := strings.Cut(rest, ":")
	if !ok {
		return fail("there is no type")
	}
	v := MetadataValue{Key: key}
	switch kind {
	case "int":
		v.Value = gguf.Uint32Value(uint32(cInteger(text)))
	case "float":
		v.Value = gguf.Float32Value(float32(cFloat(text)))
	case "bool":
		if text != "true" && text != "false" {
			return fail("a bool is true or false")
		}
		v.Value = gguf.BoolValue(text == "true")
	case "str":
		if len(text) > maxMetadataText {
			return fail("the string has more than 127 bytes")
		}
		v.Value = gguf.StringValue(text)
	default:
		return fail("unknown type " + strconv.Quote(kind))
	}
	return v, nil
}

const cSpace = " \t\n\v\f\r"

// cInteger returns the absolute value of what C's atoll reads.
func cInteger(s string) uint64 {
	s = strings.TrimLeft(s, cSpace)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	digits := leadingDigits(s)
	if digits == "" {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case negative && (err != nil || n > 1<<63):
		return 1 << 63
	case !negative && (err != nil || n > math.MaxInt64):
		return math.MaxInt64
	}
	return n
}

var cFloatPattern = regexp.MustCompile(`^[+-]?(?:(?i:infinity|inf|nan)|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)`)

// cFloat returns what C's atof reads.
func cFloat(s string) float64 {
	s = cFloatPattern.FindString(strings.TrimLeft(s, cSpace))
	if lower := strings.ToLower(s); strings.Contains(lower, "0x") && !strings.Contains(lower, "p") {
		s += "p0" // Go wants the exponent that C lets one omit
	}
	f, _ := strconv.ParseFloat(strings.TrimPrefix(s, "+"), 64) // infinite where out of range, 0 for ""
	return f
}

// EditMetadata returns the metadata of the output, in the reference's order: the pairs of the source without split.*,
// then the quantization version and file type, MetadataValues, the record of the importance matrix and, where
// layers are pruned, the number of blocks. tensors are those of the source. A record of an earlier importance
// matrix stays unless there is a new one.
func (o Options) EditMetadata(meta *gguf.Metadata, tensors []gguf.TensorInfo, im *Imatrix) (*gguf.Metadata, error) {
	_, blocks, err := o.outputNames(tensors)
	if err != nil {
		return nil, err
	}
	out := new(gguf.Metadata)
	for key, v := range meta.All() {
		out.Put(key, cString(v))
	}
	fileType, err := o.fileTypeValue(meta, tensors)
	if err != nil {
		return nil, err
	}
	out.Set("general.quantization_version", gguf.Uint32Value(2))
	out.Set("general.file_type", gguf.Uint32Value(uint32(fileType)))
	out.Delete("split.no")
	out.Delete("split.count")
	out.Delete("split.tensors.count")
	for _, v := range o.MetadataValues {
		out.Set(v.Key, v.Value)
	}
	if im.has() {
		out.Set("quantize.imatrix.file", gguf.StringValue(cut(im.File)))
		if len(im.Datasets) > 0 {
			out.Set("quantize.imatrix.dataset", gguf.StringValue(cut(im.Datasets[0])))
		}
		out.Set("quantize.imatrix.entries_count", gguf.Uint32Value(uint32(len(im.Entries))))
		if im.ChunkCount > 0 {
			out.Set("quantize.imatrix.chunks_count", gguf.Uint32Value(uint32(im.ChunkCount)))
		}
	}
	if len(o.PruneLayers) > 0 {
		out.Set(o.architecture(meta)+".block_count", gguf.Uint32Value(uint32(blocks)))
	}
	return out, nil
}

// fileTypeValue is the file type as it stands in the output. For Copy it is that of the source, or that of the most
// frequent tensor type, marked as a guess.
func (o Options) fileTypeValue(meta *gguf.Metadata, tensors []gguf.TensorInfo) (FileType, error) {
	v, ok := meta.Get("general.file_type")
	if ok && v.Type != gguf.Uint32 {
		return 0, fault.New(fault.BadInput, "general.file_type is of type %s, it must be u32", v.Type)
	}
	if o.FileType != Copy {
		return o.FileType, nil
	}
	if ok {
		n, _ := v.Uint()
		return FileType(n), nil
	}
	sorted := slices.Clone(tensors)
	SortTensors(sorted)
	count := map[gguf.Type]int{}
	most := gguf.F32
	for _, t := range sorted {
		if count[t.Type]++; count[t.Type] > count[most] {
			most = t.Type
		}
	}
	return typicalFileType(most) | guessedFileType, nil
}

// cString returns v with strings cut at the first NUL and the bools of an array as 0 and 1, which is what is left
// of them after a passage through the reference.
func cString(v gguf.Value) gguf.Value {
	switch {
	case v.Type == gguf.String:
		if i := bytes.IndexByte(v.Raw, 0); i >= 0 {
			v.Raw = v.Raw[:i:i]
		}
	case v.Type == gguf.Bool && v.Raw[0] > 1:
		v.Raw = []byte{1}
	case v.Type == gguf.Array && v.Elem == gguf.Bool:
		v.Raw = bytes.Clone(v.Raw)
		for i, b := range v.Raw {
			v.Raw[i] = min(b, 1)
		}
	case v.Type == gguf.Array && v.Elem == gguf.String && hasNUL(v):
		var list []string
		for _, s := range v.Strings() {
			s, _, _ = strings.Cut(s, "\x00")
			list = append(list, s)
		}
		return gguf.StringsValue(list)
	}
	return v
}

// hasNUL reports whether a string of the array has a NUL byte. Only the strings are looked at: the lengths between them
// are full of zeros.
func hasNUL(v gguf.Value) bool {
	for raw := v.Raw; len(raw) > 0; {
		n := binary.LittleEndian.Uint64(raw)
		if bytes.IndexByte(raw[8:8+n], 0) >= 0 {
			return true
		}
		raw = raw[8+n:]
	}
	return false
}

func cut(s string) string { return s[:min(len(s), maxMetadataText)] }

// architecture is that of the source, unless a value is given for it.
func (o Options) architecture(meta *gguf.Metadata) string {
	arch := meta.Architecture()
	for _, v := range o.MetadataValues {
		if s, ok := v.Value.Str(); ok && v.Key == "general.architecture" {
			arch = s
		}
	}
	return arch
}
