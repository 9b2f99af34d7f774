package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gguf-forge/internal/fault"
)

// Wikipedia fetches articles of one language as plain text, through MediaWiki's action API: list=random names articles,
// prop=extracts with explaintext gives the text of one. The service gives whole extracts only one by one, and only of the
// current revision, whose id is recorded.
type Wikipedia struct {
	Endpoint string   // api.php; {language} is replaced; "" is WikipediaEndpoint
	Language string   // code, as in the host name
	Titles   []string // the articles; none: Pages random ones
	Pages    int
	PageIDs  []int64 // the articles by id, instead of Titles
}

// WikipediaEndpoint is the address of the API.
const WikipediaEndpoint = "https://{language}.wikipedia.org/w/api.php"

const (
	randomBatch = 100 // articles named at once
	maxLag      = 5   // seconds the service's copies may be behind before it would rather not be asked
	lagTries    = 20
	emptyTries  = 50 // random batches without a single new article before we give up
)

var languagePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{1,20}$`)

// prefix begins the ids of the service's documents.
func (w *Wikipedia) prefix() string { return "wikipedia:" + w.Language + ":" }

// Wants implements Service. A title's page id isn't known before it is asked for.
func (w *Wikipedia) Wants(id string) bool {
	number, ok := strings.CutPrefix(id, w.prefix())
	n, err := strconv.ParseInt(number, 10, 64)
	return ok && err == nil && (len(w.PageIDs) == 0 || slices.Contains(w.PageIDs, n))
}

// Fetch implements Service.
func (w *Wikipedia) Fetch(ctx context.Context, f *Fetcher, r Received) error {
	if !languagePattern.MatchString(w.Language) {
		return fault.New(fault.Usage, "%q is no language of Wikipedia, such as en or zh-yue", w.Language)
	}
	switch {
	case len(w.PageIDs) > 0:
		for _, id := range w.PageIDs {
			if r.Has(w.id(id)) {
				continue
			}
			if err := w.named(ctx, f, url.Values{"pageids": {strconv.FormatInt(id, 10)}}, fmt.Sprint("page ", id), r); err != nil {
				return err
			}
		}
		return nil
	case len(w.Titles) > 0:
		return w.titles(ctx, f, r)
	}
	return w.random(ctx, f, r)
}

func (w *Wikipedia) id(page int64) string { return w.prefix() + strconv.FormatInt(page, 10) }

// titles fetches the named articles. Whether one is there already is only known by its page id, so the ids are asked first.
func (w *Wikipedia) titles(ctx context.Context, f *Fetcher, r Received) error {
	seen := map[int64]bool{}
	for _, title := range w.Titles {
		name := url.Values{"titles": {title}, "redirects": {"1"}}
		answer, err := w.ask(ctx, f, name)
		if err != nil {
			return err
		}
		p, err := onePage(answer, title)
		if err != nil {
			return err
		}
		if seen[p.PageID] {
			return fault.New(fault.BadInput, "%q is an article that another title names too (%s)", title, p.Title)
		}
		seen[p.PageID] = true
		if r.Has(w.id(p.PageID)) {
			continue
		}
		if err := w.named(ctx, f, url.Values{"pageids": {strconv.FormatInt(p.PageID, 10)}}, title, r); err != nil {
			return err
		}
	}
	if r.Len() > len(seen) {
		return moreThanAsked(r.Len(), len(seen))
	}
	return nil
}

func moreThanAsked(have, want int) error {
	err := fault.New(fault.BadInput, "%d documents are there already, %d are asked for", have, want)
	return fault.WithHint(err, "another name for the corpus starts anew")
}

// named fetches one article that must be there and have a text.
func (w *Wikipedia) named(ctx context.Context, f *Fetcher, page url.Values, name string, received Received) error {
	d, err := w.extract(ctx, f, page, name)
	if err != nil {
		return err
	}
	if d.Text == "" {
		return fault.New(fault.BadInput, "%s has no text", name)
	}
	return received.Add(d)
}

// random fetches articles until there are w.Pages in all.
func (w *Wikipedia) random(ctx context.Context, f *Fetcher, r Received) error {
	if w.Pages <= 0 {
		return fault.New(fault.Usage, "name articles, or say how many random ones are wanted")
	}
	for empty := 0; r.Len() < w.Pages; empty++ {
		if empty == emptyTries {
			return fault.New(fault.Network, "Wikipedia (%s) names no more articles that are new", w.Language)
		}
		limit := strconv.Itoa(min(randomBatch, w.Pages-r.Len()))
		answer, err := w.ask(ctx, f, url.Values{"list": {"random"}, "rnnamespace": {"0"}, "rnfilterredir": {"nonredirects"}, "rnlimit": {limit}})
		if err != nil {
			return err
		}
		for _, page := range answer.Query.Random {
			if r.Has(w.id(page.ID)) || r.Len() == w.Pages {
				continue
			}
			d, err := w.extract(ctx, f, url.Values{"pageids": {strconv.FormatInt(page.ID, 10)}}, page.Title)
			if err != nil {
				return err
			}
			if d.Text == "" {
				f.log(fmt.Sprintf("%s has no text and is left out", page.Title))
				continue
			}
			empty = -1
			if err := r.Add(d); err != nil {
				return err
			}
		}
	}
	if r.Len() > w.Pages {
		return moreThanAsked(r.Len(), w.Pages)
	}
	return nil
}

// extract fetches one article.
func (w *Wikipedia) extract(ctx context.Context, f *Fetcher, page url.Values, name string) (Document, error) {
	q := url.Values{"prop": {"extracts|revisions"}, "explaintext": {"1"}, "exlimit": {"1"}, "rvprop": {"ids"}}
	for key, v := range page {
		q[key] = v
	}
	answer, err := w.ask(ctx, f, q)
	if err != nil {
		return Document{}, err
	}
	p, err := onePage(answer, name)
	if err != nil {
		return Document{}, err
	}
	if p.Extract == nil || len(p.Revisions) != 1 || p.Revisions[0].ID <= 0 {
		return Document{}, fault.New(fault.Network, "Wikipedia (%s): the answer for %s has no extract or no revision", w.Language, name)
	}
	if !utf8.ValidString(*p.Extract) {
		return Document{}, fault.New(fault.BadInput, "Wikipedia (%s): the text of %s is not valid UTF-8", w.Language, name)
	}
	return Document{ID: w.id(p.PageID), Revision: strconv.FormatInt(p.Revisions[0].ID, 10), Title: p.Title,
		SHA256: hexSHA256([]byte(*p.Extract)), Text: *p.Extract}, nil
}

// wikiAnswer is an answer in formatversion 2.
type wikiAnswer struct {
	Error *struct{ Code, Info string }
	Query struct {
		Random []struct {
			ID    int64
			Title string
		}
		Pages []wikiPage
	}
}

type wikiPage struct {
	PageID    int64
	Title     string
	Missing   bool
	Invalid   bool
	Extract   *string
	Revisions []struct {
		ID int64 `json:"revid"`
	}
}

func onePage(a *wikiAnswer, name string) (wikiPage, error) {
	if len(a.Query.Pages) != 1 {
		return wikiPage{}, fault.New(fault.Network, "the answer for %s has %d pages instead of one", name, len(a.Query.Pages))
	}
	p := a.Query.Pages[0]
	if p.Missing || p.Invalid || p.PageID <= 0 {
		return wikiPage{}, fault.New(fault.BadInput, "there is no article %s", name)
	}
	return p, nil
}

// ask sends a query. A service that is busy (maxlag) or asks for a slower pace (ratelimited) is asked again later.
func (w *Wikipedia) ask(ctx context.Context, f *Fetcher, q url.Values) (*wikiAnswer, error) {
	endpoint := w.Endpoint
	if endpoint == "" {
		endpoint = WikipediaEndpoint
	}
	q.Set("action", "query")
	q.Set("format", "json")
	q.Set("formatversion", "2")
	q.Set("maxlag", strconv.Itoa(maxLag))
	address := strings.ReplaceAll(endpoint, "{language}", w.Language) + "?" + q.Encode()
	wait := f.busy
	for range lagTries {
		body, header, err := f.read(ctx, address, nil)
		if err != nil {
			return nil, err
		}
		var a wikiAnswer
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, fault.New(fault.Network, "Wikipedia (%s): the answer is no JSON of the API: %w", w.Language, err)
		}
		if a.Error == nil {
			return &a, nil
		}
		switch a.Error.Code {
		case "maxlag":
			asked := max(retryAfter(&http.Response{Header: header}), f.busy)
			f.log(fmt.Sprintf("Wikipedia (%s) is busy, waiting %v", w.Language, asked))
			if err := sleep(ctx, min(asked, longestWait)); err != nil {
				return nil, err
			}
		case "ratelimited":
			f.log(fmt.Sprintf("Wikipedia (%s) asks for a slower pace, waiting %v", w.Language, wait))
			if err := sleep(ctx, min(wait, longestWait)); err != nil {
				return nil, err
			}
			wait *= 2
		default:
			return nil, fault.New(fault.BadInput, "Wikipedia (%s): %s: %s", w.Language, a.Error.Code, a.Error.Info)
		}
	}
	return nil, fault.WithHint(fault.New(fault.Network, "Wikipedia (%s) stays busy", w.Language), "run the same command again later to go on")
}
