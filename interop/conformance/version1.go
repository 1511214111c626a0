package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// version1Rules returns the rules about addresses with ?jsonrpc=1.0.
func version1Rules() []Rule {
	const spec = "JSON-RPC 1.0, section "
	const decided = decisions + "1.0 only where switched on"
	var rules []Rule
	add := func(source, id, sends, wants string) {
		text := wants
		if text == "" {
			text = "nothing"
		}
		rules = append(rules, Rule{ID: "version1/" + id, Source: source, Sends: sends, Wants: text, On: []string{HTTP, TCP, WebSocket, Stdio}, check: func(d *Demo, carrier string) error {
			return d.exchange1(carrier, sends, wants)
		}})
	}
	result := func(id, v string) string { return `{"result":` + v + `,"error":null,"id":` + id + `}` }
	fails := func(id, code string) string {
		return `{"result":null,"error":{"code":` + code + `…},"id":` + id + `}`
	}
	add(spec+"1.1", "positional", `{"method":"subtract","params":[42,23],"id":1}`, result("1", "19"))
	add(spec+"1.1", "string-id", `{"method":"subtract","params":[42,23],"id":"x"}`, result(`"x"`, "19"))
	add(spec+"1.1", "big-id", `{"method":"echo","params":[1.0],"id":9007199254740993}`, result("9007199254740993", "[1.0]"))
	add(spec+"1.1", "order", `{"id":3,"params":[],"method":"get_data"}`, result("3", data))
	add(spec+"1.1", "null-result", `{"method":"update","params":[],"id":3}`, result("3", "null"))
	add(spec+"1.2", "unknown-method", `{"method":"foobar","params":[],"id":1}`, fails("1", "-32601"))
	add(spec+"1.2", "bad-params", `{"method":"subtract","params":[1],"id":1}`, fails("1", "-32602"))
	add(spec+"1.2", "fail", `{"method":"fail","params":[7,"seven"],"id":1}`, fails("1", "7"))
	add(spec+"1.2", "panic", `{"method":"panic","params":[],"id":1}`, fails("1", "-32603"))
	add(spec+"1.3", "notification", `{"method":"update","params":[1],"id":null}`, "")
	add(spec+"1.3", "notification-unknown", `{"method":"foobar","params":[1],"id":null}`, "")
	add(spec+"1.3", "notification-bad-params", `{"method":"subtract","params":[1],"id":null}`, "")
	add(spec+"1.1", "named-params", `{"method":"subtract","params":{"minuend":42,"subtrahend":23},"id":1}`, fails("1", "-32600"))
	add(spec+"1.1", "no-params", `{"method":"get_data","id":1}`, fails("1", "-32600"))
	add(spec+"1.1", "null-params", `{"method":"get_data","params":null,"id":1}`, fails("1", "-32600"))
	add(spec+"1.1", "no-method", `{"params":[],"id":1}`, fails("1", "-32600"))
	add(spec+"1.1", "number-method", `{"method":1,"params":[],"id":1}`, fails("1", "-32600"))
	add(spec+"1.2", "not-json", `{`, fails("null", "-32700"))
	add(spec+"1.1", "not-object", `1`, fails("null", "-32600"))
	add(spec+"1.2", "response", `{"result":1,"error":null,"id":7}`, "")
	add(spec+"1.2", "response-error", `{"result":null,"error":"x","id":7}`, "")
	add(decided, "2.0-request", `{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}`, `{"jsonrpc":"2.0","result":19,"id":1}`)
	add(decided, "2.0-named", `{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":1}`, `{"jsonrpc":"2.0","result":19,"id":1}`)
	add(decided, "2.0-error", `{"jsonrpc":"2.0","method":"foobar","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601…},"id":1}`)
	add(decided, "2.0-notification", `{"jsonrpc":"2.0","method":"update"}`, "")
	add(decided, "2.0-null-id", `{"jsonrpc":"2.0","method":"get_data","id":null}`, `{"jsonrpc":"2.0","result":`+data+`,"id":null}`)
	add(decided, "wrong-version", `{"jsonrpc":"1.1","method":"get_data","params":[],"id":1}`, `{"jsonrpc":"2.0","error":{"code":-32600…},"id":1}`)
	return rules
}

// exchange1 sends one payload to the 1.0 address of a transport.
func (d *Demo) exchange1(carrier, sends, wants string) error {
	if carrier == HTTP {
		r, err := d.post1To(d.web1, sends)
		if err != nil {
			return err
		}
		if wants == "" {
			return nothing.checkReply(r)
		}
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("the status is %s", r.Status)
		}
		return check1(r.body, wants)
	}
	w, err := d.dial1(carrier)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := say(w, sends); err != nil {
		return err
	}
	if wants != "" {
		message, err := w.Recv()
		if err != nil {
			return err
		}
		if err := check1(message, wants); err != nil {
			return err
		}
	}
	if err := say(w, `{"method":"sum","params":[4],"id":"probe"}`); err != nil {
		return err
	}
	message, err := w.Recv()
	if err != nil {
		return err
	}
	return check1(message, `{"result":4,"error":null,"id":"probe"}`)
}

func (d *Demo) dial1(carrier string) (Wire, error) {
	switch carrier {
	case WebSocket:
		return d.dialWebSocket(d.web1)
	case Stdio:
		s, err := d.child("demo", "--stdio", "--jsonrpc", "1.0")
		if err != nil {
			return nil, err
		}
		return newStreamWire(s, false), nil
	}
	s, err := dialStream("tcp", d.tcp1)
	if err != nil {
		return nil, err
	}
	return newStreamWire(s, false), nil
}

// check1 compares texts; "…" matches the rest of an object.
func check1(message []byte, wants string) error {
	n, err := read(message)
	if err != nil {
		return err
	}
	pattern, err := read([]byte(strings.ReplaceAll(wants, "…", `,"…":0`)))
	if err != nil {
		return err
	}
	return alike(n, pattern)
}

func alike(n, pattern *node) error {
	if pattern.kind != '{' {
		if !bytes.Equal(n.raw, pattern.raw) {
			return fmt.Errorf("%s for %s", short(n.raw), pattern.raw)
		}
		return nil
	}
	open := pattern.member("…") != nil
	if n.kind != '{' || !open && len(n.names) != len(pattern.names) {
		return fmt.Errorf("%s came", short(n.raw))
	}
	for i, name := range pattern.names {
		if name == "…" {
			continue
		}
		have := n.member(name)
		if have == nil {
			return fmt.Errorf("no %s in %s", name, short(n.raw))
		}
		if err := alike(have, pattern.kids[i]); err != nil {
			return err
		}
	}
	return nil
}
