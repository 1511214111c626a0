package parley_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A lockedBuffer can be written and read by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *lockedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *lockedBuffer) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.b.String()
	w.b.Reset()
	return text
}

// TestErrorsOfHandlersAreLoggedByDefault checks that, without a Report function, a handler error
// that is not sent to the peer is logged as one escaped line, and that malformed messages are not
// logged.
func TestErrorsOfHandlersAreLoggedByDefault(t *testing.T) {
	log := new(lockedBuffer)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(before)
	private := errors.New("the database is down\n\x1b[2J")

	mux := new(jsonrpc.Mux)
	mux.Add("fail", jsonrpc.Func(func(context.Context, struct{}) (any, error) { return nil, private }))
	mux.Add("panic", jsonrpc.Func(func(context.Context, struct{}) (any, error) { panic(private) }))
	answer := func(method string) {
		a := &jsonrpc.Answerer{Handler: mux}
		_, _ = a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","method":"`+method+`","params":{},"id":1}`), &jsonrpc.Exchange{})
	}
	for name, do := range map[string]func(){
		"jsonrpc: handler": func() { answer("fail") },
		"jsonrpc: panic":   func() { answer("panic") },
		"agent: failed": func() {
			(&agent.Agent{Run: func(context.Context, *agent.Run) error { return private }}).Execute(t.Context(), &agent.Run{})
		},
		"editor: handler": func() {
			here, there := inproc.Pipe(nil)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = editor.NewAgent(editor.Implementation{Name: "x", Version: "1"}, &editor.AgentOptions{
					NewSession: func(context.Context, *editor.Session, *editor.NewSessionParams) (*editor.NewSessionResult, error) {
						return nil, private
					},
				}).Serve(t.Context(), there)
			}()
			c, err := editor.Connect(t.Context(), here, editor.Implementation{Name: "y", Version: "1"}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.NewSession(t.Context(), &editor.NewSessionParams{CWD: "/"}); err == nil {
				t.Error("no error")
			}
			_ = c.Close()
			<-ended
		},
	} {
		do()
		got := log.take()
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, name) ||
			!strings.Contains(got, "the database is down") || strings.Contains(got, "\x1b") {
			t.Errorf("%s: logged %.400q", name, got)
		}
	}
	if answer(`x"}`); log.take() != "" {
		t.Error("what a peer can cause is logged")
	}
}

// A levels is a slog handler that passes each record to f.
type levels struct{ f func(slog.Record) }

func (levels) Enabled(context.Context, slog.Level) bool { return true }

func (l levels) Handle(_ context.Context, r slog.Record) error {
	l.f(r)
	return nil
}

func (l levels) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l levels) WithGroup(string) slog.Handler      { return l }

// TestFaultsOfPeersAreNotErrors checks that a Listener without Report does not log as an error what
// any peer can cause as often as it connects: violations of HTTP/2, failed TLS handshakes, and
// malformed HTTP/1.1. Otherwise strangers could fill the log.
func TestFaultsOfPeersAreNotErrors(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	borrowed := httptest.NewTLSServer(nil) // for its certificate
	borrowed.Close()
	secure := &tls.Config{Certificates: borrowed.TLS.Certificates, MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		secure, silent bool   // silent: nothing may be logged
		scheme         string // if not http
		bytes          string
	}{
		"no settings":            {bytes: preface + "\x00\x00\x00\x06\x00\x00\x00\x00\x00"},
		"data on stream 0":       {bytes: preface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x00x"},
		"data on an idle stream": {bytes: preface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x07x"},
		"malformed headers":      {bytes: preface + settings + "\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff"},
		"a window of 0":          {bytes: preface + settings + "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"goaway":                 {bytes: preface + settings + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		"no TLS":                 {bytes: "GET / HTTP/1.1\r\nHost: x\r\n\r\n", secure: true},
		"half a hello":           {bytes: "\x16\x03\x01\x02\x00\x01\x00", secure: true},
		"half a preface":         {bytes: preface[:20] + "\r\n\r\n", silent: true},
		"no HTTP":                {bytes: "\x00\x01\x02\r\n\r\n", silent: true},
		"garbage on TCP":         {scheme: "tcp", bytes: strings.Repeat("x", 5<<20)},
		"half a message on TCP":  {scheme: "tcp", bytes: `{"jsonrpc":"2.0","id":1,"meth`, silent: true},
		"no WebSocket":           {bytes: "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 7\r\n\r\n", silent: true},
		"a malformed WebSocket frame": {bytes: "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\xff\xff\xff\xff", silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			records := make(chan slog.Record, 100)
			before := slog.Default()
			slog.SetDefault(slog.New(levels{func(r slog.Record) { records <- r }}))
			defer slog.SetDefault(before)
			l, target := &parley.Listener{Handler: new(jsonrpc.Mux)}, "http://127.0.0.1:0"
			if c.scheme != "" {
				target = c.scheme + "://127.0.0.1:0"
			}
			if c.secure {
				l.TLS, target = secure, "https://127.0.0.1:0"
			}
			parsed, err := parley.ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Listen(t.Context(), parsed)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(t.Context()) }()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Targets()[0].Address)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, c.bytes) // the server may close it meanwhile
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // until the server has closed it
			_ = conn.Close()
			var seen []slog.Record
			if !c.silent {
				seen = append(seen, <-records) // the end of the connection may be seen before it is logged
			}
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			<-ended
			for len(records) > 0 {
				seen = append(seen, <-records)
			}
			for _, r := range seen {
				if r.Level > slog.LevelDebug {
					t.Errorf("logged as %v: %s", r.Level, r.Message)
				}
			}
		})
	}
}
