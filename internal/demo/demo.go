// Package demo is the hub inside the program: a small trained model, its importance matrix and texts, served on the
// loopback interface through the same client as any other hub.
package demo

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"gguf-forge/internal/testhub"
	"gguf-forge/remote"
)

// Repo is the repository that the hub serves.
const Repo = "gguf-forge/demo"

// Start starts the hub and returns a client for it, which uses no cache and no token. stop ends the hub.
func Start() (client *remote.Client, stop func(), err error) {
	fsys, err := files()
	if err != nil {
		return nil, nil, err
	}
	hub, err := testhub.Start()
	if err != nil {
		return nil, nil, err
	}
	stop = func() { _ = hub.Close() } // nothing is left to save
	if err := hub.Repo(Repo).AddFS(fsys); err != nil {
		stop()
		return nil, nil, fmt.Errorf("filling the hub inside the program: %w", err)
	}
	client, err = remote.NewClient(remote.WithEndpoint(hub.Endpoint()), remote.WithToken(""), remote.WithCache(""), remote.WithOffline(false))
	if err != nil {
		stop()
		return nil, nil, err
	}
	return client, stop, nil
}

//go:embed q4_k.tensors.json
var q4k []byte

// ReferenceTensors returns the SHA-256 of the data of every tensor that llama-quantize --pure --imatrix writes for the
// model as Q4_K.
func ReferenceTensors() map[string]string {
	var list map[string]string
	if err := json.Unmarshal(q4k, &list); err != nil {
		panic(err) // embedded
	}
	return list
}
