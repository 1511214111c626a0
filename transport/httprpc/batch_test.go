package httprpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestBatch(t *testing.T) {
	c := client(t, serve(t, Handler(methods())), nil)
	var a, b int
	var raw jsonrpc.Raw
	items := []jsonrpc.Item{
		{Method: "subtract", Params: []int{42, 23}, Result: &a},
		{Method: "update", Notify: true},
		{Method: "nobody"},
		{Method: "subtract", Params: operands{5, 3}, Result: &b, ID: jsonrpc.StringID("mine"), Err: errors.New("old")},
		{Method: "count", Params: []int{2}, Result: &raw},
		{Method: "subtract", Params: []int{1, 1}, Result: new(string)},
	}
	if err := c.Batch(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if a != 19 || b != 2 || string(raw) != `"lift-off"` {
		t.Errorf("got %d, %d, %s", a, b, raw)
	}
	for i, want := range []func(error) bool{
		fine, fine, func(err error) bool { return errors.Is(err, jsonrpc.ErrMethodNotFound) }, fine, fine,
		func(err error) bool { return err != nil && !isPeers(err) }, // a number is not a string
	} {
		if !want(items[i].Err) {
			t.Errorf("item %d: %v", i, items[i].Err)
		}
	}
}

func fine(err error) bool { return err == nil }

func TestBatchOfNotifications(t *testing.T) {
	c := client(t, serve(t, Handler(methods())), nil)
	if err := c.Batch(t.Context(), []jsonrpc.Item{{Method: "update", Notify: true}, {Method: "update", Notify: true}}); err != nil {
		t.Error(err)
	}
}

func TestBatchThatIsNotSent(t *testing.T) {
	var got atomic.Int64
	c := client(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) })), nil)
	if err := c.Batch(t.Context(), nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	for name, item := range map[string]jsonrpc.Item{
		"params that cannot be encoded": {Method: "x", Params: make(chan int)},
		"an id that is there already":   {Method: "x", ID: jsonrpc.StringID("a")},
		"On":                            {Method: "x", On: func(*jsonrpc.Request) error { return nil }},
	} {
		items := []jsonrpc.Item{{Method: "x", ID: jsonrpc.StringID("a")}, item}
		if err := c.Batch(t.Context(), items); err == nil || items[1].Err == nil {
			t.Errorf("%s: got %v, %v", name, err, items[1].Err)
		}
	}
	if got.Load() != 0 {
		t.Errorf("%d requests were made", got.Load())
	}
}

// TestBatchAnswers checks responses of other programs to a batch of two calls, whose IDs are ID1
// and ID2, and a notification.
func TestBatchAnswers(t *testing.T) {
	const one, two = `{"jsonrpc":"2.0","id":ID1,"result":1}`, `{"jsonrpc":"2.0","id":ID2,"result":2}`
	const nameless = `{"jsonrpc":"2.0","id":null,"error":{"code":7,"message":"no"}}`
	peers := func(err error) bool { return isPeers(err) }
	bad := func(err error) bool { return errors.Is(err, jsonrpc.ErrBadResponse) }
	tests := []struct {
		name             string
		status           int
		kind             string
		body             string
		batch, one, two  func(error) bool
		resultA, resultB int
	}{
		{"in order", 200, "application/json", "[" + one + "," + two + "]", fine, fine, fine, 1, 2},
		{"in another order", 200, "application/json", "[" + two + "," + one + "]", fine, fine, fine, 1, 2},
		{"as events", 200, "text/event-stream", "data: " + two + "\n\ndata: [" + one + "]\n\n", fine, fine, fine, 1, 2},
		{"one is missing", 200, "application/json", "[" + two + "]", fine, bad, fine, 0, 2},
		{"one is missing, as event", 200, "text/event-stream", "data: " + two + "\n\n", fine, bad, fine, 0, 2},
		{"one twice", 200, "application/json", "[" + two + "," + two + "," + one + "]", fine, fine, fine, 1, 2},
		{"one too many", 200, "application/json", "[" + two + `,{"jsonrpc":"2.0","id":"?","result":0},` + one + "]", fine, fine, fine, 1, 2},
		{"one lost its id", 200, "application/json", "[" + nameless + "," + two + "]", fine, peers, fine, 0, 2},
		{"an error for all", 200, "application/json", nameless, peers, peers, peers, 0, 0},
		{"an empty array", 200, "application/json", "[]", bad, bad, bad, 0, 0},
		{"nothing", 204, "", "", bad, bad, bad, 0, 0},
		{"a page", 200, "text/html", "<p>", bad, bad, bad, 0, 0},
		{"a status", 500, "text/plain", "oops", func(err error) bool { _, ok := errors.AsType[*StatusError](err); return ok }, notFine, notFine, 0, 0},
		{"credentials", 401, "text/plain", "who?", func(err error) bool { return errors.Is(err, ErrUnauthorized) }, notFine, notFine, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int64
			c := client(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				text, _ := io.ReadAll(r.Body)
				body := tt.body
				n := 0
				_ = jsonrpc.Scan(text, func(m *jsonrpc.Message) {
					if !m.ID.IsZero() {
						n++
						body = strings.ReplaceAll(body, "ID"+itoa(n), m.ID.String())
					}
				})
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, body)
			})), nil)
			var a, b int
			items := []jsonrpc.Item{{Method: "a", Result: &a}, {Method: "n", Notify: true}, {Method: "b", Result: &b}}
			err := c.Batch(t.Context(), items)
			if !tt.batch(err) || !tt.one(items[0].Err) || !tt.two(items[2].Err) || items[1].Err != nil || a != tt.resultA || b != tt.resultB {
				t.Errorf("got %v; %v, %v, %v; %d, %d", err, items[0].Err, items[1].Err, items[2].Err, a, b)
			}
			if posts.Load() != 1 {
				t.Errorf("%d POSTs, want 1", posts.Load())
			}
		})
	}
}

func notFine(err error) bool { return err != nil }

// TestABatchThatIsRefused checks that a refused batch is sent as single calls, and later ones too.
func TestABatchThatIsRefused(t *testing.T) {
	refusals := map[string]func(w http.ResponseWriter){
		"-32600": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`)
		},
		"-32600 without an id": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`)
		},
		"400": func(w http.ResponseWriter) { http.Error(w, "no arrays", 400) },
		"422": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(422)
			_, _ = io.WriteString(w, `{"detail":[{"loc":["body"],"msg":"value is not a valid dict"}]}`)
		},
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var arrays, singles, most, now int
			single := Handler(methods())
			web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				if text[0] == '[' {
					mu.Lock()
					arrays++
					mu.Unlock()
					refusal(w)
					return
				}
				mu.Lock()
				singles++
				now++
				most = max(most, now)
				mu.Unlock()
				single.ServeHTTP(w, r)
				mu.Lock()
				now--
				mu.Unlock()
			}))
			c := client(t, web, &Options{Parallel: 4})
			for range 2 {
				items := make([]jsonrpc.Item, 20)
				for i := range items {
					items[i] = jsonrpc.Item{Method: "subtract", Params: []int{i, 0}, Result: new(int)}
				}
				items[7] = jsonrpc.Item{Method: "update", Notify: true}
				items[8] = jsonrpc.Item{Method: "nobody"}
				if err := c.Batch(t.Context(), items); err != nil {
					t.Fatal(err)
				}
				for i, item := range items {
					switch {
					case i == 7 && item.Err == nil:
					case i == 8 && errors.Is(item.Err, jsonrpc.ErrMethodNotFound):
					case i != 7 && i != 8 && item.Err == nil && *item.Result.(*int) == i:
					default:
						t.Errorf("item %d: %v", i, item.Err)
					}
				}
			}
			if arrays != 1 || singles != 40 || most > 4 {
				t.Errorf("%d arrays, %d single calls, %d at once; want 1, 40, at most 4", arrays, singles, most)
			}
			strict := client(t, web, &Options{Parallel: -1})
			items := []jsonrpc.Item{{Method: "update"}}
			if err := strict.Batch(t.Context(), items); !errors.Is(err, jsonrpc.ErrBatchRefused) || !errors.Is(items[0].Err, jsonrpc.ErrBatchRefused) {
				t.Errorf("without single calls: %v, %v; want ErrBatchRefused", err, items[0].Err)
			}
		})
	}
	t.Run("a server that refuses everything is not remembered for arrays", func(t *testing.T) {
		c := client(t, serve(t, replying(400, "text/plain", "down")), nil)
		if err := c.Batch(t.Context(), []jsonrpc.Item{{Method: "x"}}); err == nil {
			t.Error("it worked")
		}
		if c.singles.Load() {
			t.Error("it is")
		}
	})
}

func TestBatchWithAnEndedContext(t *testing.T) {
	c := client(t, serve(t, Handler(methods())), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	items := []jsonrpc.Item{{Method: "update"}}
	if err := c.Batch(ctx, items); !errors.Is(err, context.Canceled) || !errors.Is(items[0].Err, context.Canceled) {
		t.Errorf("got %v, %v", err, items[0].Err)
	}
}

// asking is a server that calls its client in the stream of a response, and waits for the responses
// in other POSTs.
func asking(t *testing.T, ask ...string) http.Handler {
	got := make(chan string, 100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `"start"`) {
			got <- string(text)
			w.WriteHeader(204)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, a := range ask {
			_, _ = io.WriteString(w, "data: "+a+"\n\n")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		var answers []string
		for range strings.Count(strings.Join(ask, ""), `"id"`) {
			select {
			case text := <-got:
				answers = append(answers, text)
			case <-r.Context().Done():
				return
			}
		}
		slices.Sort(answers)
		id := ""
		_ = jsonrpc.Scan(text, func(m *jsonrpc.Message) { id = m.ID.String() })
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":[`+strings.Join(answers, ",")+"]}\n\n")
	})
}

func TestBackAnswersTheServer(t *testing.T) {
	h := asking(t, `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[5,3]}`, `[{"jsonrpc":"2.0","id":"a","method":"nobody"}]`)
	c := client(t, serve(t, h), &Options{Back: &jsonrpc.Answerer{Handler: methods()}})
	var got jsonrpc.Raw
	if err := c.Call(t.Context(), "start", nil, &got); err != nil {
		t.Fatal(err)
	}
	if want := `[{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":"a"},{"jsonrpc":"2.0","result":2,"id":1}]`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	alone := client(t, serve(t, h), nil)
	if err := alone.Call(t.Context(), "start", nil, &got); err != nil || strings.Count(string(got), "-32601") != 2 {
		t.Errorf("without Back: got %s, %v; want -32601 twice", got, err)
	}
}

// TestNestedCalls has a handler of the client call the server before it responds.
func TestNestedCalls(t *testing.T) {
	h := asking(t, `{"jsonrpc":"2.0","id":1,"method":"nested"}`)
	var c *Client
	m := methods()
	m.Add("nested", jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		return "done", req.Peer().Notify(ctx, "on the way", nil)
	}))
	c = client(t, serve(t, h), &Options{Back: &jsonrpc.Answerer{Handler: m}})
	var got jsonrpc.Raw
	if err := c.Call(t.Context(), "start", nil, &got); err != nil || string(got) != `[{"jsonrpc":"2.0","method":"on the way"}]` {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestNotificationsWithoutAStream checks that notifications reach Back, in order, before the call
// returns.
func TestNotificationsWithoutAStream(t *testing.T) {
	var got []string
	m := new(jsonrpc.Mux)
	m.Add("tick", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		got = append(got, string(req.Params))
		return nil, nil
	}))
	web := serve(t, Handler(methods()))
	c := client(t, web, &Options{Back: &jsonrpc.Answerer{Handler: m}})
	if err := c.Call(t.Context(), "count", []int{3}, nil); err != nil || !slices.Equal(got, []string{"[3]", "[2]", "[1]"}) {
		t.Errorf("got %q, %v", got, err)
	}
	var reports atomic.Int64
	alone := client(t, web, &Options{Report: func(string, error) { reports.Add(1) }})
	if err := alone.Call(t.Context(), "count", []int{3}, nil); err != nil || reports.Load() != 3 {
		t.Errorf("%d reports, %v; want 3", reports.Load(), err)
	}
}

// TestCloseWaitsForBack checks that Close ends the handlers of Back and waits for them.
func TestCloseWaitsForBack(t *testing.T) {
	h := asking(t, `{"jsonrpc":"2.0","id":1,"method":"wait"}`)
	started := make(chan struct{})
	ended := false
	m := new(jsonrpc.Mux)
	m.Add("wait", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		close(started)
		<-ctx.Done()
		ended = true
		return nil, nil
	}))
	web := serve(t, h)
	c := NewClient(web.URL, &Options{Back: &jsonrpc.Answerer{Handler: m}})
	var call sync.WaitGroup
	call.Go(func() {
		if err := c.Call(t.Context(), "start", nil, nil); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
	<-started
	if err := c.Close(); err != nil || !ended {
		t.Errorf("Close came back before the handler: %v", err)
	}
	call.Wait()
}
