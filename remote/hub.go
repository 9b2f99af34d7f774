package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"gguf-forge/internal/fault"
)

const (
	maxAPIBody = 64 << 20 // bytes of one answer of the hub's API
	maxPages   = 10_000   // pages of one listing
	maxEntries = 1_000_000
)

// Entry is a file of a repository.
type Entry struct {
	Path   string
	Size   int64  // of the content
	SHA256 string // hex digest of the content of LFS files, "" for others
	BlobID string // Git blob id; for LFS files that of the pointer
}

// Resolve returns the commit a revision points to now. The answer is kept: later calls, and every source opened
// with the same revision, use the same commit even if the branch moves. A commit is returned without a request.
// Offline, the answer comes from the hub cache.
func (c *Client) Resolve(ctx context.Context, repo, revision string) (string, error) {
	if err := (Reference{Repo: repo, Revision: revision, File: "x"}).validate(oldRepo.MatchString(repo)); err != nil {
		return "", err
	}
	if isCommit(revision) {
		return revision, nil
	}
	key := repo + "@" + revision
	if commit, ok := c.pins.Load(key); ok {
		return commit.(string), nil
	}
	if c.offline {
		return c.cachedCommit(repo, revision)
	}
	// Whoever comes while the question is open waits for the same answer, but not for longer than its own context.
	ch := c.flights.DoChan(key, func() (any, error) {
		commit, err := c.askCommit(context.WithoutCancel(ctx), repo, revision)
		if err == nil {
			c.pins.Store(key, commit)
		}
		return commit, err
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case r := <-ch:
		return r.Val.(string), r.Err
	}
}

func (c *Client) askCommit(ctx context.Context, repo, revision string) (string, error) {
	var answer struct {
		SHA string `json:"sha"`
	}
	what := repo + "@" + revision
	u := c.address(apiPath(repo) + "/revision/" + escape(revision))
	if _, err := c.getJSON(ctx, u, what, &answer); err != nil {
		return "", err
	}
	if !isCommit(answer.SHA) {
		return "", fault.WithHint(fault.New(fault.Network, "%s: %s named no commit, so the model can't be pinned", what, c.endpoint.Host),
			"check that HF_ENDPOINT is a hub")
	}
	return answer.SHA, nil
}

// List returns the files of a repository at a commit, in the hub's order.
func (c *Client) List(ctx context.Context, repo, commit string) ([]Entry, error) {
	what := repo + "@" + commit
	if c.offline {
		return c.cachedList(repo, commit)
	}
	u := c.address(apiPath(repo) + "/tree/" + escape(commit) + "?recursive=true&expand=false")
	seen := map[string]bool{}
	var list []Entry
	for u != nil {
		if seen[u.String()] || len(seen) == maxPages || len(list) > maxEntries {
			return nil, fault.New(fault.Network, "%s: the list of files doesn't end", what)
		}
		seen[u.String()] = true
		var page []struct {
			Type string `json:"type"`
			Path string `json:"path"`
			Size int64  `json:"size"`
			OID  string `json:"oid"`
			LFS  *struct {
				OID  string `json:"oid"`
				Size int64  `json:"size"`
			} `json:"lfs"`
		}
		header, err := c.getJSON(ctx, u, what, &page)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if e.Type != "file" {
				continue
			}
			if !plainPath(e.Path) || e.Size < 0 {
				return nil, fault.New(fault.Network, "%s: the list of files has an impossible entry %q", what, e.Path)
			}
			entry := Entry{Path: e.Path, Size: e.Size, BlobID: e.OID}
			if e.LFS != nil {
				entry.SHA256, entry.Size = strings.TrimPrefix(e.LFS.OID, "sha256:"), e.LFS.Size
			}
			list = append(list, entry)
		}
		if u, err = c.nextPage(u, header); err != nil {
			return nil, fault.New(fault.Network, "%s: %w", what, err)
		}
	}
	return list, nil
}

// nextPage returns the address of the rel="next" link. A mirror's link may name the hub it mirrors: host and scheme
// are always those of the endpoint, so that the token goes nowhere else.
func (c *Client) nextPage(u *url.URL, header http.Header) (*url.URL, error) {
	for link := range strings.SplitSeq(strings.Join(header.Values("Link"), ","), ",") {
		target, params, ok := strings.Cut(strings.TrimSpace(link), ">")
		if !ok || !strings.HasPrefix(target, "<") || !strings.Contains(params, `rel="next"`) {
			continue
		}
		next, err := u.Parse(target[1:])
		if err != nil {
			return nil, errors.New("the link to the next page is no address")
		}
		next.Scheme, next.Host, next.User = c.endpoint.Scheme, c.endpoint.Host, nil
		return next, nil
	}
	return nil, nil
}

// getJSON asks the hub's API and decodes its answer. A body cut on the way is asked for again as a whole.
func (c *Client) getJSON(ctx context.Context, u *url.URL, what string, into any) (http.Header, error) {
	a := &attempts{}
	for {
		resp, at, err := c.walk(ctx, http.MethodGet, u, http.Header{"Accept": {"application/json"}}, insideHub, a)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			err := c.hubError(resp, at, what)
			resp.Body.Close()
			return nil, err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAPIBody+1))
		resp.Body.Close()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			if a.failures++; a.failures > c.retries {
				return nil, fault.New(fault.Network, "%s: the answer of %s breaks off: %w", what, at.Host, err)
			}
			if err := c.pause(ctx, a); err != nil {
				return nil, err
			}
			continue
		case len(body) > maxAPIBody:
			return nil, fault.New(fault.Network, "%s: the answer of %s is longer than %d bytes", what, at.Host, maxAPIBody)
		}
		if err := json.Unmarshal(body, into); err != nil {
			return nil, fault.WithHint(fault.New(fault.Network, "%s: %s answered no JSON of a hub", what, at.Host),
				"check HF_ENDPOINT, and whether a login page of the network stands in between")
		}
		return resp.Header, nil
	}
}

// address returns an address on the hub; path is already escaped and begins with a slash.
func (c *Client) address(path string) *url.URL {
	u, err := url.Parse(c.endpoint.String() + path)
	if err != nil { // the parts were validated and escaped
		panic("internal error: " + err.Error())
	}
	return u
}

func apiPath(repo string) string {
	kind, name := repoKind(repo)
	return "/api/" + kind + "/" + escapePath(name)
}

// repoKind splits "datasets/org/name"; without such a prefix a repository holds a model.
func repoKind(repo string) (kind, name string) {
	for _, kind := range []string{"datasets", "spaces"} {
		if name, ok := strings.CutPrefix(repo, kind+"/"); ok {
			return kind, name
		}
	}
	return "models", repo
}

func resolvePath(repo, commit, path string) string {
	return "/" + escapePath(repo) + "/resolve/" + escape(commit) + "/" + escapePath(path)
}

// escape encodes everything in s, slashes too. A plus sign is a blank for some servers.
func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), "+", "%2B") }

// escapePath encodes everything but the slashes.
func escapePath(p string) string { return strings.ReplaceAll(escape(p), "%2F", "/") }

// metadata asks the hub for one file of a commit: its identity, its size and where its bytes are now.
func (c *Client) metadata(ctx context.Context, id Identity, a *attempts) (*location, error) {
	u := c.address(resolvePath(id.Repo, id.Commit, id.Path))
	resp, at, err := c.walk(ctx, http.MethodHead, u, nil, insideHub, a)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	target, err := redirect(resp, at)
	if err != nil {
		return nil, err
	}
	if target == nil && resp.StatusCode != http.StatusOK {
		return nil, c.hubError(resp, at, id.String())
	}
	l := &location{url: at, commit: resp.Header.Get("X-Repo-Commit"), etag: normalETag(resp.Header.Get("X-Linked-Etag"))}
	if l.etag == "" {
		l.etag = normalETag(resp.Header.Get("ETag"))
	}
	if l.size, err = strconv.ParseInt(resp.Header.Get("X-Linked-Size"), 10, 64); err != nil {
		l.size = -1
	}
	if target != nil {
		l.url = target
		l.refreshAt = refreshTime(target, resp)
		return l, c.checkMetadata(l, id)
	}
	// Only here: a redirect's own length and validator are those of its body and say nothing.
	l.validator = validatorOf(resp)
	if l.size < 0 {
		l.size = resp.ContentLength
	}
	if l.size < 0 {
		if l.size, err = c.sizeByRange(ctx, at, a); err != nil {
			return nil, err
		}
	}
	return l, c.checkMetadata(l, id)
}

// sizeByRange learns a size from the total of a one-byte range; answers kept compressed on the way have no length.
func (c *Client) sizeByRange(ctx context.Context, u *url.URL, a *attempts) (int64, error) {
	resp, _, err := c.walk(ctx, http.MethodGet, u, http.Header{"Range": {"bytes=0-0"}}, anywhere, a)
	if err != nil {
		return -1, err
	}
	defer resp.Body.Close()
	if r, ok := parseContentRange(resp.Header.Get("Content-Range")); ok {
		return r.total, nil
	}
	return -1, nil
}

// checkMetadata insists on all three facts: a mirror or a login page that drops them is not the hub.
func (c *Client) checkMetadata(l *location, id Identity) error {
	missing := ""
	switch {
	case l.commit == "":
		missing = "commit"
	case l.etag == "":
		missing = "ETag"
	case l.size < 0:
		missing = "size"
	case l.commit != id.Commit:
		return fault.New(fault.Verification, "%s: %s answered with commit %.40s", id, c.endpoint.Host, printable(l.commit))
	default:
		return nil
	}
	return fault.WithHint(fault.New(fault.Network, "%s: the answer of %s has no %s, so the file can't be checked", id, c.endpoint.Host, missing),
		"check HF_ENDPOINT, and whether a login page of the network stands in between")
}

// normalETag removes the weak mark and the quotes.
func normalETag(v string) string {
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(v), "W/"), `"`)
}

// hubError says what a refusal of the hub means and what to do. what names the repository or file.
func (c *Client) hubError(resp *http.Response, u *url.URL, what string) error {
	code := resp.Header.Get("X-Error-Code")
	message := c.redact(printable(resp.Header.Get("X-Error-Message")))
	repo, _, _ := strings.Cut(what, "@")
	page := c.endpoint.String() + "/" + repo
	fail := func(kind fault.Kind, hint, format string, args ...any) error {
		err := fault.New(kind, "%s: %s%s", what, fmt.Sprintf(format, args...), requestID(resp))
		return fault.WithHint(err, "%s", hint)
	}
	status := resp.StatusCode
	switch {
	case code == "GatedRepo":
		return fail(fault.Network, "accept the terms on "+page+" and set HF_TOKEN to a token of that account", "access to this repository must be granted first")
	case strings.Contains(message, "Invalid credentials") || code == "InvalidToken":
		return fail(fault.Network, "check HF_TOKEN and the token file, or log in again", "the hub rejects the token")
	case code == "RevisionNotFound":
		return fail(fault.BadInput, "see the branches and tags on "+page, "the repository has no such revision")
	case code == "EntryNotFound":
		return fail(fault.BadInput, "see the files on "+page, "the repository has no such file at this revision")
	case code == "RepoNotFound" || status == http.StatusUnauthorized || status == http.StatusNotFound:
		hint := "check the name; a private repository needs HF_TOKEN"
		if c.token != "" {
			hint = "check the name, and whether the token may read this repository"
		}
		return fail(fault.BadInput, hint, "no such repository, or no access to it")
	case status == http.StatusForbidden && strings.Contains(message, "disabled"):
		return fail(fault.Network, "ask the hub or its owner", "the repository is disabled")
	case status == http.StatusForbidden:
		return fail(fault.Network, "use a token that may read this repository", "the hub forbids access%s", colon(message))
	case status == http.StatusTooManyRequests:
		wait, _ := demanded(resp)
		return fail(fault.Network, "wait, or set HF_TOKEN for a higher limit", "the hub's rate limit is used up, it asks to wait %v", wait)
	}
	if message == "" {
		message = c.errorText(resp)
	}
	return fail(fault.Network, "try again later", "%s answered %d %s%s", u.Host, status, http.StatusText(status), colon(message))
}

func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
