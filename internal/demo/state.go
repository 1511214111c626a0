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

// Bounds of what is remembered. All are for one Demo.
const (
	maxTokens   = 1_000   // the token that was used longest ago gives way to a new one
	maxEvents   = 1_000   // the oldest event gives way to a new one
	maxLogBytes = 1 << 20 // so it does when the events together are longer
	maxEvent    = 4 << 10 // a longer event is refused
	maxName     = 256     // a longer name is refused
)

// A session is what the server remembers for whoever holds its token.
type session struct {
	name  string
	count int64
	used  int64 // order of last use
}

// sessions is state over a stateless protocol: the server makes a token, the client shows it with each call.
type sessions struct {
	mu      sync.Mutex // guards what is below
	clock   int64
	byToken map[string]*session
}

type credentials struct {
	Name string `json:"name" jsonschema:"who you are; it is believed"`
}

// A Ticket is what login answers.
type Ticket struct {
	Token string `json:"token" jsonschema:"a secret that names the session"`
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
	return Ticket{Token: token}, nil
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

// with runs f on the session of token.
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
	Token string `json:"token" jsonschema:"what login answered"`
}

// An Identity is what whoami answers.
type Identity struct {
	Name string `json:"name" jsonschema:"the name that was given to login"`
}

func (s *sessions) whoami(_ context.Context, in holder) (Identity, error) {
	var out Identity
	err := s.with(in.Token, func(session *session) { out.Name = session.name })
	return out, err
}

type step struct {
	Token string `json:"token" jsonschema:"what login answered"`
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
	Seq   int64       `json:"seq" jsonschema:"its number, from 1 on without gaps"`
	Time  time.Time   `json:"time" jsonschema:"when it came"`
	Event jsonrpc.Raw `json:"event" jsonschema:"the params of log_event"`
}

// A journal is what get_log answers.
type journal []Event

// AppendJSON writes the journal without a codec between: events are anybody's bytes, and go out as they came.
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
	mu    sync.Mutex // guards what is below
	last  int64
	bytes int
	kept  []Event // oldest first
}

func (l *events) add(_ context.Context, req *jsonrpc.Request) (any, error) {
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
	Limit *int `json:"limit,omitzero" jsonschema:"how many of the newest events; all that are kept if absent"`
}

func (l *events) get(_ context.Context, in excerpt) (journal, error) {
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
