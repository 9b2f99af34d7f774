package kernels

import "golang.org/x/sys/cpu"

// The rungs above generic.
const (
	avx2       = 1 // with FMA and F16C, which came with the same CPUs
	avx512     = 2
	avx512vnni = 3
)

var rungs = []rung{
	generic:    {"generic", true},
	avx2:       {"avx2", cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C},
	avx512:     {"avx512", hasAVX512},
	avx512vnni: {"avx512vnni", hasAVX512 && cpu.X86.HasAVX512VNNI && cpu.X86.HasFMA && cpu.X86.HasF16C},
}

var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
