package playground

import (
	"bytes"
	"context"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// waitTime limits how long a call of send waits for the requested response.
const waitTime = time.Minute

type sendParams struct {
	Target  string        `json:"target"`
	Text    string        `json:"text,omitzero"`
	Base64  []byte        `json:"base64,omitzero"`
	Headers []headerField `json:"headers,omitzero"`
	Wait    bool          `json:"wait,omitzero"`
	// "as-is": newlines are sent even where they split a message
	Line string `json:"line,omitzero"`
	Page string `json:"page,omitzero"` // the tab that receives questions about this call
}

type sendResult struct {
	Ref    string `json:"ref"`
	Conn   int64  `json:"conn"`
	HTTP   int64  `json:"http,omitzero"`
	Answer string `json:"answer,omitzero"`
}

func (p *Playground) apiSend(ctx context.Context, in sendParams) (sendResult, error) {
	header, err := headerOf(in.Headers)
	if err != nil {
		return sendResult{}, err
	}
	b := bytesParam{in.Text, in.Base64}
	return p.send(ctx, in.Target, outgoing{b.bytes(), header, in.Line == "as-is"}, in.Page, in.Wait)
}

// send sends bytes to a target and adds them to the history.
func (p *Playground) send(ctx context.Context, name string, o outgoing, page string, wait bool) (sendResult, error) {
	if len(o.payload) > maxMessage {
		return sendResult{}, badParam("/text", "%d bytes; the limit of the page is %d", len(o.payload), maxMessage)
	}
	l, err := p.ensure(ctx, name)
	if err != nil {
		return sendResult{}, err
	}
	l.setPage(page)
	ref, err := l.send(ctx, o)
	if ref.seq != 0 {
		p.remember(sent{time.Now(), capture.Ref{Seq: ref.seq}, name, o.payload, o.header, o.asIs, page})
	}
	r := sendResult{Ref: ref.String(), Conn: l.wire.Conn(), HTTP: ref.http}
	if err == nil && wait {
		r.Answer, err = p.await(ctx, capture.Ref{Seq: ref.seq})
	}
	return r, err
}

func (p *Playground) remember(s sent) {
	p.sent.add(s)
	if len(p.questions.all()) > 0 {
		p.changes.signal() // one of the questions may be about this call
	}
}

// shrugTime is how long a response is awaited after bytes that are not a message.
const shrugTime = 3 * time.Second

// await returns the row of the response to what was sent, or "" if there will be none.
func (p *Playground) await(ctx context.Context, ref capture.Ref) (string, error) {
	if !p.options.Headless { // its caller bounds the time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, waitTime)
		defer cancel()
	}
	shrug := time.Now().Add(shrugTime)
	for {
		rev := p.rec.Rev()
		row, ok := p.rec.Row(ref)
		if ok && (!row.Answer.IsZero() && row.State != capture.StateWaiting || !p.mayBeAnswered(&row)) {
			return row.Answer.String(), nil
		}
		wait := ctx
		// The row is not a message, or it is a batch of notifications: most servers send some
		// response.
		if ok && row.State == "" {
			var stop context.CancelFunc
			wait, stop = context.WithDeadline(ctx, shrug)
			defer stop()
		}
		if err := p.rec.Wait(wait, rev); err != nil {
			if ctx.Err() == nil && wait != ctx {
				return "", nil
			}
			return "", unavailable("no response to #%v in %v", ref, waitTime)
		}
	}
}

// mayBeAnswered reports whether a row may still receive a response.
func (p *Playground) mayBeAnswered(row *capture.Row) bool {
	switch {
	case row.Kind == capture.RowNotification, row.Kind == capture.RowResult, row.Kind == capture.RowError:
		return false
	case row.State == capture.StateWaiting:
		return true
	case row.State != "":
		return false
	case row.Exchange == 0:
		return true
	}
	// The exchange starts just before its first payload.
	for _, x := range p.rec.Rows(capture.Ref{Seq: row.Ref.Seq - 1}, 1) {
		if x.Kind == capture.RowHTTP && x.Exchange == row.Exchange {
			return x.State == capture.StateWaiting
		}
	}
	return true
}

type resendParams struct {
	Log  string `json:"log,omitzero"`
	Ref  string `json:"ref"`
	Page string `json:"page,omitzero"` // the tab
}

// apiResend sends the same bytes again, with the same headers, to the same target.
func (p *Playground) apiResend(ctx context.Context, in resendParams) (sendResult, error) {
	s, err := p.recall(in.Log, in.Ref)
	if err != nil {
		return sendResult{}, err
	}
	return p.send(ctx, s.target, outgoing{s.payload, s.header, s.asIs}, in.Page, false)
}

// recall returns a sent message from memory or from the recording.
func (p *Playground) recall(name, text string) (sent, error) {
	ref, err := capture.ParseRef(text)
	if err != nil {
		return sent{}, badParam("/ref", "%q is not the number of a message", text)
	}
	if name == "" || name == "live" {
		if found, ok := p.sent.find(ref); ok {
			return found, nil
		}
	}
	log, err := p.log(name)
	if err != nil {
		return sent{}, err
	}
	row, ok := p.rowOf(log, ref)
	if !ok {
		return sent{}, badParam("/ref", "there is no message #%s", text)
	}
	payload, err := log.Payload(ref)
	switch {
	case err != nil:
		return sent{}, badParam("/ref", "#%s: %v", text, err)
	case row.Cut:
		return sent{}, badParam("/ref", "#%s was too long to be recorded in full", text)
	case bytes.Contains(payload, []byte(capture.Hidden)):
		return sent{}, badParam("/ref", "#%s was recorded without its secrets; edit a copy and put them back", text)
	}
	return sent{ref: ref, target: row.Target, payload: payload}, nil
}

type ref struct {
	Ref string `json:"ref"`
}

type answerParams struct {
	Ref    string  `json:"ref"`
	Text   *string `json:"text"`
	Choice *int    `json:"choice"`
	Page   string  `json:"page,omitzero"` // the tab
}

// apiAnswer sends a response to a question once. It rejects a second response, and one from a tab
// that the question does not belong to.
func (p *Playground) apiAnswer(ctx context.Context, in answerParams) (ref, error) {
	q, err := p.questions.claim(in.Ref, in.Page)
	if err != nil {
		return ref{}, err
	}
	defer p.questions.release(q)
	var text string
	switch {
	case in.Text != nil:
		text = *in.Text
	case in.Choice != nil:
		_, choices, _ := q.answers()
		if *in.Choice < 0 || *in.Choice >= len(choices) {
			return ref{}, badParam("/choice", "choice must be below %d", len(choices))
		}
		text = choices[*in.Choice].Draft
	default:
		return ref{}, badParam("", "text or choice is missing")
	}
	r, err := q.link.send(ctx, outgoing{payload: []byte(text)})
	if r.seq != 0 {
		p.remember(sent{time.Now(), capture.Ref{Seq: r.seq}, q.link.name, []byte(text), nil, false, in.Page})
	}
	return ref{r.String()}, err
}

// apiCancel sends the protocol's cancellation message for a call.
func (p *Playground) apiCancel(ctx context.Context, in ref) (ref, error) {
	at, err := capture.ParseRef(in.Ref)
	if err != nil {
		return ref{}, badParam("/ref", "%q is not the number of a message", in.Ref)
	}
	row, ok := p.rowOf(p.rec.Log, at)
	if !ok || row.Kind != capture.RowRequest || row.Dir != capture.Out {
		return ref{}, badParam("/ref", "#%s is not a request that you sent", in.Ref)
	}
	l := p.linkOf(row.Conn)
	if l == nil {
		return ref{}, badParam("/ref", "the connection is closed")
	}
	payload, _ := p.rec.Payload(at)
	text, err := l.cancelMessage(&row, payload)
	if err != nil {
		return ref{}, err
	}
	if text == nil {
		h, over := l.way.(*post)
		if !over || !h.stop(at.Seq) {
			return ref{}, badParam("/ref", "the request has already finished")
		}
		return ref{}, nil
	}
	r, err := l.send(ctx, outgoing{payload: text})
	return ref{r.String()}, err
}

func (p *Playground) linkOf(conn int64) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.targets {
		if t.link != nil && t.link.wire.Conn() == conn {
			return t.link
		}
	}
	return nil
}

// cancelMessage returns the message that cancels a call, or nil if ending the HTTP request cancels
// it.
func (l *link) cancelMessage(row *capture.Row, payload []byte) ([]byte, error) {
	id := jsonrpc.Raw(row.ID)
	notification := func(method string, params any) ([]byte, error) {
		return jsonrpc.AppendNotification(nil, jsonrpc.Version2, method, params)
	}
	request := func(method string, params any) ([]byte, error) {
		l.mu.Lock()
		n := l.next
		l.mu.Unlock()
		return jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.IntID(n), method, params)
	}
	var sentParams struct {
		Params struct {
			SessionID string `json:"sessionId"`
			RunID     string `json:"run_id"`
			ID        string `json:"id"`
		} `json:"params"`
	}
	_ = decodeLoosely(payload, &sentParams) // missing members stay empty
	_, overHTTP := l.way.(*post)
	switch l.spec.protocol() {
	case ProtocolMCP:
		l.mu.Lock()
		modern := mcp.ParseVersion(l.version).Modern()
		l.mu.Unlock()
		if modern && overHTTP {
			return nil, nil
		}
		return notification(mcp.NotifyCancelled, map[string]any{"requestId": id, "reason": "cancelled by the user"})
	case ProtocolEditor:
		if row.Method == editor.MethodPrompt {
			return notification(editor.NotifyCancel, map[string]string{"sessionId": sentParams.Params.SessionID})
		}
		return notification(editor.NotifyCancelRequest, map[string]any{"requestId": id})
	case ProtocolACP:
		if run := orDefault(sentParams.Params.RunID, l.p.namedIn(row.Ref, "run_id")); run != "" {
			return request(acp.MethodRunsCancel, acp.RunParams{RunID: run})
		}
	case ProtocolA2A:
		if task := orDefault(sentParams.Params.ID, l.p.namedIn(row.Ref, "taskId")); task != "" {
			return request(a2a.MethodCancelTask, map[string]string{"id": task})
		}
	}
	if overHTTP {
		return nil, nil
	}
	return notification(jsonrpc.CancelRequest.Method, map[string]any{"id": id})
}

// namedIn searches the messages received so far about a call for a member: the ID of a run or of a
// task.
func (p *Playground) namedIn(call capture.Ref, member string) string {
	needle := []byte(`"` + member + `":"`)
	for _, row := range p.rec.Rows(call, 2000) {
		if row.Parent != call && row.Call != call {
			continue
		}
		payload, err := p.rec.Payload(row.Ref)
		if err != nil {
			continue
		}
		if i := bytes.Index(payload, needle); i >= 0 {
			rest := payload[i+len(needle):]
			if end := bytes.IndexByte(rest, '"'); end > 0 {
				return string(rest[:end])
			}
		}
	}
	return ""
}
