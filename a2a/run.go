package a2a

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Run is an agent's view of one task: its input, and the methods that report progress and
// results. It is safe for concurrent use. Its methods return [ErrTaskOver] once the task is over,
// and the cause of ctx if ctx is canceled before that.
type Run struct {
	Message       *Message      // the input; it is shared and must not be changed
	Configuration Configuration // of that message
	Metadata      Metadata      // of that request
	Extensions    []string      // requested by the caller and listed in the card
	Principal     string        // identifies the caller
	Tenant        string

	TaskID    string
	ContextID string

	w      *work
	cancel context.CancelCauseFunc
	timer  *time.Timer
	replay *replay // nil unless the run repeats one of an earlier process; guarded by w.mu
}

// emit adds one event to the task, unless the run repeats one of an earlier process that already
// sent it.
func (r *Run) emit(ctx context.Context, e Event, asked string) error {
	r.w.mu.Lock()
	hidden, err := r.replay.hidesLocked(e.State().Terminal())
	r.w.mu.Unlock()
	if hidden {
		return err
	}
	return r.w.emitAsked(ctx, e, asked)
}

// settleTime is how long an agent may run before its work becomes a task; after that, [Run.Reply]
// completes the task with the message. Until then, callers that stream or do not wait receive
// nothing.
const settleTime = 250 * time.Millisecond

// Task returns a snapshot of the task. Its slices must not be changed.
func (r *Run) Task() Task {
	t, _ := r.w.snapshot()
	return t
}

// Reply responds with a message and creates no task if the agent has emitted nothing yet; use it
// for short conversational replies. Otherwise it completes the task with the message. Reply must be
// the agent's last call.
func (r *Run) Reply(ctx context.Context, parts ...Part) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w := r.w
	w.mu.Lock()
	_, err := r.replay.hidesLocked(true)
	w.mu.Unlock()
	if err != nil {
		return err
	}
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
	return w.emitOrdered(ctx, w.status(StateCompleted, parts, nil), "")
}

// Status sets the state of the task. The parts, if any, are the agent's message about it.
func (r *Run) Status(ctx context.Context, state TaskState, parts ...Part) error {
	return r.Update(ctx, state, nil, parts...)
}

// Update is [Run.Status] with metadata.
func (r *Run) Update(ctx context.Context, state TaskState, metadata Metadata, parts ...Part) error {
	if err := context.Cause(ctx); err != nil && !state.Terminal() {
		return err
	}
	return r.emit(ctx, r.w.status(state, parts, metadata), "")
}

// Working sets the state to working. The parts, if any, report the progress.
func (r *Run) Working(ctx context.Context, parts ...Part) error {
	return r.Status(ctx, StateWorking, parts...)
}

// Artifact adds a result. If ArtifactID is empty, one is generated. If an artifact with the same id
// exists, it is replaced.
func (r *Run) Artifact(ctx context.Context, a Artifact) error {
	return r.Chunk(ctx, a, false, true)
}

// Chunk sends a piece of a result. If more is true, its parts are appended to the artifact with the
// same ArtifactID. last marks the last piece.
func (r *Run) Chunk(ctx context.Context, a Artifact, more, last bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if a.ArtifactID == "" {
		a.ArtifactID = newID()
	}
	return r.emit(ctx, Event{Artifact: &ArtifactUpdate{TaskID: r.TaskID, ContextID: r.ContextID, Artifact: a, Append: more, LastChunk: last}}, "")
}

// Ask sends a question and waits for the caller's next message without a timeout. The task waits
// for input meanwhile. If a message is already queued, it is the answer. If the server restarts
// meanwhile, the agent runs again; see [Server.Load].
func (r *Run) Ask(ctx context.Context, parts ...Part) (*Message, error) {
	return r.ask(ctx, StateInputRequired, parts)
}

// AskAuth is [Run.Ask] for an approval or a credential, which the caller provides by other means.
// The caller's next message confirms it.
func (r *Run) AskAuth(ctx context.Context, parts ...Part) (*Message, error) {
	return r.ask(ctx, StateAuthRequired, parts)
}

func (r *Run) ask(ctx context.Context, state TaskState, parts []Part) (*Message, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	w := r.w
	asked, err := digest(state, parts)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	repeats := r.replay != nil && !r.replay.done
	m, err := r.replay.answerLocked(asked)
	if m == nil && err == nil {
		m = w.takeLocked()
	}
	w.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case m != nil && repeats:
		return m, nil
	case m != nil:
		return m, w.note(ctx, asked)
	}
	if err := r.emit(ctx, w.status(state, parts, nil), asked); err != nil {
		return nil, err
	}
	var over bool
	err = w.await(ctx, func() bool {
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

// startLocked starts a run for the oldest message of the inbox, on a goroutine of the server. b is
// the stored record of the run.
func (s *Server) startLocked(w *work, req *SendRequest, svc Service, b *begin) {
	r := &Run{Message: w.takeLocked(), Metadata: req.Metadata, Extensions: s.Activated(svc.Extensions), Principal: svc.Principal,
		Tenant: req.Tenant, TaskID: w.id, ContextID: w.task.ContextID, w: w}
	if req.Configuration != nil {
		r.Configuration = *req.Configuration
	}
	if b != nil {
		w.past = &past{Begin: *b, Message: *r.Message}
		for _, m := range w.inbox {
			w.past.Answers = append(w.past.Answers, *m)
		}
	}
	s.workLocked(w, r, req, svc)
}

// repeatLocked runs the agent again that waited for an answer in an earlier process. The answer is
// in the inbox.
func (s *Server) repeatLocked(w *work, p *past) {
	m := p.Message
	r := &Run{Message: &m, Metadata: p.Begin.Metadata, Configuration: p.Begin.Configuration, Extensions: p.Begin.Extensions, Principal: w.owner,
		Tenant: p.Begin.Tenant, TaskID: w.id, ContextID: w.task.ContextID, w: w, replay: &replay{past: p}}
	req := &SendRequest{Tenant: p.Begin.Tenant, Message: &m, Configuration: &p.Begin.Configuration, Metadata: p.Begin.Metadata}
	s.workLocked(w, r, req, Service{Principal: w.owner, Extensions: p.Begin.Extensions})
}

// workLocked calls the agent on a goroutine of the server.
func (s *Server) workLocked(w *work, r *Run, req *SendRequest, svc Service) {
	ctx, cancel := context.WithCancelCause(s.base)
	r.cancel = cancel
	w.run = r
	if !w.shown {
		// it may have become a message
		r.timer = time.AfterFunc(settleTime, func() {
			defer rescue.Catch(s.report, nil) // of a store
			_ = w.show(ctx)
		})
	}
	s.running.Add(1)
	s.serving.Go(func() {
		defer s.running.Add(-1)
		defer rescue.Catch(s.report, nil) // of a store
		err := s.call(ctx, r)
		cause := context.Cause(ctx)
		cancel(nil)
		if r.timer != nil {
			r.timer.Stop()
		}
		s.conclude(w, r, req, svc, err, cause)
	})
}

// call runs the agent, and returns its panic as an error.
func (s *Server) call(ctx context.Context, r *Run) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("a2a: the agent panicked: %v\n%s", value, debug.Stack())
		}
	}()
	return s.agent.Run(ctx, r)
}

// conclude updates the task after the agent has returned.
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
		s.becomeTalk(w)
		return
	}
	end, ok := ending(err, cause, state)
	w.mu.Lock()
	failure := r.replay.failedLocked(err)
	parked := errors.Is(cause, errStopping) && state.Interrupted() && w.past.waits()
	if parked { // it continues after the restart
		w.run = nil
		w.signalLocked()
	}
	w.mu.Unlock()
	if parked {
		return
	}
	if failure != nil && cause == nil && !state.Terminal() {
		end, ok = endOfReplay(failure, err)
	}
	if ok {
		if err := w.showOrdered(ctx); err != nil {
			s.report(jsonrpc.ReportTask, fmt.Errorf("%s: %w", w.id, err))
			w.mu.Lock()
			w.refusal = err
			w.mu.Unlock()
			s.seen.remove(w) // the caller may send it again
			s.becomeTalk(w)
			return
		}
		if end.private != nil {
			s.report(jsonrpc.ReportTask, fmt.Errorf("%s: %w", w.id, end.private))
		}
		if err := w.emitOrdered(ctx, w.status(end.state, end.parts, nil), ""); err != nil && !errors.Is(err, ErrTaskOver) {
			s.report(jsonrpc.ReportTask, fmt.Errorf("%s: %w", w.id, err))
		}
	}
	w.mu.Lock()
	over, more := w.task.Status.State.Terminal(), len(w.inbox) > 0
	b := w.beginLocked(req, svc)
	w.mu.Unlock()
	switch { // order is held: the inbox does not grow meanwhile
	case over:
	case more && b != nil:
		s.report(jsonrpc.ReportStore, s.keep(ctx, w, record{Begin: b}))
	case b != nil:
		s.report(jsonrpc.ReportStore, s.keep(ctx, w, record{Rested: true}))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = nil
	switch {
	case over:
	case more:
		s.startLocked(w, req, svc, b)
	case w.past != nil:
		w.past.Rested = true
	}
	w.signalLocked()
}

// becomeTalk finishes a work that is a message or an error, and not a task. The caller must hold
// order.
func (s *Server) becomeTalk(w *work) {
	w.mu.Lock()
	held := int64(entryWeight)
	if w.reply != nil {
		held += weigh(w.reply)
	}
	w.run, w.inbox, w.past, w.task.History = nil, nil, nil, nil
	hooks := len(w.hooks)
	w.signalLocked()
	w.mu.Unlock()
	s.finished(w, held, false)
	if hooks > 0 {
		s.unhook(w) // there is no task to report
	}
}

// endOfReplay returns the last status of a task whose agent could not repeat its actions from
// before a restart. err is the agent's error.
func endOfReplay(why, err error) (end, bool) {
	return end{state: StateFailed, parts: []Part{Text(told[why])}, private: errors.Join(why, err)}, true
}

// An end is the last status of a task.
type end struct {
	state   TaskState
	parts   []Part
	private error
}

// ending returns the last status of a task. ok is false if the task does not end.
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
