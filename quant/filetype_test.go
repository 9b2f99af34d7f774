package quant

import (
	"strings"
	"testing"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

func TestParseFileType(t *testing.T) {
	for in, want := range map[string]FileType{
		"Q4_K_M": MostlyQ4KM, "q4_k_m": MostlyQ4KM, "Q4_K": MostlyQ4KM, "15": MostlyQ4KM, "015": MostlyQ4KM, "q3_k": MostlyQ3KM, "Q5_K": MostlyQ5KM,
		"F32": AllF32, "f16": MostlyF16, "0": AllF32, "bf16": MostlyBF16, "iq3_xs": MostlyIQ3XS, "MXFP4_MOE": MXFP4MoE, "copy": Copy, "41": MostlyQ2_0,
	} {
		if got, err := ParseFileType(in); got != want || err != nil {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for in, hint := range map[string]string{ // part of the hint
		"Q4_K_XL": "Q4_K_M Q4_K_S", "Q4KM": "Q4_K_M", "iq2xs": "IQ2_XS", "Q4": "Q4_0", "q4_0 ": "Q4_0", "ALL_F32": "F32", "NVFP4": "", "": "F16",
		"4": "Q4_K_M", "39": "Q4_K_M", "1024": "Q4_K_M", "4294967295": "Q4_K_M", "99999999999": "", "-1": "",
	} {
		_, err := ParseFileType(in)
		if fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", in, err)
		}
		for _, name := range strings.Fields(hint) {
			if got := fault.HintOf(err); !strings.Contains(got, name) {
				t.Errorf("%q: hint %q lacks %s", in, got, name)
			}
		}
	}
}

func TestFileTypeNames(t *testing.T) {
	for _, f := range FileTypes() {
		if got, err := ParseFileType(f.String()); got != f || err != nil {
			t.Errorf("%d %s: %v, %v", f, f, got, err)
		}
		base, ok := f.Default()
		if !ok || !CanEncode(base) {
			t.Errorf("%s: default %v", f, base)
		}
	}
	for f, want := range map[FileType]string{Copy: "COPY", MostlyNVFP4: "NVFP4", 1039: "Q4_K_M (guessed)", 4: "file type 4", 5000: "file type 5000"} {
		if got := f.String(); got != want {
			t.Errorf("%d: %s, want %s", uint32(f), got, want)
		}
	}
	if _, ok := Copy.Default(); ok {
		t.Error("COPY has a default type")
	}
	if base, _ := MostlyIQ2S.Default(); base != gguf.IQ2XS {
		t.Errorf("IQ2_S: default %v", base)
	}
}
