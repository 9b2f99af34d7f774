package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gguf-forge/gguf"
	"gguf-forge/internal/bytesize"
	"gguf-forge/internal/fault"
	"gguf-forge/pipeline"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

type quantizeCmd struct {
	Args []string `arg:"" placeholder:"IN [OUT] TYPE [THREADS]" predictor:"file" help:"Model, output file, type by name or number, workers. IN is a path, a URL or org/name[@revision]:file; without OUT the file is ggml-model-TYPE.gguf beside IN."`

	AllowRequantize    bool      `help:"Quantize tensors again that are quantized already."`
	LeaveOutputTensor  bool      `help:"Keep output.weight as it is."`
	Pure               bool      `help:"One type for all tensors instead of a mixture."`
	Imatrix            []string  `sep:"none" placeholder:"FILE" predictor:"file" help:"Importance matrix; of several the last one counts."`
	IncludeWeights     []string  `sep:"none" placeholder:"NAME" help:"Use the importance matrix only for tensors whose names contain this."`
	ExcludeWeights     []string  `sep:"none" placeholder:"NAME" help:"Don't use it for tensors whose names contain this."`
	OutputTensorType   string    `placeholder:"TYPE" help:"ggml type of output.weight."`
	TokenEmbeddingType string    `placeholder:"TYPE" help:"ggml type of the token embedding."`
	TensorType         []ordered `sep:"none" placeholder:"PATTERN=TYPE" help:"ggml type of the tensors whose names match; the first match counts."`
	TensorTypeFile     []ordered `sep:"none" placeholder:"FILE" predictor:"file" help:"File of such pairs, separated by blanks or line breaks."`
	PruneLayers        string    `placeholder:"L0,L1,..." help:"Layers to leave out."`
	KeepSplit          bool      `help:"Write the shards of the source again."`
	OverrideKv         []string  `name:"override-kv" sep:"none" placeholder:"KEY=TYPE:VALUE" help:"Metadata to set: TYPE is int, float, bool or str."`
	DryRun             bool      `help:"Print types and sizes, write nothing."`
	MaxBufferSize      int64     `placeholder:"MiB" help:"Memory for data in flight, in MiB, as the reference takes it; --mem is the same."`
	JSON               bool      `help:"Print the result as JSON."`
	workFlags
}

// quantizeJob is a parsed command line.
type quantizeJob struct {
	in, out string
	options pipeline.QuantizeOptions
}

func (c *quantizeCmd) Run(ctx context.Context, a *app) error {
	job, err := c.parse()
	if err != nil {
		return err
	}
	ref, err := remote.ParseReference(job.in)
	if err != nil {
		return err
	}
	c.limitMemory()
	env, err := a.newEnvironment(int64(c.Mem))
	if err != nil {
		return err
	}
	defer env.Close()
	var bar *progress
	job.options.Stream.Progress = func(p pipeline.Progress) { bar.stream(p) }
	q, err := pipeline.OpenQuantization(ctx, env.Client, ref, job.options)
	if err != nil {
		return err
	}
	defer q.Close()
	report := newQuantizeReport(q, job)
	if c.DryRun {
		return report.print(a, c.JSON)
	}
	a.warnUncovered(q)
	bar = a.startProgress(q.Size())
	results, err := q.Write(ctx, job.out)
	a.endProgress()
	if err != nil {
		return err
	}
	for i, f := range q.Files(job.out) {
		report.Files = append(report.Files, quantizedFile{f, results[i].Bytes, results[i].SHA256})
	}
	if c.JSON {
		return report.print(a, true)
	}
	for _, f := range report.Files {
		a.say("%s: %d bytes, SHA-256 %s", f.Path, f.Bytes, f.SHA256)
	}
	a.note("%s of tensor data became %s, %.3f bits per weight", bytesize.Size(report.Before), bytesize.Size(report.After), report.BitsPerWeight)
	return nil
}

// parse reads the positional arguments as the reference does, IN [OUT] TYPE [THREADS], and translates the flags.
func (c *quantizeCmd) parse() (quantizeJob, error) {
	job := quantizeJob{in: c.Args[0]}
	rest := c.Args[1:]
	if len(rest) == 0 {
		return job, quantizeUsage("the type is missing")
	}
	t, err := quant.ParseFileType(rest[0])
	if err == nil {
		job.out = filepath.Join(filepath.Dir(job.in), "ggml-model-"+outputName(rest[0], t)+".gguf")
		if _, statErr := os.Stat(job.in); statErr != nil { // not a local file: the output goes to the working directory
			job.out = filepath.Base(job.out)
		}
		rest = rest[1:]
	} else {
		if len(rest) == 1 {
			return job, err
		}
		job.out = rest[0]
		if t, err = quant.ParseFileType(rest[1]); err != nil {
			return job, err
		}
		rest = rest[2:]
	}
	if len(rest) > 1 {
		return job, quantizeUsage("there are too many arguments: %s", strings.Join(rest[1:], " "))
	}
	if len(rest) == 1 {
		if c.Threads, err = strconv.Atoi(rest[0]); err != nil || c.Threads < 0 {
			return job, quantizeUsage("%q is no number of threads", rest[0])
		}
	}
	job.options, err = c.translate(t)
	return job, err
}

// outputName is the type as the reference puts it into the name of an output that is not given: as it was typed, in
// capitals, and for a number the shortest name.
func outputName(typed string, t quant.FileType) string {
	if _, err := strconv.Atoi(typed); err != nil {
		return strings.ToUpper(typed)
	}
	short := strings.TrimSuffix(t.String(), "_M")
	if alias, err := quant.ParseFileType(short); err == nil && alias == t {
		return short
	}
	return t.String()
}

func quantizeUsage(format string, args ...any) error {
	return fault.WithHint(fault.New(fault.Usage, format, args...), "gguf-forge quantize [flags] IN [OUT] TYPE [THREADS]; see gguf-forge quantize --help")
}

// translate turns the flags into options.
func (c *quantizeCmd) translate(t quant.FileType) (o pipeline.QuantizeOptions, err error) {
	if len(c.IncludeWeights) > 0 && len(c.ExcludeWeights) > 0 {
		return o, quantizeUsage("--include-weights and --exclude-weights can't be used together")
	}
	if c.MaxBufferSize < 0 {
		return o, quantizeUsage("--max-buffer-size is negative")
	}
	if c.MaxBufferSize > 0 {
		c.Mem = bytesize.Size(c.MaxBufferSize) << 20
	}
	o = pipeline.QuantizeOptions{
		Options:        quant.Options{FileType: t, Pure: c.Pure, AllowRequantize: c.AllowRequantize, LeaveOutput: c.LeaveOutputTensor},
		IncludeWeights: c.IncludeWeights, ExcludeWeights: c.ExcludeWeights, KeepSplit: c.KeepSplit,
		Stream: pipeline.StreamOptions{Memory: int64(c.Mem), Threads: c.Threads},
	}
	if n := len(c.Imatrix); n > 0 {
		o.Imatrix = c.Imatrix[n-1]
	}
	if o.OutputType, err = tensorType("output-tensor-type", c.OutputTensorType); err != nil {
		return o, err
	}
	if o.EmbeddingType, err = tensorType("token-embedding-type", c.TokenEmbeddingType); err != nil {
		return o, err
	}
	if o.Overrides, err = c.overrides(); err != nil {
		return o, err
	}
	for _, s := range c.OverrideKv {
		v, err := quant.ParseMetadataValue(s)
		if err != nil {
			return o, err
		}
		o.MetadataValues = append(o.MetadataValues, v)
	}
	if c.PruneLayers != "" {
		o.PruneLayers, err = quant.ParseLayers(c.PruneLayers)
	}
	return o, err
}

func tensorType(flag, name string) (*gguf.Type, error) {
	if name == "" {
		return nil, nil
	}
	t, err := gguf.ParseType(name)
	if err != nil {
		return nil, quantizeUsage("--%s: %w", flag, err)
	}
	return &t, nil
}

// ordered is the value of a flag that remembers its place among the values of all such flags: the first override that
// matches a tensor decides, whichever flag it came from.
type ordered struct {
	place int
	text  string
}

var orderedCount int

// UnmarshalText is called by the parser from left to right.
func (o *ordered) UnmarshalText(text []byte) error {
	orderedCount++
	*o = ordered{orderedCount, string(text)}
	return nil
}

func (c *quantizeCmd) overrides() ([]quant.Override, error) {
	type flag struct {
		ordered
		parse func(string) ([]quant.Override, error)
	}
	var flags []flag
	for _, f := range c.TensorType {
		flags = append(flags, flag{f, func(s string) ([]quant.Override, error) {
			o, err := quant.ParseOverride(s)
			return []quant.Override{o}, err
		}})
	}
	for _, f := range c.TensorTypeFile {
		flags = append(flags, flag{f, readOverrides})
	}
	slices.SortFunc(flags, func(a, b flag) int { return a.place - b.place })
	var list []quant.Override
	for _, f := range flags {
		more, err := f.parse(f.text)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// readOverrides reads a --tensor-type-file.
func readOverrides(path string) ([]quant.Override, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.BadInput, "--tensor-type-file: %w", err)
	}
	list, err := quant.ParseOverrides(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// quantizeReport is what quantize prints with --dry-run or --json.
type quantizeReport struct {
	Output        string            `json:"output"`
	Bytes         int64             `json:"bytes"` // of all files
	Before        int64             `json:"tensor_bytes_before"`
	After         int64             `json:"tensor_bytes_after"`
	BitsPerWeight float64           `json:"bits_per_weight"`
	Tensors       []quantizedTensor `json:"tensors"`
	Files         []quantizedFile   `json:"files,omitempty"`
}

type quantizedTensor struct {
	Name   string  `json:"name"`
	Shape  []int64 `json:"shape"`
	From   string  `json:"from"`
	To     string  `json:"to"`
	Bytes  int64   `json:"bytes"`
	Reason string  `json:"reason,omitempty"`
}

type quantizedFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func newQuantizeReport(q *pipeline.Quantization, job quantizeJob) *quantizeReport {
	r := &quantizeReport{Output: job.out, Bytes: q.Size()}
	var weights int64
	for _, c := range q.Choices {
		before, _ := c.Source.Size()
		after, _ := c.Target().Size()
		r.Before += before
		r.After += after
		weights += c.Source.Elements()
		r.Tensors = append(r.Tensors, quantizedTensor{c.Name, c.Source.Shape, c.Source.Type.String(), c.Type.String(), after, c.Reason})
	}
	if weights > 0 {
		r.BitsPerWeight = 8 * float64(r.After) / float64(weights)
	}
	return r
}

func (r *quantizeReport) print(a *app, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tensor\tshape\tfrom\tto\tbytes\twhy")
	for _, q := range r.Tensors {
		fmt.Fprintf(t, "%s\t%v\t%s\t%s\t%d\t%s\n", q.Name, q.Shape, q.From, q.To, q.Bytes, q.Reason)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s: %d bytes, tensor data %d bytes instead of %d, %.3f bits per weight\n", r.Output, r.Bytes, r.After, r.Before, r.BitsPerWeight)
	return err
}

// warnUncovered reports tensors that are encoded with importance of which part has no data.
func (a *app) warnUncovered(q *pipeline.Quantization) {
	for _, c := range q.Choices {
		if c.Importance == nil {
			continue
		}
		if missing := c.Importance.Uncovered(); len(missing) > 0 {
			a.note("note: %s: %d of %d experts have no data in the importance matrix and count as 1", c.Name, len(missing), len(c.Importance.Counts))
		}
	}
}
