package capture

import (
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Judge examines each message in the order of the traffic, after it was paired, and adds protocol
// details: names, findings and relations. It is called on one goroutine, must not block, and must
// not retain the Look, only copies of its data.
//
// At the end of a connection it receives a Look whose Row has the kind close and whose Message is
// nil.
type Judge func(*Look)

// A Look is one message as presented to a [Judge].
type Look struct {
	// Row is the row so far. A Judge may set Name, Brief, Session, Version, Progress, Total and
	// Trace.
	Row *Row

	Message *jsonrpc.Message // nil if it cannot be parsed; Row.Kind has the type
	Payload []byte           // the raw message; for a member of a batch, that member's
	// Call is the request of a paired response. Its Name, Brief and Version may be set.
	Call *Row

	// The headers of an HTTP exchange, nil otherwise. Response is nil until its head has arrived.
	Request, Response http.Header
	HTTPMethod        string // POST, GET
	Status            int

	correlator *Book
	call       *call // the call that Row opens or answers
}

// Broken adds a finding that the message breaks a rule.
func (l *Look) Broken(rule, text string) {
	l.Row.Findings = append(l.Row.Findings, Finding{Rule: rule, Text: text})
}

// Doubt adds a finding that the message is allowed but suspicious.
func (l *Look) Doubt(rule, text string) {
	l.Row.Findings = append(l.Row.Findings, Finding{Rule: rule, Text: text, Doubt: true})
}

// Token assigns notifications with this token to the request of this Look while that is open.
func (l *Look) Token(token string) {
	if l.call != nil && l.Row.Kind == RowRequest && len(l.correlator.tokens) < maxOpen {
		k := tokenKey{l.Row.Conn, l.Row.Dir, bounded(l.Row.Session), bounded(token)}
		l.correlator.tokens[k] = l.call
		l.call.tokens = append(l.call.tokens, k)
	}
}

// Tie assigns the message to the other side's request with this token, and reports whether there is
// one.
func (l *Look) Tie(token string) bool {
	token = bounded(token)
	for _, session := range []string{bounded(l.Row.Session), ""} {
		if c, ok := l.correlator.tokens[tokenKey{l.Row.Conn, l.Row.Dir.Back(), session, token}]; ok {
			l.Row.Parent = c.row.Ref
			return true
		}
	}
	return false
}

// Cancel records that the sender of this message cancelled its request with this ID, given as JSON
// text. If silent, the protocol expects no response after that, and a response gets a doubt.
func (l *Look) Cancel(id string, silent bool) {
	for _, c := range l.correlator.open[callKey{l.Row.Conn, l.Row.Dir, bounded(id)}] {
		if c.row.Session == l.Row.Session && !c.cancelled {
			c.cancelled, c.silent = true, silent
			l.Row.Parent = c.row.Ref
			if c.row.State == StateWaiting {
				c.row.State = StateCancelled
				l.correlator.emit(c.row)
			}
			return
		}
	}
}

// Repeats records that the request of this Look may have more than one response, as in A2A's
// streams.
func (l *Look) Repeats() {
	if l.call != nil {
		l.call.repeats = true
	}
}
