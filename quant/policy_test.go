package quant

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// policyCases is testdata/policy.json.gz: what the reference answers. make_policy.py beside it made it and describes
// its fields.
type policyCases struct {
	Models map[string]policyModel
	Cases  []policyCase
}

type policyModel struct {
	Metadata map[string]any
	Tensors  [][3]any // name, shape, type
	Entries  map[string][2]int
}

type policyCase struct {
	Model   string
	Args    []string
	Type    string
	Imatrix bool
	Drop    []string
	Resize  map[string]int
	Real    bool // not a dry run
	Types   string
	Reason  string
}

func (c policyCase) String() string {
	return fmt.Sprintf("%s %s %v imatrix=%v drop=%v resize=%v", c.Model, c.Type, c.Args, c.Imatrix, c.Drop, c.Resize)
}

func loadPolicyCases(tb testing.TB) policyCases {
	tb.Helper()
	f, err := os.Open("testdata/policy.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var all policyCases
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		tb.Fatal(err)
	}
	return all
}

func (m policyModel) tensors() []gguf.TensorInfo {
	var list []gguf.TensorInfo
	for _, t := range m.Tensors {
		info := gguf.TensorInfo{Name: t[0].(string), Type: gguf.Type(t[2].(float64))}
		for _, n := range t[1].([]any) {
			info.Shape = append(info.Shape, int64(n.(float64)))
		}
		list = append(list, info)
	}
	SortTensors(list)
	return list
}

func (m policyModel) metadata() *gguf.Metadata {
	meta := new(gguf.Metadata)
	for key, v := range m.Metadata {
		switch v := v.(type) {
		case string:
			meta.Put(key, gguf.StringValue(v))
		case float64:
			if v == float64(uint32(v)) {
				meta.Put(key, gguf.Uint32Value(uint32(v)))
			}
		case []any:
			array := gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Len: len(v)}
			for _, n := range v {
				array.Raw = append(array.Raw, gguf.Int32Value(int32(n.(float64))).Raw...)
			}
			meta.Put(key, array)
		}
	}
	return meta
}

func (c policyCase) imatrix(m policyModel) *Imatrix {
	if !c.Imatrix {
		return nil
	}
	im := new(Imatrix)
	add := func(name string, columns, matrices int) {
		im.Entries = append(im.Entries, Entry{Name: name, Sums: make([]float32, columns*matrices), Counts: make([]int64, matrices)})
	}
	for name, size := range m.Entries {
		if _, resized := c.Resize[name]; !resized && !slices.Contains(c.Drop, name) {
			add(name, size[0], size[1])
		}
	}
	for name, columns := range c.Resize {
		add(name, columns, 1)
	}
	sortEntries(im.Entries)
	return im
}

func (c policyCase) options(tb testing.TB) Options {
	tb.Helper()
	fileType, err := ParseFileType(c.Type)
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{FileType: fileType}
	for args := c.Args; len(args) > 0; {
		flag := args[0]
		args = args[1:]
		switch flag {
		case "--pure":
			o.Pure = true
			continue
		case "--allow-requantize":
			o.AllowRequantize = true
			continue
		case "--leave-output-tensor":
			o.LeaveOutput = true
			continue
		}
		value := args[0]
		args = args[1:]
		switch flag {
		case "--output-tensor-type":
			o.OutputType = new(gguf.Type)
			*o.OutputType, err = gguf.ParseType(value)
		case "--token-embedding-type":
			o.EmbeddingType = new(gguf.Type)
			*o.EmbeddingType, err = gguf.ParseType(value)
		case "--tensor-type":
			var f Override
			f, err = ParseOverride(value)
			o.Overrides = append(o.Overrides, f)
		case "--override-kv":
			var v MetadataValue
			v, err = ParseMetadataValue(value)
			o.MetadataValues = append(o.MetadataValues, v)
		case "--prune-layers":
			o.PruneLayers, err = ParseLayers(value)
		default:
			err = fmt.Errorf("unknown flag %s", flag)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return o
}

// reasons pairs parts of the reference's messages with ours. "aborts" stands for its failed assertions.
var reasons = []struct{ theirs, ours string }{
	{"no tensor type fallback", "no other type is defined"},
	{"requires an imatrix", "requires an importance matrix"},
	{"Missing importance matrix", "has no entry"},
	{"imatrix size", "the importance matrix has"},
	{"requantizing from type", "requantizing from"},
	{"requantizing from type q8_1", "cannot be read"}, // it would not be readable either
	{"Failed to determine layer", "does not tell its layer"},
	{"Bad layer", "is not one of the model's"},
	{"cannot dequantize/convert", "cannot be converted"},
	{"no dequantization available", "cannot be converted"},
	{"invalid data", "cannot be read"},
	{"aborts", "numbers of heads"},
	{"aborts", "there is no encoder"},
	{"aborts", "four dimensions"},
	{"aborts", "cannot do without"},
	{"aborts", "requires an importance matrix"},
}

func TestPolicyEqualsReference(t *testing.T) {
	all := loadPolicyCases(t)
	failed := 0
	for _, c := range all.Cases {
		m := all.Models[c.Model]
		choices, problems := c.options(t).Choose(m.metadata(), m.tensors(), c.imatrix(m))
		if bad := c.compare(choices, problems); bad != "" {
			t.Errorf("%s: %s", c, bad)
			if failed++; failed > 30 {
				t.Fatal("and more")
			}
		}
	}
	t.Logf("%d models, %d cases", len(all.Models), len(all.Cases))
}

func (c policyCase) compare(choices []Choice, problems []error) string {
	problems = slices.DeleteFunc(problems, func(err error) bool {
		// The first is the one deliberate difference, the others are what a dry run does not look at.
		return strings.HasSuffix(err.Error(), "matches no tensor") ||
			!c.Real && (strings.Contains(err.Error(), "requires an importance matrix") || strings.Contains(err.Error(), "has no entry") ||
				strings.Contains(err.Error(), "there is no encoder") || strings.Contains(err.Error(), "four dimensions"))
	})
	if c.Reason != "" {
		if len(problems) == 0 {
			return "the reference fails: " + c.Reason
		}
		for _, r := range reasons {
			for _, err := range problems {
				if strings.Contains(c.Reason, r.theirs) && strings.Contains(err.Error(), r.ours) {
					return ""
				}
			}
		}
		return fmt.Sprintf("the reference fails with %q, we with %q", c.Reason, problems)
	}
	if len(problems) > 0 {
		return fmt.Sprintf("the reference succeeds, we fail: %q", problems)
	}
	if len(choices) != len(c.Types) {
		return fmt.Sprintf("%d tensors, want %d", len(choices), len(c.Types))
	}
	for i, choice := range choices {
		if want := gguf.Type(c.Types[i] - '0'); choice.Type != want {
			return fmt.Sprintf("%s: %v (%s), want %v", choice.Name, choice.Type, choice.Reason, want)
		}
	}
	return ""
}

func choose(o Options, im *Imatrix, tensors ...gguf.TensorInfo) ([]Choice, []error) {
	meta := metadataOf("general.architecture", "llama", "llama.block_count", 2, "llama.attention.head_count", 4)
	return o.Choose(meta, tensors, im)
}

func TestStrictPolicy(t *testing.T) {
	weight := func(name string, columns int64, typ gguf.Type) gguf.TensorInfo {
		return gguf.TensorInfo{Name: name, Shape: []int64{columns, 4}, Type: typ}
	}
	im := &Imatrix{Entries: []Entry{{Name: "blk.0.a.weight", Sums: make([]float32, 256), Counts: []int64{1}}}}
	covered, uncovered := weight("blk.0.a.weight", 256, gguf.F32), weight("blk.0.b.weight", 256, gguf.F32)
	for _, test := range []struct {
		what   string
		o      Options
		im     *Imatrix
		tensor gguf.TensorInfo
		want   string // part of the error; "" for none
	}{
		{"fits", Options{FileType: MostlyQ4KM}, nil, covered, ""},
		{"does not fit", Options{FileType: MostlyQ4KM}, nil, weight("x.weight", 160, gguf.F32), `"x.weight": rows of 160 are no multiple of the 256`},
		{"does not fit, allowed", Options{FileType: MostlyQ4KM, AllowFallback: true}, nil, weight("x.weight", 160, gguf.F32), ""},
		{"no fallback exists", Options{FileType: MostlyQ1_0, AllowFallback: true}, nil, weight("x.weight", 160, gguf.F32), "no other type"},
		{"override that does not fit", Options{FileType: MostlyQ4_0, Overrides: []Override{{Pattern: "x", Type: gguf.Q6_K}}}, nil, weight("x.weight", 160, gguf.F32), "q6_K"},
		{"kept, would not fit", Options{FileType: MostlyQ4KM}, nil, weight("x_norm.weight", 160, gguf.F32), ""},
		{"covered", Options{FileType: MostlyQ4KM}, im, covered, ""},
		{"uncovered", Options{FileType: MostlyQ4KM}, im, uncovered, `"blk.0.b.weight": the importance matrix has no entry`},
		{"uncovered, allowed", Options{FileType: MostlyQ4KM, AllowMissingImportance: true}, im, uncovered, ""},
		{"uncovered, allowed, but required", Options{FileType: MostlyIQ2M, AllowMissingImportance: true}, im, uncovered, "cannot do without"},
		{"uncovered, not used", Options{FileType: MostlyQ8_0}, im, uncovered, ""},
		{"uncovered, copied", Options{FileType: MostlyQ4KM}, im, weight("blk.0.b.weight", 256, gguf.Q4_K), ""},
		{"embedding", Options{FileType: MostlyQ4KM}, im, weight("token_embd.weight", 256, gguf.F32), ""},
		{"head", Options{FileType: MostlyQ4KM}, im, weight("output.weight", 256, gguf.F32), ""},
		{"no importance matrix at all", Options{FileType: MostlyQ4KM}, nil, uncovered, ""},
		{"requantizing", Options{FileType: MostlyQ4KM}, nil, weight("x.weight", 256, gguf.Q8_0), "requantizing from q8_0 to q4_K"},
		{"requantizing, allowed", Options{FileType: MostlyQ4KM, AllowRequantize: true}, nil, weight("x.weight", 256, gguf.Q8_0), ""},
		{"unmatched", Options{FileType: MostlyQ4KM, Overrides: []Override{{Pattern: "nosuch", Type: gguf.Q6_K}}}, nil, covered, `"nosuch" matches no tensor`},
		{"bad pattern", Options{FileType: MostlyQ4KM, Overrides: []Override{{Pattern: "a(", Type: gguf.Q6_K}}}, nil, covered, `pattern "a("`},
	} {
		test.o.Strict = true
		_, problems := choose(test.o, test.im, test.tensor)
		switch {
		case test.want == "" && len(problems) > 0:
			t.Errorf("%s: %v", test.what, problems)
		case test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), test.want)):
			t.Errorf("%s: %v, want %s", test.what, problems, test.want)
		}
	}
}

func TestChooseReportsEverything(t *testing.T) {
	matrix := func(name string, columns int64, typ gguf.Type) gguf.TensorInfo {
		return gguf.TensorInfo{Name: name, Shape: []int64{columns, 4}, Type: typ}
	}
	nan := &Imatrix{Entries: []Entry{{Name: "z", Sums: []float32{float32(math.NaN())}, Counts: []int64{1}}}}
	o := Options{FileType: MostlyQ1_0, Overrides: []Override{{Pattern: "nosuch"}, {Pattern: "("}, {Pattern: "iq", Type: gguf.IQ1S}}}
	_, problems := choose(o, nan, matrix("a.weight", 100, gguf.F32), matrix("b.weight", 256, gguf.Q4_0), matrix("c.weight", 256, gguf.I32),
		matrix("iq.weight", 256, gguf.F32), matrix("unknown.weight", 256, 99))
	text := fmt.Sprint(problems)
	for _, want := range []string{`"a.weight"`, `"b.weight"`, `"c.weight"`, `"iq.weight"`, `"unknown.weight"`, `"nosuch"`, `"("`, `"z" is NaN`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if len(problems) != 8 {
		t.Errorf("%d problems: %s", len(problems), text)
	}
	_, problems = choose(Options{FileType: MostlyIQ2M}, nil, matrix("a.weight", 256, gguf.F32), matrix("b.weight", 256, gguf.F32), matrix("token_embd.weight", 256, gguf.F32))
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), `"a.weight": iq2_s requires an importance matrix (so do 1 more tensors)`) {
		t.Errorf("%v", problems)
	}
}

func TestChoice(t *testing.T) {
	im := &Imatrix{Entries: []Entry{{Name: "blk.1.a.weight", Sums: make([]float32, 160), Counts: []int64{1}}}}
	o := Options{FileType: MostlyQ4KM, PruneLayers: []int{0}, Overrides: []Override{{Pattern: `^blk\.0\.b`, Type: gguf.Q8_0}}}
	choices, problems := choose(o, im, tensorsNamed("blk.0.a.weight")[0], gguf.TensorInfo{Name: "blk.1.a.weight", Shape: []int64{160, 4}},
		tensorsNamed("blk.1.b.weight")[0], tensorsNamed("blk.1.c.bias")[0])
	if len(problems) > 0 || len(choices) != 3 {
		t.Fatal(choices, problems)
	}
	a, b, c := choices[0], choices[1], choices[2]
	if a.Name != "blk.0.a.weight" || a.Type != gguf.Q5_0 || a.Wanted != gguf.Q4_K || !a.Fallback() || a.Importance != &im.Entries[0] || a.Copied() {
		t.Errorf("%+v", a)
	}
	if b.Type != gguf.Q8_0 || b.Fallback() || b.Importance != nil || b.Reason != `override ^blk\.0\.b` || b.Target().Name != "blk.0.b.weight" {
		t.Errorf("%+v", b)
	}
	if !c.Copied() || c.Reason != "no weight" || c.Wanted != gguf.F32 {
		t.Errorf("%+v", c)
	}
}

func TestParseOverride(t *testing.T) {
	for in, want := range map[string]Override{
		"attn_q=Q8_0":        {Pattern: "attn_q", Type: gguf.Q8_0},
		`ATTN_\S+=iq4_nl`:    {Pattern: `attn_\s+`, Type: gguf.IQ4NL},
		"attn_(?=q)=q5_k":    {Pattern: "attn_(?=q)", Type: gguf.Q5_K},
		"attn_q.weight$=f16": {Pattern: "attn_q.weight$", Type: gguf.F16},
	} {
		if got, err := ParseOverride(in); got != want || err != nil {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "attn_q", "attn_q=", "=q8_0", "attn_q=copy", "attn_q= q8_0", "attn_q=q9"} {
		if got, err := ParseOverride(in); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	list, err := ParseOverrides("attn_q=q8_0\tattn_k=q4_1\r\n  ffn=q5_0\n")
	if err != nil || fmt.Sprint(list) != "[{attn_q q8_0 } {attn_k q4_1 } {ffn q5_0 }]" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := ParseOverrides("attn_q=q8_0\n# comment"); fault.KindOf(err) != fault.Usage {
		t.Errorf("comment: %v", err)
	}
}
