package pipeline

import (
	"errors"

	"gguf-forge/gguf"
	"gguf-forge/quant"
	"gguf-forge/remote"
)

// storedAll returns a node for every tensor of a model, in its order.
func storedAll(m *remote.Model) ([]Tensor, error) {
	var problems []error
	list := make([]Tensor, 0, len(m.Tensors))
	for _, t := range m.Tensors {
		n, err := Stored(t)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, n)
	}
	return list, errors.Join(problems...)
}

func infos(tensors []Tensor) []gguf.TensorInfo {
	list := make([]gguf.TensorInfo, len(tensors))
	for i, t := range tensors {
		list[i] = t.Info()
	}
	return list
}

// encodeAll returns the chosen tensors, in the order of the choices: as they are or encoded as another type. The error
// joins all tensors for which that can't be done.
func encodeAll(tensors []Tensor, choices []quant.Choice) ([]Tensor, error) {
	byName := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		byName[t.Info().Name] = t
	}
	var problems []error
	list := make([]Tensor, 0, len(choices))
	for _, c := range choices {
		n, err := encodeChosen(byName[c.Source.Name], c)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, n)
	}
	return list, errors.Join(problems...)
}

func encodeChosen(t Tensor, c quant.Choice) (Tensor, error) {
	if c.Name != c.Source.Name {
		t = renamed{t, c.Name}
	}
	if c.Copied() {
		return t, nil
	}
	var weights []float32
	if c.Importance != nil {
		weights = c.Importance.Weights()
	}
	return Encode(t, c.Type, weights)
}

// renamed is a tensor under another name.
type renamed struct {
	Tensor
	name string
}

func (r renamed) Info() gguf.TensorInfo {
	info := r.Tensor.Info()
	info.Name = r.name
	return info
}
