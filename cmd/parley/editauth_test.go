package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/socket"
)

// lockedAgent serves an agent for editors that requires a login on TCP; by is the method of the
// last one.
func lockedAgent(t *testing.T, methods []editor.AuthMethod) (target string, by *atomic.Value) {
	t.Helper()
	l, err := socket.Listen(t.Context(), "tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	by = new(atomic.Value)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var open atomic.Bool
			go func() {
				_ = editor.NewAgent(editor.Implementation{Name: "locked", Version: "1"}, &editor.AgentOptions{
					AuthMethods: methods,
					Authenticate: func(_ context.Context, _ *editor.Editor, id string) error {
						if id == "wrong" {
							return jsonrpc.NewError(editor.CodeAuthRequired, "This key is not valid")
						}
						by.Store(id)
						open.Store(true)
						return nil
					},
					NewSession: func(context.Context, *editor.Session, *editor.NewSessionParams) (*editor.NewSessionResult, error) {
						if !open.Load() {
							return nil, editor.ErrAuthRequired
						}
						return nil, nil
					},
					Prompt: func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
						return editor.EndTurn, turn.Say(ctx, "let in")
					},
				}).Serve(context.Background(), c)
			}()
		}
	}()
	return "tcp://" + l.Addr().String(), by
}

// TestEditorAgentsThatRequireALogin: exit code 3, with the methods that the agent offers; --auth
// uses one of them.
func TestEditorAgentsThatRequireALogin(t *testing.T) {
	target, by := lockedAgent(t, []editor.AuthMethod{
		{ID: "browser", Name: "Log in with a browser", Description: "Opens a page.\n\x1b[2Jparley: fine"},
		{ID: "wrong", Name: "API key"},
	})
	methods := []string{`browser (Log in with a browser: Opens a page.`, `wrong (API key)`}
	for _, tt := range []struct {
		words []string
		code  int
		want  []string // of stderr
	}{
		{nil, exitAuth, append(methods, "requires authentication", "--auth METHOD")},
		{[]string{"--auth", "wrong"}, exitAuth, append(methods, "This key is not valid")},
		{[]string{"--auth", "other"}, exitUsage, append(methods, `does not offer the method "other"`)},
		{[]string{"--auth", "browser"}, exitOK, nil},
	} {
		code, stdout, stderr := runOn(t, append([]string{"edit", target, "hello"}, tt.words...)...)
		if code != tt.code || strings.Contains(stderr, "\x1b") || strings.Contains(stderr, "\nparley: fine") {
			t.Errorf("%v: exit code %d, want %d; stderr %q", tt.words, code, tt.code, stderr)
		}
		for _, part := range tt.want {
			if !strings.Contains(stderr, part) {
				t.Errorf("%v: stderr has no %q: %s", tt.words, part, stderr)
			}
		}
		if tt.code == exitOK && (!strings.Contains(stdout, "let in") || by.Load() != "browser") {
			t.Errorf("%v: stdout %q, login by %v", tt.words, stdout, by.Load())
		}
	}

	target, _ = lockedAgent(t, nil)
	if code, _, stderr := runOn(t, "edit", target, "hello"); code != exitAuth || !strings.Contains(stderr, "offers no method") {
		t.Errorf("without methods: exit code %d, stderr %q", code, stderr)
	}
}
