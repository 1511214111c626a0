package capture

import (
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Judge looks at each message in the order of the wire, after it was paired, and adds what its protocol knows: names,
// findings, what belongs together. It is called on one goroutine, must not wait and keeps nothing of the Look but copies.
//
// At the end of a connection it gets a Look whose Row is of kind close and whose Message is nil.
type Judge func(*Look)

// A Look is one message as a [Judge] sees it.
type Look struct {
	// Row is what is known so far. A Judge may set Name, Brief, Session, Version, Progress, Total and Trace.
	Row *Row

	Message *jsonrpc.Message // nil if it cannot be read; then Row.Kind says what it is
	Payload []byte           // its bytes: of a member of a batch, the member's
	Call    *Row             // of a response that was paired: its request, whose Name, Brief and Version may be set

	// Of an HTTP exchange; nil otherwise. The Response is nil until its head has come.
	Request, Response http.Header
	HTTPMethod        string // POST, GET
	Status            int

	book *Book
	call *call // that Row opened, or that it answers
}

// Broken says that the message breaks a rule.
func (l *Look) Broken(rule, text string) {
	l.Row.Findings = append(l.Row.Findings, Finding{Rule: rule, Text: text})
}

// Doubt says that the message is allowed, but worth a look.
func (l *Look) Doubt(rule, text string) {
	l.Row.Findings = append(l.Row.Findings, Finding{Rule: rule, Text: text, Doubt: true})
}

// Token says that notifications which carry this token belong to the request of this Look, while it is open.
func (l *Look) Token(token string) {
	if l.call != nil && l.Row.Kind == RowRequest && len(l.book.tokens) < maxOpen {
		k := tokenKey{l.Row.Conn, l.Row.Dir, l.Row.Session, token}
		l.book.tokens[k] = l.call
		l.call.tokens = append(l.call.tokens, k)
	}
}

// Tie puts the message under the request of the other side that has this token, and reports whether there is one.
func (l *Look) Tie(token string) bool {
	for _, session := range []string{l.Row.Session, ""} {
		if c, ok := l.book.tokens[tokenKey{l.Row.Conn, l.Row.Dir.Back(), session, token}]; ok {
			l.Row.Parent = c.row.Ref
			return true
		}
	}
	return false
}

// Cancel says that the sender of this message gave up its request with this id, given as JSON text. silent: the protocol
// wants no answer after it, so that one that still comes is in doubt.
func (l *Look) Cancel(id string, silent bool) {
	for _, c := range l.book.open[callKey{l.Row.Conn, l.Row.Dir, id}] {
		if c.row.Session == l.Row.Session && !c.cancelled {
			c.cancelled, c.silent = true, silent
			l.Row.Parent = c.row.Ref
			if c.row.State == StateWaiting {
				c.row.State = StateCancelled
				l.book.emit(c.row)
			}
			return
		}
	}
}

// Repeats says that the request of this Look may be answered more than once (A2A's streams do that).
func (l *Look) Repeats() {
	if l.call != nil {
		l.call.repeats = true
	}
}
