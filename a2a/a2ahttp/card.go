package a2ahttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/store"
)

const storageUnavailable = store.FaultCode

// cardCache remembers since when a card is as it is.
type cardCache struct {
	mu    sync.Mutex // guards what follows
	tag   string
	since time.Time
}

// serveCard answers with the card that fits the caller: of v1.0 alone, or one that clients of v0.3 read too (A2A 1.0.1, section 8.6, for the
// headers).
func (s *Server) serveCard(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	card := *s.A2A.Card()
	card.SupportedInterfaces = slices.Clone(card.SupportedInterfaces)
	relative := false
	for i := range card.SupportedInterfaces {
		in := &card.SupportedInterfaces[i]
		if strings.HasPrefix(in.URL, "/") {
			in.URL, relative = hostOf(r)+in.URL, true
		}
	}
	named := service(r, "").Version
	pure := a2a.ParseVersion(named) == a2a.V10 || !s.A2A.Speaks(a2a.V03)
	body := a2a.EncodeCard(&card, !pure)

	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	all := sha256.Sum256(a2a.EncodeCard(s.A2A.Card(), false))
	since := s.cards.firstSeen(hex.EncodeToString(all[:]))
	age := s.CardMaxAge
	if age <= 0 {
		age = 5 * time.Minute
	}
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Last-Modified", since.UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "max-age="+strconv.Itoa(int(age.Seconds())))
	h.Add("Vary", a2a.HeaderVersion)
	if relative {
		h.Add("Vary", "Host")
	}
	if unchanged(r, tag, since) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // if the client is gone there is nobody to tell
}

// firstSeen returns when the card with this tag was first seen.
func (c *cardCache) firstSeen(tag string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tag != tag {
		c.tag, c.since = tag, time.Now().Truncate(time.Second)
	}
	return c.since
}

// unchanged reports whether the caller has this card already (RFC 9110, section 13.2.2).
func unchanged(r *http.Request, tag string, since time.Time) bool {
	if none := r.Header.Values("If-None-Match"); len(none) > 0 {
		for _, value := range none {
			for one := range strings.SplitSeq(value, ",") {
				if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
					return true
				}
			}
		}
		return false
	}
	at, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !since.After(at)
}

// hostOf is the scheme and host that the caller named.
func hostOf(r *http.Request) string {
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}
