package agent

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Agent does what it is asked. One value may be served in several protocols at once; Run is called on many goroutines.
type Agent struct {
	Card

	// Run does one request. ctx ends when the caller cancels it, with ErrCancelled as its cause, or goes away for good. Nil is success;
	// see [Failure] for what of an error goes out.
	Run func(ctx context.Context, r *Run) error

	// Report gets the errors that do not go out, and panics. Nil drops them.
	Report func(what string, err error)
}

// A Run is one request to an agent, as the agent sees it. Its methods are safe for concurrent use, and not for use after the function has returned.
type Run struct {
	ID       string    // the run or task, where the protocol has one
	Session  string    // the conversation, where the protocol has one
	Protocol string    // "acp", "a2a", "editor", "mcp" or "local"
	Input    []Message // at least one
	Metadata Metadata  // what the caller said beside

	Caller Caller // who asked
}

// A Caller is who asked, as seen from a run. It is safe for concurrent use, except that questions come one after the other.
type Caller interface {
	// Tell hands over what the run has to say. It waits while the caller is slow, until ctx ends.
	Tell(ctx context.Context, e Event) error

	// Ask waits for the answer to a question.
	Ask(ctx context.Context, q *Question) (*Answer, error)
}

// Kinds of events. The comment says which members of [Event] belong to each.
const (
	EventStarted  = "started"  // ID, Session: the run is known elsewhere by these; at most once, and first
	EventOutput   = "output"   // Parts, Message: a piece of the answer
	EventProgress = "progress" // Progress
	EventOther    = "other"    // Metadata: what the protocol said and the seam has no word for
	EventQuestion = "question" // Question: only from a Job, which answers it by Job.Answer
	EventEnded    = "ended"    // Result: only from a Job, and last
)

// An Event is what a run tells while it works.
type Event struct {
	Kind     string    `json:"kind"`
	ID       string    `json:"id,omitzero"`
	Session  string    `json:"session,omitzero"`
	Parts    []Part    `json:"parts,omitzero"`
	Message  string    `json:"message,omitzero"` // which message or artifact the parts belong to; "" for the one and only
	Progress *Progress `json:"progress,omitzero"`
	Question *Question `json:"question,omitzero"`
	Result   *Result   `json:"result,omitzero"`
	Metadata Metadata  `json:"metadata,omitzero"`
}

// Progress is how far a run is.
type Progress struct {
	Message string  `json:"message,omitzero"`
	Done    float64 `json:"done,omitzero"`  // grows
	Total   float64 `json:"total,omitzero"` // zero: nobody knows
}

// Kinds of options, as in the editor protocol.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// A Question is what a run needs to know from a person.
type Question struct {
	Text     string      `json:"text"`
	Parts    []Part      `json:"parts,omitzero"`   // more than the text
	Options  []Option    `json:"options,omitzero"` // the answers to choose from; nil: any
	Form     jsonrpc.Raw `json:"form,omitzero"`    // a JSON Schema of an object with flat members; nil: text is enough
	Auth     bool        `json:"auth,omitzero"`    // it is about a login elsewhere
	Metadata Metadata    `json:"metadata,omitzero"`
}

// An Option is an answer to choose.
type Option struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind,omitzero"` // AllowOnce and so on, when it is about a permission
}

// An Answer is what the person said.
type Answer struct {
	Parts    []Part      `json:"parts,omitzero"`
	Option   string      `json:"option,omitzero"`   // the ID of an Option
	Value    jsonrpc.Raw `json:"value,omitzero"`    // what was filled into Form
	Declined bool        `json:"declined,omitzero"` // the person does not want to say
	Metadata Metadata    `json:"metadata,omitzero"`
}

// Reply makes the answer that is this text.
func Reply(text string) *Answer { return &Answer{Parts: []Part{Text(text)}} }

// Choose makes the answer that is this option.
func Choose(id string) *Answer { return &Answer{Option: id} }

// Text returns the text of the answer: its parts, or else its option or what was filled in.
func (a *Answer) Text() string {
	switch {
	case len(a.Parts) > 0:
		return TextOf(a.Parts)
	case a.Option != "":
		return a.Option
	}
	return string(a.Value)
}

// Settle completes an answer that came as text, in a protocol without options: Option is the one whose ID or name was said, or whose kind a plain
// yes or no stands for.
func (q *Question) Settle(a *Answer) {
	if a == nil || a.Option != "" || a.Declined || len(q.Options) == 0 {
		return
	}
	said := strings.ToLower(strings.TrimSpace(TextOf(a.Parts)))
	for _, o := range q.Options {
		if said == strings.ToLower(o.ID) || said == strings.ToLower(o.Name) {
			a.Option = o.ID
			return
		}
	}
	kind := map[string]string{"y": AllowOnce, "yes": AllowOnce, "ok": AllowOnce, "n": RejectOnce, "no": RejectOnce}[said]
	for _, o := range q.Options {
		if kind != "" && o.Kind == kind {
			a.Option = o.ID
			return
		}
	}
}

// Allowed reports whether the answer chose an option that allows.
func (q *Question) Allowed(a *Answer) bool {
	if a == nil || a.Declined {
		return false
	}
	for _, o := range q.Options {
		if o.ID == a.Option {
			return o.Kind == AllowOnce || o.Kind == AllowAlways
		}
	}
	return false
}

// Content returns the question as parts: its text, and then its parts.
func (q *Question) Content() []Part {
	if q.Text == "" {
		return q.Parts
	}
	return append([]Part{Text(q.Text)}, q.Parts...)
}

// Parts returns the parts of all the input.
func (r *Run) Parts() []Part {
	if len(r.Input) == 1 {
		return r.Input[0].Parts
	}
	var out []Part
	for _, m := range r.Input {
		out = append(out, m.Parts...)
	}
	return out
}

// Text returns the text of what the user said last, as [LastTurn] has it.
func (r *Run) Text() string {
	var b strings.Builder
	for _, m := range LastTurn(r.Input) {
		b.WriteString(TextOf(m.Parts))
	}
	return b.String()
}

// Say adds text to the answer.
func (r *Run) Say(ctx context.Context, text string) error { return r.Emit(ctx, Text(text)) }

// Emit adds parts to the answer.
func (r *Run) Emit(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 {
		return nil
	}
	return r.Caller.Tell(ctx, Event{Kind: EventOutput, Parts: parts})
}

// Progress tells how far the run is.
func (r *Run) Progress(ctx context.Context, p Progress) error {
	return r.Caller.Tell(ctx, Event{Kind: EventProgress, Progress: &p})
}

// Tell hands over any event.
func (r *Run) Tell(ctx context.Context, e Event) error { return r.Caller.Tell(ctx, e) }

// Ask puts a question to whoever started the run, and waits for the answer. When it cannot be asked here the error is ErrNoAnswer; the function
// then does without, or returns the error.
func (r *Run) Ask(ctx context.Context, q *Question) (*Answer, error) {
	a, err := r.Caller.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	q.Settle(a)
	return a, nil
}

// Confirm asks for a permission and reports whether it was given.
func (r *Run) Confirm(ctx context.Context, text string) (bool, error) {
	q := &Question{Text: text, Options: []Option{{ID: "allow", Name: "Yes", Kind: AllowOnce}, {ID: "reject", Name: "No", Kind: RejectOnce}}}
	a, err := r.Ask(ctx, q)
	return q.Allowed(a), err
}

// Execute calls Run and makes a Result of what it returns. A panic is a failure. The Output is not in it: that went to the Caller.
func (a *Agent) Execute(ctx context.Context, r *Run) (out *Result) {
	defer func() {
		if value := recover(); value != nil {
			a.report("panic", fmt.Errorf("agent %s: %v\n%s", a.Name, value, debug.Stack()))
			out = &Result{State: Failed, Text: privateFailure, ID: r.ID, Session: r.Session}
		}
	}()
	var err error
	if a.Run != nil {
		err = a.Run(ctx, r)
	}
	out, private := ended(ctx, err)
	if private != nil {
		a.report("failed", fmt.Errorf("agent %s: %w", a.Name, private))
	}
	out.ID, out.Session = r.ID, r.Session
	return out
}

func (a *Agent) report(what string, err error) {
	if a.Report != nil {
		a.Report(what, err)
	}
}
