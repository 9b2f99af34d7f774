package main

// The instruction sets, named like the rungs of the ladder in package kernels.
var (
	avx2   = []string{"-mavx2"}
	avx512 = []string{"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"}
	neon   = []string{"-march=armv8-a"}
)

// outputs lists every .s file of package kernels.
var outputs = []output{
	{"qkx_avx2_amd64.s", "qkx.c", amd64, avx2, []function{
		{"qkxAVX2", "qkxArgs", []string{"LANES=16", "ABS=0"}},
		{"qkxAbsAVX2", "qkxArgs", []string{"LANES=16", "ABS=1"}},
	}},
	{"qkx_avx512_amd64.s", "qkx.c", amd64, avx512, []function{
		{"qkxAVX512", "qkxArgs", []string{"LANES=16", "ABS=0"}},
		{"qkxAbsAVX512", "qkxArgs", []string{"LANES=16", "ABS=1"}},
	}},
	{"qkx_neon_arm64.s", "qkx.c", arm64, neon, []function{
		{"qkxNEON", "qkxArgs", []string{"LANES=8", "ABS=0"}},
		{"qkxAbsNEON", "qkxArgs", []string{"LANES=8", "ABS=1"}},
	}},
	{"weigh_avx2_amd64.s", "weigh.c", amd64, avx2, []function{
		{"weighAVX2", "weighArgs", []string{"LANES=16"}},
	}},
	{"weigh_avx512_amd64.s", "weigh.c", amd64, avx512, []function{
		{"weighAVX512", "weighArgs", []string{"LANES=16"}},
	}},
	{"weigh_neon_arm64.s", "weigh.c", arm64, neon, []function{
		{"weighNEON", "weighArgs", []string{"LANES=16"}},
	}},
	{"round_avx2_amd64.s", "round.c", amd64, avx2, []function{
		{"roundAVX2", "roundArgs", []string{"LANES=16"}},
	}},
	{"round_avx512_amd64.s", "round.c", amd64, avx512, []function{
		{"roundAVX512", "roundArgs", []string{"LANES=16"}},
	}},
	{"round_neon_arm64.s", "round.c", arm64, neon, []function{
		{"roundNEON", "roundArgs", []string{"LANES=16"}},
	}},
}
