package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/da1ed7bb/parley/transport/httprpc"
)

// greet sends requests until one is answered, before the first rule, and returns an error if there
// is no JSON-RPC server. A server that answers some requests with an HTTP status only, such as 404
// for unknown methods, breaks rules; a place that does so for all of them is not a server.
func (s *session) greet() error {
	if s.kind != kindHTTP && !s.o.Probe {
		return nil
	}
	late, silent := s.lateCount, s.silent
	defer func() { s.lateCount, s.silent = late, silent }()
	var last reply
	unanswered := 0
	for _, payload := range s.greetings() {
		s.hangUp() // each has a connection of its own: a server of another protocol may close it
		last = s.ask(payload)
		if s.present(last) {
			return nil
		}
		if errors.Is(last.err, os.ErrDeadlineExceeded) {
			s.lateCount = max(s.lateCount, 3) // a quarter of the time is enough for the others
			unanswered++
		}
		if unanswered == maxUnanswered {
			break
		}
		if s.ctx.Err() != nil {
			return nil
		}
	}
	s.hangUp()
	return s.absent(last)
}

// maxUnanswered is how many greetings may remain without a response before the rest is not sent.
const maxUnanswered = 3

// greetings are requests to which a server responds one way or another: calls, a request that is
// invalid, and a text that is not JSON.
func (s *session) greetings() []string {
	list := []string{
		request(s.nextID(), s.anyMethod(), "[]"),
		`{"jsonrpc":"2.0","method":`,
		`{"jsonrpc":"2.0","method":1,"id":"greeting"}`,
		request(s.nextID(), "ping", ""),
	}
	for _, method := range []string{s.o.Fail, s.o.Sleep, s.o.Panic, s.o.Named} {
		if method != "" {
			list = append(list, request(s.nextID(), method, "[]"))
		}
	}
	for _, c := range s.o.Calls {
		list = append(list, request(s.nextID(), c.Method, string(c.Params)))
	}
	switch {
	case s.o.Profile == "mcp":
		list = append(list, request(s.nextID(), "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"parley-check","version":"1"}}`))
	case !s.o.NoDiscovery && s.o.Profile == "":
		list = append(list, request(s.nextID(), "rpc.discover", ""))
	}
	return list
}

// present reports whether the reply can come from a JSON-RPC server.
func (s *session) present(r reply) bool {
	if s.dead {
		return true // it accepted a connection, and then no other: the rules report that
	}
	if s.kind == kindHTTP && isPlace(r.status) {
		return bytes.Contains(r.raw, []byte(`"jsonrpc"`)) // others send JSON with these statuses, too
	}
	if !s.o.Probe {
		return true
	}
	m, err := parseMessage(r.raw)
	return r.raw != nil && err == nil && (m.kind == '{' || m.kind == '[')
}

// isPlace reports whether an HTTP status concerns the address or the credentials rather than the
// message.
func isPlace(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusMisdirectedRequest, http.StatusUpgradeRequired,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= 300 && status < 400
}

// absent returns the error for a target at which no server is.
func (s *session) absent(r reply) error {
	e := &UnreachableError{Target: s.target.String(), Err: errors.New("there is no JSON-RPC server")}
	switch {
	case s.kind == kindHTTP && isPlace(r.status):
		e.Err = &httprpc.StatusError{Status: r.status, Header: r.header, Body: r.raw[:min(len(r.raw), 1<<10)]}
	case r.err != nil:
		e.Err = fmt.Errorf("there is no JSON-RPC server: %w", r.err)
	}
	return e
}
