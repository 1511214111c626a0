package mcp_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
	"github.com/da1ed7bb/parley/mcp"
)

type (
	DerivedBase struct {
		Note string `json:"note"`
	}
	derivedThreads []derivedThread
	derivedThread  struct {
		Text    string         `json:"text"`
		Replies derivedThreads `json:"replies"`
	}
	derivedText struct{ N int }
)

func (derivedText) MarshalText() ([]byte, error) { return []byte("n"), nil }

// TestDerivedSchemasAreTrue checks that the schema of the arguments allows what the tool accepts,
// and that the schema of the result allows what it returns, for types whose schemas were wrong.
func TestDerivedSchemasAreTrue(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	args := map[string]string{}
	add := func(name, arguments string) mcp.Tool {
		args[name] = arguments
		return mcp.Tool{Name: name}
	}
	type embedding struct {
		*DerivedBase
		Name string `json:"name"`
	}
	mcp.AddTool(s, add("embedded", `{"name":"a","derivedBase":{"note":"b"}}`),
		func(_ context.Context, _ *mcp.Request, in embedding) (embedding, error) {
			return embedding{Name: in.DerivedBase.Note}, nil
		})
	type hiding struct {
		DerivedBase
		Note int `json:"note"`
	}
	mcp.AddTool(s, add("hidden", `{}`), func(context.Context, *mcp.Request, struct{}) (hiding, error) { return hiding{Note: 1}, nil })
	type choosing struct {
		One   *string   `json:"one" mcp:"enum=a|b"`
		Three [3]string `json:"three" mcp:"enum=a|b"`
		Big   *int64    `json:"big,string"`
	}
	mcp.AddTool(s, add("choices", `{"three":["a","b","a"]}`), func(_ context.Context, _ *mcp.Request, in choosing) (choosing, error) { return in, nil })
	mcp.AddTool(s, add("threads", `{"text":"a","replies":[{"text":"b","replies":[]}]}`), func(_ context.Context, _ *mcp.Request, in derivedThread) (derivedThreads, error) {
		return derivedThreads{in}, nil
	})
	type open struct {
		Known int            `json:"known"`
		Rest  map[string]any `json:",embed"`
	}
	mcp.AddTool(s, add("open", `{}`), func(context.Context, *mcp.Request, struct{}) (open, error) {
		return open{Rest: map[string]any{"more": 1}}, nil
	})
	type texts struct {
		T derivedText `json:"t"`
	}
	mcp.AddTool(s, add("texts", `{"t":{"N":1}}`), func(_ context.Context, _ *mcp.Request, in texts) (texts, error) { return in, nil })

	var list struct {
		Result struct {
			Tools []struct {
				Name                      string
				InputSchema, OutputSchema json.RawMessage
			}
		}
	}
	must(t, json.Unmarshal([]byte(handle(t, s, "tools/list", `{`+modernMeta+`}`)), &list))
	if len(list.Result.Tools) != len(args) {
		t.Fatalf("%d tools", len(list.Result.Tools))
	}
	fits := func(name string, text, value jsonrpc.Raw) {
		t.Helper()
		compiled, err := schema.Compile(text)
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, text)
			return
		}
		if err := compiled.Validate(t.Context(), value); err != nil {
			t.Errorf("%s: %s is invalid: %v in %s", name, value, err, text)
		}
	}
	for _, tool := range list.Result.Tools {
		arguments := args[tool.Name]
		fits(tool.Name, jsonrpc.Raw(tool.InputSchema), jsonrpc.Raw(arguments))
		text := handle(t, s, "tools/call", `{"name":"`+tool.Name+`","arguments":`+arguments+`,`+modernMeta+`}`)
		var got struct {
			Result struct {
				StructuredContent json.RawMessage
				IsError           bool
			}
		}
		must(t, json.Unmarshal([]byte(text), &got))
		if got.Result.IsError || got.Result.StructuredContent == nil {
			t.Errorf("%s: got %s", tool.Name, text)
			continue
		}
		fits(tool.Name, jsonrpc.Raw(tool.OutputSchema), jsonrpc.Raw(got.Result.StructuredContent))
	}
}
