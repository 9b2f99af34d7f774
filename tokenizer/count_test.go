package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"gguf-forge/internal/fault"
)

// countVocabs are tokenizers of every kind, with and without what makes a text hard to take in parts.
func countVocabs(t testing.TB) map[string]*Tokenizer {
	all := map[string]*Tokenizer{"demo hf": demoJSON(t)}
	all["demo llama.cpp"] = asMode(t, all["demo hf"], LlamaCpp)
	for name, v := range slowVocabs(3) {
		all[name] = v.build(t)
		all[name+" hf"] = asMode(t, all[name], HuggingFace)
	}
	for _, name := range jsonVariants {
		all["variant "+name] = variantJSON(t, name)
	}
	bin, err := FromLlama2C(smallBin(), 0)
	if err != nil {
		t.Fatal(err)
	}
	all["llama2.c"] = bin
	all["llama2.c as llama.cpp"] = asMode(t, bin, LlamaCpp)
	return all
}

// smallCounter reads a few bytes at a time, so that every place in a text is once the end of what was read.
func smallCounter(tok *Tokenizer, block int) *Counter {
	c := tok.NewCounter()
	c.block = block
	return c
}

// TestCounter compares counts of a text taken in small parts with its ids.
func TestCounter(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for name, tok := range countVocabs(t) {
		rnd := rand.New(rand.NewPCG(11, 12))
		for i := range rounds {
			text := randomText(rnd, 60, i%3 == 0 && tok.Mode() != HuggingFace)
			checkCounter(t, name, tok, text, 1+rnd.IntN(40))
		}
	}
}

func checkCounter(t *testing.T, name string, tok *Tokenizer, text []byte, block int) {
	t.Helper()
	ids, err := tok.Encode(nil, text, EncodeOptions{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := countIDs(tok, ids)
	one := smallCounter(tok, block)
	if err := one.Text(iotest.HalfReader(bytes.NewReader(text))); err != nil {
		t.Fatalf("%s: %q: %v", name, text, err)
	}
	if got := one.Counts(); !slices.Equal(got, want) {
		t.Fatalf("%s, %d bytes at once: %q\n%s", name, block, text, differ(got, want))
	}
	several := []*Counter{smallCounter(tok, block), smallCounter(tok, block), smallCounter(tok, block)}
	if err := CountText(bytes.NewReader(text), several); err != nil {
		t.Fatalf("%s: %q: %v", name, text, err)
	}
	several[0].Add(several[1])
	several[0].Add(several[2])
	if got := several[0].Counts(); !slices.Equal(got, want) {
		t.Fatalf("%s, three counters, %d bytes at once: %q\n%s", name, block, text, differ(got, want))
	}
}

func differ(got, want []uint64) string {
	var b strings.Builder
	for id := range got {
		if got[id] != want[id] {
			fmt.Fprintf(&b, "id %d: %d, want %d\n", id, got[id], want[id])
		}
	}
	return b.String()
}

// TestCounterTables counts more different pieces than a table holds.
func TestCounterTables(t *testing.T) {
	tok := demoJSON(t)
	var text []byte
	for i := range 250_000 {
		text = fmt.Appendf(text, " %c%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, 'a'+i/17576%26)
	}
	for i := range 30_000 {
		text = fmt.Appendf(text, " %s%c%c%c", strings.Repeat("long", 40), 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	ids, err := tok.Encode(nil, text, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := tok.Encode(nil, text, EncodeOptions{})
	if err != nil || !slices.Equal(ids, again) {
		t.Fatalf("encoding again gives other ids (%v)", err)
	}
	c := tok.NewCounter()
	for range 2 {
		if err := c.Bytes(text); err != nil {
			t.Fatal(err)
		}
	}
	want := countIDs(tok, slices.Concat(ids, ids))
	if got := c.Counts(); !slices.Equal(got, want) {
		t.Fatal(differ(got, want))
	}
	if size := len(c.c.known.slots); size > maxSlots {
		t.Errorf("the table has %d slots", size)
	}
}

// TestCounterErrors wants errors that name the place in the whole text, whoever finds them.
func TestCounterErrors(t *testing.T) {
	line := "some words of text\n"
	long := strings.Repeat(line, 500)
	tok := demoJSON(t)
	for _, c := range []struct {
		name, bad, want string
		mode            Mode
	}{
		{"not UTF-8", "\xff", "byte 9500 is not UTF-8", HuggingFace},
		{"above Unicode", "\xf4\x90\x80\x80", "byte 9500 begins U+110000", LlamaCpp},
	} {
		tok := asMode(t, tok, c.mode)
		text := long + c.bad + long
		for n := 1; n <= 3; n++ {
			var counters []*Counter
			for range n {
				counters = append(counters, smallCounter(tok, 256))
			}
			err := CountText(strings.NewReader(text), counters)
			if fault.KindOf(err) != fault.BadInput || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %d counters: %v", c.name, n, err)
			}
		}
		if _, err := tok.Encode(nil, []byte(text), EncodeOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: encode: %v", c.name, err)
		}
	}
	broken := errors.New("the disk is gone")
	for n := 1; n <= 2; n++ {
		counters := []*Counter{smallCounter(tok, 256), smallCounter(tok, 256)}[:n]
		if err := CountText(io.MultiReader(strings.NewReader(long), iotest.ErrReader(broken)), counters); !errors.Is(err, broken) {
			t.Errorf("%d counters: %v", n, err)
		}
	}
}

// TestDropped counts bytes that have no token.
func TestDropped(t *testing.T) {
	v := byteVocab(rand.New(rand.NewPCG(1, 1)), "gpt-2", "ab", 4)
	at := slices.Index(v.tokens, string(alphabet['z']))
	v.tokens[at] = "[gone]"
	tok := v.build(t)
	if got := tok.MissingBytes(); string(got) != "z" {
		t.Fatalf("missing %q", got)
	}
	c := tok.NewCounter()
	text := "zab zz ab zzz"
	if err := c.Bytes([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if n := c.Dropped(); n != 6 {
		t.Errorf("%d bytes dropped, want 6", n)
	}
	ids, err := tok.Encode(nil, []byte(text), EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(tok.Decode(nil, ids, DecodeOptions{})); got != "ab  ab " {
		t.Errorf("decodes to %q", got)
	}
}

// TestLongTexts takes texts of 1 MB that are one piece, or hard to take apart. It would not end if anything were quadratic.
func TestLongTexts(t *testing.T) {
	size := 1 << 20
	if testing.Short() {
		size = 1 << 15
	}
	vocabs := countVocabs(t)
	rnd := rand.New(rand.NewPCG(13, 14))
	random := randomLetters(rnd, "ab", 1)
	for len(random) < size {
		random = append(random, "ab"[rnd.IntN(2)])
	}
	for what, text := range map[string][]byte{
		"a": bytes.Repeat([]byte("a"), size), "spaces": bytes.Repeat([]byte(" "), size), "lines": bytes.Repeat([]byte("\n"), size),
		"marks": bytes.Repeat([]byte("▁"), size/3), "emoji": bytes.Repeat([]byte("😀"), size/4), "accents": bytes.Repeat([]byte("\u0301"), size/2),
		"random": random, "specials": bytes.Repeat([]byte("[ab]"), size/4), "NUL": make([]byte, size), "upper": bytes.Repeat([]byte("A"), size),
	} {
		for _, name := range []string{"demo hf", "gpt-2", "gpt-4o", "gpt-4o hf", "llama", "gemma4", "llama2.c"} {
			tok := vocabs[name]
			ids, err := tok.Encode(nil, text, EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c := tok.NewCounter()
			if err := c.Bytes(text); err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if !slices.Equal(c.Counts(), countIDs(tok, ids)) {
				t.Errorf("%s, %s: counts differ", name, what)
			}
		}
	}
}

// TestTooLong refuses a text that is one piece beyond all bounds, instead of needing memory for it.
func TestTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 17 MB")
	}
	tok := demoJSON(t)
	err := tok.NewCounter().Text(io.LimitReader(letters{}, 100<<20))
	if fault.KindOf(err) != fault.BadInput || !strings.Contains(err.Error(), "without a place") {
		t.Errorf("%v", err)
	}
}

// letters is a text of the letter a.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// TestConcurrent encodes with one tokenizer from many goroutines.
func TestConcurrent(t *testing.T) {
	tok := demoJSON(t)
	text := demoText(t, "de")
	want, err := tok.Encode(nil, text, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	for range 8 {
		go func() {
			got, err := tok.Encode(nil, text, EncodeOptions{})
			done <- err == nil && slices.Equal(got, want)
		}()
	}
	for range 8 {
		if !<-done {
			t.Error("another result")
		}
	}
}
