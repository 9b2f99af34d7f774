package quant

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestNothingFused reads the code that the compiler makes of this package and the kernels' definitions for CPUs
// with fused multiply-add: not one may be in it. It looks at all inlining, where golden vectors only see what
// their values reach.
//
// It compiles for other machines, and so runs only where FORGE_WORK is set.
func TestNothingFused(t *testing.T) {
	if os.Getenv("FORGE_WORK") == "" {
		t.Skip("compiles for other machines: set FORGE_WORK")
	}
	for name, env := range map[string][]string{
		"arm64": {"GOOS=linux", "GOARCH=arm64"},
		"v3":    {"GOOS=linux", "GOARCH=amd64", "GOAMD64=v3"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("go", "build", "-gcflags=gguf-forge/quant=-S", "-gcflags=gguf-forge/kernels=-S", "gguf-forge/quant")
			cmd.Env = append(os.Environ(), env...)
			listing, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, listing)
			}
			if !regexp.MustCompile(`\s(FMULS|MULSS|VMULSS)\s`).Match(listing) {
				t.Fatal("there is no multiplication in the listing")
			}
			for _, line := range regexp.MustCompile(`\(([^()]*\.go:\d+)\)\s(FN?M(?:ADD|SUB)[SD]|VFN?M(?:ADD|SUB)\w*)\s`).FindAllSubmatch(listing, -1) {
				t.Errorf("%s: %s", line[1], line[2])
			}
		})
	}
}
