package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// TestClientOnTheWire compares what is sent, byte for byte, including the headers.
func TestClientOnTheWire(t *testing.T) {
	w := &wire{serve: answering}
	c := client(w, streamable.ClientOptions{Header: http.Header{"X-All": {"1"}}, Token: "secret",
		StreamHeader: func() http.Header { return http.Header{"X-Stream": {"1"}} }})
	for _, method := range []string{"open", "a", "alone"} {
		if got, err := call(t.Context(), c, method); got != method || err != nil {
			t.Errorf("%s: %q, %v", method, got, err)
		}
	}
	if err := c.Notify(t.Context(), "note", []int{1}); err != nil {
		t.Error(err)
	}
	if c.Session() != "S1" {
		t.Errorf("session %q", c.Session())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wantAsked(t, w,
		`POST {"jsonrpc":"2.0","method":"open","id":1}`,
		`POST {"jsonrpc":"2.0","method":"a","id":2}`,
		`POST {"jsonrpc":"2.0","method":"alone","id":3}`,
		`POST {"jsonrpc":"2.0","method":"note","params":[1]}`,
		`DELETE`)
	for i, session := range []string{"", "S1", "", "S1", "S1"} {
		h := w.request(i).header
		if h.Get("Session-Id") != session || h.Get("X-All") != "1" || h.Get("Authorization") != "Bearer secret" {
			t.Errorf("request %d has headers %v, want session %q", i, h, session)
		}
		if i < 4 && (h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != "application/json") {
			t.Errorf("request %d has headers %v", i, h)
		}
	}
	if h := w.request(4).header; h.Get("X-Stream") != "1" {
		t.Errorf("DELETE has headers %v", h)
	}
	if _, err := call(t.Context(), c, "late"); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestClientAnswers checks the result of each kind of response.
func TestClientAnswers(t *testing.T) {
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	status := func(code int) func(error) bool {
		return func(err error) bool {
			s, ok := errors.AsType[*httprpc.StatusError](err)
			_, lost := errors.AsType[*streamable.SessionError](err)
			return ok && s.Status == code && !lost
		}
	}
	code := func(code int64) func(error) bool {
		return func(err error) bool {
			e, ok := err.(*jsonrpc.Error) // itself, not wrapped: it is the server's response
			return ok && e.Code == code
		}
	}
	inStatus := func(code int, inner int64) func(error) bool {
		return func(err error) bool {
			s, ok := errors.AsType[*httprpc.StatusError](err)
			return ok && status(code)(err) && s.Err != nil && s.Err.Code == inner
		}
	}
	lost := func(err error) bool {
		e, ok := errors.AsType[*streamable.SessionError](err)
		return ok && e.Session == "S1" && e.Status.Status == 404
	}
	refusal := func(id string, code string) string {
		return `{"jsonrpc":"2.0","error":{"code":` + code + `,"message":"no"},"id":` + id + `}`
	}
	for _, tt := range []struct {
		name   string
		status int
		kind   string
		body   string
		method string
		want   func(error) bool // if nil, the result is "yes"
	}{
		{"plain", 200, "application/json", result("2", `"yes"`), "a", nil},
		{"plain, with a charset", 200, "application/json; charset=utf-8", result("2", `"yes"`), "a", nil},
		{"an array of one", 200, "application/json", "[" + result("2", `"yes"`) + "]", "a", nil},
		{"a status of success beside 200", 201, "application/json", result("2", `"yes"`), "a", nil},
		{"streamed", 200, "text/event-stream", event(result("2", `"yes"`)), "a", nil},
		{"streamed, behind other events", 200, "text/event-stream", ": hi\n\nevent: other\ndata: {\n\n" + "event: message\n" + event(result("2", `"yes"`)), "a", nil},
		{"streamed, behind an answer to others", 200, "text/event-stream", event(result("7", `"no"`)) + event(result("2", `"yes"`)), "a", nil},
		{"an error", 200, "application/json", refusal("2", "7"), "a", code(7)},
		{"an error with a status", 400, "application/json", refusal("2", "-32602"), "a", code(-32602)},
		{"an unknown method", 404, "application/json", refusal("2", "-32601"), "a", code(-32601)},
		{"an unknown method outside of a session", 404, "application/json", refusal("2", "-32601"), "alone", code(-32601)},
		{"an error for nobody", 200, "application/json", refusal("null", "-32700"), "a", code(-32700)},
		{"an error for nobody, with a status", 400, "application/json", refusal("null", "-32000"), "a", inStatus(400, -32000)},
		{"an error without id, with a status", 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32022,"message":"no"}}`, "alone", status(400)},
		{"a lost session", 404, "application/json", refusal("null", "-32001"), "a", lost},
		{"a lost session, in words", 404, "text/plain", "what session?", "a", lost},
		{"a lost session, with our id", 404, "application/json", refusal("2", "-32000"), "a", lost},
		{"not found, but no session was named", 404, "text/plain", "nothing here", "alone", status(404)},
		{"unauthorized", 401, "application/json", refusal("2", "-32001"), "a", is(httprpc.ErrUnauthorized)},
		{"forbidden", 403, "text/html", "<p>no", "a", is(httprpc.ErrForbidden)},
		{"a page", 200, "text/html", "<p>hello", "a", is(jsonrpc.ErrBadResponse)},
		{"nothing", 200, "application/json", "", "a", is(jsonrpc.ErrBadResponse)},
		{"accepted", 202, "", "", "a", is(jsonrpc.ErrBadResponse)},
		{"garbage", 200, "application/json", `{"jsonrpc":"2.0","result":1,}`, "a", is(jsonrpc.ErrBadResponse)},
		{"garbage, streamed", 200, "text/event-stream", event(`{"jsonrpc"`), "a", is(jsonrpc.ErrBadResponse)},
		{"another's answer", 200, "application/json", result("3", "1"), "a", is(jsonrpc.ErrBadResponse)},
		{"a string for a number", 200, "application/json", result(`"2"`, "1"), "a", is(jsonrpc.ErrBadResponse)},
		{"a notification instead", 200, "application/json", `{"jsonrpc":"2.0","method":"note"}`, "a", is(jsonrpc.ErrBadResponse)},
		{"a stream that ends", 200, "text/event-stream", event(`{"jsonrpc":"2.0","method":"note"}`), "a", is(jsonrpc.ErrBadResponse)},
		{"an event that is cut off", 200, "text/event-stream", "data: " + result("2", `"yes"`) + "\n", "a", is(jsonrpc.ErrBadResponse)},
		{"too large", 200, "application/json", result("2", `"`+strings.Repeat("x", 2000)+`"`), "a", is(jsonrpc.ErrTooLarge)},
		{"too large an event", 200, "text/event-stream", event(result("2", `"`+strings.Repeat("x", 2000)+`"`)), "a", is(jsonrpc.ErrTooLarge)},
		{"a server's error", 502, "text/html", "<p>bad gateway", "a", status(502)},
		{"a redirect to elsewhere", 302, "", "", "a", status(302)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &wire{serve: func(a *answer, r *asked) {
				if strings.Contains(r.body, `"open"`) || r.method == http.MethodDelete {
					answering(a, r)
					return
				}
				a.status = tt.status
				a.header.Set("Content-Type", tt.kind)
				a.header.Set("Location", "http://elsewhere.example/")
				a.send(tt.body)
			}}
			c := client(w, streamable.ClientOptions{MaxMessage: 1000})
			defer c.Close()
			if _, err := call(t.Context(), c, "open"); err != nil {
				t.Fatal(err)
			}
			got, err := call(t.Context(), c, tt.method)
			switch {
			case tt.want == nil && (got != "yes" || err != nil):
				t.Errorf("got %q, %v", got, err)
			case tt.want != nil && (err == nil || !tt.want(err)):
				t.Errorf("got %q and the error %v (%T)", got, err, err)
			}
		})
	}
}

// TestClientSessionID checks that only a visible ASCII ID is sent back.
func TestClientSessionID(t *testing.T) {
	for _, id := range []string{"a b", "ä", "x\x7f", strings.Repeat("x", 1025)} {
		w := &wire{serve: func(a *answer, _ *asked) {
			a.header.Set("Session-Id", id)
			a.plain(200, result("1", "1"))
		}}
		c := client(w, streamable.ClientOptions{})
		if _, err := call(t.Context(), c, "open"); !errors.Is(err, jsonrpc.ErrBadResponse) || c.Session() != "" {
			t.Errorf("%.20q: error %v, session %.20q", id, err, c.Session())
		}
		c.Close()
	}
}

// silent is a server that is slow: it never responds to a call.
func silent(a *answer, r *asked) {
	if strings.Contains(r.body, `"open"`) || r.method != http.MethodPost || !strings.Contains(r.body, `"id"`) || strings.Contains(r.body, "cancel") {
		answering(a, r)
		return
	}
	<-r.ctx.Done()
}

// TestClientTimes checks when calls end, to the second, and what is sent to the server.
func TestClientTimes(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		serve        func(*answer, *asked)
		options      streamable.ClientOptions
		deadline     time.Duration
		want         error
		after        time.Duration
		told         bool
	}{
		{"the time of a call", "a", silent, streamable.ClientOptions{}, 0, jsonrpc.ErrTimeout, 60 * time.Second, true},
		{"another time", "a", silent, streamable.ClientOptions{CallTime: time.Second}, 0, jsonrpc.ErrTimeout, time.Second, true},
		{"a deadline", "a", silent, streamable.ClientOptions{}, 90 * time.Second, context.DeadlineExceeded, 90 * time.Second, true},
		{"alone: going away says it", "alone", silent, streamable.ClientOptions{}, 0, jsonrpc.ErrTimeout, 60 * time.Second, false},
		{"an open method has none", "a", silent, streamable.ClientOptions{Open: func(string) bool { return true }}, time.Hour, context.DeadlineExceeded, time.Hour, true},
		{"events renew it", "a", func(a *answer, r *asked) {
			if !strings.Contains(r.body, `"a"`) {
				answering(a, r)
				return
			}
			for range 3 {
				r.pause(50 * time.Second)
				a.stream(event(`{"jsonrpc":"2.0","method":"note"}`))
			}
			<-r.ctx.Done()
		}, streamable.ClientOptions{}, 0, jsonrpc.ErrTimeout, 210 * time.Second, true},
		{"comments do not", "a", func(a *answer, r *asked) {
			if !strings.Contains(r.body, `"a"`) {
				answering(a, r)
				return
			}
			for r.ctx.Err() == nil {
				a.stream(": here\n\n")
				r.pause(15 * time.Second)
			}
		}, streamable.ClientOptions{}, 0, jsonrpc.ErrTimeout, 60 * time.Second, true},
		{"silence after comments", "alone", func(a *answer, r *asked) {
			if !strings.Contains(r.body, `"alone"`) {
				answering(a, r)
				return
			}
			a.stream(": here\n\n: here\n\n")
			<-r.ctx.Done()
		}, streamable.ClientOptions{Open: func(string) bool { return true }}, 0, jsonrpc.ErrTimeout, 45 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{serve: tt.serve}
				c := client(w, tt.options)
				if _, err := call(t.Context(), c, "open"); err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				if tt.deadline > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.deadline)
					defer stop()
				}
				begun := time.Now()
				_, err := call(ctx, c, tt.method)
				if !errors.Is(err, tt.want) || time.Since(begun) != tt.after {
					t.Errorf("ended after %v with %v, want %v and %v", time.Since(begun), err, tt.after, tt.want)
				}
				synctest.Wait()
				if w.request(1).ctx.Err() == nil {
					t.Error("the request goes on")
				}
				told := false
				for _, a := range w.asked() {
					told = told || a == `POST {"jsonrpc":"2.0","method":"cancel","params":{"id":2}}`
				}
				if told != tt.told {
					t.Errorf("told of the cancel: %t, want %t; the server was asked %q", told, tt.told, w.asked())
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClientOpeningIsNotCancelled checks that no cancellation is sent for an Opening.
func TestClientOpeningIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ *answer, r *asked) { <-r.ctx.Done() }}
		c := client(w, streamable.ClientOptions{})
		if _, err := call(t.Context(), c, "open"); !errors.Is(err, jsonrpc.ErrTimeout) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"open","id":1}`)
	})
}

// TestClientCancelsBeforeTheSessionEnds checks that a Close right after a cancelled call closes the
// session after the notification, also with a slow server.
func TestClientCancelsBeforeTheSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(a *answer, r *asked) {
			if strings.Contains(r.body, `"cancel"`) {
				time.Sleep(time.Second)
			}
			silent(a, r)
		}}
		var reports []string
		c := client(w, streamable.ClientOptions{Report: func(what string, err error) { reports = append(reports, fmt.Sprint(what, ": ", err)) }})
		if _, err := call(t.Context(), c, "open"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := call(ctx, c, "a")
			ended <- errors.Join(err, c.Close())
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"open","id":1}`, `POST {"jsonrpc":"2.0","method":"a","id":2}`,
			`POST {"jsonrpc":"2.0","method":"cancel","params":{"id":2}}`, `DELETE`)
		if len(reports) > 0 {
			t.Error(reports)
		}
	})
}

// TestClientClose checks that Close ends running calls, deletes the session, and does not wait for
// a server that does not respond to the DELETE.
func TestClientClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(a *answer, r *asked) {
			if r.method == http.MethodDelete {
				<-r.ctx.Done()
				return
			}
			silent(a, r)
		}}
		c := client(w, streamable.ClientOptions{})
		if _, err := call(t.Context(), c, "open"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := call(t.Context(), c, "a")
			ended <- err
		}()
		synctest.Wait()
		begun := time.Now()
		if err := c.Close(); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("Close took %v and said %v", time.Since(begun), err)
		}
		if err := <-ended; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantAsked(t, w, `POST {"jsonrpc":"2.0","method":"open","id":1}`, `POST {"jsonrpc":"2.0","method":"a","id":2}`, `DELETE`)
	})
}

// TestClientAddress checks that every call returns an error if the address is invalid.
func TestClientAddress(t *testing.T) {
	c := streamable.NewClient("ftp://u:secret@host", nil)
	if _, err := call(t.Context(), c, "a"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	c.Listen(t.Context())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
