package acphttp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/acp"
)

// A stage is a server with agents that tests control.
type stage struct {
	*acp.Server
	begun   chan *acp.Job // one for each run of "wait" and "count"
	ended   chan error    // the cause of the context of one
	release chan struct{} // lets "wait" end, and "count" count on
}

func newStage(t testing.TB, o *acp.Options) *stage {
	t.Helper()
	s := &stage{Server: acp.NewServer(o), begun: make(chan *acp.Job, 100), ended: make(chan error, 100), release: make(chan struct{})}
	add := func(name string, run func(context.Context, *acp.Job) error) {
		s.Add(acp.Agent{Manifest: acp.AgentManifest{Name: name, Description: "For tests."}, Run: run})
	}
	add("echo", func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) })
	add("ask", func(ctx context.Context, j *acp.Job) error {
		m, err := j.Await(ctx, acp.UserMessage(acp.Text("Your name?")))
		if err != nil {
			return err
		}
		return j.Say(ctx, "Hello "+m.Text())
	})
	pause := func(ctx context.Context) error {
		select {
		case <-s.release:
			return nil
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return ctx.Err()
		}
	}
	add("wait", func(ctx context.Context, j *acp.Job) error {
		s.begun <- j
		return pause(ctx)
	})
	add("count", func(ctx context.Context, j *acp.Job) error {
		s.begun <- j
		for i := range 10 {
			if err := pause(ctx); err != nil {
				return err
			}
			if err := j.Say(ctx, fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve serves a handler until the test is over.
func serve(t testing.TB, h http.Handler, err error) *httptest.Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web
}

func serveREST(t testing.TB, s *stage, o *Options) *httptest.Server {
	h, err := NewREST(s.Server, o)
	return serve(t, h, err)
}

func serveRPC(t testing.TB, s *stage, o *Options) *httptest.Server {
	h, err := NewRPC(s.Server, o)
	return serve(t, h, err)
}

// raw sends bytes and returns the whole response.
func raw(t testing.TB, web *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%v after %q", err, answer)
	}
	return anyDate.ReplaceAllString(string(answer), "")
}

var (
	anyLength = regexp.MustCompile(`Content-Length: \d+\r\n`)
	anyDate   = regexp.MustCompile(`Date: [^\r]*\r\n`)
	anyUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime   = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z"`)
)

// steady replaces what differs with each run: ids are numbered in order of appearance, times are T.
func steady(text string) string {
	seen := map[string]string{}
	text = anyUUID.ReplaceAllStringFunc(text, func(id string) string {
		if seen[id] == "" {
			seen[id] = string(rune('A' + len(seen)))
		}
		return seen[id]
	})
	return anyTime.ReplaceAllString(text, `"T"`)
}

// request returns an HTTP/1.0 request, whose response has no chunks, from a client that uses the
// server's address as its name.
func request(web *httptest.Server, method, path, body string, headers ...string) string {
	all := method + " " + path + " HTTP/1.0\r\nHost: " + web.Listener.Addr().String() + "\r\n"
	if body != "" {
		all += fmt.Sprintf("Content-Length: %d\r\n", len(body))
		if !strings.Contains(strings.Join(headers, "\r\n"), "Content-Type") {
			all += "Content-Type: application/json\r\n"
		}
	}
	for _, h := range headers {
		all += h + "\r\n"
	}
	return all + "\r\n" + body
}

// parts splits a response.
func parts(answer string) (status, headers, body string) {
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	status, headers, _ = strings.Cut(head, "\r\n")
	_, status, _ = strings.Cut(status, " ")
	return status[:3], headers + "\r\n", body
}

func eventually[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func ask(agent, text string) acp.RunCreateRequest {
	return acp.RunCreateRequest{AgentName: agent, Input: acp.Ask(text)}
}

func must(t testing.TB) func(*acp.Run, error) *acp.Run {
	return func(run *acp.Run, err error) *acp.Run {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
}

const uuid1 = "5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20"
