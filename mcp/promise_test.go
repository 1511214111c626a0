package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// handle sends a request without a session to a server and returns the text of its response.
func handle(t *testing.T, s *mcp.Server, method, params string) string {
	t.Helper()
	a := jsonrpc.Answerer{}
	s.Configure(&a, s)
	out, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`), &jsonrpc.Exchange{})
	return string(out)
}

// TestPortableSchemas checks that each schema for clients has a single type, also for pointers, and
// that null is nevertheless accepted for optional values.
func TestPortableSchemas(t *testing.T) {
	type in struct {
		Name *string          `json:"name"`
		Tags []string         `json:"tags,omitzero" mcp:"enum=a|b"`
		Deep *struct{ N int } `json:"deep"`
	}
	type out struct {
		Name string `json:"name"`
	}
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "t"}, func(_ context.Context, _ *mcp.Request, in in) (*out, error) {
		if in.Name == nil {
			return &out{"nobody"}, nil
		}
		return &out{*in.Name}, nil
	})
	list := handle(t, s, "tools/list", `{`+modernMeta+`}`)
	if strings.Contains(list, `"null"`) || !strings.Contains(list, `"outputSchema":{"type":"object","properties":{"name":{"type":"string"}}`) {
		t.Errorf("got %s", list)
	}
	for args, want := range map[string]string{
		`{"name":null,"deep":null}`: `"structuredContent":{"name":"nobody"}`,
		`{"name":"ada"}`:            `"structuredContent":{"name":"ada"}`,
	} {
		if got := handle(t, s, "tools/call", `{"name":"t","arguments":`+args+`,`+modernMeta+`}`); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", args, got)
		}
	}
}

// TestDefaults checks that the handler receives the schema's default for a missing argument.
func TestDefaults(t *testing.T) {
	type line struct {
		What string `json:"what"`
		N    int    `json:"n" mcp:"default=1,min=1"`
	}
	type in struct {
		Topic string `json:"topic" mcp:"enum=home|work,default=home"`
		Count int    `json:"count,omitzero" mcp:"default=5"`
		Lines []line `json:"lines,omitzero"`
	}
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "t"}, func(_ context.Context, _ *mcp.Request, in in) (string, error) { return fmt.Sprintf("%+v", in), nil })
	must(t, s.AddTool(mcp.Tool{Name: "raw", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"default":[1]},"b":{"type":"object","properties":{"c":{"default":null}}}},"required":["a"]}`)},
		func(_ context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
			return mcp.TextResult(string(r.Arguments)), nil
		}))
	for _, tt := range []struct{ name, args, want string }{
		{"t", ``, `{Topic:home Count:5 Lines:[]}`},
		{"t", `,"arguments":{}`, `{Topic:home Count:5 Lines:[]}`},
		{"t", `,"arguments":{"topic":"work","count":0,"lines":[{"what":"x"},{"what":"y","n":3}]}`, `{Topic:work Count:0 Lines:[{What:x N:1} {What:y N:3}]}`},
		{"raw", `,"arguments":{"b":{}}`, `{"b":{"c":null},"a":[1]}`},
	} {
		got := handle(t, s, "tools/call", `{"name":"`+tt.name+`"`+tt.args+`,`+modernMeta+`}`)
		text := strings.ReplaceAll(got, `\"`, `"`)
		if !strings.Contains(text, `"text":"`+tt.want+`"`) {
			t.Errorf("%s: got %s, want %s", tt.args, got, tt.want)
		}
	}
	if list := handle(t, s, "tools/list", `{`+modernMeta+`}`); strings.Contains(list, `"required":["topic"`) {
		t.Errorf("a field with a default is required: %s", list)
	}
	got := handle(t, s, "tools/call", `{"name":"t","arguments":{"topic":"garden","lines":[{"what":"x"},{"n":0}],"more":1},`+modernMeta+`}`)
	for _, want := range []string{`at /topic: must be \"home\" or \"work\", not \"garden\"`, `at /lines/1/what: is required`, `at /lines/1/n: must be at least 1, not 0`, `at /more: unknown member`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}

// TestConsentIsAboutTheQuestion checks that an answer counts only for the question that was asked,
// not for another one with the same key.
func TestConsentIsAboutTheQuestion(t *testing.T) {
	var price atomic.Int64
	price.Store(10)
	paid := make(chan int64, 9)
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		now := price.Load()
		a, err := r.Elicit(ctx, "sure", &mcp.Elicitation{Message: fmt.Sprintf("Pay %d euros?", now)})
		if err != nil {
			return "", err
		}
		if a.Action == mcp.ActionAccept {
			paid <- now
		}
		return "", nil
	})
	const yes = `"inputResponses":{"sure":{"action":"accept","content":{}}},`
	call := func(more string) string { return handle(t, s, "tools/call", `{"name":"pay",`+more+modernMeta+`}`) }
	state := func(answer, want string) string {
		t.Helper()
		if !strings.Contains(answer, want) {
			t.Fatalf("got %s, want %s asked", answer, want)
		}
		_, rest, ok := strings.Cut(answer, `"requestState":"`)
		if !ok {
			t.Fatalf("no state in %s", answer)
		}
		text, _, _ := strings.Cut(rest, `"`)
		return `"requestState":"` + text + `",`
	}
	first := state(call(``), "Pay 10 euros?")
	state(call(yes), "Pay 10 euros?") // an answer to a question that was not asked
	price.Store(1000)
	second := state(call(yes+first), "Pay 1000 euros?")
	if len(paid) > 0 {
		t.Fatalf("paid %d", <-paid)
	}
	call(yes + second)
	if got := <-paid; got != 1000 || len(paid) > 0 {
		t.Errorf("paid %d", got)
	}
}

// TestInitialize checks that a missing member is named in the error, and that an unsupported
// version gets a response with a supported one.
func TestInitialize(t *testing.T) {
	long := func(n int) string {
		capabilities := `{"experimental":{"x":{"y":"` + strings.Repeat("z", n-len(`{"experimental":{"x":{"y":""}}}`)) + `"}}}`
		return `{"protocolVersion":"2025-06-18","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1"}}`
	}
	for params, want := range map[string]string{
		`{"protocolVersion":"","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`:           `"protocolVersion":"2025-11-25"`,
		`{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`: `"protocolVersion":"2025-11-25"`,
		`{"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`:                                `initialize needs protocolVersion`,
		`{"protocolVersion":7,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`:            `protocolVersion is a string`,
		`{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1"}}`:                   `initialize needs capabilities`,
		`{"protocolVersion":"2025-06-18","capabilities":{}}`:                                         `initialize needs clientInfo`,
		`{"protocolVersion":"2025-06-18","capabilities":[],"clientInfo":{"name":"c","version":"1"}}`: `capabilities is an object`,
		`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`: `"protocolVersion":"2025-06-18"`,
		long(64 << 10):   `"protocolVersion":"2025-06-18"`,
		long(64<<10 + 1): `capabilities is longer than 64 KiB`,
	} {
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
		if got := handle(t, s, "initialize", params); !strings.Contains(got, want) {
			t.Errorf("%.200s: got %s, want %s", params, got, want)
		}
	}
}

// TestCompletionNeedsAnArgument checks that a completion request without an argument is rejected as
// invalid.
func TestCompletionNeedsAnArgument(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Complete: func(context.Context, *mcp.Request, *mcp.CompleteParams) (*mcp.Completion, error) {
		return &mcp.Completion{Values: []string{"x"}}, nil
	}})
	for _, argument := range []string{``, `"argument":{},`, `"argument":{"name":"a"},`, `"argument":{"value":"a"},`, `"argument":7,`} {
		if got := handle(t, s, "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},`+argument+modernMeta+`}`); !strings.Contains(got, "-32602") {
			t.Errorf("%s: got %s", argument, got)
		}
	}
}

// TestSilenceAfterCancel checks that after its context has ended, a handler sends nothing more for
// its request, and gets an error when it tries.
func TestSilenceAfterCancel(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		cancelled, errs := make(chan struct{}), make(chan error, 3)
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
		mcp.AddTool(s, mcp.Tool{Name: "t"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			_ = r.Progress(ctx, 1, 0, "")
			<-ctx.Done()
			own := context.Background() // a context that is not cancelled
			errs <- r.Progress(own, 2, 0, "more")
			errs <- r.Log(own, mcp.LevelError, "", "more")
			_, err := r.Roots(own, "where")
			errs <- err
			close(cancelled)
			return "", nil
		})
		c := connect(t, s, mcp.ClientOptions{LogLevel: mcp.LevelDebug, Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }}, v)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.CallTool(ctx, "t", nil, &mcp.CallOptions{Progress: func(mcp.Progress) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		eventually(t, cancelled)
		for range 3 {
			if err := <-errs; !errors.Is(err, jsonrpc.ErrPeerCancelled) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestTasksSay checks that progress of a task is its status message, and in 2025-11-25 also a
// progress notification.
func TestTasksSay(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		goOn := make(chan struct{})
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
		mcp.AddTool(s, mcp.Tool{Name: "bake", Task: mcp.TaskRequired}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			if err := r.Progress(ctx, 1, 2, "half done"); err != nil {
				return "", err
			}
			<-goOn
			return "done", nil
		})
		said := make(chan string, 99)
		progress := make(chan string, 9)
		c := connect(t, s, mcp.ClientOptions{OnChange: func(ch mcp.Change) {
			if ch.Task != nil && ch.Task.StatusMessage != "" {
				said <- ch.Task.StatusMessage
			}
		}}, v)
		_, err := c.CallTool(t.Context(), "bake", nil, &mcp.CallOptions{Progress: func(p mcp.Progress) { progress <- p.Message }, OnTask: func(task *mcp.Task) {
			if task.Status != mcp.TaskWorking {
				return
			}
			for {
				now, err := c.GetTask(t.Context(), task.ID)
				must(t, err)
				if now.StatusMessage == "half done" {
					break
				}
			}
			select {
			case <-goOn:
			default:
				close(goOn)
			}
		}, TaskTTL: 60_000_000_000})
		must(t, err)
		if !v.Modern() {
			if got := eventually(t, said); got != "half done" {
				t.Errorf("tasks/status said %q", got)
			}
		}
	})
}

// TestForeignResultType checks that a resultType that is not a string is rejected.
func TestForeignResultType(t *testing.T) {
	for _, kind := range []string{`7`, `null`, `true`, `{}`, `"strange"`} {
		odd := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			if req.Method == mcp.MethodDiscover {
				return jsonrpc.Raw(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`), nil
			}
			return jsonrpc.Raw(`{"resultType":` + kind + `,"content":[{"type":"text","text":"x"}],"tools":[]}`), nil
		})
		c := connectTo(t, odd, mcp.ClientOptions{})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, mcp.ErrUnknownResult) {
			t.Errorf("%s: got %v", kind, err)
		}
		if _, err := c.ListTools(t.Context(), nil); !errors.Is(err, mcp.ErrUnknownResult) {
			t.Errorf("%s: a list: got %v", kind, err)
		}
	}
}

// TestTaskSupport checks that a client calls a listed tool as a task if the tool requires it, and
// never if the tool forbids it.
func TestTaskSupport(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	for name, support := range map[string]mcp.TaskSupport{"must": mcp.TaskRequired, "may": mcp.TaskOptional, "plain": mcp.TaskForbidden} {
		mcp.AddTool(s, mcp.Tool{Name: name, Task: support}, func(context.Context, *mcp.Request, struct{}) (string, error) { return "done", nil })
	}
	c := connect(t, s, mcp.ClientOptions{}, mcp.V20251125)
	for _, err := range c.Tools(t.Context()) {
		must(t, err)
	}
	for _, o := range []*mcp.CallOptions{nil, {TaskTTL: 60_000_000_000}} {
		for _, name := range []string{"must", "may", "plain"} {
			if got, err := c.CallTool(t.Context(), name, nil, o); err != nil || got.Text() != "done" {
				t.Errorf("%s, %+v: got %+v, %v", name, o, got, err)
			}
		}
	}
}

// TestPanicOfAnAnswer checks that a panic in a user's function fails the call in every version, and
// does not end the program.
func TestPanicOfAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		if v < mcp.V20250618 {
			return // has no questions
		}
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Report: func(string, error) {}})
		mcp.AddTool(s, mcp.Tool{Name: "t"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			_, err := r.Elicit(ctx, "q", &mcp.Elicitation{Message: "?"})
			return "", err
		})
		var reported atomic.Int32
		c := connect(t, s, mcp.ClientOptions{Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) { panic("secret") },
			Report: func(string, error) { reported.Add(1) }}, v)
		got, err := c.CallTool(t.Context(), "t", nil, nil)
		if err == nil && !got.IsError || reported.Load() == 0 {
			t.Errorf("got %+v, %v, %d reports", got, err, reported.Load())
		}
	})
}
