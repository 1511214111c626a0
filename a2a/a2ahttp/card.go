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
	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/store"
)

const storageUnavailable = store.FaultCode

// cardCache stores when a card was last changed.
type cardCache struct {
	mu    sync.Mutex // guards the fields below
	tag   string
	since time.Time
}

// serveCard writes the card in the form for the client: v1.0 only, or one that clients of v0.3 can
// read too (A2A 1.0.1, section 8.6, for the headers).
func (s *Server) serveCard(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	counted := guard.Body{Memory: &s.memory}
	if refused := counted.Begin(r); refused != nil {
		refused.Write(w, r)
		return
	}
	defer counted.Done()
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
	counted.Writing(len(body))
	// an error means that the client has gone
	_ = progress.Respond(w, s.writeTimeout(), body)
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

// unchanged reports whether the client already has this card (RFC 9110, section 13.2.2).
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

// hostOf returns the scheme and host of the request.
func hostOf(r *http.Request) string {
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}
