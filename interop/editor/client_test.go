package editor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// A traveller is our client's side of the tour. It records the order of all messages.
type traveller struct {
	mu    sync.Mutex
	log   []string
	grant string // the option to select; "" waits for the cancel
	asked chan struct{}
}

func (v *traveller) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.log = append(v.log, fmt.Sprintf(format, args...))
}

func (v *traveller) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	log := v.log
	v.log = nil
	return log
}

func (v *traveller) options(elicits bool) *editor.ClientOptions {
	o := &editor.ClientOptions{
		Permission: func(ctx context.Context, p *editor.PermissionParams) (*editor.PermissionResult, error) {
			v.note("asked %s", p.ToolCall.Title)
			if v.grant == "" {
				close(v.asked)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return editor.Select(v.grant), nil
		},
		ReadTextFile: func(_ context.Context, p *editor.ReadTextFileParams) (string, error) {
			v.note("read %s %d %d", p.Path, p.Line, p.Limit)
			return "sea", nil
		},
		WriteTextFile: func(_ context.Context, p *editor.WriteTextFileParams) error {
			v.note("write %s", p.Content)
			return nil
		},
		Terminals: shell{v},
	}
	if elicits {
		o.Elicit = func(_ context.Context, p *editor.ElicitParams) (*editor.ElicitResult, error) {
			v.note("form %s %s", p.Message, p.RequestedSchema.Properties["name"].Type)
			return &editor.ElicitResult{Action: editor.ActionAccept, Content: map[string]jsonrpc.Raw{"name": jsonrpc.Raw(`"Ada"`)}}, nil
		}
	}
	return o
}

// A shell is a terminal that runs nothing.
type shell struct{ v *traveller }

func (s shell) Create(_ context.Context, p *editor.CreateTerminalParams) (*editor.CreateTerminalResult, error) {
	s.v.note("run %s", p.Command)
	return &editor.CreateTerminalResult{TerminalID: strings.Join(p.Args, " ")}, nil
}

func (s shell) Output(_ context.Context, p *editor.TerminalParams) (*editor.TerminalOutputResult, error) {
	return &editor.TerminalOutputResult{Output: p.TerminalID}, nil
}

func (s shell) Wait(context.Context, *editor.TerminalParams) (*editor.ExitStatus, error) {
	return &editor.ExitStatus{ExitCode: new(int)}, nil
}
func (s shell) Kill(context.Context, *editor.TerminalParams) error { return nil }
func (s shell) Release(context.Context, *editor.TerminalParams) error {
	s.v.note("release")
	return nil
}

// walk runs the complete tour with an agent.
func walk(t *testing.T, dial func(o *editor.ClientOptions) *editor.Client, elicits bool, name string) {
	v := &traveller{grant: "yes", asked: make(chan struct{})}
	c := dial(v.options(elicits))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := c.NewSession(ctx, &editor.NewSessionParams{CWD: "/tour"})
	if err != nil {
		t.Fatalf("NewSession: %v", err)
	}
	prompt := func(ctx context.Context, words string, on func(u *editor.Update) error) (*editor.PromptResult, error) {
		return c.Prompt(ctx, &editor.PromptParams{SessionID: session.SessionID, Prompt: []editor.Content{editor.Text(words)}}, on)
	}
	kinds := func(u *editor.Update) error {
		// About the new session, sent while the prompt is in transit.
		if u.Kind != "available_commands_update" {
			v.note("%s %s", u.Kind, u.Text())
		}
		return nil
	}

	t.Run("tour", func(t *testing.T) {
		end, err := prompt(ctx, "tour", kinds)
		if err != nil || end.StopReason != editor.EndTurn {
			t.Fatalf("Prompt = %+v, %v", end, err)
		}
		var miles int
		if !end.Meta.Get("miles", &miles) || miles != 12 {
			t.Errorf("_meta is %v", end.Meta)
		}
		want := []string{"agent_thought_chunk hm", "plan ", "tool_call ", "read /tour/notes.txt 1 1", "asked Edit the notes", "write sea!", "tool_call_update ", "run echo", "release"}
		if elicits {
			want = append(want, "form Your name? string")
		}
		want = append(want, "agent_message_chunk sea hello 0 "+name)
		if diff := cmp.Diff(want, v.take()); diff != "" {
			t.Errorf("what came, and in which order (-want +got):\n%s", diff)
		}
	})
	t.Run("refusal", func(t *testing.T) {
		v.grant = "no"
		if end, err := prompt(ctx, "tour", nil); err != nil || end.StopReason != editor.Refusal {
			t.Fatalf("Prompt = %+v, %v", end, err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		gone, leave := context.WithCancel(ctx)
		end, err := prompt(gone, "wait", func(u *editor.Update) error {
			if u.Text() == "waiting" {
				leave()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || end == nil || end.StopReason != editor.Cancelled {
			t.Fatalf("Prompt = %+v, %v", end, err)
		}
	})
	t.Run("cancel while the user is asked", func(t *testing.T) {
		v.grant = ""
		go func() {
			<-v.asked
			_ = c.Cancel(ctx, session.SessionID)
		}()
		end, err := prompt(ctx, "question", nil)
		if err != nil || end.StopReason != editor.Cancelled {
			t.Fatalf("Prompt = %+v, %v", end, err)
		}
	})
	t.Run("flood", func(t *testing.T) {
		var got, want strings.Builder
		end, err := prompt(ctx, "flood", func(u *editor.Update) error {
			got.WriteString(u.Text())
			return nil
		})
		if err != nil || end.StopReason != editor.MaxTokens {
			t.Fatalf("Prompt = %+v, %v", end, err)
		}
		for i := range 1000 {
			fmt.Fprintf(&want, "%d ", i)
		}
		if got.String() != want.String() {
			t.Errorf("the updates came as %.200q…", got.String())
		}
	})
	t.Run("load", func(t *testing.T) {
		var got []string
		_, err := c.LoadSession(ctx, &editor.LoadSessionParams{SessionID: "old", CWD: "/tour"}, func(u *editor.Update) error {
			got = append(got, u.Kind+" "+u.Text())
			return nil
		})
		if diff := cmp.Diff([]string{"user_message_chunk before", "agent_message_chunk as well"}, got); err != nil || diff != "" {
			t.Errorf("LoadSession: %v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("errors", func(t *testing.T) {
		if err := c.Call(ctx, "_no/such", nil, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
			t.Errorf("an unknown method: %v", err)
		}
	})
}

// child returns a function that starts an agent program.
func child(t *testing.T, argv []string) func(o *editor.ClientOptions) *editor.Client {
	return func(o *editor.ClientOptions) *editor.Client {
		t.Helper()
		program, err := stdio.Start(t.Context(), argv, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("stderr of %s:\n%s", argv, program.Stderr())
			}
		})
		c, err := editor.Connect(t.Context(), program, editor.Implementation{Name: "traveller", Version: "1.0"}, o)
		if err != nil {
			t.Fatalf("Connect: %v\n%s", err, program.Stderr())
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func TestClientOfJavaScriptAgent(t *testing.T) {
	walk(t, child(t, harness.Node(t, "agent.mjs")), true, "Ada")
}

func TestClientOfOurAgent(t *testing.T) {
	walk(t, child(t, []string{harness.Program(t, "./interop/editor/tour")}), true, "Ada")
}

func TestJavaScriptClientOfOurAgent(t *testing.T) {
	harness.Checks(t, harness.Node(t, "client.mjs", harness.Program(t, "./interop/editor/tour")))
}
