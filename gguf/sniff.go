package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"gguf-forge/internal/fault"
)

// A lookalike is another kind of file that people meet under a .gguf name.
type lookalike struct {
	prefix string
	what   string
	hint   string
}

const (
	hintConvert  = "convert the original model again with a current converter: GGUF replaced this format in August 2023"
	hintDownload = "look at its text for the reason, then fetch the file again by its download address (…/resolve/… on a hub)"
	hintUnpack   = "unpack it first"
)

var lookalikes = []lookalike{
	{"FUGG", "a big-endian GGUF", "use the little-endian file of the model, or convert it back with gguf-py's gguf_convert_endian"},
	{"gguf", "no GGUF: its magic is written in lower case", "the file is damaged or made by a faulty writer: fetch it again"},
	{"lmgg", "an unversioned GGML file (magic ggml)", hintConvert},
	{"ggml", "an unversioned GGML file (magic ggml)", hintConvert},
	{"fmgg", "a GGML file of 2023 (magic ggmf)", hintConvert},
	{"ggmf", "a GGML file of 2023 (magic ggmf)", hintConvert},
	{"tjgg", "a GGML file of 2023 (magic ggjt)", hintConvert},
	{"ggjt", "a GGML file of 2023 (magic ggjt)", hintConvert},
	{"algg", "a GGML adapter of 2023 (magic ggla)", hintConvert},
	{"version https://git-lfs", "a git-lfs pointer, not the file it points to", "run git lfs pull, or fetch the file by its download address (…/resolve/… on a hub)"},
	{"version https://hawser", "a git-lfs pointer, not the file it points to", "run git lfs pull, or fetch the file by its download address (…/resolve/… on a hub)"},
	{"PK\x03\x04", "a zip archive, as PyTorch checkpoints are", "take the repository's GGUF or safetensors files; unpack it if it is a plain zip"},
	{"\x80\x02", "a Python pickle, as old PyTorch checkpoints are", "take the repository's GGUF or safetensors files"},
	{"\x1f\x8b", "compressed with gzip", hintUnpack},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", hintUnpack},
	{"\xfd7zXZ", "compressed with xz", hintUnpack},
	{"7z\xbc\xaf", "a 7z archive", hintUnpack},
}

// sniff reads the first piece and refuses a file that is no GGUF, naming what it is instead.
func (p *parser) sniff() error {
	if p.size <= 0 {
		return fault.WithHint(fault.New(fault.BadInput, "the file is empty"),
			"the download or the program that wrote it failed: fetch it again")
	}
	if !p.fill(min(p.size, 24), "magic") {
		return p.err
	}
	if p.size < 24 && bytes.HasPrefix([]byte(magic), p.buf[:min(4, len(p.buf))]) {
		return fault.WithHint(fault.New(fault.BadInput, "the file ends inside its header: it has %d bytes, a GGUF has at least 24", p.size),
			"it is cut off: fetch it again or continue the download")
	}
	if bytes.HasPrefix(p.buf, []byte(magic)) {
		return nil
	}
	what, hint := identify(p.buf, p.size)
	return fault.WithHint(fault.New(fault.BadInput, "the file is %s", what), "%s", hint)
}

// identify says what a file is that does not begin with the magic.
func identify(head []byte, size int64) (what, hint string) {
	for _, l := range lookalikes {
		if bytes.HasPrefix(head, []byte(l.prefix)) {
			return l.what, l.hint
		}
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	lower := bytes.ToLower(text[:min(len(text), 512)])
	switch {
	case bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html")) || bytes.Contains(lower, []byte("<html")) && lower[0] == '<':
		return "an HTML page, not a model", hintDownload
	case bytes.HasPrefix(lower, []byte("<")):
		return "an XML document, as storage services send for errors, not a model", hintDownload
	case isSafetensors(head, size):
		return "a safetensors file", "name it .safetensors, or give the model's GGUF"
	case bytes.HasPrefix(text, []byte("{")):
		return "a JSON document, not a model", hintDownload
	case len(bytes.TrimLeft(head[:min(len(head), 4096)], "\x00")) == 0:
		return "no GGUF: it begins with zeros", "the program that wrote it did not finish, or its download has a hole: make or fetch it again"
	}
	return fmt.Sprintf("no GGUF: it begins with %q instead of %q", head[:min(len(head), 4)], magic), "check that the path names a GGUF model, and fetch it again if it does"
}

// isSafetensors recognizes the length of the JSON header and its opening brace.
func isSafetensors(head []byte, size int64) bool {
	if len(head) < 9 || head[8] != '{' {
		return false
	}
	n := binary.LittleEndian.Uint64(head)
	return n >= 2 && n <= uint64(size)-8
}
