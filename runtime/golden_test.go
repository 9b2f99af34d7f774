package runtime

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gguf-forge/gguf"
)

// golden is what NAME.json says about a model: what the reference engine computed from it.
type golden struct {
	File    string
	Prompt  []int32
	Logits  map[string][]float64
	Summary struct {
		Argmax    []int32
		Logsumexp []float64
		NLL       []float64 `json:"nll_next"`
	}
	Greedy struct {
		Tokens []int32
		Margin []float64
	}
	Float64 struct {
		Logits map[string][]float64
		MTP    map[string][]float64
	}
	Stored struct {
		Logits map[string][]float64
		Greedy struct{ Tokens []int32 }
	}
	StoredType string                                `json:"stored_type"`
	F16Cache   struct{ Logits map[string][]float64 } `json:"f16_cache"`
	MTP        struct {
		Logits map[string][]float64
		Argmax []int32
		Draft  struct {
			FirstToken int32 `json:"first_token"`
			Position   int
			Tokens     []int32
			Logits     map[string][]float64
		}
	}
	KeptIDs    []int32 `json:"kept_ids"`
	KeptIDs197 []int32 `json:"kept_ids_197"`
}

// goldenDir is where golden models are: all of them, or those that come with the package.
func goldenDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("FORGE_GOLDEN"), "arch")
	if _, err := os.Stat(dir); os.Getenv("FORGE_GOLDEN") != "" && err == nil {
		return dir
	}
	if os.Getenv("FORGE_REQUIRE_GOLDEN") != "" {
		t.Fatal("FORGE_GOLDEN has no folder arch")
	}
	return "testdata"
}

func readGolden(t testing.TB, dir, name string) *golden {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) && dir == "testdata" {
		t.Skip("not among the models of the package; FORGE_GOLDEN names the folder of all")
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{}
	if err := json.Unmarshal(b, g); err != nil {
		t.Fatal(err)
	}
	return g
}

var goldenModels = []string{"llama", "llama-bias", "llama-rope", "llama-yarn", "qwen3", "qwen35", "qwen35-untied", "qwen35-mtp",
	"gemma3", "gemma3-pattern", "lfm2", "granitehybrid", "granitehybrid-moe", "bailingmoe2", "bailingmoe3", "bailingmoe3-mtp",
	"llama2c", "llama2c-untied"}

func openModel(t testing.TB, path string, opt LoadOptions) *Model {
	t.Helper()
	m, err := OpenFile(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func newSession(t testing.TB, m *Model, opt SessionOptions) *Session {
	t.Helper()
	s, err := m.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// evalAll returns the logits after every token.
func evalAll(t testing.TB, s *Session, ids []int32) [][]float32 {
	t.Helper()
	var all [][]float32
	err := s.EvalAll(ids, func(_ int, logits []float32) error {
		all = append(all, append([]float32(nil), logits...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// compare checks recorded positions against logits and returns the largest difference.
func compare(t testing.TB, what string, got [][]float32, want map[string][]float64, tolerance float64) float64 {
	t.Helper()
	worst := 0.0
	for key, row := range want {
		pos, err := strconv.Atoi(key)
		if err != nil {
			t.Fatal(err)
		}
		d := difference(got[pos], row)
		worst = max(worst, d)
		if !(d <= tolerance) {
			t.Errorf("%s: position %d differs by %.3g, more than %.3g", what, pos, d, tolerance)
		}
	}
	if len(want) == 0 {
		t.Errorf("%s: nothing to compare with", what)
	}
	return worst
}

func difference(got []float32, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	worst := 0.0
	for i, v := range got {
		d := math.Abs(float64(v) - want[i])
		if !(d <= worst) {
			worst = d
		}
	}
	return worst
}

func logSumExp(x []float32) float64 {
	top := float64(x[highest(x)])
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// greedy continues a session that has the prompt with n tokens, one at a time.
func greedyTokens(t testing.TB, s *Session, logits []float32, n int) []int32 {
	t.Helper()
	var out []int32
	for len(out) < n {
		id := int32(highest(logits))
		out = append(out, id)
		if len(out) == n {
			break
		}
		var err error
		if logits, err = s.Eval([]int32{id}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestGoldenExact compares float32 arithmetic with the reference (widened weights, float32 cache) and with an independent
// float64 forward pass.
func TestGoldenExact(t *testing.T) {
	dir := goldenDir(t)
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, dir, name)
			tolerance := 3e-4
			if name == "gemma3" || name == "gemma3-pattern" {
				tolerance = 0.03 // the reference looks GELU up in a table of halves
			}
			m := openModel(t, filepath.Join(dir, g.File), LoadOptions{Exact: true, Threads: 2})
			s := newSession(t, m, SessionOptions{Context: 128, Hidden: m.HasMTP()})
			logits := evalAll(t, s, g.Prompt)
			worst := compare(t, "logits", logits, g.Logits, tolerance)
			if len(g.Float64.Logits) > 0 {
				worst64 := compare(t, "float64", logits, g.Float64.Logits, 3e-4)
				t.Logf("largest difference %.2g, from float64 %.2g", worst, worst64)
			}
			for i, row := range logits {
				if id := int32(highest(row)); id != g.Summary.Argmax[i] {
					t.Errorf("position %d: token %d is the most likely, not %d", i, id, g.Summary.Argmax[i])
				}
				lse := logSumExp(row)
				if d := math.Abs(lse - g.Summary.Logsumexp[i]); d > tolerance {
					t.Errorf("position %d: logsumexp differs by %.3g", i, d)
				}
				if i < len(g.Summary.NLL) {
					if d := math.Abs(lse - float64(row[g.Prompt[i+1]]) - g.Summary.NLL[i]); d > tolerance {
						t.Errorf("position %d: negative log-likelihood differs by %.3g", i, d)
					}
				}
			}
			if m.HasMTP() {
				goldenDraft(t, g, m, s)
			}
			if got := greedyTokens(t, s, logits[len(logits)-1], len(g.Greedy.Tokens)); fmt.Sprint(got) != fmt.Sprint(g.Greedy.Tokens) {
				t.Errorf("greedy tokens\n%v, want\n%v", got, g.Greedy.Tokens)
			}
		})
	}
}

// goldenDraft runs the NextN block over the prompt and lets it draft a chain of tokens.
func goldenDraft(t *testing.T, g *golden, m *Model, s *Session) {
	t.Helper()
	d, err := m.NewDrafter(SessionOptions{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	hidden := make([]float32, m.Width())
	for pos := range len(g.Prompt) - 1 {
		hidden = append(hidden, s.Hidden(pos)...)
	}
	var logits [][]float32
	collect := func(_ int, l, h []float32) error {
		logits = append(logits, append([]float32(nil), l...))
		hidden = append(hidden[:0], h...)
		return nil
	}
	if err := d.Eval(g.Prompt, hidden, collect); err != nil {
		t.Fatal(err)
	}
	compare(t, "mtp", logits, g.MTP.Logits, 3e-4)
	compare(t, "mtp float64", logits, g.Float64.MTP, 3e-4)
	for i, row := range logits {
		if id := int32(highest(row)); id != g.MTP.Argmax[i] {
			t.Errorf("mtp position %d: token %d is the most likely, not %d", i, id, g.MTP.Argmax[i])
		}
	}
	id := g.MTP.Draft.FirstToken
	hidden = append(hidden[:0], s.Hidden(len(g.Prompt)-1)...)
	logits = nil
	var drafts []int32
	for range g.MTP.Draft.Tokens {
		if err := d.Eval([]int32{id}, append([]float32(nil), hidden...), collect); err != nil {
			t.Fatal(err)
		}
		id = int32(highest(logits[len(logits)-1]))
		drafts = append(drafts, id)
	}
	compare(t, "draft", logits, g.MTP.Draft.Logits, 3e-4)
	if fmt.Sprint(drafts) != fmt.Sprint(g.MTP.Draft.Tokens) {
		t.Errorf("drafts %v, want %v", drafts, g.MTP.Draft.Tokens)
	}
}

// TestGoldenStored compares the usual settings: activations rounded to the type of the weights, here with a float32 cache. A
// value on the edge of rounding may fall either way, so the tolerance is what the reference differs from itself by.
func TestGoldenStored(t *testing.T) {
	dir := goldenDir(t)
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, dir, name)
			if g.Stored.Logits == nil {
				t.Skip("float32 weights")
			}
			tolerance := 0.02
			if g.StoredType == "BF16" {
				tolerance = 0.1
			}
			m := openModel(t, filepath.Join(dir, g.File), LoadOptions{Threads: 2})
			s := newSession(t, m, SessionOptions{Context: 128, KV: KVF32})
			logits := evalAll(t, s, g.Prompt)
			t.Logf("largest difference %.2g", compare(t, "stored", logits, g.Stored.Logits, tolerance))
			if got := greedyTokens(t, s, logits[len(logits)-1], len(g.Stored.Greedy.Tokens)); fmt.Sprint(got) != fmt.Sprint(g.Stored.Greedy.Tokens) {
				t.Errorf("greedy tokens\n%v, want\n%v", got, g.Stored.Greedy.Tokens)
			}
		})
	}
}

// TestGoldenF16Cache compares float32 arithmetic over a cache of halves.
func TestGoldenF16Cache(t *testing.T) {
	dir := goldenDir(t)
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, dir, name)
			if g.F16Cache.Logits == nil {
				t.Skip("not recorded")
			}
			tolerance := 0.02
			if name == "gemma3" {
				tolerance = 0.035 // the reference's own cache types are that far apart
			}
			m := openModel(t, filepath.Join(dir, g.File), LoadOptions{Exact: true, Threads: 2})
			logits := evalAll(t, newSession(t, m, SessionOptions{Context: 128, KV: KVF16}), g.Prompt)
			t.Logf("largest difference %.2g", compare(t, "f16 cache", logits, g.F16Cache.Logits, tolerance))
		})
	}
}

// goldenQuants is NAME-quants.json: the widened model through llama-quantize --pure.
type goldenQuants struct {
	Prompt []int32
	Types  map[string]struct {
		Tensors              map[string][2]string
		QuantizedActivations goldenQuant `json:"quantized_activations"`
		FloatActivations     goldenQuant `json:"float_activations"`
	}
}

type goldenQuant struct {
	Logits     map[string][]float64
	Argmax     []int32
	Perplexity float64
	Greedy     struct{ Tokens []int32 }
}

// TestGoldenQuants makes the quantized models, checks that their bytes are those of the reference, and compares what it
// computed with them: with float32 activations to the bit of summation, with quantized ones as far as it agrees with itself.
func TestGoldenQuants(t *testing.T) {
	dir := goldenDir(t)
	if dir == "testdata" {
		t.Skip("the models are in the folder that FORGE_GOLDEN names")
	}
	for _, name := range []string{"llama", "qwen35", "bailingmoe2"} {
		b, err := os.ReadFile(filepath.Join(dir, name+"-quants.json"))
		if err != nil {
			t.Fatal(err)
		}
		var g goldenQuants
		if err := json.Unmarshal(b, &g); err != nil {
			t.Fatal(err)
		}
		for typeName, want := range g.Types {
			t.Run(name+"/"+typeName, func(t *testing.T) {
				src := readModel(t, filepath.Join(dir, name+".gguf"))
				for i := range src.infos {
					info := src.infos[i]
					row, ok := want.Tensors[info.Name]
					if !ok {
						t.Fatalf("tensor %q is not recorded", info.Name)
					}
					to, err := gguf.ParseType(row[0])
					if err != nil {
						t.Fatal(err)
					}
					src.convert(t, i, to)
					if sum := fmt.Sprintf("%x", sha256.Sum256(src.data[i])); sum != row[1] {
						t.Fatalf("tensor %q of %s differs from the reference's", info.Name, to)
					}
				}
				exact := evalAll(t, newSession(t, loadMemory(t, src, LoadOptions{Exact: true, Threads: 2}), SessionOptions{Context: 64}), g.Prompt)
				worst := compare(t, "float activations", exact, want.FloatActivations.Logits, 3e-4)
				checkArgmax(t, exact, want.FloatActivations.Argmax, 0)

				tolerance := 0.2
				if name == "qwen35" {
					tolerance = 0.9
				}
				usual := evalAll(t, newSession(t, loadMemory(t, src, LoadOptions{Threads: 2}), SessionOptions{Context: 64, KV: KVF32}), g.Prompt)
				worstUsual := compare(t, "quantized activations", usual, want.QuantizedActivations.Logits, tolerance)
				checkArgmax(t, usual, want.QuantizedActivations.Argmax, 4) // one activation rounded the other way is enough
				t.Logf("largest difference %.2g, with quantized activations %.2g", worst, worstUsual)
			})
		}
	}
}

func checkArgmax(t *testing.T, got [][]float32, want []int32, allowed int) {
	t.Helper()
	wrong := 0
	for i, row := range got {
		if int32(highest(row)) != want[i] {
			wrong++
		}
	}
	if wrong > allowed {
		t.Errorf("%d of %d most likely tokens differ", wrong, len(want))
	}
}

// TestGoldenPrunedHead compares a model whose head has the rows of some tokens only with the whole model: the same bits for
// those, −∞ for all others; and its embedding rows come from the head.
func TestGoldenPrunedHead(t *testing.T) {
	dir := goldenDir(t)
	for _, name := range []string{"llama", "qwen35"} {
		g := readGolden(t, dir, name)
		for _, kept := range [][]int32{g.KeptIDs, append(append([]int32(nil), g.KeptIDs197...), -1, -1, -1)} {
			for _, exact := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/", len(kept), "/", exact), func(t *testing.T) {
					src := readModel(t, filepath.Join(dir, g.File))
					opt := LoadOptions{Exact: exact, Threads: 2}
					full := evalAll(t, newSession(t, loadMemory(t, src, opt), SessionOptions{Context: 64}), g.Prompt)
					pruneHead(src, kept)
					m := loadMemory(t, src, opt)
					if m.ends.rowOf == nil {
						t.Error("the head's rows were not taken for copies of embedding rows")
					}
					got := evalAll(t, newSession(t, m, SessionOptions{Context: 64}), g.Prompt)
					checkPruned(t, got, full, kept)

					changed := src.data[src.index("output.weight")]
					changed[0] ^= 1
					m = loadMemory(t, src, opt)
					if m.ends.rowOf != nil {
						t.Error("rows that differ were taken for copies")
					}
					changed[0] ^= 1
				})
			}
		}
	}
}

// pruneHead gives a model with a tied head one with the rows of some tokens, −1 for a row of zeros.
func pruneHead(src *memoryModel, kept []int32) {
	i := src.index("token_embd.weight")
	embed, size := src.infos[i], len(src.data[i])/int(src.infos[i].Rows())
	var rows, ids []byte
	for _, id := range kept {
		if id < 0 {
			rows = append(rows, make([]byte, size)...)
		} else {
			rows = append(rows, src.data[i][int(id)*size:(int(id)+1)*size]...)
		}
		ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
	}
	n := int64(len(kept))
	src.add(gguf.TensorInfo{Name: "output.weight", Type: embed.Type, Shape: []int64{embed.Cols(), n}}, rows)
	src.add(gguf.TensorInfo{Name: "output_ids.weight", Type: gguf.I32, Shape: []int64{n}}, ids)
}

func checkPruned(t *testing.T, got, full [][]float32, kept []int32) {
	t.Helper()
	isKept := map[int]bool{}
	for _, id := range kept {
		isKept[int(id)] = true
	}
	for pos, row := range got {
		for id, v := range row {
			switch {
			case isKept[id] && v != full[pos][id]:
				t.Fatalf("position %d, token %d: %g, the whole model says %g", pos, id, v, full[pos][id])
			case !isKept[id] && !math.IsInf(float64(v), -1):
				t.Fatalf("position %d: token %d, which was dropped, has logit %g", pos, id, v)
			}
		}
	}
}

// TestGoldenGreedy continues prompts with real models. The reference's tokens are wanted up to the first step where it was
// all but undecided itself.
func TestGoldenGreedy(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	b, err := os.ReadFile("testdata/greedy.json")
	if err != nil {
		t.Fatal(err)
	}
	var models []struct {
		File, SHA256 string
		Runs         []struct {
			Text           string
			Prompt, Tokens []int32
			Margin         []float64
		}
	}
	if err := json.Unmarshal(b, &models); err != nil {
		t.Fatal(err)
	}
	const undecided = 0.05
	for _, m := range models {
		t.Run(m.File, func(t *testing.T) {
			path := filepath.Join(os.Getenv("FORGE_WORK"), m.File)
			file, err := os.ReadFile(path)
			switch {
			case err != nil && os.Getenv("FORGE_REQUIRE_GOLDEN") != "":
				t.Fatal(err)
			case err != nil:
				t.Skip("FORGE_WORK does not hold the model")
			}
			if sum := fmt.Sprintf("%x", sha256.Sum256(file)); sum != m.SHA256 {
				t.Fatalf("the model has SHA-256 %s, not %s", sum, m.SHA256)
			}
			model := openModel(t, path, LoadOptions{Exact: true})
			for _, r := range m.Runs {
				s := newSession(t, model, SessionOptions{Context: 128})
				logits, err := s.Eval(r.Prompt)
				if err != nil {
					t.Fatal(err)
				}
				for i, id := range greedyTokens(t, s, logits, len(r.Tokens)) {
					if id == r.Tokens[i] {
						continue
					}
					if r.Margin[i] >= undecided {
						t.Errorf("%q: token %d is %d, not %d (margin %g)", r.Text, i, id, r.Tokens[i], r.Margin[i])
					}
					t.Logf("%q: %d tokens compared", r.Text, i)
					break
				}
			}
		})
	}
}
