package tokenizer

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// tinyVocab is a byte-level vocabulary with one merge.
func tinyVocab() *vocab {
	v := &vocab{model: "gpt2", pre: "gpt-2"}
	for b := range 256 {
		v.add(string(alphabet[b]), 1)
	}
	v.add("ab", 1)
	v.add("<|end|>", 3)
	v.merges = []string{"a b"}
	return v
}

func checkFault(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: no error", name)
	case fault.KindOf(err) != fault.BadInput:
		t.Errorf("%s: kind %d: %v", name, fault.KindOf(err), err)
	case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
		t.Errorf("%s: %v\nwant %s", name, err, want)
	}
}

func TestGGUFFaults(t *testing.T) {
	key := func(name string) string { return "tokenizer.ggml." + name }
	for _, c := range []struct {
		name   string
		change func(v *vocab, m *gguf.Metadata)
		want   string
	}{
		{"no tokenizer", func(v *vocab, m *gguf.Metadata) { m.Delete(key("model")) }, "has no tokenizer"},
		{"another model", func(v *vocab, m *gguf.Metadata) { m.Put(key("model"), gguf.StringValue("rwkv")) }, `unknown tokenizer model "rwkv"`},
		{"no pre", func(v *vocab, m *gguf.Metadata) { m.Delete(key("pre")) }, "names no pre-tokenizer"},
		{"default", func(v *vocab, m *gguf.Metadata) { m.Put(key("pre"), gguf.StringValue("default")) }, `unknown pre-tokenizer "default"`},
		{"unknown pre", func(v *vocab, m *gguf.Metadata) { m.Put(key("pre"), gguf.StringValue("deepseek-v3")) }, `unknown pre-tokenizer "deepseek-v3"`},
		{"no tokens", func(v *vocab, m *gguf.Metadata) { m.Delete(key("tokens")) }, "tokens is missing"},
		{"empty", func(v *vocab, m *gguf.Metadata) { m.Put(key("tokens"), gguf.StringsValue(nil)) }, "vocabulary is empty"},
		{"tokens of another type", func(v *vocab, m *gguf.Metadata) { m.Put(key("tokens"), int32s([]int32{1})) }, "tokens is no array of str"},
		{"duplicate", func(v *vocab, m *gguf.Metadata) { m.Put(key("tokens"), gguf.StringsValue(append(v.tokens, "ab"))) }, "are the same"},
		{"short types", func(v *vocab, m *gguf.Metadata) { m.Put(key("token_type"), int32s([]int32{1, 1})) }, "token_type has 2 entries for 258 tokens"},
		{"types of another type", func(v *vocab, m *gguf.Metadata) { m.Put(key("token_type"), float32s([]float32{1})) }, "token_type is no array of i32"},
		{"short scores", func(v *vocab, m *gguf.Metadata) { m.Put(key("scores"), float32s([]float32{1})) }, "scores has 1 entries"},
		{"no number", func(v *vocab, m *gguf.Metadata) {
			m.Put(key("scores"), float32s(slices.Repeat([]float32{float32(math.NaN())}, len(v.tokens))))
		}, "score of token 0 is not a number"},
		{"no merges", func(v *vocab, m *gguf.Metadata) { m.Delete(key("merges")) }, "merges is missing"},
		{"merge to an unknown token", func(v *vocab, m *gguf.Metadata) { m.Put(key("merges"), gguf.StringsValue([]string{"a b", "ab a"})) }, `merge 1 ("ab" and "a"): "aba" is not a token`},
		{"merge of an unknown token", func(v *vocab, m *gguf.Metadata) { m.Put(key("merges"), gguf.StringsValue([]string{"xyz b"})) }, `"xyz" is not a token`},
		{"merge of one part", func(v *vocab, m *gguf.Metadata) { m.Put(key("merges"), gguf.StringsValue([]string{"ab"})) }, `merge 0 is "ab"`},
		{"empty merge", func(v *vocab, m *gguf.Metadata) { m.Put(key("merges"), gguf.StringsValue([]string{""})) }, `merge 0 is ""`},
	} {
		v := tinyVocab()
		m := v.metadata()
		c.change(v, m)
		tok, err := FromGGUF(m)
		if tok != nil {
			t.Errorf("%s: a tokenizer", c.name)
		}
		checkFault(t, c.name, err, c.want)
	}
	if _, err := FromGGUF(tinyVocab().metadata()); err != nil {
		t.Error(err)
	}
}

// TestGGUFOddities are files that are strange but good.
func TestGGUFOddities(t *testing.T) {
	v := tinyVocab()
	v.add("", 1)
	v.add("odd", 77)
	v.extra = map[string]gguf.Value{
		"tokenizer.ggml.bos_token_id":  gguf.Uint32Value(9999),
		"tokenizer.ggml.eos_token_id":  gguf.Uint32Value(257),
		"tokenizer.ggml.add_eos_token": gguf.BoolValue(true),
		"tokenizer.ggml.add_bos_token": gguf.BoolValue(true),
	}
	tok := v.build(t)
	if got := string(tok.Text(258)); got != "[EMPTY_258]" {
		t.Errorf("an empty token is %q", got)
	}
	if got := tok.Piece(259); len(got) != 0 {
		t.Errorf("a token of type 77 is decoded to %q", got)
	}
	if s := tok.Special(); s.BOS != None || s.EOS != 257 {
		t.Errorf("special tokens %+v", s)
	}
	ids, err := tok.Encode(nil, []byte("ab"), EncodeOptions{AddSpecial: true})
	if err != nil || !slices.Equal(ids, []int32{256, 257}) {
		t.Errorf("%v, %v", ids, err)
	}
	// Without bytes of its own a SentencePiece vocabulary takes tokens of one byte, and refuses the others.
	s := &vocab{model: "llama", tokens: []string{"<unk>", "<s>", "</s>", "▁", "a", "\xff"}, types: []int32{2, 3, 3, 1, 1, 1}, scores: make([]float32, 6)}
	spm := s.build(t)
	ids, err = spm.Encode(nil, []byte("a\xff"), EncodeOptions{})
	if err != nil || !slices.Equal(ids, []int32{3, 4, 5}) {
		t.Errorf("%v, %v", ids, err)
	}
	before := []int32{1, 2}
	ids, err = spm.Encode(before, []byte("ab"), EncodeOptions{AddSpecial: true})
	checkFault(t, "no byte token", err, "no token for byte 0x62")
	if !slices.Equal(ids, before) {
		t.Errorf("after an error: %v", ids)
	}
	checkFault(t, "no byte token, counted", spm.NewCounter().Bytes([]byte("ab")), "no token for byte 0x62")
}

func TestJSONFaults(t *testing.T) {
	good, err := os.ReadFile("../internal/demo/model/hf/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	change := func(do func(doc, model object)) []byte {
		var doc object
		if err := json.Unmarshal(good, &doc); err != nil {
			t.Fatal(err)
		}
		do(doc, doc["model"].(object))
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	with := func(part string, value any) []byte {
		return change(func(doc, _ object) { doc[part] = value })
	}
	model := func(field string, value any) []byte {
		return change(func(_, model object) { model[field] = value })
	}
	split := func(expression string) object {
		return object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "Split", "pattern": object{"Regex": expression}, "behavior": "Isolated", "invert": false},
			object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}
	}
	added := func(id int, content string) []byte {
		return with("added_tokens", []any{object{"id": id, "content": content}})
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "no tokenizer.json"},
		{"a page", []byte("<html>"), "no tokenizer.json"},
		{"a list", []byte("[1]"), "no tokenizer.json"},
		{"another object", []byte(`{"model_type":"qwen3"}`), "it has no model"},
		{"cut off", good[:len(good)/2], "no tokenizer.json"},
		{"more", append(slices.Clone(good), "{}"...), "something follows"},
		{"deep", []byte(`{"normalizer":` + strings.Repeat("[", 100000)), "too many levels"},
		{"Unigram", model("type", "Unigram"), `type "Unigram"`},
		{"vocabulary list", change(func(_, m object) { m["type"] = "Unigram"; m["vocab"] = []any{[]any{"a", -1.5}} }), `type "Unigram"`},
		{"dropout", model("dropout", 0.1), "dropout 0.1"},
		{"prefix", model("continuing_subword_prefix", "##"), `continuing_subword_prefix "##"`},
		{"suffix", model("end_of_word_suffix", "</w>"), `end_of_word_suffix "</w>"`},
		{"unknown", model("unk_token", "<none>"), `unknown token "<none>" is not in the vocabulary`},
		{"no vocabulary", change(func(d, m object) { m["vocab"] = object{}; d["added_tokens"] = []any{} }), "vocabulary is empty"},
		{"one id twice", change(func(_, m object) { m["vocab"].(object)["zzz"] = 0 }), "id 0 belongs to two tokens"},
		{"large id", change(func(_, m object) { m["vocab"].(object)["zzz"] = 1 << 30 }), "id beyond"},
		{"negative id", change(func(_, m object) { m["vocab"].(object)["zzz"] = -1 }), "a number expected"},
		{"added negative", added(-1, "<x>"), "has the id -1"},
		{"added empty", added(3000, ""), "is empty"},
		{"added far", added(1<<30, "<x>"), "has the id"},
		{"added over another", added(65, "<x>"), "id 65 belongs to two tokens"},
		{"added twice", added(3000, "a"), "are the same"},
		{"no merges", change(func(_, m object) { delete(m, "merges") }), "no merges"},
		{"merges of numbers", model("merges", []any{1}), "'[' expected"},
		{"merge of three", model("merges", []any{[]string{"a", "b", "c"}}), "merge 0 has 3 parts"},
		{"merge of one", model("merges", []any{"ab"}), `merge 0 is "ab"`},
		{"merge with two spaces", model("merges", []any{"a b c"}), `merge 0 is "a b c"`},
		{"merge to an unknown token", model("merges", []any{"z ~"}), `"z~" is not a token`},
		{"normalizer", with("normalizer", object{"type": "NFKC"}), `unknown normalizer in tokenizer.json: {"type":"NFKC"}`},
		{"lower case", with("normalizer", object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}, object{"type": "Lowercase"}}}), "unknown normalizer"},
		{"no pre-tokenizer", with("pre_tokenizer", nil), "unknown pre-tokenizer"},
		{"pre-tokenizer", with("pre_tokenizer", object{"type": "Whitespace"}), `unknown pre-tokenizer in tokenizer.json: {"type":"Whitespace"}`},
		{"expression", with("pre_tokenizer", split(`\w+|\s+`)), `\\w+|\\s+`},
		{"expression almost known", with("pre_tokenizer", split(qwen2+" ")), "unknown pre-tokenizer"},
		{"post-processor", with("post_processor", object{"type": "BertProcessing"}), "unknown post-processor"},
		{"post-processor's id", with("post_processor", object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "x"}}},
			"special_tokens": object{"x": object{"ids": []int{99999}}}}), "adds token 99999"},
		{"half a pair", bytes.Replace(good, []byte(`"version": "1.0"`), []byte(`"model": {"vocab": {"\ud800": 1}}`), 1), "surrogate"},
		{"bad escape", []byte(`{"model": {"vocab": {"\q": 1}}}`), "escape"},
		{"bad pair", []byte(`{"model": {"vocab": {"a" 1}}}`), "':' expected"},
		{"bad list", []byte(`{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"merges": ["a a" "c d"], "vocab": {"a": 0, "aa": 1}}}`), "comma"},
		{"invalid UTF-8", []byte("{\"model\": {\"vocab\": {\"a\xc2b\": 1}}}"), "not valid UTF-8"},
		{"control character", []byte("{\"model\": {\"vocab\": {\"a\nb\": 1}}}"), "control character"},
	} {
		tok, err := FromJSON(c.data, nil)
		if tok != nil {
			t.Errorf("%s: a tokenizer", c.name)
		}
		checkFault(t, c.name, err, c.want)
	}
	_, err = FromJSON(good, []byte("no JSON"))
	checkFault(t, "config", err, "tokenizer_config.json")
	if _, err := FromJSON(append([]byte("\ufeff"), good...), []byte(`{"bos_token":{"content":"<|im_start|>"}}`)); err != nil {
		t.Error(err)
	}
}

// FuzzJSON wants no panic, and the merges and tokens that encoding/json sees.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"added_tokens":[{"id":3,"content":"<x>"}],"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{"\u0120":0,"\"\\\n":1},"merges":[["\u0120","\"\\\n"]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := FromJSON(data, nil)
		if err != nil {
			if tok != nil {
				t.Fatal("an error and a tokenizer")
			}
			return
		}
		var doc struct {
			Model struct{ Vocab map[string]int32 }
		}
		if json.Unmarshal(data, &doc) != nil {
			return // the standard decoder is stricter in what is skipped
		}
		for text, id := range doc.Model.Vocab {
			if string(tok.Text(id)) != text && tok.Attributes(id)&UserDefined == 0 {
				t.Fatalf("token %d is %q, want %q", id, tok.Text(id), text)
			}
		}
		if _, err := tok.Encode(nil, []byte("a b"), EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLlama2C appends anything to the tokens that every file has, and wants no panic.
func FuzzLlama2C(f *testing.F) {
	base := encodeBin(binTokens()[:llama2cFirst])
	base[0] = 0xff // no token is too long
	f.Add(encodeBin(binTokens())[len(base):], []byte("the \xff"))
	f.Add([]byte("\x00\x00\x80\x3f\x01\x00\x00\x00a"), []byte("a"))
	f.Fuzz(func(t *testing.T, tail, text []byte) {
		tok, err := FromLlama2C(append(slices.Clone(base), tail...), 0)
		if err != nil {
			return
		}
		ids, err := tok.Encode(nil, text, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tok.Decode(nil, ids, DecodeOptions{})
	})
}
