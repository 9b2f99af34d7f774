package remote

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// longestDemand is the longest wait a server may ask for: one rate limit window of the hub.
const longestDemand = 5 * time.Minute

// attempts counts failures since the last progress. One counter serves a whole transfer: the retries of single
// requests and the continuations of cut bodies draw on the same bound. It belongs to one goroutine.
type attempts struct{ failures int }

type attemptsKey struct{}

// newRetrier returns the client that repeats a request until it gets an answer worth looking at.
func (c *Client) newRetrier() *retryablehttp.Client {
	base := c.transport
	if c.offline {
		base = refuseAll{}
	}
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     watchdog{base, c.stall},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     math.MaxInt32, // worthRetry decides
		RetryWaitMin: c.firstWait,
		RetryWaitMax: c.maxWait,
		CheckRetry:   c.worthRetry,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// worthRetry decides whether an attempt is repeated, and counts it.
func (c *Client) worthRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	why := ""
	switch {
	case err != nil:
		if permanent(ctx, err) {
			return false, err
		}
		why = reason(err)
	case transient(resp.StatusCode):
		if wait, ok := demanded(resp); ok && wait > longestDemand {
			return false, nil
		}
		why = resp.Status
	default:
		return false, nil
	}
	a, _ := ctx.Value(attemptsKey{}).(*attempts)
	if a == nil || a.failures >= c.retries {
		return false, err
	}
	a.failures++
	c.logf("attempt failed (%s), trying again (%d of %d)", why, a.failures, c.retries)
	return true, nil
}

// transient reports statuses that another attempt may cure.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// permanent reports errors before any answer that another attempt can't cure.
func permanent(ctx context.Context, err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return true
	}
	retry, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err) // knows certificate, scheme and header errors
	return !retry
}

// backoff returns what the server asks for, else min, 2·min, 4·min … up to max; up to half of it is taken off at
// random, so that parallel transfers do not come back together.
func backoff(min, max time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if wait, ok := demanded(resp); ok {
			return wait + rand.N(min/4+1)
		}
	}
	wait := min << attempt
	if attempt > 20 || wait > max {
		wait = max
	}
	return wait - rand.N(wait/2+1)
}

// pause waits before the next request after a failure that retryablehttp did not see.
func (c *Client) pause(ctx context.Context, a *attempts) error {
	timer := time.NewTimer(backoff(c.firstWait, c.maxWait, max(a.failures-1, 0), nil))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// demanded returns the wait a server asks for: Retry-After in seconds or as a date, else the reset time of
// a used-up RateLimit bucket.
func demanded(resp *http.Response) (time.Duration, bool) {
	if v := strings.TrimSpace(resp.Header.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseInt(v, 10, 32); err == nil {
			return time.Duration(max(s, 0)) * time.Second, true
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(at.Sub(serverTime(resp)), 0), true
		}
	}
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	wait, found := time.Duration(0), false
	for bucket := range strings.SplitSeq(strings.Join(resp.Header.Values("RateLimit"), ","), ",") {
		left, reset := int64(-1), int64(-1)
		for param := range strings.SplitSeq(bucket, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			n, err := strconv.ParseInt(value, 10, 32)
			switch {
			case err != nil:
			case key == "r":
				left = n
			case key == "t":
				reset = n
			}
		}
		if left == 0 && reset >= 0 {
			wait, found = max(wait, time.Duration(reset+1)*time.Second), true
		}
	}
	return wait, found
}

// serverTime returns the server's clock, ours if it doesn't tell.
func serverTime(resp *http.Response) time.Time {
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}

// reason returns the text of a network error without the addresses that net/http puts into it: they may be signed.
func reason(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return queryPattern.ReplaceAllString(err.Error(), "?")
}

var queryPattern = regexp.MustCompile(`\?[^\s"]+`)
