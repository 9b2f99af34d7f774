//go:build !amd64 && !arm64

package kernels

var rungs = []rung{generic: {"generic", true}}
