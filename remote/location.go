package remote

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// location is where the bytes of a file are at the moment, with the facts the server told about the file. A signed
// address is a credential: it is kept in memory only and never printed.
type location struct {
	url       *url.URL
	refreshAt time.Time // ask for a new address from then on; zero: no need

	commit    string // hub
	etag      string // identity of the content: hub digests where they are known
	size      int64
	validator string // what the server behind url calls the content, if it said so
}

// refreshMargin is how long before its deadline a signed address is given up.
const refreshMargin = time.Minute

// refreshTime returns when a signed address must be renewed: a minute before its deadline, or half of its
// remaining life before, whichever is later. The server's clock counts, not ours.
func refreshTime(u *url.URL, resp *http.Response) time.Time {
	deadline := signatureDeadline(u.Query())
	if deadline.IsZero() {
		return time.Time{}
	}
	left := max(deadline.Sub(serverTime(resp)), 0)
	return time.Now().Add(left - min(refreshMargin, left/2))
}

// signatureDeadline reads the two common ways of signing: X-Amz-Date with X-Amz-Expires, and Expires or Policy.
func signatureDeadline(q url.Values) time.Time {
	if date, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date")); err == nil {
		if s, err := strconv.ParseInt(q.Get("X-Amz-Expires"), 10, 32); err == nil {
			return date.Add(time.Duration(s) * time.Second)
		}
	}
	if s, err := strconv.ParseInt(q.Get("Expires"), 10, 64); err == nil && s > 0 {
		return time.Unix(s, 0)
	}
	plain := strings.NewReplacer("-", "+", "_", "=", "~", "/").Replace(q.Get("Policy"))
	b, err := base64.StdEncoding.DecodeString(plain)
	if err != nil {
		return time.Time{}
	}
	var policy struct {
		Statement []struct {
			Condition struct {
				DateLessThan struct {
					Epoch int64 `json:"AWS:EpochTime"`
				}
			}
		}
	}
	if json.Unmarshal(b, &policy) != nil || len(policy.Statement) == 0 || policy.Statement[0].Condition.DateLessThan.Epoch <= 0 {
		return time.Time{}
	}
	return time.Unix(policy.Statement[0].Condition.DateLessThan.Epoch, 0)
}
