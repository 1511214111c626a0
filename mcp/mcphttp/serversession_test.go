package mcphttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestTimeToAnswer checks that a person may take longer over a question than any deadline.
func TestTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcp.NewServer(me, nil)
		defer s.Close()
		mcp.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			e, err := r.Elicit(ctx, "when", &mcp.Elicitation{Message: "When?"})
			if err != nil {
				return "", err
			}
			return e.Action, nil
		})
		h := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true})
		defer h.Close()
		ask := func(body, session string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", asJSON)
			r.Header.Set("Accept", asJSON+", "+asStream)
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		session := ask(initialize("2025-06-18"), "").Header().Get("Mcp-Session-Id")
		ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
		answered := make(chan string)
		go func() { answered <- ask(call("1", "book", "{}"), session).Body.String() }()
		time.Sleep(3 * time.Hour) // the client is connected
		ask(`{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, session)
		if got := <-answered; !strings.Contains(got, `"text":"decline"`) {
			t.Errorf("got %s", got)
		}
	})
}

// TestEndOfSession checks that everything that belongs to a session ends with it.
func TestEndOfSession(t *testing.T) {
	w := newSite(t, nil)
	mcp.AddTool(w.mcp, mcp.Tool{Name: "job", Task: mcp.TaskOptional}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		w.started <- struct{}{}
		<-ctx.Done()
		w.ended <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	session := w.open(t, "2025-11-25")
	body := strings.Replace(call("1", "job", "{}"), `"arguments"`, `"task":{},"arguments"`, 1)
	if got := w.post(t, body, session...); !strings.Contains(got.body, `"taskId"`) {
		t.Fatalf("got %s %s", got.head, got.body)
	}
	within(t, w.started)
	w.send(t, w.request("DELETE", "/mcp", "", session...))
	if err := within(t, w.ended); err == nil {
		t.Error("the task ended without a cause")
	}
}

// TestCloseStream checks that a tool can close its stream, and that the client reconnects for the
// response.
func TestCloseStream(t *testing.T) {
	for _, polling := range []bool{false, true} {
		w := newSite(t, &mcphttp.Options{Polling: polling})
		leave := make(chan struct{})
		mcp.AddTool(w.mcp, mcp.Tool{Name: "long"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			if !mcphttp.CloseStream(ctx, 100*time.Millisecond) {
				return "stayed", nil
			}
			<-leave
			return "went on", nil
		})
		session := w.open(t, "2025-11-25")
		got := w.post(t, call("1", "long", "{}"), session...)
		if !polling {
			if !strings.Contains(got.body, "stayed") {
				t.Errorf("without Polling: got %s", got.body)
			}
			continue
		}
		got.want(t, "200", asStream, "id: 1-0\ndata: \n\nretry: 100\n\n")
		resumed := w.begin(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream", "Last-Event-ID: 1-0")...), "event-stream")
		close(leave)
		resumed.until(t, "id: 1-1")
		resumed.until(t, "went on")
		for _, other := range [][]string{w.open(t, "2025-06-18"), nil} {
			body, headers := call("1", "long", "{}"), other
			if other == nil {
				body, headers = modern("1", "tools/call", `"name":"long"`)
			}
			if got := w.post(t, body, headers...); !strings.Contains(got.body, "stayed") {
				t.Errorf("%q: got %s", headers, got.body)
			}
		}
	}
}
