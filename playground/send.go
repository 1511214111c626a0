package playground

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// waitTime bounds how long a caller of send waits for the answer that it wants.
const waitTime = time.Minute

// A sent is something that was sent from the page, with all that it takes to send it again.
type sent struct {
	time    time.Time
	ref     capture.Ref
	target  string
	payload []byte
	header  http.Header
	asIs    bool
}

type sendParams struct {
	Target  string        `json:"target"`
	Text    string        `json:"text,omitzero"`
	Base64  []byte        `json:"base64,omitzero"`
	Headers []headerField `json:"headers,omitzero"`
	Wait    bool          `json:"wait,omitzero"`
	Line    string        `json:"line,omitzero"` // "as-is": newlines are sent where they cut a message
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
	return p.send(ctx, in.Target, outgoing{b.bytes(), header, in.Line == "as-is"}, in.Wait)
}

// send sends bytes to a target and remembers that.
func (p *Playground) send(ctx context.Context, name string, o outgoing, wait bool) (sendResult, error) {
	if len(o.payload) > maxMessage {
		return sendResult{}, badParam("/text", "that is %d bytes; the page sends up to %d", len(o.payload), maxMessage)
	}
	l, err := p.ensure(ctx, name)
	if err != nil {
		return sendResult{}, err
	}
	ref, err := l.send(ctx, o)
	if ref.seq != 0 {
		p.remember(sent{time.Now(), capture.Ref{Seq: ref.seq}, name, o.payload, o.header, o.asIs})
	}
	r := sendResult{Ref: ref.String(), Conn: l.wire.Conn(), HTTP: ref.http}
	if err == nil && wait {
		r.Answer, err = p.await(ctx, capture.Ref{Seq: ref.seq})
	}
	return r, err
}

// maxRemembered bounds the bytes of history; the newest is kept whatever it takes.
const maxRemembered = 64 << 20

func (p *Playground) remember(s sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.payload = bytes.Clone(s.payload)
	p.history = append(p.history, s)
	size := 0
	for i := len(p.history) - 1; i >= 0; i-- {
		if size += len(p.history[i].payload); i < len(p.history)-1 && (size > maxRemembered || len(p.history)-i > maxHistory) {
			p.history = slices.Clone(p.history[i+1:])
			break
		}
	}
}

// shrugTime is how long a server may think about bytes that are no message before nobody expects an answer.
const shrugTime = 3 * time.Second

// await returns the row of the answer to what was sent, "" if there will be none.
func (p *Playground) await(ctx context.Context, ref capture.Ref) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	shrug := time.Now().Add(shrugTime)
	for {
		rev := p.rec.Rev()
		row, ok := p.rec.Row(ref)
		if ok && (!row.Answer.IsZero() && row.State != capture.StateWaiting || !p.mayBeAnswered(&row)) {
			return row.Answer.String(), nil
		}
		wait := ctx
		if ok && row.State == "" { // no message, or a batch of notifications: most servers say something
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

// mayBeAnswered reports whether there may still be an answer to a row.
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
	for _, x := range p.rec.Rows(capture.Ref{Seq: row.Ref.Seq - 1}, 1) { // the exchange begins just before its first payload
		if x.Kind == capture.RowHTTP && x.Exchange == row.Exchange {
			return x.State == capture.StateWaiting
		}
	}
	return true
}

type refParams struct {
	Log string `json:"log,omitzero"`
	Ref string `json:"ref"`
}

// apiResend sends the same bytes again, with the same headers, to the same target.
func (p *Playground) apiResend(ctx context.Context, in refParams) (sendResult, error) {
	s, err := p.recall(in.Log, in.Ref)
	if err != nil {
		return sendResult{}, err
	}
	return p.send(ctx, s.target, outgoing{s.payload, s.header, s.asIs}, false)
}

// recall returns what was sent, from memory or from the recording.
func (p *Playground) recall(name, text string) (sent, error) {
	ref, err := capture.ParseRef(text)
	if err != nil {
		return sent{}, badParam("/ref", "%q names no message", text)
	}
	if name == "" || name == "live" {
		p.mu.Lock()
		i := slices.IndexFunc(p.history, func(s sent) bool { return s.ref == ref })
		var found sent
		if i >= 0 {
			found = p.history[i]
		}
		p.mu.Unlock()
		if i >= 0 {
			return found, nil
		}
	}
	log, err := p.log(name)
	if err != nil {
		return sent{}, err
	}
	row, ok := p.rowOf(log, ref)
	if !ok {
		return sent{}, badParam("/ref", "#%s is not there", text)
	}
	payload, err := log.Payload(ref)
	switch {
	case err != nil:
		return sent{}, badParam("/ref", "#%s: %v", text, err)
	case row.Cut:
		return sent{}, badParam("/ref", "#%s was too long to be kept whole", text)
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
}

func (p *Playground) apiAnswer(ctx context.Context, in answerParams) (ref, error) {
	q := p.question(in.Ref)
	if q == nil {
		return ref{}, badParam("/ref", "#%s is no open question", in.Ref)
	}
	var text string
	switch {
	case in.Text != nil:
		text = *in.Text
	case in.Choice != nil:
		_, choices, _ := q.answers()
		if *in.Choice < 0 || *in.Choice >= len(choices) {
			return ref{}, badParam("/choice", "there are %d choices", len(choices))
		}
		text = choices[*in.Choice].Draft
	default:
		return ref{}, badParam("", "text or choice is missing")
	}
	r, err := p.answer(ctx, in.Ref, []byte(text))
	if r.seq != 0 {
		p.remember(sent{time.Now(), capture.Ref{Seq: r.seq}, q.link.name, []byte(text), nil, false})
	}
	return ref{r.String()}, err
}

// apiCancel tells a server, by its protocol's own message, that nobody waits for an answer any more.
func (p *Playground) apiCancel(ctx context.Context, in ref) (ref, error) {
	at, err := capture.ParseRef(in.Ref)
	if err != nil {
		return ref{}, badParam("/ref", "%q names no message", in.Ref)
	}
	row, ok := p.rowOf(p.rec.Log, at)
	if !ok || row.Kind != capture.RowRequest || row.Dir != capture.Out {
		return ref{}, badParam("/ref", "#%s is no request of yours", in.Ref)
	}
	l := p.linkOf(row.Conn)
	if l == nil {
		return ref{}, badParam("/ref", "its connection is closed")
	}
	payload, _ := p.rec.Payload(at)
	text, err := l.cancelMessage(&row, payload)
	if err != nil {
		return ref{}, err
	}
	if text == nil {
		h, over := l.way.(*post)
		if !over || !h.stop(at.Seq) {
			return ref{}, badParam("/ref", "it is over already")
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

// cancelMessage is what says that a call is given up; nil where ending the HTTP request says it.
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
	_ = decodeLoosely(payload, &sentParams) // what is not there is empty
	_, overHTTP := l.way.(*post)
	switch l.spec.protocol() {
	case ProtocolMCP:
		l.mu.Lock()
		modern := mcp.ParseVersion(l.version).Modern()
		l.mu.Unlock()
		if modern && overHTTP {
			return nil, nil
		}
		return notification(mcp.NotifyCancelled, map[string]any{"requestId": id, "reason": "cancelled by a person"})
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

// namedIn looks for a member in what the server has said so far about a call: the id of a run, or of a task.
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

type historyItem struct {
	Time    time.Time     `json:"time"`
	Target  string        `json:"target"`
	Text    string        `json:"text,omitzero"`
	Base64  string        `json:"base64,omitzero"`
	Method  string        `json:"method,omitzero"`
	Ref     string        `json:"ref"`
	Headers []headerField `json:"headers,omitzero"`
}

type historyParams struct {
	Limit int `json:"limit,omitzero"`
}

type historyResult struct {
	Items []historyItem `json:"items"`
}

func (p *Playground) apiHistory(_ context.Context, in historyParams) (historyResult, error) {
	if in.Limit <= 0 {
		in.Limit = 100
	}
	p.mu.Lock()
	list := slices.Clone(p.history)
	p.mu.Unlock()
	out := historyResult{Items: []historyItem{}}
	for _, s := range slices.Backward(list) {
		if len(out.Items) == in.Limit {
			break
		}
		item := historyItem{Time: s.time, Target: s.target, Ref: s.ref.String()}
		item.Text, item.Base64 = textOrBase64(s.payload)
		if row, ok := p.rec.Row(s.ref); ok {
			item.Method = row.Method
		}
		for _, name := range slices.Sorted(mapsKeys(s.header)) {
			for _, value := range s.header[name] {
				item.Headers = append(item.Headers, headerField{name, &value})
			}
			if s.header[name] == nil {
				item.Headers = append(item.Headers, headerField{Name: name})
			}
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
