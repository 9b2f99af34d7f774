package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"gguf-forge/kernels"
	"gguf-forge/pipeline"
)

// The reference that all bytes of this program equal.
const (
	referenceCommit = "0c1e570"
	referenceDate   = "October 2026"
)

type versionCmd struct {
	JSON bool `help:"Print as JSON."`
}

// versionReport is what version prints.
type versionReport struct {
	Version   string   `json:"version"`
	Encoder   string   `json:"encoder"`
	Reference string   `json:"reference"`
	Kernels   []string `json:"kernels"`
	Go        string   `json:"go"`
	Platform  string   `json:"platform"`
}

func (c *versionCmd) Run(a *app) error {
	r := versionReport{
		Version: moduleVersion(), Encoder: pipeline.EncoderVersion,
		Reference: fmt.Sprintf("llama.cpp of %s, commit %s", referenceDate, referenceCommit),
		Kernels:   kernels.Levels(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if c.JSON {
		return a.printJSON(r)
	}
	_, err := fmt.Fprintf(a.stdout, "gguf-forge %s (%s, %s)\nequals %s of %s\nkernels: %s\n",
		r.Version, r.Go, r.Platform, r.Encoder, r.Reference, strings.Join(r.Kernels, ", "))
	return err
}

// moduleVersion returns the version the program was installed as, "devel" for a build from a working tree.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
