package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// This file continues a task that waits for an answer after a restart. The agent's function no
// longer runs, so it is called again with the same input: the message that began the run, and the
// stored answers to its questions, in order. Until it asks the last question again, its output is
// dropped, because the task has it already. Each question must be the same as before; otherwise the
// stored answers would answer a different question, and the task fails.

// past is what a task stores to repeat the run that works on it.
type past struct {
	Begin   begin     `json:"begin"`
	Message Message   `json:"message"`           // the message that began the run
	Answers []Message `json:"answers,omitempty"` // later messages, oldest first
	Asked   []string  `json:"asked,omitempty"`   // digests of the questions so far
	// The run returned and left the task waiting: the next message begins another run.
	Rested bool `json:"rested,omitzero"`
	Lost   bool `json:"lost,omitzero"` // the answers cannot be matched to the questions
	Old    bool `json:"old,omitzero"`  // read from a log without begin records
}

// begin is the input of a run besides its message.
type begin struct {
	Metadata      Metadata      `json:"metadata,omitempty"`
	Configuration Configuration `json:"configuration,omitzero"`
	Extensions    []string      `json:"extensions,omitempty"` // activated
	Tenant        string        `json:"tenant,omitzero"`
	// Newer messages of the task that the run has not received.
	Queued int `json:"queued,omitzero"`
}

// ask records a question.
func (p *past) ask(digest string) {
	if len(p.Answers) < len(p.Asked) { // the previous question was abandoned
		p.Lost = true
	}
	p.Asked = append(p.Asked, digest)
}

// waits reports whether the run waits in [Run.Ask] for the next message.
func (p *past) waits() bool {
	return p != nil && !p.Rested && len(p.Asked) > 0
}

// next returns the past of another run, which begins with the oldest message that the last run did
// not receive.
func (p *past) next(b begin) *past {
	from := max(len(p.Answers)-1-b.Queued, 0)
	if len(p.Answers) == 0 {
		return &past{Begin: b, Message: p.Message}
	}
	return &past{Begin: b, Message: p.Answers[from], Answers: append([]Message(nil), p.Answers[from+1:]...)}
}

// digest returns the digest of a question.
func digest(state TaskState, parts []Part) (string, error) {
	text, err := encode(TaskStatus{State: state, Message: &Message{Parts: parts}})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), err
}

// A replay is a run that repeats an earlier one. The mutex of the task guards it.
type replay struct {
	past   *past
	at     int  // questions so far
	done   bool // the last question was asked again: the output from here on is new
	failed error
}

var (
	errOtherQuestion = errors.New("a2a: after a restart the agent asked a different question")
	errNoQuestion    = errors.New("a2a: after a restart the agent ended without asking its question again")
	errNoPast        = errors.New("a2a: after a restart the answers so far cannot be assigned to their questions")
)

// told maps each replay error to the text that the caller receives.
var told = map[error]string{
	errOtherQuestion: "The server was restarted while the task waited for an answer. The agent then asked a different question, so the answer was not used.",
	errNoQuestion:    "The server was restarted while the task waited for an answer. The agent then ended without asking its question again, so the answer was not used.",
	errNoPast:        "The server was restarted while the task waited for an answer. The earlier answers cannot be repeated, so the answer was not used.",
}

// answerLocked returns the stored answer to a question, or nil if the question is new or is the one
// that waits.
func (p *replay) answerLocked(digest string) (*Message, error) {
	switch {
	case p == nil || p.done:
		return nil, nil
	case p.failed != nil:
		return nil, p.failed
	case p.past.Asked[p.at] != digest:
		p.failed = errOtherQuestion
		return nil, p.failed
	}
	at := p.at
	p.at++
	if p.at == len(p.past.Asked) {
		p.done = true
		return nil, nil
	}
	return &p.past.Answers[at], nil
}

// hidesLocked reports whether the task already has what the agent produces. An event that ends the
// task fails the replay.
func (p *replay) hidesLocked(ends bool) (bool, error) {
	switch {
	case p == nil || p.done:
		return false, nil
	case p.failed != nil:
		return true, p.failed
	case ends:
		p.failed = errNoQuestion
		return true, p.failed
	}
	return true, nil
}

// failedLocked returns why a finished replay did not reach the point that the earlier run reached,
// or nil if it did. err is the agent's error: an agent that failed by itself needs no other reason.
func (p *replay) failedLocked(err error) error {
	switch {
	case p == nil || p.done:
		return nil
	case p.failed == nil && err == nil:
		return errNoQuestion
	}
	return p.failed
}

// note stores that the agent received a message as the answer to a question that has no event,
// because the message was already queued.
func (w *work) note(ctx context.Context, digest string) error {
	if w.s.opts.Store == nil {
		return nil
	}
	w.order.Lock()
	defer w.order.Unlock()
	if err := w.s.keep(ctx, w, record{Asked: digest}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past != nil {
		w.past.ask(digest)
	}
	return nil
}

// beginLocked returns the record of a run that starts with the oldest message of the inbox.
func (w *work) beginLocked(req *SendRequest, svc Service) *begin {
	if w.s.opts.Store == nil {
		return nil
	}
	b := &begin{Metadata: req.Metadata, Extensions: w.s.Activated(svc.Extensions), Tenant: req.Tenant, Queued: max(len(w.inbox)-1, 0)}
	if req.Configuration != nil {
		b.Configuration = *req.Configuration
	}
	return b
}

// recall prepares a restored task whose agent waits for an answer.
func (w *work) recall() {
	p := w.past
	switch {
	case p == nil, w.task.Status.State.Terminal():
		w.past = nil
	case w.task.Status.State.Interrupted() && p.waits():
		if len(p.Answers) != len(p.Asked)-1 {
			p.Lost = true
		}
		again := *p // the task changes its past further
		again.Answers, again.Asked = append([]Message(nil), p.Answers...), append([]string(nil), p.Asked...)
		w.again = &again
	}
}
