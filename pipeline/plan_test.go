package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

// testModel writes a small llama model and an importance matrix without an entry for blk.1.ffn_up.
func testModel(t testing.TB, dir string) (model, imatrix string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	var tensors []gguf.TensorInfo
	add := func(name string, dims ...int64) {
		tensors = append(tensors, gguf.TensorInfo{Name: name, Type: gguf.F32, Shape: dims})
	}
	add("token_embd.weight", 256, 64)
	add("output_norm.weight", 256)
	for n := range 2 {
		add(fmt.Sprintf("blk.%d.attn_q.weight", n), 256, 256)
		add(fmt.Sprintf("blk.%d.attn_v.weight", n), 256, 128)
		add(fmt.Sprintf("blk.%d.ffn_up.weight", n), 256, 32)
		add(fmt.Sprintf("blk.%d.ffn_norm.weight", n), 256)
	}
	add("blk.0.odd.weight", 96, 8)
	meta := new(gguf.Metadata)
	meta.Put("general.architecture", gguf.StringValue("llama"))
	meta.Put("llama.block_count", gguf.Uint32Value(2))
	l, err := gguf.NewLayout(meta, tensors, gguf.GGUFPy, 32)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, l.Size)
	copy(data, l.Header)
	for i := l.DataStart; i < l.Size; i += 4 {
		v := 0x3c000000 | rng.Uint32()&0x81ffffff
		copy(data[i:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	model, imatrix = filepath.Join(dir, "model.gguf"), filepath.Join(dir, "imatrix.gguf")
	write(t, model, data)
	im := &quant.Imatrix{ChunkCount: 1, ChunkSize: 512, Datasets: []string{"text"}}
	for _, info := range tensors {
		if info.Dims() == 2 && info.Name != "token_embd.weight" && info.Name != "blk.1.ffn_up.weight" {
			e := quant.Entry{Name: info.Name, Counts: []int64{512}}
			for range info.Cols() {
				e.Sums = append(e.Sums, rng.Float32()*512)
			}
			im.Entries = append(im.Entries, e)
		}
	}
	slices.SortFunc(im.Entries, func(a, b quant.Entry) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	if err := im.WriteGGUF(&b); err != nil {
		t.Fatal(err)
	}
	write(t, imatrix, b.Bytes())
	return model, imatrix
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func testEnv(t testing.TB) Env {
	t.Helper()
	c, err := remote.NewClient(remote.WithOffline(true), remote.WithCache(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return Env{Client: c}
}

func planOf(t testing.TB, dir, yaml string) *Plan {
	t.Helper()
	r, err := ParseRecipe("test", dir, []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Plan(t.Context(), testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPlanTellsAllProblems(t *testing.T) {
	dir := t.TempDir()
	testModel(t, dir)
	p := planOf(t, dir, `
sources:
  model: {path: model.gguf, size: 1}
  imatrix: {path: imatrix.gguf, sha256: "`+strings.Repeat("0", 64)+`"}
  spare: {path: model.gguf}
quantize: {type: Q4_K_M, imatrix: imatrix}
`)
	for _, want := range []string{"source model has", "source imatrix has SHA-256", "source spare is not used"} {
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	p = planOf(t, dir, `
sources:
  model: {path: model.gguf}
  imatrix: {path: imatrix.gguf}
quantize:
  type: Q4_K_M
  imatrix: imatrix
  tensors: [{match: attn_x, layers: "1", type: q6_K}, {match: attn_q, type: q8_0}]
`)
	for _, want := range []string{`"attn_x in layers 1" matches no tensor`, `"blk.0.odd.weight": rows of 96`, `"blk.1.ffn_up.weight": the importance matrix has no entry`} {
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if p.Artifact != nil {
		t.Error("a plan with problems has an artifact")
	}
	var text bytes.Buffer
	if err := p.Report().Text(&text); err != nil || strings.Count(text.String(), "problem:") != 3 {
		t.Errorf("%v\n%s", err, &text)
	}
}

func TestPlanReport(t *testing.T) {
	dir := t.TempDir()
	testModel(t, dir)
	p := planOf(t, dir, `
sources:
  model: {path: model.gguf, unverified: its name}
  imatrix: {path: imatrix.gguf}
quantize: {type: Q4_K, pure: true, imatrix: imatrix, missing_importance: allow, fallback: allow}
`)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	r := p.Report()
	var all bytes.Buffer
	res, err := p.Artifact.Stream(t.Context(), &all, StreamOptions{})
	if err != nil || res.Bytes != r.Size {
		t.Errorf("%d bytes of %d: %v", res.Bytes, r.Size, err)
	}
	if !slices.Equal(r.Imatrix.Missing, []string{"token_embd.weight", "blk.1.ffn_up.weight"}) || r.Imatrix.Covered != 6 {
		t.Errorf("coverage %+v", r.Imatrix)
	}
	var files int64
	for _, s := range r.Sources {
		files += s.Size
	}
	if r.Fetch > files || r.Fetch < files-1000 {
		t.Errorf("%d bytes to fetch of %d", r.Fetch, files)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "its name") {
		t.Errorf("notes %q", r.Notes)
	}
	h, err := gguf.ReadHeader(bytes.NewReader(all.Bytes()), r.Size)
	if err != nil {
		t.Fatal(err)
	}
	sources, _ := h.Metadata.Get(KeySources)
	var refs []string
	for _, s := range sources.Strings() {
		refs = append(refs, s)
	}
	if h.Metadata.Text(KeyRecipe) != "test" || h.Metadata.Text(KeyRecipeSHA256) != p.Recipe.SHA256 || !slices.Equal(refs, []string{"imatrix=imatrix.gguf", "model=model.gguf"}) {
		t.Errorf("provenance: %q, %q, %q", h.Metadata.Text(KeyRecipe), h.Metadata.Text(KeyRecipeSHA256), refs)
	}
}

// A recipe of source, type, pure and imatrix makes the file of quantize with those flags.
func TestRecipeEqualsQuantize(t *testing.T) {
	dir := t.TempDir()
	model, imatrix := testModel(t, dir)
	for _, c := range []struct {
		yaml string
		opt  quant.Options
		im   string
	}{
		{"quantize: {type: Q4_K_M, fallback: allow}", quant.Options{FileType: quant.MostlyQ4KM}, ""},
		{"quantize: {type: Q4_K_M, pure: true, imatrix: imatrix, fallback: allow, missing_importance: allow}", quant.Options{FileType: quant.MostlyQ4KM, Pure: true}, imatrix},
		{"quantize: {type: IQ3_S, imatrix: imatrix, fallback: allow, requantize: allow, tensors: [{match: ffn_up, layers: 1, type: q8_0}]}",
			quant.Options{FileType: quant.MostlyIQ3S, Overrides: []quant.Override{{Pattern: `blk\.1\.ffn_up`, Type: gguf.Q8_0}}}, imatrix},
		{"quantize: {type: COPY}", quant.Options{FileType: quant.Copy}, ""},
	} {
		yaml := "sources: {model: {path: " + model + "}"
		if c.im != "" {
			yaml += ", imatrix: {path: " + imatrix + "}"
		}
		p := planOf(t, "", yaml+"}\nprovenance: none\n"+strings.ReplaceAll(c.yaml, "layers: 1,", `layers: "1",`))
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		q, err := OpenQuantization(t.Context(), testEnv(t).Client, remote.Reference{Kind: remote.File, Path: model}, QuantizeOptions{Options: c.opt, Imatrix: c.im})
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "out.gguf")
		res, err := q.Write(t.Context(), out)
		if err := errors.Join(err, q.Close()); err != nil {
			t.Fatal(err)
		}
		recipe, err := p.Artifact.Stream(t.Context(), io.Discard, StreamOptions{})
		if err != nil || recipe.SHA256 != res[0].SHA256 {
			t.Errorf("%s: SHA-256 %.8s, quantize %.8s (%v)", c.yaml, recipe.SHA256, res[0].SHA256, err)
		}
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	testModel(t, dir)
	const yaml = "sources: {model: {path: model.gguf}}\nquantize: {type: Q8_0}\n"
	p := planOf(t, dir, yaml)
	m := new(Manifest)
	res, err := p.Artifact.Stream(t.Context(), io.Discard, StreamOptions{Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := NewLock(p, m, res)
	if err != nil {
		t.Fatal(err)
	}
	data, err := lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	fresh := func(t *testing.T) *Lock {
		l, err := ParseLock("test", data)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("equal", func(t *testing.T) {
		l := fresh(t)
		if err := l.CheckPlan(p); err != nil {
			t.Error(err)
		}
		if tensors, chunks, err := l.CheckStream(m, res); err != nil || tensors != len(l.Tensors) || chunks != 1 {
			t.Errorf("%d tensors, %d chunks, %v", tensors, chunks, err)
		}
	})
	other := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		change func(l *Lock)
		want   string
	}{
		"recipe":       {func(l *Lock) { l.RecipeSHA256 = other }, "the recipe is not the one"},
		"encoder":      {func(l *Lock) { l.Encoder = "ggml 0.21.0" }, "encoders of ggml 0.21.0"},
		"source":       {func(l *Lock) { l.Sources[0].Source = "elsewhere" }, "source model"},
		"source size":  {func(l *Lock) { l.Sources[0].Size++ }, "source model"},
		"source name":  {func(l *Lock) { l.Sources[0].Name = "x" }, "source model is new"},
		"tensor name":  {func(l *Lock) { l.Tensors[2].Name = "x" }, `tensor 2 is "blk.0.`},
		"tensor type":  {func(l *Lock) { l.Tensors[0].Type = "q4_0" }, "tensor 0"},
		"tensor place": {func(l *Lock) { l.Tensors[1].Offset++ }, "tensor 1"},
		"missing":      {func(l *Lock) { l.Tensors = l.Tensors[:3] }, "is not in the lock"},
		"surplus":      {func(l *Lock) { l.Tensors = append(l.Tensors, LockTensor{}) }, "tensors and"},
		"size":         {func(l *Lock) { l.Size-- }, "bytes, locked"},
		"tensor hash":  {func(l *Lock) { l.Tensors[3].SHA256 = other }, `tensor "`},
		"chunk hash":   {func(l *Lock) { l.Chunks[0] = other }, "bytes 0 to"},
		"file hash":    {func(l *Lock) { l.SHA256 = other }, "the file has SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t)
			c.change(l)
			err := l.CheckPlan(p)
			if err == nil {
				_, _, err = l.CheckStream(m, res)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Verification {
				t.Errorf("%v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"newer":         strings.Replace(string(data), `"version": 1`, `"version": 2`, 1),
		"no version":    "{}",
		"unknown field": strings.Replace(string(data), `"version": 1`, `"version": 1, "more": 2`, 1),
		"no json":       "lock",
		"chunks":        strings.Replace(string(data), `"chunk_size": 4194304`, `"chunk_size": 1`, 1),
	} {
		if _, err := ParseLock("bad", []byte(text)); err == nil || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewLock(p, m, Result{Bytes: 3}); err == nil {
		t.Error("a lock of a part is made")
	}
}

func TestQuantizeWrites(t *testing.T) {
	dir := t.TempDir()
	model, _ := testModel(t, dir)
	client := testEnv(t).Client
	open := func(t *testing.T, opt QuantizeOptions) *Quantization {
		q, err := OpenQuantization(t.Context(), client, remote.Reference{Kind: remote.File, Path: model}, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		return q
	}
	q := open(t, QuantizeOptions{Options: quant.Options{FileType: quant.MostlyQ8_0}})
	t.Run("never over its input", func(t *testing.T) {
		link := filepath.Join(dir, "link.gguf")
		if err := os.Symlink(model, link); err != nil {
			t.Skip(err)
		}
		for _, out := range []string{model, link, filepath.Join(dir, ".", "model.gguf")} {
			if _, err := q.Write(t.Context(), out); fault.KindOf(err) != fault.Usage {
				t.Errorf("%s: %v", out, err)
			}
		}
	})
	t.Run("replaces a file", func(t *testing.T) {
		out := filepath.Join(dir, "old.gguf")
		write(t, out, []byte("old"))
		res, err := q.Write(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(out); err != nil || st.Size() != res[0].Bytes {
			t.Errorf("%v, %v", st, err)
		}
	})
	t.Run("leaves nothing on failure", func(t *testing.T) {
		data, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		copy(data[len(data)-32:], []byte{0, 0, 0xc0, 0x7f}) // a NaN in the last tensor
		bad := filepath.Join(t.TempDir(), "bad.gguf")
		write(t, bad, data)
		q, err := OpenQuantization(t.Context(), client, remote.Reference{Kind: remote.File, Path: bad}, QuantizeOptions{Options: quant.Options{FileType: quant.MostlyQ8_0}})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		out := filepath.Join(t.TempDir(), "out.gguf")
		write(t, out, []byte("old"))
		if _, err := q.Write(t.Context(), out); fault.KindOf(err) != fault.BadInput {
			t.Errorf("%v", err)
		}
		list, err := os.ReadDir(filepath.Dir(out))
		if old, _ := os.ReadFile(out); err != nil || len(list) != 1 || string(old) != "old" {
			t.Errorf("%v, %q, %v", list, old, err)
		}
	})
	t.Run("missing folder", func(t *testing.T) {
		if _, err := q.Write(t.Context(), filepath.Join(dir, "none", "out.gguf")); err == nil {
			t.Error("accepted")
		}
	})
}
