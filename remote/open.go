package remote

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// Open opens the file a reference points to. Hub files are pinned to a commit; if the hub cache holds the file
// at that commit, it is read from there. Close the source with CloseSource.
func (c *Client) Open(ctx context.Context, ref Reference) (Source, error) {
	ref, err := c.Pin(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch ref.Kind {
	case File:
		return OpenFile(ref.Path)
	case URL:
		return c.openURL(ctx, ref.URL)
	case Hub:
		return c.openHub(ctx, ref)
	}
	return nil, fault.New(fault.Usage, "%s is a recipe, not a file", ref)
}

// Pin returns a reference that will always give the same bytes as far as the source allows: the revision of a hub
// file becomes a commit, a quantization tag the file it stands for. A URL that shows a file of the client's own
// hub becomes a hub reference. Other references come back as they are.
func (c *Client) Pin(ctx context.Context, ref Reference) (Reference, error) {
	if ref.Kind == URL {
		u, err := url.Parse(ref.URL)
		if err != nil {
			return ref, usage("%s is not a valid URL", ref)
		}
		if c.isHub(u) {
			page, ok, err := hubPage(u, strings.TrimSuffix(c.endpoint.EscapedPath(), "/"))
			if err != nil {
				return ref, err
			}
			if ok {
				ref = page
			}
		}
	}
	if ref.Kind != Hub {
		return ref, nil
	}
	if err := ref.validate(oldRepo.MatchString(ref.Repo)); err != nil {
		return ref, err
	}
	commit, err := c.Resolve(ctx, ref.Repo, ref.Revision)
	if err != nil {
		return ref, err
	}
	ref.Revision = commit
	if !isTag(ref.File) {
		return ref, nil
	}
	list, err := c.List(ctx, ref.Repo, commit)
	if err != nil {
		return ref, err
	}
	ref.File, err = matchTag(ref, list)
	return ref, err
}

var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// isTag reports whether a file name can be a bare quantization tag. Files without an extension look the same; the
// listing tells them apart.
func isTag(file string) bool { return tagPattern.MatchString(file) }

// matchTag returns the only GGUF file, or the first part of the only split GGUF, whose name has the tag as a whole
// word in any case. Files that accompany a model (mmproj, imatrix) are not meant.
func matchTag(ref Reference, list []Entry) (string, error) {
	word := regexp.MustCompile(`(?i)(^|[^A-Za-z0-9])` + regexp.QuoteMeta(ref.File) + `($|[^A-Za-z0-9_])`)
	var found, models []string
	for _, e := range list {
		if e.Path == ref.File {
			return e.Path, nil
		}
		base := strings.ToLower(path.Base(e.Path))
		if !strings.HasSuffix(base, ".gguf") || strings.Contains(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		if _, part, _, split := gguf.ParseShardName(base); split && part > 1 {
			continue
		}
		models = append(models, path.Base(e.Path))
		if word.MatchString(strings.TrimSuffix(e.Path, path.Ext(e.Path))) {
			found = append(found, e.Path)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.WithHint(fault.New(fault.BadInput, "no GGUF file of %s matches the tag %q", ref.Repo, ref.File), "it has: %s", shortList(models))
	}
	return "", fault.WithHint(fault.New(fault.BadInput, "the tag %q matches %d files of %s", ref.File, len(found), ref.Repo), "name one of them: %s", shortList(found))
}

func shortList(names []string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return "no GGUF files"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// openHub opens a pinned hub file, from the cache if it is there.
func (c *Client) openHub(ctx context.Context, ref Reference) (Source, error) {
	id := Identity{Kind: "hub", Repo: ref.Repo, Commit: ref.Revision, Path: ref.File}
	src, miss, err := c.cached(ctx, id)
	if src != nil || err != nil {
		return src, err
	}
	if c.offline {
		return nil, fault.WithHint(fault.New(fault.Network, "%s is not in the hub cache%s, and the client is offline", id, colon(miss)),
			"unset HF_HUB_OFFLINE, or fetch the file with the hub's own client first")
	}
	if miss != "" {
		c.logf("%s: the cached copy is not used: %s", id, miss)
	}
	pinned := id
	locate := func(ctx context.Context, a *attempts) (*location, error) { return c.metadata(ctx, pinned, a) }
	loc, err := locate(ctx, &attempts{})
	if err != nil {
		return nil, err
	}
	id.Size = loc.size
	if IsSHA256(loc.etag) {
		id.SHA256 = loc.etag
	} else {
		id.ETag = loc.etag
	}
	return newRemoteFile(c, id, loc, locate), nil
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// IsSHA256 reports whether s is a SHA-256 as 64 lower-case hex digits.
func IsSHA256(s string) bool { return sha256Pattern.MatchString(s) }

// openURL opens a file on a plain web server. Size and range support come from a one-byte range: what a HEAD says
// about either proves nothing.
func (c *Client) openURL(ctx context.Context, address string) (Source, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, usage("%s is not a valid URL", cleanText(address))
	}
	if c.offline {
		return nil, c.unreachable(u, "")
	}
	id := Identity{Kind: "http", URL: cleanURL(u)}
	locate := func(ctx context.Context, a *attempts) (*location, error) { return c.probe(ctx, u, a) }
	loc, err := locate(ctx, &attempts{})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault.New(kindOr(err, fault.Network), "opening %s: %w", id, err)
	}
	id.Size, id.ETag = loc.size, loc.etag
	return newRemoteFile(c, id, loc, locate), nil
}

// probe asks a web server for the first byte.
func (c *Client) probe(ctx context.Context, u *url.URL, a *attempts) (*location, error) {
	resp, at, err := c.walk(ctx, http.MethodGet, u, http.Header{"Range": {"bytes=0-0"}}, anywhere, a)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	loc := &location{url: at, etag: normalETag(resp.Header.Get("ETag")), validator: validatorOf(resp)}
	if cleanURL(at) != cleanURL(u) {
		loc.refreshAt = refreshTime(at, resp)
	}
	switch r, ok := parseContentRange(resp.Header.Get("Content-Range")); {
	case ok:
		loc.size = r.total
	case resp.StatusCode == http.StatusOK && resp.ContentLength >= 0:
		loc.size = resp.ContentLength
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if loc.size = unsatisfiedTotal(resp); loc.size == 0 {
			return loc, nil // an empty file
		}
	case resp.StatusCode == http.StatusOK:
		return nil, fault.New(fault.Network, "%s gives no ranges and no length", at.Host)
	}
	// A file of this size must fit the answer as it will have to fit later ones.
	check := &remoteFile{c: c, id: Identity{Kind: "http", URL: cleanURL(u), Size: loc.size}}
	if _, _, err = check.checkAnswer(resp, at, 0, 1); err == nil {
		io.CopyN(io.Discard, resp.Body, 2) // so that the connection serves the next request
		return loc, nil
	}
	var wrong *answerError
	if errors.As(err, &wrong) {
		err = wrong.err
		if s := resp.StatusCode; s == http.StatusNotFound || s == http.StatusGone {
			err = fault.New(fault.BadInput, "%s has no such file (%d)", at.Host, s)
		}
		if s := resp.StatusCode; s == http.StatusOK || s == http.StatusPartialContent {
			err = fault.WithHint(err, "check the address: it must be the file itself, not a page about it")
		}
	}
	return nil, err
}

// ReadAll reads a whole small file of at most limit bytes and compares it with its digest if one is known.
func ReadAll(ctx context.Context, s Source, limit int64) ([]byte, error) {
	if s.Size() > limit {
		return nil, fault.New(fault.BadInput, "%s has %d bytes, at most %d are read", s.Identity(), s.Size(), limit)
	}
	b := make([]byte, s.Size())
	if _, err := s.ReadAt(ctx, b, 0); err != nil {
		return nil, err
	}
	t := NewTracker(s)
	t.Observe(0, b)
	if _, err := t.Done(); err != nil {
		return nil, err
	}
	return b, nil
}

// blobDigest returns the digest of r in the form that the hub uses as the name of a blob: SHA-256 if name is one, else
// the Git blob id.
func blobDigest(name string, r io.Reader, size int64) (string, error) {
	sum := sha256.New()
	if !IsSHA256(name) {
		sum = sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", size)
	}
	_, err := io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), err
}
