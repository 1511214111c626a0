package httprpc

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestAHandlerThatDoesNotStopIsAnsweredFor checks that the response is sent a second after the
// handler's deadline, and that nothing the handler does later is sent.
func TestAHandlerThatDoesNotStopIsAnsweredFor(t *testing.T) {
	fault := `"error":{"code":-31002,"message":"Deadline exceeded","data":{"reason":"deadline","retryable":true}}`
	for _, test := range []struct{ name, accept, payload, want string }{
		{"single", "application/json", `{"jsonrpc":"2.0","method":"stuck","id":1}`, `{"jsonrpc":"2.0",` + fault + `,"id":1}`},
		{"batch", "application/json", `[{"jsonrpc":"2.0","method":"stuck","id":1},{"jsonrpc":"2.0","method":"fine","id":2}]`,
			`[{"jsonrpc":"2.0",` + fault + `,"id":1},{"jsonrpc":"2.0","result":"fine","id":2}]`},
		{"stream", "text/event-stream", `{"jsonrpc":"2.0","method":"stuck","id":1}`, "data: " + `{"jsonrpc":"2.0",` + fault + `,"id":1}` + "\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			release, late := make(chan struct{}), make(chan error, 1)
			var mux jsonrpc.Mux
			mux.Add("fine", jsonrpc.Func(func(context.Context, struct{}) (string, error) { return "fine", nil }))
			mux.Add("stuck", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
				<-release
				late <- req.Peer().Notify(context.Background(), "late", nil)
				return "late", nil
			}))
			a := &jsonrpc.Answerer{Handler: &mux, Mode: mux.Mode, Limits: jsonrpc.Limits{Deadline: 50 * time.Millisecond}}
			web := serve(t, &Server{Answerer: a})
			defer func() {
				close(release)
				if err := <-late; err == nil {
					t.Error("a late handler could notify")
				}
			}()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(test.payload))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", test.accept)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if test.name == "stream" {
				err = nil // the connection ends after the event
			}
			if answer.StatusCode != 200 || string(text) != test.want || err != nil {
				t.Errorf("got %d %q, %v; want 200 %q", answer.StatusCode, text, err, test.want)
			}
		})
	}
}
