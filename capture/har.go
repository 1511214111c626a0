package capture

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// These are the types of the HTTP Archive format 1.2. An exchange is an entry. The messages of a
// stream are in _webSocketMessages, as browser tools write them. A connection without HTTP is one
// entry that contains nothing else.

type harEntry struct {
	Started  string       `json:"startedDateTime"`
	Time     float64      `json:"time"`
	Request  harRequest   `json:"request"`
	Response harResponse  `json:"response"`
	Cache    struct{}     `json:"cache"`
	Timings  harTimings   `json:"timings"`
	Conn     string       `json:"connection,omitempty"`
	Kind     string       `json:"_resourceType,omitempty"`
	Messages []harMessage `json:"_webSocketMessages,omitempty"`

	order int64
	at    time.Time
	keep  bool

	// The texts of both bodies, of all messages so far.
	sent, received []byte
}

type harRequest struct {
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	HTTPVersion string    `json:"httpVersion"`
	Cookies     []harPair `json:"cookies"`
	Headers     []harPair `json:"headers"`
	Query       []harPair `json:"queryString"`
	Post        *harPost  `json:"postData,omitempty"`
	HeadersSize int       `json:"headersSize"`
	BodySize    int       `json:"bodySize"`
}

type harResponse struct {
	Status      int        `json:"status"`
	StatusText  string     `json:"statusText"`
	HTTPVersion string     `json:"httpVersion"`
	Cookies     []harPair  `json:"cookies"`
	Headers     []harPair  `json:"headers"`
	Content     harContent `json:"content"`
	Redirect    string     `json:"redirectURL"`
	HeadersSize int        `json:"headersSize"`
	BodySize    int        `json:"bodySize"`
}

type harContent struct {
	Size int    `json:"size"`
	Mime string `json:"mimeType"`
	Text string `json:"text,omitempty"`
}

type harPost struct {
	Mime string `json:"mimeType"`
	Text string `json:"text"`
}

type harPair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type harTimings struct {
	Send    float64 `json:"send"`
	Wait    float64 `json:"wait"`
	Receive float64 `json:"receive"`
}

type harMessage struct {
	Type   string  `json:"type"` // send or receive
	Time   float64 `json:"time"` // seconds since 1970
	Opcode int     `json:"opcode"`
	Data   string  `json:"data"`
}

// WriteHAR writes an HTTP Archive 1.2 that includes the messages of streams. It builds the whole
// archive in memory. Characters that control a terminal, reorder text or are invisible are written
// as JSON escapes, which have the same meaning.
func (l *Log) WriteHAR(w io.Writer, o *ExportOptions) error {
	x, err := l.export(o)
	if err != nil {
		return err
	}
	if len(x.filter.Terms) > 0 {
		x.choose()
	}
	entries := map[[2]int64]*harEntry{} // by connection and exchange
	wires := map[int64]*WireInfo{}
	for e, err := range l.Events(0) {
		if err != nil {
			return err
		}
		x.hide.event(&e)
		if e.Wire != nil {
			wires[e.Conn] = e.Wire
		}
		key := [2]int64{e.Conn, e.Exchange}
		entry := entries[key]
		if entry == nil {
			if e.Exchange == 0 && e.Kind != KindMessage {
				continue
			}
			entry = newEntry(&e, wires[e.Conn])
			entries[key] = entry
		}
		entry.add(&e, x.has(&e))
	}
	list := make([]*harEntry, 0, len(entries))
	for _, e := range entries {
		if e.keep {
			e.join()
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *harEntry) int { return int(a.order - b.order) })
	archive := map[string]any{"log": map[string]any{
		"version": "1.2",
		"creator": map[string]string{"name": "parley", "version": "1"},
		"entries": list,
	}}
	out := harmless.NewJSONWriter(w)
	if err := json.MarshalWrite(out, archive, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent(" ")); err != nil {
		return err
	}
	return out.Flush()
}

func newEntry(e *Event, info *WireInfo) *harEntry {
	entry := &harEntry{Started: e.Time.UTC().Format(time.RFC3339Nano), Conn: fmt.Sprint(e.Conn), order: e.Seq, at: e.Time}
	target := ""
	if info != nil {
		target = info.Target
	}
	entry.Request = harRequest{
		Method: "GET", URL: target, HTTPVersion: "HTTP/1.1", HeadersSize: -1, BodySize: -1,
		Cookies: []harPair{}, Headers: []harPair{}, Query: []harPair{},
	}
	entry.Response = harResponse{
		HTTPVersion: "HTTP/1.1", HeadersSize: -1, BodySize: -1, Cookies: []harPair{}, Headers: []harPair{},
		Content: harContent{Mime: "application/json"},
	}
	if e.Exchange == 0 {
		entry.Kind = "websocket"
		entry.Response.Status, entry.Response.StatusText = http.StatusSwitchingProtocols, "Switching Protocols"
		if !strings.Contains(target, "://") {
			entry.Request.URL = "stdio:" + url.PathEscape(target)
		}
	}
	return entry
}

func (h *harEntry) add(e *Event, chosen bool) {
	since := float64(e.Time.Sub(h.at)) / float64(time.Millisecond)
	h.Time = max(h.Time, since)
	switch e.Kind {
	case KindRequest:
		h.keep = h.keep || chosen
		h.Request.Method, h.Request.URL = e.Method, join(h.Request.URL, e.URL)
		h.Request.Headers = pairs(e.Header)
		if _, query, ok := strings.Cut(e.URL, "?"); ok {
			if values, err := url.ParseQuery(query); err == nil {
				h.Request.Query = pairs(values)
			}
		}
	case KindResponse:
		h.Response.Status, h.Response.StatusText = e.Status, http.StatusText(e.Status)
		h.Response.Headers = pairs(e.Header)
		h.Response.Content.Mime = e.Header.Get("Content-Type")
		h.Timings.Wait = since
	case KindMessage, KindJunk:
		h.keep = h.keep || chosen
		if chosen {
			h.message(e)
		}
	}
	h.Timings.Receive = max(0, h.Time-h.Timings.Wait)
}

func (h *harEntry) message(e *Event) {
	text, opcode := string(e.Data), 1
	if !utf8.ValidString(text) {
		text, opcode = base64.StdEncoding.EncodeToString(e.Data), 2
	}
	sends := e.Dir == Out
	stream := strings.HasPrefix(h.Response.Content.Mime, "text/event-stream")
	if h.Kind == "websocket" || stream || h.Response.Status == http.StatusSwitchingProtocols {
		kind := "receive"
		if sends {
			kind = "send"
		}
		h.Messages = append(h.Messages, harMessage{kind, float64(e.Time.UnixMicro()) / 1e6, opcode, text})
		if h.Kind == "" && stream {
			h.Kind = "eventsource"
		}
	}
	switch {
	case h.Kind == "websocket":
	case sends:
		if h.Request.Post == nil {
			h.Request.Post, h.Request.BodySize = &harPost{Mime: "application/json"}, 0
		}
		h.sent = append(h.sent, text...)
		h.Request.BodySize += e.Size
	default:
		if stream {
			text = "data: " + strings.ReplaceAll(text, "\n", "\ndata: ") + "\n\n"
		}
		h.received = append(h.received, text...)
		h.Response.Content.Size += len(text)
	}
}

// join sets the texts of the bodies.
func (h *harEntry) join() {
	if h.Request.Post != nil {
		h.Request.Post.Text = string(h.sent)
	}
	h.Response.Content.Text = string(h.received)
	h.sent, h.received = nil, nil
}

// join returns the complete URL of a request to target.
func join(target, uri string) string {
	base, err := url.Parse(target)
	if err != nil || base.Host == "" {
		return uri
	}
	ref, err := url.Parse(uri)
	if err != nil {
		return target
	}
	return base.ResolveReference(ref).String()
}

func pairs(h map[string][]string) []harPair {
	out := []harPair{}
	for name, values := range h {
		for _, v := range values {
			out = append(out, harPair{name, v})
		}
	}
	slices.SortStableFunc(out, func(a, b harPair) int { return strings.Compare(a.Name, b.Name) })
	return out
}
