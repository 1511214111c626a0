package acp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A run is the live part of one Run: the agent that works on it, and its newest events. Older
// events, and all data after its end, are in the store.
//
// The holder of the turn may add events: the turn is held while the store writes. The fields below
// mu describe what has been written.
type run struct {
	s     *Server
	entry *entry
	agent *Agent
	input []Message
	past  sessionRecord // the session when the run began
	key   string        // key of the log

	ctx    context.Context
	cancel context.CancelCauseFunc
	// Capacity one. The goroutine that has sent to it may add events, and use the fields up to the
	// blank line.
	turn  chan struct{}
	sizes []int32  // sizes of the stored events
	bytes int64    // their sum
	open  *Message // the current message
	said  int      // bytes of the output

	answer chan Message // capacity one: the input that the agent awaits

	mu      sync.Mutex // guards the fields below; not held during I/O
	state   Run
	ending  bool // the last event is being written: too late to cancel
	asking  bool // an Await is in progress
	expired bool // the awaited input did not arrive in time
	first   int64
	last    int64         // number of the newest event
	tail    []jsonrpc.Raw // the newest events
	weight  int           // bytes of tail
	changed chan struct{} // closed at the next change
}

// Bounds of the newest events that are in memory while a run is active, so that readers that follow
// it closely need no store.
const (
	tailEvents = 256
	tailBytes  = 1 << 20
)

// timestamp returns the time as it is sent: in UTC, because clients expect a Z, in milliseconds.
func timestamp() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

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
	r.state = Run{ID: r.entry.id, AgentName: a.Manifest.Name, SessionID: q.SessionID, Status: RunCreated, Output: []Message{}, CreatedAt: timestamp()}
	return r
}

// weigh returns the approximate size of messages in bytes.
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

// snapshot returns the current run, and the number of its newest event.
func (r *run) snapshot() (Run, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyLocked(), r.last
}

// copyLocked returns a copy that shares messages, which never change, but no slice that grows.
func (r *run) copyLocked() Run {
	c := r.state
	c.Output = slices.Clip(c.Output)
	return c
}

// lockTurn waits for the turn.
func (r *run) lockTurn(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) unlockTurn() { <-r.turn }

// speak adds output of an agent. change returns the events, and sets the state after them.
func (r *run) speak(ctx context.Context, change func(next *Run) ([]Event, error)) error {
	if err := r.lockTurn(ctx); err != nil {
		return err
	}
	defer r.unlockTurn()
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.mu.Lock()
	// Output grows in place: earlier copies do not see what is appended
	next, ending := r.state, r.ending
	r.mu.Unlock()
	if ending {
		return ErrOver
	}
	open, said, was := r.open, r.said, next.Status
	events, err := change(&next)
	if err == nil {
		err = r.addEvents(ctx, next, was, events)
	}
	if err != nil {
		r.open, r.said = open, said
	}
	return err
}

// addEvents writes events, and then publishes them with the state after them. was is the status
// from which next was made. The caller must hold the turn.
func (r *run) addEvents(ctx context.Context, next Run, was RunStatus, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	texts := make([][]byte, len(events))
	for i := range events {
		text, err := events[i].encodeText()
		if err != nil {
			return fmt.Errorf("acp: %s: %w", events[i].Type, err)
		}
		texts[i] = text
	}
	if err := r.makeRoom(ctx, texts); err != nil {
		return err
	}
	// A canceled append may still take effect, and then the numbers are wrong, so it is never
	// canceled.
	if _, err := r.s.store.Append(context.WithoutCancel(ctx), r.key, uint64(r.last), texts...); err != nil {
		return err
	}
	for _, text := range texts {
		r.sizes = append(r.sizes, int32(len(text)))
		r.bytes += int64(len(text))
	}
	if next.Status.Terminal() { // readers that see the end must also find room for the next run
		r.leaveIndex(true)
	}
	r.publish(next, was, texts)
	return nil
}

// makeRoom removes the oldest events if there would be too many, a tenth of them at once.
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
	text, err := encodeValue(past)
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

// publish makes written events visible, and the state after them.
func (r *run) publish(next Run, was RunStatus, texts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := r.state.Status; {
	case now == RunCancelling && !next.Status.Terminal():
		next.Status, next.AwaitRequest = RunCancelling, nil // canceled meanwhile
	case now != was && next.Status == was:
		next.Status, next.AwaitRequest = now, r.state.AwaitRequest // answered meanwhile
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

// writeFirstEvent writes the first event.
func (r *run) writeFirstEvent(ctx context.Context) error {
	if err := r.lockTurn(ctx); err != nil {
		return err
	}
	defer r.unlockTurn()
	next, _ := r.snapshot()
	return r.addEvents(ctx, next, next.Status, []Event{{Type: EventRunCreated, Run: &next}})
}

// work runs the agent, from in-progress to the end.
func (r *run) work() {
	result := errBroke                  // the result if the agent ends its goroutine
	defer rescue.Catch(r.s.report, nil) // of a store
	defer func() {
		defer r.cancel(ErrOver)
		r.writeLastEvent(result)
	}()
	err := r.setInProgress()
	if err == nil {
		err = r.callAgent()
	}
	if err == nil {
		err = r.speak(r.ctx, func(next *Run) ([]Event, error) { return r.closeMessage(next), nil })
	}
	result = err
}

// setInProgress sets the status to in-progress.
func (r *run) setInProgress() error {
	return r.speak(r.ctx, func(next *Run) ([]Event, error) {
		next.Status = RunInProgress
		return []Event{{Type: EventRunInProgress, Run: next}}, nil
	})
}

// errBroke is the error of a run whose agent did not return.
var errBroke error = Errorf("The agent failed unexpectedly.")

// callAgent runs the agent's function.
func (r *run) callAgent() (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.s.report(jsonrpc.ReportPanic, fmt.Errorf("acp: agent %s, run %s: %v\n%s", r.agent.Manifest.Name, r.entry.id, p, debug.Stack()))
			err = errBroke
		}
	}()
	return r.agent.Run(r.ctx, &Job{run: r})
}

// outcome returns the type of the last event for the agent's error, and sets the final state.
func (r *run) outcome(next *Run, err error) EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	*next = r.copyLocked()
	next.AwaitRequest, next.FinishedAt = nil, timestamp()
	cause := context.Cause(r.ctx)
	switch {
	case next.Status == RunCancelling:
		next.Status = RunCancelled
		return EventRunCancelled
	case errors.Is(cause, ErrUnanswered):
		err = Errorf("No answer in time.")
	case cause != nil:
		err = Errorf("The server has stopped.")
	case err == nil:
		next.Status = RunCompleted
		return EventRunCompleted
	}
	public, ok := err.(*Error) //nolint:errorlint // a wrapped one is not sent, as in package jsonrpc
	switch {
	case ok:
	case errors.Is(err, ErrTooLarge):
		public = Errorf("The output of the agent exceeds the limit of a run.")
	default:
		r.s.report(ReportAgent, fmt.Errorf("acp: agent %s, run %s: %w", next.AgentName, next.ID, err))
		public = Errorf("The agent failed.")
	}
	if _, err := encodeValue(public); err != nil {
		r.s.report(ReportAgent, fmt.Errorf("acp: agent %s, run %s: cannot encode an error: %w", next.AgentName, next.ID, err))
		public = Errorf("The agent failed.")
	}
	next.Status, next.Error = RunFailed, public
	return EventRunFailed
}

// writeLastEvent writes the last event. It is never canceled, not even when the server closes.
func (r *run) writeLastEvent(err error) {
	ctx := context.WithoutCancel(r.ctx)
	_ = r.lockTurn(ctx) // no deadline
	defer r.unlockTurn()
	var next Run
	event := r.outcome(&next, err)
	if event == EventRunCompleted {
		if err := r.s.remember(ctx, r, next.Output); err != nil {
			r.s.report(jsonrpc.ReportSession, fmt.Errorf("acp: run %s: %w", next.ID, err))
			event = r.failedToStore(&next, "The session could not be stored.")
		}
	}
	err = r.addEvents(ctx, next, "", []Event{{Type: event, Run: &next}})
	if errors.Is(err, store.ErrLimit) { // earlier messages contain the output
		r.s.report(jsonrpc.ReportStore, fmt.Errorf("acp: the last event of run %s: %w", next.ID, err))
		event, next.Output = r.failedToStore(&next, "The storage has no room for the output."), []Message{}
		err = r.addEvents(ctx, next, "", []Event{{Type: event, Run: &next}})
	}
	if err != nil { // readers must still learn the result
		r.s.report(jsonrpc.ReportStore, fmt.Errorf("acp: the last event of run %s: %w", next.ID, err))
		last := Event{Type: event, Run: &next}
		if text, err := last.encodeText(); err == nil {
			r.leaveIndex(false)
			r.publish(next, "", [][]byte{text})
		}
	}
}

// leaveIndex removes the run from the active runs of the index. kept reports that the store has its
// last event, which contains everything.
func (r *run) leaveIndex(kept bool) {
	ctx := context.WithoutCancel(r.ctx)
	if kept && r.first > 1 {
		if err := r.s.store.Delete(ctx, r.key, store.Any); err != nil {
			r.s.report(jsonrpc.ReportStore, removedError(r.key, err))
		}
	}
	r.s.forgetRun(ctx, r.s.index.endRun(r.entry, r.bytes, kept))
}

func (r *run) failedToStore(next *Run, why string) EventType {
	next.Status, next.Error = RunFailed, Errorf("%s", why)
	return EventRunFailed
}

// stopRun starts to cancel the run.
func (r *run) stopRun() (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Status.Terminal() || r.ending {
		return Run{}, newRefusal(ErrOver, CodeServerError, "The run has ended.")
	}
	r.state.Status, r.state.AwaitRequest = RunCancelling, nil
	r.cancel(ErrCancelled)
	return r.copyLocked(), nil
}

// askCaller publishes the question, and waits for the answer.
func (r *run) askCaller(ctx context.Context, question Message) (Message, error) {
	r.mu.Lock()
	if r.asking {
		r.mu.Unlock()
		return Message{}, errors.New("acp: a run can wait for only one answer at a time")
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
	answer, err := r.awaitAnswer(ctx)
	if r.ctx.Err() != nil {
		return Message{}, context.Cause(r.ctx)
	}
	return answer, errors.Join(err, r.speak(r.ctx, func(next *Run) ([]Event, error) {
		next.Status, next.AwaitRequest = RunInProgress, nil
		return []Event{{Type: EventRunInProgress, Run: next}}, nil
	}))
}

// awaitAnswer waits for the answer.
func (r *run) awaitAnswer(ctx context.Context) (Message, error) {
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
	r.expired = r.state.Status == RunAwaiting // no answer is accepted from here on
	expired := r.expired
	r.mu.Unlock()
	switch {
	case !expired && r.ctx.Err() == nil:
		return <-r.answer, nil // it arrived at the last moment
	case errors.Is(cause, ErrUnanswered):
		r.cancel(ErrUnanswered)
	}
	return Message{}, cause
}

// resume passes the answer to the agent, and returns the number of the last event before it.
func (r *run) resume(a *AwaitResume) (Run, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state.Status != RunAwaiting || r.ending || r.expired:
		return Run{}, 0, newRefusal(ErrNotAwaiting, CodeServerError, "The run is not waiting for an answer.")
	case r.state.AwaitRequest.Type != a.Type:
		return Run{}, 0, newRefusal(ErrNotAwaiting, CodeServerError, "The run is waiting for an answer of another type.")
	}
	r.state.Status, r.state.AwaitRequest = RunInProgress, nil
	r.answer <- *a.Message // never blocks: one answer per await
	return r.copyLocked(), r.last, nil
}
