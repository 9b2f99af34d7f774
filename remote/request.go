package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"gguf-forge/internal/fault"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	maxHops      = 10      // redirects in a row
	maxErrorText = 4 << 10 // bytes read of a body that is no data
)

// send makes one request, repeated as a allows, and follows nothing. Whether the token goes along is decided here,
// by the address of this very request. The caller closes the body.
func (c *Client) send(ctx context.Context, method string, u *url.URL, header http.Header, a *attempts) (*http.Response, error) {
	req, err := retryablehttp.NewRequestWithContext(context.WithValue(ctx, attemptsKey{}, a), method, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Network, "%s is no address that can be asked", cleanURL(u))
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if c.maySeeToken(u) {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.retry.Do(req)
	if err != nil {
		if resp != nil {
			resp.Body.Close()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, c.unreachable(u, reason(err))
	}
	if w := resp.Header.Get("X-HF-Warning"); w != "" && c.isHub(u) {
		if _, seen := c.warned.LoadOrStore(w, true); !seen {
			c.logf("the hub warns: %s", c.redact(printable(w)))
		}
	}
	return resp, nil
}

func (c *Client) unreachable(u *url.URL, why string) error {
	if c.offline {
		return fault.WithHint(fault.New(fault.Network, "%s is not available offline", cleanURL(u)), "unset HF_HUB_OFFLINE to use the network")
	}
	hint := "check the connection and try again"
	if c.isHub(u) {
		hint += "; HF_HUB_OFFLINE=1 uses what is in the hub cache, HF_ENDPOINT names another hub"
	}
	return fault.WithHint(fault.New(fault.Network, "can't reach %s: %s", u.Host, why), "%s", hint)
}

// follow says which redirects a request may take.
type follow int

const (
	anywhere  follow = iota // a download: to any host, without the token
	insideHub               // metadata: a redirect that leaves the hub is itself the answer
)

// walk sends a request and takes redirects one by one. It returns the last answer and the address that gave it.
// Redirects from https to http and endless chains are refused.
func (c *Client) walk(ctx context.Context, method string, u *url.URL, header http.Header, how follow, a *attempts) (*http.Response, *url.URL, error) {
	for range maxHops + 1 {
		resp, err := c.send(ctx, method, u, header, a)
		if err != nil {
			return nil, nil, err
		}
		next, err := redirect(resp, u)
		if err != nil {
			resp.Body.Close()
			return nil, nil, err
		}
		if next == nil || how == insideHub && !c.isHub(next) {
			return resp, u, nil
		}
		resp.Body.Close()
		if next.RawQuery == "" && c.isHub(u) && c.isHub(next) {
			next.RawQuery = u.RawQuery // a renamed repository keeps the question that was asked
		}
		u = next
	}
	return nil, nil, fault.New(fault.Network, "%s: more than %d redirects in a row", cleanURL(u), maxHops)
}

// redirect returns where an answer to u sends us, nil if it doesn't.
func redirect(resp *http.Response, u *url.URL) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	next, err := u.Parse(location)
	if location == "" || err != nil || next.Host == "" || next.Scheme != "http" && next.Scheme != "https" {
		return nil, fault.New(fault.Network, "%s redirects to no valid address", cleanURL(u))
	}
	if u.Scheme == "https" && next.Scheme == "http" {
		return nil, fault.New(fault.Network, "%s redirects to unencrypted http on %s, which is refused", cleanURL(u), next.Host)
	}
	next.User = nil
	return next, nil
}

// errorText returns the beginning of a body as one printable line, for an error message. Of a storage service's XML
// only code and message are kept: the rest may repeat the signature.
func (c *Client) errorText(resp *http.Response) string {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	text := string(b)
	if code, ok := between(text, "<Code>", "</Code>"); ok {
		message, _ := between(text, "<Message>", "</Message>")
		text = code + ": " + message
	}
	return c.redact(printable(text))
}

// redact removes the token from a server's text, should the server repeat it.
func (c *Client) redact(text string) string {
	if c.token == "" {
		return text
	}
	return strings.ReplaceAll(text, c.token, "(token)")
}

func between(s, begin, end string) (string, bool) {
	_, s, ok := strings.Cut(s, begin)
	if !ok {
		return "", false
	}
	s, _, ok = strings.Cut(s, end)
	return s, ok
}

// printable makes one line of a server's text, so that it can't rewrite the terminal.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// requestID returns what a server's operator needs to find a request in his logs.
func requestID(resp *http.Response) string {
	for _, key := range []string{"X-Request-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Amz-Request-Id"} {
		if v := resp.Header.Get(key); v != "" {
			return fmt.Sprintf(" (request %.100s)", printable(v))
		}
	}
	return ""
}

// kindOr returns the kind of err, or def if it has none.
func kindOr(err error, def fault.Kind) fault.Kind {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Kind
	}
	return def
}
