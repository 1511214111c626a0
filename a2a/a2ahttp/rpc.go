package a2ahttp

import (
	"bytes"
	"net/http"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// serveRPC handles one POST: a message or a batch.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return
	}
	principal, denied := s.admit(r)
	if denied != nil {
		denied.write(w, rpcError)
		return
	}
	x := s.exchange(w, r, rpcStyle{})
	defer x.Close()
	in, ok := x.Read()
	if !ok {
		return
	}
	svc := service(r, principal)
	s.extensions(w.Header(), r.Header, svc)
	x.finish(x.Answer(a2a.WithService(r.Context(), svc), &s.answerer, bytes.TrimSpace(in)))
}

// rpcError returns the body for a request that could not be read.
func rpcError(e *jsonrpc.Error) (contentType string, body []byte) {
	return "application/json", jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, e)
}

// rpcStyle encodes events and responses as JSON-RPC responses.
type rpcStyle struct{}

func (rpcStyle) event(id jsonrpc.ID, response jsonrpc.Raw) ([]byte, error) {
	return jsonrpc.AppendResult(nil, jsonrpc.Version2, id, response)
}

func (rpcStyle) last(out []byte, _ *jsonrpc.Error) []byte { return out }

func (rpcStyle) plain(out []byte, _ *jsonrpc.Error) (status int, contentType string, body []byte) {
	return 0, "application/json", out
}

func (rpcStyle) unsupported(e *jsonrpc.Error) (contentType string, body []byte) { return rpcError(e) }

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	writeHead(w, status, contentType)
	_, _ = w.Write(body) // if the client is gone, the error has no receiver
}

func writeHead(w http.ResponseWriter, status int, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}
