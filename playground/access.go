package playground

import (
	"io"
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

// isPage reports whether a request is for a static resource, which is the same for everyone and
// calls nothing.
func isPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.Path != "/rpc" && !strings.HasPrefix(r.URL.Path, "/session/")
}

// admit returns the reason for refusing r, or nil. It counts wrong tokens: after ten in a minute,
// further wrong tokens get status 429. The right token is always accepted.
func (p *Playground) admit(r *http.Request) *guard.Refusal {
	f := p.door.Check(r)
	if f != nil && p.refusals.due(time.Now()) {
		p.options.Log("refused: " + http.StatusText(f.Status) + ": " + f.Text)
	}
	return f
}

// refusals limits the log output that a web page can cause: one line is logged per second.
type refusals struct {
	mu   sync.Mutex // guards the fields below
	last time.Time
}

func (r *refusals) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < time.Second {
		return false
	}
	r.last = now
	return true
}

func serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok") // the client may have disconnected
}
