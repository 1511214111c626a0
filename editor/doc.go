// Package editor is the Agent Client Protocol, version 1, which code editors and coding agents speak: an [Agent] that an editor
// talks to, and a [Client], the editor's side of it.
//
//	a := editor.NewAgent(editor.Implementation{Name: "greeter", Version: "1.0"}, &editor.AgentOptions{
//		Prompt: func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
//			return editor.EndTurn, t.Say(ctx, "Hello!")
//		},
//	})
//	err := a.Serve(ctx, stdio.New(nil))
//
// It is the pure case of two sides that ask each other over one connection: while the editor waits for the answer to session/prompt, the
// agent sends updates, asks for permission, reads files and runs commands through the editor. This package keeps the order that the
// protocol lives from. What an agent sends about a turn leaves before the answer to its prompt; what it sends about a new
// session leaves after the answer that names the session ([Session.After]); and a client hands over what came in the order in
// which it came, and returns from [Client.Prompt] when the last update was taken.
//
// The protocol shares its initials with IBM's Agent Communication Protocol, which is package acp, and has nothing else in common with it.
//
// The package knows no carrier: both sides take any [jsonrpc.Transport], which is newline-delimited stdio of a child process for editors.
package editor
