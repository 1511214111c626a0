package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

func init() {
	children["asks"] = func(string) error {
		m := askers(stderrLog)
		conn := jsonrpc.NewConn(stdio.New(nil))
		conn.Handler, conn.Mode, conn.Cancellation = m, m.Mode, jsonrpc.CancelRequest
		return conn.Serve(context.Background())
	}
}

// askers returns methods that call back with questions.
func askers(log peerLog) *jsonrpc.Mux {
	var m jsonrpc.Mux
	add := func(name string, ask func(ctx context.Context, req *jsonrpc.Request) (any, error)) {
		m.Add(name, jsonrpc.HandlerFunc(ask), jsonrpc.Open)
	}
	// plain asks without the ID of a call.
	add("plain", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		return jsonrpc.Call[Answered](ctx, req.Peer(), MethodAsk, map[string]any{"text": "really?"})
	})
	add("choice", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		return jsonrpc.Call[Answered](ctx, req.Peer(), MethodAsk, Asked{
			Text: "which?", RequestID: req.ID,
			Options: []agent.Option{{ID: "a", Name: "The first"}, {ID: "b", Name: "The second"}}, Form: jsonrpc.Raw(`{"type":"object"}`),
		})
	})
	add("wrong", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		for _, params := range []string{`{"text":""}`, `{"text":"x","request_id":"nobody"}`, `[1]`} {
			_, err := jsonrpc.Call[Answered](ctx, req.Peer(), MethodAsk, jsonrpc.Raw(params))
			if !errors.Is(err, jsonrpc.ErrInvalidParams) {
				return nil, fmt.Errorf("%s: %w", params, err)
			}
		}
		if err := req.Peer().Call(ctx, "other", nil, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
			return nil, err
		}
		return "ok", nil
	})
	// waits reports what happens to a question whose step has ended.
	add("waits", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		_, err := jsonrpc.Call[Answered](context.WithoutCancel(ctx), req.Peer(), MethodAsk, Asked{Text: "still there?", RequestID: req.ID})
		if err != nil {
			log("its question is over")
		}
		return nil, err
	})
	// both waits for another call, then asks without the ID of one of the two calls.
	first := make(chan struct{})
	add("both", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		select {
		case first <- struct{}{}:
			<-first
			return "ok", nil
		case <-first:
		}
		_, err := jsonrpc.Call[Answered](ctx, req.Peer(), MethodAsk, Asked{Text: "which of us?"})
		first <- struct{}{}
		if !errors.Is(err, jsonrpc.ErrInvalidParams) {
			return nil, fmt.Errorf("it was answered: %w", err)
		}
		return "ok", nil
	})
	return &m
}

// A peer of plain methods asks the user, as agents do, over a socket and from a program.
func TestMethodsAsk(t *testing.T) {
	var log memoryLog
	methods := askers(log.add)
	listener := &parley.Listener{Handler: methods, Mode: methods.Mode}
	members := map[string]Member{"program": {Command: []string{os.Args[0], "child"}, Protocol: "jsonrpc", Env: []string{childEnv + "=asks"}}}
	for name, at := range map[string]string{"tcp": "tcp://127.0.0.1:0", "ws": "ws://127.0.0.1:0/"} {
		target, err := parley.ParseTarget(at)
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Listen(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		// Ends when server is closed.
		serving.Go(func() { _ = server.Serve(context.WithoutCancel(t.Context())) })
		t.Cleanup(func() {
			_ = server.Close()
			serving.Wait()
		})
		members[name] = Member{Target: server.Targets()[0].String(), Protocol: "jsonrpc"}
	}
	team := dial(t, members, &log)
	defer team.Close()
	for _, name := range []string{"program", "tcp", "ws"} {
		t.Run(name, func(t *testing.T) {
			var (
				mu    sync.Mutex
				asked []string
			)
			r := &Runner{Team: team, Ask: func(ctx context.Context, q *Question) (*agent.Answer, error) {
				mu.Lock()
				asked = append(asked, fmt.Sprintf("%s %s %s %d %s", q.Path, q.Member, q.Text, len(q.Options), q.Form))
				mu.Unlock()
				if len(q.Options) > 0 {
					return agent.Reply("The second"), nil
				}
				return agent.Reply("yes"), nil
			}}
			text := `
deadline: 30s
steps:
  - {id: plain, call: NAME/plain}
  - {id: p, parallel: [{id: a, call: NAME/choice}, {id: b, call: NAME/choice}]}
  - {id: wrong, call: NAME/wrong}
  - {id: q, parallel: [{call: NAME/both}, {call: NAME/both}]}
output: "{{ plain.json.text }} {{ p.results.a.json.option }} {{ p.results.b.json.option }}"
`
			rep, err := r.Run(t.Context(), plan(t, replaced(text, name)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if rep.State != OK || rep.Text() != "yes b b" {
				t.Errorf("%q\n%s", rep.Text(), summary(rep))
			}
			slices.Sort(asked)
			want := []string{
				"p/a " + name + ` which? 2 {"type":"object"}`, "p/b " + name + ` which? 2 {"type":"object"}`, "plain " + name + " really? 0 ",
			}
			if d := cmp.Diff(want, asked); d != "" {
				t.Errorf("-want +got\n%s", d)
			}

			r.Ask = nil
			rep, err = r.Run(t.Context(), plan(t, replaced(`steps: [{id: s, call: NAME/plain}]`, name)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if e := rep.Find("s").Error; e == nil || e.Kind != KindQuestion || e.Text != `the question "really?" has no answer` {
				t.Error(e)
			}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := log.count("its question is over")
			r.Ask = func(ctx context.Context, _ *Question) (*agent.Answer, error) {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			rep, err = r.Run(ctx, plan(t, replaced(`steps: [{id: s, call: NAME/waits}]`, name)), nil)
			if err != nil || rep.Find("s").State != Cancelled {
				t.Error(err, summary(rep))
			}
			log.wait(t, "its question is over", over+1)
		})
	}
}

func replaced(text, name string) string { return strings.ReplaceAll(text, "NAME", name) }
