package editor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// NewSession creates a session. OnUpdate receives the session's updates after the response, and
// none before it.
func (c *Client) NewSession(ctx context.Context, p *NewSessionParams) (*NewSessionResult, error) {
	done := c.openTurn()
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

// openTurn registers a call that returns a session. Updates about unknown sessions wait until done
// is called.
func (c *Client) openTurn() (done func(sessionID string)) {
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

// conversation returns the state of a session. The caller must hold the lock.
func (c *Client) conversation(sessionID string) *conversation {
	v := c.sessions[sessionID]
	if v == nil {
		v = &conversation{news: make(chan struct{})}
		c.sessions[sessionID] = v
	}
	return v
}

// LoadSession loads a session. on is called with its past messages, in order, before LoadSession
// returns. If on is nil, OnUpdate receives them.
func (c *Client) LoadSession(ctx context.Context, p *LoadSessionParams, on func(*Update) error) (*LoadSessionResult, error) {
	if !c.agent.AgentCapabilities.LoadSession {
		return nil, ErrNotSupported
	}
	out := new(LoadSessionResult)
	return out, c.streamUpdates(ctx, MethodLoadSession, p.SessionID, p, out, on)
}

// ResumeSession continues a session without its past messages.
func (c *Client) ResumeSession(ctx context.Context, p *LoadSessionParams) (*LoadSessionResult, error) {
	if c.agent.AgentCapabilities.SessionCapabilities.Resume == nil {
		return nil, ErrNotSupported
	}
	out := new(LoadSessionResult)
	return out, c.streamUpdates(ctx, MethodResumeSession, p.SessionID, p, out, nil)
}

// Prompt executes one turn and returns its result. on is called with the updates of the turn in the
// order of arrival, on the caller's goroutine, with the last before Prompt returns; an error from
// it cancels the turn. If on is nil, OnUpdate receives the updates.
//
// If ctx is canceled, Prompt cancels the turn with session/cancel, and waits for the agent's
// response for at most CancelWait. It returns ctx's cause, together with the result if there is
// one. A session has one turn at a time; for another one, the error is ErrBusy.
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
	var refused error // error from on
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
			return nil // the turn continues to its end; Prompt returns refused
		}
	}
	out := new(PromptResult)
	err := c.streamUpdates(wait, MethodPrompt, p.SessionID, p, out, take)
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

// Cancel requests the agent to end the turn of a session. Pending requests for permission get the
// outcome "cancelled". The turn ends when Prompt returns.
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

// streamUpdates makes a call that receives the updates of its session.
func (c *Client) streamUpdates(ctx context.Context, method, sessionID string, params, result any, on func(*Update) error) error {
	id := jsonrpc.IntID(c.ids.Add(1))
	c.mu.Lock()
	v := c.conversation(sessionID)
	v.id, v.seen, v.taken = id, 0, 0
	c.mu.Unlock()
	err := c.doCall(ctx, method, params, result, id, func(req *jsonrpc.Request) error {
		defer c.took(v, id)
		return c.hand(req, on)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.id == id {
		v.id = jsonrpc.ID{}
		close(v.news) // no updates are delivered to this call from here on
		v.news = make(chan struct{})
	}
	return err
}

// hand delivers an update to its receiver.
func (c *Client) hand(req *jsonrpc.Request, on func(*Update) error) error {
	var in UpdateParams
	bad := req.Params.Decode(&in) != nil || in.Update == nil
	switch {
	case bad:
		c.report(ReportUpdate, fmt.Errorf("editor: not a valid update: %.200s", req.Params))
	case on != nil:
		return on(in.Update)
	case c.opts.OnUpdate != nil:
		c.opts.OnUpdate(&in)
	}
	return nil
}

// took counts a delivered update.
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

// related returns the id of the call that receives an update. It is called on the reader goroutine,
// in wire order.
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

// passedBy counts an update that the Handler received. related has counted it if the call was not
// in the table yet, as with updates about a new session while the first prompt is being sent.
// Earlier updates are those in early, which are handled first.
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

// sessionOf returns the sessionId of params, which is usually the first member.
func sessionOf(params jsonrpc.Raw) string {
	if rest, ok := bytes.CutPrefix(params, []byte(`{"sessionId":"`)); ok {
		if id, _, ok := bytes.Cut(rest, []byte{'"'}); ok && bytes.IndexByte(id, '\\') < 0 {
			return string(id)
		}
	}
	var in sessionRef
	_ = params.Decode(&in) // the decoder of the other params reports errors
	return in.SessionID
}

func (c *Client) report(what string, err error) {
	report.Call(c.opts.Report, "editor", what, err)
}

// Knows reports whether this client has created, loaded or resumed a session, and has not closed
// it.
func (c *Client) Knows(sessionID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[sessionID] != nil
}
