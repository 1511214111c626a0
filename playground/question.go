package playground

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// A question is a request from a server that waits for a person's response. It belongs to the tab
// that made the call which the question is about; without such a call, to the tab that was last to
// send something on the connection. This prevents other tabs from answering it by accident.
type question struct {
	link   *link
	page   string // the tab, "" if unknown
	taken  bool   // taken over explicitly: page applies regardless of the call
	busy   bool   // a response is being sent
	ref    capture.Ref
	id     string
	method string
	params jsonrpc.Raw
	since  time.Time
}

// questions contains the questions that wait for a response. Its lock is taken before those of the
// recording, of the history and of links.
type questions struct {
	rec  *capture.Recorder
	sent *history

	mu   sync.Mutex // guards list, and the fields of its questions that change
	list []*question
}

// cost is about the memory of a question, in bytes.
func (q *question) cost() int { return 1<<10 + len(q.id) + len(q.method) + len(q.params) }

// add adds a question. ok reports whether there is room for it.
func (s *questions) add(q *question) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	weighs := 0
	for _, other := range s.list {
		weighs += other.cost()
	}
	// One of any size has room if nothing else waits.
	if len(s.list) >= maxQuestions || weighs > 0 && weighs+q.cost() > maxQuestionBytes {
		return false
	}
	s.list = append(slices.Clone(s.list), q)
	return true
}

// remove removes the questions of a link for which if returns true, and reports whether there were
// any.
func (s *questions) remove(l *link, when func(q *question) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.list)
	s.list = deleteFunc(s.list, func(q *question) bool { return q.link == l && when(q) })
	return len(s.list) != before
}

// all returns all questions, in the order in which they were asked.
func (s *questions) all() []*question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list // it is replaced, never changed
}

// owner returns the tab that a question belongs to, or "".
func (s *questions) owner(q *question) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerLocked(q)
}

// A choice is one way to answer.
type choice struct {
	Label string `json:"label"`
	Draft string `json:"draft"`
}

type questionView struct {
	Ref     string      `json:"ref"`
	Conn    int64       `json:"conn"`
	Target  string      `json:"target"`
	Method  string      `json:"method"`
	ID      string      `json:"id"`
	Params  jsonrpc.Raw `json:"params,omitzero"`
	About   string      `json:"about"`
	Since   time.Time   `json:"since"`
	Draft   string      `json:"draft"`
	Choices []choice    `json:"choices"`
	Schema  jsonrpc.Raw `json:"schema,omitzero"`
	Call    string      `json:"call,omitzero"`
	Page    string      `json:"page,omitzero"` // the tab that it belongs to
}

// asked accepts a request from the server. It runs on the reader goroutine of the connection and
// does not block.
func (l *link) asked(m *jsonrpc.Message, ref capture.Ref) {
	p := l.p
	auto, roots := defaultAuto, []jsonrpc.Raw(nil)
	p.mu.Lock()
	if t := p.targets[l.name]; t != nil {
		auto, roots = t.auto, t.roots
	}
	p.mu.Unlock()
	if slices.Contains(auto, m.Method) {
		result := jsonrpc.Raw(`{}`)
		if m.Method == mcp.MethodRootsList {
			result = raw(map[string]any{"roots": append([]jsonrpc.Raw{}, roots...)})
		}
		id := m.ID
		payload, err := jsonrpc.AppendResult(nil, jsonrpc.Version2, id, result)
		if err != nil || l.respond(payload) {
			return
		}
		// the server asks faster than it reads responses: show the question
	}
	if p.options.Headless {
		payload, err := l.answerOf(m)
		if err == nil {
			l.respond(payload) // if the server asks faster than it reads responses, it gets none
		}
		return
	}
	q := &question{
		link: l, page: l.lastPage(), ref: ref, id: m.ID.String(), method: strings.Clone(m.Method), params: m.Params.Clone(), since: time.Now(),
	}
	if p.questions.add(q) {
		p.changes.signal()
	}
}

// respond sends a response on a separate goroutine. It reports false, and sends nothing, if too
// many are being sent.
func (l *link) respond(payload []byte) bool {
	select {
	case l.busy <- struct{}{}:
		l.p.running.Go(func() {
			defer func() { <-l.busy }()
			// A closed connection is reported elsewhere.
			_, _ = l.send(l.p.ctx, outgoing{payload: payload})
		})
		return true
	default:
		return false
	}
}

// notified handles a notification from the server that cancels a question.
func (l *link) notified(m *jsonrpc.Message) {
	var in struct {
		RequestID jsonrpc.ID `json:"requestId"`
		ID        jsonrpc.ID `json:"id"`
	}
	switch m.Method {
	case mcp.NotifyCancelled, editor.NotifyCancelRequest, jsonrpc.CancelRequest.Method:
	default:
		return
	}
	if decodeLoosely(m.Params, &in) != nil {
		return
	}
	id := in.RequestID
	if id.IsZero() {
		id = in.ID
	}
	l.p.answered(l, []string{id.String()})
}

// answered removes questions from the list.
func (p *Playground) answered(l *link, ids []string) {
	if p.questions.remove(l, func(q *question) bool { return slices.Contains(ids, q.id) }) {
		p.changes.signal()
	}
}

func (p *Playground) questionViews() []questionView {
	list := p.questions.all()
	views := make([]questionView, 0, len(list))
	for _, q := range list {
		views = append(views, q.view(p))
	}
	return views
}

func (q *question) view(p *Playground) questionView {
	v := questionView{
		Ref: q.ref.String(), Conn: q.link.wire.Conn(), Target: q.link.name, Method: q.method, ID: q.id, Params: q.params, Since: q.since,
	}
	if row, ok := p.rec.Row(q.ref); ok {
		v.Call = row.Parent.String()
	}
	v.Page = p.questions.owner(q)
	v.About, v.Choices, v.Schema = q.answers()
	v.Draft = v.Choices[0].Draft
	return v
}

// response returns the text of a response to the question.
func (q *question) response(member string, value jsonrpc.Raw) string {
	return `{"jsonrpc":"2.0","id":` + q.id + `,"` + member + `":` + string(value) + `}`
}

// answers returns suggested responses. The first is the most common choice.
func (q *question) answers() (about string, choices []choice, schema jsonrpc.Raw) {
	who := q.link.name
	result := func(label string, v any) { choices = append(choices, choice{label, q.response("result", raw(v))}) }
	refuse := func(label string, code int64, text string) {
		choices = append(choices, choice{label, q.response("error", raw(map[string]any{"code": code, "message": text}))})
	}
	var in struct {
		Message         string      `json:"message"`
		URL             string      `json:"url"`
		RequestedSchema jsonrpc.Raw `json:"requestedSchema"`
		Question        string      `json:"question"`
		Path            string      `json:"path"`
		ToolCall        struct {
			Title string `json:"title"`
		} `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Name string `json:"name"`
		} `json:"options"`
	}
	positional := []string{}
	if decodeLoosely(q.params, &in) != nil {
		_ = decodeLoosely(q.params, &positional) // params of another form have no text
	}
	switch q.method {
	case mcp.MethodElicit:
		about = fmt.Sprintf("%s asks you: %s", who, in.Message)
		schema = in.RequestedSchema
		accept := map[string]any{"action": "accept"}
		if in.URL == "" {
			accept["content"] = schemaview.Example(schema)
		}
		result("Accept", accept)
		result("Decline", map[string]any{"action": "decline"})
		result("Cancel", map[string]any{"action": "cancel"})
	case mcp.MethodCreateMessage:
		about = who + " requests an LLM completion (sampling). Write the reply yourself."
		result("Answer", map[string]any{"role": "assistant", "content": map[string]any{"type": "text", "text": ""}, "model": "a person", "stopReason": "endTurn"})
		refuse("Decline", -1, "The user declined")
	case mcp.MethodRootsList:
		about = who + " requests the folders that it may access (roots)."
		result("None", map[string]any{"roots": []string{}})
		result("One folder", map[string]any{"roots": []any{map[string]string{"uri": "file:///tmp/project", "name": "project"}}})
		refuse("Refuse", jsonrpc.CodeMethodNotFound, "Method not found")
	case editor.MethodRequestPermission:
		about = fmt.Sprintf("%s requests permission: %s", who, in.ToolCall.Title)
		for _, o := range in.Options {
			result(orDefault(o.Name, o.ID), map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": o.ID}})
		}
		result("Cancel", map[string]any{"outcome": map[string]string{"outcome": "cancelled"}})
	case editor.MethodReadTextFile:
		about = fmt.Sprintf("%s requests the file %s. Write the response of its editor.", who, in.Path)
		result("Answer", map[string]string{"content": ""})
		refuse("Refuse", jsonrpc.CodeInvalidParams, "File not found")
	case editor.MethodWriteTextFile:
		about = fmt.Sprintf("%s requests to write %s. No file is written: you write the response of its editor.", who, in.Path)
		result("Done", nil)
		refuse("Refuse", jsonrpc.CodeInvalidParams, "The file cannot be written")
	case "answer":
		about = who + " asks you"
		if in.Question == "" && len(positional) > 0 {
			in.Question = positional[0]
		}
		if in.Question != "" {
			about += ": " + in.Question
		}
		result("Answer", "")
		refuse("Refuse", 1, "No answer")
	default:
		about = fmt.Sprintf("%s calls your method %s.", who, q.method)
		result("Answer", jsonrpc.Raw(`{}`))
		refuse("Method not found", jsonrpc.CodeMethodNotFound, "Method not found")
	}
	return about, choices, schema
}

func (s *questions) ownerLocked(q *question) string {
	if q.taken {
		return q.page
	}
	if row, ok := s.rec.Row(q.ref); ok && !row.Parent.IsZero() {
		if call, ok := s.sent.find(row.Parent); ok {
			return call.page
		}
	}
	return orDefault(q.page, q.link.lastPage())
}

// claim reserves a question for the response of one tab, so that no second response is sent
// meanwhile. The caller must call release.
func (s *questions) claim(ref, page string) (*question, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.list {
		if q.ref.String() != ref {
			continue
		}
		switch owner := s.ownerLocked(q); {
		case owner != "" && owner != page:
			return nil, badParam("/page", "#%s belongs to another tab; call questions/take to answer it here", ref)
		case q.busy:
			return nil, badParam("/ref", "the response to #%s is already being sent", ref)
		}
		q.busy = true
		return q, nil
	}
	return nil, badParam("/ref", "#%s is not an open question: it was answered or cancelled, or its connection has closed", ref)
}

// release ends a claim. An answered question has been removed from the list by then.
func (s *questions) release(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.busy = false
}

// take assigns a question to a tab, and reports whether it is still open.
func (s *questions) take(ref, page string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.list {
		if q.ref.String() == ref {
			q.page, q.taken = page, true
			return true
		}
	}
	return false
}

type takeParams struct {
	Ref  string `json:"ref"`
	Page string `json:"page"`
}

type takeResult struct{}

// apiTake assigns a question to another tab, where a person wants to answer it.
func (p *Playground) apiTake(_ context.Context, in takeParams) (takeResult, error) {
	if !p.questions.take(in.Ref, in.Page) {
		return takeResult{}, badParam("/ref", "#%s is not an open question", in.Ref)
	}
	p.changes.signal()
	return takeResult{}, nil
}
