// Package runtime computes with GGUF models: it loads them, runs the forward pass of every supported
// architecture, and samples.
//
// Start with [OpenFile] (or [Load] for a model that is no file), [Model.NewSession], [Session.Eval] and
// [NewSampler]:
//
//	m, err := runtime.OpenFile("model.gguf", runtime.LoadOptions{})
//	s, err := m.NewSession(runtime.SessionOptions{})
//	logits, err := s.Eval(ids)
//	id := sampler.Next(logits)
//
// # What a result depends on
//
// On the weights, the token ids, the cache type and [LoadOptions].Exact; to the last bit not on the number of
// threads, nor on how the ids are divided into calls of Eval or batches. Between CPUs the last bits differ: dot
// products sum in the order that suits the machine.
//
// By default activations are rounded before each product to what the reference engine uses for that weight type
// (see activations.go). Exact keeps them, and the cache, in float32.
//
// # Layout of the package
//
// One file per architecture, each in the order configuration, weights, state, forward pass: llama.go is the one
// to read first. Above them stands what callers see: model.go, session.go, drafter.go (the NextN block) and sampler.go.
// source.go, llama2c.go, loader.go and config.go read a model; ends.go is its embedding and head. The parts that architectures are
// made of are selfattention.go, attention.go, cache.go, rope.go, feedforward.go, experts.go, conv.go, delta.go, scan.go and norm.go;
// matrix.go, activations.go and matmul.go multiply; arena.go counts memory before it is allocated; pool.go runs the work.
package runtime
