package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

// A ToolFunc runs a tool. r.Arguments is an object that fits the input schema, or nil. If it
// returns a [ToolError], the model receives its text. A *jsonrpc.Error is the response to the call.
// Any other error is reported, and the model receives "The tool failed."
type ToolFunc func(ctx context.Context, r *Request) (*ToolResult, error)

// A tool is a Tool that was checked.
type tool struct {
	Tool
	call   ToolFunc
	input  *compiledSchema // validates the arguments; nil if call does
	output *compiledSchema // validates structured results; nil if they need no validation
	fills  bool            // the input schema has defaults
	// the output schema for versions whose results are objects: an object with the result as its
	// member "result"
	wrapped jsonrpc.Raw
	headers []HeaderParam
	flat    bool // the output schema describes objects, as all versions require
}

// AddTool adds a tool with typed arguments and a typed result. It panics if t is invalid, because
// that is a programming error; for tools that are defined at run time use [Server.AddTool].
//
// In is a struct, a map or [jsonrpc.Raw], with the rules of [jsonrpc.Func]: a field is required
// unless it is a pointer, is tagged omitzero or omitempty, or has a default, which is filled in.
// Unknown members are rejected. Out is one of:
//
//   - *[ToolResult], [Content] or []Content, sent unchanged;
//   - string, sent as one text block;
//   - any other type with a JSON form, sent as the structured result and as text for older clients.
//     A pointer has the schema of its element. Clients before 2026-07-28 receive a value that is
//     not an object as {"result": …}.
//
// Missing schemas are derived from the types. Schemas in t are enforced in both directions.
func AddTool[In, Out any](s *Server, t Tool, f func(ctx context.Context, r *Request, in In) (Out, error)) {
	made, err := typedTool(s, t, f)
	if err != nil {
		panic(err)
	}
	s.putTool(made)
}

// AddSessionTool is [AddTool] for one session only.
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
	complete := false // decoding checks everything in the schema
	var derivedInput *compiledSchema
	if !own {
		derived, err := argumentsSchemaOf(in)
		if err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
		t.InputSchema, complete = derived.shown, derived.complete
		if derivedInput, err = s.schemas.compile(derived.accepted); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
	}
	structured := isStructured(out)
	derivedOutput := structured && t.OutputSchema == nil && out.Kind() != reflect.Interface
	if derivedOutput {
		var err error
		if t.OutputSchema, err = schemaOf(out); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
	}
	read := jsonrpc.ParamsOf[In]()
	call := func(ctx context.Context, r *Request) (*ToolResult, error) {
		args := r.Arguments
		if args == nil {
			args = empty
		}
		in, fault := read(args)
		if fault != nil {
			if derivedInput != nil { // it finds all problems
				if err := derivedInput.validate(ctx, args); err != nil && ctx.Err() == nil {
					return nil, Errorf("arguments: %v", err)
				}
			}
			return nil, Errorf("arguments: %v", schema.Problem{Pointer: fault.Pointer, Reason: fault.Reason})
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
	if derivedInput != nil {
		made.input = derivedInput
	}
	if complete {
		made.input = nil
	}
	if derivedOutput {
		made.output = nil // true by construction
	}
	return made, nil
}

// isStructured reports whether results of a type are JSON rather than content.
func isStructured(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[*ToolResult](), reflect.TypeFor[Content](), reflect.TypeFor[[]Content](), reflect.TypeFor[string]():
		return false
	}
	return true
}

// resultOf converts the return value of a typed tool to a result.
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
	text, err := appendValue(make([]byte, 0, 64), v) // most results are short
	if err != nil {
		return nil, fmt.Errorf("mcp: encode the result: %w", err)
	}
	return &ToolResult{Structured: text}, nil
}

// AddTool adds a tool with explicit schemas. It replaces a tool of the same name. It returns an
// error if the name, a schema or an x-mcp-header annotation is invalid.
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
	s.notify(note{method: NotifyToolsChanged})
}

func (n *Session) putTool(t *tool) {
	if n.tools.Load() == nil {
		n.tools.CompareAndSwap(nil, new(registry[*tool]))
	}
	if t.Task != TaskForbidden {
		n.server.tasks.offered.Store(true)
	}
	n.tools.Load().put(t.Name, t, t.text)
	n.notify(note{method: NotifyToolsChanged})
}

// RemoveTools removes tools.
func (s *Server) RemoveTools(names ...string) {
	if s.tools.remove(names...) {
		s.notify(note{method: NotifyToolsChanged})
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
	if !input.isObject() {
		return nil, fmt.Errorf("mcp: tool %q: input schema: type must be object", t.Name)
	}
	headers, err := HeaderParams(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
	}
	if t.Meta != nil || t.Icons != nil { // the other members can always be encoded
		if _, err := encode(t); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: %w", t.Name, err)
		}
	}
	made := &tool{Tool: t, call: f, input: input, headers: headers, fills: bytes.Contains(t.InputSchema, []byte(`"default"`))}
	if t.OutputSchema != nil {
		if made.output, err = s.schemas.compile(t.OutputSchema); err != nil {
			return nil, fmt.Errorf("mcp: tool %q: output schema: %w", t.Name, err)
		}
		if made.flat = made.output.isObject(); !made.flat {
			made.wrapped = wrapSchema(t.OutputSchema)
		}
	}
	return made, nil
}

// checkToolName checks that all versions allow the name (MCP 2025-11-25, Tools, Tool Names), or
// that it only adds "/" for grouping.
func checkToolName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("mcp: tool name %.40q must have 1 to 128 characters", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./", r))
	}); i >= 0 {
		return fmt.Errorf("mcp: tool name %.40q may have only letters, digits and _-./", name)
	}
	return nil
}

// text returns the tool in the form for a peer of version v.
func (t *tool) text(v Version) jsonrpc.Raw {
	c := t.Tool
	if !v.HasAudio() {
		c.Annotations = nil
	}
	if !v.HasStructuredContent() {
		c.Title = ""
	}
	if !v.HasStructuredContent() {
		c.OutputSchema = nil
	} else if !v.HasAnyStructure() && !t.flat {
		c.OutputSchema = t.wrapped
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

// listTools handles tools/list.
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

// visible returns the filter of lists for one request, or nil without a filter.
func (s *Server) visible(ctx context.Context, r *Request) func(string) bool {
	if s.opts.Visible == nil {
		return nil
	}
	return func(name string) bool { return s.opts.Visible(ctx, r, name) }
}

// findTool returns the tool of a call, if the request may see it.
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

// callTool handles tools/call.
func (s *Server) callTool(ctx context.Context, r *Request) (any, error) {
	name, ok := unquoted(r.p.name)
	if !ok {
		return nil, invalidParams("name must be a string")
	}
	t := s.findTool(ctx, r, name)
	if t == nil {
		return nil, invalidParams("unknown tool: " + string(name))
	}
	r.Name = t.Name
	if r.p.arguments != nil && !isNull(r.p.arguments) {
		if !isObject(r.p.arguments) {
			return nil, invalidParams("arguments must be an object")
		}
		r.Arguments = r.p.arguments
	}
	if t.Task != TaskForbidden || r.p.task != nil {
		return s.callAsTask(ctx, r, t)
	}
	return s.runTool(ctx, r, t)
}

// runTool runs the tool and converts its error to what the client may receive.
func (s *Server) runTool(ctx context.Context, r *Request, t *tool) (*ToolResult, error) {
	result, err := s.tryTool(ctx, r, t)
	if err == nil {
		return result, nil
	}
	return s.toolTrouble(ctx, r, r.Name, err)
}

// toolTrouble converts the error of a tool to what the client may receive.
func (s *Server) toolTrouble(ctx context.Context, r *Request, name string, err error) (*ToolResult, error) {
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // what is wrapped stays here
		return nil, e
	}
	if told, ok := errors.AsType[*ToolError](err); ok {
		return failed(told.Text), nil
	}
	if answer, ok := errors.AsType[*AnswerError](err); ok {
		return failed(answer.Error()), nil
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
	s.report(ReportTool, &jsonrpc.HandlerError{Method: name, Err: err})
	return failed("The tool failed."), nil
}

func failed(text string) *ToolResult {
	return &ToolResult{Content: []Content{Text(text)}, IsError: true}
}

// tryTool runs the tool, and validates its arguments and its result with the schemas.
func (s *Server) tryTool(ctx context.Context, r *Request, t *tool) (*ToolResult, error) {
	if t.fills {
		r.Arguments = fillDefaults(t.InputSchema, r.Arguments)
	}
	if t.input != nil {
		args := r.Arguments
		if args == nil {
			args = empty
		}
		if err := t.input.validate(ctx, args); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
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
			return nil, fmt.Errorf("mcp: tool %s has an output schema but returned no structured result", t.Name)
		}
		if err := t.output.validate(ctx, result.Structured); err != nil {
			return nil, fmt.Errorf("mcp: result of tool %s: %w", t.Name, err)
		}
	}
	if !r.version.HasAnyStructure() && r.version.HasStructuredContent() && result.Structured != nil &&
		(t.wrapped != nil || t.OutputSchema == nil && !isObject(result.Structured)) {
		c := *result
		if c.Content == nil {
			c.Content = []Content{Text(string(c.Structured))}
		}
		c.Structured = append(append([]byte(`{"result":`), c.Structured...), '}')
		result = &c
	}
	return result.forVersion(r.version), nil
}

// wrapSchema returns the schema of an object whose member "result" has the schema in text, as other
// servers wrap results for versions that only allow objects. It returns nil if the schema refers to
// itself as a whole.
func wrapSchema(text jsonrpc.Raw) jsonrpc.Raw {
	if bytes.Contains(text, []byte(`"#"`)) || !isObject(text) {
		return nil
	}
	var inner, outer []byte
	for name, value := range text.Members() {
		switch string(name) {
		case "$defs", "definitions", "$schema":
			outer = append(append(jsonrpc.AppendString(append(outer, ','), string(name)), ':'), value...)
			continue
		}
		if len(inner) > 0 {
			inner = append(inner, ',')
		}
		inner = append(append(jsonrpc.AppendString(inner, string(name)), ':'), value...)
	}
	if bytes.Contains(inner, []byte(`"$ref"`)) && outer == nil {
		return nil // it refers to another part of itself
	}
	out := append([]byte(`{"type":"object","properties":{"result":{`), inner...)
	out = append(append(out, `}},"required":["result"]`...), outer...)
	return append(out, '}')
}

// fillDefaults adds the defaults of a schema for missing members, also in nested objects and lists.
// References are not followed.
func fillDefaults(schema, value jsonrpc.Raw) jsonrpc.Raw {
	if value == nil {
		value = empty
	}
	if !bytes.Contains(schema, []byte(`"default"`)) {
		return value
	}
	if items := lastMember(schema, "items"); items != nil && len(value) > 0 && value[0] == '[' {
		out := []byte{'['}
		for one := range value.Elements() {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, fillDefaults(items, one)...)
		}
		return append(out, ']')
	}
	properties := lastMember(schema, "properties")
	if !isObject(properties) || !isObject(value) {
		return value
	}
	fields := map[string]jsonrpc.Raw{}
	for name, field := range properties.Members() {
		fields[string(name)] = field
	}
	out := []byte{'{'}
	add := func(name string, value jsonrpc.Raw) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	for name, one := range value.Members() {
		if field, ok := fields[string(name)]; ok {
			one = fillDefaults(field, one)
			fields[string(name)] = nil
		}
		add(string(name), one)
	}
	for name := range properties.Members() {
		if field := fields[string(name)]; field != nil {
			if standard := lastMember(field, "default"); standard != nil {
				add(string(name), standard)
			}
		}
	}
	return append(out, '}')
}

// forVersion returns the result in the form for a peer of version v.
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
