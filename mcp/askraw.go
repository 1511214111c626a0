package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// AskRaw is [Request.Ask] for questions of another server: questions and answers are raw JSON, and
// the answers are not compared with the questions. Members that the client's version does not have
// are removed, and so is what belongs to the message in which a question arrived. Each answer is
// used once: the same question in a later round is asked again.
//
// In the legacy era, an error response of the client is an [*AnswerError], with the client's
// *jsonrpc.Error.
func (r *Request) AskRaw(ctx context.Context, asks map[string]InputRequest) (map[string]jsonrpc.Raw, error) {
	if len(asks) == 0 {
		return nil, nil
	}
	if err := r.ended(); err != nil {
		return nil, err
	}
	wire := make(map[string]InputRequest, len(asks))
	for key, in := range asks {
		q, err := rawQuestion(key, in)
		if err == nil {
			err = r.checkQuestion(q)
		}
		if err != nil {
			return nil, err
		}
		wire[key] = rawWire(in, r.version)
	}
	if r.version.Modern() {
		return r.askRawByRound(wire)
	}
	return r.askRawNow(ctx, wire)
}

// rawQuestion returns as much of a question as the check of the capabilities needs.
func rawQuestion(key string, in InputRequest) (*Question, error) {
	q := &Question{Key: key}
	switch in.Method {
	case MethodElicit:
		mode, _ := textOf(lastMember(in.Params, "mode"))
		q.Elicit = &Elicitation{Mode: mode}
	case MethodCreateMessage:
		q.Sample = &SamplingRequest{}
		if tools := lastMember(in.Params, "tools"); tools != nil && !isNull(tools) {
			q.Sample.Tools = []Tool{}
		}
		if choice := lastMember(in.Params, "toolChoice"); choice != nil && !isNull(choice) {
			q.Sample.ToolChoice = &ToolChoice{}
		}
	case MethodRootsList:
		q.Roots = true
	default:
		return nil, fmt.Errorf("mcp: question %q: unknown method %.40q", key, in.Method)
	}
	return q, nil
}

// rawWire returns a question in the form of version v.
func rawWire(in InputRequest, v Version) InputRequest {
	mode, _ := textOf(lastMember(in.Params, "mode"))
	out := []byte{'{'}
	add := func(name string, value jsonrpc.Raw) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	identified := false
	for name, value := range in.Params.Members() {
		switch string(name) {
		case "_meta":
			if value = ownMeta(value); value == nil {
				continue
			}
		case "task":
			continue // an agreement with the other server
		case "mode":
			if in.Method == MethodElicit && !v.HasURLElicitation() {
				continue
			}
		case "elicitationId":
			if identified = v.HasElicitationID(); !identified {
				continue
			}
		}
		add(string(name), value)
	}
	if in.Method == MethodElicit && mode == ElicitURL && v.HasElicitationID() && !identified {
		add("elicitationId", jsonrpc.AppendString(nil, newID()))
	}
	return InputRequest{Method: in.Method, Params: append(out, '}')}
}

// ownMeta returns a _meta without the members that belong to one message, or nil if nothing
// remains.
func ownMeta(meta jsonrpc.Raw) jsonrpc.Raw {
	out := []byte{'{'}
	for name, value := range meta.Members() {
		if string(name) == MetaProgressToken || strings.HasPrefix(string(name), reservedMeta) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// askRawByRound returns the answers if all have arrived, otherwise the error that asks the
// questions.
func (r *Request) askRawByRound(wire map[string]InputRequest) (map[string]jsonrpc.Raw, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	if r.asked == nil {
		r.asked = map[string]string{}
	}
	out := make(map[string]jsonrpc.Raw, len(wire))
	missing := map[string]InputRequest{}
	for key, in := range wire {
		r.asked[key] = digestOf(in)
		raw, ok := m.Answers[key]
		if ok && isObject(raw) && (m.unbound || m.Asked[key] == r.asked[key]) {
			out[key] = raw
			continue
		}
		delete(m.Answers, key)
		missing[key] = in
	}
	if len(missing) > 0 {
		return nil, &questions{missing}
	}
	for key := range wire {
		delete(m.Answers, key)
		delete(r.asked, key)
	}
	return out, nil
}

// askRawNow sends the questions as requests and waits for the responses.
func (r *Request) askRawNow(ctx context.Context, wire map[string]InputRequest) (map[string]jsonrpc.Raw, error) {
	var mu sync.Mutex
	out := make(map[string]jsonrpc.Raw, len(wire))
	var errs []error
	ask := func(key string, in InputRequest) {
		var raw jsonrpc.Raw
		err := r.peer().Call(ctx, in.Method, in.Params, &raw)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
			err = &AnswerError{Key: key, Err: refused}
		} else if err == nil && !isObject(raw) {
			err = &AnswerError{Key: key, Err: errors.New("it is not an object")}
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			return
		}
		out[key] = raw
	}
	if len(wire) == 1 {
		for key, in := range wire {
			ask(key, in)
		}
	} else {
		var all sync.WaitGroup
		for key, in := range wire {
			all.Go(func() {
				defer rescue.Catch(r.server.report, func(error) {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, jsonrpc.ErrInternal)
				})
				ask(key, in)
			})
		}
		all.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("mcp: ask the client: %w", err)
	}
	return out, nil
}

// Keep stores a value for the next run of the handler, as [Once] does: in the modern era, a handler
// runs again for each round of questions, and in between the value is stored encrypted at the
// client, bound to the caller, the method and the params. value must be JSON. In the legacy era a
// handler runs once, and the value is forgotten with it.
func (r *Request) Keep(key string, value jsonrpc.Raw) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	if m.Kept == nil {
		m.Kept = map[string]jsonrpc.Raw{}
	}
	m.Kept[key] = value.Clone()
}

// Kept returns the last value of [Request.Keep], or nil.
func (r *Request) Kept(key string) jsonrpc.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == nil {
		return nil
	}
	return r.memory.Kept[key]
}
