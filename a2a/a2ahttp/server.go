package a2ahttp

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ContentType is the media type of the REST binding and of webhooks (A2A 1.0.1, section 14.1).
const ContentType = "application/a2a+json"

// Well-known paths of the agent card; the second is of 0.2 and older.
const (
	CardPath    = "/.well-known/agent-card.json"
	OldCardPath = "/.well-known/agent.json"
)

// A Server serves one [a2a.Server]. As a handler by itself it serves all at one base: the card at its paths and for a GET of
// the base itself, the REST binding, and the JSON-RPC binding wherever else a POST goes. RPC, REST, Card and WebSocket are the parts, to be mounted apart. Its fields must not
// change once it serves; it is safe for concurrent use.
//
// It asks who calls as the card says, and otherwise nothing: a door that looks at Host and Origin stands before it.
type Server struct {
	A2A *a2a.Server // needed

	// Authenticate says who calls, from credentials that one of the card's security requirements names; see [Credential]. It returns
	// [a2a.ErrUnauthenticated] or [a2a.ErrForbidden] for those that are not good, or not enough. Nil: a card with requirements lets
	// nobody in. Without requirements it is called with no credentials, if it is not nil.
	Authenticate func(r *http.Request, credentials []Credential) (principal string, err error)

	// MaxMessage bounds the body of one request, in bytes. Zero means 4 MiB, negative means no bound. More is 413.
	MaxMessage int64

	// CardMaxAge is how long a client may keep the card. Zero means 5 min.
	CardMaxAge time.Duration

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write. Zero means 10 s. A client that does not take its bytes in that time is hung up on.
	WriteTimeout time.Duration

	// Limits bound one payload.
	Limits jsonrpc.Limits

	setup    sync.Once
	answerer jsonrpc.Answerer
	memory   guard.Memory
	watch    guard.Watch
	cards    cardCache
}

func (s *Server) init() {
	s.setup.Do(func() {
		s.answerer.Limits = s.Limits
		s.A2A.Configure(&s.answerer)
		s.answerer.Cancellation = jsonrpc.Cancellation{} // a caller over HTTP hangs up
	})
}

// ServeHTTP serves all.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == CardPath || path == OldCardPath, (path == "/" || path == "") && r.Method == http.MethodGet:
		s.serveCard(w, r)
	case isREST(r):
		s.serveREST(w, r)
	default:
		s.serveRPC(w, r)
	}
}

// RPC serves the JSON-RPC binding, of both versions, at any path.
func (s *Server) RPC() http.Handler { return http.HandlerFunc(s.serveRPC) }

// REST serves the HTTP+JSON binding of v1.0 at the paths that the specification has; [http.StripPrefix] takes away what stands before.
func (s *Server) REST() http.Handler { return http.HandlerFunc(s.serveREST) }

// Card serves the agent card at any path.
func (s *Server) Card() http.Handler { return http.HandlerFunc(s.serveCard) }

// Interfaces are those of a Server, for its card: rpc and rest are the addresses of the two bindings, absolute, or paths, which the card then
// completes with the host that the caller named. An empty one is left out.
func Interfaces(rpc, rest string, versions ...a2a.Version) []a2a.AgentInterface {
	if len(versions) == 0 {
		versions = a2a.Versions()
	}
	var out []a2a.AgentInterface
	for _, v := range versions {
		if rpc != "" {
			out = append(out, a2a.AgentInterface{URL: rpc, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: v.String()})
		}
		if rest != "" && v == a2a.V10 {
			out = append(out, a2a.AgentInterface{URL: rest, ProtocolBinding: a2a.BindingREST, ProtocolVersion: v.String()})
		}
	}
	return out
}

// service reads the parameters beside a request.
func service(r *http.Request, principal string) a2a.Service {
	version := r.Header.Get(a2a.HeaderVersion)
	if strings.TrimSpace(version) == "" {
		version = r.URL.Query().Get(a2a.HeaderVersion)
	}
	return a2a.Service{Version: version, Principal: principal, LastEvent: r.Header.Get(a2a.HeaderLastEvent),
		Extensions: a2a.ParseExtensions(append(r.Header.Values(a2a.HeaderExtensions), r.Header.Values(a2a.HeaderExtensions03)...))}
}

// extensions tells the caller which extensions are in use.
func (s *Server) extensions(h, asked http.Header, svc a2a.Service) {
	used := strings.Join(s.A2A.Activated(svc.Extensions), ", ")
	if used == "" {
		return
	}
	for _, name := range []string{a2a.HeaderExtensions, a2a.HeaderExtensions03} {
		if len(asked.Values(name)) > 0 {
			h.Set(name, used)
		}
	}
}
