package main

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"
	"time"

	"github.com/da1ed7bb/parley/mcp"
)

// newServer returns the server with all its features.
func newServer() *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "parley-everything", Title: "Everything", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "For tests of the protocol: each tool does what its name says.",
		TaskPoll:     100 * time.Millisecond,

		AcceptUnboundAnswers: true, // one scenario of the official suite sends answers at once
		Report:               func(what string, err error) { log.Println(what+":", err) },
	})
	addContent(s)
	addMessages(s)
	addChanges(s)
	addQuestions(s)
	addRounds(s)
	addTasks(s)
	addPrompts(s)
	addResources(s)
	skill := fstest.MapFS{
		"SKILL.md":            {Data: []byte("---\nname: refunds\ndescription: How refunds are made.\n---\n\nAsk for the number of the order first.\n")},
		"templates/answer.md": {Data: []byte("Your money is on its way.\n")},
	}
	must(s.AddSkill("acme/refunds", skill))
	return s
}

// must panics on errors that indicate a bug in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// none is for tools without arguments.
type none struct{}

// tool adds a tool that has only a name and a description.
func tool[In, Out any](s *mcp.Server, name, description string, f func(context.Context, *mcp.Request, In) (Out, error)) {
	mcp.AddTool(s, mcp.Tool{Name: name, Description: description}, f)
}

// always returns a tool with a fixed result.
func always[Out any](out Out) func(context.Context, *mcp.Request, none) (Out, error) {
	return func(context.Context, *mcp.Request, none) (Out, error) { return out, nil }
}

// pause waits as long as the suite expects a step to take.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// said formats the user's response.
func said(e *mcp.ElicitResult) string {
	return fmt.Sprintf("action=%s, content=%s", e.Action, e.Content)
}
