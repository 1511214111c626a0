package a2a

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Run is an agent's side of one task: what it is asked, and how it says what comes of it. It is safe for concurrent use. Its methods
// return [ErrTaskOver] once the task is over, and the cause of ctx if that ends first.
type Run struct {
	Message       *Message      // what the agent is asked; it belongs to all, and must not be changed
	Configuration Configuration // of that message
	Metadata      Metadata      // of that request
	Extensions    []string      // which the caller wants to use, and the card names
	Principal     string        // who calls
	Tenant        string

	TaskID    string
	ContextID string

	w      *work
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Grace is how long an agent may think before its work becomes a task; after that [Run.Reply] answers with a completed task. Callers
// that stream, or do not wait, hear nothing before.
const grace = 250 * time.Millisecond

// Task returns the task as it is now. Its slices must not be changed.
func (r *Run) Task() Task {
	t, _ := r.w.snapshot()
	return t
}

// Reply answers with a message and makes no task, if the agent has said nothing yet; that is for small talk. Later it completes the task with
// the message. Reply is the last thing that an agent says.
func (r *Run) Reply(ctx context.Context, parts ...Part) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w := r.w
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	if !w.shown && w.reply == nil && w.refusal == nil {
		w.reply = &Message{MessageID: newID(), ContextID: r.ContextID, Role: RoleAgent, Parts: parts}
		w.signalLocked()
		w.mu.Unlock()
		return nil
	}
	shown := w.shown
	w.mu.Unlock()
	if !shown {
		return ErrTaskOver
	}
	return w.emitOrdered(ctx, w.status(StateCompleted, parts, nil))
}

// Status gives the task another state; the parts, if any, are what the agent says about it.
func (r *Run) Status(ctx context.Context, state TaskState, parts ...Part) error {
	return r.Update(ctx, state, nil, parts...)
}

// Update is Status with metadata.
func (r *Run) Update(ctx context.Context, state TaskState, metadata Metadata, parts ...Part) error {
	if err := context.Cause(ctx); err != nil && !state.Terminal() {
		return err
	}
	return r.w.emit(ctx, r.w.status(state, parts, metadata))
}

// Working says that the agent is at it, and how far.
func (r *Run) Working(ctx context.Context, parts ...Part) error {
	return r.Status(ctx, StateWorking, parts...)
}

// Artifact brings a result. One without an ArtifactID gets one; the id of one that came before replaces that.
func (r *Run) Artifact(ctx context.Context, a Artifact) error {
	return r.Chunk(ctx, a, false, true)
}

// Chunk brings a piece of a result: more adds its parts to what has come under its ArtifactID, and last says that nothing follows.
func (r *Run) Chunk(ctx context.Context, a Artifact, more, last bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if a.ArtifactID == "" {
		a.ArtifactID = newID()
	}
	return r.w.emit(ctx, Event{Artifact: &ArtifactUpdate{TaskID: r.TaskID, ContextID: r.ContextID, Artifact: a, Append: more, LastChunk: last}})
}

// Ask puts a question and waits for the caller's next message. The task rests meanwhile, for as long as it takes; a message that has come
// already is the answer.
func (r *Run) Ask(ctx context.Context, parts ...Part) (*Message, error) {
	return r.ask(ctx, StateInputRequired, parts)
}

// AskAuth is Ask for a permission or a credential, which the caller gives elsewhere; its next message says that it has.
func (r *Run) AskAuth(ctx context.Context, parts ...Part) (*Message, error) {
	return r.ask(ctx, StateAuthRequired, parts)
}

func (r *Run) ask(ctx context.Context, state TaskState, parts []Part) (*Message, error) {
	w := r.w
	w.mu.Lock()
	m := w.takeLocked()
	w.mu.Unlock()
	if m != nil {
		return m, nil
	}
	if err := r.Status(ctx, state, parts...); err != nil {
		return nil, err
	}
	var over bool
	err := w.await(ctx, func() bool {
		if over = w.task.Status.State.Terminal(); !over {
			m = w.takeLocked()
		}
		return over || m != nil
	})
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, ErrTaskOver
	}
	return m, nil
}

// startLocked begins to work on what is in the inbox, on a goroutine of the server.
func (s *Server) startLocked(w *work, req *SendRequest, svc Service) {
	ctx, cancel := context.WithCancelCause(s.base)
	r := &Run{Message: w.takeLocked(), Metadata: req.Metadata, Extensions: s.Activated(svc.Extensions), Principal: svc.Principal,
		Tenant: req.Tenant, TaskID: w.id, ContextID: w.task.ContextID, w: w, cancel: cancel}
	if req.Configuration != nil {
		r.Configuration = *req.Configuration
	}
	w.run = r
	if !w.shown {
		r.timer = time.AfterFunc(grace, func() { _ = w.show(ctx) }) // it may be a message by now
	}
	s.running.Add(1)
	s.serving.Go(func() {
		defer s.running.Add(-1)
		err := s.call(ctx, r)
		cause := context.Cause(ctx)
		cancel(nil)
		if r.timer != nil {
			r.timer.Stop()
		}
		s.conclude(w, r, req, svc, err, cause)
	})
}

// call runs the agent, whose panic is an error.
func (s *Server) call(ctx context.Context, r *Run) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("a2a: the agent panicked: %v\n%s", value, debug.Stack())
		}
	}()
	return s.agent.Run(ctx, r)
}

// conclude makes of what an agent returned what becomes of the task.
func (s *Server) conclude(w *work, r *Run, req *SendRequest, svc Service, err, cause error) {
	ctx := context.WithoutCancel(s.base)
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	shown, replied := w.shown, w.reply != nil
	state := w.task.Status.State
	refusal, refused := errors.AsType[*jsonrpc.Error](err)
	if !shown && refused && !replied {
		w.refusal = refusal
	}
	w.mu.Unlock()
	if replied || !shown && refused {
		w.mu.Lock()
		w.run = nil
		hooks := len(w.hooks)
		w.signalLocked()
		w.mu.Unlock()
		if hooks > 0 {
			s.unhook(w) // there is no task to tell of
		}
		return
	}
	if end, ok := ending(err, cause, state); ok {
		if err := w.showOrdered(ctx); err != nil {
			s.report("task "+w.id, err)
		}
		if end.private != nil {
			s.report("task "+w.id, end.private)
		}
		if err := w.emitOrdered(ctx, w.status(end.state, end.parts, nil)); err != nil && !errors.Is(err, ErrTaskOver) {
			s.report("task "+w.id, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = nil
	if len(w.inbox) > 0 && !w.task.Status.State.Terminal() {
		s.startLocked(w, req, svc)
	}
	w.signalLocked()
}

// An end is the last status of a task.
type end struct {
	state   TaskState
	parts   []Part
	private error
}

// ending decides how a task ends; ok is false if it does not.
func ending(err, cause error, state TaskState) (e end, ok bool) {
	failure, failed := errors.AsType[*Failure](err)
	switch {
	case state.Terminal():
		return end{private: err}, false
	case failed:
		if failure.State == "" {
			return end{state: StateFailed, parts: failure.Parts}, true
		}
		return end{state: failure.State, parts: failure.Parts}, true
	case errors.Is(cause, ErrCanceled):
		return end{state: StateCanceled}, true
	case errors.Is(cause, errStopping):
		return end{state: StateFailed, parts: []Part{Text("The agent was stopped.")}}, true
	case err != nil:
		return end{state: StateFailed, parts: []Part{Text("The agent failed.")}, private: err}, true
	case state.Interrupted():
		return end{}, false
	}
	return end{state: StateCompleted}, true
}
