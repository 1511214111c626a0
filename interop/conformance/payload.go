package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A payload is a rule about one JSON text, on any transport.
type payload struct {
	id, source string
	sends      string
	wants      want

	lines     *want    // expected on line transports instead, if a newline makes a difference
	websocket *want    // expected on a WebSocket instead
	http      *want    // expected on HTTP instead
	not       []string // transports that cannot transmit it
}

// A want is the expected response to one payload.
type want struct {
	answers []answer
	batch   bool // the responses are in an array
	each    bool // each response is a separate message
	status  int  // of HTTP, if not 200 or 204
	close   int  // of a WebSocket: the code of the close frame
}

func one(a answer) want            { return want{answers: []answer{a}} }
func array(answers ...answer) want { return want{answers: answers, batch: true} }

var nothing = want{}

func (w want) String() string {
	switch {
	case w.close != 0:
		return "close " + strconv.Itoa(w.close)
	case w.status != 0:
		return "status " + strconv.Itoa(w.status)
	case len(w.answers) == 0:
		return "nothing"
	}
	var b strings.Builder
	for i, a := range w.answers {
		if i == 6 {
			fmt.Fprintf(&b, " … (%d answers)", len(w.answers))
			break
		}
		if i > 0 {
			b.WriteString(map[bool]string{true: ",", false: " "}[w.batch])
		}
		b.WriteString(shorten([]byte(a.String()), 300))
	}
	if w.batch {
		return "[" + b.String() + "]"
	}
	return b.String()
}

// check compares one received message with w.
func (w want) check(message []byte) error {
	n, err := read(message)
	if err != nil {
		return err
	}
	if !w.batch {
		if len(w.answers) != 1 {
			return fmt.Errorf("this came: %s", short(message))
		}
		return w.answers[0].check(n)
	}
	if n.kind != '[' {
		return fmt.Errorf("not an array: %s", short(message))
	}
	if len(n.kids) != len(w.answers) {
		return fmt.Errorf("%d answers in %s", len(n.kids), short(message))
	}
	for i, a := range w.answers {
		if err := a.check(n.kids[i]); err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return nil
}

// payloadRules returns rules for all transports.
func payloadRules(payloads []payload) []Rule {
	var rules []Rule
	for _, p := range payloads {
		if p.wants.close == 0 && p.websocket == nil && !utf8.ValidString(p.sends) {
			p.websocket = &want{close: 1007} // RFC 6455, section 8.1
		}
		var on []string
		for _, carrier := range Carriers {
			if slices.Contains(p.not, carrier) || slices.Contains(lines, carrier) && p.lines == nil && !fitsLine(p.sends) {
				continue
			}
			on = append(on, carrier)
		}
		rules = append(rules, Rule{
			ID: p.id, Source: p.source, Sends: p.sends, Wants: p.wants.String(), On: on,
			check: func(d *Demo, carrier string) error { return d.exchange(carrier, []byte(p.sends), p.of(carrier)) },
		})
	}
	return rules
}

// fitsLine reports whether a text keeps its meaning if its newlines are replaced by blanks: whether
// no string contains one.
func fitsLine(text string) bool {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '\n' && quoted:
			return false
		}
	}
	return true
}

// of returns what the payload must result in on a transport.
func (p *payload) of(carrier string) want {
	switch {
	case p.websocket != nil && carrier == WebSocket:
		return *p.websocket
	case p.http != nil && (carrier == HTTP || carrier == H2C):
		return *p.http
	case p.lines != nil && slices.Contains(lines, carrier):
		return *p.lines
	case slices.Contains(lines, carrier) && strings.Contains(p.sends, "\n"):
		w := p.wants // no newline within a line: exchange sends a blank instead
		w.answers = slices.Clone(w.answers)
		for i := range w.answers {
			w.answers[i].result = strings.ReplaceAll(w.answers[i].result, "\n", " ")
		}
		return w
	}
	return p.wants
}

// exchange sends one payload, checks the response, and that nothing else arrives.
func (d *Demo) exchange(carrier string, text []byte, w want) error {
	if carrier == HTTP || carrier == H2C {
		return d.post(carrier, text, w)
	}
	if slices.Contains(lines, carrier) && fitsLine(string(text)) {
		text = bytes.ReplaceAll(text, []byte{'\n'}, []byte{' '})
	}
	wire, err := d.wire(carrier)
	if err != nil {
		return err
	}
	if err := d.converse(wire, text, w); err != nil {
		wire.Close()
		return err
	}
	if w.close != 0 {
		wire.Close()
		return nil
	}
	d.giveBack(carrier, wire)
	return nil
}

func (d *Demo) converse(wire Wire, text []byte, w want) error {
	if err := wire.Send(text); err != nil {
		return err
	}
	if w.close != 0 {
		_, err := wire.Recv()
		if closed, ok := errors.AsType[*CloseError](err); !ok || closed.Code != w.close {
			return fmt.Errorf("want close %d, got %v", w.close, err)
		}
		return nil
	}
	if w.each {
		for _, a := range w.answers {
			if err := expect(wire, one(a)); err != nil {
				return err
			}
		}
	} else if len(w.answers) > 0 {
		if err := expect(wire, w); err != nil {
			return err
		}
	}
	return d.probe(wire)
}

func expect(wire Wire, w want) error {
	message, err := wire.Recv()
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	return w.check(message)
}

// probe checks that the conversation continues, and that no other message was in transit.
func (d *Demo) probe(wire Wire) error {
	id := strconv.Quote(fmt.Sprintf("probe %d", d.probes.Add(1)))
	if err := wire.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"get_data"}`)); err != nil {
		return fmt.Errorf("the conversation is over: %w", err)
	}
	message, err := wire.Recv()
	if err != nil {
		return fmt.Errorf("the conversation is over: %w", err)
	}
	if err := one(ok(id, `["hello",5]`)).check(message); err != nil {
		return fmt.Errorf("something else came: %s", short(message))
	}
	return nil
}
