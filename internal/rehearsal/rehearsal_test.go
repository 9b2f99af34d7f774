package rehearsal

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/quant"
)

func TestModel(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	// The published BF16 file has 3,775,709,216 bytes; only its vocabulary has other texts.
	if m.Size() < 3_770_000_000 || m.Size() > 3_780_000_000 {
		t.Errorf("%d bytes", m.Size())
	}
	h, err := gguf.ReadHeader(m, m.Size())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		tensor := h.Tensors[rng.IntN(len(h.Tensors))]
		size, _ := tensor.Size()
		from := rng.Int64N(size) / 4 * 4
		p := make([]byte, min(size-from, 4096))
		if _, err := m.ReadAt(p, h.DataStart+tensor.Offset+from); err != nil {
			t.Fatal(err)
		}
		if err := quant.Validate(tensor.Type, p); err != nil {
			t.Errorf("%s: %v", tensor.Name, err)
		}
		// The bytes do not depend on how they are read.
		off := h.DataStart + tensor.Offset + from
		skip := rng.IntN(len(p))
		q := make([]byte, len(p)-skip)
		if _, err := m.ReadAt(q, off+int64(skip)); err != nil || !bytes.Equal(q, p[skip:]) {
			t.Fatalf("%s at %d: other bytes when read from %d (%v)", tensor.Name, from, skip, err)
		}
	}
}

func TestImatrix(t *testing.T) {
	data, err := Imatrix()
	if err != nil {
		t.Fatal(err)
	}
	im, err := quant.ReadImatrix(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range tensors() {
		if tensor.Type != gguf.BF16 || tensor.Name == "token_embd.weight" {
			continue
		}
		entry, ok := im.Lookup(tensor.Name)
		if !ok || int64(len(entry.Weights())) != tensor.Cols() {
			t.Errorf("%s: no entry, or one of another width", tensor.Name)
		}
	}
}
