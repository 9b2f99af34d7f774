// Package kernels holds the hot loops of the forge and of the engine, each with a definition in Go.
//
// The definition is an ordinary Go function in an untagged file. It is compiled on every architecture
// and says what the kernel computes, to the last bit. Variants of it for instruction sets stand beside
// it and give the same bits; where a variant is only fast for ordinary values, it hands the rest to
// the definition. Kernels never allocate and never fail: a wrong length is a bug of the caller and
// panics before anything is read.
//
// The engine starts with [Mul], which multiplies rows of weights, as they are stored, with [Activations]. The encoders use
// [SearchQKX], [RoundAffine] and [Weigh].
//
// # Choosing a variant
//
// The instruction sets of an architecture form a ladder, from "generic", the definition, upwards. Each
// kernel uses its highest variant that the CPU can run. Three environment variables, read once, change that:
//
//	FORGE_KERNELS=avx2           go no higher than this rung; an error of [Check] if it isn't there
//	FORGE_DISABLE=avx512,i8mm    leave these rungs out; names of other machines are ignored
//	FORGE_REQUIRE_KERNELS=avx2   tests fail, rather than pass without it, where this rung is not there
//
// # Adding a kernel
//
// NAME.go has the public function, which checks lengths and calls the unexported one of the same name, and the
// definition, nameGeneric. NAME_ARCH.go declares the assembly functions and has the unexported
// function, which takes the highest enabled variant; other.go has the one of all other
// architectures. The assembly is compiled from csrc/NAME.c by regen.sh and listed in _gen/outputs.go.
// A C function marked ENTRY gets its argument in another register and has more registers for itself. A type of weights is
// added to a .h file of csrc (how its codes are stored) and to formats in dot.go; docs/kernels.md says how the products work.
// Tests, fuzz targets and benchmarks loop over all variants with package kerneltest.
package kernels
