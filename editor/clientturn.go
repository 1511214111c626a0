package editor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// NewSession begins a conversation. OnUpdate gets what the agent tells about it from now on, and nothing before the answer came.
func (c *Client) NewSession(ctx context.Context, p *NewSessionParams) (*NewSessionResult, error) {
	done := c.open()
	out := new(NewSessionResult)
	err := c.Call(ctx, MethodNewSession, p, out)
	if err == nil && out.SessionID == "" {
		err = fmt.Errorf("editor: session/new: %w: no sessionId", jsonrpc.ErrBadResponse)
	}
	if err != nil {
		done("")
		return nil, err
	}
	done(out.SessionID)
	return out, nil
}

// open announces a call that will name a session. Until done was called, updates about sessions that nobody knows wait.
func (c *Client) open() (done func(sessionID string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening++
	return func(sessionID string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opening--
		if sessionID != "" {
			c.conversation(sessionID)
		}
		close(c.opened)
		c.opened = make(chan struct{})
	}
}

// conversation returns what is kept of a session. The lock is held.
func (c *Client) conversation(sessionID string) *conversation {
	v := c.sessions[sessionID]
	if v == nil {
		v = &conversation{news: make(chan struct{})}
		c.sessions[sessionID] = v
	}
	return v
}

// LoadSession goes on with a conversation. on gets what was said in it, in order, before LoadSession returns; nil leaves it to OnUpdate.
func (c *Client) LoadSession(ctx context.Context, p *LoadSessionParams, on func(*Update) error) (*LoadSessionResult, error) {
	if !c.agent.AgentCapabilities.LoadSession {
		return nil, ErrNotSupported
	}
	out := new(LoadSessionResult)
	return out, c.stream(ctx, MethodLoadSession, p.SessionID, p, out, on)
}

// ResumeSession goes on with a conversation without hearing what was said in it.
func (c *Client) ResumeSession(ctx context.Context, p *LoadSessionParams) (*LoadSessionResult, error) {
	if c.agent.AgentCapabilities.SessionCapabilities.Resume == nil {
		return nil, ErrNotSupported
	}
	out := new(LoadSessionResult)
	return out, c.stream(ctx, MethodResumeSession, p.SessionID, p, out, nil)
}

// Prompt does one turn and returns its end. on gets the updates of the turn in the order they came, on the caller's goroutine, the last before
// Prompt returns; an error from it cancels the turn. A nil on leaves them to OnUpdate.
//
// When ctx ends, the turn is cancelled by session/cancel, and Prompt waits for the agent's answer for at most CancelWait. It returns
// ctx's cause, and the result beside it if there was one. A session has one turn at a time: ErrBusy.
func (c *Client) Prompt(ctx context.Context, p *PromptParams, on func(*Update) error) (*PromptResult, error) {
	c.mu.Lock()
	v := c.conversation(p.SessionID)
	if v.cancelled != nil {
		c.mu.Unlock()
		return nil, ErrBusy
	}
	v.cancelled = make(chan struct{})
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		v.cancelled = nil
		c.mu.Unlock()
	}()

	wait, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	var refused error // by on
	stop := func(cause error) {
		if err := c.Cancel(context.WithoutCancel(ctx), p.SessionID); err != nil {
			giveUp(cause)
			return
		}
		late, cancel := context.WithTimeoutCause(wait, c.opts.CancelWait, cause)
		context.AfterFunc(late, func() { giveUp(context.Cause(late)); cancel() })
	}
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	take := on
	if on != nil {
		take = func(u *Update) error {
			if refused == nil {
				if refused = on(u); refused != nil {
					stop(refused)
				}
			}
			return nil // the turn goes on to its end; refused is for the caller
		}
	}
	out := new(PromptResult)
	err := c.stream(wait, MethodPrompt, p.SessionID, p, out, take)
	switch {
	case err != nil:
		out = nil
		if refused != nil {
			err = errors.Join(refused, err)
		}
	case refused != nil:
		err = refused
	case ctx.Err() != nil && out.StopReason == Cancelled:
		err = context.Cause(ctx)
	}
	return out, err
}

// Cancel asks the agent to end the turn of a session, and answers the questions that wait for the user with "cancelled". The turn ends when Prompt returns.
func (c *Client) Cancel(ctx context.Context, sessionID string) error {
	err := c.conn.Notify(ctx, NotifyCancel, SessionParams{SessionID: sessionID})
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.sessions[sessionID]; v != nil && v.cancelled != nil && !closed(v.cancelled) {
		close(v.cancelled)
	}
	return err
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stream makes a call that takes the updates of its session.
func (c *Client) stream(ctx context.Context, method, sessionID string, params, result any, on func(*Update) error) error {
	id := jsonrpc.IntID(c.ids.Add(1))
	c.mu.Lock()
	v := c.conversation(sessionID)
	v.id, v.seen, v.taken = id, 0, 0
	c.mu.Unlock()
	err := c.do(ctx, method, params, result, id, func(req *jsonrpc.Request) error {
		defer c.took(v, id)
		return c.hand(req, on)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.id == id {
		v.id = jsonrpc.ID{}
		close(v.news) // nobody waits for this call any more
		v.news = make(chan struct{})
	}
	return err
}

// hand gives an update to whoever takes it.
func (c *Client) hand(req *jsonrpc.Request, on func(*Update) error) error {
	var in UpdateParams
	bad := req.Params.Decode(&in) != nil || in.Update == nil
	switch {
	case bad:
		c.report("update", fmt.Errorf("editor: an update that is none: %.200s", req.Params))
	case on != nil:
		return on(in.Update)
	case c.opts.OnUpdate != nil:
		c.opts.OnUpdate(&in)
	}
	return nil
}

// took counts an update that was handed over.
func (c *Client) took(v *conversation, id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.id != id {
		return
	}
	v.taken++
	close(v.news)
	v.news = make(chan struct{})
}

// related tells which call takes an update. It is called on the goroutine that reads, in wire order.
func (c *Client) related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	if req.Method != NotifyUpdate {
		return jsonrpc.ID{}, false
	}
	sessionID := sessionOf(req.Params)
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.sessions[sessionID]
	if v == nil || v.id.IsZero() {
		if c.early == nil {
			c.early = map[string]int{}
		}
		c.early[sessionID]++
		return jsonrpc.ID{}, false
	}
	v.seen++
	return v.id, true
}

// passedBy counts an update that the Handler got. It is one that related has counted if the call was not in the table yet, as for what an
// agent says of a new session while the first prompt goes out; those that came before are told by early, which are handled first.
func (c *Client) passedBy(sessionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.early[sessionID]; n > 1 {
		c.early[sessionID] = n - 1
		return
	} else if n == 1 {
		delete(c.early, sessionID)
		return
	}
	if v := c.sessions[sessionID]; v != nil && !v.id.IsZero() {
		v.taken++
		close(v.news)
		v.news = make(chan struct{})
	}
}

// sessionOf returns the sessionId of params, which mostly comes first.
func sessionOf(params jsonrpc.Raw) string {
	if rest, ok := bytes.CutPrefix(params, []byte(`{"sessionId":"`)); ok {
		if id, _, ok := bytes.Cut(rest, []byte{'"'}); ok && bytes.IndexByte(id, '\\') < 0 {
			return string(id)
		}
	}
	var in sessionRef
	_ = params.Decode(&in) // whoever reads the rest finds what is wrong
	return in.SessionID
}

func (c *Client) report(what string, err error) {
	if c.opts.Report != nil {
		c.opts.Report(what, err)
	}
}

// Knows reports whether a session was begun, loaded or resumed by this client, and not closed.
func (c *Client) Knows(sessionID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[sessionID] != nil
}
