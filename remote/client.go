package remote

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"gguf-forge/internal/fault"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// PublicEndpoint is the hub that is asked unless HF_ENDPOINT or WithEndpoint names another.
const PublicEndpoint = "https://huggingface.co"

const userAgent = "gguf-forge"

// Client opens sources. It keeps pinned commits and connections, so one client should serve a whole run.
// It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	token    string // explicit or from the environment; "" is anonymous
	cacheDir string // root of the hub cache; "" is none
	checkAll bool   // hash cached files when they are opened
	offline  bool
	log      func(string)

	transport http.RoundTripper
	retry     *retryablehttp.Client
	retries   int
	firstWait time.Duration
	maxWait   time.Duration
	stall     time.Duration
	conns     *semaphore.Weighted

	pins    sync.Map           // "repo@revision" → commit
	flights singleflight.Group // one resolve per revision or file at a time
	warned  sync.Map           // warnings of the hub already shown
}

// Option changes a Client. It fails when its value can't be used.
type Option func(*Client) error

// WithEndpoint sets the base address of the hub.
func WithEndpoint(address string) Option {
	return func(c *Client) error {
		u, err := url.Parse(strings.TrimRight(strings.TrimSpace(address), "/"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
			return fault.New(fault.Usage, "the hub endpoint %q is not an http or https address", cleanText(address))
		}
		c.endpoint = u
		return nil
	}
}

// WithToken sets the hub token; "" makes the client anonymous.
func WithToken(token string) Option {
	return func(c *Client) error {
		c.token = strings.TrimSpace(token)
		return validToken(c.token)
	}
}

// validToken refuses what can't stand in a header, without repeating it.
func validToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.New(fault.Usage, "the hub token contains blanks or characters outside ASCII")
	}
	return nil
}

// WithCache sets the root of the hub cache that is read before the network; "" uses none.
func WithCache(dir string) Option {
	return func(c *Client) error {
		c.cacheDir = dir
		return nil
	}
}

// WithCacheCheck hashes every cached file when it is opened and compares it with its blob's name.
// Without it only sizes are compared.
func WithCacheCheck(on bool) Option {
	return func(c *Client) error {
		c.checkAll = on
		return nil
	}
}

// WithOffline answers from the cache or fails; no request is made at all, to any host.
func WithOffline(on bool) Option {
	return func(c *Client) error {
		c.offline = on
		return nil
	}
}

// WithTransport replaces the HTTP transport.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) error {
		c.transport = rt
		return nil
	}
}

// WithRetry bounds retries: at most max attempts after the first one without a new byte, waiting first, 2·first,
// 4·first … up to longest, each shortened by a random part. A server's Retry-After is honoured beyond longest,
// up to five minutes.
func WithRetry(max int, first, longest time.Duration) Option {
	return func(c *Client) error {
		if max < 0 || first < 0 || longest < first {
			return fault.New(fault.Usage, "retry limits %d, %v, %v make no sense", max, first, longest)
		}
		c.retries, c.firstWait, c.maxWait = max, first, longest
		return nil
	}
}

// WithStallTimeout sets how long a transfer may stand still before it is cut and continued.
func WithStallTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return fault.New(fault.Usage, "the stall timeout must be positive")
		}
		c.stall = d
		return nil
	}
}

// WithLogger receives lines for the user: retries, refreshed links, warnings of the hub. It may be called
// from several goroutines at once.
func WithLogger(log func(string)) Option {
	return func(c *Client) error {
		c.log = log
		return nil
	}
}

// WithConcurrency sets how many ReadAt calls may have a request in flight at the same time, over all
// sources of the client. Streams are not counted: whoever opens them bounds them.
func WithConcurrency(n int) Option {
	return func(c *Client) error {
		if n < 1 {
			return fault.New(fault.Usage, "at least one connection is needed")
		}
		c.conns = semaphore.NewWeighted(int64(n))
		return nil
	}
}

// NewClient returns a client for the hub as the environment describes it; options win over the environment.
// It reads HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE,
// HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_DOWNLOAD_TIMEOUT, XDG_CACHE_HOME and the older names of these, once.
func NewClient(opts ...Option) (*Client, error) {
	c := &Client{log: func(string) {}}
	for _, opt := range append(environment(), opts...) {
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	if c.transport == nil {
		c.transport = newTransport()
	}
	c.retry = c.newRetrier()
	return c, nil
}

// environment returns the defaults and what the hub's own client would read from the environment.
func environment() []Option {
	home := firstEnv("HF_HOME")
	if home == "" {
		home = filepath.Join(cacheHome(), "huggingface")
	}
	cache := firstEnv("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
	if cache == "" {
		cache = filepath.Join(expandPath(home), "hub")
	}
	endpoint := firstEnv("HF_ENDPOINT")
	if endpoint == "" {
		endpoint = PublicEndpoint
	}
	opts := []Option{
		WithRetry(6, time.Second, 8*time.Second),
		WithStallTimeout(30 * time.Second),
		WithConcurrency(8),
		WithEndpoint(endpoint),
		WithCache(expandPath(cache)),
		WithOffline(isTrue("HF_HUB_OFFLINE") || isTrue("TRANSFORMERS_OFFLINE")),
	}
	if s, err := strconv.ParseFloat(os.Getenv("HF_HUB_DOWNLOAD_TIMEOUT"), 64); err == nil && s > 0 && s < 1e6 {
		opts = append(opts, WithStallTimeout(time.Duration(s*float64(time.Second))))
	}
	if !isTrue("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		opts = append(opts, WithToken(environmentToken(home)))
	}
	return opts
}

// environmentToken returns HF_TOKEN, else the content of the token file.
func environmentToken(home string) string {
	if t := firstEnv("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"); t != "" {
		return t
	}
	file := firstEnv("HF_TOKEN_PATH")
	if file == "" {
		file = filepath.Join(home, "token")
	}
	// A missing or unreadable file means anonymous, as for the hub's own client.
	b, err := os.ReadFile(expandPath(file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func firstEnv(names ...string) string {
	for _, name := range names {
		if v := strings.TrimSpace(os.Getenv(name)); v != "" {
			return v
		}
	}
	return ""
}

func isTrue(name string) bool {
	switch strings.ToUpper(strings.TrimSpace(os.Getenv(name))) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

func cacheHome() string {
	if dir := firstEnv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	return filepath.Join("~", ".cache")
}

// expandPath replaces a leading ~ and environment variables.
func expandPath(p string) string {
	p = os.ExpandEnv(p)
	if p == "~" || strings.HasPrefix(p, "~/") || runtime.GOOS == "windows" && strings.HasPrefix(p, `~\`) {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, p[1:])
		}
	}
	return p
}

// Endpoint returns the base address of the hub.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Offline reports whether the client makes no requests.
func (c *Client) Offline() bool { return c.offline }

func (c *Client) logf(format string, args ...any) { c.log(fmt.Sprintf(format, args...)) }

// isPublicHub reports whether host (with port) is the public hub itself, not one of its content servers.
func isPublicHub(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	return host == "huggingface.co" || host == "hf.co" || host == "www.huggingface.co"
}

// isHub reports whether u is on the hub this client talks to: the same scheme, host and port as the endpoint.
func (c *Client) isHub(u *url.URL) bool {
	if u.Scheme != c.endpoint.Scheme {
		return false
	}
	return sameHost(u, c.endpoint) || u.Scheme == "https" && isPublicHub(u.Host) && isPublicHub(c.endpoint.Host)
}

func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// maySeeToken reports whether the token may be sent to u: the hub itself, and never in clear text over a network.
func (c *Client) maySeeToken(u *url.URL) bool {
	if c.token == "" || !c.isHub(u) {
		return false
	}
	return u.Scheme == "https" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}
