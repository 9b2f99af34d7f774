// Package chart draws coverage against the number of rows of a head.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

// Text is a held-out text to draw.
type Text struct {
	Name  string
	Curve []Point // by rising number of rows; empty draws no line
	Heads []Point // heads to mark
}

// Point is the coverage of a text by a head.
type Point struct {
	Rows     int
	Coverage float64
}

// curvePoints is how many points a curve has at most.
const curvePoints = 400

// Curve returns the coverage of a text, given as counts by id, by every head that is a beginning of order, from the first
// least ids on.
func Curve(counts []uint64, order []uint32, least int) []Point {
	step := max((len(order)-least)/curvePoints, 1)
	var rows []int
	for n := least; n < len(order); n += step {
		rows = append(rows, n)
	}
	rows = append(rows, len(order))
	var list []Point
	for i, c := range tokenizer.CoverAt(counts, order, rows) {
		list = append(list, Point{rows[i], c.Share()})
	}
	return list
}

// The size of a picture.
const (
	width  = 18 * vg.Centimeter
	height = 12 * vg.Centimeter
	margin = vg.Millimeter * 4
	dpi    = 150
)

// colors are told apart by people with any kind of colour vision (Okabe and Ito's palette).
var colors = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0x00, 0x00, 0x00, 0xff},
}

// Write draws the texts as format, svg or png.
func Write(w io.Writer, format string, title string, texts []Text) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "rows of the head"
	p.Y.Label.Text = "tokens of held-out text kept, %"
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(8), vg.Points(8)
	p.Y.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(lo, hi)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 4, 64)
			}
		}
		return ticks
	})
	p.Add(plotter.NewGrid())
	lowest := 100.0
	for i, t := range texts {
		c := colors[i%len(colors)]
		dashes := []vg.Length{}
		if i >= len(colors) {
			dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		var shown []plot.Thumbnailer
		if len(t.Curve) > 0 {
			line, err := plotter.NewLine(percent(t.Curve))
			if err != nil {
				return fmt.Errorf("drawing %s: %w", t.Name, err)
			}
			line.Color, line.Width, line.Dashes = c, vg.Points(1.5), dashes
			p.Add(line)
			shown = append(shown, line)
		}
		if len(t.Heads) > 0 {
			marks, err := plotter.NewScatter(percent(t.Heads))
			if err != nil {
				return fmt.Errorf("drawing %s: %w", t.Name, err)
			}
			marks.Color, marks.Radius, marks.Shape = c, vg.Points(3), draw.CircleGlyph{}
			p.Add(marks)
			shown = append(shown, marks)
		}
		if len(shown) > 0 {
			p.Legend.Add(t.Name, shown...)
		}
		for _, list := range [][]Point{t.Curve, t.Heads} {
			for _, v := range list {
				lowest = math.Min(lowest, 100*v.Coverage)
			}
		}
	}
	p.Y.Max = 100
	p.Y.Min = math.Max(0, math.Floor(lowest/5)*5-1)
	return write(w, format, p)
}

func percent(list []Point) plotter.XYs {
	xys := make(plotter.XYs, len(list))
	for i, v := range list {
		xys[i] = plotter.XY{X: float64(v.Rows), Y: 100 * v.Coverage}
	}
	return xys
}

func write(w io.Writer, format string, p *plot.Plot) error {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	default:
		return fault.New(fault.Usage, "a picture can be svg or png, not %q", format)
	}
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	_, err := canvas.WriteTo(w)
	return err
}
