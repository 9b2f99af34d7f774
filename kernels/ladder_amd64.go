package kernels

import "golang.org/x/sys/cpu"

// The rungs above generic.
const (
	avx2   = 1
	avx512 = 2
)

var rungs = []rung{
	generic: {"generic", true},
	avx2:    {"avx2", cpu.X86.HasAVX2},
	avx512:  {"avx512", cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL},
}
