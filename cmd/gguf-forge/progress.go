package main

import (
	"fmt"
	"io"
	"time"

	"github.com/cheggaaa/pb/v3"

	"gguf-forge/pipeline"
)

// progress shows how far a verb is, on stderr: bytes, rate, time left, current tensor. A nil progress shows nothing.
type progress struct{ bar *pb.ProgressBar }

const barTemplate pb.ProgressBarTemplate = `{{counters . }} {{bar . }} {{speed . "%s/s" "?/s"}} {{rtime . "%s left" "in %s" "? left"}} {{string . "tensor"}}`

// The pace of progress lines, on a terminal and where each is a line of its own.
const (
	redraw   = 200 * time.Millisecond
	logLines = 5 * time.Second
)

// startProgress shows a bar of total bytes if stderr is a terminal or the user asked for it.
func (a *app) startProgress(total int64) *progress {
	terminal := isTerminal(a.stderr)
	if a.quiet || !terminal && !a.progress {
		return nil
	}
	bar := barTemplate.New(0).SetTotal(total).Set(pb.Bytes, true).Set(pb.CleanOnFinish, true).Set(pb.Color, false)
	if terminal {
		bar.SetWriter(a.stderr).SetRefreshRate(redraw)
	} else {
		bar.SetWriter(lines{a.stderr}).SetRefreshRate(logLines).SetWidth(120)
	}
	p := &progress{bar.Start()}
	a.bar.Store(p)
	return p
}

// stream follows a running stream.
func (p *progress) stream(s pipeline.Progress) { p.at(s.Written, s.Tensor) }

// at moves the bar to n bytes.
func (p *progress) at(n int64, what string) {
	if p != nil {
		p.bar.Set("tensor", what).SetCurrent(n)
	}
}

// add moves the bar on by n bytes.
func (p *progress) add(n int64) {
	if p != nil {
		p.bar.Add64(n)
	}
}

// endProgress takes the bar off the screen.
func (a *app) endProgress() {
	if p := a.bar.Swap(nil); p != nil {
		p.bar.Finish()
	}
}

// lines makes every rendering of the bar a line.
type lines struct{ w io.Writer }

func (l lines) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(l.w, "%s\n", p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// note tells the user something that is neither result nor error.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.say(format, args...)
	}
}

// say prints a line on stderr, quiet or not.
func (a *app) say(format string, args ...any) {
	if a.bar.Load() != nil && isTerminal(a.stderr) {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	fmt.Fprintf(a.stderr, format+"\n", args...)
}
