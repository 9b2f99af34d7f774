// Package hubtest starts a test hub for the length of a test.
package hubtest

import (
	"testing"

	"gguf-forge/internal/testhub"
)

// Start returns a hub that is closed when the test ends. The test fails if a token reached any server but the hub.
func Start(t testing.TB) *testhub.Hub {
	t.Helper()
	h, err := testhub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, leak := range h.Leaks() {
			t.Errorf("a token reached another server: %s", leak)
		}
		h.Close()
	})
	return h
}
