package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path"

	"gguf-forge/gguf"
	"gguf-forge/pipeline"
	"gguf-forge/recipes"
	"gguf-forge/remote"
)

// opened is a model behind any kind of reference, and what must be closed after it.
type opened struct {
	*gguf.Model
	closers []func() error
}

// Close closes all files and the hub.
func (o *opened) Close() error {
	var errs []error
	for i := len(o.closers) - 1; i >= 0; i-- {
		errs = append(errs, o.closers[i]())
	}
	return errors.Join(errs...)
}

// openModel opens a path, recipe:NAME, URL or hub reference. Only headers are read. The model of a recipe is one
// that is computed where it is read.
func (a *app) openModel(ctx context.Context, name string) (_ *opened, err error) {
	ref, err := remote.ParseReference(name)
	if err != nil {
		return nil, err
	}
	env, err := a.newEnvironment(0)
	if err != nil {
		return nil, err
	}
	o := &opened{closers: []func() error{func() error { env.Close(); return nil }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if ref.Kind == remote.Recipe {
		return o, o.openRecipe(ctx, env, ref.Recipe)
	}
	return o, o.openFiles(ctx, env.Client, ref)
}

func (o *opened) openRecipe(ctx context.Context, env *environment, name string) error {
	data, err := recipes.Load(name)
	if err != nil {
		return err
	}
	plan, err := planRecipe(ctx, env, data)
	if err != nil {
		return err
	}
	o.closers = append(o.closers, plan.Close)
	if err := plan.Err(); err != nil {
		return err
	}
	a := plan.Artifact
	o.Model, err = gguf.OpenModel("recipe:"+name, func(string) (io.ReaderAt, int64, error) { return artifactReader{ctx, a}, a.Size(), nil })
	return err
}

// openFiles opens a file and, if it is the first part of a split model, its siblings.
func (o *opened) openFiles(ctx context.Context, client *remote.Client, ref remote.Reference) (err error) {
	if ref, err = client.Pin(ctx, ref); err != nil {
		return err
	}
	o.Model, err = gguf.OpenModel(fileName(ref), func(name string) (io.ReaderAt, int64, error) {
		src, err := client.Open(ctx, sibling(ref, name))
		if err != nil {
			return nil, 0, err
		}
		o.closers = append(o.closers, func() error { return remote.CloseSource(src) })
		return remote.ReaderAt(ctx, src), src.Size(), nil
	})
	return err
}

// fileName is the name under which a file's parts are found and its hashes are printed.
func fileName(ref remote.Reference) string {
	switch ref.Kind {
	case remote.File:
		return ref.Path
	case remote.Hub:
		return ref.File
	}
	return ref.String() // a URL without its query
}

// sibling returns the reference of the file name beside ref.
func sibling(ref remote.Reference, name string) remote.Reference {
	switch ref.Kind {
	case remote.File:
		ref.Path = name
	case remote.Hub:
		ref.File = name
	case remote.URL:
		if u, err := url.Parse(ref.URL); err == nil && name != fileName(ref) {
			u.Path = path.Join(path.Dir(u.Path), path.Base(name))
			ref.URL = u.String()
		}
	}
	return ref
}

// artifactReader reads an artifact until ctx is done.
type artifactReader struct {
	ctx context.Context
	*pipeline.Artifact
}

func (r artifactReader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadContext(r.ctx, p, off)
}
