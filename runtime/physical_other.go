//go:build !linux && !darwin

package runtime

// physicalMemory returns 0: unknown.
func physicalMemory() int64 { return 0 }
