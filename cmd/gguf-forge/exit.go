package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"gguf-forge/internal/fault"
)

// kindNames are the kinds of errors as JSON names them.
var kindNames = map[fault.Kind]string{
	fault.Internal: "internal", fault.Usage: "usage", fault.BadInput: "bad input", fault.Network: "network",
	fault.Verification: "verification", fault.Resources: "resources", fault.Interrupted: "interrupted", fault.BrokenPipe: "broken pipe",
}

// report prints err, if there is one, and returns the exit code it stands for.
func (a *app) report(err error) int {
	a.endProgress()
	if err == nil {
		return 0
	}
	kind, hint := classify(err), fault.HintOf(err)
	if kind == fault.BrokenPipe && hint == "" && a.resume != nil {
		hint = a.resume()
	}
	message := oneLine(err.Error())
	if a.json {
		_ = json.NewEncoder(a.stderr).Encode(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
			Kind  string `json:"kind"`
			Exit  int    `json:"exit"`
		}{message, hint, kindNames[kind], int(kind)})
		return int(kind)
	}
	fmt.Fprintf(a.stderr, "gguf-forge: %s\n", message)
	if hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
	return int(kind)
}

// classify returns the kind of err. A plain error of the system counts as what it says about disk, memory or pipe.
func classify(err error) fault.Kind {
	kind := fault.KindOf(err)
	if kind != fault.Internal {
		return kind
	}
	switch {
	case isAny(err, exhausted):
		return fault.Resources
	case isAny(err, pipeClosed):
		return fault.BrokenPipe
	}
	return systemKind(err)
}

func isAny(err error, list []error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// oneLine joins the lines of a message: joined errors and parsers put a line break between their parts.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// interrupted is the error of a verb that was stopped from outside.
func (a *app) interrupted() error {
	next := "nothing was left behind; run the same command again"
	if a.resume != nil {
		next = a.resume()
	}
	return fault.WithHint(fault.New(fault.Interrupted, "interrupted"), "%s", next)
}

// recoverPanic reports a bug of ours with its stack.
func (a *app) recoverPanic(code *int) {
	if r := recover(); r != nil {
		fmt.Fprintf(a.stderr, "gguf-forge: internal error: %v\n%s", r, debug.Stack())
		*code = int(fault.Internal)
	}
}
