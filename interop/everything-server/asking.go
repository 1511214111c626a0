package main

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A person is the input of some forms.
type person struct {
	Name string `json:"name"`
}

// The questions of several tools.
var (
	askName = mcp.Question{Key: "user_name", Elicit: &mcp.Elicitation{Message: "What is your name?", RequestedSchema: mcp.FormOf[person]()}}
	confirm = mcp.Question{Key: "confirm", Elicit: &mcp.Elicitation{Message: "Is that right?", RequestedSchema: mcp.FormOf[struct {
		OK bool `json:"ok"`
	}]()}}
	askRoots = mcp.Question{Key: "client_roots", Roots: true}
)

// askModel is a question to the client's model.
func askModel(key, text string, maxTokens int64) mcp.Question {
	return mcp.Question{Key: key, Sample: &mcp.SamplingRequest{
		MaxTokens: maxTokens,
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{mcp.Text(text)}}},
	}}
}

func modelSaid(q *mcp.SamplingResult) string {
	if len(q.Content) == 0 {
		return ""
	}
	return q.Content[0].Text
}

// addQuestions adds the tools that ask once. They work both for clients that receive requests and
// for those that repeat the call with answers.
func addQuestions(s *mcp.Server) {
	tool(s, "test_sampling", "Asks the client's model.", func(ctx context.Context, r *mcp.Request, in struct {
		Prompt string `json:"prompt"`
	}) (string, error) {
		a, err := r.Ask(ctx, askModel("answer", in.Prompt, 100))
		if err != nil {
			return "", err
		}
		return "LLM response: " + modelSaid(a["answer"].Sample), nil
	})
	tool(s, "test_missing_capability", "Needs a client with a model.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		_, err := r.Ask(ctx, askModel("answer", "Anything.", 10))
		return "The model answered.", err
	})
	tool(s, "test_streaming_elicitation", "Reports progress, then asks the user.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		if err := r.Progress(ctx, 1, 2, "about to ask"); err != nil {
			return "", err
		}
		_, err := r.Elicit(ctx, "anything", &mcp.Elicitation{Message: "Anything to add?"})
		return "The user answered.", err
	})
	form := func(name, prefix, schema string) {
		tool(s, name, "Asks the user to fill in a form.", func(ctx context.Context, r *mcp.Request, in struct {
			Message string `json:"message,omitzero"`
		}) (string, error) {
			if in.Message == "" {
				in.Message = "Please fill this in."
			}
			e, err := r.Elicit(ctx, "form", &mcp.Elicitation{Message: in.Message, RequestedSchema: jsonrpc.Raw(schema)})
			if err != nil {
				return "", err
			}
			return prefix + said(e), nil
		})
	}
	form("test_elicitation", "User response: ", `{"type":"object","required":["username","email"],"properties":{`+
		`"username":{"type":"string","description":"What you are called here"},`+
		`"email":{"type":"string","description":"Where mail finds you"}}}`)
	form("test_elicitation_sep1034_defaults", "Elicitation completed: ", `{"type":"object","required":[],"properties":{`+
		`"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},`+
		`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)
	form("test_elicitation_sep1330_enums", "Elicitation completed: ", `{"type":"object","required":[],"properties":{`+
		`"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},`+
		`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},`+
		`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},`+
		`"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},`+
		`"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)
}

// hello asks for the user's name.
func hello(ctx context.Context, r *mcp.Request, _ none) (string, error) {
	a, err := r.Ask(ctx, askName)
	if err != nil {
		return "", err
	}
	var who person
	a[askName.Key].Elicit.Accepted(&who)
	return "Hello, " + who.Name + "!", nil
}

// addRounds adds the tools for the questions of 2026-07-28, which the client answers by repeating
// the call.
func addRounds(s *mcp.Server) {
	const prefix = "test_input_required_result_"
	tool(s, prefix+"elicitation", "Asks for a name.", hello)
	tool(s, prefix+"sampling", "Asks the model for a capital.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		a, err := r.Ask(ctx, askModel("capital_question", "What is the capital of France?", 100))
		if err != nil {
			return "", err
		}
		return "The model says: " + modelSaid(a["capital_question"].Sample), nil
	})
	tool(s, prefix+"list_roots", "Asks what the client works on.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		roots, err := r.Roots(ctx, askRoots.Key)
		return fmt.Sprint("The client works on ", roots), err
	})
	sealed := func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		_, err := r.Ask(ctx, confirm)
		return "state-ok", err
	}
	tool(s, prefix+"request_state", "Asks, with a state that comes back.", sealed)
	tool(s, prefix+"tampered_state", "Asks, with a state that must not be changed.", sealed)
	tool(s, prefix+"multiple_inputs", "Asks three things at once.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		_, err := r.Ask(ctx, askName, askModel("greeting", "Say hello.", 50), askRoots)
		return "All three were answered.", err
	})
	tool(s, prefix+"multi_round", "Asks one thing after the other.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		first, err := r.Elicit(ctx, "step1", &mcp.Elicitation{Message: "What is your name?", RequestedSchema: mcp.FormOf[person]()})
		if err != nil {
			return "", err
		}
		second, err := r.Elicit(ctx, "step2", &mcp.Elicitation{Message: "Which color do you like?", RequestedSchema: mcp.FormOf[struct {
			Color string `json:"color"`
		}]()})
		if err != nil {
			return "", err
		}
		return "First " + said(first) + ", then " + said(second), nil
	})
	tool(s, prefix+"capabilities", "Asks only what the client can be asked.", func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		var ask []mcp.Question
		if r.Capabilities().Elicitation != nil {
			ask = append(ask, askName)
		}
		if r.Capabilities().Sampling != nil {
			ask = append(ask, askModel("greeting", "Say hello.", 50))
		}
		if r.Capabilities().Roots != nil {
			ask = append(ask, askRoots)
		}
		_, err := r.Ask(ctx, ask...)
		return "Asked what could be asked.", err
	})
}
