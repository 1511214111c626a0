package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// CallOptions configure one call. Nil means the defaults.
type CallOptions struct {
	// Progress is called with the progress of the call, on the caller's goroutine.
	Progress func(Progress)

	// Log is called for log messages that the transport assigns to the call. Other log messages go
	// to ClientOptions.OnLog.
	Log func(*LogParams)

	// Meta is added to _meta, for example a traceparent.
	Meta Meta

	// TaskTTL makes the call a task if the server speaks 2025-11-25, and CallTool waits for the
	// task. Zero means a plain call. If the tool was listed before, its entry decides: a tool that
	// requires a task is called as one, and a tool that forbids tasks is not. Servers of the modern
	// era decide themselves.
	TaskTTL time.Duration

	// OnTask is called with each state of the task that the call became.
	OnTask func(*Task)
}

// Call calls any method and decodes the result. It is for methods without a Go method of their own.
// It does not answer questions.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw, err := encodeParams(params)
	if err != nil {
		return err
	}
	var out jsonrpc.Raw
	if err := c.do(ctx, method, raw, &out, nil); err != nil {
		return err
	}
	if result == nil {
		return nil
	}
	return out.Decode(result)
}

// encodeParams returns the JSON text of params, or nil without params.
func encodeParams(params any) (jsonrpc.Raw, error) {
	if params == nil {
		return nil, nil
	}
	raw, err := encode(params)
	if err != nil {
		return nil, err
	}
	if isNull(raw) {
		return nil, nil
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("mcp: params must be an object, not %.20q", raw)
	}
	return raw, nil
}

// modernParams adds the envelope to params without _meta.
func (c *Client) modernParams(params jsonrpc.Raw, token jsonrpc.Raw, meta Meta) jsonrpc.Raw {
	envelope := *c.envelope.Load()
	out := make([]byte, 0, len(envelope)+len(params)+64)
	out = append(out, envelope...)
	out = appendMeta(out, token, meta)
	out = append(out, '}')
	if len(params) > 2 {
		return append(append(out, ','), params[1:]...)
	}
	return append(out, '}')
}

// appendMeta appends members to a _meta that is not empty.
func appendMeta(out []byte, token jsonrpc.Raw, meta Meta) []byte {
	if token != nil {
		out = append(append(out, `,"`+MetaProgressToken+`":`...), token...)
	}
	for _, key := range sortedKeys(meta) {
		if key != MetaProgressToken && key != MetaProtocolVersion && key != MetaClientInfo && key != MetaClientCapabilities {
			out = append(append(jsonrpc.AppendString(append(out, ','), key), ':'), meta[key]...)
		}
	}
	return out
}

// legacyParams adds _meta to params, if it is not empty.
func legacyParams(params, token jsonrpc.Raw, meta Meta) jsonrpc.Raw {
	if token == nil && len(meta) == 0 {
		return params
	}
	inner := appendMeta(nil, token, meta)
	if len(inner) == 0 {
		return params
	}
	out := append([]byte(`{"_meta":{`), inner[1:]...)
	out = append(out, '}')
	if len(params) > 2 {
		return append(append(out, ','), params[1:]...)
	}
	return append(out, '}')
}

// do sends one request and waits for its result. params must not contain _meta.
func (c *Client) do(ctx context.Context, method string, params jsonrpc.Raw, out *jsonrpc.Raw, o *CallOptions) error {
	if c.link == nil {
		return jsonrpc.ErrClosed
	}
	item := jsonrpc.Item{Method: method, Result: out}
	var token jsonrpc.Raw
	var meta Meta
	if o != nil {
		meta = o.Meta
		if o.Progress != nil || o.Log != nil {
			item.ID = jsonrpc.StringID("p" + strconv.FormatUint(c.ids.Add(1), 10))
			token = jsonrpc.Raw(item.ID.String())
			item.On = func(req *jsonrpc.Request) error { c.about(req, o); return nil }
		}
	}
	if c.Version().Modern() {
		item.Params = c.modernParams(params, token, meta)
	} else if p := legacyParams(params, token, meta); p != nil {
		item.Params = p
	}
	if err := c.link.Do(ctx, &item); err != nil {
		return err
	}
	if out != nil && c.Version().Modern() && bytes.Contains(*out, resultTypeMember) {
		switch kind := resultType(*out); kind {
		case ResultComplete, ResultTask, ResultInputRequired:
		default:
			return fmt.Errorf("%w %.40q", ErrUnknownResult, kind)
		}
	}
	return nil
}

var resultTypeMember = []byte(`"resultType"`)

// about handles a notification about a call.
func (c *Client) about(req *jsonrpc.Request, o *CallOptions) {
	switch req.Method {
	case NotifyProgress:
		var p Progress
		if o.Progress != nil && req.Params.Decode(&p) == nil {
			o.Progress(p)
		}
	case NotifyMessage:
		var p LogParams
		if req.Params.Decode(&p) != nil {
			return
		}
		if o.Log != nil {
			o.Log(&p)
		} else if c.opts.OnLog != nil {
			c.opts.OnLog(&p)
		}
	default:
		c.heard(req)
	}
}

// resultType returns the type of a modern result. A result without one, from an older server, is
// complete. A member that is not a string is returned as an unknown type (MCP 2026-07-28, Base
// Protocol, Results).
func resultType(raw jsonrpc.Raw) string {
	member := lastMember(raw, "resultType")
	if member == nil {
		return ResultComplete
	}
	kind, ok := unquoted(member)
	switch {
	case !ok:
		return string(member)
	case string(kind) == ResultComplete:
		return ResultComplete
	}
	return string(kind)
}

// taskType occurs in every result that is a task, and rarely in other results.
var taskType = []byte(`"` + ResultTask + `"`)

// ErrUnknownResult reports that a result has a type that this client did not request.
var ErrUnknownResult = errors.New("mcp: the server returned a result of unknown type")

// invoke calls a method whose result may be questions, and answers them until the result is
// complete or a task.
func (c *Client) invoke(ctx context.Context, method string, params jsonrpc.Raw, o *CallOptions) (jsonrpc.Raw, error) {
	var raw jsonrpc.Raw
	if !c.Version().Modern() {
		err := c.do(ctx, method, params, &raw, o)
		if err == nil {
			return raw, nil
		}
		v := visitor{c: c}
		defer v.leave()
		for {
			var again bool
			if again, err = v.again(ctx, err); !again {
				return nil, err
			}
			if err = c.do(ctx, method, params, &raw, o); err == nil {
				return raw, nil
			}
		}
	}
	now := params
	for range c.opts.Rounds {
		raw = nil
		if err := c.do(ctx, method, now, &raw, o); err != nil {
			return nil, err
		}
		switch kind := resultType(raw); kind {
		case ResultComplete, ResultTask:
			return raw, nil
		case ResultInputRequired:
		default:
			return nil, fmt.Errorf("%w %.40q", ErrUnknownResult, kind)
		}
		var in InputRequired
		if err := raw.Decode(&in); err != nil {
			return nil, fmt.Errorf("mcp: a question: %w", err)
		}
		state := lastMember(raw, "requestState")
		if len(in.InputRequests) == 0 && state == nil {
			return nil, fmt.Errorf("%w: it has no question", ErrUnknownResult)
		}
		responses, err := c.answerAll(ctx, in.InputRequests)
		if err != nil {
			return nil, err
		}
		// params contain at least a name or a URI
		next := append([]byte{}, params[:len(params)-1]...)
		if len(responses) > 0 {
			next = append(append(next, `,"inputResponses":`...), mustEncode(responses)...)
		}
		if state != nil {
			next = append(append(next, `,"requestState":`...), state...)
		}
		now = append(next, '}')
	}
	return nil, ErrTooManyRounds
}

// CallTool calls a tool. args is a value whose JSON form is an object, or nil. A failed tool
// returns a result with IsError, not an error. The functions of the options answer the server's
// questions. CallTool waits for a task.
func (c *Client) CallTool(ctx context.Context, name string, args any, o *CallOptions) (*ToolResult, error) {
	ttl := c.taskTTL(name, o)
	asTask := ttl > 0
	text, err := callParams(name, args, ttl)
	if err != nil {
		return nil, err
	}
	raw, err := c.invoke(ctx, MethodToolsCall, text, o)
	if errors.Is(err, ErrHeaderMismatch) && c.opts.OverHTTP {
		// The tool requires headers that this client has not listed yet (MCP 2026-07-28,
		// Transports, Custom Headers).
		if err := c.refreshTools(ctx); err != nil {
			return nil, err
		}
		raw, err = c.invoke(ctx, MethodToolsCall, text, o)
	}
	if err != nil {
		return nil, err
	}
	if asTask {
		if created := lastMember(raw, "task"); created != nil {
			var t coreTask
			if err := created.Decode(&t); err != nil {
				return nil, fmt.Errorf("mcp: the response is a task that is not valid: %w", err)
			}
			return c.checked(ctx, name)(c.awaitCore(ctx, t.task(), o))
		}
	}
	if c.Version().Modern() && bytes.Contains(raw, taskType) && resultType(raw) == ResultTask {
		var t extTask
		if err := raw.Decode(&t); err != nil {
			return nil, fmt.Errorf("mcp: the response is a task that is not valid: %w", err)
		}
		return c.checked(ctx, name)(c.awaitTask(ctx, t.task(), o))
	}
	result := new(ToolResult)
	if err := result.read(raw, false); err != nil {
		return nil, fmt.Errorf("mcp: decode the result: %w", err)
	}
	return result, c.checkResult(ctx, name, result)
}

// checked returns a function that validates the result of a task.
func (c *Client) checked(ctx context.Context, name string) func(*ToolResult, error) (*ToolResult, error) {
	return func(r *ToolResult, err error) (*ToolResult, error) {
		if err != nil {
			return nil, err
		}
		return r, c.checkResult(ctx, name, r)
	}
}

// callParams writes the params of tools/call into one buffer. A positive ttl requests a task.
func callParams(name string, args any, ttl time.Duration) (jsonrpc.Raw, error) {
	const member = `,"arguments":`
	dst := jsonrpc.AppendString(append(make([]byte, 0, 256), `{"name":`...), name)
	start := len(dst) + len(member)
	dst, err := appendValue(append(dst, member...), args)
	if err != nil {
		return nil, fmt.Errorf("mcp: arguments of %s: %w", name, err)
	}
	switch made := jsonrpc.Raw(dst[start:]); {
	case isNull(made):
		dst = dst[:start-len(member)]
	case !isObject(made):
		return nil, fmt.Errorf("mcp: arguments of %s: mcp: params must be an object, not %.20q", name, made)
	}
	if ttl > 0 {
		dst = append(strconv.AppendInt(append(dst, `,"task":{"ttl":`...), ttl.Milliseconds(), 10), '}')
	}
	return append(dst, '}'), nil
}

func decodeResult[T any](raw jsonrpc.Raw) (*T, error) {
	v := new(T)
	if err := raw.Decode(v); err != nil {
		return nil, fmt.Errorf("mcp: decode the result: %w", err)
	}
	return v, nil
}

// GetPrompt returns a prompt, filled in with arguments.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string, o *CallOptions) (*GetPromptResult, error) {
	text, err := encode(GetPromptParams{Name: name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	raw, err := c.invoke(ctx, MethodPromptsGet, text, o)
	if err != nil {
		return nil, err
	}
	return decodeResult[GetPromptResult](raw)
}

// ReadResource reads a resource. It returns a cached result as long as the server allows.
func (c *Client) ReadResource(ctx context.Context, uri string, o *CallOptions) (*ReadResourceResult, error) {
	if raw := c.cache.get(MethodResourcesRead, uri); raw != nil {
		return decodeResult[ReadResourceResult](raw)
	}
	mark := c.cache.mark()
	text := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
	raw, err := c.invoke(ctx, MethodResourcesRead, text, o)
	if err != nil {
		return nil, err
	}
	c.cache.put(MethodResourcesRead, uri, raw, mark)
	return decodeResult[ReadResourceResult](raw)
}

// Complete requests completions for an argument.
func (c *Client) Complete(ctx context.Context, p *CompleteParams) (*Completion, error) {
	q := *p
	q.Meta = nil
	if !c.Version().HasElicitation() { // context was added in the same version
		q.Context = nil
	}
	var out CompleteResult
	if err := c.Call(ctx, MethodComplete, q, &out); err != nil {
		return nil, err
	}
	return &out.Completion, nil
}

// Ping checks whether a legacy server responds. The modern era has no ping, so that Ping calls
// server/discover there.
func (c *Client) Ping(ctx context.Context) error {
	if c.Version().Modern() {
		return c.Call(ctx, MethodDiscover, nil, nil)
	}
	return c.Call(ctx, MethodPing, nil, nil)
}

// RootsChanged notifies a legacy server that the client's roots have changed. A modern server
// requests the roots when it needs them.
func (c *Client) RootsChanged(ctx context.Context) error {
	if c.Version().Modern() {
		return nil
	}
	return c.link.Do(ctx, &jsonrpc.Item{Method: NotifyRootsChanged, Notify: true})
}

// SetLogLevel selects the log messages that the server sends: with logging/setLevel, or in the
// modern era with every later request.
func (c *Client) SetLogLevel(ctx context.Context, level Level) error {
	if !c.Version().Modern() {
		if err := c.Call(ctx, MethodSetLevel, SetLevelParams{Level: level}, nil); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.level = level
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.LogLevel = level
	c.speakModern(c.Version())
	return nil
}
