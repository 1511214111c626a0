package mcp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A ToolFunc runs a tool: r.Arguments is an object that fits the input schema, or nil. An error is what the model hears only if it is a
// [ToolError]; a *jsonrpc.Error goes out as the answer to the call, and any other error says only that the tool failed.
type ToolFunc func(ctx context.Context, r *Request) (*ToolResult, error)

// A tool is one that was checked.
type tool struct {
	Tool
	call    ToolFunc
	input   *schema // what arguments are held against; nil when call does it
	output  *schema // what a structured result is held against; nil for nothing
	headers []HeaderParam
	flat    bool // the output schema describes objects, as all versions want
}

// AddTool offers a function with typed arguments and a typed result as a tool. In is a struct, a map or [jsonrpc.Raw], with the rules of
// [jsonrpc.Func]: a field is required unless it is a pointer or its tag says omitzero or omitempty, and unknown members are refused.
// Out may be
//
//   - *[ToolResult], [Content] or []Content: the result itself,
//   - string: one block of text,
//   - anything else that has a JSON form: the structured result, and its text for clients that do not know those.
//
// The schemas are made of the types unless the Tool brings its own, which are then held in both directions as well. AddTool panics
// when that cannot work, as it is a mistake in the program; for what comes from elsewhere there is [Server.AddTool].
func AddTool[In, Out any](s *Server, t Tool, f func(ctx context.Context, r *Request, in In) (Out, error)) {
	made, err := typedTool(s, t, f)
	if err != nil {
		panic(err)
	}
	s.putTool(made)
}

// AddSessionTool is [AddTool] for one session alone.
func AddSessionTool[In, Out any](n *Session, t Tool, f func(ctx context.Context, r *Request, in In) (Out, error)) {
	made, err := typedTool(n.server, t, f)
	if err != nil {
		panic(err)
	}
	n.putTool(made)
}

func typedTool[In, Out any](s *Server, t Tool, f func(context.Context, *Request, In) (Out, error)) (*tool, error) {
	own := t.InputSchema != nil
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	complete := false // decoding holds all that the schema says
	if !own {
		made, err := inputSchemaOf(in)
		if err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
		t.InputSchema, complete = made.text, made.complete
	}
	structured := isStructured(out)
	derivedOutput := structured && t.OutputSchema == nil && out.Kind() != reflect.Interface
	if derivedOutput {
		t.OutputSchema = schemaOf(out).text
	}
	read := jsonrpc.ParamsOf[In]()
	call := func(ctx context.Context, r *Request) (*ToolResult, error) {
		args := r.Arguments
		if args == nil {
			args = empty
		}
		in, fault := read(args)
		if fault != nil {
			return nil, Errorf("arguments%s: %s", fault.Pointer, fault.Reason)
		}
		result, err := f(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return resultOf(any(result))
	}
	made, err := s.newTool(t, call)
	if err != nil {
		return nil, err
	}
	if complete {
		made.input = nil
	}
	if derivedOutput {
		made.output = nil // true by construction
	}
	return made, nil
}

// isStructured reports whether results of a type are JSON, not content.
func isStructured(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[*ToolResult](), reflect.TypeFor[Content](), reflect.TypeFor[[]Content](), reflect.TypeFor[string]():
		return false
	}
	return true
}

// resultOf makes a result of what a typed tool returned.
func resultOf(v any) (*ToolResult, error) {
	switch v := v.(type) {
	case *ToolResult:
		if v == nil {
			return &ToolResult{}, nil
		}
		return v, nil
	case string:
		return TextResult(v), nil
	case Content:
		return &ToolResult{Content: []Content{v}}, nil
	case []Content:
		return &ToolResult{Content: v}, nil
	case nil:
		return &ToolResult{}, nil
	}
	text, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("mcp: encode the result: %w", err)
	}
	return &ToolResult{Structured: text}, nil
}

// AddTool offers a tool with schemas of its own making. It replaces one of the same name. It returns an error when the name or a
// schema is not valid, an annotation x-mcp-header included.
func (s *Server) AddTool(t Tool, f ToolFunc) error {
	made, err := s.newTool(t, f)
	if err != nil {
		return err
	}
	s.putTool(made)
	return nil
}

func (s *Server) putTool(t *tool) {
	if t.Task != TaskForbidden {
		s.tasks.offered.Store(true)
	}
	s.tools.put(t.Name, t, t.text)
	s.tell(note{method: NotifyToolsChanged})
}

func (n *Session) putTool(t *tool) {
	if n.tools.Load() == nil {
		n.tools.CompareAndSwap(nil, new(registry[*tool]))
	}
	if t.Task != TaskForbidden {
		n.server.tasks.offered.Store(true)
	}
	n.tools.Load().put(t.Name, t, t.text)
	n.tell(note{method: NotifyToolsChanged})
}

// RemoveTools takes tools away.
func (s *Server) RemoveTools(names ...string) {
	if s.tools.remove(names...) {
		s.tell(note{method: NotifyToolsChanged})
	}
}

// newTool checks a tool.
func (s *Server) newTool(t Tool, f ToolFunc) (*tool, error) {
	if err := checkToolName(t.Name); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, fmt.Errorf("mcp: tool %q has no function", t.Name)
	}
	if t.InputSchema == nil {
		t.InputSchema = jsonrpc.Raw(`{"type":"object","additionalProperties":false}`)
	}
	input, err := s.schemas.compile(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("mcp: tool %q: input schema: %w", t.Name, err)
	}
	if !input.isObject {
		return nil, fmt.Errorf("mcp: tool %q: input schema: type must be object", t.Name)
	}
	headers, err := HeaderParams(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
	}
	if t.Meta != nil || t.Icons != nil { // the rest cannot fail to be written
		if _, err := encode(t); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
	}
	made := &tool{Tool: t, call: f, input: input, headers: headers}
	if t.OutputSchema != nil {
		if made.output, err = s.schemas.compile(t.OutputSchema); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: output schema: %w", t.Name, err)
		}
		made.flat = made.output.isObject
	}
	return made, nil
}

// checkToolName holds a name to what all revisions take (MCP 2025-11-25, Tools, Tool Names), and to "/" for those who group.
func checkToolName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("mcp: tool name %.40q: want 1 to 128 characters", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./", r))
	}); i >= 0 {
		return fmt.Errorf("mcp: tool name %.40q: want only letters, digits and _-./", name)
	}
	return nil
}

// text is the tool as a peer of v knows it.
func (t *tool) text(v Version) jsonrpc.Raw {
	c := t.Tool
	if !v.HasAudio() {
		c.Annotations = nil
	}
	if !v.HasStructuredContent() {
		c.Title = ""
	}
	if !v.HasStructuredContent() || !v.HasAnyStructure() && !t.flat {
		c.OutputSchema = nil
	}
	if v < V20251125 {
		c.Icons = nil
	}
	c.Execution = nil
	if v.HasCoreTasks() && t.Task != TaskForbidden {
		c.Execution = &ToolExecution{TaskSupport: taskSupportNames[t.Task]}
	}
	return mustEncode(c)
}

// listTools answers tools/list.
func (s *Server) listTools(ctx context.Context, r *Request) (any, error) {
	var own *registry[*tool]
	if r.session != nil {
		own = r.session.tools.Load()
	}
	if own == nil && !s.opts.Tools && s.tools.len() == 0 {
		return nil, jsonrpc.ErrMethodNotFound
	}
	return asBody(listPage("tools", r.p.cursor, s.opts.PageSize, r.version, s.visible(ctx, r), &s.tools, own))
}

// visible returns the filter of lists for one request, nil for none.
func (s *Server) visible(ctx context.Context, r *Request) func(string) bool {
	if s.opts.Visible == nil {
		return nil
	}
	return func(name string) bool { return s.opts.Visible(ctx, r, name) }
}

// findTool finds what a call names, among what the request may see.
func (s *Server) findTool(ctx context.Context, r *Request, name []byte) *tool {
	if s.opts.Visible != nil && !s.opts.Visible(ctx, r, string(name)) {
		return nil
	}
	if r.session != nil {
		if own := r.session.tools.Load(); own != nil {
			if t, ok := own.find(name); ok {
				return t
			}
		}
	}
	t, _ := s.tools.find(name)
	return t
}

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, r *Request) (any, error) {
	name, ok := unquoted(r.p.name)
	if !ok {
		return nil, invalidParams("name is a string")
	}
	t := s.findTool(ctx, r, name)
	if t == nil {
		return nil, invalidParams("unknown tool: " + string(name))
	}
	r.Name = t.Name
	if r.p.arguments != nil && !isNull(r.p.arguments) {
		if !isObject(r.p.arguments) {
			return nil, invalidParams("arguments is an object")
		}
		r.Arguments = r.p.arguments
	}
	if t.Task != TaskForbidden || r.p.task != nil {
		return s.callAsTask(ctx, r, t)
	}
	return s.runTool(ctx, r, t)
}

// runTool runs the tool and makes of its error what the client may hear.
func (s *Server) runTool(ctx context.Context, r *Request, t *tool) (*ToolResult, error) {
	result, err := s.tryTool(ctx, r, t)
	if err == nil {
		return result, nil
	}
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // what is wrapped stays here
		return nil, e
	}
	if told, ok := errors.AsType[*ToolError](err); ok {
		return failed(told.Text), nil
	}
	if ask, ok := errors.AsType[*questions](err); ok {
		return nil, ask
	}
	if need, ok := errors.AsType[*CapabilityError](err); ok {
		if r.version.Modern() {
			return nil, need.answer()
		}
		return failed(need.Error()), nil
	}
	if ctx.Err() != nil {
		return nil, gone(ctx)
	}
	s.report("tool", &jsonrpc.HandlerError{Method: r.Name, Err: err})
	return failed("The tool failed."), nil
}

func failed(text string) *ToolResult {
	return &ToolResult{Content: []Content{Text(text)}, IsError: true}
}

// tryTool holds arguments and result against the schemas.
func (s *Server) tryTool(ctx context.Context, r *Request, t *tool) (*ToolResult, error) {
	if t.input != nil {
		args := r.Arguments
		if args == nil {
			args = empty
		}
		if err := t.input.validate(args); err != nil {
			return nil, Errorf("arguments: %v", err)
		}
	}
	result, err := t.call(ctx, r)
	if err != nil {
		return nil, err
	}
	if result == nil {
		result = &ToolResult{}
	}
	if t.output != nil && !result.IsError {
		if result.Structured == nil {
			return nil, fmt.Errorf("mcp: tool %s has an output schema and gave no structured result", t.Name)
		}
		if err := t.output.validate(result.Structured); err != nil {
			return nil, fmt.Errorf("mcp: result of tool %s: %w", t.Name, err)
		}
	}
	return result.forVersion(r.version), nil
}

// forVersion returns the result as a peer of v knows it.
func (r *ToolResult) forVersion(v Version) *ToolResult {
	if v.HasAnyStructure() || v.HasStructuredContent() && (r.Structured == nil || isObject(r.Structured)) {
		return r
	}
	c := *r
	if c.Content == nil && c.Structured != nil {
		c.Content = []Content{Text(string(c.Structured))}
	}
	c.Structured, c.Content = nil, forVersion(c.Content, v)
	return &c
}
