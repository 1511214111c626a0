package mcp

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// InvokeOptions configure one [Client.Invoke]. Nil means the defaults.
type InvokeOptions struct {
	// Progress and Log are called with the progress and the log messages of the call, as in
	// [CallOptions].
	Progress func(Progress)
	Log      func(*LogParams)

	// Meta is added to _meta.
	Meta Meta

	// InputResponses and RequestState answer the questions of an earlier round: RequestState is the
	// raw value of the result. A legacy server does not receive them.
	InputResponses map[string]jsonrpc.Raw
	RequestState   jsonrpc.Raw

	// Capabilities, if not nil, are sent to a modern server instead of the client's own, and
	// LogLevel, if not LevelNone, instead of ClientOptions.LogLevel. The caller answers the
	// questions that they allow.
	Capabilities *ClientCapabilities
	LogLevel     Level

	// Headers are the header parameters of the called tool, from its list entry. The client stores
	// them for [Client.Headers].
	Headers []HeaderParam
}

// Invoke calls a method and returns its raw result. It is for programs that pass the messages of
// another client on: questions in a result are returned and not answered, and a task is not waited
// for. params is an object without _meta, inputResponses and requestState, or nil.
func (c *Client) Invoke(ctx context.Context, method string, params jsonrpc.Raw, o *InvokeOptions) (jsonrpc.Raw, error) {
	if c.link == nil {
		return nil, jsonrpc.ErrClosed
	}
	if o == nil {
		o = &InvokeOptions{}
	}
	if params == nil {
		params = empty
	}
	if !isObject(params) {
		return nil, fmt.Errorf("mcp: params must be an object, not %.20q", params)
	}
	if len(o.Headers) > 0 && method == MethodToolsCall {
		if name, ok := textOf(lastMember(params, "name")); ok {
			c.mu.Lock()
			c.learnHeadersLocked(name, o.Headers)
			c.mu.Unlock()
		}
	}
	var raw jsonrpc.Raw
	item := jsonrpc.Item{Method: method, Result: &raw}
	var token jsonrpc.Raw
	if o.Progress != nil || o.Log != nil {
		item.ID = jsonrpc.StringID("p" + strconv.FormatUint(c.ids.Add(1), 10))
		if o.Progress != nil {
			token = jsonrpc.Raw(item.ID.String())
		}
		about := &CallOptions{Progress: o.Progress, Log: o.Log}
		item.On = func(req *jsonrpc.Request) error { c.about(req, about); return nil }
	}
	switch {
	case !c.Version().Modern():
		item.Params = legacyParams(params, token, o.Meta)
	default:
		item.Params = c.invokeParams(params, token, o)
	}
	if err := c.link.Do(ctx, &item); err != nil {
		return nil, err
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("%w: the result is not an object", ErrUnknownResult)
	}
	return raw, nil
}

// invokeParams returns the params of a call of [Client.Invoke] at a modern server.
func (c *Client) invokeParams(params, token jsonrpc.Raw, o *InvokeOptions) jsonrpc.Raw {
	var out jsonrpc.Raw
	if o.Capabilities == nil && o.LogLevel == LevelNone {
		out = c.modernParams(params, token, o.Meta)
	} else {
		caps := c.capabilities(c.Version())
		if o.Capabilities != nil {
			caps = *o.Capabilities
		}
		level := o.LogLevel
		if level == LevelNone {
			c.mu.Lock()
			level = c.opts.LogLevel
			c.mu.Unlock()
		}
		out = append(appendMeta(c.envelopeFor(c.Version(), caps, level), token, o.Meta), '}')
		if len(params) > 2 {
			out = append(append(out, ','), params[1:]...)
		} else {
			out = append(out, '}')
		}
	}
	if o.InputResponses == nil && o.RequestState == nil {
		return out
	}
	out = bytes.Clone(out[:len(out)-1])
	if len(o.InputResponses) > 0 {
		out = append(append(out, `,"inputResponses":`...), mustEncode(o.InputResponses)...)
	}
	if o.RequestState != nil {
		out = append(append(out, `,"requestState":`...), o.RequestState...)
	}
	return append(out, '}')
}

// A RawInputRequired is a result that asks questions, with the raw value of its state.
type RawInputRequired struct {
	InputRequests map[string]InputRequest
	RequestState  jsonrpc.Raw // nil without one
}

// ParseInputRequired returns the questions of a result of [Client.Invoke], or nil if the result is
// not of the type input_required. A result with more than 100 questions, or with neither a question
// nor a state, is an error.
func ParseInputRequired(result jsonrpc.Raw) (*RawInputRequired, error) {
	if !bytes.Contains(result, resultTypeMember) || resultType(result) != ResultInputRequired {
		return nil, nil
	}
	q := &RawInputRequired{RequestState: lastMember(result, "requestState").Clone()}
	if asked := lastMember(result, "inputRequests"); asked != nil && asked.Decode(&q.InputRequests) != nil {
		return nil, fmt.Errorf("%w: inputRequests is malformed", ErrUnknownResult)
	}
	switch {
	case len(q.InputRequests) > maxQuestions:
		return nil, fmt.Errorf("%w: %d questions in one response", ErrTooManyRounds, len(q.InputRequests))
	case len(q.InputRequests) == 0 && q.RequestState == nil:
		return nil, fmt.Errorf("%w: it has no question", ErrUnknownResult)
	}
	return q, nil
}
