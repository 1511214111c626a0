package capture

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// This file contains the part of a Book that handles HTTP exchanges and the end of connections.

// addRequest handles the head of an HTTP request.
func (b *Book) addRequest(row *Row, e *Event) {
	row.Kind, row.Method, row.Name, row.State = RowHTTP, e.Method, e.URL, StateWaiting
	row.Session = e.Header.Get("Mcp-Session-Id")
	row.Trace = traceOf(e.Header.Get("Traceparent"))
	if len(b.exchanges) < maxOpen {
		x := &exchange{row: row}
		x.request = b.keep(x, e.Header)
		b.exchanges[e.Exchange] = x
		b.spare = nil
	}
	b.emit(row)
}

// keep returns h for the judges of messages in x, or nil if the headers of open exchanges have
// reached their limit.
func (b *Book) keep(x *exchange, h http.Header) http.Header {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	if b.headers+n > maxHeads {
		return nil
	}
	b.headers += n
	x.headers += n
	return h
}

// forget removes an exchange that has ended.
func (b *Book) forget(id int64, x *exchange) {
	delete(b.exchanges, id)
	b.headers -= x.headers
}

// traceOf returns the trace ID of a traceparent header (W3C Trace Context, section 3.2).
func traceOf(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// head handles the head of an HTTP response.
func (b *Book) head(e *Event) {
	x := b.exchanges[e.Exchange]
	if x == nil {
		return
	}
	x.response = b.keep(x, e.Header)
	x.row.Code, x.row.HasCode = int64(e.Status), true
	x.row.Brief = e.Header.Get("Content-Type")
	x.row.Size += e.Size
	if s := e.Header.Get("Mcp-Session-Id"); s != "" && x.row.Session == "" {
		// The response to initialize names the session, which includes the request.
		x.row.Session = s
		for _, c := range x.calls {
			c.row.Session = s
			b.emit(c.row)
		}
	}
	b.emit(x.row)
}

// addResponse handles the end of an exchange.
func (b *Book) addResponse(e *Event) {
	x := b.exchanges[e.Exchange]
	if x == nil {
		return
	}
	b.forget(e.Exchange, x)
	x.row.Took = e.Time.Sub(x.row.Time)
	x.row.State = StateDone
	if x.row.Code >= 400 {
		x.row.State = StateFailed
	}
	gaveUp := e.Text == ErrGaveUp.Error()
	switch {
	case gaveUp:
		x.row.State, x.row.Brief = StateCancelled, e.Text
	case e.Text != "":
		x.row.State, x.row.Brief = StateUnanswered, e.Text
	}
	b.emit(x.row)
	for _, c := range x.calls {
		if !slices.Contains(b.open[c.key], c) {
			continue
		}
		switch {
		case c.row.Count > 0: // a complete stream of responses
		case c.row.Dir != x.row.Dir: // its response arrives in another exchange
			continue
		case x.row.Code >= 400:
			c.row.State, c.row.Took, c.row.Brief = StateFailed, x.row.Took, fmt.Sprintf("HTTP %d %s", x.row.Code, http.StatusText(int(x.row.Code)))
		case x.row.Code == http.StatusAccepted || x.row.Session != "" && e.Text == "" || c.cancelled:
			continue // the response arrives on another stream
		case gaveUp:
			c.row.State, c.row.Took = StateCancelled, x.row.Took
		case !c.junk:
			c.row.State, c.row.Took = StateUnanswered, x.row.Took
			if !x.row.HasCode && isUnreached(e.Text) {
				c.row.Brief = e.Text // the server was not reached, so no rule is broken
				break
			}
			c.row.Findings = append(c.row.Findings, Finding{Rule: "unanswered", Text: "the exchange ended without a response"})
		}
		b.remove(c)
		b.emit(c.row)
	}
}

// isUnreached reports whether the error text of the system shows that a request did not reach a
// server.
func isUnreached(text string) bool {
	return slices.ContainsFunc([]string{"connection refused", "no such host", "no route to host", "network is unreachable", "dial "}, func(why string) bool {
		return strings.Contains(text, why)
	})
}

// close handles the end of a connection: waiting calls will have no response.
func (b *Book) close(row *Row, e *Event) {
	row.Kind, row.Brief = RowClose, e.Text
	var left []*call
	for key, list := range b.open {
		if key.conn == e.Conn {
			left = append(left, list...)
		}
	}
	hungUp := e.Text == ErrHungUp.Error()
	slices.SortFunc(left, func(x, y *call) int { return x.row.Ref.compare(y.row.Ref) })
	for _, c := range left {
		b.remove(c)
		if c.junk || c.row.State != StateWaiting {
			continue
		}
		c.row.State, c.row.Took = StateCancelled, e.Time.Sub(c.row.Time)
		if !hungUp {
			c.row.State = StateUnanswered
			c.row.Findings = append(c.row.Findings, Finding{Rule: "unanswered", Text: "the connection ended without a response"})
		}
		b.emit(c.row)
	}
	for id, x := range b.exchanges {
		if x.row.Conn == e.Conn {
			b.forget(id, x)
			x.row.State, x.row.Took = StateUnanswered, e.Time.Sub(x.row.Time)
			if hungUp {
				x.row.State = StateCancelled
			}
			b.emit(x.row)
		}
	}
	b.judge(&Look{Row: row, correlator: b})
	delete(b.wires, e.Conn)
	b.emit(row)
}
