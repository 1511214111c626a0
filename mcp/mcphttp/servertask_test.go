package mcphttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestQuestionsOfATask checks where a task of 2025-11-25 asks its questions: on the newest request
// for its result that still waits, otherwise on the stream of the session.
func TestQuestionsOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcp.NewServer(me, nil)
		defer s.Close()
		release := make(chan string)
		mcp.AddTool(s, mcp.Tool{Name: "book", Task: mcp.TaskRequired}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			for {
				text := <-release
				if text == "" {
					return "done", nil
				}
				if _, err := r.Elicit(ctx, text, &mcp.Elicitation{Message: text}); err != nil {
					return "", err
				}
			}
		})
		h := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true})
		defer h.Close()
		session := ""
		send := func(ctx context.Context, method, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", asJSON)
			r.Header.Set("Accept", asStream)
			if method == http.MethodPost {
				r.Header.Set("Accept", asJSON+", "+asStream)
			}
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			go h.ServeHTTP(w, r)
			synctest.Wait()
			return w
		}
		post := func(body string) *httptest.ResponseRecorder { return send(t.Context(), http.MethodPost, body) }
		session = post(initialize("2025-11-25")).Header().Get("Mcp-Session-Id")
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		made := post(strings.Replace(call("1", "book", "{}"), `"arguments"`, `"task":{},"arguments"`, 1)).Body.String()
		m := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(made)
		if m == nil {
			t.Fatalf("no task: %s", made)
		}
		listening, stop := context.WithCancel(t.Context())
		streams := map[string]*httptest.ResponseRecorder{"the session": send(listening, http.MethodGet, "")}
		waiting := func(id string) {
			streams[id] = post(`{"jsonrpc":"2.0","id":"` + id + `","method":"tasks/result","params":{"taskId":"` + m[1] + `"}}`)
		}
		cancelled := func(id string) {
			post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + id + `"}}`)
		}
		question := regexp.MustCompile(`"method":"elicitation/create".*"id":(\d+)`)
		asked := func(text, want string) {
			t.Helper()
			before := map[string]int{}
			for name, w := range streams {
				before[name] = w.Body.Len()
			}
			release <- text
			synctest.Wait()
			answered := false
			for name, w := range streams {
				new := w.Body.String()[before[name]:]
				id := question.FindStringSubmatch(new)
				if (id != nil) != (name == want) {
					t.Errorf("%s: asked on the stream of %s: %v", text, name, id != nil)
				}
				if id != nil && !answered {
					answered = true
					post(`{"jsonrpc":"2.0","id":` + id[1] + `,"result":{"action":"decline"}}`)
				}
			}
			if !answered {
				t.Fatalf("%s: not asked at all", text)
			}
		}
		asked("with nobody waiting", "the session")
		waiting("a")
		asked("with one", "a")
		waiting("b")
		waiting("c")
		asked("with three", "c")
		cancelled("c")
		asked("after the newest was cancelled", "b")
		cancelled("a")
		asked("after the oldest was cancelled", "b")
		cancelled("b")
		asked("after all were cancelled", "the session")
		waiting("d")
		asked("with one again", "d")
		for range 20 { // more than the requests that a task uses
			waiting("e")
			cancelled("e")
		}
		delete(streams, "e")
		waiting("f")
		asked("after many were cancelled", "f")
		release <- ""
		synctest.Wait()
		if got := streams["d"].Body.String(); !strings.Contains(got, `"text":"done"`) {
			t.Errorf("the result is %s", got)
		}
		stop()
		synctest.Wait()
	})
}
