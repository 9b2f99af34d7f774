package main

import (
	"slices"
	"strings"
)

// The instruction sets, named like the rungs of the ladder in package kernels.
var (
	avx2       = []string{"-mavx2"}
	avx512     = []string{"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"}
	avx512vnni = slices.Concat(avx512, []string{"-mavx512vnni", "-mfma", "-mf16c"})
	haswell    = slices.Concat(avx2, []string{"-mfma", "-mf16c"})
	neon       = []string{"-march=armv8-a"}
	// In the order for a core that does not reorder instructions itself.
	neonDots = slices.Concat(neon, []string{"-mtune=cortex-a53"})
	dotprod  = []string{"-march=armv8.2-a+dotprod", "-mtune=cortex-a55"}
	i8mm     = []string{"-march=armv8.2-a+dotprod+i8mm"}
)

// outputs lists every .s file of package kernels.
var outputs = slices.Concat([]output{
	{"qkx_avx2_amd64.s", "qkx.c", amd64, avx2, []function{
		{"qkxAVX2", "qkxArgs", []string{"LANES=16", "ABS=0"}},
		{"qkxAbsAVX2", "qkxArgs", []string{"LANES=16", "ABS=1"}},
	}, false},
	{"qkx_avx512_amd64.s", "qkx.c", amd64, avx512, []function{
		{"qkxAVX512", "qkxArgs", []string{"LANES=16", "ABS=0"}},
		{"qkxAbsAVX512", "qkxArgs", []string{"LANES=16", "ABS=1"}},
	}, false},
	{"qkx_neon_arm64.s", "qkx.c", arm64, neon, []function{
		{"qkxNEON", "qkxArgs", []string{"LANES=8", "ABS=0"}},
		{"qkxAbsNEON", "qkxArgs", []string{"LANES=8", "ABS=1"}},
	}, false},
	{"weigh_avx2_amd64.s", "weigh.c", amd64, avx2, []function{
		{"weighAVX2", "weighArgs", []string{"LANES=16"}},
	}, false},
	{"weigh_avx512_amd64.s", "weigh.c", amd64, avx512, []function{
		{"weighAVX512", "weighArgs", []string{"LANES=16"}},
	}, false},
	{"weigh_neon_arm64.s", "weigh.c", arm64, neon, []function{
		{"weighNEON", "weighArgs", []string{"LANES=16"}},
	}, false},
	{"round_avx2_amd64.s", "round.c", amd64, avx2, []function{
		{"roundAVX2", "roundArgs", []string{"LANES=16"}},
	}, false},
	{"round_avx512_amd64.s", "round.c", amd64, avx512, []function{
		{"roundAVX512", "roundArgs", []string{"LANES=16"}},
	}, false},
	{"round_neon_arm64.s", "round.c", arm64, neon, []function{
		{"roundNEON", "roundArgs", []string{"LANES=16"}},
	}, false},
},
	dots("blocks", blockTypes...),
	dots("super", superTypes...),
	floatDots("f32", "f16", "bf16"),
	unpacks("blocks", blockTypes...),
	unpacks("super", superTypes...),
	panels,
	lanewise("expsum", "expSumArgs", "expSum LANES=16"),
	lanewise("quantize", "quantizeArgs", "quantizeQ8_0 LANES=16 KIND=0", "quantizeQ8_1 LANES=16 KIND=1", "quantizeQ8_K LANES=16 KIND=2"),
	lanewise("max", "maxArgs", "max LANES=16"),
	lanewise("silu", "siluArgs", "silu LANES=16"),
	lanewise("addrows", "addRowsArgs", "addRows LANES=16 HALF=0", "addHalfRows LANES=16 HALF=1"),
)

// The types of weights with blocks of 32, and with blocks of 256.
var (
	blockTypes = []string{"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q1_0", "q2_0"}
	superTypes = []string{"q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs", "tq1_0", "tq2_0"}
)

// set is an instruction set that dot products are made for.
type set struct {
	name  string
	arch  *arch
	flags []string
}

var dotSets = []set{
	{"avx2", amd64, haswell},
	{"avx512vnni", amd64, avx512vnni},
	{"neon", arm64, neonDots},
	{"dotprod", arm64, dotprod},
	{"i8mm", arm64, i8mm},
}

// dots lists the dot products of some types of weights: dot_FAMILY.c for each instruction set.
func dots(family string, types ...string) []output {
	var list []output
	for _, s := range dotSets {
		if s.name != "i8mm" { // nothing to gain there
			list = append(list, forTypes("dot", "dotArgs", family, s, types))
		}
	}
	return list
}

// floatDots lists the dot products of floats, by one vector and by two.
func floatDots(types ...string) []output {
	var list []output
	for _, s := range dotSets[:3] {
		o := s.output("dot_floats", "dot_floats.c")
		for _, t := range types {
			name := strings.ToUpper(t) + strings.ToUpper(s.name)
			o.funcs = append(o.funcs, function{"dot" + name, "dotArgs", []string{"TYPE=" + t, "VECTORS=1"}},
				function{"dotPair" + name, "dotArgs", []string{"TYPE=" + t, "VECTORS=2"}})
		}
		list = append(list, o)
	}
	return list
}

// unpacks lists what makes panels of some types of weights. Without dot products of bytes, these do not pay.
func unpacks(family string, types ...string) []output {
	var list []output
	for _, s := range dotSets {
		if s.name != "neon" {
			list = append(list, forTypes("unpack", "unpackArgs", family, s, types))
		}
	}
	return list
}

func forTypes(verb, args, family string, s set, types []string) output {
	o := s.output(verb+"_"+family, verb+"_"+family+".c")
	for _, t := range types {
		name := strings.NewReplacer("_K", "K", "IQ4_", "IQ4").Replace(strings.ToUpper(t))
		o.funcs = append(o.funcs, function{verb + name + strings.ToUpper(s.name), args, []string{"TYPE=" + t}})
	}
	return o
}

func (s set) output(name, source string) output {
	return output{file: name + "_" + s.name + "_" + s.arch.goarch + ".s", source: source, arch: s.arch, flags: s.flags, free: true}
}

// panels are the products of panels.
var panels = []output{
	dotSets[0].panels("blocks OFFSET", "signed SIGNED", "min MIN", "super16Min SUPER SIZE=16 MIN", "super16 SUPER SIZE=16 OFFSET",
		"super32Min SUPER SIZE=32 MIN", "super32 SUPER SIZE=32 SIGNED", "super0 SUPER SIZE=0 OFFSET"),
	dotSets[1].panels("blocks OFFSET", "min MIN", "super16Min SUPER SIZE=16 MIN", "super16 SUPER SIZE=16 OFFSET",
		"super32Min SUPER SIZE=32 MIN", "super32 SUPER SIZE=32 OFFSET", "super0 SUPER SIZE=0 OFFSET"),
	dotSets[3].panels(armPanels...),
	dotSets[4].panels(armPanels...),
}

var armPanels = []string{"blocks", "min MIN", "super16Min SUPER SIZE=16 MIN", "super16 SUPER SIZE=16",
	"super32Min SUPER SIZE=32 MIN", "super32 SUPER SIZE=32", "super0 SUPER SIZE=0"}

// panels are given as a name and what is defined.
func (s set) panels(kinds ...string) output {
	o := s.output("panel", "panel.c")
	for _, k := range kinds {
		words := strings.Fields(k)
		name := "panel" + strings.ToUpper(words[0][:1]) + words[0][1:] + strings.ToUpper(s.name)
		o.funcs = append(o.funcs, function{name, "panelArgs", words[1:]})
	}
	return o
}

// lanewise lists functions of floats, each given as a name and what is defined.
func lanewise(source, args string, funcs ...string) []output {
	var list []output
	for _, s := range []set{{"avx2", amd64, haswell}, {"avx512", amd64, slices.Concat(avx512, []string{"-mf16c"})}, {"neon", arm64, neon}} {
		o := s.output(source, source+".c")
		for _, f := range funcs {
			words := strings.Fields(f)
			o.funcs = append(o.funcs, function{words[0] + strings.ToUpper(s.name), args, words[1:]})
		}
		list = append(list, o)
	}
	return list
}
