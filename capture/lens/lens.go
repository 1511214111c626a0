// Package lens checks captured traffic against the rules of agent protocols: the Model Context
// Protocol, the two agent protocols called ACP, A2A and the Language Server Protocol.
//
// Pass [Judges] to a capture.Recorder or to capture.Open. They name the subject of a message (the
// tool, the task, the session), assign notifications and server requests to the call that they
// belong to, and check messages against the rules of the negotiated protocol version: its schema,
// its headers, its IDs. A protocol is recognised by its own methods. Messages of other protocols
// are not changed.
package lens

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Judges returns new judges for all protocols. Because they store the state of conversations, each
// Recorder and each Log needs its own.
func Judges() []capture.Judge {
	return []capture.Judge{MCP(), A2A(), Agents(), LSP(), Brief()}
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode decodes the members of text that v has fields for, as far as their types match.
func decode(text jsonrpc.Raw, v any) {
	if len(text) > 0 {
		_ = json.Unmarshal(text, v, lenient) // the schema check reports mismatches
	}
}

// A text is a string, or "" for a value of another type, so that a message with one invalid member
// is still examined.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	if len(b) > 0 && b[0] == '"' {
		var s string
		if json.Unmarshal(b, &s, lenient) == nil {
			*t = text(s)
		}
	}
	return nil
}

// A number is a number, or 0 for a value of another type.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	f, _ := strconv.ParseFloat(string(b), 64)
	*n = number(f)
	return nil
}

// A talk identifies a conversation.
type talk struct {
	conn    int64
	session string
}

func talkOf(r *capture.Row) talk { return talk{r.Conn, r.Session} }

// maxTalks is the maximum number of conversations that a judge stores. Beyond it, the judge drops
// all of them and starts again.
const maxTalks = 10_000

// A table is a bounded map.
type table[V any] map[talk]V

func (t table[V]) set(k talk, v V) {
	if len(t) >= maxTalks {
		clear(t)
	}
	t[k] = v
}

// drop deletes a connection.
func (t table[V]) drop(conn int64) {
	for k := range t {
		if k.conn == conn {
			delete(t, k)
		}
	}
}

func firstOf(words ...text) string {
	for _, w := range words {
		if w != "" {
			return string(w)
		}
	}
	return ""
}

// short returns text on one line for a row.
func short[T ~string](s T) string {
	text := strings.Join(strings.Fields(string(s)), " ")
	if r := []rune(text); len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return text
}

// traceOf returns the trace ID of a traceparent (W3C Trace Context, section 3.2).
func traceOf(parent text) string {
	if parts := strings.Split(string(parent), "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return ""
}
