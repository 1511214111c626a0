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
func ParseLine(text []byte) (Event, error) {
	if e, ok := parseMessage(text); ok {
		return e, nil
	}
	return parseAny(text)
}

// parseMessage reads a line of a message as AppendLine writes it, member after member. That is most of a session, and takes a tenth of
// the time. All that looks different is left to parseAny.
func parseMessage(text []byte) (e Event, ok bool) {
	rest := text
	word := func(w string) bool {
		if len(rest) < len(w) || string(rest[:len(w)]) != w {
			return false
		}
		rest = rest[len(w):]
		return true
	}
	number := func() (n int64) {
		i := 0
		for ; i < len(rest) && i < 16 && '0' <= rest[i] && rest[i] <= '9'; i++ {
			n = 10*n + int64(rest[i]-'0')
		}
		ok = ok && i > 0 && i < 16 && (rest[0] != '0' || i == 1)
		rest = rest[i:]
		return n
	}
	str := func() string { // up to the quote
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			ok = false
			return ""
		}
		s := string(rest[:i])
		rest = rest[i+1:]
		ok = ok && isPlain(s)
		return s
	}
	if !word(`{"seq":`) {
		return e, false
	}
	ok = true
	e.Kind, e.Seq = KindMessage, number()
	if !word(`,"time":"`) {
		return e, false
	}
	at, err := time.Parse(time.RFC3339Nano, str())
	if err != nil || !word(`,"kind":"message"`) {
		return e, false
	}
	e.Time = at
	if word(`,"dir":"out"`) {
		e.Dir = Out
	} else if word(`,"dir":"in"`) {
		e.Dir = In
	}
	if word(`,"conn":`) {
		e.Conn = number()
	}
	if word(`,"http":`) {
		e.Exchange = number()
	}
	if word(`,"event":"`) {
		e.EventID = str()
	}
	if !word(`,"bytes":`) {
		return e, false
	}
	e.Size = int(number())
	if !word(`,"frame":`) || len(rest) == 0 || rest[len(rest)-1] != '}' {
		return e, false
	}
	data, err := jsonrpc.ParseRaw(rest[:len(rest)-1]) // one value to the end: there is no other member behind it
	if err != nil {
		return e, false
	}
	e.Data = data
	e.Size = max(e.Size, len(data))
	return e, ok
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
