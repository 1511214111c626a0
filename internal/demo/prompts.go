package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The prompts are texts to start a conversation from, with completion of their arguments.

func addPrompts(s *mcp.Server) error {
	return errors.Join(
		s.AddPrompt(mcp.Prompt{
			Name:        "plan-evening",
			Title:       "Plan an evening",
			Description: "Starts a conversation about an evening out: a table in a restaurant, and the light outside at that hour.",
			Arguments: []mcp.PromptArgument{
				{Name: "city", Title: "City", Description: "where; one of weather://cities", Required: true},
				{Name: "restaurant", Title: "Restaurant", Description: "which restaurant; the menu comes along"},
				{Name: "guests", Title: "Guests", Description: "for how many; two if absent"},
			},
		}, planEvening, map[string]mcp.CompleteFunc{
			"city":       completeCity,
			"restaurant": mcp.CompleteFrom(restaurantNames()...),
			"guests":     mcp.CompleteFrom("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"),
		}),
		s.AddPrompt(mcp.Prompt{
			Name:        "explain-error",
			Title:       "Explain an error",
			Description: "Asks for an explanation of a JSON-RPC or MCP error code, with what is known about it here.",
			Arguments:   []mcp.PromptArgument{{Name: "code", Title: "Code", Description: "the code, such as -32602", Required: true}},
		}, explainError, map[string]mcp.CompleteFunc{"code": mcp.CompleteFrom(knownCodes()...)}),
	)
}

func planEvening(_ context.Context, _ *mcp.Request, in map[string]string) (*mcp.GetPromptResult, error) {
	place := findCity(in["city"])
	if place == nil {
		return nil, jsonrpc.ErrInvalidParams.WithData(jsonrpc.ParamFault{Pointer: "/arguments/city", Reason: "is not one of the cities in weather://cities"})
	}
	guests := in["guests"]
	if guests == "" {
		guests = "2"
	}
	out := &mcp.GetPromptResult{Description: "An evening in " + place.Name}
	ask := fmt.Sprintf("Plan an evening in %s for %s. %s Book a table with book-table, and say whether we will sit in daylight.",
		place.Name, people(guests), sentence(place, time.Now()))
	if name := in["restaurant"]; name != "" {
		house, err := findRestaurant(name)
		if err != nil {
			return nil, jsonrpc.ErrInvalidParams.WithData(jsonrpc.ParamFault{Pointer: "/arguments/restaurant", Reason: "is not one of " + strings.Join(restaurantNames(), ", ")})
		}
		out.Messages = append(out.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.Embed(mcp.ResourceContents{
			URI: "table://menus/" + house.Slug, MIMEType: "text/markdown", Text: menuOf(house),
		})})
		ask += " We would like to go to " + house.Name + "; the menu is above."
	}
	out.Messages = append(out.Messages, mcp.UserText(ask))
	return out, nil
}

func people(guests string) string {
	if guests == "1" {
		return "one person"
	}
	return guests + " people"
}

// errorCodes lists the errors that readers of the demo encounter.
var errorCodes = []struct{ code, name, meaning string }{
	{"-32700", "Parse error", "the bytes are not JSON"},
	{"-32600", "Invalid Request", "the JSON is not a request"},
	{"-32601", "Method not found", "the server does not have this method, or not in this version of MCP"},
	{"-32602", "Invalid params", "the params are not valid; in MCP also an unknown tool, prompt or, from 2026-07-28, resource"},
	{"-32603", "Internal error", "the server failed"},
	{"-32002", "Resource not found", "the resource does not exist (MCP up to 2025-11-25)"},
	{"-32020", "Header mismatch", "a header is missing or differs from the body (MCP 2026-07-28, HTTP)"},
	{"-32021", "Missing required client capability", "the request did not declare a capability that the tool needs (MCP 2026-07-28)"},
	{"-32022", "Unsupported protocol version", "data lists the versions that the server supports (MCP 2026-07-28)"},
	{"-32042", "URL elicitation required", "the user must visit the URLs in data first (MCP 2025-11-25)"},
}

func knownCodes() []string {
	codes := make([]string, len(errorCodes))
	for i, c := range errorCodes {
		codes[i] = c.code
	}
	return codes
}

func explainError(_ context.Context, _ *mcp.Request, in map[string]string) (*mcp.GetPromptResult, error) {
	code := strings.TrimSpace(in["code"])
	known := "This code is unknown here; codes outside -32768 to -32000 belong to the application."
	for _, c := range errorCodes {
		if c.code == code {
			known = fmt.Sprintf("It is %q: %s.", c.name, c.meaning)
		}
	}
	return &mcp.GetPromptResult{
		Description: "The error " + code,
		Messages: []mcp.PromptMessage{mcp.UserText("A server returned the error code " + code + ". " + known +
			" Explain what this means, who must change something, and what to try first.")},
	}, nil
}

func encodeRaw(v any) (jsonrpc.Raw, error) {
	text, err := json.Marshal(v)
	return text, err
}
