package main

import (
	"context"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/spf13/cobra"
)

// completeTime bounds how long a Tab may look at a server.
const completeTime = time.Second

// completeCall offers the methods of the server that was typed, and the names of their parameters. A server that does not
// answer in time, or not to "rpc.discover", offers nothing. A child process is not started by a Tab.
func (a *app) completeCall(c *call) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return []cobra.Completion{"http://", "ws://", "tcp://", "unix:", ":3000/rpc"}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		document := a.discover(cmd.Context(), c, words[0])
		if document == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if len(words) == 1 {
			return methodNames(document, typed), cobra.ShellCompDirectiveNoFileComp
		}
		return paramNames(document, words[1], typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func (a *app) discover(ctx context.Context, c *call, word string) *openrpc.Document {
	target, err := parley.ParseTarget(word)
	if err != nil || target.Set(c.reach.framing, c.reach.version) != nil {
		return nil
	}
	dialer, err := a.dialer(c.reach)
	if err != nil {
		return nil
	}
	dialer.Stderr = nil
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	client, err := dialer.Dial(ctx, target)
	if err != nil {
		return nil
	}
	defer client.Close()
	document, err := openrpc.Discover(ctx, client)
	if err != nil {
		return nil
	}
	return document
}

func methodNames(document *openrpc.Document, typed string) []cobra.Completion {
	var names []cobra.Completion
	for _, m := range document.Methods {
		if strings.HasPrefix(m.Name, typed) {
			names = append(names, cobra.CompletionWithDesc(m.Name, m.Summary))
		}
	}
	return names
}

func paramNames(document *openrpc.Document, method, typed string) []cobra.Completion {
	m, ok := document.Method(method)
	if !ok || m.ParamStructure == openrpc.ByPosition {
		return nil
	}
	var names []cobra.Completion
	for _, param := range m.Params {
		if strings.HasPrefix(param.Name, typed) {
			names = append(names, cobra.CompletionWithDesc(param.Name+":=", param.Description))
		}
	}
	return names
}
