package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestLayoutGolden lays out again every whole file that the reference's two writers wrote: those in the folder of golden
// files, FORGE_GOLDEN, and those of llama-quantize and llama-gguf-split in FORGE_WORK/ggml.
func TestLayoutGolden(t *testing.T) {
	golden, work := os.Getenv("FORGE_GOLDEN"), os.Getenv("FORGE_WORK")
	if golden == "" {
		if os.Getenv("FORGE_REQUIRE_GOLDEN") == "1" {
			t.Fatal("FORGE_GOLDEN is not set")
		}
		t.Skip("FORGE_GOLDEN is not set")
	}
	check := func(style Style, pattern string) int {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			checkRelayout(t, name, style)
		}
		return len(names)
	}
	for style, patterns := range map[Style][]string{
		GGUFPy: {golden + "/arch/*.gguf", golden + "/../demo-model/gguf/*.gguf"},
		GGML:   {golden + "/whole/*.gguf"},
	} {
		for _, pattern := range patterns {
			if check(style, pattern) == 0 {
				t.Errorf("no file %s", pattern)
			}
		}
	}
	if work != "" {
		t.Logf("%d files of llama-quantize and llama-gguf-split", check(GGML, work+"/ggml/*.gguf"))
	}
}

func checkRelayout(t *testing.T, name string, style Style) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	l, err := NewLayout(h.Metadata, h.Tensors, style, h.Alignment)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if !bytes.Equal(l.Header, file[:h.DataStart]) {
		t.Errorf("%s: header differs", name)
	}
	if l.Size != int64(len(file)) {
		t.Errorf("%s: laid out %d bytes, has %d", name, l.Size, len(file))
	}
}
