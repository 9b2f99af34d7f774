package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCorpusScripts runs the scripts of testdata/corpus with a server on the loopback interface that has the books 1 to 9 of
// a Project Gutenberg mirror and article 5 of a Wikipedia. Every fourth request fails for good.
func TestCorpusScripts(t *testing.T) {
	needProcesses(t)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch {
		case requests.Add(1)%4 == 0:
			http.Error(w, "enough for now", http.StatusForbidden)
		case r.URL.Path == "/en/api.php":
			if !strings.Contains(r.UserAgent(), "me@example.org") {
				t.Errorf("agent %q", r.UserAgent())
			}
			fmt.Fprint(w, `{"query":{"random":[{"id":5,"ns":0,"title":"Five"}],"pages":[{"pageid":5,"title":"Five","extract":"Five is a number.","revisions":[{"revid":77}]}]}}`)
		default:
			if _, err := fmt.Sscanf(r.URL.Path, "/cache/epub/%d/", &n); err != nil || n < 1 || n > 9 {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, "*** START OF THE PROJECT GUTENBERG EBOOK ***\r\nChapter %d\r\n*** END OF THE PROJECT GUTENBERG EBOOK ***\r\n", n)
		}
	}))
	t.Cleanup(server.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/corpus",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SERVICE", server.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": exitCommand},
	})
}
