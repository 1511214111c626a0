package mcp

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// In the modern era a question is the answer to a call, and the answer to the question comes with the next call. What the server has to
// remember until then travels with the client as requestState: sealed, bound to the caller, the method and its params, and good for a
// while (MCP 2026-07-28, Multi Round-Trip Requests). Nothing stays in memory, so that the next call may reach another process.

// memory is what a call knows of its earlier rounds.
type memory struct {
	Answers map[string]jsonrpc.Raw `json:"a,omitzero"` // to the questions of all rounds
	Kept    map[string]jsonrpc.Raw `json:"k,omitzero"` // by Once
	Until   int64                  `json:"u"`          // Unix time
}

// maxState bounds what is sealed, in bytes.
const maxState = 256 << 10

var errState = invalidParams("requestState is not valid for this request")

// recall reads what the call brought along.
func (r *Request) recall(ctx context.Context) error {
	m := &memory{}
	if r.p.requestState != nil {
		text, ok := textOf(r.p.requestState)
		if !ok {
			return errState
		}
		plain, err := r.server.sealer.open(text, r.binding(ctx))
		if err != nil || jsonrpc.Raw(plain).Decode(m) != nil || time.Now().Unix() > m.Until {
			return errState
		}
	}
	if r.p.inputResponses != nil {
		if !isObject(r.p.inputResponses) {
			return invalidParams("inputResponses is an object")
		}
		if m.Answers == nil {
			m.Answers = map[string]jsonrpc.Raw{}
		}
		members(r.p.inputResponses, func(name []byte, value jsonrpc.Raw) {
			if _, earlier := m.Answers[string(name)]; !earlier {
				m.Answers[string(name)] = value.Clone()
			}
		})
	}
	r.mu.Lock()
	r.memory = m
	r.mu.Unlock()
	return nil
}

// binding is what a state belongs to: the caller and everything of the request but what changes from round to round.
func (r *Request) binding(ctx context.Context) []byte {
	rest := map[string]jsonrpc.Raw{}
	members(r.rpc.Params, func(name []byte, value jsonrpc.Raw) {
		switch string(name) {
		case "_meta", "inputResponses", "requestState":
		default:
			rest[string(name)] = value
		}
	})
	text, err := encode(rest)
	if err == nil {
		if plain, err := canonical(text); err == nil {
			text = plain
		}
	}
	principal := r.server.principal(ctx)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d:%s\n%s", r.Method, len(principal), principal, text))
	return sum[:]
}

// remember returns the memory of the call. The lock is held.
func (r *Request) remember() *memory {
	if r.memory == nil {
		r.memory = &memory{}
	}
	return r.memory
}

// askByRound returns the answers that are here, or the error that asks for them.
func (r *Request) askByRound(qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	if r.asked == nil {
		r.asked = map[string]bool{}
	}
	out := make(map[string]Answer, len(qs))
	missing := map[string]InputRequest{}
	for i := range qs {
		key := qs[i].Key
		r.asked[key] = true
		if raw, ok := m.Answers[key]; ok {
			a, err := qs[i].read(raw)
			if err == nil {
				out[key] = a
				continue
			}
			delete(m.Answers, key) // what does not fit is asked again
		}
		missing[key] = wire[key]
	}
	if len(missing) > 0 {
		return nil, &questions{missing}
	}
	return out, nil
}

// inputRequired makes the result that asks.
func (s *Server) inputRequired(ctx context.Context, r *Request, q *questions) (any, error) {
	bound := r.binding(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remember()
	// Answers to questions that nobody asked are not carried along.
	for key := range m.Answers {
		if !r.asked[key] {
			delete(m.Answers, key)
		}
	}
	m.Until = time.Now().Add(s.opts.StateTTL).Unix()
	plain, err := encode(m)
	if err != nil {
		return nil, err
	}
	if len(plain) > maxState {
		return nil, fmt.Errorf("mcp: %s wants to remember %d bytes between rounds, over %d", r.Name, len(plain), maxState)
	}
	body, err := encode(InputRequired{InputRequests: q.ask, RequestState: s.sealer.seal(plain, bound)})
	if err != nil {
		return nil, err
	}
	return &modernResult{s: s, body: body, kind: ResultInputRequired}, nil
}

// Once returns what f returned the first time that this call ran: in the modern era, where a handler runs again for each round of questions, the
// value travels with the client in between, sealed. T has a JSON form, and key is its own within the call. Elsewhere f just runs.
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

// A sealer makes texts that only it can read, and notices when they were changed.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) *sealer {
	block, err := aes.NewCipher(key)
	if err != nil || len(key) != 32 {
		panic("mcp: StateKey has 32 bytes")
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return &sealer{aead}
}

func (s *sealer) seal(plain, binding []byte) string {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, binding))
}

func (s *sealer) open(text string, binding []byte) ([]byte, error) {
	if len(text) > 2*maxState {
		return nil, errors.New("mcp: state too large")
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < s.aead.NonceSize() {
		return nil, errors.New("mcp: no state of this server")
	}
	n := s.aead.NonceSize()
	return s.aead.Open(nil, sealed[:n], sealed[n:], binding)
}

// newID makes an id that nobody can guess.
func newID() string { return rand.Text() }

// principal says who sent a request.
func (s *Server) principal(ctx context.Context) string {
	if s.opts.Principal == nil {
		return ""
	}
	return s.opts.Principal(ctx)
}
