package check

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// Sizes of the load.
const (
	pipelined  = 200 // requests on one connection before the first response is read
	connsAtOne = 8   // connections at a time
	callsEach  = 25  // calls on each of them
)

// A client is one connection of its own, for calls beside the shared one.
type client struct {
	parent *session
	s      *session // its own, since several clients run at a time
	wire   wire
	web    *httpConn
}

func (s *session) client() (*client, error) {
	own := &session{
		ctx: s.ctx, o: s.o, target: s.target, kind: s.kind, ends: s.ends, lateCount: s.lateCount, origin: s.origin,
		seen: map[string]*finding{}, counted: map[string]int{},
	}
	c := &client{parent: s, s: own}
	var err error
	if s.kind == kindHTTP {
		c.web, err = own.dialHTTP()
	} else {
		c.wire, err = own.dial()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// close closes the connection and passes what was noted on it to the session.
func (c *client) close() {
	if c.web != nil {
		c.web.close()
	} else {
		c.wire.close()
	}
	c.parent.merging.Lock()
	defer c.parent.merging.Unlock()
	for id, f := range c.s.seen {
		c.parent.note(id, f.sent, f.received, "%s", f.why)
	}
}

// call sends a payload and returns the first message. It does not judge it, since several clients
// run at a time.
func (c *client) call(payload string, wait time.Duration) reply {
	r := reply{sent: payload}
	c.s.lastSent = payload
	if r.err = c.start(payload); r.err != nil {
		return r
	}
	got := c.read(wait)
	got.sent = payload
	return got
}

// start sends a payload without waiting for the response.
func (c *client) start(payload string) error {
	if c.web == nil {
		return c.wire.send([]byte(payload))
	}
	_ = c.web.c.SetWriteDeadline(time.Now().Add(c.s.o.Timeout)) // the error shows in Write
	_, err := c.web.c.Write(c.s.postBytes(payload))
	return err
}

// read returns the response to a started payload.
func (c *client) read(wait time.Duration) (r reply) {
	if c.web == nil {
		r.raw, r.err = c.recv(wait)
		return r
	}
	got, err := c.web.read("POST", wait)
	if r.err = err; got != nil {
		r.status = got.status
		if len(strings.TrimSpace(string(got.body))) > 0 {
			r.raw = got.body
		}
	}
	return r
}

// recv returns the next message that is not a request of the server.
func (c *client) recv(wait time.Duration) ([]byte, error) {
	until := time.Now().Add(wait)
	for range maxOwnRequests {
		raw, err := c.wire.recv(time.Until(until))
		if err != nil || !isRequest(raw) {
			return raw, err
		}
	}
	return nil, errors.New("the server sends requests and notifications without an end")
}

// parallel runs f on n connections at a time and returns the first finding.
func (s *session) parallel(n int, f func(i int, c *client) *finding) *finding {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var first *finding
	set := func(found *finding) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = found
		}
	}
	var clients []*client // all are open and served before f runs
	for i := range n {
		c, err := s.client()
		if err != nil {
			set(failed("connection %d of %d: %s", i+1, n, plainError(err)))
			break
		}
		clients = append(clients, c)
		payload, w := s.echoOrUnknown(`"open"`, "open")
		r := c.call(payload, s.patience())
		if why := w(r); why != "" {
			set(&finding{sent: payload, received: string(r.raw), why: fmt.Sprintf("connection %d of %d: %s", i+1, n, why)})
			break
		}
	}
	for i, c := range clients {
		wait.Go(func() {
			defer c.close()
			err := rescue.Run(nil, func() { // a panic is logged
				if found := f(i, c); found != nil {
					set(found)
				}
			})
			if err != nil {
				set(failed("%v", err))
			}
		})
	}
	wait.Wait()
	return first
}

// echoOrUnknown returns a request whose response identifies it, and what to expect.
func (s *session) echoOrUnknown(id, mark string) (string, want) {
	if s.o.Echo == "" {
		return request(id, unknownMethod, `["`+mark+`"]`), fails(id, noMethod)
	}
	return request(id, s.o.Echo, `["`+mark+`"]`), gives(id, `["`+mark+`"]`)
}

func loadRules() []rule {
	return []rule{
		{id: "load/pipelined", level: Must, section: sectReply, on: duplex, run: func(s *session) *finding { return s.pipeline(pipelined) }},
		{id: "load/connections", level: Must, section: sectReply, on: anyKind &^ kindChild, run: func(s *session) *finding {
			return s.parallel(connsAtOne, func(i int, c *client) *finding {
				for k := range callsEach {
					payload, w := s.echoOrUnknown(fmt.Sprint(k), fmt.Sprintf("connection %d call %d", i, k))
					r := c.call(payload, c.s.patience())
					if why := w(r); why != "" {
						return &finding{sent: payload, received: string(r.raw), why: fmt.Sprintf("%d connections call at a time: %s", connsAtOne, why)}
					}
				}
				return nil
			})
		}},
		{id: "load/second-call", level: Expect, section: unwritten, on: duplex, needs: "$SLEEP", run: secondCall},
		{id: "load/second-connection", level: Expect, section: unwritten, on: anyKind &^ kindChild, needs: "$SLEEP", run: secondConnection},
		{id: "load/slow-batch", level: Should, section: unwritten, on: duplex, needs: "$SLEEP", run: slowBatch},
		{id: "load/sleepers", level: Must, section: sectReply, on: duplex, needs: "$SLEEP $ECHO", run: sleepers},
		{id: "load/sleep-result", level: Must, section: sectReply, on: anyKind, needs: "$SLEEP", run: func(s *session) *finding {
			return reason(gives("1", "")(s.ask(s.fill(`{"jsonrpc":"2.0","method":"$SLEEP","params":{"ms":1},"id":1}`))))
		}},
		{id: "load/many-batches", level: Must, section: sectBatch, on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
			for i := range 20 {
				var all []string
				var want []member
				for k := range 20 {
					all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":[%d,%d],"id":%d}`, quote(s.o.Echo), i, k, k))
					want = append(want, one(fmt.Sprint(k), fmt.Sprintf("[%d,%d]", i, k)))
				}
				if why := members(want...)(s.ask("[" + strings.Join(all, ",") + "]")); why != "" {
					return failed("batch %d: %s", i+1, why)
				}
			}
			return nil
		}},
		{id: "load/same-id", level: Must, section: sectReply, on: anyKind &^ kindChild, needs: "$SLEEP $ECHO", run: sameIDs},
		{id: "load/errors", level: Must, section: sectReply, on: anyKind &^ kindChild, needs: "$FAIL", run: func(s *session) *finding {
			return s.parallel(connsAtOne, func(i int, c *client) *finding {
				for k := range callsEach {
					f := failure{code: fmt.Sprint(1000 + 100*i + k), message: fmt.Sprintf(`"connection %d call %d"`, i, k)}
					if k%2 == 0 {
						f.data = fmt.Sprintf("[%d,%d]", i, k)
					}
					payload := request(fmt.Sprint(k), c.s.o.Fail, f.params())
					r := c.call(payload, c.s.patience())
					if why := f.same(fmt.Sprint(k))(r); why != "" {
						return &finding{sent: payload, received: string(r.raw), why: fmt.Sprintf("%d connections call at a time: %s", connsAtOne, why)}
					}
				}
				return nil
			})
		}},
		{id: "load/notifications", level: Must, section: sectNotify, on: anyKind, run: manyNotifications},
		{id: "load/duplicate-ids", level: Expect, section: unwritten, on: duplex, needs: "$SLEEP $ECHO", run: duplicateIDs},
	}
}

// pipeline sends n requests and then matches all responses, while it reads.
func (s *session) pipeline(n int) *finding {
	w, err := s.connect()
	if err != nil {
		return failed("%s", plainError(err))
	}
	open := map[string]want{}
	var all [][]byte
	for i := range n {
		id := fmt.Sprint(1000 + i)
		if i%3 == 1 {
			id = `"` + fmt.Sprint(1000+i-1) + `"` // the number is in use as well
		}
		payload, expected := s.echoOrUnknown(id, fmt.Sprintf("pipelined %d", i))
		open[id] = expected
		all = append(all, []byte(payload))
	}
	s.lastSent = fmt.Sprintf("%d requests, such as %s", n, all[0])
	sent := make(chan error, 1)
	go func() {
		sent <- rescue.Call(nil, func() error { // a panic is returned
			for _, payload := range all {
				if err := w.send(payload); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	found := s.collect(w, open, n > pipelined)
	if found != nil {
		s.hangUp()
	}
	if err := <-sent; err != nil && found == nil {
		found = failed("%s", plainError(err))
	}
	if found == nil && len(s.drain(w, quiet)) > 0 {
		found = failed("more responses than requests")
	}
	return found
}

// collect reads the responses to open calls, by ID. If refusals is set, a server may refuse calls
// beyond a limit.
func (s *session) collect(w wire, open map[string]want, refusals bool) *finding {
	n := len(open)
	for len(open) > 0 {
		raw, err := s.receive(w, s.lastSent, s.patience())
		if err != nil {
			return failed("%d of %d requests were not answered: %s", len(open), n, plainError(err))
		}
		s.lastReceived = string(raw)
		m, bad := parseMessage(raw)
		if bad != nil {
			return failed("a response is not valid JSON: %v", bad)
		}
		id := string(m.member("id"))
		expected := open[id]
		if expected == nil {
			return failed("a response has the id %s, which is not the id of a call that waits", shown(id))
		}
		delete(open, id)
		if refusals && m.member("error") != nil && !strings.HasPrefix(string(m.sub("error", "code")), "-326") {
			continue
		}
		if why := expected(reply{raw: raw}); why != "" {
			return failed("the response to %s: %s", id, why)
		}
	}
	return nil
}

// sleepTimes are tried one after the other. A machine under load may need the second.
var sleepTimes = []time.Duration{400 * time.Millisecond, 2 * time.Second}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// secondCall checks that a quick call is answered while a slow one runs on the same connection.
func secondCall(s *session) (found *finding) {
	for _, d := range sleepTimes {
		if found = s.overtakes(fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":%d},"id":"slow"}`, quote(s.o.Sleep), ms(d)), d, "slow"); found == nil {
			return nil
		}
	}
	return found
}

func slowBatch(s *session) (found *finding) {
	for _, d := range sleepTimes[:1] {
		if found = s.overtakes(fmt.Sprintf(`[{"jsonrpc":"2.0","method":%s,"params":{"ms":%d},"id":"slow"}]`, quote(s.o.Sleep), ms(d)), d, "slow"); found == nil {
			return nil
		}
	}
	return found
}

// overtakes sends a slow payload and a quick call, and checks the order of the responses.
func (s *session) overtakes(slow string, d time.Duration, what string) *finding {
	s.hangUp()
	w, err := s.connect()
	if err != nil {
		return failed("%s", plainError(err))
	}
	quick := request(`"quick"`, s.anyMethod(), "[]")
	s.lastSent, s.lastReceived = slow+"\n"+quick, ""
	for _, payload := range []string{slow, quick} {
		if err := w.send([]byte(payload)); err != nil {
			return failed("%s", plainError(err))
		}
	}
	first, err := s.receive(w, s.lastSent, s.patience()+d)
	if err != nil {
		return failed("no response: %s", plainError(err))
	}
	second, err := s.receive(w, s.lastSent, s.patience()+d)
	s.lastReceived = string(first) + "\n" + string(second)
	if err != nil {
		return failed("one of two calls was not answered: %s", plainError(err))
	}
	if m, bad := parseMessage(first); bad != nil || !sameString(m.member("id"), "quick") {
		return failed("the quick call was answered after the %s one of %s", what, d)
	}
	return nil
}

// secondConnection checks that a call on one connection does not delay another connection.
func secondConnection(s *session) (found *finding) {
	for _, d := range sleepTimes {
		if found = s.delays(d); found == nil {
			return nil
		}
	}
	return found
}

// sameMoment is the time in which two responses count as sent together.
const sameMoment = 60 * time.Millisecond

func (s *session) delays(d time.Duration) *finding {
	slow, err := s.client()
	if err != nil {
		return failed("%s", plainError(err))
	}
	defer slow.close()
	payload := fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":%d},"id":"slow"}`, quote(s.o.Sleep), ms(d))
	ended := make(chan reply, 1)
	go func() {
		_ = rescue.Run(nil, func() { ended <- slow.call(payload, s.o.Timeout+d) }) // a panic is logged; the wait below is bounded
	}()
	s.hangUp()
	if err := s.pause(50 * time.Millisecond); err != nil { // the slow call must arrive first
		return failed("%v", err)
	}
	quick := request(`"quick"`, s.anyMethod(), "[]")
	r := s.ask(quick)
	s.lastSent = payload + "\n" + quick
	if why := answered(`"quick"`)(r); why != "" {
		return failed("while a call runs on one connection, another connection gets: %s", why)
	}
	late := false
	select {
	case <-ended:
		late = true
	case <-time.After(sameMoment):
	}
	if late {
		return failed("a call on another connection was answered only after the slow one of %s", d)
	}
	select {
	case r := <-ended:
		if why := answered(`"slow"`)(r); why != "" {
			return failed("the slow call: %s", why)
		}
	case <-time.After(s.o.Timeout + d + time.Second):
		return failed("the slow call was not answered")
	}
	return nil
}

// sleepers runs calls that end in the reverse order.
func sleepers(s *session) *finding {
	w, err := s.connect()
	if err != nil {
		return failed("%s", plainError(err))
	}
	open := map[string]want{}
	var all []string
	for i := range 6 {
		id := fmt.Sprintf(`"sleep%d"`, i)
		if i%2 == 1 {
			id = fmt.Sprint(i)
		}
		open[id] = gives(id, "")
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":%d},"id":%s}`, quote(s.o.Sleep), 60-10*i, id))
		id = fmt.Sprintf(`"echo%d"`, i)
		open[id] = gives(id, fmt.Sprintf("[%d]", i))
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":[%d],"id":%s}`, quote(s.o.Echo), i, id))
	}
	s.lastSent = strings.Join(all, "\n")
	for _, payload := range all {
		if err := w.send([]byte(payload)); err != nil {
			return failed("%s", plainError(err))
		}
	}
	return s.collect(w, open, false)
}

// sameIDs uses one ID for calls on two connections at a time: each connection gets its own
// response.
func sameIDs(s *session) *finding {
	slow, err := s.client()
	if err != nil {
		return failed("%s", plainError(err))
	}
	defer slow.close()
	payload := fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":250},"id":1}`, quote(s.o.Sleep))
	if err := slow.start(payload); err != nil {
		return failed("%s", plainError(err))
	}
	if err := s.pause(20 * time.Millisecond); err != nil { // the slow call must arrive first
		return failed("%v", err)
	}
	quick := request("1", s.o.Echo, `["other connection"]`)
	s.hangUp()
	r := s.ask(quick)
	s.lastSent = payload + "\n" + quick
	if why := gives("1", `["other connection"]`)(r); why != "" {
		return failed("a call with the id of a call on another connection: %s", why)
	}
	r = slow.read(s.o.Timeout)
	s.lastReceived = string(r.raw)
	if why := gives("1", "")(r); why != "" {
		return failed("the call that runs while another connection uses its id: %s", why)
	}
	if m, _ := parsed(r); compareText(`["other connection"]`, string(m.member("result"))) == "" {
		return failed("the response to the call on another connection was sent")
	}
	return nil
}

// manyNotifications sends notifications, which leave no trace: none is answered, and the call after
// them is.
func manyNotifications(s *session) *finding {
	const n = 300
	note := func(i int) string { return request("", []string{s.anyMethod(), unknownMethod}[i%2], "[]") }
	if s.kind == kindHTTP {
		for i := range n / 3 {
			if why := nothing(s.tell(note(i))); why != "" {
				return failed("notification %d: %s", i+1, why)
			}
		}
		return s.stillOpen()
	}
	w, err := s.connect()
	if err != nil {
		return failed("%s", plainError(err))
	}
	for i := range n {
		if err := w.send([]byte(note(i))); err != nil {
			return failed("notification %d: %s", i+1, plainError(err))
		}
	}
	if why := nothing(s.tell(note(n))); why != "" {
		return failed("after %d notifications: %s", n, why)
	}
	return nil
}

// duplicateIDs sends two calls with one ID at a time: each gets a response.
func duplicateIDs(s *session) *finding {
	w, err := s.connect()
	if err != nil {
		return failed("%s", plainError(err))
	}
	slow := fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":300},"id":1}`, quote(s.o.Sleep))
	quick := request("1", s.o.Echo, `["second"]`)
	s.lastSent = slow + "\n" + quick
	if err := w.send([]byte(slow)); err != nil {
		return failed("%s", plainError(err))
	}
	if err := s.pause(50 * time.Millisecond); err != nil { // the slow call must be running
		return failed("%v", err)
	}
	if err := w.send([]byte(quick)); err != nil {
		return failed("%s", plainError(err))
	}
	for i := range 2 {
		raw, err := s.receive(w, s.lastSent, s.patience())
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return failed("two calls with the same id got %d responses", i)
			}
			return failed("%s", plainError(err))
		}
		s.lastReceived += string(raw) + "\n"
	}
	return nil
}
