package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// LoadOptions say how a model is loaded. The zero value is fit for use.
type LoadOptions struct {
	Threads   int   // workers; 0: one per CPU
	Exact     bool  // activations stay float32, and so does the cache unless its type is given
	NoMmap    bool  // read the weights into memory of the process
	MaxMemory int64 // bytes; what would need more is refused. 0: no limit
	// Session is what NewSession will be asked for. Its memory counts when the model is loaded.
	Session SessionOptions
}

// Model is a loaded model. Sessions of one model can be used from several goroutines; they take turns.
type Model struct {
	meta    *gguf.Metadata
	common  common
	ends    ends
	weights weights
	acts    activationSizes
	opt     LoadOptions
	memory  Memory // of the weights
	pool    *pool
	files   *files

	mu   sync.Mutex
	used int64 // by open sessions
}

// weights is a loaded architecture.
type weights interface {
	// session makes the memory of one sequence.
	session(a *arena) network
}

// architectures are the forward passes there are. Each function declares all weights of a model and fills in its ends.
var architectures = map[string]func(*keys, *loader, *Model) weights{
	"llama":         loadLlama,
	"qwen3":         loadQwen3,
	"qwen35":        loadQwen35,
	"gemma3":        loadGemma3,
	"lfm2":          loadLFM2,
	"granitehybrid": loadGraniteHybrid,
	"bailingmoe2":   loadBailingMoE2,
	"bailingmoe3":   loadBailingMoE3,
}

// Architectures returns the names of the supported architectures, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

// OpenFile loads a GGUF file, a split one by its first part, or a llama2.c checkpoint (.bin). Weights are
// mapped where the system allows it. Close the model when its last session is done.
func OpenFile(path string, opt LoadOptions) (*Model, error) {
	src, f, err := openFiles(path, opt.NoMmap)
	if err != nil {
		return nil, err
	}
	m, err := load(src, f, opt)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Load loads a model from any source. The source must stay open as long as the model.
func Load(src Source, opt LoadOptions) (*Model, error) { return load(src, nil, opt) }

func load(src Source, f *files, opt LoadOptions) (*Model, error) {
	if opt.Threads < 0 || opt.Threads > 1024 {
		return nil, fault.New(fault.Usage, "%d threads can't be used", opt.Threads)
	}
	if opt.Threads == 0 {
		opt.Threads = goruntime.GOMAXPROCS(0)
	}
	m := &Model{meta: src.Metadata(), opt: opt, files: f}
	l, err := m.declare(src)
	if err != nil {
		return nil, err
	}
	sessionOpt, err := m.complete(opt.Session)
	if err != nil {
		return nil, err
	}
	if err := m.fits(m.memory.plus(m.sessionMemory(sessionOpt))); err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	if err := m.ends.load(l); err != nil {
		return nil, err
	}
	m.pool = newPool(opt.Threads)
	return m, nil
}

// declare builds the architecture and checks every tensor it needs, without reading weights.
func (m *Model) declare(src Source) (*loader, error) {
	arch := m.meta.Architecture()
	build, ok := architectures[arch]
	if !ok {
		err := fault.New(fault.BadInput, "architecture %q is not supported", arch)
		return nil, fault.WithHint(err, "these are: %s", strings.Join(Architectures(), ", "))
	}
	l, err := newLoader(src, m.opt.Exact)
	if err != nil {
		return nil, err
	}
	k := &keys{meta: m.meta, arch: arch}
	m.common = readCommon(k)
	if k.err == nil {
		m.weights = build(k, l, m)
	}
	if err := cmp.Or(k.err, l.err); err != nil {
		return nil, err
	}
	m.memory, m.acts = l.memory, l.acts
	return l, nil
}

// fits refuses memory beyond the limit. Without one, the process may not take more than the machine has; mapped
// weights, which the system drops and reads again as it needs room, don't count then.
func (m *Model) fits(need Memory) error {
	total, limit := need.Total(), m.opt.MaxMemory
	if limit == 0 {
		total, limit = total-need.Mapped, machineMemory()
	}
	if total <= limit {
		return nil
	}
	err := fault.New(fault.Resources, "the model needs %d bytes of memory (weights %d, cache %d, state %d, buffers %d), and there are %d",
		total, need.Total()-need.KV-need.State-need.Buffers, need.KV, need.State, need.Buffers, limit)
	return fault.WithHint(err, "take a shorter context, a smaller cache type or a smaller model")
}

// machineMemory returns the bytes of the machine's memory, or of what it can address.
func machineMemory() int64 {
	if n := physicalMemory(); n > 0 {
		return min(n, math.MaxInt)
	}
	return math.MaxInt
}

// Close ends the workers and unmaps the weights. No session may be used afterwards.
func (m *Model) Close() error {
	m.pool.close()
	if m.files == nil {
		return nil
	}
	return m.files.Close()
}

// Metadata returns the metadata of the model.
func (m *Model) Metadata() *gguf.Metadata { return m.meta }

// Vocab returns the number of tokens: the length of a row of logits.
func (m *Model) Vocab() int { return m.ends.vocab }

// Width returns the length of a hidden vector.
func (m *Model) Width() int { return m.common.width }

// TrainedContext returns the positions the model was trained for, 0 if it doesn't say.
func (m *Model) TrainedContext() int { return m.common.context }

// HasMTP reports whether the model has a NextN block that can draft.
func (m *Model) HasMTP() bool {
	d, ok := m.weights.(draftWeights)
	return ok && d.canDraft()
}

// Memory returns what the weights take, and a session with these options.
func (m *Model) Memory(opt SessionOptions) (Memory, error) {
	opt, err := m.complete(opt)
	if err != nil {
		return Memory{}, err
	}
	return m.memory.plus(m.sessionMemory(opt)), nil
}
