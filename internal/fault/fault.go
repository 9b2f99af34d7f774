// Package fault gives an error a kind, which decides the exit code of the
// program, and a hint, which tells the user the next step.
//
// Packages return plain errors wrapped in a kind where they know it; the
// command maps whatever reaches it to one line and one exit code.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what went wrong in the terms of the program's exit codes.
type Kind int

// The kinds, with the exit code each one stands for.
const (
	Internal     Kind = 1 // a bug of ours
	Usage        Kind = 2 // the command line is wrong
	BadInput     Kind = 3 // a file, recipe or model is wrong
	Network      Kind = 4 // a source could not be read
	Verification Kind = 5 // bytes differ from what was promised
	Resources    Kind = 6 // memory or disk
	Interrupted  Kind = 130
	BrokenPipe   Kind = 141
)

// Error is an error with a kind and, if it is not empty, a hint.
type Error struct {
	Kind Kind
	Hint string // the next step, one sentence without a final period
	Err  error
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// New formats an error of kind k; %w wraps as in fmt.Errorf.
func New(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

// WithHint adds the next step to err and keeps its kind.
func WithHint(err error, format string, args ...any) error {
	return &Error{Kind: KindOf(err), Hint: fmt.Sprintf(format, args...), Err: err}
}

// KindOf returns the kind of the outermost Error in err's chain, Internal if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// HintOf returns the first hint in err's chain, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
