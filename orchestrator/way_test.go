package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// crowd serves agents named a01, a02 and so on.
func crowd(t *testing.T, n int) *acp.Server {
	t.Helper()
	s := acp.NewServer(nil)
	t.Cleanup(func() { _ = s.Close() })
	for i := range n {
		s.Add(acpagent.New(testAgent(fmt.Sprintf("a%02d", i+1), func(string) {})))
	}
	return s
}

// everyone makes one member for each agent of a crowd.
func everyone(n int, target string) map[string]Member {
	members := map[string]Member{}
	for i := range n {
		name := fmt.Sprintf("a%02d", i+1)
		members[name] = Member{Target: target, Protocol: "acp", Agent: name}
	}
	return members
}

// A wire counts the written payloads by kind.
type wire struct {
	mu   sync.Mutex // guards the fields below
	seen []string
}

func (w *wire) note(payload []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf("%.1s %d", payload, bytes.Count(payload, []byte(`"agents/get"`))))
}

func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// surveyed surveys a team of n agents, by default twenty, and checks the result.
func surveyed(t *testing.T, team *Team, n int) {
	t.Helper()
	cards, err := team.Survey(t.Context())
	if err != nil {
		t.Error(err)
	}
	for i := range n {
		name := fmt.Sprintf("a%02d", i+1)
		if c := cards[name]; len(c) != 1 || c[0].Name != name || len(c[0].Skills) != 1 {
			t.Errorf("%s says %v", name, c)
		}
	}
}

// Twenty agents at one address are queried in one round trip: a batch of twenty.
func TestSurveyIsOneBatch(t *testing.T) {
	const n = 20
	t.Run("HTTP", func(t *testing.T) {
		var w wire
		h, err := acphttp.NewRPC(crowd(t, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		target := web(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.note(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(rw, r)
		}))
		var log memoryLog
		team := dial(t, everyone(n, target), &log)
		defer team.Close()
		w.take() // discard the handshake
		surveyed(t, team, n)
		if d := cmp.Diff([]string{"[ 20"}, w.take()); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	})
	t.Run("socket", func(t *testing.T) {
		var (
			w wire
			s = crowd(t, n)
		)
		team := onPipe(t, everyone(n, "tcp://there:1"), &w, func(there jsonrpc.Transport) { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
		surveyed(t, team, n)
		if d := cmp.Diff([]string{"[ 20"}, w.take()); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	})
}

// onPipe dials members at tcp addresses. Each connects over a pipe, and serve runs on the other end
// until it returns.
func onPipe(t *testing.T, members map[string]Member, w *wire, serve func(there jsonrpc.Transport)) *Team {
	t.Helper()
	var serving sync.WaitGroup
	open := func(context.Context, *parley.Dialer, parley.Target) (jsonrpc.Transport, error) {
		here, there := inproc.Pipe(nil)
		serving.Go(func() {
			defer there.Close()
			serve(there)
		})
		return here, nil
	}
	d := &parley.Dialer{Schemes: parley.Schemes{"tcp": {
		Open: open,
		Dial: func(ctx context.Context, d *parley.Dialer, target parley.Target) (parley.Caller, error) {
			here, err := open(ctx, d, target)
			return d.Converse(ctx, here, target.Version), err
		},
	}}, Tap: func(f parley.Frame) {
		if f.Out {
			w.note(f.Payload)
		}
	}}
	team, err := Dial(t.Context(), members, &DialOptions{Dialer: d, Report: func(what string, err error) { t.Log(what, err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = team.Close()
		serving.Wait()
	})
	return team
}

// If a peer refuses batches, all agents are queried by concurrent calls, and the peer never gets a
// batch again.
func TestSurveyWithoutBatches(t *testing.T) {
	const n = 16
	var w wire
	team := onPipe(t, everyone(n, "tcp://there:1"), &w, func(there jsonrpc.Transport) {
		var held []string // responses, until all n requests have arrived
		for {
			payload, _, err := there.Read()
			if err != nil {
				return
			}
			var b jsonrpc.Burst
			if payload[0] == '[' {
				b.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`))
			} else {
				bad := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
					var p acp.NameParams
					if m.Method != acp.MethodAgentsGet || m.Params.Decode(&p) != nil {
						t.Errorf("it is asked %s", payload)
						return
					}
					held = append(held, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"name":%q,"description":"x","input_content_types":["*/*"],"output_content_types":["*/*"],"metadata":{"capabilities":[{"name":"x","description":"x"}]}}}`, m.ID, p.Name))
				})
				if bad != nil || len(held) < n {
					continue
				}
				slices.Reverse(held)
				for _, answer := range held {
					b.Add([]byte(answer))
				}
				held = nil
			}
			if there.Write(b) != nil {
				return
			}
		}
	})
	surveyed(t, team, n)
	singles := slices.Repeat([]string{"{ 1"}, n)
	if d := cmp.Diff(append([]string{"[ 16"}, singles...), w.take()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	surveyed(t, team, n)
	if d := cmp.Diff(singles, w.take()); d != "" {
		t.Errorf("it gets an array again: -want +got\n%s", d)
	}
}

// A name that the peer does not have is in the error, and the other cards are returned.
func TestSurveyOfSomebodyWhoIsNotThere(t *testing.T) {
	var (
		w       wire
		s       = crowd(t, 2)
		members = everyone(3, "tcp://there:1")
	)
	team := onPipe(t, members, &w, func(there jsonrpc.Transport) { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
	cards, err := team.Survey(t.Context())
	if !errors.Is(err, acp.ErrNotFound) || !strings.Contains(err.Error(), "a03") || len(cards["a01"]) != 1 || len(cards["a02"]) != 1 || len(cards["a03"]) != 0 {
		t.Errorf("%v, %v", cards, err)
	}
}

// A program that exits in every step is started again as often as allowed; then its steps report
// that.
func TestRestarts(t *testing.T) {
	for _, c := range []struct{ restarts, starts int }{{2, 3}, {-1, 1}} {
		var log memoryLog
		members := map[string]Member{"editor": {Command: []string{os.Args[0], "child"}, Protocol: "editor", Env: []string{childEnv + "=editor"}}}
		team, err := Dial(t.Context(), members, &DialOptions{Restarts: c.restarts, Report: func(what string, err error) { log.add(what) }})
		if err != nil {
			t.Fatal(err)
		}
		r := &Runner{Team: team}
		for i := range c.starts + 2 {
			rep, err := r.Run(t.Context(), plan(t, `steps: [{id: s, agent: editor, prompt: die}]`), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := "exited with code 7"
			if i >= c.starts {
				want = fmt.Sprintf("it was started %d times within 10m0s, and is not started again before ", c.starts)
			}
			if e := rep.Find("s").Error; e == nil || e.Kind != KindUnreachable || !strings.Contains(e.Text, want) || !strings.Contains(e.Text, "code 7") {
				t.Errorf("%d restarts, try %d: %v; want %q", c.restarts, i, e, want)
			}
		}
		if got := log.count(ReportMemberLost); got < c.starts {
			t.Errorf("%d reports", got)
		}
		if err := team.Close(); err != nil {
			t.Log(err)
		}
	}
}

// A connection that the peer has closed is opened again by the next call, not before. A place that
// cannot be reached is tried again by a later call, with growing pauses.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			tries, refusals int
			peer            *jsonrpc.Conn
			mux             jsonrpc.Mux
		)
		mux.Add("hello", jsonrpc.Func(func(context.Context, jsonrpc.Raw) (string, error) { return "hello", nil }))
		d := &parley.Dialer{Schemes: parley.Schemes{"tcp": {
			Dial: func(ctx context.Context, d *parley.Dialer, target parley.Target) (parley.Caller, error) {
				tries++
				if tries <= refusals {
					return nil, errors.New("connection refused")
				}
				here, there := inproc.Pipe(nil)
				peer = jsonrpc.NewConn(there)
				peer.Handler = &mux
				peer.Start(context.WithoutCancel(ctx))
				return d.Converse(ctx, here, target.Version), nil
			},
		}}}
		refusals = 4
		team, err := Dial(t.Context(), map[string]Member{"calc": {Target: "tcp://there:1", Protocol: "jsonrpc"}}, &DialOptions{Dialer: d})
		if err != nil {
			t.Fatal(err)
		}
		defer team.Close()
		call := func(want string, wantTries int) {
			t.Helper()
			got, err := jsonrpc.Call[string](t.Context(), team.Worker("calc").Peer, "hello", nil)
			if err != nil {
				got = err.Error()
			}
			if got != want || tries != wantTries {
				t.Errorf("%q after %d tries, want %q after %d", got, tries, want, wantTries)
			}
		}
		const refused = "tcp://there:1: connection refused"
		call(refused, 1)
		for i, wait := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			time.Sleep(wait - 1)
			call(refused, i+1)
			time.Sleep(time.Nanosecond)
			call(refused, i+2)
		}
		time.Sleep(2 * time.Second)
		call("hello", 5)
		call("hello", 5)
		for i := range 3 {
			if err := peer.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if tries != 5+i {
				t.Errorf("it is opened again before anybody uses it: %d tries", tries)
			}
			call("hello", 6+i)
		}
		_ = peer.Close()
		synctest.Wait()
		tries, refusals = 0, 1000
		for range 20 {
			call(refused, tries+1)
			time.Sleep(30 * time.Second)
		}
		if err := team.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Calls that arrive while a connection is being opened wait for the same try, each up to its own
// timeout.
func TestOneTryForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		d := &parley.Dialer{Schemes: parley.Schemes{"tcp": {
			Dial: func(ctx context.Context, d *parley.Dialer, target parley.Target) (parley.Caller, error) {
				tries++
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}}, Timeout: -1}
		team, err := Dial(t.Context(), map[string]Member{"calc": {Target: "tcp://there:1", Protocol: "jsonrpc"}}, &DialOptions{Dialer: d, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer team.Close()
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				own := time.Duration(i+1) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), own)
				defer cancel()
				begun := time.Now()
				if _, err := jsonrpc.Call[string](ctx, team.Worker("calc").Peer, "hello", nil); err == nil || time.Since(begun) != min(own, 5*time.Second) {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
			})
		}
		all.Wait()
		if tries != 2 {
			t.Errorf("%d tries, want 2: one by Dial, and one", tries)
		}
	})
}
