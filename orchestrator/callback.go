package orchestrator

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// MethodAsk is what a peer of plain JSON-RPC methods calls, while a step waits for one of its answers, to put a question to the
// person, over a carrier on which both sides speak. Its params are an [Asked], its result is an [Answered]. It has no deadline but
// that of the step, whose time stands still. It is answered with -31006 when nobody is there.
const MethodAsk = "ask"

// Asked are the params of [MethodAsk].
type Asked struct {
	Text    string         `json:"text"`
	Options []agent.Option `json:"options,omitzero"` // the answers to choose from; none: any
	Form    jsonrpc.Raw    `json:"form,omitzero"`    // a JSON Schema of an object with flat members

	// RequestID is the id of the call that the question is about. It may be left out while there is only one.
	RequestID jsonrpc.ID `json:"request_id,omitzero"`
}

// Answered is the result of [MethodAsk].
type Answered struct {
	Text     string      `json:"text"`
	Option   string      `json:"option,omitzero"` // the id of the one that was chosen
	Value    jsonrpc.Raw `json:"value,omitzero"`  // what was filled into the form
	Declined bool        `json:"declined,omitzero"`
}

// calls are those to a peer of plain methods, which may ask something while one is under way.
type calls struct {
	caller doer
	failed func() error // why the conversation ended; nil: it cannot

	mu   sync.Mutex // guards what follows
	last int64      // the id of the last call
	open map[int64]asker
}

// A doer sends a message, and waits for its answer if it is a call: a [jsonrpc.Conn] or a client of the module's root.
type doer interface {
	Do(ctx context.Context, item *jsonrpc.Item) error
}

// An asker is who waits for a call.
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

// back answers what the peer calls: a question, and what others, if any, have been set up for.
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

// do makes a call under an id that its questions find it by.
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

// whose returns who waits for the call that a question is about.
func (c *calls) whose(id jsonrpc.ID) (asker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case id.IsZero() && len(c.open) == 1:
		for _, one := range c.open {
			return one, nil
		}
	case id.IsZero() && len(c.open) > 1:
		return asker{}, wrongAsk("/request_id", "is needed while several calls are under way")
	case id.IsZero():
		return asker{}, wrongAsk("", "no call is under way")
	}
	for known, one := range c.open {
		if id == jsonrpc.IntID(known) {
			return one, nil
		}
	}
	return asker{}, wrongAsk("/request_id", "names no call that is under way")
}

// wrongAsk is the answer to params that are not as they should be.
func wrongAsk(pointer, reason string) *jsonrpc.Error {
	data, _ := jsonrpc.AppendValue(nil, jsonrpc.ParamFault{Pointer: pointer, Reason: reason}) // two texts always have a JSON form
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: jsonrpc.ErrInvalidParams.Message, Data: data}
}

// ask puts a question to the person, by way of the step that waits.
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
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeUnavailable, Message: "Nobody answers", Data: jsonrpc.Raw(`{"reason":"no_answer","retryable":false}`)}
	}
	if err != nil {
		return nil, err
	}
	return &Answered{Text: a.Text(), Option: a.Option, Value: a.Value, Declined: a.Declined}, nil
}
