package a2ahttp

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// serveRPC answers one POST: a message or a batch.
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
	in, done, refused := s.read(w, r)
	if refused != nil {
		refused.write(w, r, rpcError)
		return
	}
	defer done()
	svc := service(r, principal)
	s.extensions(w.Header(), r.Header, svc)
	x := newExchange(s, w, r, rpcStyle{})
	defer x.abandon()
	var out []byte
	var fault *jsonrpc.Error
	if len(bytes.TrimSpace(in)) == 0 {
		fault = jsonrpc.ErrParseError
		out = jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, fault)
	} else {
		out, fault = s.answerer.Answer(a2a.WithService(r.Context(), svc), nil, in, &x.Exchange)
		out = reshape(out, fault)
	}
	x.finish(out, fault)
}

// rpcError is the body for a request that was not even read.
func rpcError(e *jsonrpc.Error) (contentType string, body []byte) {
	return "application/json", jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, e)
}

// rpcStyle has events and answers leave as JSON-RPC responses.
type rpcStyle struct{}

func (rpcStyle) event(id jsonrpc.ID, response jsonrpc.Raw) ([]byte, error) {
	return jsonrpc.AppendResult(nil, jsonrpc.Version2, id, response)
}

func (rpcStyle) last(out []byte, _ *jsonrpc.Error) []byte { return out }

func (rpcStyle) plain(out []byte, e *jsonrpc.Error) (status int, contentType string, body []byte) {
	status = http.StatusOK
	if e != nil {
		switch e.Code {
		case jsonrpc.CodeBusy, jsonrpc.CodeShuttingDown, jsonrpc.CodeUnavailable:
			status, _ = restStatus(e.Code)
		}
	}
	if len(out) == 0 {
		status = http.StatusNoContent
	}
	return status, "application/json", out
}

// reshape gives errors of the engine the shape of data that the protocol wants.
func reshape(out []byte, fault *jsonrpc.Error) []byte {
	if !bytes.Contains(out, []byte(`"data":{`)) {
		return out
	}
	batch := out[0] == '['
	if !batch && fault == nil {
		return out
	}
	var fixed []byte
	if jsonrpc.Scan(out, func(m *jsonrpc.Message) {
		if len(fixed) > 0 {
			fixed = append(fixed, ',')
		}
		if e, ok := errors.AsType[*jsonrpc.Error](m.Decode(nil)); ok {
			fixed = jsonrpc.AppendError(fixed, jsonrpc.Version2, m.ID, a2a.Reshape(e))
			return
		}
		fixed, _ = jsonrpc.AppendResult(fixed, jsonrpc.Version2, m.ID, m.Result) // the text of a result that was sent
	}) != nil {
		return out
	}
	if batch {
		return append(append([]byte("["), fixed...), ']')
	}
	return fixed
}

// read reads the body of a request.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (in []byte, done func(), refused *refusal) {
	body := guard.Body{Max: s.MaxMessage, Types: []string{ContentType}, Memory: &s.memory, Watch: &s.watch}
	in, f := body.Read(w, r, nil)
	if f != nil {
		return nil, nil, &refusal{f}
	}
	return in, func() { body.Done(len(in)) }, nil
}

// A refusal is why a body was not read.
type refusal struct{ *guard.Refusal }

// write answers with it: in the protocol's words, if it has some.
func (f *refusal) write(w http.ResponseWriter, r *http.Request, body func(*jsonrpc.Error) (string, []byte)) {
	if f.Status != http.StatusUnsupportedMediaType {
		f.Write(w, r)
		return
	}
	contentType, text := body(a2a.Fault(a2a.ErrContentTypeNotSupported, "Content-Type: "+f.Text))
	if f.Name != "" {
		w.Header().Set(f.Name, f.Value)
	}
	writeBody(w, f.Status, contentType, text)
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // if the client is gone there is nobody to tell
}

// background is the context for what goes out when the caller's has ended.
func background(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
