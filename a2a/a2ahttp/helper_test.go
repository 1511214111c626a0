package a2ahttp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

func card() a2a.AgentCard {
	return a2a.AgentCard{Name: "test", Description: "An agent for tests.", Version: "1.0",
		SupportedInterfaces: a2ahttp.Interfaces("/rpc", "/rest"),
		Capabilities:        a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes:   []string{"text/plain"},
		DefaultOutputModes:  []string{"text/plain"},
		Skills:              []a2a.AgentSkill{{ID: "echo", Name: "Echo", Description: "Says it again.", Tags: []string{"test"}}}}
}

func echo(ctx context.Context, r *a2a.Run) error {
	return r.Artifact(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(r.Message.Text())}})
}

// words is an agent that streams the words of the message, one by one.
func words(ctx context.Context, r *a2a.Run) error {
	for i, word := range strings.Fields(r.Message.Text()) {
		if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(word)}}, i > 0, false); err != nil {
			return err
		}
	}
	return nil
}

// A site is one agent served on loopback.
type site struct {
	a2a  *a2a.Server
	http *a2ahttp.Server
	web  *httptest.Server
	url  string
}

func serve(t testing.TB, c a2a.AgentCard, agent a2a.AgentFunc, o *a2a.ServerOptions, change ...func(*a2ahttp.Server)) *site {
	t.Helper()
	s := &site{a2a: a2a.NewServer(c, agent, o)}
	s.http = &a2ahttp.Server{A2A: s.a2a}
	for _, f := range change {
		f(s.http)
	}
	mux := http.NewServeMux()
	mux.Handle(a2ahttp.CardPath, s.http.Card())
	mux.Handle("/rpc", s.http.RPC())
	mux.Handle("/rest/", http.StripPrefix("/rest", s.http.REST()))
	mux.Handle("/ws", s.http.WebSocket())
	mux.Handle("/", s.http)
	s.web = httptest.NewServer(mux)
	s.url = s.web.URL
	t.Cleanup(func() {
		s.web.CloseClientConnections()
		s.a2a.Close()
		s.web.Close()
	})
	return s
}

// dial returns a client based on the card.
func (s *site) dial(t testing.TB, o *a2ahttp.Options) *a2a.Client {
	t.Helper()
	c, _, err := a2ahttp.Dial(context.Background(), s.url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// An answer is the response to one request.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask makes one request. headers holds pairs of name and value.
func (s *site) ask(t testing.TB, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	got, err := s.web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

// data returns the data lines of an event stream.
func (a answer) data() (all []string) {
	lines := bufio.NewScanner(strings.NewReader(a.body))
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

func text(s string) *a2a.SendRequest { return &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text(s))} }
