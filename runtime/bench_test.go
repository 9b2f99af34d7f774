package runtime

import (
	"os"
	"path/filepath"
	"testing"
)

// benchModel loads the model that FORGE_BENCH_MODEL names, or a golden one.
func benchModel(b *testing.B, threads int) *Model {
	b.Helper()
	path := os.Getenv("FORGE_BENCH_MODEL")
	if path == "" {
		path = filepath.Join("testdata", "llama-yarn.gguf")
	}
	return openModel(b, path, LoadOptions{Threads: threads})
}

var benchThreads = []struct {
	name string
	n    int
}{{"1 thread", 1}, {"2 threads", 2}}

// BenchmarkGenerate evaluates one token at a time.
func BenchmarkGenerate(b *testing.B) {
	for _, c := range benchThreads {
		b.Run(c.name, func(b *testing.B) {
			m := benchModel(b, c.n)
			s := newSession(b, m, SessionOptions{Context: 160})
			b.SetBytes(m.memory.Mapped + m.memory.Weights)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if s.Position() == 128 {
					s.Reset()
				}
				if _, err := s.Eval([]int32{int32(i % 100)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// BenchmarkPrompt evaluates 64 tokens at a time.
func BenchmarkPrompt(b *testing.B) {
	ids := make([]int32, 64)
	for i := range ids {
		ids[i] = int32(i)
	}
	for _, c := range benchThreads {
		b.Run(c.name, func(b *testing.B) {
			m := benchModel(b, c.n)
			s := newSession(b, m, SessionOptions{Context: 64})
			b.ReportAllocs()
			for b.Loop() {
				s.Reset()
				if _, err := s.Eval(ids); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tok/s")
		})
	}
}
