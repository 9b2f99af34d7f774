// Command gguf-forge builds GGUF model files from recipes, from a model hub straight into a pipe.
//
// Every verb has a file of its own, which holds its flags and hands them to the packages that do the work.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"gguf-forge/internal/fault"
	"gguf-forge/kernels"
)

// cli is the command line.
type cli struct {
	Quiet    bool `short:"q" help:"Print no progress and no notes."`
	Progress bool `help:"Print progress even if stderr is no terminal."`

	Demo       demoCmd       `cmd:"" help:"Build a small model from a hub inside this program, without a network, and verify it."`
	Recipe     recipeCmd     `cmd:"" help:"Build a recipe's model and write it to stdout or a file."`
	Plan       planCmd       `cmd:"" help:"Say what a recipe would fetch, build and need, without reading a weight."`
	Lock       lockCmd       `cmd:"" help:"Build a recipe and write the lock that pins its bytes."`
	Recipes    recipesCmd    `cmd:"" help:"List the recipes in this program, or print one."`
	Info       infoCmd       `cmd:"" help:"Say what a GGUF file is and where its bytes are."`
	Quantize   quantizeCmd   `cmd:"" help:"Quantize a GGUF model as llama-quantize does, byte for byte."`
	Imatrix    imatrixCmd    `cmd:"" help:"Show or merge importance matrices."`
	Tokens     tokensCmd     `cmd:"" help:"Encode a text into token ids, or decode ids."`
	Recut      recutCmd      `cmd:"" help:"Cut the head of a finished model to the rows of an id list."`
	Count      countCmd      `cmd:"" help:"Count the tokens of texts."`
	Select     selectCmd     `cmd:"" help:"Choose the rows of a pruned head from token counts."`
	Coverage   coverageCmd   `cmd:"" help:"Say how much of held-out text pruned heads can say."`
	Corpus     corpusCmd     `cmd:"" help:"Fetch texts to choose ids from."`
	Run        runCmd        `cmd:"" help:"Continue a text or a list of token ids with a model."`
	Logits     logitsCmd     `cmd:"" help:"Print what a model computes for a list of token ids."`
	Hash       hashCmd       `cmd:"" help:"Print or check the hashes of a GGUF file and its tensors."`
	Version    versionCmd    `cmd:"" help:"Print the version, the reference it equals, and the kernels in use."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
}

// app is what every verb gets: where to write, and what the flags of the program say.
type app struct {
	stdout   *output
	stderr   io.Writer
	quiet    bool
	progress bool
	json     bool                     // errors are printed as JSON
	resume   func() string            // what to do after an interruption or a broken pipe; nil: nothing was left behind
	bar      atomic.Pointer[progress] // the one on the screen, if any
}

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns the exit code.
func run(args []string) (code int) {
	// A closed pipe is an error of the write, which is reported, and not a signal that ends the program.
	signal.Ignore(syscall.SIGPIPE)
	a := &app{stdout: &output{w: os.Stdout}, stderr: os.Stderr, json: slices.Contains(args, "--json")}
	defer a.recoverPanic(&code)

	var c cli
	parser, err := kong.New(&c, kong.Name("gguf-forge"), kong.Writers(a.stdout, os.Stderr),
		kong.Description("GGUF models, exact and reproducible, from a hub to a pipe."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		return a.report(err)
	}
	completeLine(parser)
	k, err := parser.Parse(args)
	if err != nil {
		return a.report(usageError(err))
	}
	if err := kernels.Check(); err != nil {
		return a.report(fault.New(fault.Usage, "%w", err))
	}
	a.quiet, a.progress = c.Quiet, c.Progress

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go a.giveUp(ctx, stop, done)

	k.BindTo(ctx, (*context.Context)(nil))
	err = k.Run(a)
	if err != nil && ctx.Err() != nil {
		err = a.interrupted()
	}
	return a.report(err)
}

// usageError points to the help of the verb that the command line names.
func usageError(err error) error {
	command := "gguf-forge"
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context.Selected() != nil {
		command += " " + pe.Context.Selected().Path()
	}
	return fault.WithHint(fault.New(fault.Usage, "%w", err), "%s --help tells how it is used", command)
}

// stuck is how long a write to stdout may stand still before an interruption no longer waits for it.
const stuck = 300 * time.Millisecond

// giveUp ends the program if an interrupted verb can't end by itself because it writes to a pipe that nobody reads. A
// second interruption ends it at once.
func (a *app) giveUp(ctx context.Context, stop func(), done <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-done:
		return
	}
	stop()
	for tick := time.Tick(stuck / 4); ; {
		select {
		case <-tick:
			if a.stdout.blocked() > stuck {
				os.Exit(a.report(a.interrupted()))
			}
		case <-done:
			return
		}
	}
}
