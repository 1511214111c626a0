package demo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer returns the response of a demo to one payload, over a transport without server-to-client
// messages.
func answer(t *testing.T, s *Service, payload string) string {
	t.Helper()
	a := &jsonrpc.Answerer{Handler: s.Handler(), Mode: s.Mux.Mode}
	out, _ := a.Answer(t.Context(), nil, []byte(payload), new(jsonrpc.Exchange))
	return string(out)
}

// result calls a method and returns the result from the response.
func result(t *testing.T, s *Service, method, params string) string {
	t.Helper()
	if params != "" {
		params = `,"params":` + params
	}
	out := answer(t, s, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"`+params+`}`)
	rest, ok := strings.CutPrefix(out, `{"jsonrpc":"2.0","id":1,`)
	if !ok {
		rest, ok = strings.CutPrefix(out, `{"jsonrpc":"2.0",`)
		rest = strings.Replace(rest, `,"id":1}`, `}`, 1)
	}
	if !ok {
		t.Fatalf("%s %s is answered %s", method, params, out)
	}
	return strings.TrimSuffix(rest, "}")
}

func TestMethods(t *testing.T) {
	invalid := func(pointer, reason string) string {
		return fmt.Sprintf(`"error":{"code":-32602,"message":"Invalid params","data":{"pointer":%q,"reason":%q}}`, pointer, reason)
	}
	for _, c := range []struct{ method, params, want string }{
		{"subtract", `[42,23]`, `"result":19`},
		{"subtract", `[23,42]`, `"result":-19`},
		{"subtract", `{"subtrahend":23,"minuend":42}`, `"result":19`},
		{"subtract", `[42.5,0.5]`, `"result":42`},
		{"subtract", `[9007199254740993,1]`, `"result":9007199254740992`},
		{"subtract", `["42",23]`, invalid("/0", "want a number")},
		{"subtract", `{"minuend":42,"subtrahend":"23"}`, invalid("/subtrahend", "want a number")},
		{"subtract", `[42,null]`, invalid("/1", "want a number")},
		{"subtract", `[1e999999999,1]`, invalid("/0", "want a number of at most 1000 digits")},
		{"subtract", `[42]`, invalid("/1", "subtrahend is required")},
		{"subtract", ``, invalid("/minuend", "is required")},
		{"subtract", `[1,2,3]`, invalid("/2", "want at most 2 params")},
		{"subtract", `{"minuend":1,"subtrahend":2,"x":3}`, invalid("/x", "unknown member")},
		{"add", `[5,3]`, `"result":8`},
		{"add", `{"a":0.1,"b":0.2}`, `"result":0.3`},
		{"add", `[5,"3"]`, invalid("/1", "want a number")},
		{"sum", `[1,2,4]`, `"result":7`},
		{"sum", `[]`, `"result":0`},
		{"sum", ``, `"result":0`},
		{"sum", `[0.5,"1"]`, invalid("/1", "want a number")},
		{"get_data", ``, `"result":["hello",5]`},
		{"get_data", `[1]`, `"result":["hello",5]`},
		{"echo", `[1.0, "\ud83d",{"a" : 1e2}]`, `"result":[1.0, "\ud83d",{"a" : 1e2}]`},
		{"echo", `{"a":{}}`, `"result":{"a":{}}`},
		{"echo", ``, `"result":null`},
		{"echo", `null`, `"result":null`},
		{"update", `[1,2,3,4,5]`, `"result":null`},
		{"notify_hello", `[7]`, `"result":null`},
		{"notify_sum", `{"x":[]}`, `"result":null`},
		{"fail", `{"code":-32050,"message":"no"}`, `"error":{"code":-32050,"message":"no"}`},
		{"fail", `[9223372036854775807,"",null]`, `"error":{"code":9223372036854775807,"message":"","data":null}`},
		{"fail", `[0,"x",[1.0]]`, `"error":{"code":0,"message":"x","data":[1.0]}`},
		{"sleep", `[0]`, `"result":0`},
		{"sleep", `[-1]`, invalid("/ms", "want 0 to 600000")},
		{"sleep", `[600001]`, invalid("/ms", "want 0 to 600000")},
		{"countdown", `[3]`, `"result":"liftoff"`},
		{"countdown", `[-1]`, invalid("/from", "want 0 to 10000")},
		{"countdown", `[1,60001]`, invalid("/interval_ms", "want 0 to 60000")},
		{"ask", `["?"]`, `"error":{"code":1002,"message":"The server cannot send requests over this transport",` +
			`"data":{"instead":["tcp","tls","unix","ws","stdio"],"reason":"one_way","retryable":false}}`},
		{"login", `[""]`, invalid("/name", "want 1 to 256 bytes")},
		{"whoami", `["x"]`, `"error":{"code":1003,"message":"Unknown token","data":{"hint":"login gives you one"}}`},
		{"counter", `["x"]`, `"error":{"code":1003,"message":"Unknown token","data":{"hint":"login gives you one"}}`},
		{"get_log", ``, `"result":[]`},
		{"get_log", `[-1]`, invalid("/limit", "want no negative number")},
		{"nothing", ``, `"error":{"code":-32601,"message":"Method not found"}`},
		{"rpc.nothing", ``, `"error":{"code":-32601,"message":"Method not found"}`},
	} {
		if got := result(t, New("test"), c.method, c.params); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.method, c.params, got, c.want)
		}
	}
}

func TestPanicIsHidden(t *testing.T) {
	got := result(t, New("test"), "panic", "")
	if !strings.HasPrefix(got, `"error":{"code":-32603,"message":"Internal error"`) || strings.Contains(got, "was called") {
		t.Errorf("panic is answered %s, want an internal error without the text of the panic", got)
	}
}

func TestTokens(t *testing.T) {
	s := New("test")
	ada, err := s.sessions.login(t.Context(), credentials{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	bob, err := s.sessions.login(t.Context(), credentials{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, params, want string }{
		{"whoami", `["` + ada.Token + `"]`, `"result":{"name":"ada"}`},
		{"whoami", `{"token":"` + bob.Token + `"}`, `"result":{"name":"bob"}`},
		{"counter", `["` + ada.Token + `"]`, `"result":1`},
		{"counter", `["` + ada.Token + `",41]`, `"result":42`},
		{"counter", `["` + bob.Token + `"]`, `"result":1`},
		{"counter", `{"token":"` + ada.Token + `","by":-42}`, `"result":0`},
	} {
		if got := result(t, s, c.method, c.params); got != c.want {
			t.Errorf("%s %s = %s, want %s", c.method, c.params, got, c.want)
		}
	}
}

func TestTokensAreBounded(t *testing.T) {
	s := new(sessions)
	tokens := make([]string, 0, maxTokens+1)
	for i := range maxTokens {
		ticket, err := s.login(t.Context(), credentials{Name: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, ticket.Token)
	}
	// Now the second token is the oldest.
	if _, err := s.whoami(t.Context(), holder{tokens[0]}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.login(t.Context(), credentials{Name: "one too many"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.whoami(t.Context(), holder{tokens[0]}); err != nil {
		t.Errorf("a token that was just used is gone: %v", err)
	}
	if _, err := s.whoami(t.Context(), holder{tokens[1]}); err == nil {
		t.Error("the token that was used longest ago is still there")
	}
	if len(s.byToken) != maxTokens {
		t.Errorf("%d tokens are kept, want %d", len(s.byToken), maxTokens)
	}
}

func TestLog(t *testing.T) {
	s := New("test")
	for _, payload := range []string{
		`{"jsonrpc":"2.0","method":"log_event","params":{"a" : 1}}`,
		`{"jsonrpc":"2.0","method":"log_event"}`,
	} {
		if got := answer(t, s, payload); got != "" {
			t.Errorf("a notification is answered %s", got)
		}
	}
	if got := result(t, s, "log_event", `["x"]`); got != `"result":3` {
		t.Errorf("log_event = %s, want 3", got)
	}
	if got := result(t, s, "log_event", `["`+strings.Repeat("x", maxEvent)+`"]`); !strings.Contains(got, "-32602") {
		t.Errorf("a long event is answered %s", got)
	}
	log, err := s.events.getEvents(t.Context(), excerpt{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range log {
		if time.Since(e.Time) > time.Minute {
			t.Errorf("event %d is from %v", e.Seq, e.Time)
		}
		got = append(got, fmt.Sprint(e.Seq, " ", string(e.Event)))
	}
	if want := `1 {"a" : 1}; 2 null; 3 ["x"]`; strings.Join(got, "; ") != want {
		t.Errorf("get_log = %s, want %s", strings.Join(got, "; "), want)
	}
	if newest, err := s.events.getEvents(t.Context(), excerpt{Limit: new(1)}); err != nil || len(newest) != 1 || newest[0].Seq != 3 {
		t.Errorf("get_log with limit 1 = %v, %v", newest, err)
	}
}

// TestBytesComeBackAsTheyCame checks that bytes that a strict codec would reject do not make the
// log unreadable for others.
func TestBytesComeBackAsTheyCame(t *testing.T) {
	s := New("test")
	for i, params := range []string{`["\ud800"]`, `{"a":1,"a":2}`, `[1.0,  "\u0061"]`} {
		if got, want := result(t, s, "log_event", params), fmt.Sprintf(`"result":%d`, i+1); got != want {
			t.Errorf("log_event %s = %s, want %s", params, got, want)
		}
		if got := result(t, s, "get_log", "[1]"); !strings.HasSuffix(got, `Z","event":`+params+`}]`) {
			t.Errorf("get_log after %s = %s", params, got)
		}
	}
	var w wire
	a := &jsonrpc.Answerer{Handler: s.Handler()}
	out, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":"a\u0062","method":"countdown","params":[1]}`), &jsonrpc.Exchange{Sink: &w})
	if len(w.sent) != 1 || !strings.Contains(w.sent[0], `"request_id":"a\u0062"`) || !strings.Contains(string(out), `"id":"a\u0062"`) {
		t.Errorf("an id with an escape: %q, then %s", w.sent, out)
	}
}

func TestLogIsBounded(t *testing.T) {
	var short, long events
	for range maxEvents + 5 {
		if _, err := short.addEvent(t.Context(), &jsonrpc.Request{Params: jsonrpc.Raw("[1]")}); err != nil {
			t.Fatal(err)
		}
		if _, err := long.addEvent(t.Context(), &jsonrpc.Request{Params: jsonrpc.Raw(`["` + strings.Repeat("x", maxEvent-4) + `"]`)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(short.kept) != maxEvents || short.kept[0].Seq != 6 {
		t.Errorf("%d events from %d on are kept, want %d from 6 on", len(short.kept), short.kept[0].Seq, maxEvents)
	}
	if want := maxLogBytes / maxEvent; len(long.kept) != want || long.bytes != maxLogBytes {
		t.Errorf("%d long events of %d bytes are kept, want %d of %d", len(long.kept), long.bytes, want, maxLogBytes)
	}
}

func TestSleepTakesItsTimeAndCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if got, err := sleep(t.Context(), sleepParams{Ms: 250}); got != 250 || err != nil || time.Since(start) != 250*time.Millisecond {
			t.Errorf("sleep(250) = %d, %v after %v", got, err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(jsonrpc.ErrPeerCancelled) })
		if _, err := sleep(ctx, sleepParams{Ms: 60_000}); err != jsonrpc.ErrPeerCancelled || time.Since(start) != 1250*time.Millisecond {
			t.Errorf("a cancelled sleep = %v after %v", err, time.Since(start))
		}
	})
}

// wire collects what a handler sends before its response.
type wire struct{ sent []string }

func (w *wire) Send(_ context.Context, payload []byte) error {
	w.sent = append(w.sent, strings.TrimSpace(string(payload)))
	return nil
}

func TestCountdownNotifies(t *testing.T) {
	s := New("test")
	a := &jsonrpc.Answerer{Handler: s.Handler(), Mode: s.Mux.Mode}
	var w wire
	out, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":"x1","method":"countdown","params":{"from":2}}`), &jsonrpc.Exchange{Sink: &w})
	got := strings.Join(append(w.sent, string(out)), "\n")
	want := `{"jsonrpc":"2.0","method":"countdown/tick","params":{"request_id":"x1","left":2}}
{"jsonrpc":"2.0","method":"countdown/tick","params":{"request_id":"x1","left":1}}
{"jsonrpc":"2.0","id":"x1","result":"liftoff"}`
	if got != want && got != strings.Replace(want, `"id":"x1","result":"liftoff"`, `"result":"liftoff","id":"x1"`, 1) {
		t.Errorf("countdown said\n%s\nwant\n%s", got, want)
	}
}

func TestAskCallsBack(t *testing.T) {
	s := New("test")
	var back jsonrpc.Mux
	back.Add(CallAnswer, jsonrpc.Func(func(_ context.Context, in question) (string, error) {
		if in.Question == "no?" {
			return "", jsonrpc.NewError(7, "never")
		}
		return "you asked " + in.Question, nil
	}))
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: s.Handler(), Mode: s.Mux.Mode}, &jsonrpc.Answerer{Handler: &back})
	got, err := jsonrpc.Call[string](t.Context(), peer, "ask", question{"tea?"})
	if got != "you asked tea?" || err != nil {
		t.Errorf("ask = %q, %v", got, err)
	}
	_, err = jsonrpc.Call[string](t.Context(), peer, "ask", question{"no?"})
	if err == nil || err.Error() != "The client did not answer (1001)" {
		t.Errorf("ask with a client that answers an error = %v", err)
	}
}

// TestEveryMethodIsDescribed compares the OpenRPC document with the methods: each has a summary and
// correct examples.
func TestEveryMethodIsDescribed(t *testing.T) {
	s := New("test")
	document, err := s.Discovery.Document()
	if err != nil {
		t.Fatal(err)
	}
	if want := len(s.methods()); len(document.Methods) != want {
		t.Errorf("%d methods are described, want %d", len(document.Methods), want)
	}
	stateful := map[string]bool{"whoami": true, "counter": true, "login": true, "get_log": true, "ask": true, "countdown": true}
	for _, m := range document.Methods {
		if m.Summary == "" || len(m.Summary) > 100 {
			t.Errorf("%s: the summary is %q", m.Name, m.Summary)
		}
		if len(m.Examples) == 0 && m.Name != "fail" && m.Name != "panic" {
			t.Errorf("%s has no example", m.Name)
		}
		for _, e := range m.Examples {
			if stateful[m.Name] {
				continue
			}
			if got, want := result(t, New("test"), m.Name, positions(e)), `"result":`+string(e.Result.Value); got != want {
				t.Errorf("%s %s = %s, want %s", m.Name, positions(e), got, want)
			}
		}
	}
	if got := result(t, s, "rpc.discover", ""); !strings.HasPrefix(got, `"result":{"openrpc":"1.`) {
		t.Errorf("rpc.discover = %.80s", got)
	}
}

// positions returns an example's params as a list, or "" if it has no params.
func positions(e openrpc.ExamplePairing) string {
	var values []string
	for _, p := range e.Params {
		values = append(values, string(p.Value))
	}
	if values == nil {
		return ""
	}
	return "[" + strings.Join(values, ",") + "]"
}

func Example() {
	s := New("example")
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: s.Handler()}, nil)
	difference, err := jsonrpc.Call[int](context.Background(), peer, "subtract", []int{42, 23})
	fmt.Println(difference, err)
	// Output: 19 <nil>
}
