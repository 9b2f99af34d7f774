package kernels

// The rungs above generic.
const neon = 1

var rungs = []rung{
	generic: {"generic", true},
	neon:    {"neon", true}, // part of the architecture
}
