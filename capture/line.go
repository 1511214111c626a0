package capture

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file defines the format of a session file and its JSON codec. A line is a JSON object, shown
// here on two lines:
//
//	{"seq":2,"time":"2026-11-20T12:04:31.208113Z","kind":"message","dir":"out","conn":1,
//	"bytes":62,"frame":{"jsonrpc":"2.0",…}}
//
// frame contains a JSON payload, byte for byte. A payload that is not JSON, or has line ends or
// surrounding blanks that a line of JSON cannot represent, is a string in "text". A payload that is
// not valid UTF-8 is in "base64". "bytes" is its length on the wire.

// header is the first line of a session file.
const header = `{"parley":"session","version":1}`

// AppendHeader appends the first line of a session file to dst, with a newline.
func AppendHeader(dst []byte) []byte { return append(append(dst, header...), '\n') }

// AppendLine appends the line of e to dst, with a newline.
func AppendLine(dst []byte, e *Event) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, e.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = e.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","kind":"`...)
	dst = append(append(dst, e.Kind.String()...), '"')
	if e.Dir != Neither {
		dst = append(append(append(dst, `,"dir":"`...), e.Dir.String()...), '"')
	}
	dst = appendNumber(dst, "conn", e.Conn)
	dst = appendNumber(dst, "http", e.Exchange)
	dst = appendText(dst, "event", e.EventID)
	dst = appendText(dst, "method", e.Method)
	dst = appendText(dst, "url", e.URL)
	dst = appendNumber(dst, "status", int64(e.Status))
	dst = appendText(dst, "note", e.Text)
	if e.Wire != nil {
		dst = appendValue(dst, "wire", e.Wire)
	}
	if len(e.Header) > 0 {
		dst = appendHeader(dst, e.Header)
	}
	if e.Data != nil || e.Size > 0 {
		dst = append(dst, `,"bytes":`...)
		dst = strconv.AppendInt(dst, int64(e.Size), 10)
		dst = appendData(dst, e.Data)
	}
	return append(dst, "}\n"...)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return strconv.AppendInt(dst, n, 10)
}

func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return appendHarmlessString(dst, text)
}

// appendHeader appends headers sorted by name.
func appendHeader(dst []byte, h http.Header) []byte {
	dst = append(dst, `,"header":{`...)
	var few [24]string // enough for most headers, without an allocation
	names := few[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendHarmlessString(dst, name), ":["...)
		for k, v := range h[name] {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendHarmlessString(dst, v)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendValue(dst []byte, name string, v any) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // impossible: strings and maps of strings
		return append(dst, "null"...)
	}
	return harmless.AppendJSON(dst, text)
}

// appendHarmlessString appends text as a JSON string. Invalid UTF-8 becomes U+FFFD, and hidden
// characters are escaped.
func appendHarmlessString(dst []byte, text string) []byte {
	if isPlain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	return harmless.AppendJSON(dst, jsonrpc.AppendString(nil, strings.ToValidUTF8(text, "\uFFFD")))
}

// isPlain reports whether text needs no escapes in quotes.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendData(dst, data []byte) []byte {
	switch {
	case standsInLine(data):
		return append(append(dst, `,"frame":`...), data...)
	case utf8.Valid(data):
		return appendHarmlessString(append(dst, `,"text":`...), string(data))
	}
	dst = append(dst, `,"base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// steers reports whether data contains a control character that is allowed in JSON: DEL or U+0080
// to U+009F, which control a terminal that displays the file.
func steers(data []byte) bool {
	if bytes.IndexByte(data, 0x7f) >= 0 {
		return true
	}
	for {
		i := bytes.IndexByte(data, 0xc2)
		if i < 0 || i+1 == len(data) {
			return false
		}
		if c := data[i+1]; c >= 0x80 && c < 0xa0 {
			return true
		}
		data = data[i+1:]
	}
}

// standsInLine reports whether data can be a member of a line unchanged: valid JSON on one line,
// without surrounding blanks and raw control characters.
func standsInLine(data []byte) bool {
	if len(data) == 0 || data[0] <= ' ' || data[len(data)-1] <= ' ' || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 || steers(data) {
		return false
	}
	_, err := jsonrpc.ParseRaw(data)
	return err == nil
}

// A line is the decoded form of a line of a session file.
type line struct {
	Parley  string         `json:"parley"`
	Version int            `json:"version"`
	Seq     int64          `json:"seq"`
	Time    string         `json:"time"`
	Kind    string         `json:"kind"`
	Dir     string         `json:"dir"`
	Conn    int64          `json:"conn"`
	HTTP    int64          `json:"http"`
	Event   string         `json:"event"`
	Method  string         `json:"method"`
	URL     string         `json:"url"`
	Status  int            `json:"status"`
	Note    string         `json:"note"`
	Wire    *WireInfo      `json:"wire"`
	Header  http.Header    `json:"header"`
	Bytes   int            `json:"bytes"`
	Frame   jsontext.Value `json:"frame"`
	Text    *string        `json:"text"`
	Base64  *string        `json:"base64"`
}

// errHeader is returned for the header line of a file, which is not an event.
var errHeader = errors.New("capture: a header, not an event")

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// ParseLine parses one line of a session file other than the header. Unknown members are ignored. A
// line without a kind is a message, as in older traces. The Event's Data may refer to text.
func ParseLine(text []byte) (Event, error) { return parseLine(text, nil) }

// parseLine is ParseLine with a cache of parsed headers by their text. Events share them.
func parseLine(text []byte, headers map[string]http.Header) (Event, error) {
	if e, ok := parseUsual(text, headers); ok {
		return e, nil
	}
	return parseAny(text)
}

// maxHeaders limits the cache of headers while a file is read: most headers repeat.
const maxHeaders = 256

// A cutter parses a line from its start.
type cutter struct {
	rest []byte
	bad  bool // the line differs from the output of AppendLine
}

// word cuts w off, if it is next.
func (c *cutter) word(w string) bool {
	if len(c.rest) < len(w) || string(c.rest[:len(w)]) != w {
		return false
	}
	c.rest = c.rest[len(w):]
	return true
}

// number cuts digits off, at most fifteen.
func (c *cutter) number() (n int64) {
	i := 0
	for ; i < len(c.rest) && i < 16 && '0' <= c.rest[i] && c.rest[i] <= '9'; i++ {
		n = 10*n + int64(c.rest[i]-'0')
	}
	c.bad = c.bad || i == 0 || i == 16 || c.rest[0] == '0' && i > 1
	c.rest = c.rest[i:]
	return n
}

// text cuts off everything up to and including the next quote.
func (c *cutter) text() string {
	i := bytes.IndexByte(c.rest, '"')
	if i < 0 {
		c.bad = true
		return ""
	}
	s := string(c.rest[:i])
	c.rest = c.rest[i+1:]
	c.bad = c.bad || !isPlain(s)
	return s
}

// last cuts off the value at the end of the line. It is one value, so no other member follows.
func (c *cutter) last() jsonrpc.Raw {
	if len(c.rest) == 0 || c.rest[len(c.rest)-1] != '}' {
		c.bad = true
		return nil
	}
	value, err := jsonrpc.ParseRaw(c.rest[:len(c.rest)-1])
	c.bad = c.bad || err != nil
	c.rest = c.rest[len(c.rest)-1:]
	return value
}

// parseUsual parses a line of a message or of an HTTP exchange as AppendLine writes it, member by
// member. Most lines of a session have this form, and this takes a tenth of the time. Other lines
// are left to parseAny.
func parseUsual(text []byte, headers map[string]http.Header) (e Event, ok bool) {
	c := cutter{rest: text}
	if !c.word(`{"seq":`) {
		return e, false
	}
	e.Seq = c.number()
	if !c.word(`,"time":"`) {
		return e, false
	}
	at, err := time.Parse(time.RFC3339Nano, c.text())
	if err != nil {
		return e, false
	}
	e.Time = at
	switch {
	case c.word(`,"kind":"message"`):
		e.Kind = KindMessage
	case c.word(`,"kind":"request"`):
		e.Kind = KindRequest
	case c.word(`,"kind":"response"`):
		e.Kind = KindResponse
	case c.word(`,"kind":"end"`):
		e.Kind = KindEnd
	default:
		return e, false
	}
	if c.word(`,"dir":"out"`) {
		e.Dir = Out
	} else if c.word(`,"dir":"in"`) {
		e.Dir = In
	}
	for _, m := range []struct {
		name   string
		number *int64
		text   *string
	}{{`,"conn":`, &e.Conn, nil}, {`,"http":`, &e.Exchange, nil}, {`,"event":"`, nil, &e.EventID}, {`,"method":"`, nil, &e.Method}, {`,"url":"`, nil, &e.URL}} {
		switch {
		case !c.word(m.name):
		case m.text != nil:
			*m.text = c.text()
		default:
			*m.number = c.number()
		}
	}
	if c.word(`,"status":`) {
		e.Status = int(c.number())
	}
	switch {
	case e.Kind == KindMessage && c.word(`,"bytes":`):
		e.Size = int(c.number())
		if !c.word(`,"frame":`) {
			return e, false
		}
		e.Data = c.last()
		e.Size = max(e.Size, len(e.Data))
	case (e.Kind == KindRequest || e.Kind == KindResponse) && c.word(`,"header":`):
		value := c.last()
		if e.Header, ok = headers[string(value)]; ok || c.bad {
			break
		}
		if json.Unmarshal(value, &e.Header, lenient) != nil {
			return e, false
		}
		if headers != nil {
			if len(headers) >= maxHeaders {
				clear(headers)
			}
			headers[string(value)] = e.Header
		}
	}
	return e, !c.bad && string(c.rest) == "}"
}

// parseAny parses any line.
func parseAny(text []byte) (Event, error) {
	var l line
	if err := json.Unmarshal(text, &l, lenient); err != nil {
		return Event{}, fmt.Errorf("capture: not a line of a session: %w", err)
	}
	if l.Parley != "" {
		if l.Parley != "session" || l.Version != 1 {
			return Event{}, fmt.Errorf("capture: a file of kind %q, version %d; only session, version 1, is supported", l.Parley, l.Version)
		}
		return Event{}, errHeader
	}
	if l.Kind == "" && l.Frame == nil && l.Text == nil && l.Base64 == nil {
		return Event{}, errors.New("capture: not a line of a session: it has neither a kind nor a frame")
	}
	e := Event{
		Seq: l.Seq, Conn: l.Conn, Exchange: l.HTTP, EventID: l.Event, Method: l.Method, URL: l.URL, Status: l.Status,
		Text: l.Note, Wire: l.Wire, Header: l.Header, Size: l.Bytes,
	}
	e.Kind = KindMessage
	if l.Kind != "" {
		i := slices.Index(kindNames[1:], l.Kind)
		if i < 0 {
			return Event{}, fmt.Errorf("capture: unknown kind of event %q", l.Kind)
		}
		e.Kind = Kind(i + 1)
	}
	switch l.Dir {
	case "out":
		e.Dir = Out
	case "in":
		e.Dir = In
	case "":
	default:
		return Event{}, fmt.Errorf("capture: unknown direction %q", l.Dir)
	}
	if l.Time != "" {
		at, err := time.Parse(time.RFC3339Nano, l.Time)
		if err != nil {
			return Event{}, fmt.Errorf("capture: %w", err)
		}
		e.Time = at
	}
	switch {
	case l.Frame != nil:
		e.Data = l.Frame
	case l.Text != nil:
		e.Data = []byte(*l.Text)
	case l.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*l.Base64)
		if err != nil {
			return Event{}, fmt.Errorf("capture: %w", err)
		}
		e.Data = data
	}
	e.Size = max(e.Size, len(e.Data))
	if e.Conn < 0 || e.Exchange < 0 || e.Seq < 0 {
		return Event{}, errors.New("capture: a negative number")
	}
	return e, nil
}
