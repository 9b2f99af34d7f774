package pipeline

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/remote"
)

// benchFile writes a model of n BF16 weights, all the same: the encoders' time does not depend on the values.
func benchFile(b *testing.B, n int64) remote.Reference {
	b.Helper()
	l, err := gguf.NewLayout(benchMetadata(), []gguf.TensorInfo{{Name: "blk.0.ffn_up.weight", Type: gguf.BF16, Shape: []int64{4096, n / 4096}}}, gguf.GGML, 32)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for i := 0; i < len(block); i += 2 {
		block[i], block[i+1] = byte(i*i>>7), 0x3c|byte(i>>3)&0x80
	}
	if _, err := f.Write(l.Header); err != nil {
		b.Fatal(err)
	}
	for left := l.Size - l.DataStart; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block[:min(left, int64(len(block)))]); err != nil {
			b.Fatal(err)
		}
	}
	return remote.Reference{Kind: remote.File, Path: path}
}

func benchMetadata() *gguf.Metadata {
	m := new(gguf.Metadata)
	m.Put("general.architecture", gguf.StringValue("llama"))
	return m
}

// BenchmarkStream reads a local file and streams it to nowhere, hashed: as it is, and encoded.
func BenchmarkStream(b *testing.B) {
	ref := benchFile(b, 256<<20)
	model, err := testEnv(b).Client.OpenModel(b.Context(), ref)
	if err != nil {
		b.Fatal(err)
	}
	defer model.Close()
	for _, to := range []gguf.Type{gguf.BF16, gguf.Q8_0, gguf.Q4_K} {
		b.Run(to.String(), func(b *testing.B) {
			node, err := Stored(model.Tensors[0])
			if err != nil {
				b.Fatal(err)
			}
			if to != gguf.BF16 {
				weights := make([]float32, 4096)
				for i := range weights {
					weights[i] = 1 + float32(i%7)
				}
				if node, err = Encode(node, to, weights); err != nil {
					b.Fatal(err)
				}
			}
			a, err := NewArtifact(benchMetadata(), []Tensor{node}, gguf.GGML, 32)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(2 * 256 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Stream(b.Context(), io.Discard, StreamOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
