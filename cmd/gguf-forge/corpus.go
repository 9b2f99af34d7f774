package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gguf-forge/corpus"
	"gguf-forge/internal/fault"
	"gguf-forge/tokenizer"
)

type corpusCmd struct {
	Fetch corpusFetchCmd `cmd:"" help:"Fetch texts to choose ids from: Wikipedia, Project Gutenberg, code."`
}

type corpusFetchCmd struct {
	Wikipedia fetchWikipediaCmd `cmd:"" help:"Articles of Wikipedia in chosen languages, as plain text."`
	Gutenberg fetchGutenbergCmd `cmd:"" help:"Books of Project Gutenberg by number."`
	Code      fetchCodeCmd      `cmd:"" help:"Source files of repositories on GitHub."`
}

// fetchFlags are common to all services.
type fetchFlags struct {
	Dir     string        `short:"o" default:"." placeholder:"DIR" help:"Folder for the texts (default .)."`
	Contact string        `placeholder:"ADDRESS" help:"E-mail address or page of yours, sent with every request so that the service can reach you."`
	Pause   time.Duration `default:"2s" placeholder:"TIME" help:"Pause between requests (default 2s)."`
	Pins    string        `placeholder:"FILE" predictor:"file" help:"List of hashes (.sha256) of an earlier fetch: nothing else is accepted."`
	JSON    bool          `help:"Print as JSON."`
}

const fetchHelp = "Texts go into NAME.jsonl, one document a line, and their SHA-256 into NAME.sha256; the part of a recipe that declares them is printed. " +
	"A fetch that broke off is continued by the same command. Written after the services' documented interface and tested against a server that speaks it, not against the services themselves."

type fetchWikipediaCmd struct {
	Languages []string `name:"language" short:"l" required:"" placeholder:"CODE" help:"Languages, as in the address of their Wikipedia: en,de,zh."`
	Pages     int      `placeholder:"N" help:"Number of random articles per language."`
	Titles    []string `name:"title" sep:"none" placeholder:"TITLE" help:"An article by title; needs one language."`
	Endpoint  string   `placeholder:"URL" help:"Address of the API; {language} is replaced."`
	fetchFlags
}

func (c *fetchWikipediaCmd) Help() string { return fetchHelp }

func (c *fetchWikipediaCmd) Run(ctx context.Context, a *app) error {
	pins, err := c.readPins()
	if err != nil {
		return err
	}
	switch {
	case c.Contact == "":
		return usageErrorOf("Wikimedia asks whoever fetches texts for a way to reach them", "add --contact with an e-mail address or a page of yours")
	case len(c.Languages) > 1 && (len(c.Titles) > 0 || len(pins) > 0):
		return fault.New(fault.Usage, "titles and a list of hashes belong to one language")
	case (c.Pages > 0) == (len(c.Titles) > 0) && len(pins) == 0:
		return fault.New(fault.Usage, "either --pages or --title is needed")
	}
	for _, language := range c.Languages {
		w := &corpus.Wikipedia{Endpoint: c.Endpoint, Language: language, Titles: c.Titles, Pages: c.Pages}
		for _, p := range pins {
			id, err := strconv.ParseInt(strings.TrimPrefix(p.ID, "wikipedia:"+language+":"), 10, 64)
			if err != nil {
				return fault.New(fault.BadInput, "%s: %s is no article of this language", c.Pins, p.ID)
			}
			w.PageIDs = append(w.PageIDs, id)
		}
		if err := c.fetch(ctx, a, w, "wikipedia-"+language, language, pins); err != nil {
			return err
		}
	}
	return nil
}

type fetchGutenbergCmd struct {
	Books    []int  `name:"book" short:"b" required:"" placeholder:"N" help:"Numbers of the books: 1342,84."`
	Language string `short:"l" placeholder:"CODE" help:"Language of the books, for the recipe."`
	Name     string `default:"gutenberg" placeholder:"NAME" help:"Name of the corpus (default gutenberg)."`
	Endpoint string `placeholder:"URL" help:"Address of a mirror."`
	fetchFlags
}

func (c *fetchGutenbergCmd) Help() string { return fetchHelp }

func (c *fetchGutenbergCmd) Run(ctx context.Context, a *app) error {
	pins, err := c.readPins()
	if err != nil {
		return err
	}
	slices.Sort(c.Books)
	return c.fetch(ctx, a, &corpus.Gutenberg{Endpoint: c.Endpoint, Books: slices.Compact(c.Books)}, c.Name, c.Language, pins)
}

type fetchCodeCmd struct {
	Repositories []string `name:"repository" short:"r" required:"" placeholder:"OWNER/NAME[@REF]" help:"Repositories, each at a branch, tag or commit."`
	Extensions   []string `name:"extension" short:"e" required:"" placeholder:"EXT" help:"Extensions of the files that are taken: go,py,c."`
	Name         string   `default:"code" placeholder:"NAME" help:"Name of the corpus (default code)."`
	Endpoint     string   `placeholder:"URL" help:"Address of the API."`
	fetchFlags
}

func (c *fetchCodeCmd) Help() string { return fetchHelp }

func (c *fetchCodeCmd) Run(ctx context.Context, a *app) error {
	pins, err := c.readPins()
	if err != nil {
		return err
	}
	return c.fetch(ctx, a, &corpus.Code{Endpoint: c.Endpoint, Repositories: c.Repositories, Extensions: c.Extensions}, c.Name, "code", pins)
}

func (c fetchFlags) readPins() ([]corpus.Pin, error) {
	if c.Pins == "" {
		return nil, nil
	}
	b, err := os.ReadFile(c.Pins)
	if err != nil {
		return nil, fault.New(fault.BadInput, "%w", err)
	}
	pins, err := corpus.ReadPins(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Pins, err)
	}
	return pins, nil
}

func (c fetchFlags) fetch(ctx context.Context, a *app, s corpus.Service, name, language string, pins []corpus.Pin) error {
	if !tokenizer.ValidCorpusName(name) {
		return fault.New(fault.Usage, "%q can't be the name of a corpus: letters, digits, and . _ + - are needed", name)
	}
	f, err := corpus.NewFetcher(moduleVersion(), corpus.FetchOptions{Contact: c.Contact, Pause: c.Pause, Log: func(line string) { a.note("gguf-forge: %s", line) }})
	if err != nil {
		return err
	}
	a.resume = func() string { return "what was received is kept; run the same command again to go on" }
	done, err := f.Fetch(ctx, s, c.Dir, name, pins)
	if err != nil {
		return err
	}
	a.note("%s: %d documents, %d of them new, %d bytes", done.Path, done.Documents, done.New, done.Size)
	if c.JSON {
		return a.printJSON(done)
	}
	text := "- name: " + name + "\n"
	if language != "" {
		text += "  language: " + language + "\n"
	}
	_, err = fmt.Fprintf(a.stdout, "%s  path: %s\n  sha256: %s\n", text, strconv.Quote(done.Path), done.SHA256)
	return err
}
