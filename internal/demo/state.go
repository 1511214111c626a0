package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of the state of one Service.
const (
	maxTokens   = 1_000   // a new token replaces the least recently used one
	maxEvents   = 1_000   // a new event replaces the oldest one
	maxLogBytes = 1 << 20 // in total; beyond it a new event also replaces the oldest ones
	maxEvent    = 4 << 10 // a longer event is rejected
	maxName     = 256     // a longer name is rejected
)

// A session is the state that the server stores for the holder of a token.
type session struct {
	name  string
	count int64
	used  int64 // order of last use
}

// sessions implements state over a stateless protocol: the server creates a token, and the client
// sends it with each call.
type sessions struct {
	mu      sync.Mutex // guards the fields below
	clock   int64
	byToken map[string]*session
}

type credentials struct {
	Name string `json:"name" jsonschema:"your name, which is not verified"`
}

// A Ticket is the result of login.
type Ticket struct {
	Token string `json:"token" jsonschema:"a secret that identifies the session"`
	Next  Next   `json:"next" jsonschema:"a call to send next"`
}

// Next is a call with the new token. Recorders redact the member token by its name. The token of a
// demo protects nothing, so a reader can copy it from here.
type Next struct {
	Method string   `json:"method"`
	Params []string `json:"params"`
}

func newTicket(token string) Ticket {
	return Ticket{Token: token, Next: Next{Method: "whoami", Params: []string{token}}}
}

func (s *sessions) login(_ context.Context, in credentials) (Ticket, error) {
	if in.Name == "" || len(in.Name) > maxName {
		return Ticket{}, invalid("/name", fmt.Sprintf("want 1 to %d bytes", maxName))
	}
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byToken == nil {
		s.byToken = make(map[string]*session)
	}
	if len(s.byToken) >= maxTokens {
		delete(s.byToken, s.oldestLocked())
	}
	s.clock++
	s.byToken[token] = &session{name: in.Name, used: s.clock}
	return newTicket(token), nil
}

func (s *sessions) oldestLocked() (token string) {
	least := s.clock + 1
	for t, session := range s.byToken {
		if session.used < least {
			token, least = t, session.used
		}
	}
	return token
}

// with calls f with the session of token.
func (s *sessions) with(token string, f func(*session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byToken[token]
	if !ok {
		return jsonrpc.NewError(codeNoToken, "Unknown token").WithData(map[string]string{"hint": "login gives you one"})
	}
	s.clock++
	session.used = s.clock
	f(session)
	return nil
}

type holder struct {
	Token string `json:"token" jsonschema:"the token from login"`
}

// An Identity is the result of whoami.
type Identity struct {
	Name string `json:"name" jsonschema:"the name that was passed to login"`
}

func (s *sessions) whoami(_ context.Context, in holder) (Identity, error) {
	var out Identity
	err := s.with(in.Token, func(session *session) { out.Name = session.name })
	return out, err
}

type step struct {
	Token string `json:"token" jsonschema:"the token from login"`
	By    *int32 `json:"by,omitzero" jsonschema:"how much to count; 1 if absent"`
}

func (s *sessions) counter(_ context.Context, in step) (int64, error) {
	by := int64(1)
	if in.By != nil {
		by = int64(*in.By)
	}
	var count int64
	err := s.with(in.Token, func(session *session) {
		session.count += by
		count = session.count
	})
	return count, err
}

// An Event is one entry of the log.
type Event struct {
	Seq   int64       `json:"seq" jsonschema:"its number, from 1 without gaps"`
	Time  time.Time   `json:"time" jsonschema:"when it was received"`
	Event jsonrpc.Raw `json:"event" jsonschema:"the params of log_event"`
}

// A journal is the result of get_log.
type journal []Event

// AppendJSON appends the journal without a codec, because events may contain any bytes and are sent
// unchanged.
func (j journal) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, '[')
	for i, e := range j {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"seq":`...), e.Seq, 10)
		dst = e.Time.AppendFormat(append(dst, `,"time":"`...), time.RFC3339Nano)
		dst = append(append(append(dst, `","event":`...), e.Event...), '}')
	}
	return append(dst, ']'), nil
}

// events is the log that log_event writes and get_log reads.
type events struct {
	mu    sync.Mutex // guards the fields below
	last  int64
	bytes int
	kept  []Event // oldest first
}

func (l *events) addEvent(_ context.Context, req *jsonrpc.Request) (any, error) {
	if len(req.Params) > maxEvent {
		return nil, invalid("", fmt.Sprintf("want at most %d bytes", maxEvent))
	}
	event := req.Params.Clone()
	if event == nil {
		event = jsonrpc.Raw("null")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.kept = append(l.kept, Event{Seq: l.last, Time: time.Now().UTC(), Event: event})
	l.bytes += len(event)
	for len(l.kept) > maxEvents || l.bytes > maxLogBytes {
		l.bytes -= len(l.kept[0].Event)
		l.kept[0] = Event{}
		l.kept = l.kept[1:]
	}
	return l.last, nil
}

type excerpt struct {
	Limit *int `json:"limit,omitzero" jsonschema:"how many of the newest events; all that are stored if absent"`
}

func (l *events) getEvents(_ context.Context, in excerpt) (journal, error) {
	if in.Limit != nil && *in.Limit < 0 {
		return nil, invalid("/limit", "want no negative number")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.kept)
	if in.Limit != nil {
		n = min(n, *in.Limit)
	}
	return append(journal{}, l.kept[len(l.kept)-n:]...), nil
}
