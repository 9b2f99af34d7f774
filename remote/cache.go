package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gguf-forge/internal/fault"
)

// The hub cache is shared with the hub's own client: it is only read here, without locks. Half-loaded blobs
// (*.incomplete) prove nothing and are never used.

// The digests of nothing: the only names an empty blob may have.
const (
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	emptyGitID  = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
)

// cacheFolder returns a repository's folder, "" without a cache.
func (c *Client) cacheFolder(repo string) string {
	if c.cacheDir == "" {
		return ""
	}
	kind, name := repoKind(repo)
	return filepath.Join(c.cacheDir, kind+"--"+strings.ReplaceAll(name, "/", "--"))
}

// cachedCommit reads refs/{revision}.
func (c *Client) cachedCommit(repo, revision string) (string, error) {
	offline := func(why string) error {
		return fault.WithHint(fault.New(fault.Network, "%s@%s is not in the hub cache%s, and the client is offline", repo, revision, colon(why)),
			"unset HF_HUB_OFFLINE, or fetch the files with the hub's own client first")
	}
	if c.cacheDir == "" {
		return "", offline("there is no cache")
	}
	ref := filepath.Join(c.cacheFolder(repo), "refs", filepath.FromSlash(revision))
	b, err := os.ReadFile(ref)
	if err != nil {
		return "", offline("")
	}
	commit := strings.TrimSpace(string(b))
	if !isCommit(commit) {
		return "", offline("its ref holds no commit")
	}
	return commit, nil
}

// cached opens a file of the cache. A nil source without an error is a miss; miss says what is wrong with a copy that is
// there but isn't used.
func (c *Client) cached(ctx context.Context, id Identity) (src Source, miss string, err error) {
	repo := c.cacheFolder(id.Repo)
	if repo == "" {
		return nil, "", nil
	}
	name := filepath.FromSlash(id.Path)
	link := filepath.Join(repo, "snapshots", id.Commit, name)
	if _, err := os.Lstat(link); err != nil {
		if _, err := os.Stat(filepath.Join(repo, ".no_exist", id.Commit, name)); err == nil {
			return nil, "", fault.WithHint(fault.New(fault.BadInput, "%s: the repository has no such file at this revision, says the hub cache", id),
				"see the files on %s/%s", c.endpoint, id.Repo)
		}
		return nil, "", nil
	}
	real, miss := insideOf(repo, link)
	if miss != "" {
		return nil, miss, nil
	}
	id.Kind = "cache"
	blob := ""
	if filepath.Base(filepath.Dir(real)) == "blobs" {
		blob = filepath.Base(real)
	}
	switch {
	case IsSHA256(blob):
		id.SHA256 = blob
	case isCommit(blob):
		id.ETag = blob
	}
	f, err := openFile(real, id)
	if err != nil {
		return nil, err.Error(), nil
	}
	if miss, err = c.checkCached(ctx, f, blob); miss != "" || err != nil {
		f.Close()
		return nil, miss, err
	}
	return f, "", nil
}

// insideOf follows a link of the cache, which must end at a whole file inside the repository's folder.
func insideOf(repo, link string) (real, why string) {
	root, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return "", "its folder can't be read"
	}
	real, err = filepath.EvalSymlinks(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "its link is broken"
	}
	if err != nil {
		return "", "its link can't be followed"
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", "its link leaves the cache"
	}
	if strings.HasSuffix(real, ".incomplete") {
		return "", "it is incomplete"
	}
	return real, ""
}

// checkCached compares what is known about a blob with the file: its size with the cached listing and, if the client was
// told to, all of it with its name.
func (c *Client) checkCached(ctx context.Context, f *file, blob string) (miss string, err error) {
	if f.id.Size == 0 && blob != "" && blob != emptySHA256 && blob != emptyGitID {
		return "it is empty", nil
	}
	if size, ok := c.cachedTree(f.id.Repo, f.id.Commit)[f.id.Path]; ok && size != f.id.Size {
		return "its size is wrong", nil
	}
	if !c.checkAll || !IsSHA256(blob) && !isCommit(blob) {
		return "", nil
	}
	all, err := f.Stream(ctx, 0, f.id.Size)
	if err != nil {
		return "", err
	}
	got, err := blobDigest(blob, all, f.id.Size)
	if err != nil {
		return "", err
	}
	if got != blob {
		return "it doesn't have the digest that is its name", nil
	}
	return "", nil
}

// cachedTree returns the sizes of a commit's files where a newer hub client has left its listing.
func (c *Client) cachedTree(repo, commit string) map[string]int64 {
	b, err := os.ReadFile(filepath.Join(c.cacheFolder(repo), "trees", commit+".json"))
	if err != nil {
		return nil
	}
	var tree struct {
		Files map[string]struct {
			Size *int64 `json:"size"`
		} `json:"files"`
	}
	if json.Unmarshal(b, &tree) != nil {
		return nil
	}
	sizes := map[string]int64{}
	for name, f := range tree.Files {
		if f.Size != nil {
			sizes[name] = *f.Size
		}
	}
	return sizes
}

// cachedList returns what the cache has of a commit, which need not be all its files.
func (c *Client) cachedList(repo, commit string) ([]Entry, error) {
	if c.cacheDir == "" {
		return nil, fault.New(fault.Network, "%s@%s: there is no cache, and the client is offline", repo, commit)
	}
	root := filepath.Join(c.cacheFolder(repo), "snapshots", commit)
	var list []Entry
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		real, why := insideOf(c.cacheFolder(repo), p)
		if why != "" {
			return nil
		}
		info, err := os.Stat(real)
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		e := Entry{Path: filepath.ToSlash(rel), Size: info.Size()}
		if blob := filepath.Base(real); filepath.Base(filepath.Dir(real)) == "blobs" {
			if IsSHA256(blob) {
				e.SHA256 = blob
			} else {
				e.BlobID = blob
			}
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fault.New(fault.Network, "%s@%.12s is not in the hub cache, and the client is offline", repo, commit)
	}
	return list, nil
}
