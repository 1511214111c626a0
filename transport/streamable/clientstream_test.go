package streamable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// resuming returns a server whose response to "a" is one stream after the other: each string is a
// whole stream, "status N" is a response without a stream.
func resuming(streams ...string) func(*answer, *asked) {
	next := 0
	return func(a *answer, r *asked) {
		if r.method == http.MethodDelete || strings.Contains(r.body, `"open"`) || strings.Contains(r.body, `"cancel"`) {
			answering(a, r)
			return
		}
		if next >= len(streams) {
			a.status = http.StatusTeapot
			return
		}
		text := streams[next]
		next++
		if n, err := fmt.Sscanf(text, "status %d", &a.status); n == 1 && err == nil {
			return
		}
		a.stream(text)
	}
}

// TestClientResumes checks when and how a broken stream is resumed.
func TestClientResumes(t *testing.T) {
	yes := event(result("2", `"yes"`))
	ms := time.Millisecond
	for _, tt := range []struct {
		name    string
		streams []string
		last    []string        // Last-Event-ID of each GET
		from    []time.Duration // the earliest time of each GET, after the POST
		to      []time.Duration // the latest
		want    func(error) bool
	}{
		{"after the time that the server named", []string{"id: 1\nretry: 500\ndata:\n\n", yes}, []string{"1"}, []time.Duration{500 * ms}, []time.Duration{500 * ms}, nil},
		{"a longer time", []string{"id: 1\nretry: 20000\ndata:\n\n", yes}, []string{"1"}, []time.Duration{20 * time.Second}, []time.Duration{20 * time.Second}, nil},
		{"after a moment, if it named none", []string{"id: 1\n" + event("{}") + "id: 2\ndata:\n\n", yes}, nil, nil, nil,
			// {} is not a message
			func(err error) bool { return errors.Is(err, jsonrpc.ErrBadResponse) }},
		{"behind the last event", []string{"id: a-1\ndata:\n\nid: a-2\n" + event(`{"jsonrpc":"2.0","method":"note"}`), yes}, []string{"a-2"}, []time.Duration{200 * ms}, []time.Duration{300 * ms}, nil},
		{"an event that was cut off does not count", []string{"id: 1\ndata:\n\nid: 2\ndata: {", yes}, []string{"1"}, []time.Duration{200 * ms}, []time.Duration{300 * ms}, nil},
		{"again and again", []string{"id: 1\nretry: 10\ndata:\n\n", "id: 2\ndata:\n\n", "id: 3\nretry: 20\ndata:\n\n", yes}, []string{"1", "2", "3"},
			[]time.Duration{10 * ms, 20 * ms, 40 * ms}, []time.Duration{10 * ms, 20 * ms, 40 * ms}, nil},
		{"what fails comes back later and later", []string{"id: 1\nretry: 0\ndata:\n\n", "status 503", "status 503", yes}, []string{"1", "1", "1"},
			[]time.Duration{0, 400 * ms, 1200 * ms}, []time.Duration{0, 600 * ms, 1800 * ms}, nil},
		{"without an id there is no way back", []string{"retry: 10\ndata:\n\n"}, nil, nil, nil, func(err error) bool { return errors.Is(err, jsonrpc.ErrBadResponse) }},
		{"the server cannot", []string{"id: 1\nretry: 1\ndata:\n\n", "status 405"}, []string{"1"}, []time.Duration{ms}, []time.Duration{ms}, func(err error) bool {
			s, ok := errors.AsType[*httprpc.StatusError](err)
			return ok && s.Status == 405
		}},
		{"the session is over", []string{"id: 1\nretry: 1\ndata:\n\n", "status 404"}, []string{"1"}, []time.Duration{ms}, []time.Duration{ms}, func(err error) bool {
			// which would mean: send it again
			_, again := errors.AsType[*streamable.SessionError](err)
			return !again
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Duration
				var begun time.Time
				serve := resuming(tt.streams...)
				w := &wire{serve: func(a *answer, r *asked) {
					if r.method == http.MethodGet {
						at = append(at, time.Since(begun))
					}
					serve(a, r)
				}}
				c := client(w, streamable.ClientOptions{})
				if _, err := call(t.Context(), c, "open"); err != nil {
					t.Fatal(err)
				}
				begun = time.Now()
				got, err := call(t.Context(), c, "a")
				switch {
				case tt.want == nil && (got != "yes" || err != nil):
					t.Errorf("got %q, %v", got, err)
				case tt.want != nil && (err == nil || !tt.want(err)):
					t.Errorf("got %q and the error %v", got, err)
				}
				var last []string
				for i, a := range w.asked() {
					if a == "GET" {
						h := w.request(i).header
						last = append(last, h.Get("Last-Event-ID"))
						if h.Get("Session-Id") != "S1" || h.Get("Accept") != "text/event-stream" {
							t.Errorf("GET has headers %v", h)
						}
					}
				}
				if !slices.Equal(last, tt.last) {
					t.Errorf("came back behind %q, want %q", last, tt.last)
				}
				for i := range min(len(at), len(tt.from)) {
					if at[i] < tt.from[i] || at[i] > tt.to[i] {
						t.Errorf("GET %d came after %v, want %v to %v", i, at[i], tt.from[i], tt.to[i])
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClientResumesNotForEver checks that a call without a bound ends if the stream does not
// continue.
func TestClientResumesNotForEver(t *testing.T) {
	for name, get := range map[string]func(a *answer){
		"a failure": func(a *answer) { a.status = http.StatusBadGateway },
		// It is no progress, and must not renew the call either.
		"events are lost": func(a *answer) { a.stream("event: error\ndata: lost\n\n") },
	} {
		t.Run(name, func(t *testing.T) { resumesNotForEver(t, get) })
	}
}

func resumesNotForEver(t *testing.T, get func(a *answer)) {
	synctest.Test(t, func(t *testing.T) {
		gets := 0
		w := &wire{serve: func(a *answer, r *asked) {
			switch {
			case r.method == http.MethodGet:
				if gets++; gets > 100 {
					a.status = http.StatusTeapot // the end, if the client does not give up
					return
				}
				get(a)
			case strings.Contains(r.body, `"a"`):
				a.stream("id: 1\ndata:\n\n")
			default:
				answering(a, r)
			}
		}}
		c := client(w, streamable.ClientOptions{Open: func(string) bool { return true }})
		if _, err := call(t.Context(), c, "a"); !errors.Is(err, jsonrpc.ErrBadResponse) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantAsked(t, w, append([]string{`POST {"jsonrpc":"2.0","method":"a","id":1}`}, slices.Repeat([]string{"GET"}, 8)...)...)
	})
}

// TestClientUnboundDoesNotResume checks that an Unbound call fails with its stream, regardless of
// the IDs of events.
func TestClientUnboundDoesNotResume(t *testing.T) {
	w := &wire{serve: func(a *answer, _ *asked) { a.stream("id: 1\nretry: 1\ndata:\n\n") }}
	c := client(w, streamable.ClientOptions{})
	defer c.Close()
	if _, err := call(t.Context(), c, "alone"); !errors.Is(err, jsonrpc.ErrBadResponse) {
		t.Error(err)
	}
	wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"alone","id":1}`)
}

// TestClientUnboundIsNotAsked checks that a request of the server on the stream of an Unbound call
// is reported and not answered, since there is no session to answer in, that notifications are
// passed on, and that the call continues (MCP 2026-07-28, Transports, Sending Messages).
func TestClientUnboundIsNotAsked(t *testing.T) {
	w := &wire{serve: func(a *answer, _ *asked) {
		a.stream(event(`{"jsonrpc":"2.0","id":"q1","method":"question","params":{"text":"the password?"}}`) +
			event(`{"jsonrpc":"2.0","method":"news"}`) + event(`{"jsonrpc":"2.0","id":1,"method":"question"}`) + event(`{"jsonrpc":"2.0","result":"yes","id":1}`))
	}}
	var mu sync.Mutex // guards the lists below
	var handled, reported []string
	c := client(w, streamable.ClientOptions{
		Back: &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			handled = append(handled, req.Method)
			return "my answer", nil
		})},
		Report: func(what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, what)
			if err == nil {
				t.Errorf("%s has no error", what)
			}
		},
	})
	if got, err := call(t.Context(), c, "alone"); got != "yes" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(handled, []string{"news"}) || !slices.Equal(reported, []string{jsonrpc.ReportServerRequest, jsonrpc.ReportServerRequest}) {
		t.Errorf("handled %q, reported %q", handled, reported)
	}
	wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"alone","id":1}`)
}

// TestClientHears simulates a session in which the server also sends messages, on both kinds of
// streams.
func TestClientHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		push := make(chan string)
		answers := make(chan string, 10)
		w := &wire{serve: func(a *answer, r *asked) {
			switch {
			case r.method == http.MethodGet:
				a.stream("")
				for {
					select {
					case text := <-push:
						a.send(text)
					case <-r.ctx.Done():
						return
					}
				}
			case strings.Contains(r.body, `"a"`): // calls back before it responds, and reports its progress on both streams
				a.stream(event(`{"jsonrpc":"2.0","method":"progress","params":{"of":2,"n":1}}`) + event(`{"jsonrpc":"2.0","id":"q1","method":"question"}`))
				if got := <-answers; got != `{"jsonrpc":"2.0","result":"answer to question","id":"q1"}` {
					t.Errorf("answered %s", got)
				}
				push <- event(`{"jsonrpc":"2.0","method":"progress","params":{"of":2,"n":2}}`)
				push <- event(`{"jsonrpc":"2.0","method":"progress","params":{"of":9,"n":3}}`)
				push <- event(`{"jsonrpc":"2.0","id":9007199254740993,"method":"question"}`)
				if got := <-answers; got != `{"jsonrpc":"2.0","result":"answer to question","id":9007199254740993}` {
					t.Errorf("answered %s", got)
				}
				a.send(event(result("2", `"yes"`)))
			case strings.Contains(r.body, `"result"`):
				a.status = http.StatusAccepted
				if r.header.Get("Session-Id") != "S1" || r.header.Get("X-Stream") != "1" {
					t.Errorf("an answer has headers %v", r.header)
				}
				answers <- r.body
			default:
				answering(a, r)
			}
		}}
		b := &backer{}
		c := client(w, streamable.ClientOptions{
			Back:         &jsonrpc.Answerer{Handler: b},
			StreamHeader: func() http.Header { return http.Header{"X-Stream": {"1"}} },
			Related: func(req *jsonrpc.Request) (jsonrpc.ID, bool) {
				var p struct {
					Of jsonrpc.ID `json:"of"`
					N  int        `json:"n"`
				}
				return p.Of, req.Params.Decode(&p) == nil
			},
		})
		if _, err := call(t.Context(), c, "open"); err != nil {
			t.Fatal(err)
		}
		c.Listen(t.Context())
		push <- event(`{"jsonrpc":"2.0","method":"changed"}`)
		var heard []string
		var got string
		err := c.Stream(t.Context(), "a", nil, &got, func(req *jsonrpc.Request) error {
			heard = append(heard, string(req.Params))
			return nil
		})
		if got != "yes" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if want := []string{`{"of":2,"n":1}`, `{"of":2,"n":2}`}; !slices.Equal(heard, want) {
			t.Errorf("the call heard %q, want %q", heard, want)
		}
		if want := []string{"changed", `progress{"of":9,"n":3}`}; !slices.Equal(b.heard(), want) {
			t.Errorf("the rest was %q, want %q", b.heard(), want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestClientGivesUpFromWithin checks that an error of the notification function ends the call, and
// that the server is notified.
func TestClientGivesUpFromWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(a *answer, r *asked) {
			if !strings.Contains(r.body, `"a"`) {
				answering(a, r)
				return
			}
			a.stream(event(`{"jsonrpc":"2.0","method":"note"}`))
			<-r.ctx.Done()
		}}
		c := client(w, streamable.ClientOptions{})
		enough := errors.New("enough")
		if err := c.Stream(t.Context(), "a", nil, nil, func(*jsonrpc.Request) error { return enough }); !errors.Is(err, enough) {
			t.Error(err)
		}
		synctest.Wait()
		wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"a","id":1}`, `POST {"jsonrpc":"2.0","method":"cancel","params":{"id":1}}`)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestClientAnswerElsewhere checks that the response to a call may arrive on the stream of the
// session, as some servers send it, whatever the HTTP response to the call is afterwards.
func TestClientAnswerElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*answer) // nil: no HTTP response
	}{
		{"nothing", nil},
		{"200 without a body", func(*answer) {}},
		{"202", func(a *answer) { a.status = http.StatusAccepted }},
		{"500", func(a *answer) { a.status = http.StatusInternalServerError }},
		{"404", func(a *answer) { a.status = http.StatusNotFound }},
		{"text", func(a *answer) { a.header.Set("Content-Type", "text/plain"); a.send("ok") }},
		{"not JSON", func(a *answer) { a.plain(200, "{") }},
		{"the same again", func(a *answer) { a.plain(200, result("1", `"no"`)) }},
		{"the response to another call", func(a *answer) { a.plain(200, result("2", `"no"`)) }},
		{"an error", func(a *answer) { a.plain(200, `{"jsonrpc":"2.0","error":{"code":-1,"message":"no"},"id":1}`) }},
		{"an empty stream", func(a *answer) { a.stream("") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				push := make(chan string)
				w := &wire{deaf: tt.end != nil}
				w.serve = func(a *answer, r *asked) {
					switch {
					case r.method == http.MethodGet:
						a.stream("")
						select {
						case text := <-push:
							a.send(text)
						case <-r.ctx.Done():
						}
						<-r.ctx.Done()
						_ = a.pipe.Close() // never fails
					case strings.Contains(r.body, `"a"`):
						push <- event(result("1", `"yes"`))
						<-r.ctx.Done()
						if tt.end == nil {
							<-t.Context().Done() // so that this is not an empty response
							return
						}
						tt.end(a)
					default:
						answering(a, r)
					}
				}
				c := client(w, streamable.ClientOptions{})
				c.Listen(t.Context())
				begun := time.Now()
				if got, err := call(t.Context(), c, "a"); got != "yes" || err != nil || time.Since(begun) != 0 {
					t.Errorf("got %q, %v after %v", got, err, time.Since(begun))
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				wantAsked(t, w, `GET`, `POST {"jsonrpc":"2.0","method":"a","id":1}`) // and no cancel
			})
		})
	}
}

// TestClientListens checks how the stream of a session is kept open.
func TestClientListens(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"note"}`
	for _, tt := range []struct {
		name    string
		streams []string
		last    []string // of each GET
		heard   int
		lost    string
	}{
		{"comes back behind what it has", []string{"id: 7\nretry: 10\n" + event(note), "id: 8\n" + event(note), "status 405"}, []string{"", "7", "8"}, 2, ""},
		{"there is none", []string{"status 405"}, []string{""}, 0, ""},
		{"a server that fails for a while", []string{"status 500", "status 429", event(note), "status 405"}, []string{"", "", "", ""}, 1, ""},
		{"a server that means it", []string{"status 400"}, []string{""}, 0, ""},
		{"the server has forgotten the place", []string{"id: 7\nretry: 10\n" + event(note), "status 400", event(note), "status 405"}, []string{"", "7", "", ""}, 2, ""},
		{"the server has lost events", []string{"id: 7\nretry: 10\n" + event(note), "event: error\ndata: lost\n\n", event(note), "status 405"}, []string{"", "7", "", ""}, 2, ""},
		{"the session is over", []string{event(note), "status 404"}, []string{"", ""}, 1, "S1"},
		{"behind what is too large", []string{"data: " + strings.Repeat("x", 3000) + "\n\n" + event(note), "status 405"}, []string{"", ""}, 1, ""},
		{"garbage does not matter", []string{event("{") + event(`[]`) + event(`{"jsonrpc":"2.0","result":1,"id":77}`) + event(note), "status 405"}, []string{"", ""}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{serve: resuming(tt.streams...)}
				b := &backer{}
				lost := ""
				c := client(w, streamable.ClientOptions{Back: &jsonrpc.Answerer{Handler: b}, MaxMessage: 1000, Lost: func(session string) { lost = session }})
				if _, err := call(t.Context(), c, "open"); err != nil {
					t.Fatal(err)
				}
				c.Listen(t.Context())
				time.Sleep(time.Hour) // in the bubble: until nothing is left to do
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				var last []string
				for i, a := range w.asked() {
					if a == "GET" {
						last = append(last, w.request(i).header.Get("Last-Event-ID"))
					}
				}
				if !slices.Equal(last, tt.last) || len(b.heard()) != tt.heard || lost != tt.lost {
					t.Errorf("came behind %q, heard %d, lost %q; want %q, %d, %q", last, len(b.heard()), lost, tt.last, tt.heard, tt.lost)
				}
			})
		})
	}
}

// TestClientListensAnew checks that the stream of a new session replaces the one before.
func TestClientListensAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(a *answer, r *asked) {
			if r.method == http.MethodGet {
				a.stream("")
				<-r.ctx.Done()
				return
			}
			answering(a, r)
		}}
		c := client(w, streamable.ClientOptions{})
		c.Listen(t.Context())
		c.Listen(t.Context())
		synctest.Wait()
		if w.request(0).ctx.Err() == nil || w.request(1).ctx.Err() != nil {
			t.Error("not the second is the one that goes on")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestClientTimeStandsStill checks that the CallTime is suspended while this side handles a request
// of the server, and while a Transport of HTTP handles a refusal.
func TestClientTimeStandsStill(t *testing.T) {
	t.Run("a question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			answered := make(chan struct{})
			w := &wire{serve: func(a *answer, r *asked) {
				switch {
				case strings.Contains(r.body, `"a"`):
					a.stream(event(`{"jsonrpc":"2.0","id":1,"method":"question"}`))
					<-answered
					a.send(event(result("1", `"yes"`)))
				case strings.Contains(r.body, `"result"`):
					a.status = http.StatusAccepted
					close(answered)
				default:
					answering(a, r)
				}
			}}
			b := &backer{ask: func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
				select {
				case <-time.After(5 * time.Minute):
				case <-ctx.Done():
				}
				return "at last", nil
			}}
			c := client(w, streamable.ClientOptions{Back: &jsonrpc.Answerer{Handler: b, Mode: func(string) jsonrpc.Mode { return jsonrpc.Open }}})
			begun := time.Now()
			if got, err := call(t.Context(), c, "a"); got != "yes" || err != nil || time.Since(begun) != 5*time.Minute {
				t.Errorf("got %q, %v after %v", got, err, time.Since(begun))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a login", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := streamable.NewClient("http://server.example/", &streamable.ClientOptions{HTTP: &http.Client{Transport: slowLogin{&wire{serve: answering}}}})
			begun := time.Now()
			if got, err := call(t.Context(), c, "a"); got != "a" || err != nil || time.Since(begun) != 10*time.Minute {
				t.Errorf("got %q, %v after %v", got, err, time.Since(begun))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestClientTimeIsBounded checks that a server cannot suspend the CallTime of a call for good with
// the first byte of a response, whatever Transport the client has.
func TestClientTimeIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		transport func(t *testing.T) http.RoundTripper
		want      time.Duration
	}{
		"net/http": {func(t *testing.T) http.RoundTripper {
			return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				t.Cleanup(func() { _ = theirs.Close() }) // never fails
				go func() {
					if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
						t.Error(err)
					}
					_, _ = io.WriteString(theirs, "HTTP/1.1 103 Early Hints\r\n\r\n") // the client may be gone
				}()
				return ours, nil
			}}
		}, time.Minute},
		"another": {func(*testing.T) http.RoundTripper { return firstByte{} }, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := streamable.NewClient("http://server.example/", &streamable.ClientOptions{HTTP: &http.Client{Transport: tt.transport(t)}})
				begun := time.Now()
				if _, err := call(t.Context(), c, "a"); !errors.Is(err, jsonrpc.ErrTimeout) || time.Since(begun) != tt.want {
					t.Errorf("%v after %v, want ErrTimeout after %v", err, time.Since(begun), tt.want)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A firstByte gets the first byte of a response, and nothing more.
type firstByte struct{}

func (firstByte) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	trace.GotFirstResponseByte()
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// A slowLogin is refused at first, waits for a login, and then sends the request again.
type slowLogin struct{ next http.RoundTripper }

func (s slowLogin) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	trace.GotFirstResponseByte()
	select {
	case <-time.After(10 * time.Minute):
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	return s.next.RoundTrip(req)
}

// TestClientAnswersOnlySoMany checks that the stream waits while 64 of its requests are being
// handled.
func TestClientAnswersOnlySoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(a *answer, r *asked) {
			if !strings.Contains(r.body, `"a"`) {
				answering(a, r)
				return
			}
			for i := range 100 {
				a.stream(event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"question"}`, i)))
			}
			a.send(event(result("1", `"yes"`)))
		}}
		running, release := 0, make(chan struct{})
		b := &backer{}
		b.ask = func(context.Context, *jsonrpc.Request) (any, error) {
			b.mu.Lock()
			running++
			b.mu.Unlock()
			<-release
			return nil, nil
		}
		c := client(w, streamable.ClientOptions{Back: &jsonrpc.Answerer{Handler: b}})
		ended := make(chan error, 1)
		go func() {
			_, err := call(t.Context(), c, "a")
			ended <- err
		}()
		synctest.Wait()
		b.mu.Lock()
		if running != 64 {
			t.Errorf("%d run at once", running)
		}
		b.mu.Unlock()
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzClientAnswer checks that a call ends for any input, with a result or an error.
func FuzzClientAnswer(f *testing.F) {
	for _, text := range []string{
		result("1", `"yes"`), "[" + result("1", "1") + "]", `{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":null}`,
		event(result("1", `"yes"`)), "id: 1\nretry: 0\ndata:\n\n", "id: 1\n" + event(`{"jsonrpc":"2.0","method":"m"}`) + event(result("1", "{}")),
		": c\r\n\r\nevent: x\rdata: y\r\r", event(`{"jsonrpc":"2.0","id":5,"method":"m"}`), "\xef\xbb\xbfdata: {}\n\n",
	} {
		f.Add(text, true, 200)
		f.Add(text, false, 200)
		f.Add(text, false, 404)
	}
	f.Fuzz(func(t *testing.T, text string, streamed bool, status int) {
		if status < 200 || status > 599 {
			return
		}
		gets := 0 // a server that continues without end would keep the call open without end
		w := &wire{serve: func(a *answer, r *asked) {
			if r.method == http.MethodGet {
				if gets++; gets > 2 {
					a.status = http.StatusMethodNotAllowed
					return
				}
			}
			a.status = status
			if streamed {
				a.stream(text)
			} else {
				a.plain(status, text)
			}
		}}
		synctest.Test(t, func(t *testing.T) {
			c := client(w, streamable.ClientOptions{MaxMessage: 1 << 10})
			var got jsonrpc.Raw
			if err := c.Call(t.Context(), "m", nil, &got); err == nil {
				if _, err := jsonrpc.ParseRaw(got); err != nil {
					t.Errorf("the result %q is no JSON", got)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}
