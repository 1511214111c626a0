package main

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A minimal image and a minimal sound.
var (
	png = mustDecode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
	wav = mustDecode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
)

func mustDecode(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	must(err)
	return b
}

// addContent adds the tools whose results show each kind of content.
func addContent(s *mcp.Server) {
	tool(s, "test_simple_text", "Answers with one text.", always("This is a simple text response for testing."))
	tool(s, "test_image_content", "Answers with a picture.", always(mcp.Image("image/png", png)))
	tool(s, "test_audio_content", "Answers with a sound.", always(mcp.Audio("audio/wav", wav)))
	tool(s, "test_embedded_resource", "Answers with a resource.", always(mcp.Embed(mcp.ResourceContents{
		URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content.",
	})))
	tool(s, "test_multiple_content_types", "Answers with a text, a picture and a resource.", always([]mcp.Content{
		mcp.Text("Multiple content types test:"),
		mcp.Image("image/png", png),
		mcp.Embed(mcp.ResourceContents{URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`}),
	}))
	tool(s, "test_error_handling", "Always fails.", func(context.Context, *mcp.Request, none) (string, error) {
		return "", mcp.Errorf("This tool intentionally returns an error for testing")
	})
	tool(s, "test_x_mcp_header", "Has an argument that is also sent in a header.", func(_ context.Context, _ *mcp.Request, in struct {
		Region string `json:"region" mcp:"header=Region"`
		Level  int    `json:"level,omitzero"`
	}) (string, error) {
		return in.Region, nil
	})
	must(s.AddTool(mcp.Tool{
		Name:        "json_schema_2020_12_tool",
		Description: "Has an input schema with the less usual words of JSON Schema 2020-12.",
		InputSchema: contactSchema,
	}, func(context.Context, *mcp.Request) (*mcp.ToolResult, error) { return mcp.TextResult("ok"), nil }))
}

var contactSchema = jsonrpc.Raw(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},` +
	`"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},` +
	`"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`)

// step is the interval between messages that the suite expects.
const step = 50 * time.Millisecond

// addMessages adds the tools that send messages before their result.
func addMessages(s *mcp.Server) {
	tool(s, "test_tool_with_logging", "Logs three messages.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if err := r.Log(ctx, mcp.LevelInfo, "", text); err != nil {
				return "", err
			}
			if err := pause(ctx, step); err != nil {
				return "", err
			}
		}
		return "Logged three messages.", nil
	})
	tool(s, "test_logging_tool", "Logs, if the client wants that.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		return "Logged, if that was wanted.", r.Log(ctx, mcp.LevelInfo, "", "This tool logs")
	})
	tool(s, "test_tool_with_progress", "Reports progress three times.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		for _, done := range []float64{0, 50, 100} {
			if err := r.Progress(ctx, done, 100, ""); err != nil {
				return "", err
			}
			if err := pause(ctx, step); err != nil {
				return "", err
			}
		}
		return "Reported progress.", nil
	})
	tool(s, "test_reconnection", "Closes its event stream, and answers once the client has come back.", func(ctx context.Context, _ *mcp.Request, _ none) (string, error) {
		mcphttp.CloseStream(ctx, 2*step)
		if err := pause(ctx, 4*step); err != nil {
			return "", err
		}
		return "You came back.", nil
	})
}

// addChanges adds the tools that change what the server offers.
func addChanges(s *mcp.Server) {
	tool(s, "test_trigger_tool_change", "Adds a tool and takes it away.", func(context.Context, *mcp.Request, none) (string, error) {
		tool(s, "test_short_lived", "Is not there for long.", always("still here"))
		s.RemoveTools("test_short_lived")
		return "Changed the tools.", nil
	})
	tool(s, "test_trigger_prompt_change", "Adds a prompt and takes it away.", func(context.Context, *mcp.Request, none) (string, error) {
		short := mcp.Prompt{Name: "test_short_lived", Description: "Is not there for long."}
		if err := s.AddPrompt(short, saying(mcp.UserText("still here")), nil); err != nil {
			return "", err
		}
		s.RemovePrompts(short.Name)
		return "Changed the prompts.", nil
	})
}
