package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Question is one question to the client. Exactly one of Elicit, Sample and Roots is set.
type Question struct {
	// Key names the question within the call. It must be the same each time the handler runs.
	Key string

	Elicit *Elicitation
	Sample *SamplingRequest
	Roots  bool
}

// An Answer is the client's answer to a [Question].
type Answer struct {
	Elicit *ElicitResult
	Sample *SamplingResult
	Roots  []Root
}

// A CapabilityError reports that the client did not declare a capability that a handler needs. A
// modern client receives it as error -32021, a legacy client as a failed tool call.
type CapabilityError struct{ Need ClientCapabilities }

func (e *CapabilityError) Error() string {
	return "the client lacks a required capability: " + string(mustEncode(e.Need))
}

func (e *CapabilityError) answer() *jsonrpc.Error {
	return ErrMissingCapability.WithData(MissingCapabilityData{e.Need})
}

// An AnswerError reports that the client answered a question with an error, or with a value that
// does not fit the question. If a tool returns it, the caller receives its text, which only
// describes what that client sent.
type AnswerError struct {
	Key string // of the question
	Err error  // the client's *jsonrpc.Error, or the reason why the answer does not fit
}

func (e *AnswerError) Error() string {
	if refused, ok := e.Err.(*jsonrpc.Error); ok { //nolint:errorlint // it is never wrapped
		return fmt.Sprintf("The question %q got the error response %d: %s", e.Key, refused.Code, refused.Message)
	}
	return fmt.Sprintf("The answer to the question %q is not valid: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// misfit returns the error for an answer that does not fit because of err.
func (q *Question) misfit(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &AnswerError{Key: q.Key, Err: err}
}

// questions is the error that stops a handler until the client calls again with answers.
type questions struct{ ask map[string]InputRequest }

func (q *questions) Error() string { return "mcp: the answer arrives with a later request" }

// Ask sends questions to the client, all at once, and returns the answers by key.
//
// In the legacy era, Ask sends them as requests and waits for the responses. In the modern era, Ask
// returns an error that the handler must return: the client receives the questions as the result of
// its call and calls again with the answers. The handler then runs again from its beginning, this
// time with the answers. An answer is only used for exactly the question that was asked: if the
// text or the form has changed when the handler runs again, the question is asked again. Code
// before a question therefore runs once more for each round; use [Once] for what must run only
// once. In a task, Ask waits in both eras.
//
// If the client did not declare the capability for a question, Ask returns a [*CapabilityError] and
// sends nothing.
func (r *Request) Ask(ctx context.Context, qs ...Question) (map[string]Answer, error) {
	if len(qs) == 0 {
		return nil, nil
	}
	if err := r.ended(); err != nil {
		return nil, err
	}
	wire := make(map[string]InputRequest, len(qs))
	for i := range qs {
		if err := r.checkQuestion(&qs[i]); err != nil {
			return nil, err
		}
		if _, twice := wire[qs[i].Key]; twice || qs[i].Key == "" {
			return nil, fmt.Errorf("mcp: a question needs a key of its own, not %q", qs[i].Key)
		}
		in, err := qs[i].wire(r.version)
		if err != nil {
			return nil, err
		}
		wire[qs[i].Key] = in
	}
	switch {
	case r.task.Load() != nil:
		return r.task.Load().ask(ctx, r, qs, wire)
	case r.version.Modern():
		return r.askByRound(ctx, qs, wire)
	}
	return r.askNow(ctx, r.peer(), qs, wire)
}

// Elicit asks the user; see [Request.Ask].
func (r *Request) Elicit(ctx context.Context, key string, e *Elicitation) (*ElicitResult, error) {
	a, err := r.Ask(ctx, Question{Key: key, Elicit: e})
	return a[key].Elicit, err
}

// Sample sends a request to the client's model; see [Request.Ask].
func (r *Request) Sample(ctx context.Context, key string, q *SamplingRequest) (*SamplingResult, error) {
	a, err := r.Ask(ctx, Question{Key: key, Sample: q})
	return a[key].Sample, err
}

// Roots requests the client's roots; see [Request.Ask].
func (r *Request) Roots(ctx context.Context, key string) ([]Root, error) {
	a, err := r.Ask(ctx, Question{Key: key, Roots: true})
	return a[key].Roots, err
}

// checkQuestion returns a [*CapabilityError] if the client lacks the capability for q.
func (r *Request) checkQuestion(q *Question) error {
	c := r.capabilities
	if c == nil {
		c = &ClientCapabilities{}
	}
	need := ClientCapabilities{}
	switch {
	case q.Elicit != nil && q.Elicit.Mode == ElicitURL:
		if r.version.HasURLElicitation() && c.Elicitation.HasURL() {
			return nil
		}
		need.Elicitation = &ElicitationCapability{URL: &Mark{}}
	case q.Elicit != nil:
		if r.version.HasElicitation() && c.Elicitation.HasForm() {
			return nil
		}
		need.Elicitation = &ElicitationCapability{Form: &Mark{}}
	case q.Sample != nil:
		tools := q.Sample.Tools != nil || q.Sample.ToolChoice != nil
		if c.Sampling != nil && (!tools || r.version.HasSamplingTools() && c.Sampling.Tools != nil) {
			return nil
		}
		need.Sampling = &SamplingCapability{}
		if tools {
			need.Sampling.Tools = &Mark{}
		}
	case q.Roots:
		if c.Roots != nil {
			return nil
		}
		need.Roots = &RootsCapability{}
	default:
		return fmt.Errorf("mcp: question %q is empty", q.Key)
	}
	return &CapabilityError{need}
}

// wire returns the question in the form of version v.
func (q *Question) wire(v Version) (in InputRequest, err error) {
	switch {
	case q.Elicit != nil:
		e := *q.Elicit
		if e.Mode == ElicitURL {
			e.RequestedSchema = nil
			switch {
			case !v.HasElicitationID():
				e.ElicitationID = ""
			case e.ElicitationID == "":
				e.ElicitationID = newID()
			}
		} else {
			e.URL, e.ElicitationID = "", ""
			if e.RequestedSchema == nil {
				e.RequestedSchema = jsonrpc.Raw(`{"type":"object","properties":{}}`)
			}
			if !v.HasURLElicitation() {
				e.Mode = ""
			}
		}
		in.Method = MethodElicit
		in.Params, err = encode(e)
	case q.Sample != nil:
		in.Method = MethodCreateMessage
		in.Params, err = encode(q.Sample)
	default:
		in.Method = MethodRootsList
		// Params may be omitted, but then the official Go SDK (v1.8.0) does not read the message
		// that contains the question.
		in.Params = empty
	}
	return in, err
}

// askNow sends the questions as requests and waits for the responses.
func (r *Request) askNow(ctx context.Context, peer jsonrpc.Peer, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	answers := make([]Answer, len(qs))
	errs := make([]error, len(qs))
	one := func(i int) {
		var raw jsonrpc.Raw
		in := wire[qs[i].Key]
		err := peer.Call(ctx, in.Method, in.Params, &raw)
		if err == nil {
			answers[i], err = qs[i].read(ctx, raw)
			err = qs[i].misfit(ctx, err)
		} else if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			err = &AnswerError{Key: qs[i].Key, Err: e}
		}
		errs[i] = err
	}
	var all sync.WaitGroup
	for i := range qs[:len(qs)-1] {
		all.Go(func() {
			defer rescue.Catch(r.server.report, func(error) { errs[i] = jsonrpc.ErrInternal })
			one(i)
		})
	}
	one(len(qs) - 1)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("mcp: ask the client: %w", err)
	}
	out := make(map[string]Answer, len(qs))
	for i := range qs {
		out[qs[i].Key] = answers[i]
	}
	return out, nil
}

// read decodes an answer and checks it against the question.
func (q *Question) read(ctx context.Context, raw jsonrpc.Raw) (a Answer, err error) {
	switch {
	case q.Elicit != nil:
		a.Elicit = new(ElicitResult)
		if err = raw.Decode(a.Elicit); err != nil {
			return a, err
		}
		return a, q.checkForm(ctx, a.Elicit)
	case q.Sample != nil:
		a.Sample = new(SamplingResult)
		if err = raw.Decode(a.Sample); err == nil && (a.Sample.Role == "" || a.Sample.Content == nil || a.Sample.Model == "") {
			err = errors.New("role, content or model is missing")
		}
		return a, err
	}
	if roots := lastMember(raw, "roots"); roots == nil || isNull(roots) {
		return a, errors.New("roots is missing")
	}
	var list ListRootsResult
	err = raw.Decode(&list)
	a.Roots = list.Roots
	return a, err
}

// checkForm checks what the user filled in against the form.
func (q *Question) checkForm(ctx context.Context, e *ElicitResult) error {
	switch e.Action {
	case ActionDecline, ActionCancel:
		return nil
	case ActionAccept:
	default:
		return fmt.Errorf("unknown action %.40q", e.Action)
	}
	if q.Elicit.Mode == ElicitURL || q.Elicit.RequestedSchema == nil {
		return nil
	}
	form, err := compileSchema(q.Elicit.RequestedSchema)
	if err != nil {
		return fmt.Errorf("the form: %w", err)
	}
	content := e.Content
	if content == nil {
		content = empty
	}
	return form.validate(ctx, content)
}

// NeedURL returns the error for a request that cannot continue until the user has visited the URLs.
// Each of urls is an Elicitation of mode ElicitURL. In 2025-11-25 the client receives it as error
// -32042 and may call again. In the modern era the URLs are ordinary questions, and NeedURL returns
// nil when the user has consented to all of them. The URLs are the keys of the questions.
func (r *Request) NeedURL(ctx context.Context, urls ...Elicitation) error {
	if r.version.HasElicitationID() {
		for i := range urls {
			if err := r.checkQuestion(&Question{Elicit: &urls[i]}); err != nil {
				return err
			}
			if urls[i].ElicitationID == "" {
				urls[i].ElicitationID = newID()
			}
		}
		return (&jsonrpc.Error{Code: CodeURLElicitation, Message: "URL elicitation required"}).WithData(URLElicitationData{urls})
	}
	qs := make([]Question, len(urls))
	for i := range urls {
		qs[i] = Question{Key: urls[i].URL, Elicit: &urls[i]}
	}
	answers, err := r.Ask(ctx, qs...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Elicit.Action != ActionAccept {
			return Errorf("The user did not agree to open %s.", urls[0].URL)
		}
	}
	return nil
}

// FormOf returns the schema of a form for a struct of strings, numbers, booleans and lists of
// choices; see [AddTool] for the rules and schema.go for the tags. It panics if T is not a struct.
func FormOf[T any]() jsonrpc.Raw {
	return formOf[T]()
}
