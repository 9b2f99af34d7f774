package corpus

import (
	"io"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// checked refuses text that isn't UTF-8, unless the input takes any bytes: a file in another encoding would be counted as
// something it isn't.
func (in *Input) checked(r io.Reader) io.Reader {
	if in.Any {
		return r
	}
	return &utf8Reader{r: r, name: in.Name}
}

// utf8Reader passes on what it reads and looks at it.
type utf8Reader struct {
	r    io.Reader
	name string
	at   int64             // of the first byte that was not judged yet
	tail [utf8.UTFMax]byte // a code point that isn't complete
	n    int               // bytes of it
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if at, ok := u.judge(p[:n], err == io.EOF); !ok {
		return n, fault.WithHint(fault.New(fault.BadInput, "%s: byte %d is not valid UTF-8", u.name, at),
			"convert the text to UTF-8; gguf-forge count takes other bytes with --any-bytes")
	}
	return n, err
}

// judge looks at the next bytes. It returns the position of the first one that belongs to no code point.
func (u *utf8Reader) judge(p []byte, last bool) (int64, bool) {
	for u.n > 0 && len(p) > 0 && !utf8.FullRune(u.tail[:u.n]) {
		u.tail[u.n] = p[0]
		u.n++
		p = p[1:]
	}
	if u.n > 0 {
		if !utf8.FullRune(u.tail[:u.n]) {
			return u.at, !last
		}
		if r, size := utf8.DecodeRune(u.tail[:u.n]); r == utf8.RuneError && size == 1 {
			return u.at, false
		}
		u.at += int64(u.n)
		u.n = 0
	}
	end := len(p)
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if utf8.RuneStart(p[len(p)-back]) {
			if !utf8.FullRune(p[len(p)-back:]) {
				end = len(p) - back
			}
			break
		}
	}
	if !utf8.Valid(p[:end]) {
		for i := 0; ; {
			r, size := utf8.DecodeRune(p[i:end])
			if r == utf8.RuneError && size == 1 {
				return u.at + int64(i), false
			}
			i += size
		}
	}
	u.at += int64(end)
	u.n = copy(u.tail[:], p[end:])
	return u.at, u.n == 0 || !last
}
