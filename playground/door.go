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

// isPage reports whether a request is for something that is the same for everybody and calls nothing.
func isPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.Path != "/rpc" && !strings.HasPrefix(r.URL.Path, "/session/")
}

// admit is the door: it returns why r may not come in, or nil. It counts wrong tokens too: ten in a minute close it for the next one,
// whoever asks, so a page stops asking when it is refused.
func (p *Playground) admit(r *http.Request) *guard.Refusal {
	f := p.door.Check(r)
	if f != nil && p.refusals.due(time.Now()) {
		p.options.Log("refused: " + http.StatusText(f.Status) + ": " + f.Text)
	}
	return f
}

// refusals keeps a web page from filling the terminal: one line a second is told.
type refusals struct {
	mu   sync.Mutex // guards what is below
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
	_, _ = io.WriteString(w, "ok") // the prober may be gone
}
