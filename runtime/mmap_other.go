//go:build !linux && !darwin

package runtime

import (
	"errors"
	"os"
)

// mapFile maps nothing: on this system weights are read into memory.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }
