package capture

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the one file that knows the form of a session file, and the JSON codec. A line is a JSON object:
//
//	{"seq":2,"time":"2026-11-20T12:04:31.208113Z","kind":"message","dir":"out","conn":1,"bytes":62,"frame":{"jsonrpc":"2.0",…}}
//
// frame holds a payload that is JSON, byte for byte. What is none, or has line ends or blanks around or in it that a line of
// JSON cannot show, is a string in "text"; what is not valid UTF-8 is in "base64". "bytes" is how long it was on the wire.

// header is the first line of a session file.
const header = `{"parley":"session","version":1}`

// AppendHeader adds the first line of a session file to dst, with a newline.
func AppendHeader(dst []byte) []byte { return append(append(dst, header...), '\n') }

// AppendLine adds the line of e to dst, with a newline.
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
	return appendString(dst, text)
}

// appendHeader adds headers by name.
func appendHeader(dst []byte, h http.Header) []byte {
	dst = append(dst, `,"header":{`...)
	var few [24]string // most have no more, and need no memory for that
	names := few[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ":["...)
		for k, v := range h[name] {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, v)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendValue(dst []byte, name string, v any) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // cannot be: strings and maps of strings
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

// appendString quotes text; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, text string) []byte {
	if isPlain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	out, err := jsontext.AppendQuote(dst, text)
	if err != nil { // it says so, and has done it
		out, _ = jsontext.AppendQuote(dst, string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD"))))
	}
	return out
}

// isPlain reports whether text stands in quotes as it is.
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
		return appendString(append(dst, `,"text":`...), string(data))
	}
	dst = append(dst, `,"base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// standsInLine reports whether data can be a member of a line as it is: valid JSON on one line without blanks around.
func standsInLine(data []byte) bool {
	if len(data) == 0 || data[0] <= ' ' || data[len(data)-1] <= ' ' || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		return false
	}
	_, err := jsonrpc.ParseRaw(data)
	return err == nil
}

// line is what is read of a session file.
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

// errHeader is the first line of a file, which is no event.
var errHeader = errors.New("capture: a header, no event")

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// ParseLine reads one line of a session file, without the header. Members that it does not know are ignored; a line without
// a kind is a message, as older traces have it. The Event's Data may point into text.
func ParseLine(text []byte) (Event, error) { return parseLine(text, nil) }

// parseLine is ParseLine with headers that were read before, by their text: Events share them.
func parseLine(text []byte, headers map[string]http.Header) (Event, error) {
	if e, ok := parseUsual(text, headers); ok {
		return e, nil
	}
	return parseAny(text)
}

// maxHeaders bounds the headers that are remembered while a file is read: most are the same, time and again.
const maxHeaders = 256

// A cutter takes a line apart from its begin.
type cutter struct {
	rest []byte
	bad  bool // the line is not as AppendLine writes it
}

// word cuts w off, if it is next.
func (c *cutter) word(w string) bool {
	if len(c.rest) < len(w) || string(c.rest[:len(w)]) != w {
		return false
	}
	c.rest = c.rest[len(w):]
	return true
}

// number cuts digits off; more than fifteen are for others.
func (c *cutter) number() (n int64) {
	i := 0
	for ; i < len(c.rest) && i < 16 && '0' <= c.rest[i] && c.rest[i] <= '9'; i++ {
		n = 10*n + int64(c.rest[i]-'0')
	}
	c.bad = c.bad || i == 0 || i == 16 || c.rest[0] == '0' && i > 1
	c.rest = c.rest[i:]
	return n
}

// text cuts off what stands before the next quote, and the quote.
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

// last cuts off the value that stands before the end of the line. There is no other member behind it, since it is one value.
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

// parseUsual reads a line of a message or of an HTTP exchange as AppendLine writes it, member after member. That is most of a session, and takes
// a tenth of the time. All that looks different is left to parseAny.
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

// parseAny reads any line.
func parseAny(text []byte) (Event, error) {
	var l line
	if err := json.Unmarshal(text, &l, lenient); err != nil {
		return Event{}, fmt.Errorf("capture: no line of a session: %w", err)
	}
	if l.Parley != "" {
		if l.Parley != "session" || l.Version != 1 {
			return Event{}, fmt.Errorf("capture: a file of kind %q, version %d; version 1 of session is known", l.Parley, l.Version)
		}
		return Event{}, errHeader
	}
	if l.Kind == "" && l.Frame == nil && l.Text == nil && l.Base64 == nil {
		return Event{}, errors.New("capture: no line of a session: it has no kind, and no frame")
	}
	e := Event{
		Seq: l.Seq, Conn: l.Conn, Exchange: l.HTTP, EventID: l.Event, Method: l.Method, URL: l.URL, Status: l.Status,
		Text: l.Note, Wire: l.Wire, Header: l.Header, Size: l.Bytes,
	}
	e.Kind = KindMessage
	if l.Kind != "" {
		i := slices.Index(kindNames[1:], l.Kind)
		if i < 0 {
			return Event{}, fmt.Errorf("capture: %q is no kind of event", l.Kind)
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
		return Event{}, fmt.Errorf("capture: %q is no direction", l.Dir)
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
