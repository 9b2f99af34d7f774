//go:build !nodemo

package demo

import (
	"embed"
	"io/fs"
)

// Included reports whether the model is in this program. Programs for devices leave it out with the build tag nodemo.
const Included = true

//go:embed model
var embedded embed.FS

// files returns the files of the repository by their paths in it.
func files() (fs.FS, error) { return fs.Sub(embedded, "model") }
