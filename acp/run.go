package acp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A run is what is live of one Run: the agent that works on it, and the newest of its events. What is older, and what is left of it after
// its end, is in the store.
//
// Whoever holds the turn may add events: it is held while the store writes. The fields below mu say what has been written.
type run struct {
	s     *Server
	entry *entry
	agent *Agent
	input []Message
	past  sessionRecord // the session as it was when the run began
	key   string        // of the log

	ctx    context.Context
	cancel context.CancelCauseFunc
	turn   chan struct{} // of one: who has put something in may add events, and use what is up to the blank line
	sizes  []int32       // of the events that are kept
	bytes  int64         // their sum
	open   *Message      // being written
	said   int           // bytes of the output

	answer chan Message // of one: what the agent awaits

	mu      sync.Mutex // guards what follows; held for no I/O
	state   Run
	ending  bool // the last event is being written: too late to cancel
	asking  bool // an Await is under way
	expired bool // nobody has answered in time
	first   int64
	last    int64         // number of the newest event
	tail    []jsonrpc.Raw // the newest events
	weight  int           // bytes of tail
	changed chan struct{} // closed at the next change
}

// How much of the newest events is kept in memory while a run goes on, so that those who follow it closely need no store.
const (
	tailEvents = 256
	tailBytes  = 1 << 20
)

// now is the time as it goes over the wire: UTC, since clients want a Z, in milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func newRun(s *Server, a *Agent, owner string, q *RunCreateRequest) *run {
	r := &run{
		s: s, agent: a, input: q.Input,
		entry:   &entry{id: newUUID(), owner: owner, session: q.SessionID, input: weigh(q.Input)},
		turn:    make(chan struct{}, 1),
		answer:  make(chan Message, 1),
		changed: make(chan struct{}),
		first:   1,
	}
	r.entry.live = r
	r.key = runKey(owner, r.entry.id)
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
	r.state = Run{ID: r.entry.id, AgentName: a.Manifest.Name, SessionID: q.SessionID, Status: RunCreated, Output: []Message{}, CreatedAt: now()}
	return r
}

// weigh tells about how many bytes messages take.
func weigh(all []Message) int {
	n := 0
	for _, m := range all {
		n += 256
		for _, p := range m.Parts {
			n += 256 + len(p.Name) + len(p.ContentType) + len(p.Content) + len(p.ContentURL) + weighExtra(p.Extra)
			if p.Metadata != nil {
				n += 256 + len(p.Metadata.Message) + len(p.Metadata.Description) + len(p.Metadata.ToolInput) + len(p.Metadata.ToolOutput) + weighExtra(p.Metadata.Extra)
			}
		}
		n += weighExtra(m.Extra)
	}
	return n
}

func weighExtra(all Extra) int {
	n := 0
	for name, value := range all {
		n += 64 + len(name) + len(value)
	}
	return n
}

// snapshot returns the run as it is now, and the number of its newest event.
func (r *run) snapshot() (Run, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyLocked(), r.last
}

// copyLocked shares messages, which never change, but no slice that grows.
func (r *run) copyLocked() Run {
	c := r.state
	c.Output = slices.Clip(c.Output)
	return c
}

// take waits for the turn.
func (r *run) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) give() { <-r.turn }

// speak adds what an agent says. change makes the events, and the state that they lead to.
func (r *run) speak(ctx context.Context, change func(next *Run) ([]Event, error)) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.mu.Lock()
	next, ending := r.state, r.ending // Output grows in place: nobody sees more of it than was there for them
	r.mu.Unlock()
	if ending {
		return ErrOver
	}
	open, said := r.open, r.said
	events, err := change(&next)
	if err == nil {
		err = r.add(ctx, next, events)
	}
	if err != nil {
		r.open, r.said = open, said
	}
	return err
}

// add writes events, and then lets everybody see them with the state that they led to. It needs the turn.
func (r *run) add(ctx context.Context, next Run, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	texts := make([][]byte, len(events))
	for i := range events {
		text, err := events[i].text()
		if err != nil {
			return fmt.Errorf("acp: %s: %w", events[i].Type, err)
		}
		texts[i] = text
	}
	if err := r.makeRoom(ctx, texts); err != nil {
		return err
	}
	// An append that is given up may still happen, and then the numbers are wrong: it is not given up.
	if _, err := r.s.store.Append(context.WithoutCancel(ctx), r.key, uint64(r.last), texts...); err != nil {
		return err
	}
	for _, text := range texts {
		r.sizes = append(r.sizes, int32(len(text)))
		r.bytes += int64(len(text))
	}
	if next.Status.Terminal() { // whoever sees the end sees room for the next run too
		r.leave(true)
	}
	r.publish(next, texts)
	return nil
}

// makeRoom forgets the oldest events if there would be too many, a tenth of them at once.
func (r *run) makeRoom(ctx context.Context, texts [][]byte) error {
	limits := &r.s.opts.Limits
	more := int64(0)
	for _, text := range texts {
		more += int64(len(text))
	}
	if len(r.sizes)+len(texts) <= limits.Events && r.bytes+more <= limits.LogBytes {
		return nil
	}
	n, bytes := 0, r.bytes
	for n < len(r.sizes) && (len(r.sizes)-n+len(texts) > limits.Events*9/10 || bytes+more > limits.LogBytes/10*9) {
		bytes -= int64(r.sizes[n])
		n++
	}
	r.mu.Lock()
	first := r.first + int64(n)
	past := waypoint{Seq: r.last, Run: r.copyLocked()}
	r.mu.Unlock()
	text, err := encode(past)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := r.s.store.Put(ctx, r.key, store.Any, text, 0); err != nil {
		return err
	}
	if err := r.s.store.Trim(ctx, r.key, uint64(first-1)); err != nil {
		return err
	}
	r.sizes, r.bytes = append([]int32(nil), r.sizes[n:]...), bytes
	r.mu.Lock()
	r.first = first
	r.mu.Unlock()
	return nil
}

// publish lets everybody see events that are written, and the state that they led to.
func (r *run) publish(next Run, texts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Status == RunCancelling && !next.Status.Terminal() {
		next.Status, next.AwaitRequest = RunCancelling, nil // somebody cancelled meanwhile
	}
	r.state = next
	for _, text := range texts {
		r.last++
		r.tail = append(r.tail, text)
		r.weight += len(text)
	}
	n := 0
	for len(r.tail)-n > tailEvents || r.weight > tailBytes && len(r.tail)-n > 1 {
		r.weight -= len(r.tail[n])
		n++
	}
	if n > 0 {
		r.tail = slices.Delete(r.tail, 0, n)
	}
	r.wakeLocked()
}

func (r *run) wakeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// begin writes the first event.
func (r *run) begin(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	next, _ := r.snapshot()
	return r.add(ctx, next, []Event{{Type: EventRunCreated, Run: &next}})
}

// work runs the agent, from in-progress to the end.
func (r *run) work() {
	result := errBroke // stays so for an agent that ends its goroutine
	defer func() {
		r.end(result)
		r.cancel(ErrOver)
	}()
	err := r.enter()
	if err == nil {
		err = r.call()
	}
	if err == nil {
		err = r.speak(r.ctx, func(next *Run) ([]Event, error) { return r.closeMessage(next), nil })
	}
	result = err
}

// enter tells that the run is under way.
func (r *run) enter() error {
	return r.speak(r.ctx, func(next *Run) ([]Event, error) {
		next.Status = RunInProgress
		return []Event{{Type: EventRunInProgress, Run: next}}, nil
	})
}

// errBroke is what a run failed with whose agent did not return.
var errBroke error = Errorf("The agent broke.")

// call runs the agent's function.
func (r *run) call() (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.s.report("panic", fmt.Errorf("acp: agent %s, run %s: %v\n%s", r.agent.Manifest.Name, r.entry.id, p, debug.Stack()))
			err = errBroke
		}
	}()
	return r.agent.Run(r.ctx, &Job{run: r})
}

// outcome is the last event, for what the agent returned.
func (r *run) outcome(next *Run, err error) EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	*next = r.copyLocked()
	next.AwaitRequest, next.FinishedAt = nil, now()
	cause := context.Cause(r.ctx)
	switch {
	case next.Status == RunCancelling:
		next.Status = RunCancelled
		return EventRunCancelled
	case errors.Is(cause, ErrUnanswered):
		err = Errorf("Nobody has answered in time.")
	case cause != nil:
		err = Errorf("The server has stopped.")
	case err == nil:
		next.Status = RunCompleted
		return EventRunCompleted
	}
	public, ok := err.(*Error) //nolint:errorlint // one that is wrapped stays here, as in package jsonrpc
	switch {
	case ok:
	case errors.Is(err, ErrTooLarge):
		public = Errorf("The agent said more than a run may.")
	default:
		r.s.report("agent", fmt.Errorf("acp: agent %s, run %s: %w", next.AgentName, next.ID, err))
		public = Errorf("The agent failed.")
	}
	if _, err := encode(public); err != nil {
		r.s.report("agent", fmt.Errorf("acp: agent %s, run %s: an error that cannot be written: %w", next.AgentName, next.ID, err))
		public = Errorf("The agent failed.")
	}
	next.Status, next.Error = RunFailed, public
	return EventRunFailed
}

// end writes the last event. Nothing stops it: not even the end of the server.
func (r *run) end(err error) {
	ctx := context.WithoutCancel(r.ctx)
	_ = r.take(ctx) // has no end
	defer r.give()
	var next Run
	event := r.outcome(&next, err)
	if event == EventRunCompleted {
		if err := r.s.remember(ctx, r, next.Output); err != nil {
			r.s.report("session", fmt.Errorf("acp: run %s: %w", next.ID, err))
			event = r.failedToStore(&next, "The session could not be stored.")
		}
	}
	err = r.add(ctx, next, []Event{{Type: event, Run: &next}})
	if errors.Is(err, store.ErrLimit) { // the output is in the messages before
		r.s.report("store", fmt.Errorf("acp: the last event of run %s: %w", next.ID, err))
		event, next.Output = r.failedToStore(&next, "The output has no room in the storage."), []Message{}
		err = r.add(ctx, next, []Event{{Type: event, Run: &next}})
	}
	if err != nil { // whoever listens shall know how it ended
		r.s.report("store", fmt.Errorf("acp: the last event of run %s: %w", next.ID, err))
		last := Event{Type: event, Run: &next}
		if text, err := last.text(); err == nil {
			r.leave(false)
			r.publish(next, [][]byte{text})
		}
	}
}

// leave tells the index that the run has ended. kept says that the store has its last event, which has all.
func (r *run) leave(kept bool) {
	ctx := context.WithoutCancel(r.ctx)
	if kept && r.first > 1 {
		if err := r.s.store.Delete(ctx, r.key, store.Any); err != nil {
			r.s.report("store", forgot(r.key, err))
		}
	}
	r.s.forget(ctx, r.s.index.end(r.entry, r.bytes, kept))
}

func (r *run) failedToStore(next *Run, why string) EventType {
	next.Status, next.Error = RunFailed, Errorf("%s", why)
	return EventRunFailed
}

// stop begins to cancel the run.
func (r *run) stop() (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Status.Terminal() || r.ending {
		return Run{}, refuse(ErrOver, CodeServerError, "The run is over.")
	}
	r.state.Status, r.state.AwaitRequest = RunCancelling, nil
	r.cancel(ErrCancelled)
	return r.copyLocked(), nil
}

// ask tells everybody what is awaited, and waits for it.
func (r *run) ask(ctx context.Context, question Message) (Message, error) {
	r.mu.Lock()
	if r.asking {
		r.mu.Unlock()
		return Message{}, errors.New("acp: a run awaits one answer at a time")
	}
	r.asking, r.expired = true, false
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.asking = false
		r.mu.Unlock()
	}()
	err := r.speak(ctx, func(next *Run) ([]Event, error) {
		events := r.closeMessage(next)
		next.Status, next.AwaitRequest = RunAwaiting, &AwaitRequest{Type: AwaitMessage, Message: &question}
		return append(events, Event{Type: EventRunAwaiting, Run: next}), nil
	})
	if err != nil {
		return Message{}, err
	}
	answer, err := r.await(ctx)
	if r.ctx.Err() != nil {
		return Message{}, context.Cause(r.ctx)
	}
	return answer, errors.Join(err, r.speak(r.ctx, func(next *Run) ([]Event, error) {
		next.Status, next.AwaitRequest = RunInProgress, nil
		return []Event{{Type: EventRunInProgress, Run: next}}, nil
	}))
}

// await waits for the answer.
func (r *run) await(ctx context.Context) (Message, error) {
	r.s.index.awaits(1)
	defer r.s.index.awaits(-1)
	late := time.NewTimer(r.s.opts.AwaitTime)
	defer late.Stop()
	cause := ErrUnanswered
	select {
	case m := <-r.answer:
		return m, nil
	case <-r.ctx.Done():
		return Message{}, context.Cause(r.ctx)
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-late.C:
	}
	r.mu.Lock()
	r.expired = r.state.Status == RunAwaiting // nobody answers from here on
	expired := r.expired
	r.mu.Unlock()
	switch {
	case !expired && r.ctx.Err() == nil:
		return <-r.answer, nil // it came at the last moment
	case errors.Is(cause, ErrUnanswered):
		r.cancel(ErrUnanswered)
	}
	return Message{}, cause
}

// resume hands over the answer, and returns the number of the last event before it.
func (r *run) resume(a *AwaitResume) (Run, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state.Status != RunAwaiting || r.ending || r.expired:
		return Run{}, 0, refuse(ErrNotAwaiting, CodeServerError, "The run does not await an answer.")
	case r.state.AwaitRequest.Type != a.Type:
		return Run{}, 0, refuse(ErrNotAwaiting, CodeServerError, "The run awaits an answer of another type.")
	}
	r.state.Status, r.state.AwaitRequest = RunInProgress, nil
	r.answer <- *a.Message // has room: there is one for each time it is awaiting
	return r.copyLocked(), r.last, nil
}
