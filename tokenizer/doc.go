// Package tokenizer turns text into token ids and back, token for token as llama.cpp does for a GGUF file and as
// Hugging Face's tokenizers library does for a tokenizer.json. Where the two disagree, the source of the vocabulary
// decides, and [Tokenizer.As] switches.
//
// Start with [FromGGUF], [FromJSON] or [FromLlama2C], then call [Tokenizer.Encode] and [Tokenizer.Decode]. To know how
// often each token occurs in a corpus, use a [Counter]: it needs no ids in order, so it counts distinct pieces of text and
// encodes each of them once.
//
// # How it works
//
// A text goes through five steps, each in a file of its own. Special tokens are cut out (special.go); what lies between is
// made valid and normalized (utf8.go, nfc.go); a scanner without look-behind cuts it into pieces that no token crosses
// (scan.go, cut.go); pieces are looked up in a bounded cache (pieces.go); and unknown ones are merged symbol by symbol,
// in n log n time whatever they look like (merge.go).
//
// # Exactness
//
// Ids depend on nothing but the vocabulary and the text: not on caches, chunks, the number of goroutines or the Unicode
// version of the Go release. Character classes come from generated tables, Unicode 15.1 as in llama.cpp and 16.0 as in
// tokenizers 0.23.3. What is not known exactly is refused by name: another pre-tokenizer, another normalizer, another model.
package tokenizer
