package conformance

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// timeRules returns the rules about waiting and timeouts.
func timeRules() []Rule {
	const cancelling = "Decisions, cancellation"
	cancelled := answer{id: "1", code: "-32800", data: "*"}
	sleep := `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[40000]}`
	cancel := func(params string) string {
		return `{"jsonrpc":"2.0","method":"$/cancelRequest","params":` + params + `}`
	}
	script := func(most time.Duration, wants []want, texts ...string) func(d *Demo, w Wire) error {
		return func(d *Demo, w Wire) error {
			return within(most, func() error {
				if err := say(w, texts...); err != nil {
					return err
				}
				for _, a := range wants {
					if err := expect(w, a); err != nil {
						return err
					}
				}
				return d.probe(w)
			})
		}
	}
	const soon = 20 * time.Second
	rules := slowHTTP()
	add := func(source, id, wants string, f func(d *Demo, w Wire) error, texts ...string) {
		rules = append(rules, talk(source, "time/"+id, strings.Join(texts, "\n"), wants, f))
	}
	cancels := func(id, target, params string, a answer) {
		texts := []string{strings.Replace(sleep, `"id":1`, `"id":`+target, 1), cancel(params)}
		add(cancelling, "cancel/"+id, a.String(), script(soon, []want{one(a)}, texts...), texts...)
	}
	named := func(id string) answer { a := cancelled; a.id = id; return a }
	cancels("number", "1", `{"id":1}`, cancelled)
	cancels("string", `"x"`, `{"id":"x"}`, named(`"x"`))
	cancels("long-number", "9007199254740993", `{"id":9007199254740993}`, named("9007199254740993"))
	cancels("fraction", "1.0", `{"id":1.0}`, named("1.0"))
	cancels("spaces", "1", `{ "id" : 1 }`, cancelled)
	cancels("unknown-member", "1", `{"id":1,"reason":"bored"}`, cancelled)
	// Ids are compared by kind and bytes: these identify other calls.
	misses := func(id, target, params string) {
		texts := []string{`{"jsonrpc":"2.0","id":` + target + `,"method":"sleep","params":[150]}`, cancel(params)}
		add(decisions+"ids are compared by kind and bytes", "cancel/not/"+id, "the call ends by itself", script(soon, []want{one(ok(target, "150"))}, texts...), texts...)
	}
	misses("string-for-number", "1", `{"id":"1"}`)
	misses("number-for-string", `"1"`, `{"id":1}`)
	misses("other", "1", `{"id":2}`)
	misses("near-double", "9007199254740993", `{"id":9007199254740992}`)
	misses("null", "1", `{"id":null}`)
	misses("object", "1", `{"id":{}}`)
	misses("array-params", "1", `[1]`)
	misses("empty", "1", `{}`)
	misses("case", "1", `{"ID":1}`)
	misses("no-params", "1", `{"x":1}`)
	add(cancelling, "cancel/nobody", "nothing", script(soon, nil, cancel(`{"id":77}`)), cancel(`{"id":77}`))
	add(cancelling, "cancel/done-already", "one response", script(soon, []want{one(ok("1", data))}, good, cancel(`{"id":1}`)), good, cancel(`{"id":1}`))
	add(cancelling, "cancel/before", "one response", script(soon, []want{one(ok("1", "20"))}, cancel(`{"id":1}`), `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[20]}`), cancel(`{"id":1}`), "sleep 20")
	add(cancelling, "cancel/twice", "one response", script(soon, []want{one(cancelled)}, sleep, cancel(`{"id":1}`), cancel(`{"id":1}`)), sleep, cancel(`{"id":1}`), cancel(`{"id":1}`))
	add(cancelling, "cancel/countdown", "the error", func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[2,5000]}`); err != nil {
			return err
		}
		if _, err := asked(w, "countdown/tick"); err != nil {
			return err
		}
		return script(soon, []want{one(cancelled)}, cancel(`{"id":1}`))(d, w)
	}, "countdown", cancel(`{"id":1}`))
	add(cancelling, "cancel/ask", "the error", func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["x"]}`); err != nil {
			return err
		}
		if _, err := asked(w, "answer"); err != nil {
			return err
		}
		if err := say(w, cancel(`{"id":1}`)); err != nil {
			return err
		}
		for { // the server may cancel its own call too
			n, err := hear(w)
			if err != nil {
				return err
			}
			if n.member("method") != nil && n.member("id") == nil {
				continue
			}
			if err := cancelled.check(n); err != nil {
				return err
			}
			return d.probe(w)
		}
	}, "ask", cancel(`{"id":1}`))
	add(cancelling, "cancel/in-batch", "the batch with the error in it", script(soon, []want{array(ok("5", data), cancelled)}, `[{"jsonrpc":"2.0","id":5,"method":"get_data"},`+sleep+`]`, cancel(`{"id":1}`)), "["+sleep+"]", cancel(`{"id":1}`))
	add(cancelling, "cancel/from-batch", "the error", script(soon, []want{one(cancelled)}, sleep, "["+cancel(`{"id":1}`)+"]"), sleep, "["+cancel(`{"id":1}`)+"]")
	add(cancelling, "cancel/same-batch", "the batch with the error in it", script(soon, []want{array(cancelled)}, "["+sleep+","+cancel(`{"id":1}`)+"]"), "["+sleep+","+cancel(`{"id":1}`)+"]")
	add(cancelling, "cancel/all-with-the-id", "two errors", script(soon, []want{one(cancelled), one(cancelled)}, sleep, sleep, cancel(`{"id":1}`)), sleep, sleep, cancel(`{"id":1}`))
	add(jsonrpc2+"5.1", "cancel/is-no-call", "a well-formed response", func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":9,"method":"$/cancelRequest","params":{"id":1}}`); err != nil {
			return err
		}
		n, err := hear(w)
		if err != nil {
			return err
		}
		return errors.Join(wellFormed(n), d.probe(w))
	}, "$/cancelRequest with an id")
	add(cancelling, "cancel/another-connection", "the call continues", nil, "sleep on one connection, cancel on another")
	rules[len(rules)-1].check = func(d *Demo, carrier string) error {
		if carrier == Stdio || carrier == Header {
			return nil // only one connection exists
		}
		a, err := d.dial(carrier)
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := d.dial(carrier)
		if err != nil {
			return err
		}
		defer b.Close()
		if err := say(a, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[300]}`); err != nil {
			return err
		}
		if err := say(b, cancel(`{"id":1}`)); err != nil {
			return err
		}
		return errors.Join(d.probe(b), expect(a, one(ok("1", "300"))))
	}
	rules[len(rules)-1].On = []string{WebSocket, TCP, Unix, TCPHeader}

	const delays = "Demo, a slow call delays nobody"
	add(delays, "slow/quick-behind-slow", "the quick one at once", script(soon, []want{one(ok("2", data)), one(ok("1", "2000"))}, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[2000]}`, `{"jsonrpc":"2.0","id":2,"method":"get_data"}`), "sleep 2000", "get_data")
	add(delays, "slow/sum-behind-slow", "the quick one at once", script(soon, []want{one(ok("2", "3")), one(ok("1", "2000"))}, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[2000]}`, `{"jsonrpc":"2.0","id":2,"method":"sum","params":[1,2]}`), "sleep 2000", "sum")
	add(delays, "slow/behind-slow-notification", "at once", script(soon, []want{one(ok("2", "3"))}, `{"jsonrpc":"2.0","method":"sleep","params":[40000]}`, `{"jsonrpc":"2.0","id":2,"method":"sum","params":[1,2]}`), "sleep 40000 as a notification", "sum")
	add(delays, "slow/behind-slow-batch", "the single one first", script(soon, []want{one(ok("2", data)), array(ok("1", "2000"))}, `[{"jsonrpc":"2.0","id":1,"method":"sleep","params":[2000]}]`, `{"jsonrpc":"2.0","id":2,"method":"get_data"}`), "[sleep 2000]", "get_data")
	add(delays, "slow/hundred-sleeping", "the quick one first", func(d *Demo, w Wire) error {
		for range 100 {
			if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[3000]}`); err != nil {
				return err
			}
		}
		if err := say(w, `{"jsonrpc":"2.0","id":2,"method":"sum","params":[1]}`); err != nil {
			return err
		}
		if err := expect(w, one(ok("2", "1"))); err != nil {
			return err
		}
		return within(soon, func() error {
			for range 100 {
				if err := expect(w, one(ok("1", "3000"))); err != nil {
					return err
				}
			}
			return nil
		})
	}, "100 × sleep 3000", "sum")
	add(delays, "slow/sixteen-in-a-batch", "as long as the slowest", script(soon, []want{array(repeat(ok("1", "2000"), 16)...)}, "["+strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[2000]},`, 16), ",")+"]"), "16 × sleep 2000 in one batch")
	add("Times, timers", "deadline", "-31002 after 60 s", func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[100000]}`); err != nil {
			return err
		}
		start := time.Now()
		message, err := recvWithin(w, 2*time.Minute)
		if err != nil {
			return err
		}
		if took := time.Since(start); took < 59*time.Second {
			return fmt.Errorf("it took %v", took)
		}
		return errors.Join(one(answer{id: "1", code: "-31002", data: "*"}).check(message), d.probe(w))
	}, "sleep 100000")
	rules[len(rules)-1].On = []string{TCP, WebSocket}
	rules[len(rules)-1].slow = true
	add("Times, timers", "unanswered-ask", "after 60 s our call is cancelled, and the ask ends with an error", func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["x"]}`); err != nil {
			return err
		}
		q, err := asked(w, "answer")
		if err != nil {
			return err
		}
		given := false
		for start := time.Now(); ; {
			message, err := recvWithin(w, 2*time.Minute)
			if err != nil {
				return err
			}
			n, err := read(message)
			if err != nil {
				return err
			}
			if method := n.member("method"); method != nil {
				id := n.member("params").member("id")
				if method.text() != "$/cancelRequest" || n.member("id") != nil || id == nil || string(id.raw) != string(q.member("id").raw) {
					return fmt.Errorf("this came: %s", short(n.raw))
				}
				given = true
				continue
			}
			if took := time.Since(start); took < 59*time.Second {
				return fmt.Errorf("it took %v", took)
			}
			if err := wellFormed(n); err != nil {
				return err
			}
			if n.member("error") == nil || string(n.member("id").raw) != "1" || !given {
				return fmt.Errorf("cancelled %t, then %s", given, short(n.raw))
			}
			return d.probe(w)
		}
	}, "ask, and no reply")
	rules[len(rules)-1].On = []string{TCP, WebSocket}
	rules[len(rules)-1].slow = true
	rules = append(rules,
		Rule{ID: "time/deadline/http", Source: "Times, timers", Sends: "sleep 100000", Wants: "200 and -31002 after 60 s", On: []string{HTTP}, slow: true, check: func(d *Demo, _ string) error {
			return d.rawHTTP(request{body: `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[100000]}`}.text(), []response{answered(answer{id: "1", code: "-31002", data: "*"})}, 65*time.Second)
		}},
		Rule{ID: "time/partial-line", Source: "Times, timers", Sends: "half a line", Wants: "closed after 30 s", On: []string{TCP, Unix}, slow: true, check: partial(`{"jsonrpc":`)},
		Rule{ID: "time/long-line", Source: answers4 + "too large, newline framing", Sends: "5 MiB without a newline, and no more", Wants: "-32600 once; closed after 30 s", On: []string{TCP, Unix}, slow: true, check: func(d *Demo, carrier string) error {
			s, err := d.stream(carrier)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			w := newStreamWire(s, false)
			if _, err := io.WriteString(s, strings.Repeat("x", 5<<20)); err != nil {
				return err
			}
			if err := expect(w, one(fault("null", -32600))); err != nil {
				return err
			}
			if _, err := w.recv(34 * time.Second); err == nil || strings.Contains(err.Error(), "timeout") {
				return fmt.Errorf("not closed: %v", err)
			}
			return nil
		}},
		Rule{ID: "time/partial-header", Source: "Times, timers", Sends: "half a header", Wants: "closed after 30 s", On: []string{TCPHeader}, slow: true, check: partial("Content-Le")},
		Rule{ID: "time/partial-body", Source: "Times, timers", Sends: "half a body", Wants: "closed after 30 s", On: []string{TCPHeader}, slow: true, check: partial("Content-Length: 44\r\n\r\n{")},
		Rule{ID: "time/http-not-cancelled", Source: cancelling, Sends: "$/cancelRequest by POST", Wants: "204, and a call of another client continues", On: []string{HTTP}, check: func(d *Demo, _ string) error {
			result := make(chan error, 1)
			go func() {
				result <- d.post(HTTP, []byte(`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[400]}`), one(ok("1", "400")))
			}()
			err := d.post(HTTP, []byte(cancel(`{"id":1}`)), nothing)
			return errors.Join(err, <-result)
		}},
		Rule{ID: "time/http-slow", Source: delays, Sends: "sleep 3000 and get_data on two connections", Wants: "get_data at once", On: []string{HTTP, H2C}, check: func(d *Demo, carrier string) error {
			result := make(chan error, 1)
			go func() {
				result <- d.post(carrier, []byte(`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[3000]}`), one(ok("1", "3000")))
			}()
			err := d.post(carrier, []byte(good), one(ok("1", data)))
			select {
			case slow := <-result:
				return errors.Join(err, slow, errors.New("get_data was not before sleep"))
			default:
				return errors.Join(err, <-result)
			}
		}})
	return rules
}

func recvWithin(w Wire, most time.Duration) ([]byte, error) {
	if s, ok := w.(*streamWire); ok {
		return s.recv(most)
	}
	deadline := time.Now().Add(most)
	for {
		message, err := w.Recv()
		if err == nil || time.Now().After(deadline) || !strings.Contains(err.Error(), "timeout") {
			return message, err
		}
	}
}

func partial(text string) func(d *Demo, carrier string) error {
	return func(d *Demo, carrier string) error {
		s, err := d.stream(carrier)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if _, err := io.WriteString(s, text); err != nil {
			return err
		}
		start := time.Now()
		_ = s.SetReadDeadline(start.Add(34 * time.Second))
		if _, err := s.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			return fmt.Errorf("not closed: %v", err)
		}
		if took := time.Since(start); took < 25*time.Second {
			return fmt.Errorf("closed after %v", took)
		}
		return nil
	}
}
