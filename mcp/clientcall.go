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

// CallOptions tune one call. Nil is the default.
type CallOptions struct {
	// Progress gets how far the call has come, on the caller's goroutine.
	Progress func(Progress)

	// Log gets log messages about the call, as far as the carrier knows that they are; others go to ClientOptions.OnLog.
	Log func(*LogParams)

	// Meta goes into _meta, such as a traceparent.
	Meta Meta

	// TaskTTL asks a server of 2025-11-25 to make the call a task, and waits for it. Zero: a plain call. Servers of the modern era decide themselves.
	TaskTTL time.Duration

	// OnTask gets each state of the task that the call became.
	OnTask func(*Task)
}

// Call asks for any method and decodes the result, for what has no method of its own here. It answers no questions.
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

// encodeParams returns the text of params, nil for none.
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
		return nil, fmt.Errorf("mcp: params are an object, not %.20q", raw)
	}
	return raw, nil
}

// modernParams puts the envelope around params that have no _meta.
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

// appendMeta adds members to a _meta that has some.
func appendMeta(out []byte, token jsonrpc.Raw, meta Meta) []byte {
	if token != nil {
		out = append(append(out, `,"`+MetaProgressToken+`":`...), token...)
	}
	for _, key := range sortedKeys(meta) {
		if key != MetaProgressToken && key != MetaProtocolVersion && key != MetaClientInfo && key != MetaClientCapabilities {
			out = append(append(appendString(append(out, ','), key), ':'), meta[key]...)
		}
	}
	return out
}

// legacyParams adds _meta to params, if there is something in it.
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

// do sends one request and waits for its result. params have no _meta.
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
	return c.link.Do(ctx, &item)
}

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

// resultType reads what a result of the modern era is; one of an old server is complete.
func resultType(raw jsonrpc.Raw) string {
	kind, ok := unquoted(member(raw, "resultType"))
	if !ok || string(kind) == ResultComplete {
		return ResultComplete
	}
	return string(kind)
}

// taskType stands in every answer that is a task, and hardly in another.
var taskType = []byte(`"` + ResultTask + `"`)

// ErrUnknownResult says that a result is of a kind that this client did not ask for.
var ErrUnknownResult = errors.New("mcp: the server answered with a result of unknown type")

// invoke calls one of the methods that may be answered with a question, and answers it, until there is a result.
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
		if len(in.InputRequests) == 0 && member(raw, "requestState") == nil {
			return nil, fmt.Errorf("%w: it asks nothing", ErrUnknownResult)
		}
		responses, err := c.answerAll(ctx, in.InputRequests)
		if err != nil {
			return nil, err
		}
		next := append([]byte{}, params[:len(params)-1]...) // params have a name or a URI at least
		if len(responses) > 0 {
			next = append(append(next, `,"inputResponses":`...), mustEncode(responses)...)
		}
		if state := member(raw, "requestState"); state != nil {
			next = append(append(next, `,"requestState":`...), state...)
		}
		now = append(next, '}')
	}
	return nil, ErrTooManyRounds
}

// CallTool calls a tool. args is what has the JSON form of an object, or nil. A tool that failed is a result with IsError, not an error. Questions of
// the server are answered by the functions of the options, and a task is waited for.
func (c *Client) CallTool(ctx context.Context, name string, args any, o *CallOptions) (*ToolResult, error) {
	asTask := o != nil && o.TaskTTL > 0 && c.Version().HasCoreTasks()
	var ttl time.Duration
	if asTask {
		ttl = o.TaskTTL
	}
	text, err := callParams(name, args, ttl)
	if err != nil {
		return nil, err
	}
	raw, err := c.invoke(ctx, MethodToolsCall, text, o)
	if errors.Is(err, ErrHeaderMismatch) && c.opts.OverHTTP {
		// The tool wants headers that this client does not know of yet (MCP 2026-07-28, Transports, Custom Headers).
		if err := c.refreshTools(ctx); err != nil {
			return nil, err
		}
		raw, err = c.invoke(ctx, MethodToolsCall, text, o)
	}
	if err != nil {
		return nil, err
	}
	if asTask {
		if created := member(raw, "task"); created != nil {
			var t coreTask
			if err := created.Decode(&t); err != nil {
				return nil, fmt.Errorf("mcp: a task: %w", err)
			}
			return c.awaitCore(ctx, t.task(), o)
		}
	}
	if c.Version().Modern() && bytes.Contains(raw, taskType) && resultType(raw) == ResultTask {
		var t extTask
		if err := raw.Decode(&t); err != nil {
			return nil, fmt.Errorf("mcp: a task: %w", err)
		}
		return c.awaitTask(ctx, t.task(), o)
	}
	result := new(ToolResult)
	if err := result.read(raw, false); err != nil {
		return nil, fmt.Errorf("mcp: decode the result: %w", err)
	}
	return result, c.checkResult(name, result)
}

// callParams writes the params of tools/call in one buffer. ttl makes it a task.
func callParams(name string, args any, ttl time.Duration) (jsonrpc.Raw, error) {
	const member = `,"arguments":`
	dst := appendString(append(make([]byte, 0, 256), `{"name":`...), name)
	start := len(dst) + len(member)
	dst, err := appendValue(append(dst, member...), args)
	if err != nil {
		return nil, fmt.Errorf("mcp: arguments of %s: %w", name, err)
	}
	switch made := jsonrpc.Raw(dst[start:]); {
	case isNull(made):
		dst = dst[:start-len(member)]
	case !isObject(made):
		return nil, fmt.Errorf("mcp: arguments of %s: mcp: params are an object, not %.20q", name, made)
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

// GetPrompt fills in a prompt.
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

// ReadResource reads a resource, or what was kept of it, as long as the server said that it may be.
func (c *Client) ReadResource(ctx context.Context, uri string, o *CallOptions) (*ReadResourceResult, error) {
	if raw := c.cache.get(MethodResourcesRead, uri); raw != nil {
		return decodeResult[ReadResourceResult](raw)
	}
	mark := c.cache.mark()
	text := append(appendString([]byte(`{"uri":`), uri), '}')
	raw, err := c.invoke(ctx, MethodResourcesRead, text, o)
	if err != nil {
		return nil, err
	}
	c.cache.put(MethodResourcesRead, uri, raw, mark)
	return decodeResult[ReadResourceResult](raw)
}

// Complete asks for proposals.
func (c *Client) Complete(ctx context.Context, p *CompleteParams) (*Completion, error) {
	q := *p
	q.Meta = nil
	if !c.Version().HasElicitation() { // context came with the same revision
		q.Context = nil
	}
	var out CompleteResult
	if err := c.Call(ctx, MethodComplete, q, &out); err != nil {
		return nil, err
	}
	return &out.Completion, nil
}

// Ping asks a legacy server whether it is there. In the modern era there is no such method, and it asks for server/discover.
func (c *Client) Ping(ctx context.Context) error {
	if c.Version().Modern() {
		return c.Call(ctx, MethodDiscover, nil, nil)
	}
	return c.Call(ctx, MethodPing, nil, nil)
}

// RootsChanged tells a legacy server that the client's roots have changed. A modern server asks when it wants to know.
func (c *Client) RootsChanged(ctx context.Context) error {
	if c.Version().Modern() {
		return nil
	}
	return c.link.Do(ctx, &jsonrpc.Item{Method: NotifyRootsChanged, Notify: true})
}

// SetLogLevel says which log messages are wanted: by logging/setLevel, or in the modern era with every request from now on.
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
