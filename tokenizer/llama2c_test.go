package tokenizer

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type binToken struct {
	text  string
	score float32
}

// binTokens is a vocabulary of llama2.c: pieces of English, the frequent ones with high scores.
func binTokens() []binToken {
	list := []binToken{{"<unk>", 0}, {"\n<s>\n", 0}, {"\n</s>\n", 0}}
	for b := range 256 {
		list = append(list, binToken{byteText(byte(b)), 0})
	}
	for i, text := range []string{" ", "t", "h", "e", "a", "n", "d", "\n", "é", ".", "th", "the", " the", "an", "and", " and", " a", " t", "he", "hé", "ea", "\n\n"} {
		list = append(list, binToken{text, -float32(i % 17)})
	}
	return append(list, binToken{"never", -2e10}, binToken{"ne", -3}, binToken{"v", -50}, binToken{"r", -50}, binToken{"ver", -60}, binToken{"ve", -55})
}

func encodeBin(list []binToken) []byte {
	longest := 0
	for _, t := range list {
		longest = max(longest, len(t.text))
	}
	data := binary.LittleEndian.AppendUint32(nil, uint32(longest))
	for _, t := range list {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(t.score))
		data = binary.LittleEndian.AppendUint32(data, uint32(len(t.text)))
		data = append(data, t.text...)
	}
	return data
}

func smallBin() []byte { return encodeBin(binTokens()) }

// run2C encodes as llama2.c's program is described: again and again the pair with the strictly highest score.
func run2C(list []binToken, text string) []int32 {
	find := func(s string) int32 {
		return int32(slices.IndexFunc(list, func(t binToken) bool { return t.text == s }))
	}
	var ids []int32
	if text != "" {
		ids = append(ids, find(" "))
	}
	for i := 0; i < len(text); {
		n := 1
		for n < 4 && i+n < len(text) && text[i+n]&0xC0 == 0x80 {
			n++
		}
		if id := find(text[i : i+n]); id >= 0 {
			ids = append(ids, id)
		} else {
			for _, b := range []byte(text[i : i+n]) {
				ids = append(ids, int32(b)+3)
			}
		}
		i += n
	}
	for {
		best, at, to := float32(-1e10), -1, int32(0)
		for i := range len(ids) - 1 {
			if id := find(list[ids[i]].text + list[ids[i+1]].text); id >= 0 && list[id].score > best {
				best, at, to = list[id].score, i, id
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = to
		ids = slices.Delete(ids, at+1, at+2)
	}
}

func TestLlama2C(t *testing.T) {
	list := binTokens()
	tok, err := FromLlama2C(smallBin(), len(list))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "the", " the", "the and a.", "then  the\n\n", "hé é\u0301", "never", "▁the", "\xe9 the", "\x80\x80\x80\x80\x80the", "日本",
		"the\xf0", "<s>", "tea and the", strings.Repeat("the ", 50)} {
		got, err := tok.Encode(nil, []byte(text), EncodeOptions{ParseSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(run2C(list, text), got); d != "" {
			t.Errorf("%q: (-want +got)\n%s", text, d)
		}
		if back := string(tok.Decode(nil, got, DecodeOptions{})); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
		withBOS, _ := tok.Encode(nil, []byte(text), EncodeOptions{AddSpecial: true})
		if back := string(tok.Decode(nil, withBOS, DecodeOptions{})); len(withBOS) != len(got)+1 || withBOS[0] != 1 || back != text {
			t.Errorf("%q with BOS: %v comes back as %q", text, withBOS, back)
		}
	}
	if got := string(tok.Text(259)); got != "▁" {
		t.Errorf("token 259 is %q in a GGUF file", got)
	}
	if _, err := tok.As(HuggingFace); err != nil {
		t.Error(err)
	}
}

func TestLlama2CFaults(t *testing.T) {
	good := smallBin()
	n := len(binTokens())
	nan := slices.Clone(binTokens())
	nan[260].score = float32(math.NaN())
	twice := append(slices.Clone(binTokens()), binToken{"the", -1})
	for _, c := range []struct {
		name  string
		data  []byte
		vocab int
		want  string
	}{
		{"empty", nil, 0, "0 bytes"},
		{"cut in a head", good[:len(good)-4], 0, "token"},
		{"cut in a text", good[:len(good)-1], n, "more than there are"},
		{"more than there are", good, n + 1, "ends in token"},
		{"too few", good, 100, "has 100 tokens"},
		{"negative", good, -1, "-1 tokens"},
		{"score", encodeBin(nan), 0, "not a number"},
		{"twice", encodeBin(twice), 0, "are the same"},
		{"longest", append([]byte{1, 0, 0, 0}, good[4:]...), 0, "longest"},
		{"text", []byte(strings.Repeat("no tokenizer ", 40)), 0, "token 0"},
	} {
		_, err := FromLlama2C(c.data, c.vocab)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
