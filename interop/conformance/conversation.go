package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// talk returns a rule about a conversation on its own connection.
func talk(source, id, sends, wants string, f func(d *Demo, w Wire) error) Rule {
	return Rule{ID: id, Source: source, Sends: sends, Wants: wants, On: duplex, check: func(d *Demo, carrier string) error {
		w, err := d.dial(carrier)
		if err != nil {
			return err
		}
		defer w.Close()
		return f(d, w)
	}}
}

// say sends texts, one after the other.
func say(w Wire, texts ...string) error {
	for _, text := range texts {
		if err := w.Send([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// hear receives one message.
func hear(w Wire) (*node, error) {
	message, err := w.Recv()
	if err != nil {
		return nil, fmt.Errorf("nothing came: %w", err)
	}
	return read(slices.Clone(message))
}

// asked receives one request of the server, checks it against section 4, and returns it.
func asked(w Wire, method string) (*node, error) {
	n, err := hear(w)
	if err != nil {
		return nil, err
	}
	notification := strings.Contains(method, "/")
	switch {
	case n.kind != '{' || n.twice() != "":
		return nil, fmt.Errorf("not an object: %s", short(n.raw))
	case n.member("jsonrpc") == nil || string(n.member("jsonrpc").raw) != `"2.0"`:
		return nil, fmt.Errorf("jsonrpc is not \"2.0\": %s", short(n.raw))
	case n.member("method") == nil || n.member("method").text() != method:
		return nil, fmt.Errorf("not the method %s: %s", method, short(n.raw))
	case (n.member("id") == nil) != notification:
		return nil, fmt.Errorf("id where none belongs, or none: %s", short(n.raw))
	case n.member("params") != nil && n.member("params").kind != '{' && n.member("params").kind != '[':
		return nil, fmt.Errorf("params are no object and no array: %s", short(n.raw))
	case !notification && n.member("id").kind != 0 && n.member("id").kind != '"':
		return nil, fmt.Errorf("an id is a number or a string: %s", short(n.raw))
	}
	for _, name := range n.names {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params"}, name) {
			return nil, fmt.Errorf("unknown member %q: %s", name, short(n.raw))
		}
	}
	return n, nil
}

// conversationRules returns the rules about conversations in which both sides send.
func conversationRules() []Rule {
	const design, ask = "Demo, ask", `{"jsonrpc":"2.0","id":1,"method":"ask","params":["tea or coffee?"]}`
	var rules []Rule
	reply := func(id, source, answerText string, wants want) {
		rules = append(rules, talk(source, "ask/"+id, ask+" and the reply "+answerText, wants.String(), func(d *Demo, w Wire) error {
			if err := say(w, ask); err != nil {
				return err
			}
			q, err := asked(w, "answer")
			if err != nil {
				return err
			}
			if p := string(q.member("params").raw); p != `{"question":"tea or coffee?"}` {
				return fmt.Errorf("the params are %s", p)
			}
			if err := say(w, strings.ReplaceAll(answerText, "ID", string(q.member("id").raw))); err != nil {
				return err
			}
			if err := expect(w, wants); err != nil {
				return err
			}
			return d.probe(w)
		}))
	}
	for name, v := range sorted(map[string]string{"string": `"tea"`, "null": `null`, "number": `9007199254740993`, "decimal": `1.0`, "object": `{"a":[1, 2]}`, "array": `[]`, "false": `false`, "lone-surrogate": `"\uD800"`, "long": `"` + strings.Repeat("t", 100000) + `"`, "utf8": `"é😀"`}) {
		reply("result/"+name, design, `{"jsonrpc":"2.0","id":ID,"result":`+v+`}`, one(ok("1", v)))
	}
	reply("reordered", rfc8259+"4", `{"result":"tea","id":ID,"jsonrpc":"2.0"}`, one(ok("1", `"tea"`)))
	reply("spaces", rfc8259+"2", `{ "jsonrpc" : "2.0" , "id" : ID , "result" : "tea" }`, one(ok("1", `"tea"`)))
	reply("unknown-member", decisions+"unknown members ignored", `{"jsonrpc":"2.0","id":ID,"result":"tea","x":1}`, one(ok("1", `"tea"`)))
	reply("error", jsonrpc2+"5.1", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found"}}`, one(answer{id: "1", code: "1001", data: "*"}))
	reply("error-data", jsonrpc2+"5.1", `{"jsonrpc":"2.0","id":ID,"error":{"code":7,"message":"no","data":{"a":1}}}`, one(answer{id: "1", code: "1001", data: "*"}))
	for name, v := range sorted(map[string]string{"both": `"result":1,"error":{"code":1,"message":"x"}`, "error-null": `"error":null`, "both-null": `"result":null,"error":null`, "error-string": `"error":"x"`, "error-empty": `"error":{}`, "code-string": `"error":{"code":"1","message":"x"}`, "no-message": `"error":{"code":1}`, "result-twice": `"result":1,"result":2`, "neither": `"x":1`}) {
		reply("bad/"+name, answers4+"both result and error, or neither", `{"jsonrpc":"2.0","id":ID,`+v+`}`, one(fault("1", -32603)))
	}
	reply("bad/no-version", jsonrpc2+"5", `{"id":ID,"result":1}`, one(fault("1", -32603)))
	reply("bad/wrong-version", jsonrpc2+"5", `{"jsonrpc":"1.0","id":ID,"result":1}`, one(fault("1", -32603)))
	reply("stray-first", answers4+"answer with unknown id", `{"jsonrpc":"2.0","id":"nobody","result":"coffee"}`, nothing)
	rules[len(rules)-1].check = onDuplex(func(d *Demo, w Wire) error {
		if err := say(w, ask); err != nil {
			return err
		}
		q, err := asked(w, "answer")
		if err != nil {
			return err
		}
		id := string(q.member("id").raw)
		if err := say(w, `{"jsonrpc":"2.0","id":"nobody","result":"coffee"}`, `{"jsonrpc":"2.0","id":`+strconv.Quote(id)+`,"result":"coffee"}`, `{"jsonrpc":"2.0","id":`+id+`.0,"result":"coffee"}`, `{"jsonrpc":"2.0","id":null,"result":"coffee"}`, `{"jsonrpc":"2.0","id":`+id+`,"result":"tea"}`); err != nil {
			return err
		}
		if err := expect(w, one(ok("1", `"tea"`))); err != nil {
			return err
		}
		return d.probe(w)
	})
	rules = append(rules,
		talk(answers4+"answer with unknown id", "ask/answered-twice", ask+", two replies with the same id", "the first counts", func(d *Demo, w Wire) error {
			if err := say(w, ask); err != nil {
				return err
			}
			q, err := asked(w, "answer")
			if err != nil {
				return err
			}
			id := string(q.member("id").raw)
			if err := say(w, `{"jsonrpc":"2.0","id":`+id+`,"result":"tea"}`, `{"jsonrpc":"2.0","id":`+id+`,"result":"coffee"}`); err != nil {
				return err
			}
			if err := expect(w, one(ok("1", `"tea"`))); err != nil {
				return err
			}
			return d.probe(w)
		}),
		talk(design, "ask/two-at-once", "two asks, with the responses in reverse order", "each gets its own response", func(d *Demo, w Wire) error {
			if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["one"]}`, `{"jsonrpc":"2.0","id":2,"method":"ask","params":["two"]}`); err != nil {
				return err
			}
			ids := make(map[string]string)
			for range 2 {
				q, err := asked(w, "answer")
				if err != nil {
					return err
				}
				ids[q.member("params").member("question").text()] = string(q.member("id").raw)
			}
			if len(ids) != 2 || ids["one"] == ids["two"] {
				return fmt.Errorf("the ids are %v", ids)
			}
			if err := say(w, `{"jsonrpc":"2.0","id":`+ids["two"]+`,"result":"second"}`); err != nil {
				return err
			}
			if err := expect(w, one(ok("2", `"second"`))); err != nil {
				return err
			}
			if err := say(w, `{"jsonrpc":"2.0","id":`+ids["one"]+`,"result":"first"}`); err != nil {
				return err
			}
			return expect(w, one(ok("1", `"first"`)))
		}),
		talk(jsonrpc2+"6", "ask/answers-in-a-batch", "two asks, with the responses in one array", "each gets its own response", func(d *Demo, w Wire) error {
			if err := say(w, `[{"jsonrpc":"2.0","id":1,"method":"ask","params":["one"]},{"jsonrpc":"2.0","id":2,"method":"ask","params":["two"]}]`); err != nil {
				return err
			}
			var answers []string
			for range 2 {
				q, err := asked(w, "answer")
				if err != nil {
					return err
				}
				answers = append(answers, `{"jsonrpc":"2.0","id":`+string(q.member("id").raw)+`,"result":`+string(q.member("params").member("question").raw)+`}`)
			}
			if err := say(w, "["+strings.Join(answers, ",")+"]"); err != nil {
				return err
			}
			return expect(w, array(ok("1", `"one"`), ok("2", `"two"`)))
		}),
		talk(design, "ask/same-id-both-ways", "an ask with the id that the server uses too", "no confusion", func(d *Demo, w Wire) error {
			for _, id := range []string{"1", "2", "0", `"1"`} {
				if err := say(w, `{"jsonrpc":"2.0","id":`+id+`,"method":"ask","params":["x"]}`); err != nil {
					return err
				}
				q, err := asked(w, "answer")
				if err != nil {
					return err
				}
				theirs := string(q.member("id").raw)
				if err := say(w, `{"jsonrpc":"2.0","id":`+theirs+`,"method":"get_data"}`, `{"jsonrpc":"2.0","id":`+theirs+`,"result":"y"}`); err != nil {
					return err
				}
				first, err := hear(w)
				if err != nil {
					return err
				}
				second, err := hear(w)
				if err != nil {
					return err
				}
				if string(first.member("result").raw) != data {
					first, second = second, first
				}
				if err := errors.Join(ok(theirs, data).check(first), ok(id, `"y"`).check(second)); err != nil {
					return err
				}
			}
			return d.probe(w)
		}),
		talk("Limits, one conversation", "ask/many-deep", "300 asks before any response", "each gets its own response", manyAsks),
		talk(jsonrpc2+"4.1", "ask/notification", "ask without an id", "the question comes, no response", func(d *Demo, w Wire) error {
			if err := say(w, `{"jsonrpc":"2.0","method":"ask","params":["x"]}`); err != nil {
				return err
			}
			q, err := asked(w, "answer")
			if err != nil {
				return err
			}
			if err := say(w, `{"jsonrpc":"2.0","id":`+string(q.member("id").raw)+`,"result":"y"}`); err != nil {
				return err
			}
			return d.probe(w)
		}),
		talk("Demo, notifications come before the answer", "countdown/ticks", "countdown from 3", "three notifications that name the call, then the result", countdown(`7`, 3)),
		talk("Demo, notifications come before the answer", "countdown/string-id", "countdown from 2 with id \"a\\u0062\"", "two notifications that name the call, then the result", countdown(`"a\u0062"`, 2)),
		talk("Demo, notifications come before the answer", "countdown/big-id", "countdown from 1 with a long id", "one notification that names the call, then the result", countdown(`123456789012345678901234567890`, 1)),
		talk("Demo, notifications come before the answer", "countdown/null-id", "countdown from 1 with id null", "one notification, then the result", countdown(`null`, 1)),
		talk("Demo, notifications come before the answer", "countdown/hundred", "countdown from 100", "a hundred notifications in order, then the result", countdown(`1`, 100)),
		talk("Demo, notifications come before the answer", "countdown/zero", "countdown from 0", "the result alone", countdown(`1`, 0)),
		talk("Demo, notifications come before the answer", "countdown/two-at-once", "two countdowns", "each in order, each before its result", twoCountdowns),
		talk("Demo, notifications come before the answer", "order/notifications-then-request", "50 log_events, then get_log", "all 50, in their order", logOrder),
		talk(decisions+"lone surrogate escapes pass through raw in params and results", "log/exact", "log_event with what a codec would not write, then get_log", "the params byte for byte", logExact),
		talk("Demo, notifications come before the answer", "order/login", "login, whoami, counter", "a token that holds a state", sessions),
		talk("Limits, one conversation", "many/thousand", "1,000 requests at once, with sleeps", "one response for each", thousand),
		talk(decisions+"a repeated id in flight is answered each time", "many/same-id", "100 sleeps with one id", "100 responses", func(d *Demo, w Wire) error {
			for range 100 {
				if err := say(w, `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[20]}`); err != nil {
					return err
				}
			}
			for range 100 {
				if err := expect(w, one(ok("5", "20"))); err != nil {
					return err
				}
			}
			return d.probe(w)
		}),
		talk("Limits, one conversation", "many/past-the-queue", "1,500 sleeps of 400 ms", "at least 1,280 answered, the rest -31001 with retryAfterMs", flood))
	return rules
}

func onDuplex(f func(d *Demo, w Wire) error) func(d *Demo, carrier string) error {
	return talk("", "", "", "", f).check
}

func manyAsks(d *Demo, w Wire) error {
	const n = 300
	errs := make(chan error, 1)
	go func() {
		for i := range n {
			if err := say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ask","params":["%[1]d"]}`, i)); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	questions := make(map[string]string)
	for range n {
		q, err := asked(w, "answer")
		if err != nil {
			return err
		}
		questions[q.member("params").member("question").text()] = string(q.member("id").raw)
	}
	if err := <-errs; err != nil {
		return err
	}
	if len(questions) != n {
		return fmt.Errorf("%d different questions", len(questions))
	}
	for i := range n {
		if err := say(w, `{"jsonrpc":"2.0","id":`+questions[fmt.Sprint(i)]+`,"result":`+fmt.Sprint(i*2)+`}`); err != nil {
			return err
		}
	}
	seen := make(map[string]bool)
	for range n {
		a, err := hear(w)
		if err != nil {
			return err
		}
		id := string(a.member("id").raw)
		i, _ := strconv.Atoi(id)
		if err := ok(id, fmt.Sprint(i*2)).check(a); err != nil {
			return err
		}
		seen[id] = true
	}
	if len(seen) != n {
		return fmt.Errorf("%d different answers", len(seen))
	}
	return d.probe(w)
}

func countdown(id string, from int) func(d *Demo, w Wire) error {
	return func(d *Demo, w Wire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":`+id+`,"method":"countdown","params":{"from":`+fmt.Sprint(from)+`}}`); err != nil {
			return err
		}
		for left := from; left > 0; left-- {
			tick, err := asked(w, "countdown/tick")
			if err != nil {
				return err
			}
			p := tick.member("params")
			if string(p.member("request_id").raw) != id || string(p.member("left").raw) != fmt.Sprint(left) {
				return fmt.Errorf("tick %d is %s", left, short(tick.raw))
			}
		}
		if err := expect(w, one(ok(id, `"liftoff"`))); err != nil {
			return err
		}
		return d.probe(w)
	}
}

func twoCountdowns(d *Demo, w Wire) error {
	if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[20,2]}`, `{"jsonrpc":"2.0","id":2,"method":"countdown","params":[20,3]}`); err != nil {
		return err
	}
	left := map[string]int{"1": 20, "2": 20}
	for len(left) > 0 {
		n, err := hear(w)
		if err != nil {
			return err
		}
		if n.member("method") == nil {
			id := string(n.member("id").raw)
			if left[id] != 0 {
				return fmt.Errorf("the answer to %s came before its last tick", id)
			}
			if err := ok(id, `"liftoff"`).check(n); err != nil {
				return err
			}
			delete(left, id)
			continue
		}
		id := string(n.member("params").member("request_id").raw)
		if string(n.member("params").member("left").raw) != fmt.Sprint(left[id]) {
			return fmt.Errorf("after %d came %s", left[id]+1, short(n.raw))
		}
		left[id]--
	}
	return d.probe(w)
}

func logOrder(d *Demo, w Wire) error {
	mark := fmt.Sprintf("mark %d", d.probes.Add(1))
	for i := range 50 {
		if err := say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"log_event","params":["%s",%d]}`, mark, i)); err != nil {
			return err
		}
	}
	if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"get_log"}`); err != nil {
		return err
	}
	n, err := hear(w)
	if err != nil {
		return err
	}
	next := 0
	for _, event := range n.member("result").kids {
		args := event.member("event")
		if args.kind != '[' || len(args.kids) != 2 || args.kids[0].text() != mark {
			continue
		}
		if string(args.kids[1].raw) != fmt.Sprint(next) {
			return fmt.Errorf("event %s came after %d", args.raw, next-1)
		}
		next++
	}
	if next != 50 {
		return fmt.Errorf("%d of 50 events were there", next)
	}
	return nil
}

// logExact uses its own demo where one log is shared: a wrong entry would fail every other rule
// about it.
func logExact(d *Demo, _ Wire) error {
	own, err := d.child("demo", "--stdio")
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	w := newStreamWire(own, false)
	for i, params := range []string{`["\uD800"]`, `{"a":1,"a":2}`, `["\u0061\/"]`, `[1.0, 1E400]`, `{"\uDC00":1}`} {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"log_event","params":`+params+`}`); err != nil {
			return err
		}
		if err := expect(w, one(ok("1", fmt.Sprint(i+1)))); err != nil {
			return err
		}
		if err := say(w, `{"jsonrpc":"2.0","id":2,"method":"get_log","params":[1]}`); err != nil {
			return err
		}
		n, err := hear(w)
		if err != nil {
			return err
		}
		if n.member("result") == nil || len(n.member("result").kids) != 1 || string(n.member("result").kids[0].member("event").raw) != params {
			return fmt.Errorf("after %s: %s", params, short(n.raw))
		}
	}
	return nil
}

func sessions(d *Demo, w Wire) error {
	if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"login","params":{"name":"ada é"}}`); err != nil {
		return err
	}
	n, err := hear(w)
	if err != nil {
		return err
	}
	token := string(n.member("result").member("token").raw)
	for _, c := range [][2]string{
		{`{"jsonrpc":"2.0","id":2,"method":"whoami","params":[` + token + `]}`, `{"name":"ada é"}`},
		{`{"jsonrpc":"2.0","id":2,"method":"counter","params":[` + token + `]}`, `1`},
		{`{"jsonrpc":"2.0","id":2,"method":"counter","params":{"token":` + token + `,"by":41}}`, `42`},
		{`{"jsonrpc":"2.0","id":2,"method":"counter","params":{"by":-43,"token":` + token + `}}`, `-1`},
	} {
		if err := say(w, c[0]); err != nil {
			return err
		}
		if err := expect(w, one(ok("2", c[1]))); err != nil {
			return err
		}
	}
	return nil
}

func thousand(d *Demo, w Wire) error {
	const n = 1000
	errs := make(chan error, 1)
	go func() {
		for i := range n {
			if err := say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"sleep","params":[%d]}`, i, i*7%50)); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	seen := make(map[string]bool)
	for range n {
		a, err := hear(w)
		if err != nil {
			return fmt.Errorf("after %d answers: %w", len(seen), err)
		}
		id := a.member("id").text()
		i, _ := strconv.Atoi(strings.TrimPrefix(id, "r"))
		if err := ok(strconv.Quote(id), fmt.Sprint(i*7%50)).check(a); err != nil {
			return err
		}
		if seen[id] {
			return fmt.Errorf("two answers to %s", id)
		}
		seen[id] = true
	}
	return errors.Join(<-errs, d.probe(w))
}

func flood(d *Demo, w Wire) error {
	const n = 1500
	var sending sync.WaitGroup
	var sendErr error
	sending.Go(func() {
		for i := range n {
			if err := say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sleep","params":[400]}`, i)); err != nil {
				sendErr = err
				return
			}
		}
	})
	good, busy := 0, 0
	seen := make(map[string]bool)
	for range n {
		a, err := hear(w)
		if err != nil {
			return fmt.Errorf("after %d answers: %w", len(seen), err)
		}
		if err := wellFormed(a); err != nil {
			return err
		}
		id := string(a.member("id").raw)
		if seen[id] {
			return fmt.Errorf("two answers to %s", id)
		}
		seen[id] = true
		e := a.member("error")
		if e == nil {
			good++
			continue
		}
		busy++
		data := e.member("data")
		if string(e.member("code").raw) != "-31001" || data == nil || data.member("retryAfterMs") == nil || data.member("reason") == nil || string(data.member("retryable").raw) != "true" {
			return fmt.Errorf("not busy: %s", short(a.raw))
		}
	}
	sending.Wait()
	if good < 1280 {
		return fmt.Errorf("%d answered, %d busy", good, busy)
	}
	return errors.Join(sendErr, d.probe(w))
}

// within runs f and returns an error if it took longer.
func within(most time.Duration, f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return err
	}
	if took := time.Since(start); took > most {
		return fmt.Errorf("it took %v", took.Round(time.Millisecond))
	}
	return nil
}
