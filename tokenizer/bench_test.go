package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// benchVocabs are those of the table in docs/performance.md.
var benchVocabs = []string{"qwen35", "llama-bpe", "gemma3", "gemma-4", "llama-spm", "json-cl100k", "json-gpt4o"}

// benchTexts returns 1 MB of text that repeats itself, and as much that does not.
func benchTexts(b *testing.B) map[string][]byte {
	golden, _ := goldenDirs(b)
	mixed, err := os.ReadFile(filepath.Join(golden, "texts", "mixed.txt"))
	if err != nil {
		b.Fatal(err)
	}
	texts := map[string][]byte{"mixed": mixed}
	if path := os.Getenv("FORGE_BENCH_TEXT"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		texts["natural"] = text
	}
	return texts
}

func benchLoad(b *testing.B, name string) *Tokenizer {
	_, vocab := goldenDirs(b)
	if path := filepath.Join(vocab, name+".gguf"); fileExists(path) {
		return loadGGUF(b, path)
	}
	return loadJSON(b, filepath.Join(vocab, name+".tokenizer.json"))
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func eachBench(b *testing.B, do func(b *testing.B, tok *Tokenizer, text []byte)) {
	for _, name := range benchVocabs {
		tok := benchLoad(b, name)
		for kind, text := range benchTexts(b) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				do(b, tok, text)
			})
		}
	}
}

// BenchmarkEncodeWarm encodes a text all of whose pieces were seen before.
func BenchmarkEncodeWarm(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		ids, err := tok.Encode(nil, text, EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if ids, err = tok.Encode(ids[:0], text, EncodeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEncodeCold encodes a text with empty caches.
func BenchmarkEncodeCold(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		var ids []int32
		var err error
		for b.Loop() {
			tok.idle = nil
			if ids, err = tok.Encode(ids[:0], text, EncodeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCountCold counts a text with a new counter.
func BenchmarkCountCold(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		for b.Loop() {
			c := tok.NewCounter()
			if err := c.Bytes(text); err != nil {
				b.Fatal(err)
			}
			c.Counts()
		}
	})
}

// BenchmarkCountWarm counts a text all of whose pieces were seen before.
func BenchmarkCountWarm(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		c := tok.NewCounter()
		for b.Loop() {
			if err := c.Bytes(text); err != nil {
				b.Fatal(err)
			}
		}
		c.Counts()
	})
}

// BenchmarkCountText counts 16 MB with one and with two goroutines.
func BenchmarkCountText(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		text = bytes.Repeat(text, 16)
		for n := 1; n <= 2; n++ {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				counters := []*Counter{tok.NewCounter(), tok.NewCounter()}[:n]
				for b.Loop() {
					if err := CountText(bytes.NewReader(text), counters); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	eachBench(b, func(b *testing.B, tok *Tokenizer, text []byte) {
		ids, err := tok.Encode(nil, text, EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		var out []byte
		for b.Loop() {
			out = tok.Decode(out[:0], ids, DecodeOptions{})
		}
	})
}

// BenchmarkLoad builds a tokenizer from a file's metadata.
func BenchmarkLoad(b *testing.B) {
	_, vocab := goldenDirs(b)
	for _, name := range []string{"qwen2", "gemma-4", "gemma3"} {
		meta := readMetadata(b, filepath.Join(vocab, name+".gguf"))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := FromGGUF(meta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, name := range []string{"json-qwen3", "json-gemma3"} {
		data, err := os.ReadFile(filepath.Join(vocab, name+".tokenizer.json"))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := FromJSON(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
