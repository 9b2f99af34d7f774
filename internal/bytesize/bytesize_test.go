package bytesize

import "testing"

func TestParse(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "17": 17, "17b": 17, "1KiB": 1024, "128MiB": 128 << 20, "1.5 GB": 1_500_000_000, "64m": 64 << 20, " 2 tib ": 2 << 40,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "1e30", "12 parsecs", "nan", "inf"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", in, got)
		}
	}
}

func TestString(t *testing.T) {
	for in, want := range map[Size]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 999_999: "1.00 MB", 1_274_437_632: "1.27 GB", 417_000_000: "417 MB", 12_345_678: "12.3 MB", 9_996_000: "10.0 MB",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d prints as %q, want %q", int64(in), got, want)
		}
	}
}
