package pipeline

import (
	"gguf-forge/gguf"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

func infos(tensors []remote.Tensor) []gguf.TensorInfo {
	list := make([]gguf.TensorInfo, len(tensors))
	for i, t := range tensors {
		list[i] = t.TensorInfo
	}
	return list
}

// nodes makes a node of every chosen tensor of m: its rows as they are or encoded as another type.
// The errors are all tensors for which that can't be done.
func nodes(m *remote.Model, choices []quant.Choice) ([]Tensor, []error) {
	byName := make(map[string]remote.Tensor, len(m.Tensors))
	for _, t := range m.Tensors {
		byName[t.Name] = t
	}
	var problems []error
	list := make([]Tensor, 0, len(choices))
	for _, c := range choices {
		node, err := node(byName[c.Source.Name], c)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, node)
	}
	return list, problems
}

func node(source remote.Tensor, c quant.Choice) (Tensor, error) {
	source.Name = c.Name
	n, err := Stored(source)
	if err != nil || c.Copied() {
		return n, err
	}
	var weights []float32
	if c.Importance != nil {
		weights = c.Importance.Weights()
	}
	return Encode(n, c.Type, weights)
}
