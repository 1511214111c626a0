package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/spf13/cobra"
)

// completeTime bounds how long completion may query a server.
const completeTime = time.Second

// completeCall completes the methods of the target server and the names of their parameters. A
// server that does not respond to "rpc.discover" in time has no completions. Completion never
// starts a child process.
func (a *app) completeCall(c *call) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return a.completeTargets(c.reach.config, typed, "http://", "ws://", "tcp://", "unix:", ":3000/rpc")
		}
		document := a.discover(cmd.Context(), c, words[0])
		if document == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if len(words) == 1 {
			return methodNames(document, typed), cobra.ShellCompDirectiveNoFileComp
		}
		if strings.Contains(typed, "=") { // a value
			return paramNames(document, words[1], typed), cobra.ShellCompDirectiveNoFileComp
		}
		return paramNames(document, words[1], typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func (a *app) discover(ctx context.Context, c *call, word string) *openrpc.Document {
	if ctx == nil {
		ctx = context.Background()
	}
	quiet, reach := a.quiet(), c.reach
	target, _, err := quiet.target(ctx, &reach, []string{word}, true)
	if err != nil || target.Scheme == "exec" {
		return nil
	}
	dialer, err := quiet.dialer(reach)
	if err != nil {
		return nil
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

// completeTargets completes a target: the names of servers, or else the beginnings of addresses.
func (a *app) completeTargets(file, typed string, addresses ...cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := a.completeNames(file, typed)
	if strings.HasPrefix(typed, "@") {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	addresses = slices.DeleteFunc(append(addresses, names...), func(one string) bool { return !strings.HasPrefix(one, typed) })
	return addresses, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// quiet returns an app that prints nothing and never asks the user.
func (a *app) quiet() *app {
	return &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: a.getenv, secrets: secret.New(nil)}
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

// paramNames completes the names of parameters, and the values of those that have few.
func paramNames(document *openrpc.Document, method, typed string) []cobra.Completion {
	m, ok := document.Method(method)
	if !ok || m.ParamStructure == openrpc.ByPosition {
		return nil
	}
	var names []cobra.Completion
	for _, param := range m.Params {
		f := field{name: param.Name, schema: param.Schema}
		list, _ := completeField(&f, orElse(param.Summary, param.Description), typed)
		names = append(names, list...)
	}
	return names
}

// completeField completes the name of an argument with its sign, or after the sign its value, if
// there are few. It reports whether the candidates are complete words.
func completeField(f *field, about, typed string) (list []cobra.Completion, whole bool) {
	sign := ":="
	if f.typeName() == "string" {
		sign = "="
	}
	choices := choicesOf(f.schema)
	if f.typeName() == "boolean" && len(choices) == 0 {
		choices = []choice{{value: jsonrpc.Raw("true")}, {value: jsonrpc.Raw("false")}}
	}
	if strings.HasPrefix(typed, f.name+sign) && len(choices) > 0 {
		for _, one := range choices {
			text := string(one.value)
			if sign == "=" {
				text = orElse(textOf(one.value), text)
			}
			if word := f.name + sign + text; strings.HasPrefix(word, typed) {
				list = append(list, cobra.CompletionWithDesc(word, one.title))
			}
		}
		return list, true
	}
	if strings.HasPrefix(f.name+sign, typed) {
		list = append(list, cobra.CompletionWithDesc(f.name+sign, firstSentence(about)))
	}
	return list, false
}

// offering wraps a completion so that its candidates are safe for a shell. It drops words of a
// server that contain newlines or other hidden characters, since a newline would inject another
// candidate, and it puts each description on one line.
func offering(complete cobra.CompletionFunc) cobra.CompletionFunc {
	if complete == nil {
		return nil
	}
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := complete(cmd, words, typed)
		var safe []cobra.Completion
		for _, one := range all {
			word, about, described := strings.Cut(one, "\t")
			if word == "" || harmless.Has(word) {
				continue
			}
			if described {
				word = cobra.CompletionWithDesc(word, visible(about, 200))
			}
			safe = append(safe, word)
		}
		return safe, directive
	}
}
