package tokenizer

import (
	"slices"
	"strings"

	"gguf-forge/internal/fault"
)

// family is what llama.cpp knows of a pre-tokenizer by its name and what the files of its models say themselves for
// Hugging Face's library.
type family struct {
	names       []string // of tokenizer.ggml.pre
	expression  string   // llama.cpp's
	huggingFace string   // the true one, if another
	whole       bool     // ignore_merges
	bos         bool     // add_bos_token, if the key is missing
	cleanUp     bool     // clean-up of spaces in detokenize
	nfc         bool     // Hugging Face's normalizer
}

var families = []family{
	{names: []string{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert",
		"jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais"}, expression: gpt2Expression, cleanUp: true},
	{names: []string{"granite-docling", "trillion"}, expression: gpt2Expression},
	{names: []string{"starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"}, expression: digitsThenGPT2, cleanUp: true},
	{names: []string{"smollm", "command-r"}, expression: digitsThenGPT2},
	{names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
		expression: llama3, whole: true, bos: true, cleanUp: true},
	{names: []string{"dbrx", "smaug-bpe", "chatglm-bpe"}, expression: llama3, cleanUp: true},
	{names: []string{"glm4", "glm5"}, expression: llama3, whole: true, cleanUp: true},
	{names: []string{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2"}, expression: qwen2, nfc: true},
	{names: []string{"hunyuan", "solar-open", "grok-2"}, expression: qwen2},
	{names: []string{"stablelm2", "megrez"}, expression: qwen2, cleanUp: true},
	{names: []string{"qwen35"}, expression: qwen35, nfc: true},
	{names: []string{"bailingmoe", "bailingmoe2", "llada-moe"}, expression: bailing},
	{names: []string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, expression: approximateO200, huggingFace: o200k},
	{names: []string{"tekken"}, expression: approximateTekk, huggingFace: tekken, whole: true, bos: true},
}

// findFamily returns the family of a name, nil if it is unknown.
func findFamily(pre string) *family {
	for i := range families {
		if slices.Contains(families[i].names, pre) {
			return &families[i]
		}
	}
	return nil
}

// unknownPre is the error for a pre-tokenizer that is missing or unknown.
func unknownPre(pre string) error {
	if pre == "" {
		err := fault.New(fault.BadInput, "the vocabulary names no pre-tokenizer (tokenizer.ggml.pre is missing)")
		return fault.WithHint(err, "the file was made by an old converter: convert the model again; a default would split words in the wrong places")
	}
	var known []string
	for _, f := range families {
		known = append(known, f.names...)
	}
	return fault.WithHint(fault.New(fault.BadInput, "unknown pre-tokenizer %q", pre), "known are %s", strings.Join(known, ", "))
}
