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

	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	maxOpen     = 65_536 // calls, exchanges, tokens that wait; what comes past it is shown and not paired
	maxAnswered = 4_096  // ids that are remembered after their answer
	lateAfter   = 60 * time.Second
	briefBytes  = 200
)

// A Book pairs: it takes events in order and keeps what is open. It is not safe for concurrent use, and its memory is
// bounded by what is open. Most programs use it through a [Recorder] or [Open].
type Book struct {
	judges []Judge
	out    []Row       // made or changed by the event that is looked at
	at     map[Ref]int // where in out, when that is long
	spare  *Row        // for the next event, if nobody keeps it

	wires     map[int64]*WireInfo
	exchanges map[int64]*exchange
	open      map[callKey][]*call
	opened    int // calls in open
	tokens    map[tokenKey]*call

	answered map[callKey]Ref // the response that an id had last
	order    []callKey       // of answered, oldest first
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
	batch     *Row // that it is a member of; nil
	tokens    []tokenKey
	cancelled bool
	silent    bool // no answer is expected after cancelling
	repeats   bool
	junk      bool // the request could not be read: an answer with id null is about it
}

type exchange struct {
	row               *Row
	request, response http.Header
	calls             []*call
}

// NewBook makes a Book with these judges.
func NewBook(judges ...Judge) *Book {
	return &Book{
		judges: judges, at: map[Ref]int{}, wires: map[int64]*WireInfo{}, exchanges: map[int64]*exchange{}, open: map[callKey][]*call{},
		tokens: map[tokenKey]*call{}, answered: map[callKey]Ref{},
	}
}

// Add looks at an event. It returns the rows that are new or changed, in the order of the wire; they are valid until the next
// Add, and their Rev is not set.
func (b *Book) Add(e *Event) []Row {
	b.out = b.out[:0]
	clear(b.at)
	row := b.spare
	if row == nil {
		row = new(Row)
		b.spare = row // until opens or begin keep it
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
		b.begin(row, e)
	case KindResponse:
		b.head(e)
	case KindEnd:
		b.end(e)
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

// emit tells of a new row or a change. The copy's findings are not shared.
func (b *Book) emit(r *Row) {
	i := b.outAt(r.Ref)
	if i < 0 {
		i = len(b.out)
		b.out = append(b.out, *r)
	} else {
		b.out[i] = *r
	}
	b.out[i].Findings = slices.Clone(r.Findings)
}

// outAt is where in out a row stands, or -1.
func (b *Book) outAt(ref Ref) int {
	const few = 16 // so many are looked through; of more, as in a batch, at knows
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

// payload makes rows of one payload.
func (b *Book) payload(row *Row, e *Event) {
	if x := b.exchanges[e.Exchange]; x != nil {
		row.Session, row.Trace = x.row.Session, x.row.Trace
		if x.row.Parent.IsZero() && x.row.Dir == row.Dir {
			x.row.Parent = row.Ref // the exchange is shown under what it carried
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

// split returns the members of a JSON array.
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

// message makes the row of one message, which is a member of batch unless that is nil.
func (b *Book) message(row, batch *Row, text []byte) {
	look := &Look{Row: row, Payload: text, book: b}
	if x := b.exchanges[row.Exchange]; x != nil {
		look.Request, look.Response, look.HTTPMethod, look.Status = x.request, x.response, x.row.Method, int(x.row.Code)
	}
	var bad *jsonrpc.Error
	switch {
	case row.Cut:
		row.Kind, row.Brief = RowJunk, "too long to be kept whole"
		b.place(row)
		b.emit(row)
		return
	case batch != nil && len(text) > 0 && text[0] == '[':
		bad = jsonrpc.ErrInvalidRequest
	default:
		bad = jsonrpc.Scan(text, func(m *jsonrpc.Message) {
			look.Message = m
			b.known(row, batch, look, m)
		})
	}
	if bad != nil {
		row.Kind, row.Brief = RowJunk, brief(string(text))
		look.Broken(rule(bad), reason(bad))
		b.place(row)
		b.opens(row, batch, true)
		b.judge(look)
		b.emit(row)
	}
}

// known makes the row of a message that could be read.
func (b *Book) known(row, batch *Row, look *Look, m *jsonrpc.Message) {
	if m.Bad != nil {
		look.Broken(rule(m.Bad), reason(m.Bad))
	}
	row.ID = m.ID.String()
	if m.Request {
		row.Method, row.Kind = m.Method, RowRequest
		if m.ID.IsZero() && m.Bad == nil {
			row.Kind = RowNotification
		}
		if strings.HasPrefix(m.Method, "rpc.") && m.Method != "rpc.discover" {
			look.Doubt("reserved-name", "names that begin with rpc. are reserved")
		}
		if row.Kind == RowRequest {
			look.call = b.opens(row, batch, m.Bad != nil && (m.ID.IsZero() || m.ID.IsNull()))
		}
		b.place(row)
		b.judge(look)
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
	b.answers(row, batch, look)
	b.judge(look)
	if look.call != nil {
		b.emit(look.call.row)
	}
	b.emit(row)
}

func (b *Book) judge(look *Look) {
	for _, j := range b.judges {
		j(look)
	}
}

// opens remembers a request until its answer, and judges its id.
func (b *Book) opens(row, batch *Row, junk bool) *call {
	c := &call{key: callKey{row.Conn, row.Dir, row.ID}, row: row, batch: batch, junk: junk}
	if junk {
		c.key.id = "null"
	} else {
		row.State = StateWaiting
		for _, other := range b.open[c.key] {
			if !other.junk && other.row.Session == row.Session && (row.Session != "" || other.row.Exchange == row.Exchange) && !other.cancelled {
				row.Findings = append(row.Findings, Finding{Rule: "id-in-use", Text: fmt.Sprintf("id %s is that of #%s, which has no response yet", brief(row.ID), other.row.Ref)})
				break
			}
		}
		if batch != nil {
			batch.State = StateWaiting
		}
	}
	b.spare = nil // it is kept in c, even by who only asks for this
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
func (b *Book) answers(row, batch *Row, look *Look) {
	key := callKey{row.Conn, row.Dir.Back(), row.ID}
	c := b.find(key, row)
	if c == nil {
		if row.Parent.IsZero() {
			b.place(row)
		}
		switch before, twice := b.answered[key]; {
		case twice && row.ID != "null":
			look.Broken("answered-twice", fmt.Sprintf("id %s was answered by #%s already", brief(row.ID), before))
		case row.ID == "null":
			look.Doubt("answers-nothing", "an answer to something that could not be read, and nothing like that was sent")
		default:
			look.Broken("answers-nothing", fmt.Sprintf("nobody asked with id %s", brief(row.ID)))
		}
		return
	}
	look.call, look.Call = c, c.row
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
		look.Doubt("late", fmt.Sprintf("#%s was cancelled before this answer", asked.Ref))
	case !c.repeats && row.Took > lateAfter:
		look.Doubt("late", fmt.Sprintf("the answer took %s", row.Took.Round(time.Second)))
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

// batchAnswer ties the response to a member of a batch to the batch.
func (b *Book) batchAnswer(c *call, row, batch *Row) {
	asked := c.batch
	asked.Answer, asked.Took, asked.State = row.Ref, row.Took, StateDone
	if batch != nil {
		asked.Answer = batch.Ref
		batch.Call, batch.Parent, batch.Took = asked.Ref, asked.Ref, row.Took
	}
	b.emit(asked)
}

// find returns the open call that a response is about: first in its own exchange, then in its session, then anywhere on the
// connection.
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
			r = 0 // another exchange of another caller, which will bring its own answer
		}
		if r > rank {
			best, rank = c, r
		}
	}
	return best
}

// ownResponse reports whether c must be answered in its own exchange: a POST without a session, whose response is not "202".
func (b *Book) ownResponse(c *call, row *Row) bool {
	x := b.exchanges[c.row.Exchange]
	return x != nil && c.row.Dir == Out && x.row.Code != http.StatusAccepted && c.row.Session != row.Session
}

// remove forgets a call that has its answer.
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

// place puts a row that answers nothing under the call it seems to belong to: the first open one of its exchange, or the only one
// that waits on the other side of its connection.
func (b *Book) place(row *Row) {
	if !row.Parent.IsZero() {
		return
	}
	if x := b.exchanges[row.Exchange]; x != nil {
		// The calls of an exchange are its caller's, and what came back as if it were one: a document of JSON.
		if i := slices.IndexFunc(x.calls, func(c *call) bool { return c.row.Dir == x.row.Dir }); i >= 0 && x.row.Dir != row.Dir {
			row.Parent = x.calls[i].row.Ref
		}
		return
	}
	if b.opened > 64 { // looking at all of them costs more than it tells
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

// rule is the name of what is broken.
func rule(e *jsonrpc.Error) string {
	if e.Code == jsonrpc.CodeParseError {
		return "parse"
	}
	return "envelope"
}

// reason is what a server would say.
func reason(e *jsonrpc.Error) string {
	var data struct {
		Reason string `json:"reason"`
	}
	if e.Data != nil && json.Unmarshal(e.Data, &data, lenient) == nil && data.Reason != "" {
		return e.Message + ": " + data.Reason
	}
	return e.Message
}

// brief is text for one line.
func brief(text string) string {
	if len(text) > briefBytes {
		text = text[:briefBytes] + "…"
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
