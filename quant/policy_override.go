package quant

import (
	"strings"

	"github.com/dlclark/regexp2"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Override gives the tensors whose name contains a match of Pattern, an ECMAScript regular expression, a type.
type Override struct {
	Pattern string
	Type    gguf.Type
	Label   string // how the user wrote it, if not as Pattern
}

// text returns the override as the user knows it.
func (o Override) text() string {
	if o.Label != "" {
		return o.Label
	}
	return o.Pattern
}

// ParseOverride reads the argument of --tensor-type, PATTERN=TYPE. As in the reference the pattern is lower-cased (so a
// capital escape such as \S becomes \s). The last "=" divides, which leaves look-ahead possible; the reference takes the
// first. Errors are of kind Usage.
func ParseOverride(s string) (Override, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 1 || i == len(s)-1 {
		return Override{}, fault.WithHint(fault.New(fault.Usage, "tensor type %q is not of the form PATTERN=TYPE", s), `for example attn_v=q6_k or "blk\.(0|1)\.ffn_down=q8_0"`)
	}
	t, err := gguf.ParseType(s[i+1:])
	if err != nil {
		return Override{}, fault.New(fault.Usage, "tensor type %q: %w", s, err)
	}
	return Override{Pattern: strings.ToLower(s[:i]), Type: t}, nil
}

// ParseOverrides reads the text of a --tensor-type-file: arguments of --tensor-type between white space.
func ParseOverrides(text string) ([]Override, error) {
	var list []Override
	for _, s := range strings.Fields(text) {
		f, err := ParseOverride(s)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// override is an Override ready for use.
type override struct {
	Override
	expr *regexp2.Regexp
}

func compileOverrides(list []Override) (compiled []override, problems []error) {
	for _, f := range list {
		expr, err := regexp2.Compile(f.Pattern, regexp2.ECMAScript)
		if err != nil {
			problems = append(problems, fault.New(fault.Usage, "pattern %q: %w", f.Pattern, err))
			continue
		}
		compiled = append(compiled, override{f, expr})
	}
	return compiled, problems
}

func (f override) matches(name string) bool {
	ok, err := f.expr.MatchString(name)
	return ok && err == nil // without a timeout there is no error
}

// unmatched reports a pattern that no tensor's name matches: most likely a slip of the pen.
func (f override) unmatched(choices []Choice) error {
	for _, c := range choices {
		if f.matches(c.Name) {
			return nil
		}
	}
	err := fault.New(fault.BadInput, "pattern %q matches no tensor", f.text())
	if f.Label != "" {
		return fault.WithHint(err, "info lists the tensor names")
	}
	return fault.WithHint(err, "patterns are regular expressions searched in the tensor names; info lists those")
}
