package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A scriptLink is a Link without a connection: its function responds to each message, and it
// records what was sent.
type scriptLink struct {
	answer func(method string, params jsonrpc.Raw) (string, error)

	mu   sync.Mutex
	sent []string
}

func (l *scriptLink) Do(_ context.Context, item *jsonrpc.Item) error {
	params, _ := item.Params.(jsonrpc.Raw)
	l.mu.Lock()
	l.sent = append(l.sent, item.Method)
	l.mu.Unlock()
	text, err := l.answer(item.Method, params)
	if err == nil && item.Result != nil {
		m := jsonrpc.Message{Result: jsonrpc.Raw(text)}
		err = m.Decode(item.Result)
	}
	item.Err = err
	return err
}

func (l *scriptLink) Close() error { return nil }

const helloOfOld = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`

// TestOpen checks the result of the first responses of a server.
func TestOpen(t *testing.T) {
	hopeless := errors.New("nobody there")
	unsupported := func(versions string) error {
		return &jsonrpc.Error{Code: mcp.CodeUnsupportedVersion, Data: jsonrpc.Raw(`{"supported":[` + versions + `],"requested":"2026-07-28"}`)}
	}
	const modernHello = `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
	hand := []string{"server/discover", "initialize", "notifications/initialized"}
	for _, tt := range []struct {
		name    string
		answers []any // to server/discover: a string or an error
		version mcp.Version
		fails   error
		sent    []string
	}{
		{"modern", []any{modernHello}, mcp.V20260728, nil, []string{"server/discover"}},
		{"it refuses the version and names the same", []any{unsupported(`"2026-07-28"`), modernHello}, mcp.V20260728, nil, []string{"server/discover", "server/discover"}},
		{"it does so again", []any{unsupported(`"2026-07-28"`), unsupported(`"2026-07-28"`)}, 0, mcp.ErrNoCommonVersion, []string{"server/discover", "server/discover"}},
		{"it names an old one", []any{unsupported(`"2025-11-25"`)}, mcp.V20251125, nil, hand},
		{"it answers anything to everything", []any{`{}`}, mcp.V20251125, nil, hand},
		{"it answers with other things", []any{`[1]`}, mcp.V20251125, nil, hand},
		{"it knows no such method", []any{jsonrpc.ErrMethodNotFound}, mcp.V20251125, nil, hand},
		{"nothing can come of it", []any{fmt.Errorf("dial: %w", hopeless)}, 0, hopeless, []string{"server/discover"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers := tt.answers
			l := &scriptLink{answer: func(method string, _ jsonrpc.Raw) (string, error) {
				if method != mcp.MethodDiscover {
					return helloOfOld, nil
				}
				next := answers[0]
				answers = answers[1:]
				if err, ok := next.(error); ok {
					return "", err
				}
				return next.(string), nil
			}}
			c := mcp.NewClient(mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{OverHTTP: true,
				GiveUp: func(err error) bool { return errors.Is(err, hopeless) }})
			err := c.Open(t.Context(), l)
			if !errors.Is(err, tt.fails) || c.Version() != tt.version {
				t.Errorf("version %s, error %v; want %s, %v", c.Version(), err, tt.version, tt.fails)
			}
			if !slices.Equal(l.sent, tt.sent) {
				t.Errorf("sent %q, want %q", l.sent, tt.sent)
			}
		})
	}
}

// TestReopen checks which state a new session receives from the old one.
func TestReopen(t *testing.T) {
	l := &scriptLink{answer: func(method string, params jsonrpc.Raw) (string, error) {
		if method == mcp.MethodInitialize {
			return helloOfOld, nil
		}
		if method == mcp.MethodDiscover {
			return "", jsonrpc.ErrMethodNotFound
		}
		return `{}`, nil
	}}
	c := mcp.NewClient(mcp.Implementation{Name: "c", Version: "1"}, nil)
	if err := c.Reopen(t.Context(), l); !errors.Is(err, mcp.ErrNotSupported) {
		t.Errorf("before Open: %v", err)
	}
	if err := c.Open(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := c.SetLogLevel(t.Context(), mcp.LevelError); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Listen(ctx, mcp.Filter{ResourceSubscriptions: []string{"test://b", "test://a"}}, func(mcp.Change) error { close(ready); return nil })
	}()
	<-ready
	l.sent = nil
	if err := c.Reopen(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if want := []string{"initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/subscribe"}; !slices.Equal(l.sent, want) {
		t.Errorf("sent %q, want %q", l.sent, want)
	}
	stop()
	<-ended
}

// TestPeopleTakeTheirTime checks that a question for a person has no deadline on either side.
func TestPeopleTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := answering()
		o.Versions = []mcp.Version{mcp.V20251125}
		o.Elicit = func(ctx context.Context, _ *mcp.Elicitation) (*mcp.ElicitResult, error) {
			select {
			case <-time.After(30 * time.Minute):
			case <-ctx.Done():
			}
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"Ada"}`)}, nil
		}
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
		mcp.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			a, err := r.Elicit(ctx, "k", &mcp.Elicitation{Message: "?"})
			if err != nil {
				return "", err
			}
			return a.Action, nil
		})
		there, end := pipe(t, s)
		c, err := mcp.Connect(t.Context(), there, mcp.Implementation{Name: "c", Version: "1"}, &o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if r, err := c.CallTool(ctx, "ask", nil, nil); err != nil || r.Text() != "accept" {
			t.Errorf("got %+v, %v", r, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestVisit checks how a call is repeated if the server requires the user to visit a URL first
// (-32042).
func TestVisit(t *testing.T) {
	needs := func(urls ...string) error {
		var all []string
		for _, u := range urls {
			all = append(all, `{"mode":"url","elicitationId":"id-`+u+`","url":"https://a.example/`+u+`","message":"go"}`)
		}
		return &jsonrpc.Error{Code: mcp.CodeURLElicitation, Message: "Go there first", Data: jsonrpc.Raw(`{"elicitations":[` + strings.Join(all, ",") + `]}`)}
	}
	accept := &mcp.ElicitResult{Action: mcp.ActionAccept}
	for _, tt := range []struct {
		name    string
		answers []error // nil: the result; the last one is repeated
		user    *mcp.ElicitResult
		able    bool
		told    time.Duration // when the server reports completion; zero: never
		visits  []string
		fails   bool
		calls   int
		after   time.Duration
	}{
		{"once, and the server lets it pass", []error{needs("x"), nil}, accept, true, 0, []string{"x"}, false, 2, 0},
		{"two at once", []error{needs("x", "y"), nil}, accept, true, 0, []string{"x", "y"}, false, 2, 0},
		{"one after the other", []error{needs("x"), needs("y"), nil}, accept, true, 0, []string{"x", "y"}, false, 3, 0},
		{"until the server says that it is done", []error{needs("x"), needs("x"), needs("x"), nil}, accept, true, 700 * time.Millisecond, []string{"x"}, false, 4, 700 * time.Millisecond},
		{"or for a while", []error{needs("x"), needs("x"), needs("x"), nil}, accept, true, 0, []string{"x"}, false, 4, 1500 * time.Millisecond},
		{"not for ever", []error{needs("x")}, accept, true, 0, []string{"x"}, true, 17, 0},
		{"the user does not want to", []error{needs("x"), nil}, &mcp.ElicitResult{Action: mcp.ActionDecline}, true, 0, []string{"x"}, true, 1, 0},
		{"nobody can go", []error{needs("x"), nil}, accept, false, 0, nil, true, 1, 0},
		{"without a URL", []error{&jsonrpc.Error{Code: mcp.CodeURLElicitation}, nil}, accept, true, 0, nil, true, 1, 0},
		{"a form is no URL", []error{&jsonrpc.Error{Code: mcp.CodeURLElicitation, Data: jsonrpc.Raw(`{"elicitations":[{"message":"m"}]}`)}, nil}, accept, true, 0, nil, true, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				l := &scriptLink{}
				l.answer = func(method string, _ jsonrpc.Raw) (string, error) {
					switch method {
					case mcp.MethodInitialize:
						return helloOfOld, nil
					case mcp.MethodToolsCall:
						err := tt.answers[min(calls, len(tt.answers)-1)]
						calls++
						return `{"content":[{"type":"text","text":"done"}]}`, err
					}
					return `{}`, nil
				}
				var visits []string
				c := mcp.NewClient(mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}, ElicitURL: tt.able,
					Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
						visits = append(visits, strings.TrimPrefix(e.URL, "https://a.example/"))
						return tt.user, nil
					}})
				if err := c.Open(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if tt.told > 0 {
					time.AfterFunc(tt.told, func() {
						_, _ = c.Handle(t.Context(), &jsonrpc.Request{Method: mcp.NotifyElicitationComplete, Params: jsonrpc.Raw(`{"elicitationId":"id-x"}`)})
					})
				}
				begun := time.Now()
				r, err := c.CallTool(t.Context(), "t", nil, nil)
				if tt.fails {
					if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != mcp.CodeURLElicitation {
						t.Errorf("got error %v", err)
					}
				} else if err != nil || r.Text() != "done" {
					t.Errorf("got %+v, %v", r, err)
				}
				if !slices.Equal(visits, tt.visits) || calls != tt.calls || tt.after > 0 && time.Since(begun) != tt.after {
					t.Errorf("went to %q, called %d times in %v; want %q, %d, %v", visits, calls, time.Since(begun), tt.visits, tt.calls, tt.after)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestVisitReported reports the end of visits as a careless or hostile server may: more than once,
// with several IDs for one visit, before the rejection that names the ID, and with an ID that is
// reused after its end. The call ends with its result each time.
func TestVisitReported(t *testing.T) {
	refusal := func(ids ...string) error { // all for one URL
		var all []string
		for _, id := range ids {
			all = append(all, `{"mode":"url","elicitationId":"`+id+`","url":"https://a.example/x","message":"go"}`)
		}
		return &jsonrpc.Error{Code: mcp.CodeURLElicitation, Message: "Go there first", Data: jsonrpc.Raw(`{"elicitations":[` + strings.Join(all, ",") + `]}`)}
	}
	for _, tt := range []struct {
		name    string
		answers []error
		told    [][]string // what is reported as complete before each response
	}{
		{"twice", []error{refusal("a"), refusal("a"), nil}, [][]string{{}, {"a", "a"}, {"a", "a", "a"}}},
		{"again after the visit is registered again", []error{refusal("a"), refusal("a"), refusal("a"), nil}, [][]string{{}, {"a"}, {"a"}, {"a"}}},
		{"by another ID of an ended visit", []error{refusal("a"), refusal("b"), refusal("c"), nil}, [][]string{{}, {"a"}, {"b", "a"}, {"c", "b", "a"}}},
		{"two IDs of one visit", []error{refusal("a", "b"), refusal("b", "a"), nil}, [][]string{{}, {"a", "b"}, {"b", "a"}}},
		{"IDs that nobody gave", []error{refusal("a"), nil}, [][]string{{"x", ""}, {"", "x"}}},
		{"an empty ID", []error{refusal(""), refusal(""), nil}, [][]string{{""}, {"", ""}, {"", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				var c *mcp.Client
				l := &scriptLink{}
				l.answer = func(method string, _ jsonrpc.Raw) (string, error) {
					switch method {
					case mcp.MethodInitialize:
						return helloOfOld, nil
					case mcp.MethodToolsCall:
						// on the caller's goroutine, as over HTTP
						for _, id := range tt.told[calls] {
							_, _ = c.Handle(t.Context(), &jsonrpc.Request{Method: mcp.NotifyElicitationComplete, Params: jsonrpc.Raw(`{"elicitationId":"` + id + `"}`)})
						}
						err := tt.answers[calls]
						calls++
						return `{"content":[{"type":"text","text":"done"}]}`, err
					}
					return `{}`, nil
				}
				c = mcp.NewClient(mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}, ElicitURL: true,
					Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
					}})
				if err := c.Open(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if r, err := c.CallTool(t.Context(), "t", nil, nil); err != nil || r.Text() != "done" || calls != len(tt.answers) {
					t.Errorf("got %+v, %v after %d calls", r, err, calls)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLastWords checks that requests before the end of the input are answered within 2 s, and that
// a subscription does not delay this.
func TestLastWords(t *testing.T) {
	const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + envelope + `}}` + "\n"
	call := func(name string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + name + `",` + envelope + `}}` + "\n"
	}
	for _, tt := range []struct {
		name, input string
		want        string // in the output
		after       time.Duration
	}{
		{"a call", call("slow"), `"text":"done"`, time.Second},
		{"a call that takes too long", call("hangs"), ``, 2 * time.Second},
		{"a subscription", listen, `"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1,`, 0},
		{"both", listen + call("slow"), `"text":"done"`, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
				wait := func(d time.Duration) func(context.Context, *mcp.Request, struct{}) (string, error) {
					return func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
						select {
						case <-time.After(d):
						case <-ctx.Done():
						}
						return "done", nil
					}
				}
				mcp.AddTool(s, mcp.Tool{Name: "slow"}, wait(time.Second))
				mcp.AddTool(s, mcp.Tool{Name: "hangs"}, wait(time.Hour))
				var out strings.Builder
				begun := time.Now()
				if err := s.Serve(t.Context(), stream.New(&script{in: strings.NewReader(tt.input), out: &out}, stream.Line, nil)); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took != tt.after || !strings.Contains(out.String(), tt.want) {
					t.Errorf("Serve took %v and said %s; want %v, %s", took, out.String(), tt.after, tt.want)
				}
				s.Close()
			})
		})
	}
}

// A script is a connection with a given, finite input.
type script struct {
	in *strings.Reader

	mu  sync.Mutex
	out *strings.Builder
}

func (s *script) Read(p []byte) (int, error) { return s.in.Read(p) }
func (s *script) Close() error               { return nil }

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// TestRootsQuestionOnTheWire checks that the question has params, because the official Go SDK
// (v1.8.0) rejects it without params.
func TestRootsQuestionOnTheWire(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "where"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		_, err := r.Roots(ctx, "client_roots")
		return "", err
	})
	var out strings.Builder
	in := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}` + "\n"
	if err := s.Serve(t.Context(), stream.New(&script{in: strings.NewReader(in), out: &out}, stream.Line, nil)); err != nil {
		t.Error(err)
	}
	s.Close()
	if want := `"inputRequests":{"client_roots":{"method":"roots/list","params":{}}}`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s in it", out.String(), want)
	}
}
