package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"

	"gguf-forge/recipes"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Help() string {
	return "For bash, for example: source <(gguf-forge completion bash)"
}

// completionScripts let the shell ask this program, which answers in completeLine.
var completionScripts = map[string]string{
	"bash": "complete -C %[1]q gguf-forge\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -C %[1]q gguf-forge\n",
	"fish": `function __complete_gguf_forge
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    %[1]q
end
complete -f -c gguf-forge -a "(__complete_gguf_forge)"
`,
}

func (c *completionCmd) Run(a *app) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, completionScripts[c.Shell], self)
	return err
}

// completeLine answers and ends the program if a shell asks what could follow.
func completeLine(parser *kong.Kong) {
	kongplete.Complete(parser,
		kongplete.WithPredictor("file", complete.PredictFiles("*")),
		kongplete.WithPredictor("recipe", complete.PredictOr(complete.PredictSet(recipes.Names()...), complete.PredictFiles("*.yaml"))))
}
