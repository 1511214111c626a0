package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A PromptFunc fills in a prompt. All required arguments are present, and arguments may contain
// others. A *jsonrpc.Error is sent unchanged; any other error is logged and not sent.
type PromptFunc func(ctx context.Context, r *Request, arguments map[string]string) (*GetPromptResult, error)

type prompt struct {
	Prompt
	get      PromptFunc
	complete map[string]CompleteFunc
}

// UserText returns a prompt message of the user.
func UserText(text string) PromptMessage {
	return PromptMessage{Role: RoleUser, Content: Text(text)}
}

// AddPrompt adds a prompt, with optional completions for its arguments. It replaces a prompt of the
// same name.
func (s *Server) AddPrompt(p Prompt, f PromptFunc, complete map[string]CompleteFunc) error {
	if p.Name == "" || f == nil {
		return fmt.Errorf("mcp: prompt %q needs a name and a function", p.Name)
	}
	seen := map[string]bool{}
	for _, a := range p.Arguments {
		if a.Name == "" || seen[a.Name] {
			return fmt.Errorf("mcp: prompt %q: argument %q is unnamed or duplicated", p.Name, a.Name)
		}
		seen[a.Name] = true
	}
	if _, err := encode(p); err != nil {
		return fmt.Errorf("mcp: prompt %q: %w", p.Name, err)
	}
	s.prompts.put(p.Name, &prompt{p, f, complete}, func(v Version) jsonrpc.Raw {
		c := p
		c.Title, c.Icons = forOlder(v, c.Title, c.Icons)
		if !v.HasStructuredContent() {
			c.Arguments = append([]PromptArgument(nil), c.Arguments...)
			for i := range c.Arguments {
				c.Arguments[i].Title = ""
			}
		}
		return mustEncode(c)
	})
	s.notify(note{method: NotifyPromptsChanged})
	return nil
}

// RemovePrompts removes prompts.
func (s *Server) RemovePrompts(names ...string) {
	if s.prompts.remove(names...) {
		s.notify(note{method: NotifyPromptsChanged})
	}
}

func (s *Server) listPrompts(ctx context.Context, r *Request) (any, error) {
	if !s.opts.Prompts && s.prompts.len() == 0 {
		return nil, jsonrpc.ErrMethodNotFound
	}
	return asBody(listPage("prompts", r.p.cursor, s.opts.PageSize, r.version, s.visible(ctx, r), &s.prompts))
}

// getPrompt handles prompts/get.
func (s *Server) getPrompt(ctx context.Context, r *Request) (any, error) {
	name, ok := textOf(r.p.name)
	if !ok {
		return nil, invalidParams("name must be a string")
	}
	p, found := s.prompts.get(name)
	if !found || s.opts.Visible != nil && !s.opts.Visible(ctx, r, name) {
		return nil, invalidParams("unknown prompt: " + name)
	}
	args := map[string]string{}
	if r.p.arguments != nil && !isNull(r.p.arguments) {
		if err := r.p.arguments.Decode(&args); err != nil {
			return nil, invalidParams("arguments must be an object of strings")
		}
	}
	for _, a := range p.Arguments {
		if _, given := args[a.Name]; a.Required && !given {
			return nil, invalidParams("argument " + a.Name + " is missing")
		}
	}
	r.Name = name
	result, err := p.get(ctx, r, args)
	if err != nil {
		return nil, s.legacyNeed(r, err)
	}
	if result == nil {
		result = &GetPromptResult{}
	}
	if !r.version.HasResourceLinks() {
		c := *result
		c.Messages = append([]PromptMessage(nil), c.Messages...)
		for i := range c.Messages {
			c.Messages[i].Content = forVersion([]Content{c.Messages[i].Content}, r.version)[0]
		}
		result = &c
	}
	return result, nil
}

// completes reports whether the server has any completions.
func (s *Server) completes() bool {
	if s.opts.Complete != nil {
		return true
	}
	for _, e := range s.prompts.list() {
		if len(e.value.complete) > 0 {
			return true
		}
	}
	for _, e := range s.templates.list() {
		if len(e.value.complete) > 0 {
			return true
		}
	}
	return false
}

// maxCompletions is the maximum number of values in one response (MCP 2026-07-28, Completion).
const maxCompletions = 100

// completeArgument handles completion/complete.
func (s *Server) completeArgument(ctx context.Context, r *Request) (any, error) {
	var in CompleteParams
	if err := r.rpc.Params.Decode(&in); err != nil {
		return nil, invalidParams("completion/complete needs ref and argument")
	}
	argument := lastMember(r.rpc.Params, "argument")
	if _, ok := textOf(lastMember(argument, "name")); !ok {
		return nil, invalidParams("argument needs a name")
	}
	if _, ok := textOf(lastMember(argument, "value")); !ok {
		return nil, invalidParams("argument needs a value")
	}
	var funcs map[string]CompleteFunc
	known := false
	switch in.Ref.Type {
	case RefPrompt:
		if p, ok := s.prompts.get(in.Ref.Name); ok {
			known, funcs = true, p.complete
		}
	case RefResource:
		if t, ok := s.templates.get(in.Ref.URI); ok {
			known, funcs = true, t.complete
		} else if _, ok := s.resources.get(in.Ref.URI); ok {
			known = true
		}
	default:
		return nil, invalidParams("ref/type must be ref/prompt or ref/resource")
	}
	var done *Completion
	var err error
	if f := funcs[in.Argument.Name]; f != nil {
		var others map[string]string
		if in.Context != nil {
			others = in.Context.Arguments
		}
		done, err = f(ctx, r, in.Argument.Value, others)
	} else if s.opts.Complete != nil {
		done, err = s.opts.Complete(ctx, r, &in)
	} else if !known {
		return nil, invalidParams("unknown " + in.Ref.Type + ": " + in.Ref.Name + in.Ref.URI)
	}
	if err != nil {
		return nil, err
	}
	c := Completion{Values: []string{}}
	if done != nil {
		c = *done
	}
	if len(c.Values) > maxCompletions {
		if c.Total == nil {
			c.Total = new(len(c.Values))
		}
		c.Values, c.HasMore = c.Values[:maxCompletions], true
	}
	return &CompleteResult{Completion: c}, nil
}

// CompleteFrom returns a CompleteFunc for a fixed list: it returns the values that begin with the
// typed text, ignoring case.
func CompleteFrom(values ...string) CompleteFunc {
	return func(_ context.Context, _ *Request, typed string, _ map[string]string) (*Completion, error) {
		var c Completion
		for _, v := range values {
			if len(v) >= len(typed) && strings.EqualFold(v[:len(typed)], typed) {
				c.Values = append(c.Values, v)
			}
		}
		return &c, nil
	}
}
