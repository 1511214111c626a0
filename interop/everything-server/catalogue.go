package main

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/mcp"
)

// saying returns a prompt with fixed messages.
func saying(messages ...mcp.PromptMessage) mcp.PromptFunc {
	return func(context.Context, *mcp.Request, map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: messages}, nil
	}
}

func addPrompts(s *mcp.Server) {
	user := func(c mcp.Content) mcp.PromptMessage { return mcp.PromptMessage{Role: mcp.RoleUser, Content: c} }
	must(s.AddPrompt(mcp.Prompt{Name: "test_simple_prompt", Description: "Says one thing."},
		saying(mcp.UserText("This is a simple prompt for testing.")), nil))
	must(s.AddPrompt(mcp.Prompt{Name: "test_prompt_with_image", Description: "Shows a picture."},
		saying(user(mcp.Image("image/png", png)), mcp.UserText("Please analyze the image above.")), nil))
	must(s.AddPrompt(mcp.Prompt{
		Name:        "test_prompt_with_arguments",
		Description: "Repeats its arguments.",
		Arguments: []mcp.PromptArgument{
			{Name: "arg1", Description: "The first", Required: true},
			{Name: "arg2", Description: "The second", Required: true},
		},
	}, func(_ context.Context, _ *mcp.Request, args map[string]string) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.UserText(text)}}, nil
	}, map[string]mcp.CompleteFunc{"arg1": mcp.CompleteFrom("paris", "park", "party")}))
	must(s.AddPrompt(mcp.Prompt{
		Name:        "test_prompt_with_embedded_resource",
		Description: "Shows a resource.",
		Arguments:   []mcp.PromptArgument{{Name: "resourceUri", Description: "Which", Required: true}},
	}, func(_ context.Context, _ *mcp.Request, args map[string]string) (*mcp.GetPromptResult, error) {
		shown := mcp.Embed(mcp.ResourceContents{URI: args["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."})
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{user(shown), mcp.UserText("Please process the embedded resource above.")}}, nil
	}, nil))
	must(s.AddPrompt(mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks the user first."},
		func(ctx context.Context, r *mcp.Request, _ map[string]string) (*mcp.GetPromptResult, error) {
			e, err := r.Elicit(ctx, "user_context", &mcp.Elicitation{Message: "What is this about?", RequestedSchema: mcp.FormOf[struct {
				Context string `json:"context"`
			}]()})
			if err != nil {
				return nil, err
			}
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.UserText("It is about this: " + said(e))}}, nil
		}, nil))
}

func addResources(s *mcp.Server) {
	text := func(uri, name, body string) {
		must(s.AddResource(mcp.Resource{URI: uri, Name: name, Description: "A text.", MIMEType: "text/plain"},
			func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
				return mcp.TextResource(r, "text/plain", body), nil
			}))
	}
	text("test://static-text", "static text", "This is the content of the static text resource.")
	text("test://watched-resource", "watched", "This may be subscribed to.")
	must(s.AddResource(mcp.Resource{URI: "test://static-binary", Name: "static picture", Description: "A picture.", MIMEType: "image/png"},
		func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
			return mcp.BlobResource(r, "image/png", png), nil
		}))
	must(s.AddTemplate(mcp.ResourceTemplate{
		URITemplate: "test://template/{id}/data",
		Name:        "data by id",
		Description: "Made for any id.",
		MIMEType:    "application/json",
	}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		id := r.Variables["id"]
		body := fmt.Sprintf(`{"id":%q,"templateTest":true,"data":%q}`, id, fmt.Sprint("Data for ID: ", id))
		return mcp.TextResource(r, "application/json", body), nil
	}, nil))
}
