package a2ahttp

import (
	"context"
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
// It lets in programs on this machine, and asks who calls as the card says. [Server.Drain] ends it before the http.Server: streams would
// hold that up.
type Server struct {
	A2A *a2a.Server // needed

	// Hosts are further names that the Host header may have: "host", "host:port", or "host:*". localhost, 127.0.0.1 and [::1] with
	// the listening port always pass. Another Host is answered 403: it may be a web page's (DNS rebinding). An entry that can never match
	// lets nobody in; [CheckNames] tells before.
	Hosts []string

	// Origins are further web pages that may call, such as "https://app.example:8443". Those of the Host list always pass. Another
	// Origin is answered 403.
	Origins []string

	// Unguarded leaves Host and Origin to whoever stands in front.
	Unguarded bool

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

	// MaxRunning bounds the requests that run at once, streams among them. Zero means 4,096. More are answered -31001.
	MaxRunning int64

	setup    sync.Once
	door     *guard.Door // nil: somebody else's business
	shut     *guard.Refusal
	gate     jsonrpc.Gate
	answerer jsonrpc.Answerer
	memory   guard.Memory
	watch    guard.Watch
	cards    cardCache
}

func (s *Server) init() {
	s.setup.Do(func() {
		if s.gate.Max = s.MaxRunning; s.gate.Max <= 0 {
			s.gate.Max = 4096
		}
		s.answerer.Limits, s.answerer.Gate = s.Limits, &s.gate
		if !s.Unguarded {
			var err error
			if s.door, err = guard.New(&guard.Options{Hosts: s.Hosts, Origins: s.Origins}); err != nil {
				s.shut = &guard.Refusal{Status: http.StatusInternalServerError, Text: "this server is not set up"}
			}
		}
		s.A2A.Configure(&s.answerer)
		s.answerer.Cancellation = jsonrpc.Cancellation{} // a caller over HTTP hangs up
	})
}

// CheckNames complains about an entry of Hosts or Origins that can never match.
func CheckNames(hosts, origins []string) error {
	_, err := guard.New(&guard.Options{Hosts: hosts, Origins: origins})
	return err
}

// Drain answers new requests with -31004 from now on, and waits for those that run. When ctx ends first, they end, and Drain returns ctx's cause.
func (s *Server) Drain(ctx context.Context) error {
	s.init()
	return s.answerer.Drain(ctx)
}

// guarded puts the door before a handler.
func (s *Server) guarded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.init()
		if f := s.refuse(r); f != nil {
			f.Write(w, r)
			return
		}
		serve(w, r)
	}
}

func (s *Server) refuse(r *http.Request) *guard.Refusal {
	if s.door == nil {
		return s.shut
	}
	return s.door.Check(r)
}

// ServeHTTP serves all.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.guarded(s.serve)(w, r) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
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
func (s *Server) RPC() http.Handler { return s.guarded(s.serveRPC) }

// REST serves the HTTP+JSON binding of v1.0 at the paths that the specification has; [http.StripPrefix] takes away what stands before.
func (s *Server) REST() http.Handler { return s.guarded(s.serveREST) }

// Card serves the agent card at any path.
func (s *Server) Card() http.Handler { return s.guarded(s.serveCard) }

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
