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

// booking asks the user and the model, and requests roots. The handler is the same for both eras.
func booking(runs, computed *atomic.Int32) *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "booking", Version: "1"}, nil)
	type form struct {
		Name   string `json:"name" mcp:"title=Your name"`
		Guests int    `json:"guests,omitzero" mcp:"default=2,min=1,max=12"`
		Window string `json:"window" mcp:"enum=yes|no|any,default=any"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "book-table", Description: "Books a table."},
		func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			runs.Add(1)
			number, err := mcp.Once(ctx, r, "number", func(context.Context) (int, error) { return int(computed.Add(1)) + 41, nil })
			if err != nil {
				return "", err
			}
			answers, err := r.Ask(ctx,
				mcp.Question{Key: "who", Elicit: &mcp.Elicitation{Message: "Who comes?", RequestedSchema: mcp.FormOf[form]()}},
				mcp.Question{Key: "where", Roots: true})
			if err != nil {
				return "", err
			}
			var who form
			if !answers["who"].Elicit.Accepted(&who) {
				return "Nobody comes.", nil
			}
			said, err := r.Sample(ctx, "greeting", &mcp.SamplingRequest{MaxTokens: 50,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{mcp.Text("Greet " + who.Name)}}}})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s Table %d for %d, window: %s, %s", said.Content[0].Text, number, who.Guests, who.Window, answers["where"].Roots[0].URI), nil
		})
	return s
}

func answering() mcp.ClientOptions {
	return mcp.ClientOptions{
		Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"Ada"}`)}, nil
		},
		Sample: func(_ context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			return &mcp.SamplingResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.Blocks{mcp.Text("Hello from " + q.Messages[0].Content[0].Text + "!")}}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///home"}}, nil },
	}
}

func TestAskInBothEras(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		var runs, computed atomic.Int32
		c := connect(t, booking(&runs, &computed), answering(), v)
		got, err := c.CallTool(t.Context(), "book-table", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !v.HasElicitation() {
			if !got.IsError || !strings.Contains(got.Text(), "elicitation") {
				t.Errorf("a client without elicitation got %+v", got)
			}
			return
		}
		want := "Hello from Greet Ada! Table 42 for 2, window: any, file:///home"
		if got.Text() != want || got.IsError {
			t.Errorf("got %q, want %q", got.Text(), want)
		}
		if v.Modern() && runs.Load() != 3 || !v.Modern() && runs.Load() != 1 {
			t.Errorf("the handler ran %d times", runs.Load())
		}
		if computed.Load() != 1 {
			t.Errorf("Once ran %d times", computed.Load())
		}
	})
}

func TestAskWithoutCapability(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		var runs, computed atomic.Int32
		c := connect(t, booking(&runs, &computed), mcp.ClientOptions{}, v)
		got, err := c.CallTool(t.Context(), "book-table", nil, nil)
		if !v.Modern() {
			if err != nil || !got.IsError {
				t.Errorf("got %+v, %v; want a failed tool", got, err)
			}
			return
		}
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != mcp.CodeMissingCapability {
			t.Fatalf("got %v, want -32021", err)
		}
		var data mcp.MissingCapabilityData
		if err := e.Data.Decode(&data); err != nil || data.RequiredCapabilities.Elicitation == nil {
			t.Errorf("data %s", e.Data)
		}
	})
}

func TestDeclinedAndRefused(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		if !v.HasElicitation() {
			return
		}
		var runs, computed atomic.Int32
		o := answering()
		o.Elicit = func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
		}
		c := connect(t, booking(&runs, &computed), o, v)
		got, err := c.CallTool(t.Context(), "book-table", nil, nil)
		if err != nil || got.Text() != "Nobody comes." {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestURLElicitation(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		t.Run(v.String(), func(t *testing.T) {
			s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
			mcp.AddTool(s, mcp.Tool{Name: "login"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
				a, err := r.Elicit(ctx, "login", &mcp.Elicitation{Mode: mcp.ElicitURL, Message: "Log in", URL: "https://example.com/login"})
				if err != nil {
					return "", err
				}
				return a.Action, nil
			})
			o := answering()
			o.ElicitURL = true
			o.Elicit = func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
				if e.URL != "https://example.com/login" || (e.ElicitationID != "") != v.HasElicitationID() {
					t.Errorf("asked %+v", e)
				}
				return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
			}
			got, err := connect(t, s, o, v).CallTool(t.Context(), "login", nil, nil)
			if err != nil || got.Text() != "accept" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestServerThatKeepsAsking(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "nag"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		for i := range 100 {
			if _, err := r.Roots(ctx, fmt.Sprint("again", i)); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	o := answering()
	o.Rounds = 3
	_, err := connect(t, s, o, mcp.V20260728).CallTool(t.Context(), "nag", nil, nil)
	if !errors.Is(err, mcp.ErrTooManyRounds) {
		t.Errorf("got %v", err)
	}
}

// TestAnswersFitTheForm checks that an answer that does not fit the form is rejected.
func TestAnswersFitTheForm(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		if !v.HasElicitation() {
			return
		}
		for _, content := range []string{`{}`, `{"name":7,"window":"any"}`, `{"name":"Ada","window":"maybe"}`, `{"name":"Ada","guests":99}`} {
			var runs, computed atomic.Int32
			o := answering()
			o.Rounds = 2
			o.Elicit = func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(content)}, nil
			}
			got, err := connect(t, booking(&runs, &computed), o, v).CallTool(t.Context(), "book-table", nil, nil)
			if v.Modern() && !errors.Is(err, mcp.ErrTooManyRounds) || !v.Modern() && (err != nil || !got.IsError) {
				t.Errorf("%s: %+v, %v", content, got, err)
			}
		}
	})
}

// TestSamplingWithTools checks that the model may be given tools, since 2025-11-25, if the client
// declares it.
func TestSamplingWithTools(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	use := mcp.Content{Kind: mcp.KindToolUse, Use: &mcp.ToolUse{ID: "u1", Name: "add", Input: jsonrpc.Raw(`{"a":1}`)}}
	result := mcp.Content{Kind: mcp.KindToolResult, Result: &mcp.ToolUseResult{ToolUseID: "u1", Content: []mcp.Content{mcp.Text("2")}}}
	mcp.AddTool(s, mcp.Tool{Name: "think"}, func(ctx context.Context, r *mcp.Request, in struct {
		Wrong string `json:"wrong,omitzero"`
	}) (string, error) {
		q := &mcp.SamplingRequest{MaxTokens: 10, ToolChoice: &mcp.ToolChoice{Mode: "auto"},
			Tools:    []mcp.Tool{{Name: "add", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}},
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{mcp.Text("1+1?")}}, {Role: mcp.RoleAssistant, Content: mcp.Blocks{mcp.Text("hm"), use}}, {Role: mcp.RoleUser, Content: mcp.Blocks{result}}}}
		switch in.Wrong {
		case "no result":
			q.Messages[2].Content = mcp.Blocks{mcp.Text("never mind")}
		case "no use":
			q.Messages[1].Content = mcp.Blocks{mcp.Text("hm")}
		case "mixed":
			q.Messages[2].Content = mcp.Blocks{result, mcp.Text("and")}
		}
		said, err := r.Sample(ctx, "think", q)
		if err != nil {
			return "", err
		}
		return said.StopReason + " " + said.Content[0].Use.Name, nil
	})
	o := answering()
	o.SampleTools = true
	o.Sample = func(_ context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
		if len(q.Messages) != 3 || q.Messages[2].Content[0].Result.Content[0].Text != "2" {
			t.Errorf("asked %+v", q)
		}
		return &mcp.SamplingResult{Role: mcp.RoleAssistant, Model: "m", StopReason: "toolUse", Content: mcp.Blocks{use}}, nil
	}
	each(t, func(t *testing.T, v mcp.Version) {
		c := connect(t, s, o, v)
		got, err := c.CallTool(t.Context(), "think", nil, nil)
		must(t, err)
		if v.HasSamplingTools() == got.IsError || !got.IsError && got.Text() != "toolUse add" {
			t.Errorf("got %+v", got)
		}
		if !v.HasSamplingTools() {
			return
		}
		for _, wrong := range []string{"no result", "no use", "mixed"} {
			got, err := c.CallTool(t.Context(), "think", map[string]string{"wrong": wrong}, nil)
			if err == nil && !got.IsError {
				t.Errorf("%s was taken: %+v", wrong, got)
			}
		}
	})
}

// TestPromptsAndResourcesMayAsk checks that a result that depends on an answer is not cached, and
// that prompts and resources may ask questions too.
func TestPromptsAndResourcesMayAsk(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	must(t, s.AddResource(mcp.Resource{URI: "test://roots", Name: "r"}, func(ctx context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		roots, err := r.Roots(ctx, "where")
		if err != nil {
			return nil, err
		}
		out := mcp.TextResource(r, "", roots[0].URI)
		out.Caching = mcp.Caching{TTLMs: 1000, CacheScope: mcp.CachePublic}
		return out, nil
	}))
	must(t, s.AddPrompt(mcp.Prompt{Name: "p"}, func(ctx context.Context, r *mcp.Request, _ map[string]string) (*mcp.GetPromptResult, error) {
		roots, err := r.Roots(ctx, "where")
		if err != nil {
			return nil, err
		}
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.UserText(roots[0].URI)}}, nil
	}, nil))
	each(t, func(t *testing.T, v mcp.Version) {
		c := connect(t, s, answering(), v)
		read, err := c.ReadResource(t.Context(), "test://roots", nil)
		must(t, err)
		if read.Contents[0].Text != "file:///home" {
			t.Errorf("resource %+v", read)
		}
		if v.Modern() && (read.TTLMs != 0 || read.CacheScope != mcp.CachePrivate) {
			t.Errorf("may be kept: %+v", read.Caching)
		}
		prompt, err := c.GetPrompt(t.Context(), "p", nil, nil)
		must(t, err)
		if prompt.Messages[0].Content.Text != "file:///home" {
			t.Errorf("prompt %+v", prompt)
		}
		dumb := connect(t, s, mcp.ClientOptions{}, v)
		want := mcp.ErrMissingCapability
		if !v.Modern() {
			want = jsonrpc.ErrInvalidRequest
		}
		if _, err := dumb.GetPrompt(t.Context(), "p", nil, nil); !errors.Is(err, want) {
			t.Errorf("without roots: %v", err)
		}
	})
}

// TestUnusableAnswers checks that in the legacy era, a question that is answered with an error or
// with an unsuitable value fails the tool with the reason.
func TestUnusableAnswers(t *testing.T) {
	form := jsonrpc.Raw(`{"type":"object","properties":{"crust":{"type":"string","enum":["thin","thick"]},"n":{"type":"integer"}},"required":["crust"]}`)
	for _, tt := range []struct {
		name   string
		answer func() (*mcp.ElicitResult, error)
		want   string
	}{
		{"an error", func() (*mcp.ElicitResult, error) { return nil, &jsonrpc.Error{Code: -7, Message: "not now"} }, `The question "q" got the error response -7: not now`},
		{"another value", func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"crust":"purple","n":1.5}`)}, nil
		}, `The answer to the question "q" is not valid: at /crust: must be "thin" or "thick", not "purple"; at /n: must be an integer, not a number`},
		{"an action that is none", func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "maybe"}, nil }, `The answer to the question "q" is not valid: unknown action "maybe"`},
	} {
		s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Report: func(what string, err error) { t.Errorf("%s: reported %s: %v", tt.name, what, err) }})
		mcp.AddTool(s, mcp.Tool{Name: "bake"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			_, err := r.Elicit(ctx, "q", &mcp.Elicitation{Message: "Which crust?", RequestedSchema: form})
			return "baked", err
		})
		here, end := pipe(t, s)
		c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20250618},
			Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) { return tt.answer() }})
		must(t, err)
		got, err := c.CallTool(t.Context(), "bake", nil, nil)
		if err != nil || !got.IsError || got.Text() != tt.want {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
		must(t, c.Close())
		end()
	}
}
