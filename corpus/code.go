package corpus

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"gguf-forge/internal/fault"
)

// Code fetches source files of repositories on GitHub, through its REST API: the commit of a reference, then the archive of
// that commit. Every file with one of the extensions is a document.
type Code struct {
	Endpoint     string   // "" is CodeEndpoint
	Repositories []string // owner/name or owner/name@reference
	Extensions   []string // without the dot
}

// CodeEndpoint is the address of the API.
const CodeEndpoint = "https://api.github.com"

const (
	maxSource  = 1 << 20 // bytes of a file; larger ones are data or generated
	maxArchive = 8 << 30 // unpacked bytes
)

var (
	repositoryPattern = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)(?:@([A-Za-z0-9][A-Za-z0-9._/-]*))?$`)
	commitPattern     = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Wants implements Service.
func (c *Code) Wants(id string) bool {
	return slices.ContainsFunc(c.Repositories, func(r string) bool {
		name, _, _ := strings.Cut(r, "@")
		return strings.HasPrefix(id, c.prefix(name)) && c.isSource(id)
	})
}

// prefix begins the ids of a repository's files.
func (c *Code) prefix(repository string) string { return "code:" + repository + ":" }

func (c *Code) isSource(name string) bool {
	return slices.Contains(c.Extensions, strings.TrimPrefix(path.Ext(name), "."))
}

// Fetch implements Service.
func (c *Code) Fetch(ctx context.Context, f *Fetcher, received Received) error {
	if len(c.Extensions) == 0 {
		return fault.New(fault.Usage, "name the extensions of the source files")
	}
	endpoint := strings.TrimRight(c.Endpoint, "/")
	if endpoint == "" {
		endpoint = CodeEndpoint
	}
	for _, r := range c.Repositories {
		m := repositoryPattern.FindStringSubmatch(r)
		if m == nil {
			return fault.New(fault.Usage, "%q is no repository: owner/name or owner/name@reference is needed", r)
		}
		name, reference := m[1], m[2]
		if reference == "" {
			reference = "HEAD"
		}
		commit := reference
		if started := received.Revision(c.prefix(name)); started != "" {
			commit = started // a branch may have moved on since
		}
		if !commitPattern.MatchString(commit) {
			b, _, err := f.read(ctx, endpoint+"/repos/"+name+"/commits/"+reference, http.Header{"Accept": {"application/vnd.github.sha"}})
			if err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			if commit = strings.TrimSpace(string(b)); !commitPattern.MatchString(commit) {
				return fault.New(fault.Network, "%s: the answer is no commit", r)
			}
		}
		if err := c.archive(ctx, f, endpoint, name, commit, received); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
	}
	return nil
}

// archive hands on the source files of a commit.
func (c *Code) archive(ctx context.Context, f *Fetcher, endpoint, name, commit string, received Received) error {
	resp, err := f.get(ctx, endpoint+"/repos/"+name+"/tarball/"+commit, nil)
	if err != nil {
		return err
	}
	defer f.ended()
	defer resp.Body.Close()
	broken := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault.WithHint(fault.New(fault.Network, "the archive broke off: %w", err), "run the same command again to go on")
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		return broken(err)
	}
	limited := &io.LimitedReader{R: z, N: maxArchive}
	archive := tar.NewReader(limited)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		_, file, ok := strings.Cut(h.Name, "/") // behind the folder that the archive is in
		id := c.prefix(name) + file
		if !ok || h.Typeflag != tar.TypeReg || h.Size == 0 || h.Size > maxSource || !c.isSource(file) || !utf8.ValidString(file) || received.Has(id) {
			continue
		}
		b, err := io.ReadAll(archive)
		if err != nil {
			return broken(err)
		}
		if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			f.log(fmt.Sprintf("%s is no text and is left out", file))
			continue
		}
		if err := received.Add(Document{ID: id, Revision: commit, Title: file, SHA256: hexSHA256(b), Text: string(b)}); err != nil {
			return err
		}
	}
}
