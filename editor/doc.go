// Package editor implements the Agent Client Protocol, version 1, which code editors and coding
// agents use: an [Agent], which editors connect to, and a [Client], the editor's side of it.
//
//	a := editor.NewAgent(editor.Implementation{Name: "greeter", Version: "1.0"}, &editor.AgentOptions{
//		Prompt: func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
//			return editor.EndTurn, t.Say(ctx, "Hello!")
//		},
//	})
//	err := a.Serve(ctx, stdio.New(nil))
//
// Both sides send requests over one connection: while the editor waits for the response to
// session/prompt, the agent sends updates, requests permissions, reads files and runs commands
// through the editor. This package preserves the order that the protocol depends on. An agent's
// messages about a turn are sent before the response to its prompt. Its messages about a new
// session are sent after the response with the session's id ([Session.After]). A client delivers
// messages in the order of arrival, and [Client.Prompt] returns after the last update was
// delivered.
//
// The protocol shares its initials with IBM's Agent Communication Protocol, which is package acp,
// and is not related to it.
//
// The package is independent of the transport: both sides use any [jsonrpc.Transport]. For editors
// this is newline-delimited stdio of a child process.
package editor
