// Package lens sees protocols in what was captured: the Model Context Protocol, the two agent protocols that are called ACP, A2A and the
// Language Server Protocol.
//
// [Judges] go into a capture.Recorder or capture.Open. They name what a message is about (the tool, the task, the session),
// put notifications and questions under the call that they belong to, and hold messages against the rules of the revision
// that was agreed on: its schema, its headers, its ids. A protocol is recognised by its own methods; what belongs to none is left as it is.
package lens

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Judges returns new judges for all protocols. They remember conversations, so each Recorder and each Log needs its own.
func Judges() []capture.Judge {
	return []capture.Judge{MCP(), A2A(), Agents(), LSP(), Brief()}
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode reads the members of text that v has fields for, as far as they fit.
func decode(text jsonrpc.Raw, v any) {
	if len(text) > 0 {
		_ = json.Unmarshal(text, v, lenient) // what does not fit is told by the schema
	}
}

// A text is a string, or "" where something else stands: a message with one wrong member is still looked at.
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

// A number is a number, or 0 where something else stands.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	f, _ := strconv.ParseFloat(string(b), 64)
	*n = number(f)
	return nil
}

// A talk is where a protocol keeps what it knows of a conversation.
type talk struct {
	conn    int64
	session string
}

func talkOf(r *capture.Row) talk { return talk{r.Conn, r.Session} }

// maxTalks bounds the conversations that a judge remembers. Past it, it forgets all and learns anew.
const maxTalks = 10_000

// table is a map that is bounded.
type table[V any] map[talk]V

func (t table[V]) set(k talk, v V) {
	if len(t) >= maxTalks {
		clear(t)
	}
	t[k] = v
}

// drop forgets a connection.
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

// short is text for a row.
func short[T ~string](s T) string {
	text := strings.Join(strings.Fields(string(s)), " ")
	if r := []rune(text); len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return text
}

// traceOf is the trace id of a traceparent (W3C Trace Context, section 3.2).
func traceOf(parent text) string {
	if parts := strings.Split(string(parent), "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return ""
}
