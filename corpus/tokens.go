package corpus

import (
	"context"
	"io"

	"gguf-forge/tokenizer"
)

// Count counts the tokens of all texts of the inputs together. Special tokens are not parsed and none are added: every text
// is text. The sum doesn't depend on how many files, threads or chunks the texts pass through.
func Count(ctx context.Context, t *tokenizer.Tokenizer, inputs []Input, opt CountOptions) (*Counted, error) {
	return countInputs(ctx, tokens{t}, inputs, opt)
}

// tokens makes counters of a tokenizer.
type tokens struct{ t *tokenizer.Tokenizer }

func (v tokens) size() int        { return v.t.Size() }
func (v tokens) counter() counter { return v.t.NewCounter() }

func (v tokens) together(r io.Reader, list []counter) error {
	counters := make([]*tokenizer.Counter, len(list))
	for i, c := range list {
		counters[i] = c.(*tokenizer.Counter) // made by counter
	}
	return tokenizer.CountText(r, counters)
}
