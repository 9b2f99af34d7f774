package remote

import (
	"path"

	"gguf-forge/internal/fault"
)

const (
	indexSuffix   = ".safetensors.index.json"
	maxIndex      = 256 << 20 // bytes; indexes of 60 MB are real
	maxIndexFiles = 10_000
)

// shardIndex is a parsed model.safetensors.index.json.
type shardIndex struct {
	files []string          // in order of first mention, relative to the index
	home  map[string]string // tensor → file
}

// parseIndex reads an index. metadata.total_size is advisory and not looked at.
func parseIndex(text []byte) (*shardIndex, error) {
	w, err := newWalker(text)
	if err != nil {
		return nil, err
	}
	x := &shardIndex{home: map[string]string{}}
	known := map[string]bool{}
	found := false
	w.object("the index", func(key string) {
		if key != "weight_map" {
			w.skip()
			return
		}
		found = true
		w.object(key, func(tensor string) {
			file := w.text(tensor)
			switch {
			case w.err != nil:
			case tensor == "":
				w.fail("the index maps a tensor without a name")
			case !plainPath(file) || path.Ext(file) != ".safetensors":
				w.fail("the index names the file %q, which is no plain name of a safetensors file", file)
			case len(x.home) == maxSafetensors:
				w.fail("the index has more than %d tensors", maxSafetensors)
			case !known[file] && len(known) == maxIndexFiles:
				w.fail("the index has more than %d files", maxIndexFiles)
			}
			if !known[file] {
				known[file] = true
				x.files = append(x.files, file)
			}
			x.home[tensor] = file
		})
	})
	w.end()
	switch {
	case w.err != nil:
		return nil, w.err
	case !found || len(x.home) == 0:
		return nil, fault.New(fault.BadInput, "the index maps no tensors")
	}
	return x, nil
}

// check compares the tensors found in the files with the map. unmapped are tensors the index doesn't know.
func (x *shardIndex) check(file string, tensors []Tensor) (unmapped int, err error) {
	have := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		have[t.Name] = true
		switch home, ok := x.home[t.Name]; {
		case !ok:
			unmapped++
		case home != file:
			return 0, fault.New(fault.BadInput, "tensor %q is in %s, the index says %s", t.Name, file, home)
		}
	}
	for name, home := range x.home {
		if home == file && !have[name] {
			return 0, fault.New(fault.BadInput, "tensor %q is not in %s, where the index says it is", name, file)
		}
	}
	return unmapped, nil
}
