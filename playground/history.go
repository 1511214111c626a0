package playground

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// A sent is a sent message, with everything needed to send it again.
type sent struct {
	time    time.Time
	ref     capture.Ref
	target  string
	payload []byte
	header  http.Header
	asIs    bool
	page    string // the tab that sent it, "" if unknown
}

// Bounds of the history. The newest message is always retained.
const (
	maxHistory    = 1000     // messages
	maxRemembered = 64 << 20 // bytes of their payloads
)

// history contains the messages that the page has sent. The zero value is ready for use.
type history struct {
	mu   sync.Mutex
	list []sent // newest last
}

// add adds a message. The payload is copied.
func (h *history) add(s sent) {
	s.payload = bytes.Clone(s.payload)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, s)
	size := 0
	for i, old := range slices.Backward(h.list) {
		if size += len(old.payload); i < len(h.list)-1 && (size > maxRemembered || len(h.list)-i > maxHistory) {
			h.list = slices.Clone(h.list[i+1:])
			break
		}
	}
}

// find returns the message with the number ref in the live recording.
func (h *history) find(ref capture.Ref) (sent, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.list) {
		if s.ref == ref {
			return s, true
		}
	}
	return sent{}, false
}

// newest returns at most n messages, newest first.
func (h *history) newest(n int) []sent {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.list[max(0, len(h.list)-n):])
	slices.Reverse(list)
	return list
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
	out := historyResult{Items: []historyItem{}}
	for _, s := range p.sent.newest(in.Limit) {
		item := historyItem{Time: s.time, Target: s.target, Ref: s.ref.String()}
		item.Text, item.Base64 = textOrBase64(s.payload)
		if row, ok := p.rec.Row(s.ref); ok {
			item.Method = row.Method
		}
		for _, name := range slices.Sorted(mapsKeys(s.header)) {
			for _, value := range s.header[name] {
				item.Headers = append(item.Headers, headerField{Name: name, Value: &value})
			}
			if s.header[name] == nil {
				item.Headers = append(item.Headers, headerField{Name: name})
			}
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
