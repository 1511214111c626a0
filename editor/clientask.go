package editor

import (
	"context"
	"errors"
	"io/fs"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// handle handles the requests and notifications of the agent.
func (c *Client) handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if len(req.Params) > 0 && req.Params[0] != '{' {
		return nil, invalidParams("params must be an object")
	}
	if isExtension(req.Method) {
		if c.opts.Extension == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		return c.opts.Extension(ctx, req)
	}
	switch req.Method {
	case NotifyUpdate:
		sessionID := sessionOf(req.Params)
		defer c.passedBy(sessionID)
		c.awaitSession(ctx, sessionID)
		return nil, c.hand(req, nil)
	case NotifyElicitationDone:
		var in ElicitDoneParams
		if err := decode(req, &in); err != nil {
			return nil, err
		}
		if c.opts.OnElicitationDone != nil {
			c.opts.OnElicitationDone(in.ElicitationID)
		}
		return nil, nil
	}
	c.awaitUpdates(ctx, sessionOf(req.Params))
	switch req.Method {
	case MethodRequestPermission:
		return c.permission(ctx, req)
	case MethodReadTextFile, MethodWriteTextFile:
		out, err := c.files(ctx, req)
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrResourceNotFound
		}
		return out, err
	case MethodElicit:
		return c.elicit(ctx, req)
	}
	if c.opts.Terminals != nil {
		return c.terminals(ctx, req)
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// awaitSession waits, before an update about an unknown session is handled, for calls that may
// return that session.
func (c *Client) awaitSession(ctx context.Context, sessionID string) {
	for {
		c.mu.Lock()
		known, opening, opened := c.sessions[sessionID] != nil, c.opening, c.opened
		c.mu.Unlock()
		if known || opening == 0 {
			return
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return
		}
	}
}

// awaitUpdates waits until all updates received for the session's turn so far were delivered,
// because the agent's next request may refer to them.
func (c *Client) awaitUpdates(ctx context.Context, sessionID string) {
	c.mu.Lock()
	v := c.sessions[sessionID]
	if v == nil {
		c.mu.Unlock()
		return
	}
	id, seen := v.id, v.seen
	for v.id == id && v.taken < seen {
		news := v.news
		c.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// permission handles session/request_permission.
func (c *Client) permission(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var in PermissionParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if in.SessionID == "" || in.ToolCall.ID == "" {
		return nil, invalidParams("sessionId and toolCall are required")
	}
	ctx, cancelled := c.duringTurn(ctx, in.SessionID)
	defer cancelled()
	if c.opts.Permission == nil {
		return reject(in.Options), nil
	}
	out, err := c.opts.Permission(ctx, &in)
	switch {
	case errors.Is(context.Cause(ctx), ErrTurnCancelled):
		return &PermissionResult{Outcome: PermissionOutcome{Outcome: OutcomeCancelled}}, nil
	case err == nil && out == nil:
		return reject(in.Options), nil
	}
	return out, err
}

// reject returns the first option that rejects.
func reject(options []PermissionOption) *PermissionResult {
	for _, kind := range []OptionKind{RejectOnce, RejectAlways} {
		for _, o := range options {
			if o.Kind == kind {
				return Select(o.ID)
			}
		}
	}
	return &PermissionResult{Outcome: PermissionOutcome{Outcome: OutcomeCancelled}}
}

// duringTurn returns a context that is also canceled when the turn of a session is cancelled.
func (c *Client) duringTurn(ctx context.Context, sessionID string) (context.Context, func()) {
	c.mu.Lock()
	var cancelled chan struct{}
	if v := c.sessions[sessionID]; v != nil {
		cancelled = v.cancelled
	}
	c.mu.Unlock()
	if cancelled == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-cancelled:
			cancel(ErrTurnCancelled)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-over }
}

// files handles fs/read_text_file and fs/write_text_file.
func (c *Client) files(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == MethodReadTextFile && c.opts.ReadTextFile != nil {
		var in ReadTextFileParams
		if err := decode(req, &in); err != nil {
			return nil, err
		}
		text, err := c.opts.ReadTextFile(ctx, &in)
		return &ReadTextFileResult{Content: text}, err
	}
	if req.Method == MethodWriteTextFile && c.opts.WriteTextFile != nil {
		var in WriteTextFileParams
		if err := decode(req, &in); err != nil {
			return nil, err
		}
		return empty, c.opts.WriteTextFile(ctx, &in)
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// elicit handles elicitation/create.
func (c *Client) elicit(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if c.opts.Elicit == nil {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var in ElicitParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if in.Mode == ElicitURL && !c.opts.ElicitURL || in.Mode == ElicitForm && in.RequestedSchema == nil {
		return nil, invalidParams("mode is not supported, or its content is missing")
	}
	ctx, cancelled := c.duringTurn(ctx, in.SessionID)
	defer cancelled()
	out, err := c.opts.Elicit(ctx, &in)
	if errors.Is(context.Cause(ctx), ErrTurnCancelled) || err == nil && out == nil {
		return &ElicitResult{Action: ActionCancel}, nil
	}
	return out, err
}

// terminals handles terminal/*.
func (c *Client) terminals(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == MethodCreateTerminal {
		var in CreateTerminalParams
		if err := decode(req, &in); err != nil {
			return nil, err
		}
		return c.opts.Terminals.Create(ctx, &in)
	}
	var in TerminalParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	switch req.Method {
	case MethodTerminalOutput:
		return c.opts.Terminals.Output(ctx, &in)
	case MethodWaitForExit:
		return c.opts.Terminals.Wait(ctx, &in)
	case MethodKillTerminal:
		return empty, c.opts.Terminals.Kill(ctx, &in)
	case MethodReleaseTerminal:
		return empty, c.opts.Terminals.Release(ctx, &in)
	}
	return nil, jsonrpc.ErrMethodNotFound
}
