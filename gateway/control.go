package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// controlPrefix is how the names of all control methods begin. No route has such a method.
const controlPrefix = "gateway."

// A Status is what gateway.status responds with.
type Status struct {
	State   string         `json:"state"` // running or draining
	Ready   bool           `json:"ready"`
	Servers []ServerStatus `json:"servers"` // in the order of the file

	// Waiting is what servers offer and a person has not approved yet.
	Waiting []PinChange `json:"waiting,omitzero"`
}

// A ServerStatus is the state of one server.
type ServerStatus struct {
	Name     string `json:"name"`
	Group    string `json:"group,omitzero"`
	Protocol string `json:"protocol"`
	Required bool   `json:"required,omitzero"`
	// healthy, half-open, open, paused, failed, cordoned, draining or "not approved"
	State    string  `json:"state"`
	Calls    uint64  `json:"calls"`
	Failures uint64  `json:"failures"`
	P50      float64 `json:"p50Ms"` // of the last 1,000 calls with a response, in milliseconds
	P99      float64 `json:"p99Ms"`
	Inflight int     `json:"inflight"`
	Waiting  int     `json:"waiting"`
	Opened   uint64  `json:"opened,omitzero"`  // how often its breaker opened
	Problem  string  `json:"problem,omitzero"` // of the last active check
}

// Status returns the present state of all servers.
func (g *Gateway) Status() *Status {
	s := g.enter()
	defer s.leave()
	out := &Status{State: "running", Ready: g.isReady(s), Servers: make([]ServerStatus, 0, len(s.upstreams))}
	out.Waiting = g.pins.waiting()
	if g.draining.Load() {
		out.State = reasonDraining
	}
	for _, u := range s.upstreams {
		out.Servers = append(out.Servers, u.status())
	}
	return out
}

func (u *upstream) status() ServerStatus {
	m := u.member.status()
	s := ServerStatus{
		Name: u.entry.Name, Group: u.entry.Upstream.Group, Protocol: u.entry.Protocol, Required: u.entry.Upstream.Required,
		State: m.State, Calls: m.Calls, Failures: m.Failures, P50: milliseconds(m.P50), P99: milliseconds(m.P99),
		Inflight: m.Queue.Inflight, Waiting: m.Queue.Waiting, Opened: m.Breaker.Opened,
	}
	if u.waiting {
		s.State = "not approved"
	}
	if m.Health != nil && m.Health.Err != nil {
		s.Problem = m.Health.Err.Error()
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// isReady reports whether clients should be sent here: the gateway does not stop, no required
// server is down, and at least one server can be used.
func (g *Gateway) isReady(s *state) bool {
	if g.draining.Load() {
		return false
	}
	now := time.Now()
	usable := false
	for _, u := range s.upstreams {
		if !u.waiting && u.member.usable(now) {
			usable = true
		} else if u.entry.Upstream.Required {
			return false
		}
	}
	return usable
}

// Drain announces the end: from now on /readyz responds 503, so that load balancers send no more
// clients. Calls are served until the Listener stops.
func (g *Gateway) Drain() { g.draining.Store(true) }

// serveReady serves /readyz: the state alone, or with all servers.
func (g *Gateway) serveReady(w http.ResponseWriter, full bool) {
	s := g.enter()
	ready := g.isReady(s)
	s.leave()
	guard.Secure(w.Header())
	code, text := http.StatusOK, "ready"
	if !ready {
		code, text = http.StatusServiceUnavailable, "not ready"
	}
	if !full {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text + "\n")) // the client may have left
		return
	}
	body, err := json.Marshal(g.Status())
	if err != nil { // texts and numbers always have a JSON form
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have left
}

// pages serves what needs no token on the addresses of clients.
func (g *Gateway) pages(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if r.URL.Path == "/readyz" {
		g.serveReady(w, false)
		return
	}
	s := g.enter()
	defer s.leave()
	if s.identity.isMetadata(r.URL.Path) {
		s.identity.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// Admin sets up l to serve the admin address: the control methods at /rpc, and the full /readyz.
// There must be an address of its own for them unless all callers are on this machine.
func (g *Gateway) Admin(l *parley.Listener) {
	l.Handler, l.Report = g.control, g.report
	l.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
			return
		}
		g.serveReady(w, true)
	})
	l.Endpoint = &parley.Mount{Handler: httprpc.Handler(g.control)}
	if l.Mounts == nil {
		l.Mounts = make(map[string]parley.Mount)
	}
	l.Mounts["/metrics"] = parley.Mount{Handler: g.metrics}
}

// newControl returns the control methods.
func (g *Gateway) newControl() *jsonrpc.Mux {
	mux := new(jsonrpc.Mux)
	mux.Add("gateway.status", jsonrpc.Func(func(context.Context, struct{}) (*Status, error) { return g.Status(), nil }))
	mux.Add("gateway.reload", jsonrpc.Func(func(context.Context, struct{}) (*Changes, error) {
		if g.load == nil {
			return nil, jsonrpc.NewError(jsonrpc.CodeInternalError, "This gateway has no file to read")
		}
		file, err := g.load()
		if err == nil {
			var changes *Changes
			if changes, err = g.Reload(file, true); err == nil {
				return changes, nil
			}
		}
		e := jsonrpc.NewError(jsonrpc.CodeInternalError, "The configuration was not changed")
		return nil, e.WithData(struct {
			Problems []string `json:"problems"`
		}{problemsOf(file, err)})
	}))
	type approve struct {
		Server string `json:"server"`
		// of a tool or a prompt, or "instructions"; empty for all
		Name string `json:"name,omitzero"`
	}
	mux.Add("gateway.approve", jsonrpc.Func(func(_ context.Context, in approve) (map[string]int, error) {
		n, err := g.pins.approve(in.Server, in.Name)
		if err != nil {
			return nil, jsonrpc.NewError(jsonrpc.CodeInvalidParams, err.Error())
		}
		g.mcp.approved(in.Server)
		return map[string]int{"approved": n}, nil
	}))
	type cordon struct {
		Name string `json:"name"`
		Undo bool   `json:"undo,omitzero"`
	}
	mux.Add("gateway.cordon", jsonrpc.Func(func(_ context.Context, in cordon) (*ServerStatus, error) {
		s := g.enter()
		defer s.leave()
		u := s.byName[in.Name]
		if u == nil {
			return nil, jsonrpc.NewError(jsonrpc.CodeInvalidParams, "There is no server "+cmp.Or(in.Name, "without a name"))
		}
		u.member.breaker.cordon(!in.Undo)
		status := u.status()
		return &status, nil
	}))
	return mux
}

func problemsOf(file *config.File, err error) []string {
	if file == nil || len(file.Problems) == 0 {
		return []string{err.Error()}
	}
	list := make([]string, len(file.Problems))
	for i, p := range file.Problems {
		list[i] = p.In(file.Name)
	}
	return list
}

// controls reports whether a request on the addresses of clients is for a control method. They are
// there only if everybody who can reach these addresses is on this machine, and there is no other
// address for them.
func (g *Gateway) controls(s *state, method string) bool {
	own := s.file.Gateway
	return strings.HasPrefix(method, controlPrefix) && own.Admin == "" && own.Identity == nil && !g.exposed
}
