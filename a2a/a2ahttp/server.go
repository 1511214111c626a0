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
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// ContentType is the media type of the REST binding and of webhooks (A2A 1.0.1, section 14.1).
const ContentType = "application/a2a+json"

// Well-known paths of the agent card; the second is that of 0.2 and older.
const (
	CardPath    = "/.well-known/agent-card.json"
	OldCardPath = "/.well-known/agent.json"
)

// A Server serves one [a2a.Server]. Used as a handler, it serves everything below one base: the
// card at its paths and for a GET of the base itself, the REST binding, and the JSON-RPC binding
// for a POST to any other path. RPC, REST, Card and WebSocket return the parts, to be mounted
// separately. Its fields must not change once it serves; it is safe for concurrent use.
//
// By default it accepts requests to this machine's own names only, and authenticates callers as the
// card requires. Call [Server.Drain] before shutting down the http.Server, which otherwise waits
// for the streams.
type Server struct {
	A2A *a2a.Server // required

	// Hosts lists further values that the Host header may have: "host", "host:port", or "host:*".
	// localhost, 127.0.0.1 and [::1] with the listening port are always accepted. Another Host gets
	// status 403: it may be that of a web page (DNS rebinding). An entry that can never match
	// rejects all requests; [CheckNames] reports it in advance.
	Hosts []string

	// Origins lists further web origins that may call, such as "https://app.example:8443". Those of
	// the Host list are always accepted. Another Origin gets status 403.
	Origins []string

	// Unguarded disables the checks of Host and Origin. Middleware must do them instead.
	Unguarded bool

	// Authenticate returns the identity of a caller with the credentials that one of the card's
	// security requirements names; see [Credential]. It returns [a2a.ErrUnauthenticated] or
	// [a2a.ErrForbidden] if they are invalid or insufficient. If nil, a card with requirements
	// rejects all callers. Without requirements it is called with no credentials, if it is not nil.
	Authenticate func(r *http.Request, credentials []Credential) (principal string, err error)

	// MaxMessage bounds the body of one request, in bytes. If zero, it is 4 MiB; if negative, there
	// is no bound. A larger body gets status 413.
	MaxMessage int64

	// CardMaxAge is how long a client may cache the card. If zero, it is 5 min.
	CardMaxAge time.Duration

	// KeepAlive is how long a stream may be silent before a comment is sent. If zero, it is 15 s;
	// if negative, no comments are sent.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written.
	// If zero, it is 10 s. After it the connection is closed.
	WriteTimeout time.Duration

	// Limits bounds one payload.
	Limits jsonrpc.Limits

	// MaxRunning bounds the requests that run at once, including streams. If zero, it is 4,096.
	// Further requests get a -31001 error.
	MaxRunning int64

	setup    sync.Once
	door     *guard.Door // nil if Unguarded
	shut     *guard.Refusal
	gate     jsonrpc.Gate
	answerer jsonrpc.Answerer
	posts    httprpc.Server
	memory   guard.Memory // of the cards
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
				s.shut = &guard.Refusal{Status: http.StatusInternalServerError, Text: "this server is not configured"}
			}
		}
		s.posts = httprpc.Server{MaxMessage: s.MaxMessage, ContentTypes: []string{ContentType}, KeepAlive: s.KeepAlive, WriteTimeout: s.WriteTimeout}
		s.A2A.Configure(&s.answerer)
		s.answerer.Convert = a2a.Reshape
		// over HTTP a caller cancels by disconnecting
		s.answerer.Cancellation = jsonrpc.Cancellation{}
	})
}

func (s *Server) writeTimeout() time.Duration {
	if s.WriteTimeout <= 0 {
		return 10 * time.Second
	}
	return s.WriteTimeout
}

// CheckNames returns an error for an entry of Hosts or Origins that can never match.
func CheckNames(hosts, origins []string) error {
	_, err := guard.New(&guard.Options{Hosts: hosts, Origins: origins})
	return err
}

// Drain makes new requests fail with -31004 from now on, and waits for those that run. If ctx is
// canceled first, they are canceled, and Drain returns ctx's cause.
func (s *Server) Drain(ctx context.Context) error {
	s.init()
	return s.answerer.Drain(ctx)
}

// guarded adds the access checks to a handler.
func (s *Server) guarded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		guard.EndAfterChunked(w, r)
		s.init()
		if s.door != nil {
			if s.door.Admit(w, r) {
				serve(w, r)
			}
			return
		}
		if s.shut != nil {
			s.shut.Write(w, r)
			return
		}
		serve(w, r)
	}
}

// ServeHTTP serves all.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	s.guarded(s.serve)(w, r)
}

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

// RPC returns a handler for the JSON-RPC binding, in both versions, at any path.
func (s *Server) RPC() http.Handler { return s.guarded(s.serveRPC) }

// REST returns a handler for the HTTP+JSON binding of v1.0 at the paths in the specification; use
// [http.StripPrefix] to remove a prefix.
func (s *Server) REST() http.Handler { return s.guarded(s.serveREST) }

// Card returns a handler for the agent card at any path.
func (s *Server) Card() http.Handler { return s.guarded(s.serveCard) }

// Interfaces returns the interfaces of a Server, for its card. rpc and rest are the URLs of the two
// bindings, absolute, or paths, which the server then completes with the host of the request. An
// empty one is omitted.
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

// service returns the service parameters of a request.
func service(r *http.Request, principal string) a2a.Service {
	version := r.Header.Get(a2a.HeaderVersion)
	if strings.TrimSpace(version) == "" {
		version = r.URL.Query().Get(a2a.HeaderVersion)
	}
	return a2a.Service{Version: version, Principal: principal, LastEvent: r.Header.Get(a2a.HeaderLastEvent),
		Extensions: a2a.ParseExtensions(append(r.Header.Values(a2a.HeaderExtensions), r.Header.Values(a2a.HeaderExtensions03)...))}
}

// extensions sets the header that lists the extensions in use.
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
