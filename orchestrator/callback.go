package orchestrator

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// MethodAsk is the method that a plain JSON-RPC peer calls to put a question to the user while a
// step waits for the peer's response. It requires a bidirectional transport. Its params are an
// [Asked] and its result is an [Answered]. It has no deadline of its own; only the step's deadline
// applies, and the step's clock is paused meanwhile. If no user can answer, the response is the
// error -31006.
const MethodAsk = "ask"

// Asked holds the params of [MethodAsk].
type Asked struct {
	Text string `json:"text"`
	// Options holds the answers to choose from. If empty, any answer is valid.
	Options []agent.Option `json:"options,omitzero"`
	Form    jsonrpc.Raw    `json:"form,omitzero"` // a JSON Schema of an object with flat members

	// RequestID is the ID of the call that the question is about. It is optional while only one
	// call is running.
	RequestID jsonrpc.ID `json:"request_id,omitzero"`
}

// Answered is the result of [MethodAsk].
type Answered struct {
	Text     string      `json:"text"`
	Option   string      `json:"option,omitzero"` // the ID of the chosen option
	Value    jsonrpc.Raw `json:"value,omitzero"`  // the submitted form
	Declined bool        `json:"declined,omitzero"`
}

// calls tracks the calls to a peer of plain methods, which may ask questions during a call.
type calls struct {
	caller doer
	failed func() error // returns why the connection ended; nil if it cannot end

	mu   sync.Mutex // guards the fields below
	last int64      // the ID of the last call
	open map[int64]asker
}

// A doer sends a message and, if it is a call, waits for its response: a [jsonrpc.Conn] or a client
// of the root package.
type doer interface {
	Do(ctx context.Context, item *jsonrpc.Item) error
}

// An asker is a running call, which may receive questions.
type asker struct {
	ctx context.Context
	by  agent.Caller
}

func (c *calls) err() error {
	if c.failed == nil {
		return nil
	}
	return c.failed()
}

// back returns the handler for calls from the peer: it handles MethodAsk and passes other methods
// to others, which may be nil.
func (c *calls) back(others jsonrpc.Handler, modes func(string) jsonrpc.Mode) (jsonrpc.Handler, func(string) jsonrpc.Mode) {
	if others == nil {
		others = &jsonrpc.Mux{}
	}
	ask := jsonrpc.Func(c.ask)
	handle := func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == MethodAsk {
			return ask.Handle(ctx, req)
		}
		return others.Handle(ctx, req)
	}
	mode := func(method string) jsonrpc.Mode {
		switch {
		case method == MethodAsk:
			return jsonrpc.Open
		case modes != nil:
			return modes(method)
		}
		return 0
	}
	return jsonrpc.HandlerFunc(handle), mode
}

// do makes a call with an ID by which the peer's questions refer to it.
func (c *calls) do(ctx context.Context, item *jsonrpc.Item, by agent.Caller) error {
	if item.Notify {
		return c.caller.Do(ctx, item)
	}
	c.mu.Lock()
	c.last++
	id := c.last
	if by != nil {
		if c.open == nil {
			c.open = map[int64]asker{}
		}
		c.open[id] = asker{ctx, by}
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.open, id)
		c.mu.Unlock()
	}()
	item.ID = jsonrpc.IntID(id)
	return c.caller.Do(ctx, item)
}

// whose returns the asker of the call that a question is about.
func (c *calls) whose(id jsonrpc.ID) (asker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case id.IsZero() && len(c.open) == 1:
		for _, one := range c.open {
			return one, nil
		}
	case id.IsZero() && len(c.open) > 1:
		return asker{}, wrongAsk("/request_id", "is required while several calls are active")
	case id.IsZero():
		return asker{}, wrongAsk("", "no call is active")
	}
	for known, one := range c.open {
		if id == jsonrpc.IntID(known) {
			return one, nil
		}
	}
	return asker{}, wrongAsk("/request_id", "is not an active call")
}

// wrongAsk returns the error for invalid params.
func wrongAsk(pointer, reason string) *jsonrpc.Error {
	// A struct of two strings always encodes.
	data, _ := jsonrpc.AppendValue(nil, jsonrpc.ParamFault{Pointer: pointer, Reason: reason})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: jsonrpc.ErrInvalidParams.Message, Data: data}
}

// ask puts a question to the user on behalf of the waiting step.
func (c *calls) ask(ctx context.Context, in Asked) (*Answered, error) {
	if in.Text == "" {
		return nil, wrongAsk("/text", "is empty")
	}
	who, err := c.whose(in.RequestID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(who.ctx, func() { cancel(context.Cause(who.ctx)) })()
	a, err := who.by.Ask(ctx, &agent.Question{Text: in.Text, Options: in.Options, Form: in.Form})
	if errors.Is(err, agent.ErrNoAnswer) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeUnavailable, Message: "No answer", Data: jsonrpc.Raw(`{"reason":"no_answer","retryable":false}`)}
	}
	if err != nil {
		return nil, err
	}
	return &Answered{Text: a.Text(), Option: a.Option, Value: a.Value, Declined: a.Declined}, nil
}
