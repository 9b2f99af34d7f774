package kernels

import "golang.org/x/sys/cpu"

// The rungs above generic.
const (
	neon    = 1
	dotprod = 2
	i8mm    = 3 // with dotprod
)

var rungs = []rung{
	generic: {"generic", true},
	neon:    {"neon", true}, // part of the architecture
	dotprod: {"dotprod", cpu.ARM64.HasASIMDDP},
	i8mm:    {"i8mm", cpu.ARM64.HasI8MM && cpu.ARM64.HasASIMDDP},
}
