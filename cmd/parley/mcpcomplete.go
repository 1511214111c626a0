package main

import (
	"context"
	"io"
	"strings"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/spf13/cobra"
)

// What Tab offers for the verbs of MCP: targets, then what the server has. It asks the server within a second, and starts no child.

// offers are what a verb completes behind the target: words are those that stand there already.
type offers func(ctx context.Context, c *mcp.Client, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeMCP makes the completion of a verb. more says that several words of the same kind may follow.
func (a *app) completeMCP(v *mcpVerb, offer offers, more bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return []cobra.Completion{"http://", "ws://", "tcp://", "unix:", "sse+http://", ":3000/mcp"}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
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
		quiet := &mcpVerb{
			app:    &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: a.getenv},
			reach:  v.reach,
			log:    "none",
			screen: &screen{w: io.Discard},
		}
		quiet.protocol, quiet.reach.trace, quiet.login.how = v.protocol, "", loginNever
		var err error
		if quiet.target, _, err = a.target(quiet.reach, words, true); err != nil || quiet.target.Scheme == "exec" {
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

// completeToolCall offers the tools, then the names of their arguments, then the choices of one.
func completeToolCall(ctx context.Context, c *mcp.Client, words []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(words) == 0 {
		return completeTools(ctx, c, nil, typed)
	}
	for t, err := range c.Tools(ctx) {
		if err != nil || t.Name != words[0] {
			continue
		}
		for _, f := range fieldsOf(t.InputSchema) {
			sign := ":="
			if f.typeName() == "string" {
				sign = "="
			}
			choices := choicesOf(f.schema)
			if strings.HasPrefix(typed, f.name+sign) && len(choices) > 0 {
				for _, one := range choices {
					if word := f.name + sign + orElse(textOf(one.value), string(one.value)); strings.HasPrefix(word, typed) {
						list = append(list, cobra.CompletionWithDesc(word, one.title))
					}
				}
				return list, cobra.ShellCompDirectiveNoFileComp
			}
			if strings.HasPrefix(f.name+sign, typed) {
				list = append(list, cobra.CompletionWithDesc(f.name+sign, firstSentence(f.text("description"))))
			}
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

// completeTemplate asks the server for the first variable of a template, as far as its beginning is typed.
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

// completePrompt offers the prompts, then the names of their arguments, then what the server proposes for one.
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

// firstSentence is what fits beside a name.
func firstSentence(text string) string {
	if i := strings.IndexAny(text, ".:\n"); i > 0 {
		text = text[:i]
	}
	return visible(text, 80)
}
