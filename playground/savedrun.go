package playground

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/suite"
)

// This file runs saved calls on the page, with package suite: it fills in their variables, sends
// them and checks the responses against the assertions.

type runParams struct {
	Name      string            `json:"name"`
	Target    string            `json:"target,omitzero"`
	Variables map[string]string `json:"variables,omitempty"`
	// Environment is one of the file. One that the file does not have changes nothing.
	Environment string `json:"environment,omitzero"`
}

type runResult struct {
	sendResult
	Text string `json:"text"`
	heldResult
}

type heldParams struct {
	Ref     string       `json:"ref"` // of the call
	Asserts []assertView `json:"asserts"`
}

type heldResult struct {
	Results []suite.Result `json:"results"`
	OK      bool           `json:"ok"`
}

// savedRun sends a saved call and checks its response.
func (p *Playground) savedRun(ctx context.Context, in runParams) (runResult, error) {
	s, _, err := p.findSaved(in.Name)
	if err != nil {
		return runResult{}, err
	}
	values := make(suite.Values)
	for _, group := range []Variables{s.Variables, s.Environments[in.Environment]} {
		for name, value := range group {
			if given, ok := in.Variables[name]; ok {
				value = given
			}
			values[name] = suite.TextValue(value)
		}
	}
	call := suite.Call{Text: s.Text, Target: orDefault(in.Target, s.Target), Headers: s.Headers, Asserts: s.Saved.Asserts}
	request, asserts, err := call.Request(values)
	if err != nil {
		return runResult{}, badParam("/variables", "%v", err)
	}
	out := runResult{Text: string(request.Text)}
	out.sendResult, err = p.send(ctx, request.Target, outgoing{request.Text, request.Header, false}, "", true)
	if err != nil {
		return out, err
	}
	out.heldResult = p.holdAll(ctx, asserts, out.Ref, out.Answer)
	return out, nil
}

// savedCheck waits for the response to a call that was sent, and checks it.
func (p *Playground) savedCheck(ctx context.Context, in heldParams) (heldResult, error) {
	ref, err := capture.ParseRef(in.Ref)
	if err != nil {
		return heldResult{}, badParam("/ref", "%q is not the number of a message", in.Ref)
	}
	asserts, err := assertsOf(in.Asserts)
	if err != nil {
		return heldResult{}, err
	}
	p.rec.Flush()
	if _, ok := p.rec.Row(ref); !ok {
		return heldResult{}, badParam("/ref", "there is no message #%s", in.Ref)
	}
	answer, err := p.await(ctx, ref)
	if err != nil {
		return heldResult{}, err
	}
	return p.holdAll(ctx, asserts, in.Ref, answer), nil
}

// holdAll checks all assertions against the response in a row. If answer is "", there is no
// response.
func (p *Playground) holdAll(ctx context.Context, asserts []Assert, call, answer string) (out heldResult) {
	reply := &suite.Reply{}
	if from, err := capture.ParseRef(call); err == nil {
		to, _ := capture.ParseRef(answer) // the zero Ref without a response
		p.recorded(from, to, func(seq int64) []byte {
			payload, _ := p.rec.Payload(capture.Ref{Seq: seq}) // nil if it is not stored
			return payload
		}, reply)
	}
	out.Results, out.OK = suite.HoldAll(ctx, asserts, reply)
	return out
}

// recorded fills a reply from the rows of a call and its response: the response, the notifications
// before it and its time. payload returns a received payload by its number.
func (p *Playground) recorded(call, answer capture.Ref, payload func(seq int64) []byte, reply *suite.Reply) {
	row, ok := p.rec.Row(call)
	if !ok || answer.IsZero() {
		return
	}
	reply.Time = row.Took
	reply.Response = memberOf(payload(answer.Seq), answer.Member)
	for _, x := range p.rec.Rows(capture.Ref{Seq: call.Seq + 1}, 0) {
		if x.Conn != row.Conn || x.Dir != capture.In {
			continue
		}
		switch {
		case x.Kind == capture.RowNotification && x.Ref.Seq <= answer.Seq:
			reply.Notifications = append(reply.Notifications, memberOf(payload(x.Ref.Seq), x.Ref.Member))
		case x.Kind != capture.RowResult && x.Kind != capture.RowError:
		case x.Call == call, row.Exchange != 0 && x.Exchange == row.Exchange && x.ID == row.ID:
			reply.Responses = append(reply.Responses, memberOf(payload(x.Ref.Seq), x.Ref.Member))
		}
	}
	if n := len(reply.Responses); n > 1 { // a stream
		reply.Response = reply.Responses[n-1]
	}
}

// memberOf returns a member of a batch, from 1; 0 is the whole payload.
func memberOf(payload []byte, member int) jsonrpc.Raw {
	if member == 0 {
		return payload
	}
	for e := range jsonrpc.Raw(payload).Elements() {
		if member--; member == 0 {
			return e
		}
	}
	return nil
}

// headerOf returns the headers that the page sends.
func headerOf(list []headerField) (http.Header, error) {
	h, err := suite.HeaderOf(list)
	if e, ok := errors.AsType[*suite.HeaderError](err); ok {
		return nil, badParam(fmt.Sprintf("/headers/%d/%s", e.Index, e.Member), "%s", e.Text)
	}
	return h, err
}

// checkAsserts validates assertions before they are used.
func checkAsserts(list []Assert) error {
	i, member, err := suite.Check(list)
	switch {
	case err == nil:
		return nil
	case i < 0:
		return badParam("/asserts", "%v", err)
	}
	return badParam(fmt.Sprintf("/asserts/%d/%s", i, member), "%v", err)
}
