// Package bytesize reads and prints byte counts the way people write them.
package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes. As a command-line value it is read by Parse.
type Size int64

var units = []struct {
	suffix string
	factor int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"b", 1},
}

// Parse reads "1048576", "128MiB", "1.5 GB" or "64M" (a power of two).
func Parse(s string) (Size, error) {
	number, factor := strings.ToLower(strings.TrimSpace(s)), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if n := v * float64(factor); err == nil && n >= 0 && n < 1<<62 {
		return Size(n), nil
	}
	return 0, fmt.Errorf("%q is no size such as 128MiB", s)
}

// UnmarshalText reads the size for encoders and command lines.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// String prints the size with three digits in decimal units: "1.27 GB".
func (s Size) String() string {
	v, unit := float64(s), ""
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	switch {
	case unit == "":
		return strconv.FormatInt(int64(s), 10) + " B"
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64) + " " + unit
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " " + unit
}
