package testhub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// place is what a request asks for.
type place struct {
	stage    Stage
	kind     string // "revision", "tree", "paths-info", "resolve", "cache"
	repo     string
	revision string
	path     string
}

// parsePlace reads the escaped path of a request to the hub.
func parsePlace(escaped string) (p place, ok bool) {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, s := range parts {
		u, err := url.PathUnescape(s)
		if err != nil {
			return p, false
		}
		parts[i] = u
	}
	p.stage = Resolve
	if parts[0] == "api" && len(parts) > 3 {
		parts = parts[1:]
		if parts[0] == "resolve-cache" {
			p.kind = "cache"
			parts = parts[1:]
		} else {
			p.stage = API
		}
		if parts[0] == "models" {
			parts = parts[1:]
		}
	}
	names := 2
	if len(parts) > 0 && (parts[0] == "datasets" || parts[0] == "spaces") {
		names = 3
	}
	if len(parts) < names+1 {
		return p, false
	}
	p.repo = strings.Join(parts[:names], "/")
	rest := parts[names:]
	if p.kind == "" {
		p.kind, rest = rest[0], rest[1:]
	}
	if len(rest) == 0 {
		return p, false
	}
	p.revision, p.path = rest[0], strings.Join(rest[1:], "/")
	return p, slices.Contains([]string{"revision", "tree", "paths-info", "resolve", "cache"}, p.kind)
}

// serveHub answers the hub's own requests.
func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request) {
	p, ok := parsePlace(r.URL.EscapedPath())
	h.mu.Lock()
	fault := h.strike(p.stage, r.URL.Path)
	h.mu.Unlock()
	w.Header().Set("X-Request-Id", "testhub")
	if !ok {
		h.refuse(w, r, p.stage, http.StatusNotFound, "RepoNotFound", "")
		return
	}
	if p.kind == "revision" || p.kind == "tree" || p.kind == "paths-info" {
		// Faults of whole files mean nothing here, all others do.
		if h.disturb(w, r, p.stage, fault, &part{}) {
			return
		}
	}
	h.mu.Lock()
	to, renamed := h.renamed[p.repo]
	repo := h.repos[p.repo]
	known := h.token == "" || r.Header.Get("Authorization") == "Bearer "+h.token
	wrongToken := h.token != "" && r.Header.Get("Authorization") != "" && !known
	granted := h.token != "" && known
	var commit string
	var files []*file
	visible := repo != nil && (!repo.private || granted)
	if visible {
		commit, files = repo.at(p.revision)
	}
	gated := repo != nil && repo.gated && !granted
	h.mu.Unlock()

	switch {
	case renamed:
		w.Header().Set("Location", strings.Replace(r.URL.RequestURI(), p.repo, to, 1))
		h.answer(w, r, p.stage, http.StatusTemporaryRedirect, "")
	case wrongToken:
		h.refuse(w, r, p.stage, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
	case !visible && granted:
		h.refuse(w, r, p.stage, http.StatusNotFound, "RepoNotFound", "Repository not found")
	case !visible:
		h.refuse(w, r, p.stage, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case commit == "":
		h.refuse(w, r, p.stage, http.StatusNotFound, "RevisionNotFound", "Invalid rev id")
	case p.kind == "revision":
		h.serveRevision(w, r, repo, commit, files)
	case p.kind == "tree":
		h.serveTree(w, r, files, p.path)
	case p.kind == "paths-info":
		h.servePaths(w, r, files)
	case gated:
		h.refuse(w, r, p.stage, http.StatusForbidden, "GatedRepo", "Access to this model is restricted")
	default:
		h.serveResolve(w, r, p, repo, commit, files, fault)
	}
}

// at returns the commit and files of a revision. The caller holds h.mu.
func (r *Repo) at(revision string) (string, []*file) {
	if r.dirty && r.branches["main"] == "" {
		r.push("main")
	}
	commit, ok := r.branches[revision]
	if !ok {
		commit = revision
	}
	files, ok := r.commits[commit]
	if !ok {
		return "", nil
	}
	return commit, files
}

func (h *Hub) refuse(w http.ResponseWriter, r *http.Request, stage Stage, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	if message != "" {
		w.Header().Set("X-Error-Message", message)
	}
	h.answer(w, r, stage, status, message)
}

func (h *Hub) serveRevision(w http.ResponseWriter, r *http.Request, repo *Repo, commit string, files []*file) {
	type sibling struct {
		Name string `json:"rfilename"`
	}
	siblings := make([]sibling, len(files))
	for i, f := range files {
		siblings[i].Name = f.Path
	}
	h.mu.Lock()
	private, gated := repo.private, repo.gated
	h.mu.Unlock()
	h.answerJSON(w, r, map[string]any{"id": repo.name, "sha": commit, "private": private, "gated": gated, "siblings": siblings})
}

// entries returns files in the form of listings.
func entries(files []*file) []map[string]any {
	list := []map[string]any{}
	for _, f := range files {
		e := map[string]any{"type": "file", "path": f.Path, "size": f.Content.Size(), "oid": f.oid}
		if f.LFS {
			e["lfs"] = map[string]any{"oid": f.etag, "size": f.Content.Size(), "pointerSize": 130}
			e["xetHash"] = f.etag
		}
		list = append(list, e)
	}
	return list
}

// serveTree answers a listing page by page. Folders have entries too.
func (h *Hub) serveTree(w http.ResponseWriter, r *http.Request, files []*file, folder string) {
	var inside []*file
	folders := map[string]bool{}
	var list []map[string]any
	for _, f := range files {
		rel, ok := strings.CutPrefix(f.Path, folder)
		rel, ok2 := strings.CutPrefix(rel, "/")
		if folder != "" && (!ok || !ok2) {
			continue
		}
		if top, _, nested := strings.Cut(rel, "/"); nested {
			if !folders[top] {
				folders[top] = true
				list = append(list, map[string]any{"type": "directory", "path": top, "size": 0, "oid": ""})
			}
			if r.URL.Query().Get("recursive") != "true" {
				continue
			}
		}
		inside = append(inside, f)
	}
	list = append(list, entries(inside)...)
	h.mu.Lock()
	size := h.pageSize
	h.mu.Unlock()
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	from = min(max(from, 0), len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		q := r.URL.Query()
		q.Set("cursor", strconv.Itoa(to))
		// As a mirror does, name the hub that is mirrored.
		w.Header().Set("Link", fmt.Sprintf(`<https://huggingface.co%s?%s>; rel="next"`, r.URL.EscapedPath(), q.Encode()))
	}
	h.answerJSON(w, r, list[from:to])
}

func (h *Hub) servePaths(w http.ResponseWriter, r *http.Request, files []*file) {
	r.ParseForm()
	var found []*file
	for _, f := range files {
		if slices.Contains(r.Form["paths"], f.Path) {
			found = append(found, f)
		}
	}
	h.answerJSON(w, r, entries(found))
}

func (h *Hub) answerJSON(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("testhub: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("RateLimit", `"api";r=499;t=300`)
	h.answer(w, r, API, http.StatusOK, string(b))
}

// serveResolve answers with the metadata of a file and its bytes or, for large files, a signed link to them.
func (h *Hub) serveResolve(w http.ResponseWriter, r *http.Request, p place, repo *Repo, commit string, files []*file, fault Fault) {
	header := w.Header()
	at := slices.IndexFunc(files, func(f *file) bool { return f.Path == p.path })
	header.Set("X-Repo-Commit", commit)
	header.Set("RateLimit", `"resolvers";r=2999;t=300`)
	if fault.Kind == OtherCommit {
		header.Set("X-Repo-Commit", strings.Repeat("0", 40))
	}
	if at < 0 {
		h.refuse(w, r, Resolve, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	f := files[at]
	if fault.Kind == NoMetadata {
		header.Del("X-Repo-Commit")
	}
	if !f.LFS {
		if p.kind == "resolve" && !(fault.Kind == Loop) {
			// Small files are kept in a cache of the hub itself, whose address needs its query.
			header.Set("Location", fmt.Sprintf("/api/resolve-cache/models/%s/%s/%s?etag=%s", repo.name, commit, escapePath(f.Path), f.etag))
			h.answer(w, r, Resolve, http.StatusTemporaryRedirect, "")
			return
		}
		if p.kind == "cache" && r.URL.Query().Get("etag") != f.etag {
			h.refuse(w, r, Resolve, http.StatusBadRequest, "", "the query is missing")
			return
		}
		h.serveFile(w, r, Resolve, f, fault)
		return
	}
	if fault.Kind != Detour && h.disturb(w, r, Resolve, fault, &part{total: f.Content.Size()}) {
		return
	}
	if fault.Kind != NoMetadata {
		etag, size := f.etag, f.Content.Size()
		switch fault.Kind {
		case OtherETag:
			etag = strings.Repeat("0", 64)
		case Shrunk:
			size = min(size, fault.After)
		}
		header.Set("X-Linked-Etag", `"`+etag+`"`)
		header.Set("X-Linked-Size", strconv.FormatInt(size, 10))
		header.Set("X-Xet-Hash", strings.Repeat("f", 64))
		header.Set("ETag", `"`+f.oid+`"`)
	}
	h.mu.Lock()
	link := h.link(repo.name, commit, f)
	h.mu.Unlock()
	if fault.Kind == Detour {
		link = h.Moved(link)
	}
	header.Set("Location", link)
	h.answer(w, r, Resolve, http.StatusFound, "Found. Redirecting to the content\n")
}

func escapePath(p string) string {
	return strings.ReplaceAll(url.PathEscape(p), "%2F", "/")
}
