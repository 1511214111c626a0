package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/internal/x/seal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// In the modern era, a question is the result of a call, and the answer to the question arrives
// with the next call. The state that the server needs in between is sent to the client as
// requestState. It is encrypted, bound to the caller, the method and its params, and expires (MCP
// 2026-07-28, Multi Round-Trip Requests). The server stores nothing in memory, so that another
// process may handle the next call.

// memory is the state of a call from its earlier rounds.
type memory struct {
	Answers map[string]jsonrpc.Raw `json:"a,omitzero"` // to the questions of all rounds
	// digests of the questions asked so far, by key
	Asked map[string]string      `json:"q,omitzero"`
	Kept  map[string]jsonrpc.Raw `json:"k,omitzero"` // results of Once
	Until int64                  `json:"u"`          // Unix time

	unbound bool // Answers came without a state, and the server accepts them
}

// maxState is the maximum size of the state before encryption, in bytes.
const maxState = 256 << 10

var errState = invalidParams("requestState is not valid for this request")

// recall reads the state and the answers that the call contains.
func (r *Request) recall(ctx context.Context) error {
	m := &memory{}
	if r.p.requestState != nil {
		text, ok := textOf(r.p.requestState)
		if !ok {
			return errState
		}
		plain, err := unseal(r.server.sealer, text, r.binding(ctx))
		if err != nil || jsonrpc.Raw(plain).Decode(m) != nil || time.Now().Unix() > m.Until {
			return errState
		}
	}
	if r.p.inputResponses != nil {
		if !isObject(r.p.inputResponses) {
			return invalidParams("inputResponses must be an object")
		}
		m.unbound = r.p.requestState == nil && r.server.opts.AcceptUnboundAnswers
		if m.Answers == nil {
			m.Answers = map[string]jsonrpc.Raw{}
		}
		for name, value := range r.p.inputResponses.Members() {
			_, earlier := m.Answers[string(name)]
			// an answer to a question that was not asked must not count as consent
			if _, asked := m.Asked[string(name)]; (asked || m.unbound) && !earlier {
				m.Answers[string(name)] = value.Clone()
			}
		}
	}
	r.mu.Lock()
	r.memory = m
	r.mu.Unlock()
	return nil
}

// binding returns what a state is bound to: the caller and all of the request except what changes
// from round to round.
func (r *Request) binding(ctx context.Context) []byte {
	text, err := encode(r.p.fixed(r.rpc.Params))
	if err == nil {
		if plain, err := canonical(text); err == nil {
			text = plain
		}
	}
	caller := r.server.principal(ctx)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d:%s\n%s", r.Method, len(caller), caller, text))
	return sum[:]
}

// remember returns the memory of the call. The caller holds the lock.
func (r *Request) remember() *memory {
	if r.memory == nil {
		r.memory = &memory{}
	}
	return r.memory
}

// askByRound returns the answers if they have arrived, otherwise the error that asks the questions.
func (r *Request) askByRound(ctx context.Context, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	if r.asked == nil {
		r.asked = map[string]string{}
	}
	out := make(map[string]Answer, len(qs))
	missing := map[string]InputRequest{}
	for i := range qs {
		key := qs[i].Key
		r.asked[key] = digestOf(wire[key])
		if raw, ok := m.Answers[key]; ok && (m.unbound || m.Asked[key] == r.asked[key]) {
			a, err := qs[i].read(ctx, raw)
			if err == nil {
				out[key] = a
				continue
			}
		}
		// asked again, because it does not fit or belongs to another question
		delete(m.Answers, key)
		missing[key] = wire[key]
	}
	if len(missing) > 0 {
		return nil, &questions{missing}
	}
	return out, nil
}

// digestOf returns a digest of a question with everything that the user sees of it: consent to one
// price is not consent to another.
func digestOf(q InputRequest) string {
	text := []byte(q.Params)
	if plain, err := canonical(q.Params); err == nil {
		text = plain
	}
	sum := sha256.Sum256(append([]byte(q.Method+"\n"), text...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// inputRequired returns the result that asks the questions.
func (s *Server) inputRequired(ctx context.Context, r *Request, q *questions) (any, error) {
	bound := r.binding(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	// Answers to questions that were not asked in this run are dropped.
	for key := range m.Answers {
		if r.asked[key] == "" {
			delete(m.Answers, key)
		}
	}
	m.Asked = r.asked
	m.Until = time.Now().Add(s.opts.StateTTL).Unix()
	plain, err := encode(m)
	if err != nil {
		return nil, err
	}
	if len(plain) > maxState {
		return nil, fmt.Errorf("mcp: %s: the state of %d bytes between rounds exceeds %d", r.Name, len(plain), maxState)
	}
	body, err := encode(InputRequired{InputRequests: q.ask, RequestState: s.sealer.Seal(plain, bound)})
	if err != nil {
		return nil, err
	}
	return &modernResult{s: s, body: body, kind: ResultInputRequired}, nil
}

// Once returns the value that f returned when this call first ran it. In the modern era, a handler
// runs again for each round of questions; in between, the value is stored encrypted at the client.
// T must have a JSON form, and key must be unique within the call. In the legacy era and in tasks,
// Once only calls f.
func Once[T any](ctx context.Context, r *Request, key string, f func(context.Context) (T, error)) (T, error) {
	var v T
	r.mu.Lock()
	var m *memory
	if r.version.Modern() && r.task.Load() == nil {
		m = r.remember()
		if raw, ok := m.Kept[key]; ok {
			r.mu.Unlock()
			err := raw.Decode(&v)
			return v, err
		}
	}
	r.mu.Unlock()
	v, err := f(ctx)
	if err != nil || m == nil {
		return v, err
	}
	raw, err := encode(v)
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Kept == nil {
		m.Kept = map[string]jsonrpc.Raw{}
	}
	m.Kept[key] = raw
	return v, nil
}

// newSealer returns a Sealer for states between rounds.
func newSealer(key []byte) *seal.Sealer {
	s, err := seal.New(key)
	if err != nil {
		panic("mcp: StateKey must have 32 bytes")
	}
	return s
}

// unseal returns a state that this server has sealed.
func unseal(s *seal.Sealer, text string, binding []byte) ([]byte, error) {
	if len(text) > 2*maxState {
		return nil, errors.New("mcp: state too large")
	}
	return s.Open(text, binding)
}

// newID returns an ID that cannot be guessed.
func newID() string { return rand.Text() }

// principal returns the principal that sent a request.
func (s *Server) principal(ctx context.Context) string {
	if s.opts.Principal == nil {
		return principal.Of(ctx)
	}
	return s.opts.Principal(ctx)
}
