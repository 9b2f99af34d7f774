package runtime

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"gguf-forge/internal/fault"
)

// sameBits reports the first logit that differs.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: logit %d is %g, want %g", what, i, got[i], want[i])
		}
		if got[i] != got[i] {
			t.Fatalf("%s: logit %d is no number", what, i)
		}
	}
}

// TestBatchesAndThreads wants the same bits from any division into calls and batches, any number of workers, any cache type
// and from mapped and copied weights.
func TestBatchesAndThreads(t *testing.T) {
	const n = 75 // more than a span and several windows
	ids := tinyTokens(n)
	for _, arch := range tinyArchitectures {
		for _, kv := range []KVType{KVF16, KVF32, KVQ8_0} {
			if testing.Short() && kv == KVF32 {
				continue
			}
			t.Run(fmt.Sprint(arch, "/", kv), func(t *testing.T) {
				src := tinyModel(t, arch)
				one := loadMemory(t, src, LoadOptions{Threads: 1})
				s, err := one.NewSession(SessionOptions{Context: n, KV: kv, Batch: 1})
				if kv == KVQ8_0 && fault.KindOf(err) == fault.BadInput {
					t.Skip(err) // heads of 16 values
				}
				if err != nil {
					t.Fatal(err)
				}
				var want [][]float32
				for _, id := range ids {
					logits, err := s.Eval([]int32{id})
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, append([]float32(nil), logits...))
				}
				cases := []struct{ threads, batch int }{{2, 7}, {3, 32}, {1, 64}, {2, 1}, {5, 75}}
				if testing.Short() {
					cases = cases[:2]
				}
				for _, c := range cases {
					m := loadMemory(t, src, LoadOptions{Threads: c.threads})
					s := newSession(t, m, SessionOptions{Context: n, KV: kv, Batch: c.batch, Logits: c.threads})
					r := rand.New(rand.NewPCG(uint64(c.threads), uint64(c.batch)))
					for pos := 0; pos < n; {
						k := min(1+r.IntN(40), n-pos)
						logits := evalAll(t, s, ids[pos:pos+k])
						for i, row := range logits {
							sameBits(t, fmt.Sprintf("%d threads, batch %d, position %d", c.threads, c.batch, pos+i), row, want[pos+i])
						}
						pos += k
					}
				}
			})
		}
	}
}

// TestGoldenSplits runs the golden prompts in several batch sizes on several threads, mapped and not.
func TestGoldenSplits(t *testing.T) {
	dir := goldenDir(t)
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, dir, name)
			path := filepath.Join(dir, g.File)
			one := openModel(t, path, LoadOptions{Threads: 1})
			want := evalAll(t, newSession(t, one, SessionOptions{Context: 64, Batch: 1}), g.Prompt)
			for _, c := range []struct {
				threads, batch int
				noMmap         bool
			}{{1, 64, true}, {2, 5, false}, {4, 32, true}} {
				m := openModel(t, path, LoadOptions{Threads: c.threads, NoMmap: c.noMmap})
				got := evalAll(t, newSession(t, m, SessionOptions{Context: 64, Batch: c.batch}), g.Prompt)
				for i := range got {
					sameBits(t, fmt.Sprintf("%+v, position %d", c, i), got[i], want[i])
				}
			}
		})
	}
}

func TestNoAllocationsPerToken(t *testing.T) {
	for _, arch := range tinyArchitectures {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprint(arch, "/", threads), func(t *testing.T) {
				m := loadMemory(t, tinyModel(t, arch), LoadOptions{Threads: threads})
				s := newSession(t, m, SessionOptions{Context: 256})
				ids := tinyTokens(256)
				if _, err := s.Eval(ids[:100]); err != nil {
					t.Fatal(err)
				}
				if n := testing.AllocsPerRun(50, func() {
					pos := s.Position()
					if _, err := s.Eval(ids[pos : pos+1]); err != nil {
						t.Fatal(err)
					}
				}); n > 0 {
					t.Errorf("%g allocations per token", n)
				}
			})
		}
	}
}

// TestContextEnd wants a clear stop, or a shift that leaves exactly the session of the remaining tokens.
func TestContextEnd(t *testing.T) {
	ids := tinyTokens(60)
	for _, arch := range tinyArchitectures {
		t.Run(arch, func(t *testing.T) {
			m := loadMemory(t, tinyModel(t, arch), LoadOptions{Threads: 2})
			s := newSession(t, m, SessionOptions{Context: 40})
			if _, err := s.Eval(ids[:40]); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Eval(ids[40:41]); !errors.Is(err, ErrContextFull) || fault.HintOf(err) == "" {
				t.Errorf("at the end of the context: %v", err)
			}
			if _, err := s.Eval(ids[:41]); !errors.Is(err, ErrContextFull) {
				t.Errorf("a prompt longer than the context: %v", err)
			}
			if s.Position() != 40 {
				t.Errorf("position %d after refused tokens", s.Position())
			}

			s = newSession(t, m, SessionOptions{Context: 40, Shift: true, Keep: 4})
			var got []float32
			var err error
			for i := 0; i < 60; i += 3 {
				if got, err = s.Eval(ids[i : i+3]); err != nil {
					t.Fatal(err)
				}
			}
			if s.Shifted() != 36 || s.Position() != 60-s.Shifted() { // twice half of what is not kept
				t.Errorf("%d tokens forgotten, position %d", s.Shifted(), s.Position())
			}
			rest := append([]int32(nil), s.Tokens()...)
			for i, id := range ids[:4] {
				if rest[i] != id {
					t.Errorf("token %d was not kept", i)
				}
			}
			for i := range 20 {
				if rest[len(rest)-1-i] != ids[59-i] {
					t.Errorf("the newest tokens are not there")
				}
			}
			want, err := newSession(t, m, SessionOptions{Context: 60}).Eval(rest)
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, "after a shift", got, want)
		})
	}
}

func TestSnapshots(t *testing.T) {
	ids := tinyTokens(70)
	for _, arch := range tinyArchitectures {
		t.Run(arch, func(t *testing.T) {
			m := loadMemory(t, tinyModel(t, arch), LoadOptions{Threads: 2})
			opt := SessionOptions{Context: 128, Batch: 16}
			want := evalAll(t, newSession(t, m, opt), ids)
			s := newSession(t, m, opt)
			if _, err := s.Eval(ids[:50]); err != nil {
				t.Fatal(err)
			}
			snap := s.Snapshot()
			for range 3 { // wrong drafts, given up again
				if _, err := s.Eval(ids[:12]); err != nil {
					t.Fatal(err)
				}
				if err := s.Restore(snap); err != nil {
					t.Fatal(err)
				}
			}
			for i, row := range evalAll(t, s, ids[50:]) {
				sameBits(t, fmt.Sprint("position ", 50+i), row, want[50+i])
			}
			s.Reset()
			if err := s.Restore(snap); err == nil {
				t.Error("a snapshot of forgotten tokens was restored")
			}
			for i, row := range evalAll(t, s, ids) {
				sameBits(t, fmt.Sprint("after a reset, position ", i), row, want[i])
			}
			err := s.Truncate(60)
			if len(s.arena.states) > 0 {
				if err == nil {
					t.Error("recurrent state was cut back")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range evalAll(t, s, ids[60:]) {
				sameBits(t, fmt.Sprint("cut back, position ", 60+i), row, want[60+i])
			}
		})
	}
}

// TestWindowTooShort wants going back beyond what a sliding window keeps to be refused.
func TestWindowTooShort(t *testing.T) {
	m := loadMemory(t, tinyModel(t, "gemma3"), LoadOptions{Threads: 1})
	s := newSession(t, m, SessionOptions{Context: 256, Batch: 4})
	if _, err := s.Eval(tinyTokens(200)); err != nil {
		t.Fatal(err)
	}
	if err := s.Truncate(100); err == nil {
		t.Error("100 positions were taken back with a window of 7")
	}
	if err := s.Truncate(190); err != nil {
		t.Error(err)
	}
}

// TestMemory wants the sizes computed beforehand to be those of the session, and limits to be kept.
func TestMemory(t *testing.T) {
	for _, arch := range tinyArchitectures {
		src := tinyModel(t, arch)
		m := loadMemory(t, src, LoadOptions{Threads: 2})
		opt := SessionOptions{Context: 100, Hidden: true, Logits: 4}
		planned, err := m.Memory(opt)
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t, m, opt)
		if got := m.memory.plus(s.Memory()); got != planned {
			t.Errorf("%s: planned %+v, taken %+v", arch, planned, got)
		}
		total := planned.Total()
		src.read = 0
		if _, err := Load(src, LoadOptions{Threads: 2, MaxMemory: total - 1, Session: opt}); fault.KindOf(err) != fault.Resources {
			t.Errorf("%s: a limit below the need gives %v", arch, err)
		}
		if src.read != 0 {
			t.Errorf("%s: %d bytes were read before the refusal", arch, src.read)
		}
		m = loadMemory(t, src, LoadOptions{Threads: 2, MaxMemory: total, Session: opt})
		first := newSession(t, m, opt)
		if _, err := m.NewSession(opt); fault.KindOf(err) != fault.Resources {
			t.Errorf("%s: a second session beyond the limit gives %v", arch, err)
		}
		first.Close()
		newSession(t, m, opt)
	}
}

func TestSessionOptionsRefused(t *testing.T) {
	m := loadMemory(t, tinyModel(t, "llama"), LoadOptions{Threads: 1})
	for _, opt := range []SessionOptions{{Context: -1}, {Context: 1 << 30}, {Batch: -1}, {Batch: 1 << 20}, {Keep: -1},
		{Context: 10, Keep: 6, Shift: true}, {Logits: -1}, {KV: 9}, {KV: KVQ8_0}} {
		if _, err := m.NewSession(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
	s := newSession(t, m, SessionOptions{Context: 16})
	for _, ids := range [][]int32{{-1}, {tinyVocab}, {0, 1, math.MaxInt32}} {
		if _, err := s.Eval(ids); fault.KindOf(err) != fault.BadInput {
			t.Errorf("tokens %v give %v", ids, err)
		}
	}
	if logits, err := s.Eval(nil); logits != nil || err != nil || s.Position() != 0 {
		t.Errorf("no tokens give %v, %v", logits, err)
	}
	for _, threads := range []int{-1, 5000} {
		if _, err := Load(tinyModel(t, "llama"), LoadOptions{Threads: threads}); err == nil {
			t.Errorf("%d threads were accepted", threads)
		}
	}
}

// TestDrafter wants drafts to be the same in any batches, and after drafted positions were given up.
func TestDrafter(t *testing.T) {
	ids := tinyTokens(40)
	for _, arch := range []string{"qwen35", "bailingmoe3"} {
		m := loadMemory(t, tinyModel(t, arch), LoadOptions{Threads: 2})
		s := newSession(t, m, SessionOptions{Context: 64, Hidden: true})
		if _, err := s.Eval(ids); err != nil {
			t.Fatal(err)
		}
		hidden := make([]float32, m.Width())
		for pos := range len(ids) - 1 {
			hidden = append(hidden, s.Hidden(pos)...)
		}
		run := func(batch int, pieces ...int) [][]float32 {
			d, err := m.NewDrafter(SessionOptions{Context: 64, Batch: batch})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var all [][]float32
			for lo := 0; lo < len(ids); {
				hi := min(lo+pieces[0], len(ids))
				pieces = append(pieces[1:], pieces[0])
				err := d.Eval(ids[lo:hi], hidden[lo*m.Width():hi*m.Width()], func(_ int, logits, _ []float32) error {
					all = append(all, append([]float32(nil), logits...))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Eval(ids[:2], make([]float32, 2*m.Width()), nil); err != nil { // drafts
					t.Fatal(err)
				}
				if err := d.Truncate(hi); err != nil {
					t.Fatal(err)
				}
				lo = hi
			}
			return all
		}
		want := run(1, 1)
		for i, row := range run(16, 7, 22, 3) {
			sameBits(t, fmt.Sprint(arch, " position ", i), row, want[i])
		}
	}
	m := loadMemory(t, tinyModel(t, "llama"), LoadOptions{Threads: 1})
	if _, err := m.NewDrafter(SessionOptions{}); err == nil || m.HasMTP() {
		t.Error("a model without a NextN block drafts")
	}
}
