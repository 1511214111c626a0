package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The kinds of transports.
const (
	kindHTTP   = 1 << iota // one POST for each message
	kindWS                 // WebSocket
	kindStream             // a socket with a framing
	kindChild              // stdin and stdout of a child process

	duplex  = kindWS | kindStream | kindChild
	socket  = kindWS | kindStream
	anyKind = duplex | kindHTTP
)

// A rule is one requirement.
type rule struct {
	id      string
	level   Level
	section string
	on      int    // the kinds of transports that it applies to
	hard    bool   // runs only with Options.Hard
	needs   string // placeholders of the methods that it needs, such as "$ECHO $FAIL"
	run     func(s *session) *finding
	counts  string // for rules about all messages: what must have been seen
	lines   bool   // only for newline-delimited streams
	headers bool   // only for streams with Content-Length
}

func (r rule) applies(s *session) bool {
	switch {
	case r.on&s.kind == 0:
		return false
	case r.lines:
		return s.kind&(kindStream|kindChild) != 0 && !s.headers()
	case r.headers:
		return s.kind&(kindStream|kindChild) != 0 && s.headers()
	}
	return true
}

// A finding is the reason why a rule did not pass.
type finding struct {
	skip           bool // not checked
	sent, received string
	why            string
}

func skipped(why string) *finding { return &finding{skip: true, why: why} }

func failed(format string, args ...any) *finding { return &finding{why: fmt.Sprintf(format, args...)} }

// A session is one run of all rules against one server. Except for parallel calls on their own
// connections, it is used by one goroutine.
type session struct {
	ctx    context.Context
	o      Options
	target parley.Target
	kind   int
	ends   time.Time

	wire wire      // the shared connection or nil; not for HTTP
	web  *httpConn // the same for HTTP
	dead bool      // the server no longer accepts connections

	lastID    int
	lateCount int // responses that did not arrive in time
	silent    int // how many of them were the last ones

	lastSent, lastReceived string

	mcpSession string // the last Mcp-Session-Id of a response

	origin bool // a WebSocket handshake needs an Origin header

	seen    map[string]*finding // violations of rules about all messages, the first of each
	counted map[string]int      // how many messages of each kind were judged

	merging sync.Mutex // held while clients pass on what they noted
}

func (s *session) headers() bool { return s.target.Framing != 0 }

func (s *session) transport() string {
	switch s.target.Scheme {
	case "https":
		return "http"
	case "wss":
		return "ws"
	case "tls":
		return "tcp"
	case "exec":
		return "stdio"
	}
	return s.target.Scheme
}

// patience is how long to wait for a response.
func (s *session) patience() time.Duration {
	wait := s.o.Timeout
	switch {
	case s.lateCount >= 40: // the verdict is certain, and hundreds of rules follow
		wait /= 50
	case s.lateCount >= 20:
		wait /= 25
	case s.lateCount >= 10:
		wait /= 10
	case s.lateCount >= 3:
		wait /= 4
	}
	return max(wait, 50*time.Millisecond)
}

// quiet is how long to wait for messages that must not arrive.
const quiet = 80 * time.Millisecond

// note records a violation of a rule about all messages.
func (s *session) note(id, sent, received, format string, args ...any) {
	if s.seen[id] == nil {
		s.seen[id] = &finding{sent: sent, received: received, why: fmt.Sprintf(format, args...)}
	}
}

// unknownMethod is a name that no server has.
const unknownMethod = "parley.check.unknown"

// names returns the replacements of the placeholders in rules. $ANY is a method that is answered.
func (s *session) names() map[string]string {
	m := map[string]string{"$ECHO": s.o.Echo, "$FAIL": s.o.Fail, "$SLEEP": s.o.Sleep, "$PANIC": s.o.Panic, "$NAMED": s.o.Named, "$NONE": unknownMethod, "$ANY": s.anyMethod()}
	if len(s.o.NamedParams) == 2 {
		m["$A"], m["$B"] = s.o.NamedParams[0], s.o.NamedParams[1]
	}
	return m
}

func (s *session) anyMethod() string {
	if s.o.Echo != "" {
		return s.o.Echo
	}
	return unknownMethod
}

// flags are the placeholders with the flags of the command that map them.
var flags = []struct{ placeholder, flag string }{
	{"$ECHO", "--echo"}, {"$FAIL", "--fail"}, {"$SLEEP", "--sleep"}, {"$PANIC", "--panic"}, {"$NAMED", "--named"},
}

// missing returns why a rule cannot be checked, or "".
func (s *session) missing(r rule) string {
	if r.hard && !s.o.Hard {
		return "needs --hard"
	}
	names := s.names()
	for _, f := range flags {
		if strings.Contains(r.needs, f.placeholder) && names[f.placeholder] == "" {
			return "needs a method: " + f.flag
		}
	}
	return ""
}

// fill replaces placeholders in a payload. Names are written as the inside of a JSON string.
func (s *session) fill(payload string) string {
	if !strings.Contains(payload, "$") {
		return payload
	}
	var pairs []string
	// Longer names first, since $A is the beginning of $ANY.
	names := s.names()
	for _, p := range []string{"$ECHO", "$FAIL", "$SLEEP", "$PANIC", "$NAMED", "$NONE", "$ANY", "$A", "$B"} {
		quoted := string(jsonrpc.AppendString(nil, names[p]))
		pairs = append(pairs, p, quoted[1:len(quoted)-1])
	}
	return strings.NewReplacer(pairs...).Replace(payload)
}

// nextID returns an ID that was not used before in this session.
func (s *session) nextID() string {
	s.lastID++
	return `"c` + strconv.Itoa(s.lastID) + `"`
}

func request(id, method, params string) string {
	text := `{"jsonrpc":"2.0","method":` + string(jsonrpc.AppendString(nil, method))
	if params != "" {
		text += `,"params":` + params
	}
	if id != "" {
		text += `,"id":` + id
	}
	return text + "}"
}

// A reply is what a server sent for one payload.
type reply struct {
	sent   string
	raw    []byte   // the first message, nil if none
	others [][]byte // further messages
	status int      // of HTTP
	header http.Header
	err    error // why there is no message; nil over HTTP if the response has no body
}

// absence describes a reply without a message.
func (r reply) absence() string {
	switch {
	case errors.Is(r.err, os.ErrDeadlineExceeded):
		return "no response within the time limit"
	case r.err != nil && r.status == 0:
		return "no response: " + plainError(r.err)
	case r.err != nil:
		return fmt.Sprintf("HTTP status %d: %s", r.status, plainError(r.err))
	case r.status != 0:
		return fmt.Sprintf("no response: HTTP status %d without a body", r.status)
	}
	return "no response"
}

// hangUp closes the shared connection.
func (s *session) hangUp() {
	if s.wire != nil {
		s.wire.close()
		s.wire = nil
	}
	if s.web != nil {
		s.web.close()
		s.web = nil
	}
}

// connect returns the shared connection and opens one if necessary.
func (s *session) connect() (wire, error) {
	if s.wire != nil {
		return s.wire, nil
	}
	w, err := s.dialAgain()
	if err != nil {
		return nil, err
	}
	s.wire = w
	return w, nil
}

// dialAgain opens a connection. A server that restarts gets a second.
func (s *session) dialAgain() (w wire, err error) {
	for attempt := range 3 {
		if w, err = s.dial(); err == nil {
			return w, nil
		}
		if s.pause(time.Duration(attempt+1)*150*time.Millisecond) != nil {
			break
		}
	}
	s.died(err)
	return nil, err
}

func (s *session) died(err error) {
	s.dead = true
	s.note("survival/alive", s.lastSent, "", "the server no longer accepts connections: %s", plainError(err))
}

// pause waits.
func (s *session) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// ask sends a payload that must be answered, and returns the response.
func (s *session) ask(payload string) reply {
	s.lastSent, s.lastReceived = payload, ""
	var r reply
	if s.kind == kindHTTP {
		r = s.post(payload)
	} else {
		r = s.askWire(payload)
	}
	r.sent = payload
	s.lastReceived = string(r.raw)
	if r.raw == nil {
		s.lastReceived = "(" + r.absence() + ")"
	}
	if errors.Is(r.err, os.ErrDeadlineExceeded) {
		s.silent++
	} else if r.err == nil {
		s.silent = 0
	}
	return r
}

// maxSilent is how many responses in sequence may be missing before a call on a new connection
// decides whether the server answers at all.
const maxSilent = 6

// stillAnswers makes that call. A server that does not answer gets no further rules.
func (s *session) stillAnswers() {
	if s.dead || s.silent < maxSilent {
		return
	}
	if f := s.alive(); f != nil {
		s.dead = true
		s.note("survival/alive", "", "", "the server no longer answers: %s", f.why)
		return
	}
	s.silent = 0
}

// transmit sends payloads on the shared connection, after what arrived there unasked was read.
func (s *session) transmit(payloads ...string) (wire, error) {
	w, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.drain(w, 0)
	for _, payload := range payloads {
		if err := w.send([]byte(payload)); err != nil {
			s.hangUp()
			return nil, err
		}
	}
	return w, nil
}

func (s *session) askWire(payload string) reply {
	w, err := s.transmit(payload)
	if err != nil {
		return reply{err: err}
	}
	raw, err := s.receive(w, payload, s.patience())
	if err != nil {
		s.hangUp()
	}
	return reply{raw: raw, err: err}
}

// receive returns the next message that is not a request of the server.
func (s *session) receive(w wire, sent string, wait time.Duration) ([]byte, error) {
	until := time.Now().Add(wait)
	for range maxOwnRequests {
		raw, err := w.recv(time.Until(until))
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && wait > quiet {
				s.lateCount++
			}
			return nil, err
		}
		if isRequest(raw) {
			continue
		}
		s.judge(sent, raw)
		return raw, nil
	}
	return nil, errors.New("the server sends requests and notifications without an end")
}

// maxOwnRequests bounds the requests and notifications of a server between two responses.
const maxOwnRequests = 10_000

// drain reads messages that no request asked for.
func (s *session) drain(w wire, wait time.Duration) (strays [][]byte) {
	for range 100 {
		raw, err := s.receive(w, s.lastSent, wait)
		if err != nil {
			return strays
		}
		strays = append(strays, raw)
		s.note("response/unasked", s.lastSent, string(raw), "a message arrived that belongs to no request")
	}
	return strays
}

// tell sends a payload and returns what is sent for it, which may be nothing. On a duplex
// transport, a request after the payload shows when it has been handled.
func (s *session) tell(payload string) reply {
	s.lastSent, s.lastReceived = payload, ""
	var r reply
	if s.kind == kindHTTP {
		r = s.post(payload)
	} else {
		r = s.tellWire(payload)
	}
	r.sent = payload
	s.lastReceived = string(r.raw)
	if r.raw == nil {
		s.lastReceived = "(nothing)"
		if r.err != nil {
			s.lastReceived = "(" + r.absence() + ")"
		}
	}
	return r
}

func (s *session) tellWire(payload string) (r reply) {
	marker := s.nextID()
	w, err := s.transmit(payload, request(marker, s.anyMethod(), "[]"))
	if err != nil {
		return reply{err: err}
	}
	add := func(raw []byte) {
		if r.raw == nil {
			r.raw = raw
		} else {
			r.others = append(r.others, raw)
		}
	}
	for range 100 {
		raw, err := s.receive(w, payload, s.patience())
		if err != nil {
			r.err = fmt.Errorf("the request after it was not answered: %w", err)
			s.hangUp()
			return r
		}
		if m, err := parseMessage(raw); err == nil && string(m.member("id")) == marker {
			break
		}
		add(raw)
	}
	for {
		raw, err := s.receive(w, payload, quiet)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.hangUp()
			}
			return r
		}
		add(raw)
		if len(r.others) > 100 {
			return r
		}
	}
}

// alive reports whether the server answers on a connection of its own.
func (s *session) alive() *finding {
	s.hangUp()
	id := s.nextID()
	payload := request(id, s.anyMethod(), "[]")
	sent, received := s.lastSent, s.lastReceived
	r := s.ask(payload)
	if sent != "" {
		s.lastSent, s.lastReceived = sent, received
	}
	if why := answered(id)(r); why != "" {
		return failed("a request on a new connection after it: %s", why)
	}
	return nil
}

// stillOpen reports whether the server answers on the shared connection.
func (s *session) stillOpen() *finding {
	if s.kind == kindHTTP && s.web == nil || s.kind != kindHTTP && s.wire == nil {
		return failed("the connection was closed")
	}
	id := s.nextID()
	sent, received := s.lastSent, s.lastReceived
	r := s.ask(request(id, s.anyMethod(), "[]"))
	s.lastSent, s.lastReceived = sent, received
	if why := answered(id)(r); why != "" {
		return failed("the next request on the same connection: %s", why)
	}
	return nil
}

// shown shortens text for a report and replaces what is not UTF-8.
func shown(text string) string {
	const most = 2000
	if len(text) > most {
		head := text[:most-60]
		for len(head) > 0 && !utf8.ValidString(head[max(0, len(head)-utf8.UTFMax):]) && len(head) > most-64 {
			head = head[:len(head)-1]
		}
		text = fmt.Sprintf("%s… (%d bytes)", head, len(text))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func plainError(err error) string { return shown(err.Error()) }
