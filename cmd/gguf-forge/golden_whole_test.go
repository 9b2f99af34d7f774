package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goldenRow is a file that the reference quantizer wrote, or one that it refused to write.
type goldenRow struct {
	Input  string
	Args   []string
	Type   string
	Exit   int
	Bytes  int64
	SHA256 string
	Reason string
}

// TestGoldenSynth and TestGoldenWhole run every command of the golden sets and compare the files: four synthetic models through
// all types, and SmolLM2-135M-Instruct.
func TestGoldenSynth(t *testing.T) {
	goldenSet(t, "synth.json", "synth", func(goldenRow) bool { return true })
}

func TestGoldenWhole(t *testing.T) {
	full := os.Getenv("FORGE_FULL") != ""
	goldenSet(t, "whole.json", "smollm2", func(r goldenRow) bool {
		// The slow codebook types are the same code for every model: synth.json has them all.
		slow := strings.HasPrefix(r.Type, "IQ1") || strings.HasPrefix(r.Type, "IQ2") || strings.HasPrefix(r.Type, "IQ3")
		return full || !slow || r.Exit != 0 || r.Type == "IQ3_XXS"
	})
}

func goldenSet(t *testing.T, set, inputs string, take func(goldenRow) bool) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	needProcesses(t)
	dir := filepath.Join(os.Getenv("FORGE_WORK"), inputs)
	text, err := os.ReadFile(filepath.Join(os.Getenv("FORGE_GOLDEN"), "whole", set))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "ready"))
	}
	switch {
	case err != nil && os.Getenv("FORGE_REQUIRE_GOLDEN") != "":
		t.Fatal(err)
	case err != nil:
		t.Skip("FORGE_GOLDEN and FORGE_WORK do not hold the golden sets")
	}
	var golden struct {
		Inputs map[string]struct{ SHA256 string }
		Files  []goldenRow
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	// Paths recorded in the files are bare names, so the commands run where the inputs are.
	work := t.TempDir()
	for name, in := range golden.Inputs {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) { // made by one of the first rows
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if sum := hexSHA256(b); sum != in.SHA256 {
			t.Fatalf("%s has SHA-256 %s, the golden set was made with %s", name, sum, in.SHA256)
		}
		if err := os.Symlink(path, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range golden.Files {
		if take(row) {
			t.Run(strings.Join(append(append([]string{row.Input}, row.Args...), row.Type), " "), func(t *testing.T) { row.run(t, work, golden.Inputs) })
		}
	}
}

func (r goldenRow) run(t *testing.T, work string, inputs map[string]struct{ SHA256 string }) {
	out := filepath.Join(work, "out.gguf")
	cmd := exec.Command(selfPath(t), append(append([]string{"quantize", "-q"}, r.Args...), r.Input, "out.gguf", r.Type)...)
	cmd.Args[0] = "gguf-forge"
	cmd.Dir = work
	said, err := cmd.CombinedOutput()
	if r.Exit != 0 {
		if err == nil {
			t.Errorf("no error, the reference says: %s", r.Reason)
		}
		if code := cmd.ProcessState.ExitCode(); code != 3 {
			t.Errorf("exit code %d: %s", code, said)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("an output remains (%v)", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	defer os.Remove(out)
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	sum := hexSHA256(got)
	if sum != r.SHA256 || int64(len(got)) != r.Bytes {
		t.Errorf("%d bytes, SHA-256 %s; the reference wrote %d bytes, %s", len(got), sum, r.Bytes, r.SHA256)
		return
	}
	for name, in := range inputs {
		if in.SHA256 == sum {
			keep(t, out, filepath.Join(work, name))
		}
	}
}

// keep makes an output the input of later rows.
func keep(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
