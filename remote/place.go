package remote

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"gguf-forge/internal/fault"
)

// Place is where a file that a recipe declares is: on a hub, at a URL or on disk.
type Place struct {
	Hub        string `yaml:"hub,omitempty" json:"hub,omitempty" jsonschema:"description=Repository: organization/name\\, or datasets/organization/name"`
	Revision   string `yaml:"revision,omitempty" json:"revision,omitempty" jsonschema:"description=Branch\\, tag or commit; default main"`
	File       string `yaml:"file,omitempty" json:"file,omitempty" jsonschema:"description=Path inside the repository"`
	Endpoint   string `yaml:"endpoint,omitempty" json:"endpoint,omitempty" jsonschema:"enum=embedded,description=embedded serves the file from the hub inside the program"`
	URL        string `yaml:"url,omitempty" json:"url,omitempty"`
	Path       string `yaml:"path,omitempty" json:"path,omitempty" jsonschema:"description=Local file; relative to the recipe's folder"`
	SHA256     string `yaml:"sha256,omitempty" json:"sha256,omitempty" jsonschema:"pattern=^[0-9a-f]{64}$,description=Expected SHA-256 of the file as it is stored"`
	Unverified string `yaml:"unverified,omitempty" json:"unverified,omitempty" jsonschema:"description=What of this entry was not checked; shown in every plan"`
}

// Surroundings are what places are looked up with.
type Surroundings struct {
	Client   *Client                 // hub, http and local files
	Embedded func() (*Client, error) // starts the hub inside the program; nil if the program has none
	Dir      string                  // where relative paths start; "": the working folder
}

// Check returns what is wrong with the declaration by itself.
func (p Place) Check() error {
	kinds := 0
	for _, v := range []string{p.Hub, p.URL, p.Path} {
		if v != "" {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("exactly one of hub, url and path is needed")
	case p.Hub != "" && p.File == "":
		return errors.New("hub needs a file")
	case p.Hub == "" && (p.File != "" || p.Revision != "" || p.Endpoint != ""):
		return errors.New("file, revision and endpoint belong to hub")
	case p.Endpoint != "" && p.Endpoint != "embedded":
		return fmt.Errorf("endpoint is %q, it can only be embedded", p.Endpoint)
	case p.SHA256 != "" && !IsSHA256(p.SHA256):
		return errors.New("sha256 must be 64 lower-case hex digits")
	}
	return nil
}

// Resolve returns the reference of the place and the client that opens it.
func (p Place) Resolve(s Surroundings) (Reference, *Client, error) {
	switch {
	case p.Path != "":
		return Reference{Kind: File, Path: s.InDir(p.Path)}, s.Client, nil
	case p.URL != "":
		ref, err := ParseReference(p.URL)
		if err == nil && ref.Kind != URL && ref.Kind != Hub {
			err = fault.New(fault.BadInput, "%s is no URL", ref)
		}
		return ref, s.Client, err
	}
	ref := Reference{Kind: Hub, Repo: p.Hub, Revision: cmp.Or(p.Revision, DefaultRevision), File: p.File}
	if p.Endpoint != "embedded" {
		return ref, s.Client, nil
	}
	if s.Embedded == nil {
		return ref, nil, fault.WithHint(fault.New(fault.BadInput, "this program was built without the hub inside"), "build it without the tag nodemo")
	}
	client, err := s.Embedded()
	return ref, client, err
}

// InDir returns where a path of a recipe leads.
func (s Surroundings) InDir(path string) string {
	if s.Dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Dir, path)
}

// Pinned returns the reference that a lock and forge.sources record of the opened place. It depends on what is read, not on
// where from: a hub file in the local cache has the same one as on the hub.
func (p Place) Pinned(id Identity) string {
	switch {
	case p.Hub != "":
		return p.Hub + "@" + id.Commit + ":" + id.Path
	case p.URL != "":
		return id.URL
	}
	return p.Path
}
