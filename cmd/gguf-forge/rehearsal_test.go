//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gguf-forge/internal/rehearsal"
	"gguf-forge/internal/testhub"
)

var fullSize = flag.Bool("rehearsal", false, "run the full-size rehearsal (some minutes)")

const (
	rehearsalRecipe = "rehearsal-2b-q4k"
	rehearsalRSS    = 256 << 20 // of a run with --mem 128MiB
	brokenAfter     = 100_000   // bytes of a connection that breaks
)

// TestRehearsal streams the pure Q4_K of a model with Qwen3.5-2B's tensors from a hub into a pipe: within its memory, through
// broken connections, and killed at a random point and continued.
func TestRehearsal(t *testing.T) {
	if !*fullSize {
		t.Skip("it is run with -rehearsal")
	}
	hub := rehearsalHub(t)
	for skip := 3; skip < 63; skip += 5 { // small ranges end before they break
		hub.Fault(testhub.Fault{Kind: testhub.Cut, Path: "model-BF16.gguf", Skip: skip, Times: 1, After: brokenAfter})
	}
	whole := sha256.New()
	total, rss, said := rehearse(t, hub, whole, -1, rehearsalRecipe)
	sum := hex.EncodeToString(whole.Sum(nil))
	t.Logf("%d bytes, SHA-256 %s, peak RSS %d MiB", total, sum, rss>>20)
	if want := regexp.MustCompile(`(\d+) bytes, SHA-256 ([0-9a-f]{64})`).FindStringSubmatch(said); want == nil || want[1] != strconv.FormatInt(total, 10) || want[2] != sum {
		t.Errorf("the program says %q", said)
	}
	if rss > rehearsalRSS {
		t.Errorf("peak RSS %d, more than %d", rss, rehearsalRSS)
	}
	cuts := 0
	for _, r := range hub.Requests() {
		if r.Stage == testhub.Files && r.Bytes == brokenAfter {
			cuts++
		}
	}
	if cuts < 3 {
		t.Errorf("only %d connections broke", cuts)
	}

	hub.Heal()
	parts := sha256.New()
	stop := total/10 + rand.Int64N(total*8/10)
	first, _, _ := rehearse(t, hub, parts, stop, rehearsalRecipe)
	t.Logf("killed after %d bytes", first)
	if first < stop {
		t.Fatalf("%d bytes arrived before the kill at %d", first, stop)
	}
	rest, rss, _ := rehearse(t, hub, parts, -1, rehearsalRecipe, "--offset", strconv.FormatInt(first, 10))
	if got := hex.EncodeToString(parts.Sum(nil)); first+rest != total || got != sum {
		t.Errorf("%d and %d bytes, SHA-256 %s", first, rest, got)
	}
	if rss > rehearsalRSS {
		t.Errorf("peak RSS of the rest %d, more than %d", rss, rehearsalRSS)
	}
}

// TestRehearsalHead builds the same model with a head of 65,672 rows, as the 2B model's: its rows are gathered by range, the plan
// says beforehand what that fetches, and the memory is that of the build without it.
func TestRehearsalHead(t *testing.T) {
	if !*fullSize {
		t.Skip("it is run with -rehearsal")
	}
	hub := rehearsalHub(t)
	dir := t.TempDir()
	const rows, dense, vocab, row = 65672, 16384, 248320, 2 * 2048
	var ids strings.Builder
	for i := range rows {
		id := i
		if i >= dense { // the rest are spread over the vocabulary
			id = dense + (i-dense)*(vocab-dense)/(rows-dense)
		}
		fmt.Fprintln(&ids, id)
	}
	writeFile(t, filepath.Join(dir, "head.ids"), ids.String())
	recipe := filepath.Join(dir, "h65.yaml")
	writeFile(t, recipe, `
sources: {model: {hub: forge-test/qwen35-2b-rehearsal, file: model-BF16.gguf}}
quantize: {type: Q4_K, pure: true}
head: {select: {list: head.ids}}
`)
	out, err := forge(t, hub, "plan", recipe, "--json", "--mem", "128MiB").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var plan struct {
		Fetch int64 `json:"fetch_bytes"`
		Size  int64 `json:"output_bytes"`
		Head  struct{ Rows int }
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		t.Fatal(err)
	}
	_, planned := hub.Count(testhub.Files)
	hub.ForgetRequests()
	total, rss, _ := rehearse(t, hub, sha256.New(), -1, recipe)
	requests, served := hub.Count(testhub.Files)
	t.Logf("%d bytes, peak RSS %d MiB; %d bytes in %d requests, planned %d; the plan read %d bytes", total, rss>>20, served, requests, plan.Fetch, planned)
	if total != plan.Size || plan.Head.Rows != rows {
		t.Errorf("%d bytes and %d rows, the plan says %d", total, plan.Head.Rows, plan.Size)
	}
	// Headers are read in growing pieces, beyond their end.
	const pieces = 32 << 20
	if served > plan.Fetch+pieces || served < plan.Fetch {
		t.Errorf("%d bytes were fetched, the plan says %d", served, plan.Fetch)
	}
	if planned > pieces {
		t.Errorf("the plan read %d bytes", planned)
	}
	if whole := int64(3_775_000_000) + vocab*row; served >= whole {
		t.Errorf("%d bytes were fetched: as many as with all %d rows of the head", served, vocab)
	}
	if rss > rehearsalRSS {
		t.Errorf("peak RSS %d, more than %d", rss, rehearsalRSS)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func rehearsalHub(t *testing.T) *testhub.Hub {
	t.Helper()
	model, err := rehearsal.New()
	if err != nil {
		t.Fatal(err)
	}
	imatrix, err := rehearsal.Imatrix()
	if err != nil {
		t.Fatal(err)
	}
	hub, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hub.Close() })
	hub.Repo("forge-test/qwen35-2b-rehearsal").Add("model-BF16.gguf", model).Add("imatrix.gguf", bytes.NewReader(imatrix))
	return hub
}

// rehearse runs the recipe and hashes what arrives. With stop ≥ 0 the program is killed once so many bytes have arrived;
// what is in the pipe then still arrives. It returns the bytes, the peak resident memory, and what stderr said.
func rehearse(t *testing.T, hub *testhub.Hub, sum hash.Hash, stop int64, recipe string, args ...string) (n, rss int64, said string) {
	t.Helper()
	cmd := forge(t, hub, append([]string{"recipe", recipe, "--mem", "128MiB"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if stop >= 0 {
		if n, err = io.CopyN(sum, out, stop); err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	peak := &peakWriter{w: sum, pid: cmd.Process.Pid}
	rest, err := io.Copy(peak, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && (stop < 0 || !isExit(err)) {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if stop < 0 && peak.rss == 0 {
		t.Fatal("the memory of the program was not measured")
	}
	return n + rest, peak.rss, stderr.String()
}

// peakWriter reads the peak resident memory of a process while its output passes. The usage that wait reports is no
// measure: it begins with the memory of this program, which started it.
type peakWriter struct {
	w      io.Writer
	pid    int
	rss    int64
	passed int64
}

func (p *peakWriter) Write(b []byte) (int, error) {
	if p.passed += int64(len(b)); p.passed > 1<<20 {
		p.passed = 0
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid)); err == nil {
			if m := highWater.FindSubmatch(status); m != nil {
				kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
				p.rss = max(p.rss, kb<<10)
			}
		}
	}
	return p.w.Write(b)
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func isExit(err error) bool {
	_, ok := err.(*exec.ExitError)
	return ok
}
