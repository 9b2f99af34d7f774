package quant

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

func readImatrixFile(tb testing.TB, name string) *Imatrix {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "imatrix", name))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := ReadImatrix(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return m
}

// The files in testdata/imatrix are described in make.py there.
func TestMergeEqualsReference(t *testing.T) {
	merged, err := filepath.Glob("testdata/imatrix/*.merged.*")
	if err != nil || len(merged) == 0 {
		t.Fatal("no merged files", err)
	}
	for _, path := range merged {
		t.Run(filepath.Base(path), func(t *testing.T) {
			names, form, _ := strings.Cut(filepath.Base(path), ".merged.")
			letters := strings.TrimRight(names, "0123456789")
			size, _ := strconv.Atoi(names[len(letters):])
			var list []*Imatrix
			for _, letter := range letters {
				suffix := ".gguf"
				if strings.ContainsRune("lm", letter) {
					suffix = ".dat"
				}
				list = append(list, readImatrixFile(t, string(letter)+suffix))
			}
			m, err := Merge(int32(size), list...)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if form == "dat" {
				err = m.WriteDat(&got)
			} else {
				err = m.WriteGGUF(&got)
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Bytes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMergeErrors(t *testing.T) {
	a, d := readImatrixFile(t, "a.gguf"), readImatrixFile(t, "d.gguf")
	if _, err := Merge(0, a, d); err == nil || !strings.Contains(err.Error(), "3 counts in one file and 1") {
		t.Errorf("one count after three: %v", err)
	}
	short := &Imatrix{ChunkSize: 512, Entries: []Entry{{Name: "only_a", Sums: []float32{1}, Counts: []int64{1}}}}
	for _, list := range [][]*Imatrix{{a, short}, {short, a}} {
		if _, err := Merge(0, list...); err == nil || !strings.Contains(err.Error(), `"only_a"`) {
			t.Errorf("other length: %v", err)
		}
	}
	if _, err := Merge(-1, a); fault.KindOf(err) != fault.Usage {
		t.Errorf("negative chunk size: %v", err)
	}
}

func TestMergeLeavesInputs(t *testing.T) {
	a, l := readImatrixFile(t, "a.gguf"), readImatrixFile(t, "l.dat")
	for range 2 {
		if _, err := Merge(0, a, l, a); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range map[string]*Imatrix{"a.gguf": a, "l.dat": l} {
		if diff := cmp.Diff(readImatrixFile(t, name), m, cmp.AllowUnexported(Entry{})); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
}

func TestReadImatrix(t *testing.T) {
	a := readImatrixFile(t, "a.gguf")
	if a.Legacy || a.ChunkCount != 3 || a.ChunkSize != 512 || len(a.Entries) != 4 {
		t.Errorf("a.gguf: %+v", a)
	}
	if diff := cmp.Diff([]string{"a.txt", "c.txt"}, a.Datasets); diff != "" {
		t.Error(diff)
	}
	e, ok := a.Lookup("blk.0.e.weight")
	if !ok {
		t.Fatal("no entry")
	}
	if diff := cmp.Diff([]int{1}, e.Uncovered()); diff != "" {
		t.Error(diff)
	}
	third := float32(5) / 700
	if diff := cmp.Diff([]float32{0.2, 0.4, 1, 1, third, float32(6.1) / 700}, e.Weights()); diff != "" {
		t.Error(diff)
	}
	if _, ok := a.Lookup("blk.0.e.weigh"); ok {
		t.Error("found a prefix")
	}

	l := readImatrixFile(t, "l.dat")
	if !l.Legacy || l.ChunkCount != 9 || l.ChunkSize != 0 {
		t.Errorf("l.dat: %+v", l)
	}
	if diff := cmp.Diff([]string{"old.txt"}, l.Datasets); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string][]float32{"blk.0.q.weight": {0.5, 1, 1.5, 0.2}, "z": {1, 2}} {
		e, _ := l.Lookup(name)
		if diff := cmp.Diff(want, e.Weights()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(e.Uncovered()) > 0 {
			t.Errorf("%s: uncovered %v", name, e.Uncovered())
		}
	}
	if m := readImatrixFile(t, "m.dat"); len(m.Entries) != 2 || m.ChunkCount != 0 || m.Datasets != nil || m.Entries[0].Sums[3] != 0.1 {
		t.Errorf("m.dat: %+v", m)
	}
}

// The reference's results were told from the bytes it quantizes with such counts.
func TestRoundCount(t *testing.T) {
	inf := float32(math.Inf(1))
	for in, want := range map[float32]int64{0: 0, 0.4: 0, 0.5: 1, 1.4: 1, 1.5: 2, 2.5: 3, 4.5: 5, -1: 0, -0.6: 0, inf: 0, -inf: 0,
		3e9: 3000000000, 9.2e18: 9200000267938955264, 9.3e18: 0, 1e30: 0} {
		if got := roundCount(in); got != want {
			t.Errorf("%v: %d, want %d", in, got, want)
		}
	}
	if got := roundCount(float32(math.NaN())); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}

func TestFilter(t *testing.T) {
	a := readImatrixFile(t, "a.gguf")
	for _, test := range []struct {
		include, exclude []string
		want             string
	}{
		{nil, nil, "blk.0.e.weight blk.0.q.weight only_a zero"},
		{[]string{"blk", "zer"}, nil, "blk.0.e.weight blk.0.q.weight zero"},
		{nil, []string{".q.", "only"}, "blk.0.e.weight zero"},
		{[]string{"BLK"}, nil, ""},
		{[]string{""}, nil, "blk.0.e.weight blk.0.q.weight only_a zero"},
		{nil, []string{""}, ""},
	} {
		m, err := a.Filter(test.include, test.exclude)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range m.Entries {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%v %v: %s, want %s", test.include, test.exclude, got, test.want)
		}
	}
	if _, err := a.Filter([]string{"a"}, []string{"b"}); fault.KindOf(err) != fault.Usage {
		t.Errorf("both: %v", err)
	}
	var none *Imatrix
	if m, err := none.Filter([]string{"a"}, nil); m != nil || err != nil {
		t.Errorf("nil: %v %v", m, err)
	}
}

func TestCheckFinite(t *testing.T) {
	nan := float32(math.NaN())
	for _, test := range []struct {
		entry Entry
		ok    bool
	}{
		{Entry{Name: "x", Sums: []float32{1, 2}, Counts: []int64{2}}, true},
		{Entry{Name: "x", Sums: []float32{1, nan}, Counts: []int64{2}}, false},
		{Entry{Name: "x", Sums: []float32{1, nan}, Counts: []int64{2, 0}}, true}, // no data: the sum is not used
		{Entry{Name: "x", Sums: []float32{float32(math.Inf(-1))}, Counts: []int64{1}}, false},
		{Entry{Name: "x", Sums: []float32{nan}, Counts: []int64{0}, legacy: true}, false},
	} {
		m := &Imatrix{Entries: []Entry{test.entry}}
		if err := m.checkFinite(); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test.entry, err)
		}
	}
}

// hostileImatrix has files that must be refused, by what is wrong with them.
func hostileImatrix(tb testing.TB) map[string][]byte {
	tb.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "imatrix", name))
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}
	replace := func(b []byte, old, new string) []byte {
		if bytes.Count(b, []byte(old)) == 0 || len(old) != len(new) {
			tb.Fatalf("cannot replace %q", old)
		}
		return bytes.Replace(b, []byte(old), []byte(new), 1)
	}
	a, l := read("a.gguf"), read("l.dat")
	files := map[string][]byte{
		"ends within data":         a[:len(a)-100],
		"ends within header":       a[:200],
		"no datasets":              replace(a, "imatrix.datasets", "imatrix.dataset_"),
		"no chunk_count":           replace(a, "imatrix.chunk_count", "imatrix.chunk_coun_"),
		"no chunk_size":            replace(a, "imatrix.chunk_size", "imatrix.chunk_siz_"),
		"chunk_count is i32":       replace(a, "chunk_count\x04", "chunk_count\x05"),
		"lacks its sums or counts": replace(a, "only_a.in_sum2", "only_a.in_sum_"),
		"sums without counts":      replace(a, "only_a.counts", "only_a.count_"),
		"empty":                    {},
		"three bytes":              {1, 0, 0},
		"no entries":               {0, 0, 0, 0},
		"negative entries":         {255, 255, 255, 255, 0, 0, 0, 0},
		"too many entries":         append([]byte{255, 255, 255, 127}, make([]byte, 64)...),
		"name longer than file":    append([]byte{1, 0, 0, 0, 255, 255, 255, 127}, make([]byte, 64)...),
		"negative name":            append([]byte{1, 0, 0, 0, 255, 255, 255, 255}, make([]byte, 64)...),
		"too many values":          append([]byte{1, 0, 0, 0, 1, 0, 0, 0, 'x', 1, 0, 0, 0, 255, 255, 255, 127}, make([]byte, 64)...),
		"no values":                append([]byte{1, 0, 0, 0, 1, 0, 0, 0, 'x', 1, 0, 0, 0}, make([]byte, 64)...),
		"trailer cut in text":      l[:len(l)-3],
		"trailer cut in length":    l[:len(l)-9],
		"trailer cut in count":     l[:len(l)-13],
		"entry cut":                l[:len(l)-20],
	}
	return files
}

func TestReadImatrixHostile(t *testing.T) {
	for what, b := range hostileImatrix(t) {
		m, err := ReadImatrix(bytes.NewReader(b), int64(len(b)))
		if m != nil || fault.KindOf(err) != fault.BadInput {
			t.Errorf("%s: %v, %v (kind %d)", what, m, err, fault.KindOf(err))
		}
	}
}

// Entries with tensors of other types or lengths.
func TestReadImatrixShapes(t *testing.T) {
	for _, test := range []struct {
		what         string
		sums, counts []int64
		typ          gguf.Type
		ok           bool
	}{
		{"matrices", []int64{4, 2}, []int64{1, 2}, gguf.F32, true},
		{"flat", []int64{8}, []int64{4}, gguf.F32, true},
		{"three dimensions", []int64{4, 2, 2}, []int64{1, 2, 2}, gguf.F32, true},
		{"counts do not divide", []int64{4, 2}, []int64{1, 3}, gguf.F32, false},
		{"more counts than sums", []int64{2}, []int64{4}, gguf.F32, false},
		{"no counts", []int64{4}, []int64{0}, gguf.F32, false},
		{"no sums", []int64{0}, []int64{1}, gguf.F32, false},
		{"f16", []int64{4}, []int64{1}, gguf.F16, false},
	} {
		var meta gguf.Metadata
		meta.Put(datasetsKey, gguf.StringsValue(nil))
		meta.Put(chunkCountKey, gguf.Uint32Value(1))
		meta.Put(chunkSizeKey, gguf.Uint32Value(1))
		l, err := gguf.NewLayout(&meta, []gguf.TensorInfo{
			{Name: "x.counts", Shape: test.counts}, {Name: "x.in_sum2", Shape: test.sums, Type: test.typ}, {Name: "x.in_sum", Shape: []int64{3}},
		}, gguf.GGUFPy, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := append(l.Header, make([]byte, l.Size-l.DataStart)...)
		if _, err := ReadImatrix(bytes.NewReader(b), int64(len(b))); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

type failingReader struct{ io.ReaderAt }

var errReader = errors.New("the wire is cut")

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errReader }

func TestReadImatrixReadError(t *testing.T) {
	if _, err := ReadImatrix(failingReader{}, 1000); !errors.Is(err, errReader) {
		t.Errorf("%v", err)
	}
}

// FuzzReadImatrix: any bytes are read or refused, and what is read can be merged, written and read again.
func FuzzReadImatrix(f *testing.F) {
	for _, name := range []string{"a.gguf", "d.gguf", "l.dat", "m.dat", "ab.merged.dat", "ab.merged.gguf"} {
		b, err := os.ReadFile(filepath.Join("testdata", "imatrix", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, b := range hostileImatrix(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadImatrix(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if fault.KindOf(err) != fault.BadInput {
				t.Fatalf("kind of %v", err)
			}
			return
		}
		for i := range m.Entries {
			e := &m.Entries[i]
			if len(e.Weights()) != len(e.Sums) || len(e.Uncovered()) > len(e.Counts) {
				t.Fatalf("entry %q", e.Name)
			}
			if found, ok := m.Lookup(e.Name); !ok || found != e {
				t.Fatalf("entry %q is not found", e.Name)
			}
		}
		_ = m.checkFinite()
		sum, err := Merge(0, m)
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if err := sum.WriteGGUF(&w); err != nil {
			return // names of the older format may be too long
		}
		again, err := ReadImatrix(bytes.NewReader(w.Bytes()), int64(w.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Entries) != len(sum.Entries) || again.ChunkSize != sum.ChunkSize {
			t.Fatalf("%+v became %+v", sum, again)
		}
		_ = sum.WriteDat(io.Discard)
	})
}

// The golden pair is one matrix in both formats, written by the reference's collector.
func TestGoldenImatrix(t *testing.T) {
	dir := os.Getenv("FORGE_GOLDEN")
	if dir == "" {
		if os.Getenv("FORGE_REQUIRE_GOLDEN") == "1" {
			t.Fatal("FORGE_GOLDEN is not set")
		}
		t.Skip("FORGE_GOLDEN is not set")
	}
	read := func(name string) ([]byte, *Imatrix) {
		b, err := os.ReadFile(filepath.Join(dir, "whole", name))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ReadImatrix(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return b, m
	}
	current, m := read("smollm2.imatrix.gguf")
	older, legacy := read("smollm2.imatrix.dat")
	if len(m.Entries) != len(legacy.Entries) {
		t.Errorf("%d and %d entries", len(m.Entries), len(legacy.Entries))
	}
	sum, err := Merge(0, m)
	if err != nil {
		t.Fatal(err)
	}
	var again, dat bytes.Buffer
	if err := errors.Join(sum.WriteGGUF(&again), sum.WriteDat(&dat)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Bytes(), current) {
		t.Error("the current format comes out differently")
	}
	if !bytes.Equal(dat.Bytes(), older) {
		t.Error("the older format comes out differently")
	}
}
