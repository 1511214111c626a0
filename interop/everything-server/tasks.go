package main

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// addTasks adds the tools that continue after their response.
func addTasks(s *mcp.Server) {
	tool(s, "greet", "Greets at once; never a task.", func(_ context.Context, _ *mcp.Request, in person) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "slow_compute", Description: "Takes its time.", Task: mcp.TaskOptional},
		func(ctx context.Context, _ *mcp.Request, in struct {
			Seconds float64 `json:"seconds"`
		}) (string, error) {
			return "Computed.", pause(ctx, time.Duration(in.Seconds*float64(time.Second)))
		})
	mcp.AddTool(s, mcp.Tool{Name: "failing_job", Description: "Fails, as a task only.", Task: mcp.TaskRequired},
		func(context.Context, *mcp.Request, none) (string, error) { return "", mcp.Errorf("The job failed.") })
	mcp.AddTool(s, mcp.Tool{Name: "protocol_error_job", Description: "Ends with an error of the protocol.", Task: mcp.TaskOptional},
		func(context.Context, *mcp.Request, none) (string, error) {
			return "", jsonrpc.NewError(jsonrpc.CodeInternalError, "The job broke.")
		})
	mcp.AddTool(s, mcp.Tool{Name: "confirm_delete", Description: "Asks before it deletes.", Task: mcp.TaskOptional},
		func(ctx context.Context, r *mcp.Request, in struct {
			Filename string `json:"filename,omitzero"`
		}) (string, error) {
			e, err := r.Elicit(ctx, "confirm", &mcp.Elicitation{Message: "Delete " + in.Filename + "?", RequestedSchema: mcp.FormOf[struct {
				Confirm bool `json:"confirm,omitzero"`
			}]()})
			if err != nil {
				return "", err
			}
			return "The user chose: " + e.Action, nil
		})
	mcp.AddTool(s, mcp.Tool{Name: "multi_input", Description: "Asks two things at once.", Task: mcp.TaskOptional},
		func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
			_, err := r.Ask(ctx,
				mcp.Question{Key: "first", Elicit: &mcp.Elicitation{Message: "The first?"}},
				mcp.Question{Key: "second", Elicit: &mcp.Elicitation{Message: "The second?"}})
			return "Both were answered.", err
		})
	mcp.AddTool(s, mcp.Tool{Name: "test_tool_with_task", Description: "Asks for a name, then becomes a task.", Task: mcp.TaskOptional, TaskLate: true},
		func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
			text, err := hello(ctx, r, none{})
			if err == nil {
				err = r.StartTask(ctx)
			}
			if err == nil {
				err = pause(ctx, 6*step)
			}
			return text, err
		})
}
