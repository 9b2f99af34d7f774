package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
)

// raw builds the bytes of a header by hand, right or wrong.
type raw struct{ bytes.Buffer }

func (r *raw) u32(v uint32) *raw { return r.put(binary.LittleEndian.AppendUint32(nil, v)) }
func (r *raw) u64(v uint64) *raw { return r.put(binary.LittleEndian.AppendUint64(nil, v)) }
func (r *raw) str(s string) *raw { return r.u64(uint64(len(s))).put([]byte(s)) }
func (r *raw) put(b []byte) *raw { r.Write(b); return r }
func (r *raw) zeros(n int) *raw  { return r.put(make([]byte, n)) }
func (r *raw) pad(n int) *raw    { return r.zeros((n - r.Len()%n) % n) }

func head(tensors, pairs uint64) *raw {
	r := &raw{}
	r.WriteString(magic)
	return r.u32(3).u64(tensors).u64(pairs)
}

func (r *raw) kvU32(key string, v uint32) *raw { return r.str(key).u32(uint32(Uint32)).u32(v) }

func (r *raw) tensor(name string, t Type, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// headerFault is a file that ReadHeader must refuse.
type headerFault struct {
	name  string
	file  []byte
	error string // part of the message
	hint  string // part of the hint
}

// headerFaults are the ways files were found to be wrong in public reports, and every check of the reference.
func headerFaults() []headerFault {
	var list []headerFault
	add := func(name string, r *raw, message, hint string) {
		list = append(list, headerFault{name, r.Bytes(), message, hint})
	}
	text := func(name, s, message, hint string) {
		list = append(list, headerFault{name, []byte(s), message, hint})
	}

	// Other things under the name of a model.
	text("empty", "", "the file is empty", "fetch it again")
	text("html", "<!DOCTYPE html>\n<html><head><title>Sign in</title>", "an HTML page", "/resolve/")
	text("html with mark", "\xef\xbb\xbf  \r\n<HTML lang=en>", "an HTML page", "/resolve/")
	text("html in xml", `<?xml version="1.0"?><html xmlns="x">`, "an HTML page", "/resolve/")
	text("xml", `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`, "an XML document", "/resolve/")
	text("json", `{"error":"Repository not found"}`, "a JSON document", "/resolve/")
	text("short json", `{}`, "a JSON document", "/resolve/")
	text("lfs pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "a git-lfs pointer", "git lfs pull")
	text("safetensors", "\x10\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{}", "a safetensors file", ".safetensors")
	text("pytorch zip", "PK\x03\x04\x00\x00\x08\x08", "a zip archive", "safetensors")
	text("pickle", "\x80\x02\x8a\x0al\xfc\x9cF", "a Python pickle", "safetensors")
	text("gzip", "\x1f\x8b\x08\x00", "gzip", "unpack")
	text("ggml", "lmgg\x00\x7d\x00\x00", "magic ggml", "convert the original model again")
	text("ggmf", "fmgg\x01\x00\x00\x00", "magic ggmf", "convert the original model again")
	text("ggjt", "tjgg\x03\x00\x00\x00", "magic ggjt", "convert the original model again")
	text("ggla", "algg\x01\x00\x00\x00", "magic ggla", "convert the original model again")
	text("lower case magic", "gguf"+strings.Repeat("\x00", 60), "lower case", "fetch it again")
	text("zeros", strings.Repeat("\x00", 64), "it begins with zeros", "did not finish")
	text("noise", "\x93NUMPY\x01\x00v", `it begins with "\x93NUM"`, "check that the path names a GGUF")
	text("one byte", "G", "1 bytes, a GGUF has at least 24", "cut off")
	text("magic only", "GGUF", "4 bytes, a GGUF has at least 24", "cut off")
	text("short head", "GGUF\x03\x00\x00\x00", "8 bytes, a GGUF has at least 24", "cut off")

	// Versions and byte order.
	version := func(v uint32) *raw {
		r := &raw{}
		r.WriteString(magic)
		return r.u32(v).zeros(56)
	}
	add("version 0", version(0), "version 0 is not supported", "damaged")
	add("version 1", version(1), "version 1 is not supported", "convert the original model again")
	add("version 4", version(4), "version 4 is not supported", "newer")
	add("version 65539", version(65539), "version 65539 is not supported", "newer")
	add("big-endian", version(3<<24), "a big-endian GGUF", "little-endian")
	text("big-endian magic", "FUGG\x00\x00\x00\x03"+strings.Repeat("\x00", 24), "a big-endian GGUF", "little-endian")

	// Counts.
	add("tensor count beyond file", head(1000, 0).zeros(100), "tensor count is 1000", "cut off")
	add("tensor count negative", head(math.MaxUint64, 0).zeros(100), "tensor count is 18446744073709551615", "damaged")
	add("tensor count 2^60", head(1<<60, 0).zeros(100), "tensor count is 1152921504606846976", "damaged")
	add("pair count beyond file", head(0, 1<<33).zeros(100), "key-value pair count is 8589934592", "damaged")
	add("pair count negative", head(0, 1<<63).zeros(100), "key-value pair count is 9223372036854775808", "damaged")

	// Pairs.
	add("empty key", head(0, 1).kvU32("", 1).zeros(64), "pair 0 has an empty key", "")
	add("duplicate key", head(0, 2).kvU32("a", 1).kvU32("a", 2), `"a" appears twice`, "")
	add("key beyond file", head(0, 1).u64(1<<20).zeros(64), "key needs 1048576 bytes", "cut off")
	add("key length 2^63", head(0, 1).u64(1<<63).zeros(64), "more than 1073741824", "")
	add("unknown value type", head(0, 1).str("k").u32(13).zeros(64), `"k" has unknown value type 13`, "")
	add("string beyond file", head(0, 1).str("k").u32(uint32(String)).u64(500).zeros(64), "k needs 500 bytes", "cut off")
	add("string length 2^31", head(0, 1).str("k").u32(uint32(String)).u64(1<<31).zeros(64), "has 2147483648 bytes, more than", "")
	add("scalar cut", head(0, 1).str("some key").u32(uint32(Uint64)).zeros(3), "some key needs 8 bytes", "cut off")
	array := func(elem ValueType, n uint64) *raw {
		return head(0, 1).str("k").u32(uint32(Array)).u32(uint32(elem)).u64(n)
	}
	add("array of arrays", array(Array, 1).zeros(64), `"k" is an array of arrays`, "")
	add("array of unknown type", array(99, 1).zeros(64), `"k" is an array of unknown value type 99`, "")
	add("array of 2^30+1", array(Uint8, 1<<30+1).zeros(64), "more than 1073741824", "")
	add("array of 2^64-1 strings", array(String, math.MaxUint64).zeros(64), "more than 1073741824", "")
	add("array beyond file", array(Uint64, 1<<20).zeros(64), "k needs 8388608 bytes", "cut off")
	add("strings beyond file", array(String, 100).zeros(64), "k needs 800 bytes", "cut off")
	add("last string beyond file", array(String, 2).str("ok").u64(9).zeros(8), "k needs 9 bytes", "cut off")
	add("string array cut", array(String, 2).str("four+four").zeros(4), "k needs 8 bytes", "cut off")

	// Alignment.
	alignment := func(v uint32) *raw { return head(0, 1).kvU32(alignmentKey, v).zeros(64) }
	add("alignment 0", alignment(0), "general.alignment is 0", "")
	add("alignment 33", alignment(33), "general.alignment is 33", "")
	add("alignment u64", head(0, 1).str(alignmentKey).u32(uint32(Uint64)).u64(32).zeros(64), "is of type u64", "")
	add("alignment string", head(0, 1).str(alignmentKey).u32(uint32(String)).str("32").zeros(64), "is of type str", "")

	// Tensors.
	add("name of 64 bytes", head(1, 0).tensor(strings.Repeat("n", 64), F32, 0, 1).zeros(64), "has 64 bytes, more than 63", "")
	add("duplicate tensor", head(2, 0).tensor("t", F32, 0, 8).tensor("t", F32, 32, 8).zeros(99), `"t" appears twice`, "")
	add("5 dimensions", head(1, 0).tensor("t", F32, 0, 1, 1, 1, 1, 1).zeros(64), `"t" has 5 dimensions`, "")
	add("2^32-1 dimensions", head(1, 0).str("t").u32(math.MaxUint32).zeros(64), "has 4294967295 dimensions", "")
	add("negative dimension", head(1, 0).tensor("t", F32, 0, 4, math.MaxUint64).zeros(64), `dimension 1 of tensor "t" is -1`, "")
	add("2^63 elements", head(1, 0).tensor("t", I8, 0, 1<<31, 1<<32).zeros(64), "too many elements", "")
	add("2^63 bytes", head(1, 0).tensor("t", F32, 0, 1<<31, 1<<30).zeros(64), "is too large", "")
	add("rows that are no blocks", head(1, 0).tensor("t", Q4_K, 0, 128).zeros(64), "no multiple of the 256", "")
	add("rows of no elements in shape ()", head(1, 0).tensor("t", Q8_0, 0).zeros(64), "no multiple of the 32", "")
	add("offset 2^63", head(1, 0).tensor("t", F32, 1<<63, 8).zeros(64), `"t" has offset 9223372036854775808`, "")
	add("table cut", head(2, 0).tensor("t", F32, 0, 8).str("unfinished").u32(2).u64(1), "tensor table needs 8 bytes", "cut off")

	// Offsets.
	add("gap", head(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 8224, 8).zeros(9000), `"b" is at offset 8224, it must be at 32`, "")
	add("too little room", head(2, 0).tensor("a", F32, 0, 64).tensor("b", F32, 32, 8).zeros(999), `"b" is at offset 32, it must be at 256`, "")
	add("first not at 0", head(1, 0).tensor("a", F32, 7, 8).zeros(999), `"a" is at offset 7, it must be at 0`, "")
	add("shared data", head(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 0, 8).zeros(999), `"b" is at offset 0, it must be at 32`, "")
	add("swapped", head(2, 0).tensor("a", F32, 32, 8).tensor("b", F32, 0, 8).zeros(999), `"a" is at offset 32`, "")
	add("table of alignment 32 declares 64", head(2, 1).kvU32(alignmentKey, 64).tensor("a", F32, 0, 8).tensor("b", F32, 32, 8).zeros(999),
		`tensor "b" is at offset 32, as for an alignment of 32; the alignment of the file is 64`, alignmentKey)
	add("table of alignment 64 declares none", head(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 64, 8).zeros(999),
		`tensor "b" is at offset 64, as for an alignment of 64; the alignment of the file is 32`, alignmentKey)
	add("data start of alignment 32 declares 64", head(1, 1).kvU32(alignmentKey, 64).tensor("a", F32, 0, 16).zeros(2).pad(32).zeros(64),
		`general.alignment 64 puts the data of tensor "a" at 128, but the file was written with alignment 32`, alignmentKey)
	add("ends beyond any file", head(2, 0).tensor("a", I8, 0, 1<<62).tensor("b", I8, 1<<62, 1<<62).zeros(999), "beyond any file", "")
	add("total beyond any file", head(2, 0).tensor("a", I8, 0, 1<<62).tensor("b", I8, 1<<62, 1<<62-64).zeros(999), "tensor data ends beyond", "")
	add("unknown type, next overlaps", head(3, 0).tensor("a", F32, 0, 8).tensor("b", 99, 32, 8).tensor("c", F32, 0, 8).zeros(999), `"c" at offset 0 overlaps`, "")
	add("unknown type, next unaligned", head(2, 0).tensor("b", 99, 0, 8).tensor("c", F32, 33, 8).zeros(999), `offset 33 of tensor "c" is not a multiple of the alignment 32`, "")
	add("known type behind unknown", head(3, 0).tensor("a", 99, 0, 8).tensor("b", F32, 64, 8).tensor("c", F32, 4096, 8).zeros(999), `"c" is at offset 4096, it must be at 96`, "")
	return list
}
