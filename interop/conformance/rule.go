package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Rule is one requirement of a source for `parley demo`.
type Rule struct {
	ID     string // unique, as in "grammar/number/leading-zero"
	Source string // document and section
	Sends  string // description of what is sent
	Wants  string // description of the expected response
	On     []string
	check  func(d *Demo, carrier string) error
	slow   bool // waits seconds for a timer of the server
}

// The transports of the demo, in the order of the tables.
const (
	HTTP      = "http"
	H2C       = "h2c"
	WebSocket = "websocket"
	TCP       = "tcp"
	Unix      = "unix"
	Stdio     = "stdio"
	Header    = "stdio-header"
	TCPHeader = "tcp-header"
)

// Carriers lists all transports.
var Carriers = []string{HTTP, H2C, WebSocket, TCP, Unix, Stdio, Header, TCPHeader}

var (
	// both sides send at any time
	duplex = []string{WebSocket, TCP, Unix, Stdio, Header, TCPHeader}
	lines  = []string{TCP, Unix, Stdio} // a newline ends a message
	// Content-Length precedes a message
	headers = []string{Header, TCPHeader}
)

// Rules returns all rules, in the order of their sources. It panics if two have the same id.
func Rules() []Rule {
	var all []Rule
	for _, chapter := range [][]Rule{
		payloadRules(grammarRules()), payloadRules(envelopeRules()), payloadRules(idRules()), payloadRules(paramsRules()),
		payloadRules(batchRules()), payloadRules(limitRules()), payloadRules(methodRules()),
		httpRules(), handshakeRules(), frameRules(), lineRules(), headerRules(), conversationRules(), timeRules(), version1Rules(), lifeRules(), describedRules(),
	} {
		all = append(all, chapter...)
	}
	seen := make(map[string]bool)
	for _, r := range all {
		if seen[r.ID] {
			panic("conformance: two rules are called " + r.ID)
		}
		if len(r.On) == 0 || r.check == nil || r.Source == "" {
			panic("conformance: no transport or no source: " + r.ID)
		}
		seen[r.ID] = true
	}
	return all
}

// Document returns the source without its section, by which the counts are grouped.
func (r Rule) Document() string {
	document, _, _ := strings.Cut(r.Source, ",")
	return document
}

// An answer is an expected response.
type answer struct {
	id      string // the exact text
	result  string // the exact text; "" for an error, "*" for any
	code    string
	message string // "" for any
	data    string // "" for none, "*" for any, else the exact text; ignored with pointer
	pointer string // expected data.pointer, "" for none; "-" for an empty one
}

func ok(id, result string) answer { return answer{id: id, result: result} }

// fault returns one of the errors that the specification defines, with its message.
func fault(id string, code int) answer {
	a := answer{id: id, code: strconv.Itoa(code)}
	switch code {
	case -32700:
		a.message = "Parse error"
	case -32600:
		a.message = "Invalid Request"
	case -32601:
		a.message = "Method not found"
	case -32602:
		a.message, a.data = "Invalid params", "*"
	case -32603:
		a.message, a.data = "Internal error", "*"
	default:
		a.data = "*"
	}
	return a
}

func (a answer) String() string {
	if a.code == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","result":%s,"id":%s}`, a.result, a.id)
	}
	var data string
	switch {
	case a.pointer == "-":
		data = `,"data":{"pointer":""…}`
	case a.pointer != "":
		data = fmt.Sprintf(`,"data":{"pointer":%q…}`, a.pointer)
	case a.data == "*":
		data = "…"
	case a.data != "":
		data = `,"data":` + a.data
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":%s,"message":%q%s},"id":%s}`, a.code, a.message, data, a.id)
}

// check compares a response with the expected one.
func (a answer) check(n *node) error {
	if err := wellFormed(n); err != nil {
		return err
	}
	if id := n.member("id").raw; string(id) != a.id {
		return fmt.Errorf("the id is %s", short(id))
	}
	result, fault := n.member("result"), n.member("error")
	if a.code == "" {
		switch {
		case result == nil:
			return fmt.Errorf("an error came: %s", short(fault.raw))
		case a.result != "*" && string(result.raw) != a.result:
			return fmt.Errorf("the result is %s", short(result.raw))
		}
		return nil
	}
	if fault == nil {
		return fmt.Errorf("a result came: %s", short(result.raw))
	}
	if code := string(fault.member("code").raw); code != a.code {
		return fmt.Errorf("the code is %s", code)
	}
	if message := fault.member("message").text(); a.message != "" && message != a.message {
		return fmt.Errorf("the message is %q", message)
	}
	data := fault.member("data")
	switch {
	case a.pointer != "":
		want := strings.TrimPrefix(a.pointer, "-")
		if data == nil || data.kind != '{' || data.member("pointer") == nil || data.member("pointer").text() != want {
			return fmt.Errorf("no pointer %q in %s", want, short(fault.raw))
		}
	case a.data == "*":
	case data == nil && a.data != "", data != nil && string(data.raw) != a.data:
		return fmt.Errorf("the data is not right in %s", short(fault.raw))
	}
	return nil
}

// wellFormed checks a response against section 5 of JSON-RPC 2.0: all required members and no
// others.
func wellFormed(n *node) error {
	if n.kind != '{' {
		return fmt.Errorf("not an object: %s", short(n.raw))
	}
	if n.twice() != "" {
		return fmt.Errorf("duplicate member: %s", short(n.raw))
	}
	for _, name := range n.names {
		if !slices.Contains([]string{"jsonrpc", "id", "result", "error"}, name) {
			return fmt.Errorf("unknown member %q in a response", name)
		}
	}
	if v := n.member("jsonrpc"); v == nil || string(v.raw) != `"2.0"` {
		return fmt.Errorf("jsonrpc is not \"2.0\": %s", short(n.raw))
	}
	if n.member("id") == nil {
		return fmt.Errorf("a response without id: %s", short(n.raw))
	}
	fault := n.member("error")
	if (n.member("result") == nil) == (fault == nil) {
		return fmt.Errorf("either result or error: %s", short(n.raw))
	}
	if fault == nil {
		return nil
	}
	if fault.kind != '{' || fault.member("code") == nil || fault.member("message") == nil {
		return fmt.Errorf("an error needs code and message: %s", short(n.raw))
	}
	if fault.twice() != "" {
		return fmt.Errorf("duplicate member: %s", short(fault.raw))
	}
	for _, name := range fault.names {
		if !slices.Contains([]string{"code", "message", "data"}, name) {
			return fmt.Errorf("unknown member %q in an error", name)
		}
	}
	if code := fault.member("code").raw; strings.ContainsAny(string(code), ".eE\"{[n") {
		return fmt.Errorf("the code is no integer: %s", short(code))
	}
	if fault.member("message").kind != '"' {
		return fmt.Errorf("the message is no string: %s", short(n.raw))
	}
	return nil
}

// short shortens a text for an error message or a table.
func short(text []byte) string { return shorten(text, 300) }

func shorten(text []byte, most int) string {
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(text[:most*2/3]), "\uFFFD"), len(text))
	}
	return string(text)
}
