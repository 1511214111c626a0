package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/suite"
)

// This file sends the calls of suites without a page, over the same connections and with the same
// handshakes as the page.

// maxTrial limits what is stored of one call besides the recording, in bytes. Beyond it, the values
// of assertions are those of the recording, without secrets.
const maxTrial = 64 << 20

// trialCost is what a stored message costs besides its bytes.
const trialCost = 256

// Bounds of the methods that a server requested in one call of a suite and that have no answer in
// it: further and longer names, in bytes, are not reported.
const (
	maxUnanswered = 100
	maxMethodName = 256
)

// headlessTime replaces openTime, because the caller of Send bounds the time.
const headlessTime = time.Hour

// cancelTime limits how long a cancellation may take to be sent.
const cancelTime = time.Second

// A trial is what is collected while a call of a suite runs.
type trial struct {
	payloads   map[int64][]byte // received payloads, unredacted
	size       int
	answers    suite.Answers
	unanswered []string
}

// openLimit is how long opening a target and each step of its handshake may take.
func (p *Playground) openLimit() time.Duration {
	if p.options.Headless {
		return headlessTime
	}
	return openTime
}

// collect stores a received payload for the call that runs.
func (l *link) collect(seq int64, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, cost := l.trial, len(payload)+trialCost; t != nil && t.size+cost <= maxTrial {
		t.size += cost
		t.payloads[seq] = bytes.Clone(payload)
	}
}

// answerOf returns the response to a request of the server, without a person.
func (l *link) answerOf(m *jsonrpc.Message) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trial != nil {
		if result, ok := l.trial.answers[m.Method]; ok {
			return jsonrpc.AppendResult(nil, jsonrpc.Version2, m.ID, result)
		}
	}
	if m.Method == mcp.MethodRootsList {
		return jsonrpc.AppendResult(nil, jsonrpc.Version2, m.ID, jsonrpc.Raw(`{"roots":[]}`))
	}
	if t := l.trial; t != nil && len(t.unanswered) < maxUnanswered && len(m.Method) <= maxMethodName && !slices.Contains(t.unanswered, m.Method) {
		t.unanswered = append(t.unanswered, strings.Clone(m.Method))
	}
	return jsonrpc.AppendError(nil, jsonrpc.Version2, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}), nil
}

// setTrial begins or ends the collection for a call.
func (l *link) setTrial(t *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trial = t
}

// Send sends a call of a suite to one of the targets, which it opens if necessary, and waits for
// the response until ctx ends. It implements [suite.Sender]; see there for the errors. Use it with
// [Options.Headless].
func (p *Playground) Send(ctx context.Context, r *suite.Request) (*suite.Reply, error) {
	p.rec.Flush()
	before := p.lastRow()
	l, err := p.ensure(ctx, r.Target)
	if err != nil {
		return nil, p.openFault(ctx, r.Target, before, err)
	}
	text := r.Text
	if text == nil {
		if text, err = l.message(r); err != nil {
			return nil, &suite.SendError{Kind: suite.Rejected, Text: err.Error()}
		}
	}
	if len(text) > maxMessage {
		return nil, &suite.SendError{Kind: suite.Rejected, Text: fmt.Sprintf("the message has %d bytes; the limit is %d", len(text), maxMessage)}
	}
	t := &trial{payloads: make(map[int64][]byte), answers: r.Answers}
	l.setTrial(t)
	defer l.setTrial(nil)
	reply := &suite.Reply{Sent: text}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		reply.Unanswered = slices.Clone(t.unanswered)
	}()
	switch l.spec.protocol() {
	case ProtocolMCP, ProtocolEditor, ProtocolLSP: // a single message does not repeat the handshake
	default:
		// Without a command the report has no line to repeat.
		if out, err := p.apiCopy(ctx, copyParams{Target: r.Target, Text: string(text), Headers: headerFields(r.Header), As: "parley"}); err == nil {
			reply.Command = out.Text
		}
	}
	sent, err := l.send(ctx, outgoing{text, r.Header, false})
	if err != nil {
		if ctx.Err() != nil {
			return reply, &suite.SendError{Kind: suite.TimedOut, Text: err.Error()}
		}
		return reply, &suite.SendError{Kind: suite.Unreachable, Text: sentence(err)}
	}
	at := capture.Ref{Seq: sent.seq}
	answer, err := p.await(ctx, at)
	if err == nil && sent.http != 0 && (answer == "" || l.spec.protocol() == ProtocolA2A) {
		p.awaitExchange(ctx, sent.http)
	}
	p.rec.Flush()
	to, _ := capture.ParseRef(answer) // the zero Ref without a response
	p.recorded(at, to, func(seq int64) []byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		if payload, ok := t.payloads[seq]; ok {
			return payload
		}
		payload, _ := p.rec.Payload(capture.Ref{Seq: seq}) // nil if it is not stored
		return payload
	}, reply)
	if fault := p.replyFault(ctx, l, at, sent.http, to, reply); fault != nil {
		if fault.Kind == suite.TimedOut {
			p.giveUp(ctx, at)
		}
		return reply, fault
	}
	return reply, nil
}

// message makes a message with the next ID of the connection.
func (l *link) message(r *suite.Request) ([]byte, error) {
	var params any
	if r.Params != nil {
		params = r.Params
	}
	if r.Notify {
		return jsonrpc.AppendNotification(nil, jsonrpc.Version2, r.Method, params)
	}
	l.mu.Lock()
	id := jsonrpc.IntID(l.next)
	l.mu.Unlock()
	return jsonrpc.AppendRequest(nil, jsonrpc.Version2, id, r.Method, params)
}

func headerFields(h http.Header) (list []headerField) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if h[name] == nil {
			list = append(list, headerField{Name: name})
		}
		for _, value := range h[name] {
			list = append(list, headerField{Name: name, Value: &value})
		}
	}
	return list
}

// lastRow returns the number of the newest row, or 0 without rows.
func (p *Playground) lastRow() int64 {
	row, _ := p.rec.Last()
	return row.Ref.Seq
}

// awaitExchange waits until an HTTP exchange has ended, or ctx.
func (p *Playground) awaitExchange(ctx context.Context, exchange int64) {
	for {
		rev := p.rec.Rev()
		if row, ok := p.rec.Exchange(exchange); ok && row.State != capture.StateWaiting {
			return
		}
		if p.rec.Wait(ctx, rev) != nil {
			return
		}
	}
}

// openFault returns why a target could not be opened.
func (p *Playground) openFault(ctx context.Context, name string, before int64, err error) *suite.SendError {
	fault := &suite.SendError{Kind: suite.Unreachable, Text: sentence(err), Closed: true}
	if ctx.Err() != nil {
		fault.Kind = suite.TimedOut
		return fault
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != jsonrpc.CodeUnavailable && !bytes.Contains(e.Data, []byte(`"/target"`)) {
		fault.Kind, fault.Text = suite.Rejected, fmt.Sprintf("the server rejected the handshake: %s (%d)", e.Message, e.Code)
	}
	p.rec.Flush()
	for _, row := range p.rec.Rows(capture.Ref{Seq: before + 1}, 0) {
		if row.Kind == capture.RowHTTP && row.Target == name && (row.Code == http.StatusUnauthorized || row.Code == http.StatusForbidden) {
			fault.Kind = suite.Unauthorized
		}
	}
	fault.Text += p.lastWords(name, before)
	return fault
}

// replyFault returns why there is no response that can be checked, or nil.
func (p *Playground) replyFault(ctx context.Context, l *link, at capture.Ref, exchange int64, answer capture.Ref, reply *suite.Reply) *suite.SendError {
	if reply.Response != nil {
		if what := malformed(reply.Response); what != "" {
			return &suite.SendError{Kind: suite.Broken, Text: "the response is not JSON-RPC: " + what}
		}
		return nil
	}
	if !answer.IsZero() {
		return &suite.SendError{Kind: suite.Broken, Text: "the response is too long"}
	}
	for _, row := range p.rec.Rows(at, 0) {
		if row.Conn == l.wire.Conn() && row.Dir == capture.In && row.Kind == capture.RowJunk && (exchange == 0 || row.Exchange == exchange) {
			if x, _ := p.rec.Exchange(exchange); x.Code >= 400 {
				break // an error page is no message
			}
			return &suite.SendError{Kind: suite.Broken, Text: "the response is not JSON-RPC: " + row.Brief}
		}
	}
	if ctx.Err() != nil {
		return &suite.SendError{Kind: suite.TimedOut, Text: "no response"}
	}
	row, _ := p.rec.Row(at)
	if exchange != 0 {
		x, _ := p.rec.Exchange(exchange)
		switch {
		case x.Code == http.StatusUnauthorized, x.Code == http.StatusForbidden:
			return &suite.SendError{Kind: suite.Unauthorized, Text: (&statusError{int(x.Code)}).Error()}
		case x.Code >= 400:
			kind := suite.Unreachable
			if x.Code < 500 && !slices.Contains([]int64{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests}, x.Code) {
				kind = suite.Broken
			}
			return &suite.SendError{Kind: kind, Text: (&statusError{int(x.Code)}).Error()}
		case x.Code == 0:
			return &suite.SendError{Kind: suite.Unreachable, Text: orDefault(x.Brief, "the server closed the connection"), Closed: true}
		case isAsking(reply.Sent):
			return &suite.SendError{Kind: suite.Broken, Text: fmt.Sprintf("HTTP %d without a response", x.Code)}
		}
		return nil
	}
	if row.State == capture.StateUnanswered {
		return &suite.SendError{Kind: suite.Unreachable, Text: "the connection was closed without a response" + p.lastWords(l.name, at.Seq)}
	}
	return nil
}

// lastWords returns the last line that a program wrote to its stderr, as a part of a sentence.
func (p *Playground) lastWords(name string, since int64) string {
	for _, row := range slices.Backward(p.rec.Rows(capture.Ref{Seq: since}, 0)) {
		if row.Kind == capture.RowStderr && row.Target == name {
			return "; its last line on stderr: " + row.Brief
		}
	}
	return ""
}

// isAsking reports whether a payload contains a request that needs a response.
func isAsking(payload []byte) (asks bool) {
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // invalid messages need none
		asks = asks || m.Request && !m.ID.IsZero()
	})
	return asks
}

// malformed returns what is wrong with a response, or "".
func malformed(payload []byte) (what string) {
	err := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		if m.Bad != nil && what == "" {
			what = m.Bad.Message
		}
	})
	if err != nil {
		return err.Error()
	}
	return what
}

// giveUp cancels a call that has no response.
func (p *Playground) giveUp(ctx context.Context, at capture.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, _ = p.apiCancel(ctx, ref{at.String()}) // the call may have ended by itself
}
