package tokenizer

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// jsonVariants are ways to write a tokenizer.json that real models have, with the small vocabulary of
// testdata/gemma.tokenizer.json or that of the demo model. What Hugging Face's library makes of them is in
// testdata/hf.json.
var jsonVariants = []string{"gemma", "gemma-extra", "gemma-late", "legacy", "legacy-extra", "legacy-late", "metaspace-first", "metaspace-always",
	"metaspace-never", "metaspace-first-split", "metaspace-always-split-late", "unknown", "unknown-fused", "unknown-none",
	"demo-extra", "demo-late", "demo-prefix", "demo-digits", "demo-gpt2", "demo-llama3", "demo-cl100k", "demo-o200k", "demo-no-expression"}

type object = map[string]any

// extraTokens are added tokens with every flag.
func extraTokens(late bool) []object {
	add := func(content string, flags ...string) object {
		o := object{"content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}
		for _, f := range flags {
			o[f] = true
		}
		if o["normalized"] == true {
			o["normalized"] = late
		}
		return o
	}
	return []object{
		add("<mask>", "lstrip", "special"), add("<|user|>", "rstrip", "special"), add("</x>", "single_word"), add("<br>", "lstrip", "rstrip"),
		add("<td>", "single_word", "rstrip"), add("the", "single_word"), add("hello", "special"), add("<h7>", "normalized"),
		add("ing", "normalized", "lstrip"), add("é", "normalized"), add("e\u0301"), add("</", "normalized", "single_word", "rstrip"),
		add("//", "normalized", "special"), add("\n\n", "rstrip"),
	}
}

// variant returns the tokenizer.json of a name.
func variant(t testing.TB, name string) []byte {
	t.Helper()
	path := "testdata/gemma.tokenizer.json"
	if name[:4] == "demo" {
		path = "../internal/demo/model/hf/tokenizer.json"
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc object
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	change(doc, name)
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func variantJSON(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := FromJSON(variant(t, name), nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tok
}

func change(doc object, name string) {
	model := doc["model"].(object)
	splitBy := func(expression string) {
		doc["pre_tokenizer"].(object)["pretokenizers"].([]any)[0].(object)["pattern"].(object)["Regex"] = expression
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	replace := object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "}
	strip := object{"type": "Strip", "content": " ", "start": 1, "stop": 0}
	metaspace := func(scheme string, split bool) {
		doc["normalizer"] = nil
		doc["pre_tokenizer"] = object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
		decoders := []any{replace, object{"type": "ByteFallback"}, object{"type": "Fuse"}}
		if scheme != "never" {
			decoders = append(decoders, strip)
		}
		doc["decoder"] = object{"type": "Sequence", "decoders": decoders}
	}
	switch name {
	case "legacy", "legacy-extra", "legacy-late":
		doc["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}}
		doc["pre_tokenizer"] = nil
		doc["decoder"] = object{"type": "Sequence", "decoders": []any{replace, object{"type": "ByteFallback"}, object{"type": "Fuse"}, strip}}
	case "metaspace-first":
		metaspace("first", false)
	case "metaspace-first-split":
		metaspace("first", true)
	case "metaspace-always":
		metaspace("always", false)
	case "metaspace-always-split-late":
		metaspace("always", true)
	case "metaspace-never":
		metaspace("never", false)
	case "unknown":
		model["byte_fallback"], model["fuse_unk"] = false, false
	case "unknown-fused":
		model["byte_fallback"], model["fuse_unk"] = false, true
	case "unknown-none":
		model["byte_fallback"], model["unk_token"] = false, nil
	case "demo-prefix":
		byteLevel["add_prefix_space"] = true
		doc["pre_tokenizer"] = byteLevel
	case "demo-digits":
		doc["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": true}, byteLevel}}
	case "demo-gpt2":
		doc["pre_tokenizer"], doc["normalizer"] = byteLevel, nil
	case "demo-llama3":
		splitBy(llama3)
		model["ignore_merges"] = true
	case "demo-cl100k":
		splitBy(cl100k)
	case "demo-o200k":
		splitBy(o200k)
	case "demo-no-expression":
		byteLevel["use_regex"] = false
		doc["pre_tokenizer"] = byteLevel
	}
	if has := len(name); name[has-4:] == "late" || name[has-5:] == "extra" {
		addTokens(doc, extraTokens(name[has-4:] == "late"))
	}
}

func addTokens(doc object, list []object) {
	vocab := doc["model"].(object)["vocab"].(object)
	next := 0.0
	for _, id := range vocab {
		next = max(next, id.(float64)+1)
	}
	added := doc["added_tokens"].([]any)
	for _, a := range added {
		next = max(next, a.(object)["id"].(float64)+1)
	}
	for _, o := range list {
		if _, ok := vocab[o["content"].(string)]; !ok {
			o["id"] = next
			added = append(added, o)
			next++
		}
	}
	doc["added_tokens"] = added
}

var variantsDir = flag.String("variants", "", "write the tokenizer.json of every variant into this folder, for _gen/hf.py")

// TestVariants compares with what Hugging Face's library makes of short texts.
func TestVariants(t *testing.T) {
	if *variantsDir != "" {
		for _, name := range jsonVariants {
			if err := os.WriteFile(filepath.Join(*variantsDir, name+".json"), variant(t, name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	var want struct {
		Tokenizers map[string][]struct {
			Text        string
			IDs, Parsed []int32
			Decoded     string
		}
		NFC map[string]string
	}
	readJSONFile(t, "testdata/hf.json", &want)
	if len(want.NFC) < 100 {
		t.Fatalf("%d strings", len(want.NFC))
	}
	for text, composed := range want.NFC {
		if got := string(nfc().append(nil, []byte(text))); got != composed {
			t.Errorf("NFC of %+q is %+q, want %+q", text, got, composed)
		}
		if text != composed && nfc().is([]byte(text)) {
			t.Errorf("%+q is taken for NFC", text)
		}
	}
	for _, name := range jsonVariants {
		tok := variantJSON(t, name)
		if len(want.Tokenizers[name]) == 0 {
			t.Errorf("nothing about %s", name)
		}
		for _, c := range want.Tokenizers[name] {
			ids, err := tok.Encode(nil, []byte(c.Text), EncodeOptions{})
			if err != nil || !slices.Equal(ids, c.IDs) {
				t.Errorf("%s: %q\ngot  %v (%v)\nwant %v", name, c.Text, ids, err, c.IDs)
			}
			parsed, err := tok.Encode(nil, []byte(c.Text), EncodeOptions{ParseSpecial: true, AddSpecial: true})
			if err != nil || !slices.Equal(parsed, c.Parsed) {
				t.Errorf("%s: %q with specials\ngot  %v (%v)\nwant %v", name, c.Text, parsed, err, c.Parsed)
			}
			if got := string(tok.Decode(nil, c.Parsed, DecodeOptions{})); got != c.Decoded {
				t.Errorf("%s: %v decodes to %q, want %q", name, c.Parsed, got, c.Decoded)
			}
		}
	}
}
