package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadmeTables wants every verb and every exit code in the README.
func TestReadmeTables(t *testing.T) {
	text := readme(t)
	parser, err := kong.New(new(cli))
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		if verb := "`gguf-forge " + leaf.Path(); !strings.Contains(text, verb+" ") && !strings.Contains(text, verb+"`") {
			t.Errorf("there is no %s in the README", leaf.Path())
		}
	}
	for kind := range kindNames {
		if !strings.Contains(text, "\n| "+strconv.Itoa(int(kind))+" |") {
			t.Errorf("exit code %d is not in the README", kind)
		}
	}
}

// standIn runs the remote command of `adb shell -T COMMAND` and `ssh -T HOST COMMAND` here.
const standIn = "#!/bin/sh\nshift 2\nexec sh -c \"$1\"\n"

// TestReadmeCommands runs the commands of the README, except those that build or test this project, with stand-ins for
// adb and ssh.
func TestReadmeCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the commands are those of a Linux shell")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	needProcesses(t)
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"adb", "ssh"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(standIn), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(selfPath(t), filepath.Join(bin, "gguf-forge")); err != nil {
		t.Fatal(err)
	}
	demo := "../../internal/demo/model"
	copyFile(t, demo+"/imatrix/demo.imatrix.gguf", filepath.Join(dir, "demo.imatrix.gguf"))
	copyFile(t, demo+"/gguf/demo-noMTP-BF16.gguf", filepath.Join(dir, "spark-BF16.gguf"))

	stored := 0
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		if strings.HasPrefix(m[1], "go ") {
			continue
		}
		script := strings.ReplaceAll(m[1], "/data/local/tmp", dir)
		if strings.Contains(script, "--offset") { // as if the connection had broken
			whole, err := os.ReadFile(filepath.Join(dir, "spark.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "spark.part"), whole[:123456], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(bash, "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HF_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s\n%v\n%s", script, err, out)
		}
		if strings.Contains(script, "stored") {
			stored++
			if !strings.Contains(string(out), "\nstored\n") {
				t.Errorf("%s\n%s", script, out)
			}
		}
	}
	if stored != 3 {
		t.Errorf("%d commands stored a file on a device, want 3", stored)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
