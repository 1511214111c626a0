package editor

import (
	"bytes"
	"context"
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Turn is one prompt of the user and the agent's work on it, until the response. Messages sent
// through it are sent before the response; after that, its methods return [jsonrpc.ErrAnswered].
type Turn struct {
	*Session
	Prompt []Content
	Params *PromptParams

	// Result may be modified to add members to the response.
	Result PromptResult
}

// Text returns the text of the prompt; see [TextOf].
func (t *Turn) Text() string { return TextOf(t.Prompt) }

// Bounds of the received prompts that have not begun: their number, and the bytes of the two IDs of
// each. A cancel that overtakes a prompt with longer IDs has no effect on it.
const (
	mostAnnounced = 2048
	mostIDs       = 2 << 10
)

// note inspects a payload before it is handled, on the reader goroutine.
func (s *side) note(payload []byte) {
	if !bytes.Contains(payload, []byte(MethodPrompt)) {
		return
	}
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // errors in it are reported later
		if !m.Request || m.Method != MethodPrompt || m.ID.IsZero() || m.Params == nil {
			return
		}
		var in sessionRef
		if m.Params.Decode(&in) != nil || len(in.SessionID)+len(m.ID.String()) > mostIDs {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		// most of them were rejected because the queue was full
		if len(s.announced) >= mostAnnounced {
			clear(s.announced)
		}
		s.announced[m.ID] = &turn{session: in.SessionID, over: make(chan struct{})}
	})
}

// startTurn creates the turn of a prompt. It returns an error if the session already has a turn.
func (s *side) startTurn(id jsonrpc.ID, sessionID string, cancel context.CancelCauseFunc) (*session, *turn, error) {
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
		return nil, nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session already has a turn")
	}
	n.turn, t.cancel = t, cancel
	if t.cancelled {
		cancel(ErrTurnCancelled)
	}
	return n, t, nil
}

// endTurn removes the turn, so that the next one can begin, and reports whether it was cancelled.
func (s *side) endTurn(n *session, t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.turn = nil
	return t.cancelled
}

// stopTurn cancels the turn of a session, and those of its prompts that have not begun. It returns
// the running turn, or nil.
func (s *side) stopTurn(sessionID string) *turn {
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

// abandon cancels all turns, because the connection is closed.
func (s *side) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sessions {
		if n.turn != nil {
			n.turn.cancel(jsonrpc.ErrClosed)
		}
	}
}

// cancelTurn handles session/cancel, on the reader goroutine.
func (s *side) cancelTurn(req *jsonrpc.Request) error {
	var in SessionParams
	if err := decode(req, &in); err != nil {
		return err
	}
	s.stopTurn(in.SessionID)
	return nil
}

// prompt executes one turn (Agent Client Protocol v1, Prompt Turn). The response to a cancelled
// turn has that stop reason and is not an error.
func (s *side) prompt(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var in PromptParams
	bad := decode(req, &in)
	n, t, err := s.startTurn(req.ID, in.SessionID, cancel)
	if bad != nil {
		err = bad
	}
	if err != nil {
		if n != nil {
			s.endTurn(n, t)
		}
		return nil, err
	}
	req.After(func() { close(t.over) })
	turn := &Turn{Session: s.view(e, n, req), Prompt: in.Prompt, Params: &in}
	var reason StopReason
	if f := s.agent.opts.Prompt; f != nil {
		reason, err = s.runTurn(ctx, f, turn, n, t)
	}
	cancelled := s.endTurn(n, t) || errors.Is(context.Cause(ctx), jsonrpc.ErrPeerCancelled)
	switch {
	case cancelled:
		reason = Cancelled
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrTurnCancelled) {
			s.agent.opts.Report(ReportCancelledTurn, err)
		}
	case err != nil:
		return nil, err
	case reason == "":
		reason = EndTurn
	}
	turn.Result.StopReason = reason
	return &turn.Result, nil
}

// runTurn calls the agent's function, and ends the turn if the function panics.
func (s *side) runTurn(ctx context.Context, f func(context.Context, *Turn) (StopReason, error), in *Turn, n *session, t *turn) (reason StopReason, err error) {
	done := false
	defer func() {
		if !done {
			s.endTurn(n, t)
		}
	}()
	reason, err = f(ctx, in)
	done = true
	return reason, err
}
