package playground

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

func (p *Playground) newDoor() (*guard.Door, error) {
	return guard.New(&guard.Options{
		Hosts:   p.options.Hosts,
		Origins: p.options.Origins,
		Tokens:  []guard.Digest{guard.DigestOf(p.token)},
		Pages:   isPage,
	})
}

// isPage reports whether a request is for something that is the same for everybody and calls nothing.
func isPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.Path != "/rpc" && !strings.HasPrefix(r.URL.Path, "/session/")
}

// admit is the door: it returns why r may not come in, or nil.
func (p *Playground) admit(r *http.Request) *guard.Refusal {
	f := p.door.Check(r)
	if f == nil {
		return nil
	}
	if f.Status == http.StatusUnauthorized && p.limit.add(caller(r), time.Now()) {
		f = &guard.Refusal{Status: http.StatusTooManyRequests, Text: "too many wrong tokens; wait a minute", Name: "Retry-After", Value: "60"}
	}
	p.options.Log("refused: " + http.StatusText(f.Status) + ": " + f.Text)
	return f
}

func caller(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// How many wrong tokens one address may show in a minute, and how many addresses are remembered.
const (
	maxFailures  = 10
	maxOffenders = 1024
)

// failures counts wrong tokens by address. A right token always passes: a page of an earlier launch, which knows only the old
// one and asks again and again, must not lock out the new one.
type failures struct {
	mu   sync.Mutex // guards what is below
	seen map[string]*offender
}

type offender struct {
	since time.Time
	count int
}

// add counts a failure and reports whether it is one too many.
func (f *failures) add(who string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || len(f.seen) >= maxOffenders {
		f.seen = make(map[string]*offender)
	}
	o := f.seen[who]
	if o == nil || now.Sub(o.since) >= time.Minute {
		o = &offender{since: now}
		f.seen[who] = o
	}
	o.count++
	if o.count == maxFailures+1 {
		o.since = now // the minute of silence begins
	}
	return o.count > maxFailures
}

func serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok") // the prober may be gone
}
