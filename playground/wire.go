package playground

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// log returns a recording: "live", or a session that was opened.
func (p *Playground) log(name string) (*capture.Log, error) {
	if name == "" || name == "live" {
		return p.rec.Log, nil
	}
	if o := p.sessions.find(name); o != nil {
		return o.log, nil
	}
	return nil, badParam("/log", "unknown session %q", name)
}

// rowOf returns a row. Recorded rows become readable after a short delay; for a newer ref, rowOf
// waits.
func (p *Playground) rowOf(log *capture.Log, ref capture.Ref) (capture.Row, bool) {
	row, ok := log.Row(ref)
	if !ok && log == p.rec.Log {
		p.rec.Flush()
		row, ok = log.Row(ref)
	}
	return row, ok
}

type rowsParams struct {
	Log    string `json:"log,omitzero"`
	From   string `json:"from,omitzero"`
	Limit  int    `json:"limit,omitzero"`
	Filter string `json:"filter,omitzero"`
}

// choose returns the recording, the filter and the position that params select.
func (p *Playground) choose(in *rowsParams) (*capture.Log, *capture.Filter, capture.Ref, error) {
	log, err := p.log(in.Log)
	if err != nil {
		return nil, nil, capture.Ref{}, err
	}
	filter, err := capture.ParseFilter(in.Filter, time.Now())
	if err != nil {
		return nil, nil, capture.Ref{}, badParam("/filter", "%v", err)
	}
	var from capture.Ref
	if in.From != "" {
		if from, err = capture.ParseRef(in.From); err != nil {
			return nil, nil, capture.Ref{}, badParam("/from", "%q is not the number of a row", in.From)
		}
	}
	return log, filter, from, nil
}

// wireRows returns {"rows", "total"}.
func (p *Playground) wireRows(_ context.Context, in rowsParams) (jsonrpc.Raw, error) {
	log, filter, from, err := p.choose(&in)
	if err != nil {
		return nil, err
	}
	if in.Limit <= 0 || in.Limit > 10_000 {
		in.Limit = 500
	}
	var rows []capture.Row
	for row := range log.Select(filter, from) {
		rows = append(rows, row)
		if len(rows) == in.Limit {
			break
		}
	}
	dst := appendRows([]byte(`{"rows":`), rows)
	dst = append(dst, `,"total":`...)
	dst = append(dst, raw(log.Len())...)
	return append(dst, '}'), nil
}

type selectResult struct {
	Refs  []string `json:"refs"`
	Total int      `json:"total"`
}

func (p *Playground) wireSelect(ctx context.Context, in rowsParams) (selectResult, error) {
	log, filter, from, err := p.choose(&in)
	if err != nil {
		return selectResult{}, err
	}
	out := selectResult{Refs: []string{}, Total: log.Len()}
	negated := slices.ContainsFunc(filter.Terms, func(t capture.Term) bool { return t.Not })
	chosen := make(map[capture.Ref]bool)
	var rows []capture.Row
	for row := range log.Select(filter, from) {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		rows = append(rows, row)
		chosen[row.Ref] = true
	}
	for _, row := range rows {
		// An exchange has the method POST itself. Without its call it would stay visible although
		// -method:x has hidden the call.
		if negated && row.Kind == capture.RowHTTP && !row.Parent.IsZero() && !chosen[row.Parent] {
			continue
		}
		out.Refs = append(out.Refs, row.Ref.String())
	}
	return out, nil
}

type messageParams struct {
	Log   string `json:"log,omitzero"`
	Ref   string `json:"ref"`
	Limit int    `json:"limit,omitzero"`
}

type messageResult struct {
	Row    jsonrpc.Raw `json:"row"`
	Text   string      `json:"text"`
	Base64 string      `json:"base64,omitzero"`
	Bytes  int         `json:"bytes"`
	Cut    bool        `json:"cut"`
}

func (p *Playground) wireMessage(_ context.Context, in messageParams) (messageResult, error) {
	log, err := p.log(in.Log)
	if err != nil {
		return messageResult{}, err
	}
	at, err := capture.ParseRef(in.Ref)
	if err != nil {
		return messageResult{}, badParam("/ref", "%q is not the number of a message", in.Ref)
	}
	row, ok := p.rowOf(log, at)
	if !ok {
		return messageResult{}, badParam("/ref", "#%s is no longer stored", in.Ref)
	}
	payload, err := log.Payload(at)
	if err != nil {
		return messageResult{}, badParam("/ref", "#%s: %v", in.Ref, err)
	}
	text, err := row.AppendJSON(nil)
	if err != nil {
		return messageResult{}, err
	}
	out := messageResult{Row: text, Bytes: max(row.Size, len(payload)), Cut: row.Cut}
	if in.Limit > 0 && len(payload) > in.Limit {
		payload, out.Cut = cutText(payload, in.Limit), true
	}
	out.Text, out.Base64 = textOrBase64(payload)
	return out, nil
}

// cutText returns at most n bytes of text, without a partial character at the end.
func cutText(text []byte, n int) []byte {
	for i := n; i > n-4 && i > 0; i-- {
		if text[i]&0xC0 != 0x80 {
			return text[:i]
		}
	}
	return text[:n]
}

type exchangeParams struct {
	Log  string `json:"log,omitzero"`
	HTTP int64  `json:"http"`
}

type exchangeHead struct {
	Method string      `json:"method,omitzero"`
	URL    string      `json:"url,omitzero"`
	Status int         `json:"status,omitzero"`
	Header [][2]string `json:"header"`
	Time   time.Time   `json:"time"`
}

type exchangeEnd struct {
	Time time.Time `json:"time"`
	Why  string    `json:"why,omitzero"`
}

type exchangeResult struct {
	Request  *exchangeHead `json:"request,omitzero"`
	Response *exchangeHead `json:"response,omitzero"`
	End      *exchangeEnd  `json:"end,omitzero"`
}

func (p *Playground) wireExchange(_ context.Context, in exchangeParams) (exchangeResult, error) {
	var out exchangeResult
	log, err := p.log(in.Log)
	if err != nil {
		return out, err
	}
	if log == p.rec.Log {
		p.rec.Flush()
	}
	row, ok := log.Exchange(in.HTTP)
	if !ok {
		return out, badParam("/http", "exchange %d is no longer stored", in.HTTP)
	}
	for e, err := range log.Events(row.Ref.Seq) {
		if err != nil {
			return out, badParam("/http", "exchange %d: %v", in.HTTP, err)
		}
		if e.Exchange != in.HTTP {
			continue
		}
		switch e.Kind {
		case capture.KindRequest:
			out.Request = &exchangeHead{Method: e.Method, URL: e.URL, Header: fields(e.Header), Time: e.Time}
		case capture.KindResponse:
			out.Response = &exchangeHead{Status: e.Status, Header: fields(e.Header), Time: e.Time}
		case capture.KindEnd:
			out.End = &exchangeEnd{Time: e.Time, Why: e.Text}
		}
		if out.End != nil {
			break
		}
	}
	return out, nil
}

func fields(h http.Header) [][2]string {
	list := [][2]string{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			list = append(list, [2]string{name, value})
		}
	}
	return list
}

type wordsParams struct {
	Log string `json:"log,omitzero"`
	Key string `json:"key"`
}

type wordsResult struct {
	Values []string `json:"values"`
}

// maxWords is the maximum number of suggestions for a key of the filter.
const maxWords = 500

func (p *Playground) wireWords(_ context.Context, in wordsParams) (wordsResult, error) {
	log, err := p.log(in.Log)
	if err != nil {
		return wordsResult{}, err
	}
	seen := make(map[string]bool)
	for _, row := range log.Rows(capture.Ref{}, 0) {
		value := ""
		switch in.Key {
		case "method":
			value = row.Method
		case "id":
			value = row.ID
		case "dir":
			value = row.Dir.String()
		case "kind":
			value = row.Kind
		case "status":
			value = row.State
		case "tool":
			value = row.Name
		case "target":
			value = row.Target
		case "session":
			value = row.Session
		case "trace":
			value = row.Trace
		}
		if value != "" && row.Kind != capture.RowHTTP {
			seen[value] = true
		}
		for _, f := range row.Findings {
			if in.Key == "rule" {
				seen[f.Rule] = true
			}
		}
		if len(seen) >= maxWords {
			break
		}
	}
	return wordsResult{append([]string{}, slices.Sorted(maps.Keys(seen))...)}, nil
}
