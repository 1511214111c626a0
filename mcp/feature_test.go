package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// everything returns a server with one of each kind.
func everything(t testing.TB) *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "everything", Version: "1", Icons: []mcp.Icon{{Src: "https://example.com/i.png", Sizes: []string{"48x48"}}}},
		&mcp.ServerOptions{Instructions: "Use it."})
	mcp.AddTool(s, mcp.Tool{Name: "all", Title: "All", Description: "Everything at once.", Icons: []mcp.Icon{{Src: "https://example.com/t.png"}},
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}},
		func(ctx context.Context, r *mcp.Request, _ struct{}) ([]mcp.Content, error) {
			for i := range 3 {
				if err := errors.Join(r.Progress(ctx, float64(i), 2, "step"), r.Progress(ctx, 0, 2, "back"), r.Log(ctx, mcp.LevelWarning, "all", map[string]int{"i": i}),
					r.Log(ctx, mcp.LevelDebug, "", "too fine")); err != nil {
					return nil, err
				}
			}
			priority := 0.5
			return []mcp.Content{
				{Kind: mcp.KindText, Text: "text", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: &priority}, Meta: mcp.Meta{"a/b": jsonrpc.Raw("1")}},
				mcp.Image("image/png", []byte{1, 2}), mcp.Audio("audio/wav", []byte{3}),
				mcp.Embed(mcp.ResourceContents{URI: "test://e", MIMEType: "text/plain", Text: "e"}),
				mcp.LinkTo(mcp.Resource{URI: "test://l", Name: "l", Size: new(int64(7))}),
			}, nil
		})
	must(t, s.AddTemplate(mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "data", Title: "Data"},
		func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
			if r.Variables["id"] == "0" {
				return nil, mcp.NoResource()
			}
			return mcp.BlobResource(r, "application/octet-stream", []byte(r.Variables["id"])), nil
		}, map[string]mcp.CompleteFunc{"id": mcp.CompleteFrom("one", "Two", "twelve")}))
	must(t, s.AddPrompt(mcp.Prompt{Name: "greet", Title: "Greet", Arguments: []mcp.PromptArgument{{Name: "who", Title: "Who", Required: true}, {Name: "how"}}},
		func(_ context.Context, r *mcp.Request, args map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.UserText("Hello " + args["who"]), {Role: mcp.RoleAssistant, Content: mcp.LinkTo(mcp.Resource{URI: "test://l", Name: "l"})}}}, nil
		}, map[string]mcp.CompleteFunc{"how": func(_ context.Context, _ *mcp.Request, typed string, others map[string]string) (*mcp.Completion, error) {
			var c mcp.Completion
			for i := range 150 {
				c.Values = append(c.Values, fmt.Sprint(typed, others["who"], i))
			}
			return &c, nil
		}}))
	return s
}

func TestContentOfEveryKind(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		c := connect(t, everything(t), mcp.ClientOptions{LogLevel: mcp.LevelInfo}, v)
		var steps []float64
		var levels []mcp.Level
		got, err := c.CallTool(t.Context(), "all", nil, &mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Progress) }})
		must(t, err)
		if fmt.Sprint(steps) != "[0 1 2]" {
			t.Errorf("progress %v", steps)
		}
		kinds := ""
		for _, block := range got.Content {
			kinds += block.Kind + " "
		}
		want := "text image audio resource resource_link "
		switch v {
		case mcp.V20250326:
			want = "text image audio resource text "
		case mcp.V20241105:
			want = "text image resource resource text "
		}
		if kinds != want {
			t.Errorf("kinds %s, want %s", kinds, want)
		}
		_ = levels
	})
}

func TestLogging(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		for _, level := range []mcp.Level{mcp.LevelNone, mcp.LevelWarning, mcp.LevelError} {
			logs := make(chan mcp.LogParams, 10)
			c := connect(t, everything(t), mcp.ClientOptions{LogLevel: level, OnLog: func(p *mcp.LogParams) { logs <- *p }}, v)
			if !v.Modern() && level != mcp.LevelNone {
				must(t, c.SetLogLevel(t.Context(), level))
			}
			_, err := c.CallTool(t.Context(), "all", nil, nil)
			must(t, err)
			want := 3
			if level == mcp.LevelError || v.Modern() && level == mcp.LevelNone {
				want = 0
			}
			for range want {
				if got := eventually(t, logs); got.Level != mcp.LevelWarning || got.Logger != "all" {
					t.Errorf("level %v: %+v", level, got)
				}
			}
			must(t, c.Ping(t.Context())) // everything sent before has arrived
			if len(logs) != 0 {
				t.Errorf("level %v: %d too many", level, len(logs))
			}
		}
	})
}

func TestResourcesAndPrompts(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		c := connect(t, everything(t), mcp.ClientOptions{}, v)
		if c.Instructions() != "Use it." {
			t.Errorf("instructions %q", c.Instructions())
		}
		for tmpl, err := range c.ResourceTemplates(t.Context()) {
			must(t, err)
			if (tmpl.Title != "") != v.HasStructuredContent() {
				t.Errorf("template %+v", tmpl)
			}
		}
		for _, err := range c.Resources(t.Context()) {
			t.Errorf("a resource: %v", err)
		}
		got, err := c.ReadResource(t.Context(), "test://template/one%20two/data", nil)
		must(t, err)
		if string(got.Contents[0].Blob) != "one two" {
			t.Errorf("contents %+v", got.Contents[0])
		}
		for _, uri := range []string{"test://template/0/data", "test://nothing"} {
			_, err = c.ReadResource(t.Context(), uri, nil)
			var e *jsonrpc.Error
			if !errors.As(err, &e) || string(e.Data) != `{"uri":"`+uri+`"}` {
				t.Errorf("%s: %v", uri, err)
			} else if want := int64(mcp.CodeResourceNotFound); v.Modern() && e.Code != mcp.CodeInvalidParams || !v.Modern() && e.Code != want {
				t.Errorf("%s: code %d", uri, e.Code)
			}
		}
		prompt, err := c.GetPrompt(t.Context(), "greet", map[string]string{"who": "Ada"}, nil)
		must(t, err)
		if prompt.Messages[0].Content.Text != "Hello Ada" {
			t.Errorf("prompt %+v", prompt)
		}
		for _, err := range c.Prompts(t.Context()) {
			must(t, err)
		}
		if _, err := c.GetPrompt(t.Context(), "greet", nil, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("a missing argument: %v", err)
		}
		done, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefResource, URI: "test://template/{id}/data"}, Argument: mcp.CompleteArgument{Name: "id", Value: "tw"}})
		must(t, err)
		if fmt.Sprint(done.Values) != "[Two twelve]" {
			t.Errorf("completion %+v", done)
		}
		done, err = c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefPrompt, Name: "greet"}, Argument: mcp.CompleteArgument{Name: "how", Value: "x"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"who": "Ada"}}})
		must(t, err)
		want := "xAda0"
		if !v.HasElicitation() {
			want = "x0"
		}
		if len(done.Values) != 100 || !done.HasMore || *done.Total != 150 || done.Values[0] != want {
			t.Errorf("completion of %d, %v, %v", len(done.Values), done.HasMore, done.Values[:1])
		}
	})
}

func TestStructuredResultsOfAnyKind(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
		mcp.AddTool(s, mcp.Tool{Name: "list"}, func(context.Context, *mcp.Request, struct{}) ([]int, error) { return []int{1, 2}, nil })
		c := connect(t, s, mcp.ClientOptions{}, v)
		for tool, err := range c.Tools(t.Context()) {
			must(t, err)
			want := ""
			switch {
			case v.HasAnyStructure():
				want = `{"type":"array","items":{"type":"integer"}}`
			case v.HasStructuredContent():
				want = `{"type":"object","properties":{"result":{"type":"array","items":{"type":"integer"}}},"required":["result"]}`
			}
			if string(tool.OutputSchema) != want {
				t.Errorf("output schema %s", tool.OutputSchema)
			}
		}
		got, err := c.CallTool(t.Context(), "list", nil, nil)
		must(t, err)
		want := ""
		switch {
		case v.HasAnyStructure():
			want = `[1,2]`
		case v.HasStructuredContent():
			want = `{"result":[1,2]}`
		}
		if got.Text() != "[1,2]" || string(got.Structured) != want {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSchemasAreHeldBothWays(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	verbatim := jsonrpc.Raw(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},"properties":{"address":{"$ref":"#addressDef"},"n":{"type":"number","maximum":10}},"if":{"required":["n"]},"then":{"required":["address"]},"additionalProperties":false}`)
	must(t, s.AddTool(mcp.Tool{Name: "raw", InputSchema: verbatim, OutputSchema: jsonrpc.Raw(`{"type":"object","required":["ok"]}`)},
		func(_ context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
			return &mcp.ToolResult{Structured: r.Arguments}, nil
		}))
	c := connect(t, s, mcp.ClientOptions{})
	for tool, err := range c.Tools(t.Context()) {
		must(t, err)
		var got, want any
		must(t, json.Unmarshal(tool.InputSchema, &got))
		must(t, json.Unmarshal(verbatim, &want))
		if string(tool.InputSchema) != string(verbatim) {
			t.Errorf("schema %s", tool.InputSchema)
		}
	}
	for args, fails := range map[string]bool{`{"n":1}`: true, `{"n":11,"address":{"city":"x"}}`: true, `{"address":{}}`: true, `{"x":1}`: true, `{"address":{"city":"x"}}`: true} {
		got, err := c.CallTool(t.Context(), "raw", jsonrpc.Raw(args), nil)
		must(t, err)
		if got.IsError != fails {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// fan returns a schema whose references double n times.
func fan(n int) jsonrpc.Raw {
	out := []byte(`{"type":"object","$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		out = fmt.Appendf(out, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return fmt.Appendf(out, `"d%d":{}}}`, n)
}

func TestWrongToolsFailWhenAdded(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	for name, tool := range map[string]mcp.Tool{
		"no name":             {},
		"a name with a space": {Name: "a b"},
		"no object":           {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"string"}`)},
		"no JSON":             {Name: "a", InputSchema: jsonrpc.Raw(`{"type":`)},
		"a wrong type":        {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"type":"strang"}}}`)},
		"a network reference": {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`)},
		"a dangling one":      {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`)},
		"a loop":              {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","allOf":[{"$ref":"#"}]}`)},
		"a wider loop":        {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","$defs":{"x":{"$ref":"#/$defs/y"},"y":{"anyOf":[{"$ref":"#/$defs/x"}]}}}`)},
		"a fan":               {Name: "a", InputSchema: fan(30)},
		"a dialect":           {Name: "a", InputSchema: jsonrpc.Raw(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`)},
		"a bad pattern":       {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"pattern":"("}}}`)},
		"a header on numbers": {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`)},
		"a header twice":      {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`)},
		"a header in items":   {Name: "a", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`)},
		"an output":           {Name: "a", OutputSchema: jsonrpc.Raw(`[]`)},
	} {
		if err := s.AddTool(tool, func(context.Context, *mcp.Request) (*mcp.ToolResult, error) { return nil, nil }); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
