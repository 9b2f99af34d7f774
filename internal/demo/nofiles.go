//go:build nodemo

package demo

import (
	"embed"
	"io/fs"
)

// Included reports whether the model is in this program.
const Included = false

// files returns nothing.
func files() (fs.FS, error) { return embed.FS{}, nil }
