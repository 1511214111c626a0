package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Agent is the implementation of an agent. One value may be served in several protocols at once;
// Run is called on many goroutines.
type Agent struct {
	Card

	// Run handles one request. ctx ends when the caller cancels the request, with ErrCancelled as
	// its cause, or disconnects for good. A nil error means success; see [Failure] for what the
	// caller sees of an error.
	Run func(ctx context.Context, r *Run) error

	// Report gets the errors that do not go out, and panics. If nil, slog's default logger gets
	// them, as one escaped line each.
	Report func(what string, err error)
}

// A Run is one request to an agent, as seen by the agent. Its methods are safe for concurrent use.
// They must not be called after the function has returned.
type Run struct {
	ID       string    // of the run or task, if the protocol has one
	Session  string    // the conversation, if the protocol has one
	Protocol string    // "acp", "a2a", "editor", "mcp" or "local"
	Input    []Message // at least one
	Metadata Metadata  // further data from the caller

	Caller Caller // receives events and questions
}

// A Caller is the caller of a run, as seen by the run. It is safe for concurrent use, except that
// questions are asked one at a time.
type Caller interface {
	// Tell sends an event to the caller. It blocks while the caller is slow, until ctx ends.
	Tell(ctx context.Context, e Event) error

	// Ask puts a question to the caller and waits for the answer.
	Ask(ctx context.Context, q *Question) (*Answer, error)
}

// Kinds of events. Each comment lists the members of [Event] that are set.
const (
	EventStarted  = "started"  // ID, Session: the run's remote IDs; at most once, and first
	EventOutput   = "output"   // Parts, Message: a piece of the output
	EventProgress = "progress" // Progress
	EventOther    = "other"    // Metadata: protocol data that this package has no event for
	EventQuestion = "question" // Question: only from a Job; answer it with Job.Answer
	EventEnded    = "ended"    // Result: only from a Job, and last
)

// An Event is an event of a running run.
type Event struct {
	Kind    string `json:"kind"`
	ID      string `json:"id,omitzero"`
	Session string `json:"session,omitzero"`
	Parts   []Part `json:"parts,omitzero"`
	// Message names the message or artifact of the parts. It is empty if there is only one.
	Message  string    `json:"message,omitzero"`
	Progress *Progress `json:"progress,omitzero"`
	Question *Question `json:"question,omitzero"`
	Result   *Result   `json:"result,omitzero"`
	Metadata Metadata  `json:"metadata,omitzero"`
}

// Progress is the progress of a run.
type Progress struct {
	Message string  `json:"message,omitzero"`
	Done    float64 `json:"done,omitzero"`  // increases during the run
	Total   float64 `json:"total,omitzero"` // zero: unknown
}

// Kinds of options, as in the Agent Client Protocol.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// A Question is a question of a run to the user.
type Question struct {
	Text    string   `json:"text"`
	Parts   []Part   `json:"parts,omitzero"`   // in addition to the text
	Options []Option `json:"options,omitzero"` // the answers to choose from; nil: any
	// Form is a JSON Schema of an object with flat members. If nil, the answer is text.
	Form     jsonrpc.Raw `json:"form,omitzero"`
	Auth     bool        `json:"auth,omitzero"` // the question is about a login elsewhere
	Metadata Metadata    `json:"metadata,omitzero"`
}

// An Option is an answer to choose.
type Option struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind,omitzero"` // AllowOnce and so on, for permissions
}

// An Answer is the user's answer to a question.
type Answer struct {
	Parts    []Part      `json:"parts,omitzero"`
	Option   string      `json:"option,omitzero"`   // the ID of an Option
	Value    jsonrpc.Raw `json:"value,omitzero"`    // the submitted Form
	Declined bool        `json:"declined,omitzero"` // the user declined to answer
	Metadata Metadata    `json:"metadata,omitzero"`
}

// Reply returns an answer with this text.
func Reply(text string) *Answer { return &Answer{Parts: []Part{Text(text)}} }

// Choose returns an answer that selects the option with this ID.
func Choose(id string) *Answer { return &Answer{Option: id} }

// Text returns the text of the answer: its parts, or else its option or its form value.
func (a *Answer) Text() string {
	switch {
	case len(a.Parts) > 0:
		return TextOf(a.Parts)
	case a.Option != "":
		return a.Option
	}
	return string(a.Value)
}

// Settle completes a text answer in a protocol without options: it sets Option if the text is an
// option's ID or name, its number in [Question.Choices], or a plain yes or no that matches an
// option's kind.
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
	if n, err := strconv.Atoi(said); err == nil && n >= 1 && n <= len(q.Options) {
		a.Option = q.Options[n-1].ID
		return
	}
	kind := map[string]string{"y": AllowOnce, "yes": AllowOnce, "ok": AllowOnce, "n": RejectOnce, "no": RejectOnce}[said]
	for _, o := range q.Options {
		if kind != "" && o.Kind == kind {
			a.Option = o.ID
			return
		}
	}
}

// Choices returns the options as one line for people, such as "1 Yes, 2 No", or "" if there are
// none. Each number is a valid answer.
func (q *Question) Choices() string {
	var b strings.Builder
	for i, o := range q.Options {
		if i > 0 {
			b.WriteString(", ")
		}
		name := o.Name
		if name == "" {
			name = o.ID
		}
		fmt.Fprintf(&b, "%d %s", i+1, name)
	}
	return b.String()
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

// Content returns the question as parts: its text followed by its parts.
func (q *Question) Content() []Part {
	if q.Text == "" {
		return q.Parts
	}
	return append([]Part{Text(q.Text)}, q.Parts...)
}

// Parts returns the parts of all messages of the input.
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

// Text returns the text of the last user messages; see [LastTurn].
func (r *Run) Text() string {
	var b strings.Builder
	for _, m := range LastTurn(r.Input) {
		b.WriteString(TextOf(m.Parts))
	}
	return b.String()
}

// Say adds text to the output.
func (r *Run) Say(ctx context.Context, text string) error { return r.Emit(ctx, Text(text)) }

// Emit adds parts to the output.
func (r *Run) Emit(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 {
		return nil
	}
	return r.Caller.Tell(ctx, Event{Kind: EventOutput, Parts: parts})
}

// Progress reports the progress of the run.
func (r *Run) Progress(ctx context.Context, p Progress) error {
	return r.Caller.Tell(ctx, Event{Kind: EventProgress, Progress: &p})
}

// Tell sends any event.
func (r *Run) Tell(ctx context.Context, e Event) error { return r.Caller.Tell(ctx, e) }

// Ask puts a question to the caller of the run and waits for the answer. If the question cannot be
// asked, the error is ErrNoAnswer; the function can then continue without an answer or return the
// error. After ErrCancelled, ctx has ended.
func (r *Run) Ask(ctx context.Context, q *Question) (*Answer, error) {
	a, err := r.Caller.Ask(ctx, q)
	if errors.Is(err, ErrNoAnswer) {
		text := []rune(TextOf(q.Content()))
		if len(text) > maxAsked {
			text = append(text[:maxAsked], '…')
		}
		return nil, &unasked{string(text), err}
	}
	if errors.Is(err, ErrCancelled) {
		// The context of the run ends a moment after that of its protocol. Who looks at it now, to
		// decide whether to go on without an answer, must find it ended.
		grace.Closed(ctx.Done(), grace.Time)
	}
	if err != nil {
		return nil, err
	}
	q.Settle(a)
	return a, nil
}

// Confirm asks for permission and reports whether it was granted.
func (r *Run) Confirm(ctx context.Context, text string) (bool, error) {
	q := &Question{Text: text, Options: []Option{{ID: "allow", Name: "Yes", Kind: AllowOnce}, {ID: "reject", Name: "No", Kind: RejectOnce}}}
	a, err := r.Ask(ctx, q)
	return q.Allowed(a), err
}

// Execute calls Run and converts what it returns to a Result. A panic is a failure. The Result has
// no Output, because that was sent to the Caller.
func (a *Agent) Execute(ctx context.Context, r *Run) (out *Result) {
	defer func() {
		if value := recover(); value != nil {
			a.report(jsonrpc.ReportPanic, fmt.Errorf("agent %s: %v\n%s", a.Name, value, debug.Stack()))
			out = &Result{State: Failed, Text: privateFailure, ID: r.ID, Session: r.Session}
		}
	}()
	var err error
	if a.Run != nil {
		err = a.Run(ctx, r)
	}
	out, private := ended(ctx, err)
	if private != nil {
		a.report(ReportFailed, fmt.Errorf("agent %s: %w", a.Name, private))
	}
	out.ID, out.Session = r.ID, r.Session
	return out
}

func (a *Agent) report(what string, err error) {
	report.Or(a.Report, "agent")(what, err)
}
