package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Question is one thing to ask of the client: exactly one of Elicit, Sample and Roots is set.
type Question struct {
	// Key names the question within the call, the same each time the handler runs.
	Key string

	Elicit *Elicitation
	Sample *SamplingRequest
	Roots  bool
}

// An Answer is what the client said to a [Question].
type Answer struct {
	Elicit *ElicitResult
	Sample *SamplingResult
	Roots  []Root
}

// A CapabilityError says that the client did not declare what a handler needs. A modern client gets it as -32021, a legacy one as a failed tool.
type CapabilityError struct{ Need ClientCapabilities }

func (e *CapabilityError) Error() string {
	return "the client does not support what this needs: " + string(mustEncode(e.Need))
}

func (e *CapabilityError) answer() *jsonrpc.Error {
	return ErrMissingCapability.WithData(MissingCapabilityData{e.Need})
}

// questions is the error by which a handler stops until the client comes back with answers.
type questions struct{ ask map[string]InputRequest }

func (q *questions) Error() string { return "mcp: the answer comes with a later request" }

// Ask puts questions to the client, all at once, and returns the answers by key.
//
// In the legacy era they go out as requests and Ask waits. In the modern era Ask returns an error that the handler is to return: the client gets the
// questions as the answer to its call and calls again with what it found, and the handler runs again from its beginning, this
// time with the answers. So whatever stands before a question runs once more for each round; [Once] keeps what should not. In a task
// the handler waits in both eras.
//
// A question that the client did not say it can be asked is a [*CapabilityError]; nothing is sent then.
func (r *Request) Ask(ctx context.Context, qs ...Question) (map[string]Answer, error) {
	if len(qs) == 0 {
		return nil, nil
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
		return r.askByRound(qs, wire)
	}
	return r.askNow(ctx, r.peer(), qs, wire)
}

// Elicit asks the user; see [Request.Ask].
func (r *Request) Elicit(ctx context.Context, key string, e *Elicitation) (*ElicitResult, error) {
	a, err := r.Ask(ctx, Question{Key: key, Elicit: e})
	return a[key].Elicit, err
}

// Sample asks the client's model; see [Request.Ask].
func (r *Request) Sample(ctx context.Context, key string, q *SamplingRequest) (*SamplingResult, error) {
	a, err := r.Ask(ctx, Question{Key: key, Sample: q})
	return a[key].Sample, err
}

// Roots asks what the client works on; see [Request.Ask].
func (r *Request) Roots(ctx context.Context, key string) ([]Root, error) {
	a, err := r.Ask(ctx, Question{Key: key, Roots: true})
	return a[key].Roots, err
}

// checkQuestion reports what the client would need to be asked this.
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
		return fmt.Errorf("mcp: question %q asks nothing", q.Key)
	}
	return &CapabilityError{need}
}

// wire is the question as a peer of v knows it.
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
		in.Params = empty // may be left out, but then the official Go SDK (v1.8.0) does not read the answer it stands in
	}
	return in, err
}

// askNow sends the questions as requests and waits for the answers.
func (r *Request) askNow(ctx context.Context, peer jsonrpc.Peer, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	answers := make([]Answer, len(qs))
	errs := make([]error, len(qs))
	one := func(i int) {
		var raw jsonrpc.Raw
		in := wire[qs[i].Key]
		if errs[i] = peer.Call(ctx, in.Method, in.Params, &raw); errs[i] == nil {
			answers[i], errs[i] = qs[i].read(raw)
		}
	}
	var all sync.WaitGroup
	for i := range qs[:len(qs)-1] {
		all.Go(func() { one(i) })
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

// read decodes an answer and holds it against the question.
func (q *Question) read(raw jsonrpc.Raw) (a Answer, err error) {
	switch {
	case q.Elicit != nil:
		a.Elicit = new(ElicitResult)
		if err = raw.Decode(a.Elicit); err != nil {
			return a, err
		}
		return a, q.checkForm(a.Elicit)
	case q.Sample != nil:
		a.Sample = new(SamplingResult)
		if err = raw.Decode(a.Sample); err == nil && (a.Sample.Role == "" || a.Sample.Content == nil || a.Sample.Model == "") {
			err = errors.New("role, content or model is missing")
		}
		return a, err
	}
	if isNull(member(raw, "roots")) || member(raw, "roots") == nil {
		return a, errors.New("roots is missing")
	}
	var list ListRootsResult
	err = raw.Decode(&list)
	a.Roots = list.Roots
	return a, err
}

// checkForm holds what the user filled in against the form.
func (q *Question) checkForm(e *ElicitResult) error {
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
	return form.validate(content)
}

// NeedURL is the error for a request that cannot go on until the user has been at some URLs: each is an Elicitation of mode ElicitURL. In
// 2025-11-25 the client gets it as error -32042 and may call again; in the modern era it is a question like any other, and
// nil when the user has consented to all. The keys are made of the URLs.
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

// FormOf makes the schema of a form from a struct of strings, numbers, booleans and lists of choices; see [AddTool] for the rules and schema.go for
// the tags. It panics if T is no struct.
func FormOf[T any]() jsonrpc.Raw {
	return formOf[T]()
}
