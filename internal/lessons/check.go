package lessons

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// A check reports whether a row shows that a step was completed.
type check = func(*playground.Scene, *capture.Row) bool

// all returns a check that passes if every check passes.
func all(checks ...check) check {
	return func(s *playground.Scene, r *capture.Row) bool {
		for _, c := range checks {
			if !c(s, r) {
				return false
			}
		}
		return true
	}
}

// sent matches a request, notification, batch or invalid message that we sent.
func sent(kind string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Kind == kind && r.Dir == capture.Out }
}

// got matches a message of the peer.
func got(kind string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Kind == kind && r.Dir == capture.In }
}

func method(name string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Method == name }
}

// done matches a request that has a result.
func done(_ *playground.Scene, r *capture.Row) bool { return r.State == capture.StateDone }

// failed matches a request or invalid message with an error response of the given code.
func failed(code int64) check {
	return func(s *playground.Scene, r *capture.Row) bool {
		if r.Dir != capture.Out {
			return false
		}
		answer, _, ok := s.Answer(r)
		return ok && answer.HasCode && answer.Code == code
	}
}

// read returns the message of a row. For a batch it returns the zero envelope.
func read(s *playground.Scene, r *capture.Row) (m envelope) {
	// An invalid message has no members.
	_ = json.Unmarshal(s.Payload(r.Ref), &m, json.RejectUnknownMembers(false))
	return m
}

type envelope struct {
	Version string      `json:"jsonrpc"`
	ID      jsonrpc.Raw `json:"id"`
	Method  string      `json:"method"`
	Params  jsonrpc.Raw `json:"params"`
	Result  jsonrpc.Raw `json:"result"`
	Error   jsonrpc.Raw `json:"error"`
}

// paramsAre matches the JSON type of the params by their first character.
func paramsAre(first byte) check {
	return func(s *playground.Scene, r *capture.Row) bool {
		p := read(s, r).Params
		return len(p) > 0 && p[0] == first
	}
}

// says matches a text in the bytes of the message.
func says(text string) check {
	return func(s *playground.Scene, r *capture.Row) bool { return bytes.Contains(s.Payload(r.Ref), []byte(text)) }
}

// after matches if the given step was completed before.
func after(id string) check {
	return func(s *playground.Scene, _ *capture.Row) bool { return s.Passed[id] != nil }
}
