package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A post is a way over HTTP: each payload is a separate request, and messages that the server
// initiates arrive on a separate stream.
type post struct {
	url    string
	client *http.Client
	idle   func()
	ctx    context.Context // cancelled when the link is closed
	cancel context.CancelFunc
	room   chan struct{} // holds a value for each active exchange
	tasks  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running map[int64]context.CancelFunc
	closed  bool
}

func newPost(l *link, t parley.Target) *post {
	ctx, cancel := context.WithCancel(l.p.ctx)
	client, idle := origin.Client(nil, l.p.options.TLS)
	return &post{url: t.URL(), client: client, idle: idle, ctx: ctx, cancel: cancel, room: make(chan struct{}, maxExchanges), running: make(map[int64]context.CancelFunc)}
}

// headers returns the request headers for this payload: those that every JSON-RPC client sends,
// then the protocol's, the target's and the page's. Each group overrides the ones before.
func (l *link) headers(ctx context.Context, payload []byte, own http.Header) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
		"User-Agent":   {"parley/" + orDefault(l.p.options.Version, "devel")},
	}
	l.mu.Lock()
	session, version := l.session, l.version
	token, always := l.spec.Token, l.spec.Header
	l.mu.Unlock()
	if fresh, signedIn := l.p.bearer(ctx, l.name); signedIn {
		token = fresh
	}
	if session != "" {
		h.Set(mcp.HeaderSession, session)
	}
	switch l.spec.protocol() {
	case ProtocolMCP:
		l.headersMCP(h, payload, version)
	case ProtocolA2A:
		h.Set(a2a.HeaderVersion, "1.0")
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	for _, more := range []http.Header{always, own} {
		for name, values := range more {
			if values == nil {
				delete(h, name)
				continue
			}
			h[name] = values
		}
	}
	return h
}

// headersMCP adds the headers that MCP requires: for a modern request from its body, for a legacy
// one the negotiated values.
func (l *link) headersMCP(h http.Header, payload []byte, version string) {
	modern := false
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // invalid messages add no headers
		if !m.Request || m.Bad != nil {
			return
		}
		stated, ok := mcp.Envelope(&jsonrpc.Request{ID: m.ID, Method: m.Method, Params: m.Params})
		if !ok {
			return
		}
		modern = true
		h.Set(mcp.HeaderProtocolVersion, stated)
		h.Set(mcp.HeaderMethod, mcp.EncodeHeader(m.Method))
		if name := nameOf(m.Method, m.Params); name != "" {
			h.Set(mcp.HeaderName, mcp.EncodeHeader(name))
		}
	})
	if !modern && version != "" {
		h.Set(mcp.HeaderProtocolVersion, version)
	}
}

// nameOf returns the name or URI of what an MCP method is applied to.
func nameOf(method string, params jsonrpc.Raw) string {
	var in struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	if decodeLoosely(params, &in) != nil {
		return ""
	}
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return in.Name
	case mcp.MethodResourcesRead:
		return in.URI
	}
	return ""
}

var errTooMany = fmt.Errorf("%d requests are already running, which is the limit", maxExchanges)

func (h *post) send(asking context.Context, l *link, o outgoing) (sentRef, error) {
	select {
	case h.room <- struct{}{}:
	default:
		return sentRef{}, errTooMany
	}
	ctx, cancel := context.WithCancel(h.ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(o.payload))
	if err != nil {
		cancel()
		<-h.room
		return sentRef{}, err
	}
	r.Header = l.headers(asking, o.payload, o.header)
	x := l.wire.Exchange(capture.Out, r.Method, r.URL.RequestURI(), r.Header)
	ref := sentRef{seq: x.Request(o.payload), http: x.ID()}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		cancel()
		<-h.room
		x.End(errors.New("closed"))
		return ref, errors.New("closed")
	}
	h.running[ref.seq] = cancel
	h.tasks.Add(1)
	h.mu.Unlock()
	payload := bytes.Clone(o.payload)
	go func() {
		defer h.tasks.Done()
		status, err := h.exchange(l, r, x)
		cancel()
		h.mu.Lock()
		delete(h.running, ref.seq)
		h.mu.Unlock()
		<-h.room
		if err == nil && status >= 400 {
			err = &statusError{status}
		}
		if err == nil && status != http.StatusAccepted {
			err = errors.New("the HTTP response ended without a JSON-RPC response")
		}
		if err != nil {
			l.failAll(payload, err)
		}
	}()
	return ref, nil
}

// A statusError is an HTTP response with an error status.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.status, http.StatusText(e.status)))
}

// failAll completes our own calls in a payload with err.
func (l *link) failAll(payload []byte, err error) {
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // invalid messages contain no calls
		if m.Request && !m.ID.IsZero() {
			l.fail(m.ID.String(), err)
		}
	})
}

// stop cancels the exchange of a message. A plain HTTP server detects the cancellation by the
// closed connection.
func (h *post) stop(seq int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	cancel := h.running[seq]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// exchange makes one request and reads its response to the end.
func (h *post) exchange(l *link, r *http.Request, x *capture.Exchange) (status int, err error) {
	defer func() {
		if err != nil && h.ctx.Err() != nil {
			err = errors.New("closed by parley")
		} else if err != nil && r.Context().Err() != nil {
			err = capture.ErrGaveUp
		}
		x.End(err)
	}()
	answer, err := h.client.Do(r)
	if err != nil {
		return 0, errors.New(reason(errors.Unwrap(err)))
	}
	defer answer.Body.Close()
	x.Head(answer.StatusCode, answer.Header)
	l.p.unauthorized(l.name, answer.StatusCode == http.StatusUnauthorized)
	if s := answer.Header.Get(mcp.HeaderSession); s != "" && l.spec.protocol() == ProtocolMCP {
		l.mu.Lock()
		l.session = s
		l.mu.Unlock()
	}
	media := eventstream.MediaType(answer)
	if media == eventstream.ContentType {
		_, err := h.events(l, x, answer.Body)
		return answer.StatusCode, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
	switch {
	case len(body) > maxMessage:
		x.Junk(capture.In, body[:64<<10], "a response of more than 16 MiB")
		return answer.StatusCode, jsonrpc.ErrTooLarge
	case len(body) == 0:
	case isJSON(media) || media == "" && looksLikeJSON(body):
		l.receive(body, x.Response(body, ""))
	default:
		x.Junk(capture.In, body, "a response of type "+orDefault(media, "unknown"))
	}
	return answer.StatusCode, err
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

func looksLikeJSON(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// events reads a stream of events to its end. It returns the ID of the last event, from which the
// stream can be resumed.
func (h *post) events(l *link, x *capture.Exchange, body io.Reader) (last string, err error) {
	reader := eventstream.NewReader(body, maxMessage)
	for {
		e, err := reader.Next()
		switch {
		case errors.Is(err, jsonrpc.ErrTooLarge):
			x.Junk(capture.In, nil, "an event of more than 16 MiB")
			continue
		case errors.Is(err, io.EOF):
			return reader.LastID(), nil
		case err != nil:
			return reader.LastID(), err
		}
		if len(bytes.TrimSpace(e.Data)) == 0 {
			continue // an event with only an ID, to resume from
		}
		l.receive(e.Data, x.Response(e.Data, e.ID))
	}
}

// Intervals of the stream on which a legacy MCP server sends messages of its own.
const (
	listenAgain = time.Second
	listenTries = 20
)

// listen reads messages that the server initiates (MCP 2025-11-25, Streamable HTTP, Listening for
// Messages from the Server).
func (h *post) listen(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.tasks.Add(1)
	go func() {
		defer h.tasks.Done()
		last := ""
		for range listenTries {
			r, err := http.NewRequestWithContext(h.ctx, http.MethodGet, h.url, nil)
			if err != nil {
				return
			}
			r.Header = l.headers(h.ctx, nil, http.Header{"Content-Type": nil, "Accept": {eventstream.ContentType}})
			if last != "" {
				r.Header.Set("Last-Event-Id", last)
			}
			id, again := h.listenOnce(l, r)
			if !again {
				return
			}
			last = orDefault(id, last)
			select {
			case <-h.ctx.Done():
				return
			case <-time.After(listenAgain):
			}
		}
	}()
}

func (h *post) listenOnce(l *link, r *http.Request) (last string, again bool) {
	x := l.wire.Exchange(capture.Out, r.Method, r.URL.RequestURI(), r.Header)
	answer, err := h.client.Do(r)
	if err != nil {
		x.End(errors.New(reason(err)))
		return "", false
	}
	defer answer.Body.Close()
	x.Head(answer.StatusCode, answer.Header)
	if !eventstream.IsStream(answer) {
		x.End(nil)
		return "", false
	}
	last, err = h.events(l, x, answer.Body)
	if h.ctx.Err() != nil {
		err = nil // we closed the connection
	}
	x.End(err)
	return last, h.ctx.Err() == nil
}

// get fetches a document next to the endpoint, such as an agent's card. The exchange is recorded.
func (h *post) get(ctx context.Context, l *link, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return nil, err
	}
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, "", ""
	r.Header = l.headers(ctx, nil, http.Header{"Content-Type": nil, "Accept": {"application/json"}})
	x := l.wire.Exchange(capture.Out, r.Method, r.URL.RequestURI(), r.Header)
	answer, err := h.client.Do(r)
	if err != nil {
		x.End(errors.New(reason(err)))
		return nil, err
	}
	defer answer.Body.Close()
	x.Head(answer.StatusCode, answer.Header)
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	x.Junk(capture.In, body, "a document")
	x.End(err)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = &statusError{answer.StatusCode}
	}
	return body, err
}

// leave closes the session on an MCP server.
func (h *post) leave(l *link) {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, h.url, nil)
	if err != nil {
		return
	}
	r.Header = l.headers(ctx, nil, http.Header{"Content-Type": nil})
	if answer, err := h.client.Do(r); err == nil {
		_ = answer.Body.Close() // any response will do
	}
}

// close cancels all exchanges and waits for them.
func (h *post) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	grace.Wait(&h.tasks, grace.Time)
	h.idle()
}
