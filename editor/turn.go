package editor

import (
	"bytes"
	"context"
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Turn is one prompt of the user and all that the agent does about it, up to the answer. What is sent through it leaves before
// the answer; after that it returns [jsonrpc.ErrAnswered].
type Turn struct {
	*Session
	Prompt []Content
	Params *PromptParams

	// Result may be changed, to add to the answer.
	Result PromptResult
}

// Text returns the text of the prompt; see [TextOf].
func (t *Turn) Text() string { return TextOf(t.Prompt) }

// mostAnnounced bounds the prompts that were read and have not begun.
const mostAnnounced = 2048

// note sees a payload before it is handled, on the goroutine that reads.
func (s *side) note(payload []byte) {
	if !bytes.Contains(payload, []byte(MethodPrompt)) {
		return
	}
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // what is wrong with it is found again
		if !m.Request || m.Method != MethodPrompt || m.ID.IsZero() || m.Params == nil {
			return
		}
		var in sessionRef
		if m.Params.Decode(&in) != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.announced) >= mostAnnounced { // of which most were refused for want of room
			clear(s.announced)
		}
		s.announced[m.ID] = &turn{session: in.SessionID, over: make(chan struct{})}
	})
}

// begin makes a turn of a prompt. It fails when the session has one already.
func (s *side) begin(id jsonrpc.ID, sessionID string, cancel context.CancelCauseFunc) (*session, *turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.announced[id]
	delete(s.announced, id)
	if t == nil {
		t = &turn{session: sessionID, over: make(chan struct{})}
	}
	n := s.sessions[sessionID]
	switch {
	case n == nil:
		return nil, nil, noSession(sessionID)
	case n.turn != nil:
		return nil, nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session has a turn that is not over")
	}
	n.turn, t.cancel = t, cancel
	if t.cancelled {
		cancel(ErrTurnCancelled)
	}
	return n, t, nil
}

// end lets the next turn of the session begin, and reports whether this one was cancelled.
func (s *side) end(n *session, t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.turn = nil
	return t.cancelled
}

// stop cancels the turn of a session, and those of its prompts that have not begun. It returns the one that runs, nil for none.
func (s *side) stop(sessionID string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.announced {
		if t.session == sessionID {
			t.cancelled = true
		}
	}
	if n := s.sessions[sessionID]; n != nil && n.turn != nil {
		n.turn.cancelled = true
		n.turn.cancel(ErrTurnCancelled)
		return n.turn
	}
	return nil
}

// abandon ends all turns: nobody will hear of them.
func (s *side) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sessions {
		if n.turn != nil {
			n.turn.cancel(jsonrpc.ErrClosed)
		}
	}
}

// cancelTurn hears session/cancel, on the goroutine that reads.
func (s *side) cancelTurn(req *jsonrpc.Request) error {
	var in SessionParams
	if err := decode(req, &in); err != nil {
		return err
	}
	s.stop(in.SessionID)
	return nil
}

// prompt does one turn (Agent Client Protocol v1, Prompt Turn). A cancelled one is answered with that reason, not with an error.
func (s *side) prompt(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var in PromptParams
	bad := decode(req, &in)
	n, t, err := s.begin(req.ID, in.SessionID, cancel)
	if bad != nil {
		err = bad
	}
	if err != nil {
		if n != nil {
			s.end(n, t)
		}
		return nil, err
	}
	req.After(func() { close(t.over) })
	turn := &Turn{Session: s.view(e, n, req), Prompt: in.Prompt, Params: &in}
	var reason StopReason
	if f := s.agent.opts.Prompt; f != nil {
		reason, err = s.runTurn(ctx, f, turn, n, t)
	}
	cancelled := s.end(n, t) || errors.Is(context.Cause(ctx), jsonrpc.ErrPeerCancelled)
	switch {
	case cancelled:
		reason = Cancelled
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrTurnCancelled) && s.agent.opts.Report != nil {
			s.agent.opts.Report("cancelled turn", err)
		}
	case err != nil:
		return nil, err
	case reason == "":
		reason = EndTurn
	}
	turn.Result.StopReason = reason
	return &turn.Result, nil
}

// runTurn calls the agent's function, and ends the turn when that panics.
func (s *side) runTurn(ctx context.Context, f func(context.Context, *Turn) (StopReason, error), in *Turn, n *session, t *turn) (reason StopReason, err error) {
	done := false
	defer func() {
		if !done {
			s.end(n, t)
		}
	}()
	reason, err = f(ctx, in)
	done = true
	return reason, err
}
