package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

func TestCookReportsAndCanBeCancelled(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMCP("test", nil)
			defer m.Close()
			var logs []string
			c := connect(t, m, v, &mcp.ClientOptions{LogLevel: mcp.LevelDebug, OnLog: func(p *mcp.LogParams) { logs = append(logs, p.Level.String()) }})
			defer c.Close()
			if err := c.SetLogLevel(t.Context(), mcp.LevelDebug); err != nil {
				t.Fatal(err)
			}
			var steps []float64
			began := time.Now()
			result, err := c.CallTool(t.Context(), "kitchen/cook", jsonrpc.Raw(`{"dish":"soup","steps":4,"step_ms":250}`), &mcp.CallOptions{
				Progress: func(p mcp.Progress) { steps = append(steps, p.Progress/p.Total) },
			})
			if err != nil || result.Text() != "The soup is ready, after 4 steps." {
				t.Errorf("%s: %v, %v", v, result, err)
			}
			if !slices.Equal(steps, []float64{0.25, 0.5, 0.75, 1}) || time.Since(began) != time.Second {
				t.Errorf("%s: steps %v in %v", v, steps, time.Since(began))
			}
			if !slices.Equal(logs, []string{"info", "debug", "debug", "debug", "debug"}) {
				t.Errorf("%s: logs %q", v, logs)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := c.CallTool(ctx, "kitchen/cook", jsonrpc.Raw(`{"dish":"soup","steps":1000,"step_ms":60000}`), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: cancelled: %v", v, err)
			}
		})
	}
}

func TestBakeIsATaskThatAsks(t *testing.T) {
	for _, v := range everyVersion {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMCP("test", nil)
				defer m.Close()
				asked := 0
				c := connect(t, m, v, &mcp.ClientOptions{Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
					asked++
					return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"crust":"dark"}`)}, nil
				}})
				defer c.Close()
				var states []mcp.TaskStatus
				began := time.Now()
				result, err := c.CallTool(t.Context(), "kitchen/bake", jsonrpc.Raw(`{"what":"bread","seconds":4}`), &mcp.CallOptions{
					OnTask: func(task *mcp.Task) { states = append(states, task.Status) }, TaskTTL: time.Minute,
				})
				want, questions := "The bread is baked, with a dark crust.", 1
				if !v.HasElicitation() {
					want, questions = "The bread is baked, with a golden crust.", 0
				}
				if err != nil || result.Text() != want || asked != questions {
					t.Errorf("%v, %v after %d questions", result, err, asked)
				}
				if took := time.Since(began); took < 4*time.Second {
					t.Errorf("it took %v", took)
				}
				if isTask := len(states) > 0; isTask != (v >= mcp.V20251125) {
					t.Errorf("states %v", states)
				}
			})
		})
	}
}

func TestInventAsksTheModel(t *testing.T) {
	for _, v := range everyVersion {
		c := connect(t, newMCP(t), v, &mcp.ClientOptions{Sample: func(_ context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			if text := q.Messages[0].Content[0].Text; text != "Invent a dish from: rice, lemon." {
				return nil, errors.New(text)
			}
			return &mcp.SamplingResult{Role: mcp.RoleAssistant, Model: "test", Content: mcp.Blocks{mcp.Text("Lemon rice.")}}, nil
		}})
		if got := tool(t, c, "kitchen/invent", `{"ingredients":["rice","lemon"]}`); got != "Lemon rice." {
			t.Errorf("%s: %s", v, got)
		}
	}
	c := connect(t, newMCP(t), mcp.V20251125, &mcp.ClientOptions{Sample: func(context.Context, *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
		return nil, &jsonrpc.Error{Code: mcp.CodeRejected, Message: "no"}
	}})
	if got := tool(t, c, "kitchen/invent", `{"ingredients":[]}`); got != "error: The request to the model failed: no." {
		t.Errorf("a user who says no: %s", got)
	}
}

func TestTheListOfToolsChanges(t *testing.T) {
	m := newMCP(t)
	c := connect(t, m, 0, nil)
	names := func() (names []string) {
		for one, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, one.Name)
		}
		return names
	}
	enough := errors.New("enough")
	heard := 0
	err := c.Listen(t.Context(), mcp.Filter{ToolsListChanged: true}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyToolsChanged {
			heard++
		}
		switch has := slices.Contains(names(), specialTool); {
		case heard == 0:
			tool(t, c, "kitchen/switch-special", `{}`)
		case heard == 1 && has:
			if got := tool(t, c, specialTool, `{}`); got != "One special of the day, coming up." {
				t.Errorf("the special: %s", got)
			}
			tool(t, c, "kitchen/switch-special", `{}`)
		case heard == 2 && !has:
			return enough
		default:
			t.Errorf("after %d changes the special is there: %t", heard, has)
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestTheClockTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMCP("test", nil)
		defer m.Close()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		c := connect(t, m, 0, nil)
		defer c.Close()
		enough := errors.New("enough")
		var times []string
		err := c.Listen(t.Context(), mcp.Filter{ResourceSubscriptions: []string{clockURI}}, func(ch mcp.Change) error {
			if ch.Method != mcp.NotifyResourceUpdated {
				return nil
			}
			read, err := c.ReadResource(t.Context(), ch.URI, nil)
			if err != nil {
				return err
			}
			if times = append(times, read.Contents[0].Text[11:19]); len(times) == 2 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || !strings.HasSuffix(times[0], ":01") || !strings.HasSuffix(times[1], ":02") {
			t.Errorf("%q, %v", times, err)
		}
		stop()
		<-done
	})
}
