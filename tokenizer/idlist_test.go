package tokenizer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

func TestIDListText(t *testing.T) {
	hash := strings.Repeat("a1", 32)
	l := &IDList{IDs: []uint32{0, 7, 2047}, Rule: `{"rows":3}`, VocabSize: 2048, VocabHash: hash, Corpora: []ListCorpus{
		{Name: "en", Tokens: 5, Counts: hash, Text: strings.Repeat("b2", 32)}, {Name: "zh-wiki", Weight: 0.5, Tokens: 1 << 60, Counts: hash}}}
	var b bytes.Buffer
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `# gguf-forge id list 1
# rule: {"rows":3}
# corpus: name=en tokens=5 counts=` + hash + ` text=` + strings.Repeat("b2", 32) + `
# corpus: name=zh-wiki weight=0.5 tokens=1152921504606846976 counts=` + hash + `
# vocabulary: entries=2048 sha256=` + hash + `
# ids: count=3 sha256=` + l.Hash() + `
0
7
2047
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Fatal(diff)
	}
	for name, text := range map[string]string{"as written": want, "with CRLF": strings.ReplaceAll(want, "\n", "\r\n"), "with comments": "# chosen by hand\n" + want + "#"} {
		got, err := ParseIDList(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(l, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestIDListHash compares with hashes of bytes written out by hand.
func TestIDListHash(t *testing.T) {
	for _, c := range []struct {
		ids  []uint32
		want string // sha256sum of the bytes
	}{
		{nil, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{[]uint32{1, 258}, "fb8bbe2ad3ab5292f19bc5d75bbab9b5fbddc5a78ce47ab41b2d3d59bca08596"},
	} {
		if got := (&IDList{IDs: c.ids}).Hash(); got != c.want {
			t.Errorf("%v: %s, want %s", c.ids, got, c.want)
		}
	}
	if got, want := HashCounts([]uint64{}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestParseIDListErrors(t *testing.T) {
	hash := strings.Repeat("a1", 32)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no ids"},
		{"only a header", "# rule: x\n", "no ids"},
		{"duplicate", "1\n2\n2\n", "line 3: id 2 is there twice"},
		{"unsorted", "1\n5\n2\n", "line 3: id 2 stands after 5"},
		{"word", "1\ntwo\n", `line 2: "two" is no token id`},
		{"blank line", "1\n\n2\n", `line 2: "" is no token id`},
		{"space", "1 \n", `"1 " is no token id`},
		{"negative", "-1\n", `"-1" is no token id`},
		{"huge", "2147483648\n", "is no token id"},
		{"version", "# gguf-forge id list 2\n1\n", "version"},
		{"count", "# ids: count=2 sha256=" + (&IDList{IDs: []uint32{1}}).Hash() + "\n1\n", "has 1 ids, its header says 2"},
		{"hash", "# ids: count=1 sha256=" + hash + "\n1\n", "header says " + hash},
		{"vocabulary", "# vocabulary: entries=5\n1\n", `"sha256"`},
		{"vocabulary of nothing", "# vocabulary: entries=0 sha256=" + hash + "\n1\n", `"entries"`},
		{"corpus", "# corpus: en\n1\n", `"name"`},
		{"corpus name", "# corpus: name=../x tokens=1 counts=" + hash + "\n1\n", `"name"`},
		{"more words", "# corpus: name=en tokens=1 counts=" + hash + " more=1\n1\n", `"more=1"`},
		{"long line", "# " + strings.Repeat("x", maxListLine) + "\n1\n", "longer than"},
		{"binary", "\x00\x01\x02\n", "is no token id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := ParseIDList(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput || l != nil {
				t.Errorf("got %v, %v, want bad input with %q", l, err, c.want)
			}
		})
	}
}

func TestIDListCheck(t *testing.T) {
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for _, c := range []struct {
		name string
		list IDList
		want string // "" is no error
	}{
		{"same", IDList{IDs: []uint32{9}, VocabSize: 10, VocabHash: a}, ""},
		{"plain", IDList{IDs: []uint32{9}}, ""},
		{"other hash", IDList{IDs: []uint32{9}, VocabSize: 10, VocabHash: b}, "another vocabulary"},
		{"other size", IDList{IDs: []uint32{9}, VocabSize: 11, VocabHash: a}, "11 entries"},
		{"out of range", IDList{IDs: []uint32{10}}, "10"},
	} {
		err := c.list.Check(Vocabulary{Size: 10, Hash: a})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.BadInput) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzIDList wants a list that is read to come out of its own text unchanged.
func FuzzIDList(f *testing.F) {
	hash := strings.Repeat("a1", 32)
	f.Add([]byte("# rule: {}\n# corpus: name=en weight=2e-5 tokens=7 counts=" + hash + "\n# vocabulary: entries=10 sha256=" + hash + "\n1\n2\n"))
	f.Add([]byte("#rule:a\r\n0\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseIDList(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := l.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := ParseIDList(&b)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(l, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
