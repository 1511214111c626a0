package lessons

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// A check sees whether a row shows that a step was done.
type check = func(*playground.Scene, *capture.Row) bool

// all is every check.
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

// sent is a request, notification, batch or junk of ours.
func sent(kind string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Kind == kind && r.Dir == capture.Out }
}

// got is a message of theirs.
func got(kind string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Kind == kind && r.Dir == capture.In }
}

func method(name string) check {
	return func(_ *playground.Scene, r *capture.Row) bool { return r.Method == name }
}

// done is a request that was answered with a result.
func done(_ *playground.Scene, r *capture.Row) bool { return r.State == capture.StateDone }

// failed is a request, or junk, that was answered with that code.
func failed(code int64) check {
	return func(s *playground.Scene, r *capture.Row) bool {
		if r.Dir != capture.Out {
			return false
		}
		answer, _, ok := s.Answer(r)
		return ok && answer.HasCode && answer.Code == code
	}
}

// read is the message of a row; a batch is none.
func read(s *playground.Scene, r *capture.Row) (m envelope) {
	_ = json.Unmarshal(s.Payload(r.Ref), &m, json.RejectUnknownMembers(false)) // junk has no members
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

// paramsAre tells which JSON value params are, by its first character.
func paramsAre(first byte) check {
	return func(s *playground.Scene, r *capture.Row) bool {
		p := read(s, r).Params
		return len(p) > 0 && p[0] == first
	}
}

// says is a text in the bytes of the message.
func says(text string) check {
	return func(s *playground.Scene, r *capture.Row) bool { return bytes.Contains(s.Payload(r.Ref), []byte(text)) }
}

// after is a step that was done before.
func after(id string) check {
	return func(s *playground.Scene, _ *capture.Row) bool { return s.Passed[id] != nil }
}

// lines joins the lines of a text into one, as a paragraph is.
func lines(text string) string { return strings.Join(strings.Fields(text), " ") }
