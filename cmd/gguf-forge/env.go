package main

import (
	"encoding/json"
	"sync"

	"gguf-forge/internal/demo"
	"gguf-forge/pipeline"
	"gguf-forge/remote"
)

// environment is what verbs that read models share: the client, and the hub inside this program once a recipe asks for it.
type environment struct {
	pipeline.Env
	stop func()
}

func (a *app) newEnvironment(memory int64) (*environment, error) {
	client, err := remote.NewClient(remote.WithLogger(func(line string) { a.note("gguf-forge: %s", line) }))
	if err != nil {
		return nil, err
	}
	e := &environment{Env: pipeline.Env{Client: client, Memory: memory}, stop: func() {}}
	if demo.Included {
		e.Embedded = sync.OnceValues(e.startHub)
	}
	return e, nil
}

func (e *environment) startHub() (*remote.Client, error) {
	client, stop, err := demo.Start()
	if err == nil {
		e.stop = stop
	}
	return client, err
}

// Close stops the hub if it was started.
func (e *environment) Close() { e.stop() }

// printJSON writes v to stdout, indented.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
