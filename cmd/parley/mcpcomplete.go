package main

import (
	"context"
	"io"
	"strings"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/spf13/cobra"
)

// Completion of the MCP commands: targets, then what the server offers. A query of the server takes
// at most one second, and completion starts no child process.

// offers completes the words after the target. words are those that are complete already.
type offers func(ctx context.Context, c *mcp.Client, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeMCP returns the completion of a command. more reports whether several words of the same
// kind may follow.
//
//go:noinline
func (a *app) completeMCP(v *mcpCommand, offer offers, more bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return a.completeTargets(v.reach.config, typed, "http://", "ws://", "tcp://", "unix:", "sse+http://", ":3000/mcp")
		}
		if offer == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		quiet := &mcpCommand{
			app:    a.quiet(),
			reach:  v.reach,
			log:    "none",
			screen: &screen{w: io.Discard},
		}
		quiet.protocol, quiet.reach.trace, quiet.login.how = v.protocol, "", loginNever
		var err error
		if quiet.target, _, err = a.target(ctx, &quiet.reach, words, true); err != nil || quiet.target.Scheme == "exec" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var stop func()
		ctx, quiet.patience, stop = newPatience(ctx, 0, nil)
		defer stop()
		if quiet.connect(ctx) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = quiet.hangUp() }()
		rest := words[1:]
		if more {
			rest = nil
		}
		return offer(ctx, quiet.client, rest, typed)
	}
}

func completeTools(ctx context.Context, c *mcp.Client, _ []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	for t, err := range c.Tools(ctx) {
		if err != nil {
			break
		}
		if strings.HasPrefix(t.Name, typed) {
			list = append(list, cobra.CompletionWithDesc(t.Name, firstSentence(orElse(t.Title, t.Description))))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeToolCall completes tools, then the names of their arguments, then the choices of an
// argument.
func completeToolCall(ctx context.Context, c *mcp.Client, words []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(words) == 0 {
		return completeTools(ctx, c, nil, typed)
	}
	for t, err := range c.Tools(ctx) {
		if err != nil || t.Name != words[0] {
			continue
		}
		for _, f := range fieldsOf(t.InputSchema) {
			found, whole := completeField(&f, f.text("description"), typed)
			if whole {
				return found, cobra.ShellCompDirectiveNoFileComp
			}
			list = append(list, found...)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func completeURIs(ctx context.Context, c *mcp.Client, _ []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	for r, err := range c.Resources(ctx) {
		if err != nil {
			break
		}
		if strings.HasPrefix(r.URI, typed) {
			list = append(list, cobra.CompletionWithDesc(r.URI, firstSentence(orElse(r.Title, r.Description))))
		}
	}
	for t, err := range c.ResourceTemplates(ctx) {
		if err != nil {
			break
		}
		list = append(list, completeTemplate(ctx, c, t.URITemplate, typed)...)
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeTemplate requests values for the first variable of a template that start with the typed
// text.
func completeTemplate(ctx context.Context, c *mcp.Client, template, typed string) (list []cobra.Completion) {
	before, rest, ok := strings.Cut(template, "{")
	name, after, closed := strings.Cut(rest, "}")
	if !ok || !closed || after != "" {
		return nil
	}
	if len(typed) < len(before) {
		if strings.HasPrefix(before, typed) {
			return []cobra.Completion{before}
		}
		return nil
	}
	if !strings.HasPrefix(typed, before) {
		return nil
	}
	found, err := c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefResource, URI: template},
		Argument: mcp.CompleteArgument{Name: name, Value: typed[len(before):]}})
	if err != nil {
		return nil
	}
	for _, value := range found.Values {
		if uri, err := mcp.ExpandTemplate(template, mcp.Variables{name: value}); err == nil {
			list = append(list, uri)
		}
	}
	return list
}

// completePrompt completes prompts, then the names of their arguments, then the values that the
// server proposes.
func completePrompt(ctx context.Context, c *mcp.Client, words []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	for p, err := range c.Prompts(ctx) {
		if err != nil {
			break
		}
		if len(words) == 0 {
			if strings.HasPrefix(p.Name, typed) {
				list = append(list, cobra.CompletionWithDesc(p.Name, firstSentence(orElse(p.Title, p.Description))))
			}
			continue
		}
		if p.Name != words[0] {
			continue
		}
		for _, arg := range p.Arguments {
			value, begun := strings.CutPrefix(typed, arg.Name+"=")
			if !begun {
				if strings.HasPrefix(arg.Name+"=", typed) {
					list = append(list, cobra.CompletionWithDesc(arg.Name+"=", firstSentence(arg.Description)))
				}
				continue
			}
			found, err := c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefPrompt, Name: p.Name},
				Argument: mcp.CompleteArgument{Name: arg.Name, Value: value}})
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, proposal := range found.Values {
				list = append(list, arg.Name+"="+proposal)
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
	}
	if len(words) == 0 {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// firstSentence returns the part of a description that fits beside a name.
func firstSentence(text string) string {
	if i := strings.IndexAny(text, ".:\n"); i > 0 {
		text = text[:i]
	}
	return visible(text, 80)
}
