// Package imports reads recordings of other programs as events of package capture.
//
// It reads HTTP Archives (HAR 1.2) of browsers and proxies, the session logs and JSON exports of
// mcpsnoop, and the JSON exports of the MCP Inspector's history. Times, directions, connections and
// messages are taken over as far as the format has them; nothing is made up. The text of a format
// is parsed in memory, so the caller bounds its size.
package imports

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Formats of recordings.
const (
	formatHAR       = "HAR"
	formatMcpsnoop  = "mcpsnoop"
	formatInspector = "MCP Inspector"
)

// maxEvents is the maximum number of events of a recording.
const maxEvents = 1_000_000

// Errors of Read.
var (
	errUnknown = errors.New("the format is not known: HAR, mcpsnoop and MCP Inspector are")
	errEmpty   = errors.New("it has no JSON-RPC messages")
	errLarge   = fmt.Errorf("it has more than %d events", maxEvents)
)

// A Recording is the content of a file.
type Recording struct {
	Format  string          // HAR, mcpsnoop or MCP Inspector
	Events  []capture.Event // in the order of their times, numbered from 1
	Skipped int             // HTTP exchanges without JSON-RPC, and entries that cannot be read
}

// Read detects the format of text and reads it.
func Read(text []byte) (*Recording, error) {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	r := &reader{}
	var err error
	switch {
	case len(text) == 0:
		return nil, errUnknown
	case isLines(text):
		r.out.Format, err = formatMcpsnoop, r.lines(text)
	default:
		err = r.document(text)
	}
	if err != nil {
		return nil, err
	}
	messages := 0
	for i := range r.out.Events {
		if r.out.Events[i].Kind == capture.KindMessage {
			messages++
		}
	}
	switch {
	case messages == 0:
		return nil, errEmpty
	case len(r.out.Events) > maxEvents:
		return nil, errLarge
	}
	slices.SortStableFunc(r.out.Events, func(a, b capture.Event) int { return a.Time.Compare(b.Time) })
	for i := range r.out.Events {
		r.out.Events[i].Seq = int64(i + 1)
	}
	return &r.out, nil
}

type reader struct {
	out       Recording
	conns     map[string]int64
	exchanges int64
}

func (r *reader) add(e capture.Event) {
	e.Size = len(e.Data)
	if len(r.out.Events) <= maxEvents {
		r.out.Events = append(r.out.Events, e)
	}
}

// conn returns the number of a connection, which starts at its first event.
func (r *reader) conn(key string, at time.Time, info capture.WireInfo) int64 {
	if n := r.conns[key]; n > 0 {
		return n
	}
	if r.conns == nil {
		r.conns = make(map[string]int64)
	}
	n := int64(len(r.conns) + 1)
	r.conns[key] = n
	r.add(capture.Event{Time: at, Kind: capture.KindOpen, Conn: n, Wire: &info})
	return n
}

// document reads one JSON value.
func (r *reader) document(text []byte) error {
	var head struct {
		Log    json.RawMessage `json:"log"`
		Events json.RawMessage `json:"events"`
		Sess   json.RawMessage `json:"session"`
	}
	if text[0] == '{' {
		if err := json.Unmarshal(text, &head); err != nil {
			return fmt.Errorf("%w (%w)", errUnknown, err)
		}
		var log struct{ Entries []json.RawMessage }
		var events []json.RawMessage
		switch {
		case json.Unmarshal(head.Log, &log) == nil && log.Entries != nil:
			r.out.Format = formatHAR
			r.har(log.Entries)
			return nil
		case head.Sess != nil && json.Unmarshal(head.Events, &events) == nil:
			r.out.Format = formatMcpsnoop
			return r.snoopExport(head.Sess, events)
		}
	}
	entries := inspectorEntries(text)
	if entries == nil {
		return errUnknown
	}
	r.out.Format = formatInspector
	r.inspector(entries)
	return nil
}

// compact returns a JSON text on one line; other text is returned unchanged.
func compact(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// isRPC reports whether a text is a message or a batch of JSON-RPC.
func isRPC(text []byte) bool {
	found := false
	_ = jsonrpc.Scan(text, func(m *jsonrpc.Message) { found = found || m.Bad == nil }) // other text has no messages
	return found
}

// HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec), with the WebSocket messages of browsers.
type (
	harEntry struct {
		Started  string  `json:"startedDateTime"`
		Time     float64 `json:"time"` // milliseconds
		Type     string  `json:"_resourceType"`
		Messages []struct {
			Type string
			Time float64 // seconds since 1970
			Data string
			Code int `json:"opcode"` // 2: Data is base64
		} `json:"_webSocketMessages"`
		Request struct {
			Method, URL string
			Headers     []harPair
			Post        struct{ Text string } `json:"postData"`
		}
		Response struct {
			Status  int
			Headers []harPair
			Content struct {
				Mime           string `json:"mimeType"`
				Text, Encoding string
			}
		}
	}
	harPair struct{ Name, Value string }
)

func (r *reader) har(entries []json.RawMessage) {
	for i, text := range entries {
		e := new(harEntry)
		wrong := json.Unmarshal(text, e)
		at, err := time.Parse(time.RFC3339Nano, e.Started)
		u, bad := url.Parse(e.Request.URL)
		switch {
		case wrong != nil, err != nil, bad != nil:
			r.out.Skipped++
		case e.Response.Status == http.StatusSwitchingProtocols || strings.EqualFold(e.Type, "websocket"):
			r.webSocket(e, i, at)
		default:
			r.exchange(e, u, at)
		}
	}
}

// webSocket reads the messages of a WebSocket, which is a connection of its own.
func (r *reader) webSocket(e *harEntry, i int, at time.Time) {
	transport := "ws"
	if strings.HasPrefix(e.Request.URL, "stdio:") { // of parley's own archives
		transport = "stdio"
	}
	conn := r.conn(fmt.Sprintf("ws %d", i), at, capture.WireInfo{Target: e.Request.URL, Carrier: transport})
	for _, m := range e.Messages {
		dir := capture.In
		if m.Type == "send" {
			dir = capture.Out
		}
		data := []byte(m.Data)
		if decoded, err := base64.StdEncoding.DecodeString(m.Data); m.Code == 2 && err == nil {
			data = decoded
		}
		r.add(capture.Event{Time: secondsAfter(at, m.Time), Kind: capture.KindMessage, Dir: dir, Conn: conn, Data: data})
	}
}

// mostLater bounds the time from the start of an exchange to its end, or to a message of a
// WebSocket.
const mostLater = 30 * 24 * time.Hour

// secondsAfter returns a time in seconds since 1970, unless it is far from the start.
func secondsAfter(start time.Time, seconds float64) time.Time {
	if from := float64(start.Unix()); !(seconds >= from-1 && seconds-from <= mostLater.Seconds()) || start.Year() >= 9999 {
		return start
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

// later returns the time after a number of milliseconds.
func later(start time.Time, ms float64) time.Time {
	if !(ms > 0) { // of browsers for an unknown time: -1
		return start
	}
	after := start.Add(time.Duration(min(ms, float64(mostLater/time.Millisecond)) * float64(time.Millisecond)))
	if after.Year() > 9999 { // which RFC 3339 does not have
		return start
	}
	return after
}

// exchange reads an HTTP exchange that contains messages.
func (r *reader) exchange(e *harEntry, u *url.URL, at time.Time) {
	body := []byte(e.Response.Content.Text)
	if e.Response.Content.Encoding == "base64" {
		if decoded, err := base64.StdEncoding.DecodeString(e.Response.Content.Text); err == nil {
			body = decoded
		}
	}
	type part struct {
		id   string
		data []byte
	}
	var parts []part
	if strings.HasPrefix(strings.ToLower(e.Response.Content.Mime), "text/event-stream") {
		rpc := isRPC([]byte(e.Request.Post.Text)) // other programs use event streams too
		for id, data := range eventsOf(string(body)) {
			if len(parts) > maxEvents {
				break
			}
			parts = append(parts, part{id, data})
			rpc = rpc || isRPC(data)
		}
		if !rpc {
			parts = nil
		}
	} else if isRPC(body) {
		parts = append(parts, part{data: body})
	}
	request := []byte(e.Request.Post.Text)
	if !isRPC(request) && len(parts) == 0 {
		r.out.Skipped++
		return
	}
	origin := u.Scheme + "://" + u.Host
	conn := r.conn(origin, at, capture.WireInfo{Target: origin + u.Path, Carrier: "http"})
	r.exchanges++
	n, end := r.exchanges, later(at, e.Time)
	event := func(kind capture.Kind, dir capture.Dir, at time.Time) capture.Event {
		return capture.Event{Time: at, Kind: kind, Dir: dir, Conn: conn, Exchange: n}
	}
	head := event(capture.KindRequest, capture.Out, at)
	head.Method, head.URL, head.Header = e.Request.Method, u.RequestURI(), headerOf(e.Request.Headers)
	r.add(head)
	if len(request) > 0 {
		m := event(capture.KindMessage, capture.Out, at)
		m.Data = request
		r.add(m)
	}
	if e.Response.Status > 0 {
		head := event(capture.KindResponse, capture.In, end)
		head.Status, head.Header = e.Response.Status, headerOf(e.Response.Headers)
		r.add(head)
	}
	for _, p := range parts {
		m := event(capture.KindMessage, capture.In, end)
		m.Data, m.EventID = p.data, p.id
		r.add(m)
	}
	last := event(capture.KindEnd, capture.Neither, end)
	if e.Response.Status <= 0 {
		last.Text = "there was no response"
	}
	r.add(last)
}

func headerOf(pairs []harPair) http.Header {
	h := make(http.Header, len(pairs))
	for _, p := range pairs {
		if !strings.HasPrefix(p.Name, ":") { // a pseudo-header of HTTP/2
			h.Add(p.Name, p.Value)
		}
	}
	return h
}

// eventsOf yields the IDs and the data of an event stream.
func eventsOf(text string) func(yield func(id string, data []byte) bool) {
	return func(yield func(id string, data []byte) bool) {
		id, data := "", []string(nil)
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
		for line := range strings.SplitSeq(text+"\n\n", "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case line == "" && data != nil:
				if all := strings.Join(data, "\n"); all != "" && !yield(id, []byte(all)) {
					return
				}
				data = nil
			case name == "data":
				data = append(data, value)
			case name == "id":
				id = value
			}
		}
	}
}

// An event of mcpsnoop, in its log or in its JSON export.
type snoopEvent struct {
	Session   string          `json:"session_id"`
	Label     string          `json:"server_label"`
	Conn      string          `json:"conn_id"`
	Transport string          `json:"transport"`
	TS        time.Time       `json:"ts"`
	Timestamp time.Time       `json:"timestamp"`
	Direction string          `json:"direction"`
	Raw       json.RawMessage `json:"raw"`
	Text      string          `json:"text"`
}

// isLines reports whether text has several JSON objects, one a line, and not one document.
func isLines(text []byte) bool {
	line, _, more := bytes.Cut(text, []byte("\n"))
	var first snoopEvent
	return json.Unmarshal(line, &first) == nil && first.Direction != "" && (more || !first.TS.IsZero())
}

func (r *reader) lines(text []byte) error {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e snoopEvent
		if err := json.Unmarshal(line, &e); err != nil {
			r.out.Skipped++ // the last line of a log may be incomplete
			continue
		}
		r.snoop(&e)
	}
	return nil
}

func (r *reader) snoopExport(session json.RawMessage, events []json.RawMessage) error {
	var about struct{ ID, Label, Transport, Endpoint string }
	if err := json.Unmarshal(session, &about); err != nil {
		return fmt.Errorf("%w (%w)", errUnknown, err)
	}
	for _, text := range events {
		e := new(snoopEvent)
		if err := json.Unmarshal(text, e); err != nil {
			r.out.Skipped++
			continue
		}
		e.TS, e.Session, e.Transport = e.Timestamp, about.ID, about.Transport
		if e.Label = about.Endpoint; e.Label == "" {
			e.Label = about.Label
		}
		r.snoop(e)
	}
	return nil
}

func (r *reader) snoop(e *snoopEvent) {
	event := capture.Event{Time: e.TS, Kind: capture.KindMessage}
	switch e.Direction {
	case "c2s":
		event.Dir = capture.Out
	case "s2c":
		event.Dir = capture.In
	case "stderr":
		event.Kind = capture.KindStderr
	case "meta":
		return // the command of the server
	default:
		r.out.Skipped++
		return
	}
	if event.Data = []byte(e.Text); len(e.Raw) > 0 {
		event.Data = compact(e.Raw)
	}
	event.Conn = r.conn(e.Session+"\x00"+e.Conn, e.TS, capture.WireInfo{Target: e.Label, Carrier: e.Transport, Title: e.Label})
	r.add(event)
}

// An entry of the history of the MCP Inspector: a message with its response, if it has one.
type inspectorEntry struct {
	Timestamp time.Time       `json:"timestamp"`
	Direction string          `json:"direction"` // request, response or notification
	Origin    string          `json:"origin"`    // client or server, in newer versions
	Message   json.RawMessage `json:"message"`
	Response  json.RawMessage `json:"response"`
	Duration  float64         `json:"duration"` // milliseconds
}

// inspectorEntries returns the entries of an array, or of the first member that is such an array.
func inspectorEntries(text []byte) []inspectorEntry {
	var entries []inspectorEntry
	if text[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil {
			return nil
		}
		some := false
		for _, one := range list {
			var e inspectorEntry
			if json.Unmarshal(one, &e) != nil {
				e = inspectorEntry{} // has no message, and is skipped
			}
			some = some || e.Message != nil
			entries = append(entries, e)
		}
		if !some {
			return nil
		}
		return entries
	}
	for _, member := range jsonrpc.Raw(text).Members() {
		if member = bytes.TrimSpace(member); len(member) > 0 && member[0] == '[' {
			if found := inspectorEntries(member); found != nil {
				return found
			}
		}
	}
	return nil
}

func (r *reader) inspector(entries []inspectorEntry) {
	conn := int64(0)
	for i := range entries {
		e := &entries[i]
		if !isRPC(e.Message) {
			r.out.Skipped++
			continue
		}
		if conn == 0 {
			conn = r.conn("", e.Timestamp, capture.WireInfo{Title: formatInspector})
		}
		dir := e.dir()
		r.add(capture.Event{Time: e.Timestamp, Kind: capture.KindMessage, Dir: dir, Conn: conn, Data: compact(e.Message)})
		if isRPC(e.Response) {
			after := later(e.Timestamp, e.Duration)
			r.add(capture.Event{Time: after, Kind: capture.KindMessage, Dir: dir.Back(), Conn: conn, Data: compact(e.Response)})
		}
	}
}

// fromServer lists the requests that only a server sends, and fromClient the notifications that
// only a client sends (MCP 2025-11-25).
var (
	fromServer = []string{"sampling/createMessage", "elicitation/create", "roots/list"}
	fromClient = []string{"notifications/initialized", "notifications/roots/list_changed"}
)

// dir returns the direction of an entry's message: the Inspector is the client.
func (e *inspectorEntry) dir() capture.Dir {
	var m struct{ Method string }
	_ = json.Unmarshal(e.Message, &m) // it was parsed before
	switch {
	case e.Origin == "client":
		return capture.Out
	case e.Origin == "server":
		return capture.In
	case e.Direction == "request" && !slices.Contains(fromServer, m.Method), slices.Contains(fromClient, m.Method):
		return capture.Out
	}
	return capture.In
}
