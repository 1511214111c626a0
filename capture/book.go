package capture

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	// maxOpen limits the waiting calls, exchanges and tokens. Further ones are shown but not
	// paired.
	maxOpen     = 16_384
	maxAnswered = 4_096    // IDs that are remembered after their response
	maxHeads    = 32 << 20 // bytes of the headers of open exchanges; further ones are not judged
	lateAfter   = 60 * time.Second
	briefBytes  = 200
)

// A Book pairs requests and responses. It processes events in order and stores what is open. It is
// not safe for concurrent use. Its memory is bounded by the open calls, exchanges and tokens. Most
// programs use it through a [Recorder] or [Open].
type Book struct {
	judges []Judge
	out    []Row       // rows that the current event made or changed
	at     map[Ref]int // index of each row in out; used only if out is long
	spare  *Row        // reused for the next event unless it was stored

	wires     map[int64]*WireInfo
	exchanges map[int64]*exchange
	headers   int // bytes of the headers in exchanges
	open      map[callKey][]*call
	opened    int // number of calls in open
	tokens    map[tokenKey]*call

	answered map[callKey]Ref // the latest response to each ID
	order    []callKey       // keys of answered, oldest first
}

type callKey struct {
	conn int64
	dir  Dir // of the request
	id   string
}

type tokenKey struct {
	conn    int64
	dir     Dir
	session string
	token   string
}

type call struct {
	key       callKey
	row       *Row
	batch     *Row // the batch that contains it, or nil
	tokens    []tokenKey
	cancelled bool
	silent    bool // after its cancellation, no response is expected
	repeats   bool
	junk      bool // the request is invalid: a response with a null ID belongs to it
}

type exchange struct {
	row               *Row
	request, response http.Header
	headers           int // bytes of both
	calls             []*call
}

// NewBook makes a Book with these judges.
func NewBook(judges ...Judge) *Book {
	return &Book{
		judges: judges, at: map[Ref]int{}, wires: map[int64]*WireInfo{}, exchanges: map[int64]*exchange{}, open: map[callKey][]*call{},
		tokens: map[tokenKey]*call{}, answered: map[callKey]Ref{},
	}
}

// Add processes an event. It returns the new and changed rows in the order of the traffic. They are
// valid until the next Add, and their Rev is not set.
func (b *Book) Add(e *Event) []Row {
	b.out = b.out[:0]
	clear(b.at)
	row := b.spare
	if row == nil {
		row = new(Row)
		b.spare = row // unless opens or begin stores it
	}
	*row = Row{Ref: Ref{Seq: e.Seq}, Time: e.Time, Dir: e.Dir, Conn: e.Conn, Exchange: e.Exchange, Size: e.Size, Cut: e.Cut()}
	if w := b.wires[e.Conn]; w != nil {
		row.Target, row.Carrier = w.Target, w.Carrier
	}
	switch e.Kind {
	case KindMessage:
		b.payload(row, e)
	case KindOpen:
		row.Kind = RowOpen
		if e.Wire != nil {
			b.wires[e.Conn] = e.Wire
			row.Target, row.Carrier, row.Brief = e.Wire.Target, e.Wire.Carrier, e.Wire.Peer
		}
		b.emit(row)
	case KindClose:
		b.close(row, e)
	case KindRequest:
		b.addRequest(row, e)
	case KindResponse:
		b.head(e)
	case KindEnd:
		b.addResponse(e)
	case KindStderr:
		row.Kind, row.Brief = RowStderr, brief(string(e.Data))
		b.emit(row)
	case KindJunk:
		row.Kind, row.Brief = RowJunk, e.Text
		b.place(row)
		b.emit(row)
	case KindLost:
		row.Kind, row.Brief = RowLost, e.Text
		b.emit(row)
	}
	return b.out
}

// emit returns a new or changed row to the caller of Add. The findings are copied.
func (b *Book) emit(r *Row) {
	r.bound()
	i := b.outAt(r.Ref)
	if i < 0 {
		i = len(b.out)
		b.out = append(b.out, *r)
	} else {
		b.out[i] = *r
	}
	b.out[i].Findings = slices.Clone(r.Findings)
}

// outAt returns the index of a row in out, or -1.
func (b *Book) outAt(ref Ref) int {
	const few = 16 // a short list is searched; a longer one, such as a batch, uses at
	if len(b.out) <= few {
		for i := range b.out {
			if b.out[i].Ref == ref {
				return i
			}
		}
		return -1
	}
	for i := len(b.at); i < len(b.out); i++ {
		b.at[b.out[i].Ref] = i
	}
	if i, ok := b.at[ref]; ok {
		return i
	}
	return -1
}

// payload makes rows from one payload.
func (b *Book) payload(row *Row, e *Event) {
	if x := b.exchanges[e.Exchange]; x != nil {
		row.Session, row.Trace = x.row.Session, x.row.Trace
		if x.row.Parent.IsZero() && x.row.Dir == row.Dir {
			x.row.Parent = row.Ref // the exchange is shown below the message that it transported
			b.emit(x.row)
		}
	}
	body := bytes.TrimLeft(e.Data, " \t\r\n")
	if len(body) > 0 && body[0] == '[' && !row.Cut {
		if members, ok := split(body); ok {
			b.batch(row, body, members)
			return
		}
	}
	b.message(row, nil, e.Data)
}

// split returns the elements of a JSON array.
func split(text []byte) (members [][]byte, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return nil, false
	}
	for {
		switch dec.PeekKind() {
		case ']':
			return members, true
		case 0:
			return nil, false
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		end := int(dec.InputOffset())
		members = append(members, text[end-len(v):end])
	}
}

func (b *Book) batch(row *Row, body []byte, members [][]byte) {
	row.Kind, row.Members = RowBatch, len(members)
	bad := jsonrpc.Scan(body, func(*jsonrpc.Message) {})
	if bad != nil {
		row.Findings = append(row.Findings, Finding{Rule: rule(bad), Text: reason(bad)})
		b.place(row)
		b.opens(row, nil, true)
		b.emit(row)
		return
	}
	b.emit(row) // before its members
	for i, text := range members {
		member := &Row{
			Ref: Ref{row.Ref.Seq, i + 1}, Time: row.Time, Dir: row.Dir, Conn: row.Conn, Target: row.Target, Carrier: row.Carrier,
			Exchange: row.Exchange, Session: row.Session, Trace: row.Trace, Size: len(text), Parent: row.Ref,
		}
		b.message(member, row, text)
	}
	if row.State == "" && row.Call.IsZero() {
		b.place(row)
	}
	b.emit(row)
}

// message makes the row of one message. batch is the batch that contains it, or nil.
func (b *Book) message(row, batch *Row, text []byte) {
	inspection := &Look{Row: row, Payload: text, correlator: b}
	if x := b.exchanges[row.Exchange]; x != nil {
		inspection.Request, inspection.Response, inspection.HTTPMethod, inspection.Status = x.request, x.response, x.row.Method, int(x.row.Code)
	}
	var bad *jsonrpc.Error
	switch {
	case row.Cut:
		row.Kind, row.Brief = RowJunk, "too long to be recorded in full"
		b.place(row)
		b.emit(row)
		return
	case batch != nil && len(text) > 0 && text[0] == '[':
		bad = jsonrpc.ErrInvalidRequest
	default:
		bad = jsonrpc.Scan(text, func(m *jsonrpc.Message) {
			inspection.Message = m
			b.known(row, batch, inspection, m)
		})
	}
	if bad != nil {
		row.Kind, row.Brief = RowJunk, brief(string(text))
		inspection.Broken(rule(bad), reason(bad))
		b.place(row)
		b.opens(row, batch, true)
		b.judge(inspection)
		b.emit(row)
	}
}

// known makes the row of a message that could be parsed.
func (b *Book) known(row, batch *Row, inspection *Look, m *jsonrpc.Message) {
	if m.Bad != nil {
		inspection.Broken(rule(m.Bad), reason(m.Bad))
	}
	row.ID = bounded(m.ID.String())
	if m.Request {
		row.Method, row.Kind = m.Method, RowRequest
		if m.ID.IsZero() && m.Bad == nil {
			row.Kind = RowNotification
		}
		if strings.HasPrefix(m.Method, "rpc.") && m.Method != "rpc.discover" && m.Method != "rpc.authenticate" {
			inspection.Doubt("reserved-name", "method names that start with rpc. are reserved")
		}
		if row.Kind == RowRequest {
			inspection.call = b.opens(row, batch, m.Bad != nil && (m.ID.IsZero() || m.ID.IsNull()))
		}
		b.place(row)
		b.judge(inspection)
		b.emit(row)
		return
	}
	row.Kind = RowResult
	if m.Error != nil {
		row.Kind = RowError
		var e struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(m.Error, &e, lenient); err == nil {
			row.Code, row.HasCode, row.Brief = e.Code, true, brief(e.Message)
		}
	}
	b.answers(row, batch, inspection)
	b.judge(inspection)
	if inspection.call != nil {
		b.emit(inspection.call.row)
	}
	b.emit(row)
}

func (b *Book) judge(inspection *Look) {
	for _, j := range b.judges {
		_ = rescue.Run(nil, func() { j(inspection) }) // the row is recorded without its verdict
	}
}

// opens stores a request until its response arrives, and checks its ID.
func (b *Book) opens(row, batch *Row, junk bool) *call {
	c := &call{key: callKey{row.Conn, row.Dir, row.ID}, row: row, batch: batch, junk: junk}
	if junk {
		c.key.id = "null"
	} else {
		row.State = StateWaiting
		for _, other := range b.open[c.key] {
			if !other.junk && other.row.Session == row.Session && (row.Session != "" || other.row.Exchange == row.Exchange) && !other.cancelled {
				row.Findings = append(row.Findings, Finding{Rule: "id-in-use", Text: fmt.Sprintf("id %s is in use by #%s, which has no response yet", brief(row.ID), other.row.Ref)})
				break
			}
		}
		if batch != nil {
			batch.State = StateWaiting
		}
	}
	b.spare = nil // c refers to it, also if the caller ignores the result
	if b.opened >= maxOpen {
		return c
	}
	b.opened++
	b.open[c.key] = append(b.open[c.key], c)
	if x := b.exchanges[row.Exchange]; x != nil {
		x.calls = append(x.calls, c)
	}
	return c
}

// answers finds the request of a response.
func (b *Book) answers(row, batch *Row, inspection *Look) {
	key := callKey{row.Conn, row.Dir.Back(), row.ID}
	c := b.find(key, row)
	if c == nil {
		if row.Parent.IsZero() {
			b.place(row)
		}
		switch before, twice := b.answered[key]; {
		case twice && row.ID != "null":
			inspection.Broken("answered-twice", fmt.Sprintf("id %s was already answered by #%s", brief(row.ID), before))
		case row.ID == "null":
			inspection.Doubt("answers-nothing", "a response to an invalid message, but no invalid message was sent")
		default:
			inspection.Broken("answers-nothing", fmt.Sprintf("no request has id %s", brief(row.ID)))
		}
		return
	}
	inspection.call, inspection.Call = c, c.row
	asked := c.row
	row.Call, row.Parent, row.Method, row.Name = asked.Ref, asked.Ref, asked.Method, asked.Name
	row.Version = asked.Version
	if row.Trace == "" {
		row.Trace = asked.Trace
	}
	if row.Session == "" {
		row.Session = asked.Session
	}
	row.Took = row.Time.Sub(asked.Time)
	asked.Took, asked.Answer = row.Took, row.Ref
	asked.Count++
	switch {
	case c.cancelled && c.silent:
		inspection.Doubt("late", fmt.Sprintf("#%s was cancelled before this response", asked.Ref))
	case !c.repeats && row.Took > lateAfter:
		inspection.Doubt("late", fmt.Sprintf("the response took %s", row.Took.Round(time.Second)))
	}
	asked.State = StateDone
	if row.Kind == RowError {
		asked.State = StateFailed
	}
	if !c.repeats {
		b.remove(c)
	}
	b.remember(key, row.Ref)
	if c.batch != nil {
		b.batchAnswer(c, row, batch)
	}
}

// batchAnswer links the response to a batch member with the batch.
func (b *Book) batchAnswer(c *call, row, batch *Row) {
	asked := c.batch
	asked.Answer, asked.Took, asked.State = row.Ref, row.Took, StateDone
	if batch != nil {
		asked.Answer = batch.Ref
		batch.Call, batch.Parent, batch.Took = asked.Ref, asked.Ref, row.Took
	}
	b.emit(asked)
}

// find returns the open call that a response belongs to. It searches the response's exchange first,
// then its session, then the whole connection.
func (b *Book) find(key callKey, row *Row) *call {
	list := b.open[key]
	best, rank := (*call)(nil), 0
	for _, c := range list {
		r := 1
		switch {
		case c.row.Exchange == row.Exchange:
			r = 3
		case c.row.Session != "" && c.row.Session == row.Session:
			r = 2
		case row.Exchange != 0 && b.ownResponse(c, row):
			r = 0 // the exchange of another caller, which will have its own response
		}
		if r > rank {
			best, rank = c, r
		}
	}
	return best
}

// ownResponse reports whether the response to c must arrive in its own exchange: a POST without a
// session and with a status other than 202.
func (b *Book) ownResponse(c *call, row *Row) bool {
	x := b.exchanges[c.row.Exchange]
	return x != nil && c.row.Dir == Out && x.row.Code != http.StatusAccepted && c.row.Session != row.Session
}

// remove deletes a call that has its response.
func (b *Book) remove(c *call) {
	list := b.open[c.key]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	b.opened--
	if len(list) == 1 {
		delete(b.open, c.key)
	} else {
		b.open[c.key] = slices.Delete(list, i, i+1)
	}
	for _, k := range c.tokens {
		if b.tokens[k] == c {
			delete(b.tokens, k)
		}
	}
}

func (b *Book) remember(key callKey, ref Ref) {
	if _, known := b.answered[key]; !known {
		if len(b.order) >= maxAnswered {
			delete(b.answered, b.order[0])
			b.order = b.order[1:]
		}
		b.order = append(b.order, key)
	}
	b.answered[key] = ref
}

// place assigns a row that is no response to a call: the first open one of its exchange, or the
// only one that waits on the other side of its connection.
func (b *Book) place(row *Row) {
	if !row.Parent.IsZero() {
		return
	}
	if x := b.exchanges[row.Exchange]; x != nil {
		// The calls of an exchange were sent by its client. A row in the other direction is part of
		// its response, such as a JSON document.
		if i := slices.IndexFunc(x.calls, func(c *call) bool { return c.row.Dir == x.row.Dir }); i >= 0 && x.row.Dir != row.Dir {
			row.Parent = x.calls[i].row.Ref
		}
		return
	}
	if b.opened > 64 { // searching all of them costs too much
		return
	}
	var only *call
	for key, list := range b.open {
		if key.conn != row.Conn || key.dir != row.Dir.Back() {
			continue
		}
		for _, c := range list {
			if c.junk || c.cancelled {
				continue
			}
			if only != nil {
				return
			}
			only = c
		}
	}
	if only != nil {
		row.Parent = only.row.Ref
	}
}

// rule returns the name of the broken rule.
func rule(e *jsonrpc.Error) string {
	if e.Code == jsonrpc.CodeParseError {
		return "parse"
	}
	return "envelope"
}

// reason returns the text with which a server would reject the message.
func reason(e *jsonrpc.Error) string {
	var data struct {
		Reason string `json:"reason"`
	}
	if e.Data != nil && json.Unmarshal(e.Data, &data, lenient) == nil && data.Reason != "" {
		return e.Message + ": " + data.Reason
	}
	return e.Message
}

// brief truncates text to one line.
func brief(text string) string {
	if len(text) > briefBytes {
		text = text[:briefBytes] + "…"
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
