package editor_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// This example runs an agent and an editor in one process. Between two programs the transports are
// stdio.New for the agent, and stdio.Start for the editor.
func Example() {
	ctx := context.Background()
	here, there := inproc.Pipe(nil)

	agent := editor.NewAgent(editor.Implementation{Name: "gardener", Version: "1.0"}, &editor.AgentOptions{
		Prompt: func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
			tool := editor.ToolCall{ID: "water", Title: "Water the " + t.Text(), Kind: editor.ToolExecute}
			options := []editor.PermissionOption{{ID: "yes", Name: "Go on", Kind: editor.AllowOnce}, {ID: "no", Name: "Better not", Kind: editor.RejectOnce}}
			answer, err := t.RequestPermission(ctx, tool, options...)
			if err != nil {
				return "", err
			}
			if !answer.Allowed(options) {
				return editor.Refusal, nil
			}
			return editor.EndTurn, t.Say(ctx, "The "+t.Text()+" are wet.")
		},
	})
	var serving sync.WaitGroup
	serving.Go(func() { _ = agent.Serve(ctx, there) })
	defer serving.Wait()

	client, err := editor.Connect(ctx, here, editor.Implementation{Name: "greenhouse", Version: "1.0"}, &editor.ClientOptions{
		Permission: func(_ context.Context, p *editor.PermissionParams) (*editor.PermissionResult, error) {
			fmt.Println("asked:", p.ToolCall.Title)
			return editor.Select("yes"), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	session, err := client.NewSession(ctx, &editor.NewSessionParams{CWD: "/garden"})
	if err != nil {
		fmt.Println(err)
		return
	}
	end, err := client.Prompt(ctx, &editor.PromptParams{SessionID: session.SessionID, Prompt: []editor.Content{editor.Text("tulips")}},
		func(u *editor.Update) error {
			fmt.Println(u.Text())
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(end.StopReason)
	// Output:
	// asked: Water the tulips
	// The tulips are wet.
	// end_turn
}
