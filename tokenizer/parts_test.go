package tokenizer

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gguf-forge/internal/fault"
)

func TestLenient(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"aé中😀", "aé中😀"},
		{"\xe4\xb8 ", "\ufffd\ufffd "}, {"\xe4\xb8", "\ufffd\ufffd"}, {"\xe4", "\ufffd"}, {"\x80a", "\ufffda"},
		{"\xc0\x80", "\x00"}, {"\xc1\x81", "A"}, {"\xe0\x80\xaf", "/"}, {"\xf0\x80\x80\xaf", "/"}, {"\xe0\x9f\xbf", "\u07ff"},
		{"\xed\xa0\x80", "\xed\xa0\x80"}, {"\xed\xbf\xbf.", "\xed\xbf\xbf."}, {"\xf0\x8d\xa0\x80", "\xed\xa0\x80"},
		{"\xf8\x88\x80\x80\x80", "\ufffd\ufffd\ufffd\ufffd\ufffd"}, {"\xff\xfe", "\ufffd\ufffd"}, {"\xf4\x90\x80", "\ufffd\ufffd\ufffd"},
		{"\xf4\x8f\xbf\xbf", "\U0010ffff"}, {"\ufffd", "\ufffd"}, {"\xc3\xc3\xa9", "\ufffdé"},
	} {
		got, err := appendLenient(nil, []byte(c.in), 0)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"ab\xf4\x90\x80\x80", "ab\xf7\xbf\xbf\xbf"} {
		_, err := appendLenient(nil, []byte(in), 1000)
		if fault.KindOf(err) != fault.BadInput || !strings.Contains(err.Error(), "byte 1002") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestPartial(t *testing.T) {
	for in, want := range map[string]int{"": 0, "a": 0, "é": 0, "中": 0, "😀": 0, "a\xc3": 1, "\xe4\xb8": 2, "\xf0\x9f\x98": 3, "\x80\x80\x80\x80": 0, "\xc3\xa9\xa9": 0, "a\xf0\x9f": 2} {
		if got := partial([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

// TestClasses compares the generated tables with the Go release's, as far as that knows a character.
func TestClasses(t *testing.T) {
	old, now := unicode151(), unicode160()
	differ, spaces := 0, 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := other
		switch {
		case unicode.IsSpace(r):
			want = space
			spaces++
		case unicode.Is(unicode.Lu, r):
			want = upper
		case unicode.Is(unicode.Ll, r):
			want = lower
		case unicode.Is(unicode.Lt, r):
			want = title
		case unicode.Is(unicode.Lm, r):
			want = modifier
		case unicode.Is(unicode.Lo, r):
			want = letter
		case unicode.IsMark(r):
			want = mark
		case unicode.IsNumber(r):
			want = number
		}
		if old.of(r) != want && want != other && old.of(r) != other {
			differ++
		}
		if old.of(r) != now.of(r) && old.of(r) != other {
			differ++
		}
	}
	if differ > 20 { // a character changes its category now and then
		t.Errorf("%d characters have another class", differ)
	}
	if spaces != 25 {
		t.Errorf("%d spaces", spaces)
	}
	// The first letters of Unicode 15.1 and of 16.0.
	if old.of(0x2EBF0) != letter || old.of(0x1C89) != other || now.of(0x1C89) != upper || old.of(0x105C0) != other || now.of(0x105C0) != letter {
		t.Error("the tables are of other versions")
	}
}

// naiveSplit cuts tokens out of text one after the other, as the rule says.
func naiveSplit(list []specialText, text []byte) []match {
	parts := []match{{0, len(text), None}}
	for _, s := range list {
		var next []match
		for _, p := range parts {
			if p.id != None {
				next = append(next, p)
				continue
			}
			for {
				n := bytes.Index(text[p.start:p.end], s.text)
				if n < 0 {
					break
				}
				left, end := p.start+n, p.start+n+len(s.text)
				for s.attr&rstrip != 0 && end < p.end && isCSpace(text[end]) {
					end++
				}
				if left > p.start {
					next = append(next, match{p.start, left, None})
				}
				next = append(next, match{left, end, s.id})
				p.start = end
			}
			if p.start < p.end {
				next = append(next, p)
			}
		}
		parts = next
	}
	return slices.DeleteFunc(parts, func(p match) bool { return p.id == None })
}

// TestLongestFirst compares with the rule, also where a text comes in parts.
func TestLongestFirst(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 300
	}
	rnd := rand.New(rand.NewPCG(15, 16))
	for range rounds {
		var list []specialText
		seen := map[string]bool{}
		for range 1 + rnd.IntN(8) {
			text := randomLetters(rnd, "aab <", 5)
			if len(text) == 0 || seen[string(text)] {
				continue
			}
			seen[string(text)] = true
			s := specialText{text: text, id: int32(len(list))}
			if rnd.IntN(4) == 0 {
				s.attr = rstrip
			}
			list = append(list, s)
		}
		if len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list, func(a, b specialText) int { return len(b.text) - len(a.text) })
		s := newLongestFirst(slices.Clone(list))
		text := randomLetters(rnd, "aaab <\n", 40)
		want := naiveSplit(list, text)
		got, _ := s.split(nil, text, true)
		if !slices.Equal(got, want) {
			t.Fatalf("%q of %v\ngot  %v\nwant %v", text, list, got, want)
		}
		var parts []match
		base, read := 0, 0
		for read < len(text) || base < len(text) {
			read = min(len(text), read+1+rnd.IntN(5))
			end := read == len(text)
			found, hold := s.split(nil, text[base:read], end)
			for _, m := range found {
				parts = append(parts, match{base + m.start, base + m.end, m.id})
			}
			base += hold
			if end {
				break
			}
		}
		if !slices.Equal(parts, want) {
			t.Fatalf("in parts: %q of %v\ngot  %v\nwant %v", text, list, parts, want)
		}
	}
}

func TestScoreRank(t *testing.T) {
	scores := []float32{float32(math.Inf(1)), 3, 1, 0, -1, -2.5, -1e10, float32(math.Inf(-1))}
	for i := range len(scores) - 1 {
		if a, b := scoreRank(scores[i]), scoreRank(scores[i+1]); a >= b || b == noRank {
			t.Errorf("%g has rank %d, %g %d", scores[i], a, scores[i+1], b)
		}
	}
	if scoreRank(0) != scoreRank(float32(math.Copysign(0, -1))) {
		t.Error("-0 and 0 differ")
	}
}

func TestCleanUp(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " .": ".", "a . b": "a. b", "a  .": "a .", "Hi , you !": "Hi, you!", "a ' b": "a'b", "a ' b ' c": "a'b'c", " ' ' ": "'' ",
		"it 's": "it's", "I 'm": "I'm", "we 're": "we're", "I 've": "I've", "we 'll": "we 'll", "don 't": "don 't", "a 'r": "a 'r", "' s": "' s", "?": "?",
	} {
		if got := string(cleanUp([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestModes(t *testing.T) {
	for _, m := range []Mode{LlamaCpp, HuggingFace, Llama2C} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("sentencepiece"); fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
	if _, err := demoJSON(t).As(Llama2C); fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
}

// TestVocabHash compares with a hash made by hand: SHA-256 of the lengths and texts.
func TestVocabHash(t *testing.T) {
	v := &vocab{model: "llama", tokens: []string{"<unk>", "▁a"}, types: []int32{2, 1}, scores: []float32{0, 0}}
	h := v.build(t).VocabHash()
	if got := hex.EncodeToString(h[:]); got != "cfe8bcf94c54f108f694693f8024a1bc016462ec662abd14b52802260fb07c9c" {
		t.Error(got)
	}
}
