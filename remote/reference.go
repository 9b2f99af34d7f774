package remote

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"gguf-forge/internal/fault"
)

// RefKind says what a Reference points to.
type RefKind int

// The kinds of references.
const (
	File   RefKind = iota // a local path
	URL                   // a file on a web server
	Hub                   // a file of a hub repository
	Recipe                // a recipe by name
)

// Reference is a parsed model reference. Only the fields of its kind are set.
type Reference struct {
	Kind RefKind
	Path string // File
	URL  string // URL: as given, without fragment

	// Hub. Repo is "organization/name", after "datasets/" or "spaces/" for those. Revision is a branch, tag,
	// refs/… or commit, "main" if none was given. File is a path inside the repository, or a bare
	// quantization tag ("Q4_K_M") that is resolved when the reference is opened.
	Repo     string
	Revision string
	File     string

	Recipe string // Recipe: its name
}

// DefaultRevision is the branch of a hub reference that names none.
const DefaultRevision = "main"

const referenceForms = "a reference is a path, recipe:NAME, a URL, or org/name[@revision]:file"

var (
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
	drivePattern  = regexp.MustCompile(`^[A-Za-z]:`)
	schemePattern = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]+)://`)
	repoPattern   = regexp.MustCompile(`^((?:datasets|spaces)/)?[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	oldRepo       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`) // "gpt2": only in URLs
)

// ParseReference reads a model reference. An existing path wins, and whatever can only be a path ("./x",
// "C:\x") is one; then recipe:NAME; then a URL, where the page or download address of a hub file is taken as
// the hub reference it shows; else org/name[@revision]:file.
func ParseReference(s string) (Reference, error) {
	if s == "" {
		return Reference{}, usage("the model reference is empty")
	}
	if _, err := os.Stat(s); err == nil || onlyPath(s) {
		return Reference{Kind: File, Path: s}, nil
	}
	if name, ok := strings.CutPrefix(s, "recipe:"); ok {
		if name == "" {
			return Reference{}, usage("%q names no recipe", s)
		}
		return Reference{Kind: Recipe, Recipe: name}, nil
	}
	if m := schemePattern.FindStringSubmatch(s); m != nil {
		return parseURL(s, m[1])
	}
	return parseHub(s)
}

func usage(format string, args ...any) error {
	return fault.WithHint(fault.New(fault.Usage, format, args...), referenceForms)
}

// onlyPath reports whether s can't be anything but a path, whether it exists or not.
func onlyPath(s string) bool {
	if strings.HasPrefix(s, "/") || strings.Contains(s, `\`) {
		return true
	}
	first, _, _ := strings.Cut(s, "/")
	return first == "." || first == ".." || strings.HasPrefix(first, "~") || drivePattern.MatchString(s)
}

func parseURL(s, scheme string) (Reference, error) {
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return Reference{}, usage("scheme %q is not supported, only http and https are", scheme)
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return Reference{}, usage("%q is not a valid URL", cleanText(s))
	}
	if u.User != nil {
		// The error must not repeat the password.
		return Reference{}, usage("the URL on %s contains credentials, which are not accepted in addresses", u.Host)
	}
	u.Fragment, u.RawFragment = "", ""
	if isPublicHub(u.Host) {
		if ref, ok, err := hubPage(u, ""); ok || err != nil {
			return ref, err
		}
	}
	return Reference{Kind: URL, URL: u.String()}, nil
}

// hubPage reads {prefix}/{repo}/{resolve|blob|raw}/{revision}/{path}. ok is false for any other page.
func hubPage(u *url.URL, prefix string) (ref Reference, ok bool, err error) {
	escaped, ok := strings.CutPrefix(u.EscapedPath(), prefix+"/")
	if !ok {
		return Reference{}, false, nil
	}
	parts := strings.Split(escaped, "/")
	at := slices.IndexFunc(parts, func(p string) bool { return p == "resolve" || p == "blob" || p == "raw" })
	if at < 1 || at > 3 || len(parts) < at+3 {
		return Reference{}, false, nil
	}
	for i, p := range parts {
		if parts[i], err = url.PathUnescape(p); err != nil {
			return Reference{}, false, usage("%q is not a valid URL", cleanText(u.String()))
		}
	}
	ref = Reference{Kind: Hub, Repo: strings.Join(parts[:at], "/"), Revision: parts[at+1]}
	rest := parts[at+2:]
	if ref.Revision == "refs" && len(rest) > 2 { // refs/pr/1 with plain slashes
		ref.Revision = "refs/" + rest[0] + "/" + rest[1]
		rest = rest[2:]
	}
	ref.File = strings.Join(rest, "/")
	return ref, true, ref.validate(oldRepo.MatchString(ref.Repo))
}

func parseHub(s string) (Reference, error) {
	repo, file, ok := strings.Cut(s, ":")
	if !ok {
		if strings.Count(s, "/") == 1 && path.Ext(s) == "" {
			return Reference{}, fault.WithHint(fault.New(fault.Usage, "%q is neither an existing path nor a file of a repository", s),
				"name the file: %s:FILE", s)
		}
		return Reference{}, fault.WithHint(fault.New(fault.BadInput, "no such file: %s", s), referenceForms)
	}
	ref := Reference{Kind: Hub, Revision: DefaultRevision, File: file}
	ref.Repo, ref.Revision, ok = strings.Cut(repo, "@")
	if !ok {
		ref.Revision = DefaultRevision
	}
	return ref, ref.validate(false)
}

// validate checks everything that will become part of an address or of a path in the cache.
func (r Reference) validate(oldName bool) error {
	if !oldName && !repoPattern.MatchString(r.Repo) || strings.Contains(r.Repo, "--") || strings.Contains(r.Repo, "..") {
		return usage("%q is not a repository name", r.Repo)
	}
	if !plainPath(r.Revision) {
		return usage("%q is not a revision of %s", r.Revision, r.Repo)
	}
	if !plainPath(r.File) {
		return usage("%q is not a file name inside %s", r.File, r.Repo)
	}
	return nil
}

// plainPath reports whether p is a relative slash path that stays where it is and has no odd characters.
func plainPath(p string) bool {
	if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }) {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// String returns the reference as a user would write it; the query of a URL is left out.
func (r Reference) String() string {
	switch r.Kind {
	case URL:
		return cleanText(r.URL)
	case Hub:
		if r.Revision == DefaultRevision {
			return r.Repo + ":" + r.File
		}
		return r.Repo + "@" + r.Revision + ":" + r.File
	case Recipe:
		return "recipe:" + r.Recipe
	}
	return r.Path
}

// cleanText returns an address without query, fragment and credentials, for errors and logs.
func cleanText(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(unreadable address)"
	}
	return cleanURL(u)
}

func cleanURL(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.ForceQuery, c.Fragment, c.RawFragment = nil, "", false, "", ""
	return c.String()
}

// isCommit reports whether a revision can never move.
func isCommit(revision string) bool { return commitPattern.MatchString(revision) }
