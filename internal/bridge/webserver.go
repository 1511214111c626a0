package bridge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A webServer sends each message as a POST, in a session if the server has begun one.
type webServer struct {
	link      *link
	transport *streamable.Client
	names     *mcp.Client // never connected: it only computes headers of the modern era

	mu sync.Mutex // held while a session is begun again
}

// listenTime is how long the end of the handshake waits for the stream of the session.
const listenTime = 500 * time.Millisecond

func newWebServer(l *link) *webServer {
	o := &l.b.opts
	w := &webServer{link: l, names: mcp.NewClient(mcp.Implementation{Name: "parley", Version: "1"}, nil)}
	w.transport = streamable.NewClient(o.To.URL(), &streamable.ClientOptions{
		TLS: o.Dialer.TLS, Header: o.Dialer.Header, Token: o.Dialer.Token, MaxMessage: o.Dialer.MaxMessage,
		CallTime:      o.CallTime,
		Open:          mcp.Open,
		Manner:        w.manner,
		SessionHeader: mcp.HeaderSession,
		StreamHeader:  w.streamHeader,
		Cancellation:  mcp.Cancellation,
		Back: &jsonrpc.Answerer{
			Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
				if req.IsNotification() {
					l.notified(req)
					return nil, nil
				}
				return l.ask(ctx, req)
			}),
			Mode: func(string) jsonrpc.Mode { return jsonrpc.Open }, Cancellation: mcp.Cancellation, Report: o.Report,
		},
		Lost:   func(session string) { _ = w.reopen(session) }, // the next message reports it
		Tap:    w.tap(),
		Report: o.Report,
	})
	return w
}

// tap returns the function that passes payloads to the Tap of the Dialer, or nil.
func (w *webServer) tap() func(out bool, payload []byte) {
	tap := w.link.b.opts.Dialer.Tap
	if tap == nil {
		return nil
	}
	return func(out bool, payload []byte) { tap(parley.Frame{Time: time.Now(), Out: out, Payload: payload}) }
}

// Do posts one message. If the server has lost the session, or misses a header, which it reports
// before it runs anything, a new session is begun or the tools are listed, and the message is sent
// again.
func (w *webServer) Do(ctx context.Context, item *jsonrpc.Item) error {
	err := w.transport.Do(ctx, item)
	lost, ok := errors.AsType[*streamable.SessionError](err)
	switch {
	case err == nil && item.Method == mcp.MethodToolsList:
		if result, ok := item.Result.(*jsonrpc.Raw); ok {
			w.names.LearnTools(*result)
		}
	case item.Method == mcp.MethodToolsCall && errors.Is(err, mcp.ErrHeaderMismatch) && w.relearn(ctx, item):
		return w.transport.Do(ctx, item)
	case ok && item.Method != mcp.MethodInitialize:
		if err := w.reopen(lost.Session); err != nil {
			return err
		}
		return w.transport.Do(ctx, item)
	}
	return err
}

// maxToolPages bounds the pages of tools that relearn requests.
const maxToolPages = 100

// relearn lists the tools after the server has rejected a call because its headers lack a param
// (MCP 2026-07-28, Transports, Custom Headers), which it does before it runs anything. It reports
// whether the call has other headers now. A client on stdio does not know of headers, and may have
// listed the tools in an earlier process.
func (w *webServer) relearn(ctx context.Context, item *jsonrpc.Item) bool {
	params, ok := item.Params.(jsonrpc.Raw)
	if !ok {
		return false
	}
	before := w.names.Headers(item.Method, params)
	meta := without(lastMember(params, "_meta"), mcp.MetaProgressToken)
	cursor := jsonrpc.Raw(nil)
	for range maxToolPages {
		list := append(append(jsonrpc.Raw(`{"_meta":`), meta...), '}')
		if cursor != nil {
			list = append(append(append(list[:len(list)-1], `,"cursor":`...), cursor...), '}')
		}
		var page jsonrpc.Raw
		if err := w.transport.Call(ctx, mcp.MethodToolsList, list, &page); err != nil {
			return false // the caller gets the first error
		}
		w.names.LearnTools(page)
		if cursor = lastMember(page, "nextCursor"); cursor == nil {
			break
		}
	}
	return !slices.Equal(before, w.names.Headers(item.Method, params))
}

// reopen repeats the handshake, unless another call has done so since.
func (w *webServer) reopen(session string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.transport.Session() != session {
		return nil
	}
	l := w.link
	l.mu.Lock()
	h := l.hello
	l.mu.Unlock()
	if h.result == nil {
		return errors.New("the session is lost")
	}
	ctx, cancel := context.WithTimeout(l.ctx, helloTime)
	defer cancel()
	if err := w.transport.Call(ctx, mcp.MethodInitialize, h.params, nil); err != nil {
		return err
	}
	if !h.done {
		return nil
	}
	if err := w.transport.Notify(ctx, mcp.NotifyInitialized, nil); err != nil {
		return err
	}
	w.listen()
	return nil
}

func (w *webServer) listen() {
	if !w.link.version().HasSessions() {
		return
	}
	ctx, cancel := context.WithTimeout(w.link.ctx, listenTime)
	defer cancel()
	w.transport.Listen(ctx)
}

func (w *webServer) manner(req *jsonrpc.Request) streamable.Manner {
	return Manner(w.names, req, make(http.Header), w.link.version())
}

// streamHeader returns the headers of the session's requests.
func (w *webServer) streamHeader() http.Header { return StreamHeader(w.link.version()) }
