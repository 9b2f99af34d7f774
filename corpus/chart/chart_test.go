package chart

import (
	"bytes"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gguf-forge/internal/fault"
)

func TestCurve(t *testing.T) {
	got := Curve([]uint64{1, 3}, []uint32{1, 0}, 0)
	if diff := cmp.Diff([]Point{{0, 0}, {1, 0.75}, {2, 1}}, got); diff != "" {
		t.Error(diff)
	}
	counts, order := make([]uint64, 10000), make([]uint32, 10000)
	for i := range order {
		counts[i], order[i] = 1, uint32(i)
	}
	if got := Curve(counts, order, 100); len(got) > curvePoints+20 || got[0].Rows != 100 || got[len(got)-1] != (Point{10000, 1}) {
		t.Errorf("%d points, %v to %v", len(got), got[0], got[len(got)-1])
	}
	if got := Curve(counts, order, 10000); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestWrite(t *testing.T) {
	texts := []Text{{"en", Curve([]uint64{1, 3, 2}, []uint32{1, 0, 2}, 0), []Point{{2, 0.8}}}, {"ru", nil, []Point{{2, 0.7}}}, {"none", nil, nil}}
	for range 8 {
		texts = append(texts, texts[0])
	}
	var svg, again, picture bytes.Buffer
	for _, b := range []*bytes.Buffer{&svg, &again} {
		if err := Write(b, "svg", "Coverage", texts); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("the same picture has two forms")
	}
	for _, want := range []string{"<svg", "Coverage", "rows of the head", ">en<", ">ru<"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("there is no %q in the picture", want)
		}
	}
	if err := Write(&picture, "png", "Coverage", texts); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&picture); err != nil || img.Bounds().Dx() < 1000 {
		t.Error(img.Bounds(), err)
	}
	if err := Write(&picture, "gif", "", texts); fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
}
