package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gguf-forge/internal/testhub"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gguf-forge": main})
}

// TestScripts runs the scripts of testdata/script: every verb and every exit code, without a network. They share a
// hub on the loopback interface, at HF_ENDPOINT.
func TestScripts(t *testing.T) {
	needProcesses(t)
	hub, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hub.Close() })
	model, err := os.ReadFile("../../internal/demo/model/gguf/demo-noMTP-BF16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	spark := bytes.NewReader(model)
	hub.Repo("forge-test/spark").Add("spark-BF16.gguf", spark).Add("README.md", bytes.NewReader([]byte("# Spark\n")))
	hub.Repo("forge-test/cut").Add("cut-BF16.gguf", spark)
	hub.Fault(testhub.Fault{Kind: testhub.Status, Status: 404, Path: "cut-BF16.gguf", Skip: 2})

	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			demo, err := filepath.Abs("../../internal/demo/model")
			if err != nil {
				return err
			}
			models, err := filepath.Abs("../../runtime/testdata")
			if err != nil {
				return err
			}
			env.Setenv("DEMO", demo)
			env.Setenv("MODELS", models)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("HF_HOME", filepath.Join(env.WorkDir, "hf"))
			env.Setenv("HF_ENDPOINT", hub.Endpoint())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":      exitCommand,
			"replace":   replaceCommand,
			"sha256":    sha256Command,
			"concat":    concatCommand,
			"stall":     stallCommand,
			"closepipe": closePipeCommand,
		},
	})
}

// needProcesses skips a test where the system can't run the test program again, as under an emulator of another CPU.
func needProcesses(t *testing.T) {
	t.Helper()
	cmd := exec.Command(selfPath(t), "version")
	cmd.Args[0] = "gguf-forge"
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Skipf("programs for this CPU can't be started here: %v", err)
		}
		t.Fatal(err)
	}
}

func selfPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// exitCommand runs a program and wants an exit code: exit CODE PROGRAM ARGS...
func exitCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ee.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// replaceCommand replaces a text that must be there in a file: replace FILE OLD NEW
func replaceCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(b, []byte(args[1])) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, bytes.Replace(b, []byte(args[1]), []byte(args[2]), 1), 0o644))
}

// sha256Command wants a file to have a hash: sha256 FILE HEX
func sha256Command(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sha256 FILE HEX")
	}
	b := []byte(ts.ReadFile(args[0]))
	if got := hexSHA256(b); got != args[1] {
		ts.Fatalf("%s: %d bytes with SHA-256 %s, want %s", args[0], len(b), got, args[1])
	}
}

// concatCommand joins files: concat OUT PART...
func concatCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: concat OUT PART...")
	}
	var all []byte
	for _, part := range args[1:] {
		all = append(all, ts.ReadFile(part)...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), all, 0o644))
}

// piped starts a program whose stdout is a pipe.
func piped(ts *testscript.TestScript, args []string) (*exec.Cmd, io.ReadCloser, *bytes.Buffer) {
	path, err := findProgram(ts, args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "HF_HOME="+ts.Getenv("HF_HOME"), "HF_ENDPOINT="+ts.Getenv("HF_ENDPOINT"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	ts.Check(cmd.Start())
	return cmd, out, stderr
}

func findProgram(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

// ended waits for a piped program, checks its exit code and leaves its stderr in the file stderr.txt.
func ended(ts *testscript.TestScript, cmd *exec.Cmd, stderr *bytes.Buffer, want string) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		ts.Fatalf("it did not end")
	}
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), stderr.Bytes(), 0o644))
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != want {
		ts.Fatalf("exit code %s, want %s\n%s", got, want, stderr)
	}
}

// closePipeCommand reads some bytes of a program's stdout into the file received, then closes the pipe:
// closepipe CODE BYTES PROGRAM ARGS...
func closePipeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: closepipe CODE BYTES PROGRAM ARGS...")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	cmd, out, stderr := piped(ts, args[2:])
	b := make([]byte, n)
	_, err = io.ReadFull(out, b)
	ts.Check(err)
	ts.Check(out.Close())
	ts.Check(os.WriteFile(ts.MkAbs("received"), b, 0o644))
	ended(ts, cmd, stderr, args[0])
}

// stallCommand reads one byte of a program's stdout, lets the pipe fill, interrupts the program, and leaves all bytes in
// the file received: stall CODE PROGRAM ARGS...
func stallCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: stall CODE PROGRAM ARGS...")
	}
	cmd, out, stderr := piped(ts, args[1:])
	first := make([]byte, 1)
	_, err := io.ReadFull(out, first)
	ts.Check(err)
	ts.Check(cmd.Process.Signal(os.Interrupt))
	time.Sleep(time.Second) // the pipe stays full: it must end without anybody reading
	rest, err := io.ReadAll(out)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("received"), append(first, rest...), 0o644))
	ended(ts, cmd, stderr, args[0])
	if strings.Count(stderr.String(), "interrupted") != 1 {
		ts.Fatalf("stderr: %s", stderr)
	}
}
