// Package editoragent connects package agent to the Agent Client Protocol of code editors in both
// directions: [New] serves an agent to an editor, [Connect] calls a coding agent.
//
//	err := editoragent.New(greeter, nil).Serve(ctx, stdio.New(nil))
//
//	child, err := stdio.Start(ctx, []string{"some-agent", "--acp"}, nil)
//	c, err := editoragent.Connect(ctx, child, &editoragent.ClientOptions{CWD: "/home/ada/project"})
//	result, err := c.Run(ctx, &agent.Request{Input: agent.Prompt("Explain this project.")}, nil)
//
// A question with options is sent as a permission request, any other question as a form. For an
// editor without support for forms, the question ends the turn, and the user's next prompt is the
// answer.
package editoragent
