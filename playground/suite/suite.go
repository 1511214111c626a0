package suite

import (
	"fmt"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Limits of a file. A file beyond them is an error.
const (
	maxBytes   = 4 << 20 // of the text
	maxCalls   = 1000
	MaxAsserts = 200 // of one call
)

// A Suite is a list of calls that run one after the other. Read one with [Read] or [Parse].
type Suite struct {
	File string // for messages
	Name string

	Target   string   // of the calls that name none: an address, or @NAME
	Command  []string // a program to start instead, without a shell; nil for none
	Env      []string // of the program, as NAME=VALUE, in addition to a clean environment
	Protocol string   // of the targets; "" if it is derived from the address

	Headers      []Header // of each call, before its own
	Variables    Values
	Environments map[string]Values // they replace variables of the same name
	Secrets      []string          // names of variables whose values are not shown
	Timeout      time.Duration     // of a call that has none; 0 for that of Options
	Answers      Answers           // of the calls that have none for a method
	Calls        []Call
}

// A Call is one message, and what is checked about its response.
type Call struct {
	Name   string
	Target string // "" for the target of the suite

	// Text is the message, or a batch, as it is sent. If "", the message is made of Method and
	// Params.
	Text   string
	Method string
	Params jsonrpc.Raw // nil for none
	Notify bool        // a notification: no response is awaited

	Headers   []Header
	Variables Values // they replace variables of the suite and its environments

	// Environments are those of a file of one call, as [ParseCall] returns them. Their variables
	// replace those of the call. The environments of a suite are in Suite.
	Environments map[string]Values

	Asserts []Assert
	Capture []Capture
	Answers Answers
	Timeout time.Duration
	Skip    string // why the call is not run; "" if it is
	Updated time.Time

	Line int // of the file; 0 if unknown
}

// A Header is a header of an HTTP request. A nil Value removes one that is sent by default.
type Header struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// An Assert is a condition that the response must meet.
type Assert struct {
	// Path is what is compared: $.result.items[0].name is a part of the response,
	// notifications[0].params a part of the notifications that were received before it, responses
	// of all responses of a stream, and time the milliseconds until the response. "jq: FILTER" is
	// the first output of a jq filter, whose input has the members result, error, response,
	// responses, notifications and time.
	Path string `json:"path"`
	// Is is exists, missing, equals, differs, matches, contains, less, more, count or type.
	Is    string      `json:"is"`
	Value jsonrpc.Raw `json:"value,omitzero"`
}

// comparisons are the values of Assert.Is.
var comparisons = []string{"exists", "missing", "equals", "differs", "matches", "contains", "less", "more", "count", "type"}

// takesValue reports whether a comparison needs a value.
func takesValue(is string) bool { return is != "exists" && is != "missing" }

func (a *Assert) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Path, a.Is, a.Value))
}

// A Capture stores a part of the response as a variable of the calls that follow.
type Capture struct {
	Name string
	Path string // as of an Assert
}

// Answers are the results of requests that the server sends during a call, by method.
type Answers map[string]jsonrpc.Raw

// A Value is the value of a variable.
type Value struct {
	Text string      // what replaces {{name}} in a text
	JSON jsonrpc.Raw // what replaces a string of params that is only {{name}}
}

// Values are variables by name.
type Values map[string]Value

// ValueOf returns the value for JSON: the text of a string, or any other JSON unchanged.
func ValueOf(value jsonrpc.Raw) Value {
	v := Value{Text: string(value), JSON: value}
	if len(value) > 0 && value[0] == '"' {
		var text string
		if value.Decode(&text) == nil {
			v.Text = text
		}
	}
	return v
}

// TextValue returns the value for a text.
func TextValue(text string) Value { return Value{text, jsonrpc.AppendString(nil, text)} }

// An Error is a fault of a file, or of what a file needs. Nothing was sent.
type Error struct {
	File         string
	Line, Column int // from 1; 0 if unknown
	Text         string
}

func (e *Error) Error() string {
	switch {
	case e.File == "":
		return e.Text
	case e.Line == 0:
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}
