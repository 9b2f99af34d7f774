package gguf

import (
	"fmt"
	"strconv"
	"strings"
)

// Type is a ggml tensor type id as it stands in a tensor table.
// Ids this package does not know are kept and printed by number.
type Type uint32

// The ggml types. Removed ids (4, 5, 31-33, 36-38) have no constant.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q8_1   Type = 9 // activations only
	Q2_K   Type = 10
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	Q8_K   Type = 15 // activations only
	IQ2XXS Type = 16
	IQ2XS  Type = 17
	IQ3XXS Type = 18
	IQ1S   Type = 19
	IQ4NL  Type = 20
	IQ3S   Type = 21
	IQ2S   Type = 22
	IQ4XS  Type = 23
	I8     Type = 24
	I16    Type = 25
	I32    Type = 26
	I64    Type = 27
	F64    Type = 28
	IQ1M   Type = 29
	BF16   Type = 30
	TQ1_0  Type = 34
	TQ2_0  Type = 35
	MXFP4  Type = 39
	NVFP4  Type = 40
	Q1_0   Type = 41
	Q2_0   Type = 42
)

// typeCount is one more than the largest id the reference knows.
const typeCount = 43

type typeInfo struct {
	name      string
	elems     int64
	bytes     int64
	quantized bool
}

var typeTable = [typeCount]typeInfo{
	F32: {"f32", 1, 4, false}, F16: {"f16", 1, 2, false}, BF16: {"bf16", 1, 2, false}, F64: {"f64", 1, 8, false},
	I8: {"i8", 1, 1, false}, I16: {"i16", 1, 2, false}, I32: {"i32", 1, 4, false}, I64: {"i64", 1, 8, false},
	Q4_0: {"q4_0", 32, 18, true}, Q4_1: {"q4_1", 32, 20, true}, Q5_0: {"q5_0", 32, 22, true}, Q5_1: {"q5_1", 32, 24, true},
	Q8_0: {"q8_0", 32, 34, true}, Q8_1: {"q8_1", 32, 36, true}, Q1_0: {"q1_0", 128, 18, true}, Q2_0: {"q2_0", 64, 18, true},
	Q2_K: {"q2_K", 256, 84, true}, Q3_K: {"q3_K", 256, 110, true}, Q4_K: {"q4_K", 256, 144, true},
	Q5_K: {"q5_K", 256, 176, true}, Q6_K: {"q6_K", 256, 210, true}, Q8_K: {"q8_K", 256, 292, true},
	IQ2XXS: {"iq2_xxs", 256, 66, true}, IQ2XS: {"iq2_xs", 256, 74, true}, IQ2S: {"iq2_s", 256, 82, true},
	IQ3XXS: {"iq3_xxs", 256, 98, true}, IQ3S: {"iq3_s", 256, 110, true},
	IQ1S: {"iq1_s", 256, 50, true}, IQ1M: {"iq1_m", 256, 56, true},
	IQ4NL: {"iq4_nl", 32, 18, true}, IQ4XS: {"iq4_xs", 256, 136, true},
	TQ1_0: {"tq1_0", 256, 54, true}, TQ2_0: {"tq2_0", 256, 66, true},
	MXFP4: {"mxfp4", 32, 17, true}, NVFP4: {"nvfp4", 64, 36, true},
}

// Known reports whether the type's block layout is known, so that sizes can be computed.
func (t Type) Known() bool { return t < typeCount && typeTable[t].elems > 0 }

// String returns ggml's name ("q4_K"), or "type 99" for an id it does not know.
func (t Type) String() string {
	if !t.Known() {
		return "type " + strconv.FormatUint(uint64(t), 10)
	}
	return typeTable[t].name
}

// Block returns the number of elements and bytes of one block; both are 0 for an unknown type.
func (t Type) Block() (elems, bytes int64) {
	if !t.Known() {
		return 0, 0
	}
	return typeTable[t].elems, typeTable[t].bytes
}

// Quantized reports whether the type stores blocks rather than plain numbers.
func (t Type) Quantized() bool { return t.Known() && typeTable[t].quantized }

// RowSize returns the bytes of a row of cols elements. cols must be a multiple of the block size;
// ok is false otherwise, for unknown types, and when the size overflows.
func (t Type) RowSize(cols int64) (size int64, ok bool) {
	elems, bytes := t.Block()
	if elems == 0 || cols < 0 || cols%elems != 0 || cols/elems > (1<<62)/bytes {
		return 0, false
	}
	return cols / elems * bytes, true
}

// ParseType reads a type name in any case ("q4_k", "IQ2_XXS").
func ParseType(name string) (Type, error) {
	for t := range typeTable {
		if typeTable[t].elems > 0 && strings.EqualFold(typeTable[t].name, name) {
			return Type(t), nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q", name)
}

// Types returns every known type in id order.
func Types() []Type {
	var all []Type
	for t := range typeTable {
		if Type(t).Known() {
			all = append(all, Type(t))
		}
	}
	return all
}
