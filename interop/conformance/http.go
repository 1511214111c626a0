package conformance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const rfc9110 = "RFC 9110, section "

// A request is the text of an HTTP/1.1 request. {host} and {port} are replaced by the address.
type request struct {
	line   string // POST /rpc HTTP/1.1
	header []string
	body   string
	bare   bool // no headers except those in header
}

const good = `{"jsonrpc":"2.0","id":1,"method":"get_data"}`

func (q request) text() string {
	line := q.line
	if line == "" {
		line = "POST /rpc HTTP/1.1"
	}
	has := func(name string) bool {
		return slices.ContainsFunc(q.header, func(h string) bool { return strings.HasPrefix(strings.ToLower(h), strings.ToLower(name)+":") })
	}
	var b strings.Builder
	b.WriteString(line + "\r\n")
	if !q.bare {
		if !has("Host") {
			b.WriteString("Host: {host}\r\n")
		}
		if !has("Content-Type") && q.body != "" {
			b.WriteString("Content-Type: application/json\r\n")
		}
		if !has("Content-Length") && !has("Transfer-Encoding") && q.body != "" {
			b.WriteString("Content-Length: " + strconv.Itoa(len(q.body)) + "\r\n")
		}
	}
	for _, h := range q.header {
		if h != "" {
			b.WriteString(strings.TrimPrefix(h, "-") + "\r\n")
		}
	}
	b.WriteString("\r\n" + q.body)
	return b.String()
}

// A response is the expected response to a request.
type response struct {
	status int
	or     []int             // further accepted statuses
	header map[string]string // "" means absent, "*" present; else the value contains it
	answer *answer           // in the body, as JSON
	body   string            // the body contains it
	// "kept": the connection accepts another request; "closed": it is closed; "": either
	after string
}

func is(status int) response { return response{status: status} }

func answered(a answer) response {
	return response{status: 200, answer: &a, header: map[string]string{"Content-Type": "application/json", "Content-Length": "*", "Date": "*"}, after: "kept"}
}

var served = answered(ok("1", data))

func (w response) closed() response { w.after = "closed"; return w }
func (w response) kept() response   { w.after = "kept"; return w }
func (w response) with(name, value string) response {
	header := make(map[string]string)
	maps.Copy(header, w.header)
	header[name] = value
	w.header = header
	return w
}

func (w response) String() string {
	var b strings.Builder
	fmt.Fprint(&b, w.status)
	for _, s := range w.or {
		fmt.Fprintf(&b, " or %d", s)
	}
	for name, value := range sorted(w.header) {
		switch {
		case name == "Date" || name == "Content-Length" && value == "*" || name == "Content-Type" && w.answer != nil:
		case value == "":
			fmt.Fprintf(&b, ", no %s", name)
		case value == "*":
			fmt.Fprintf(&b, ", %s", name)
		default:
			fmt.Fprintf(&b, ", %s: %s", name, value)
		}
	}
	if w.answer != nil {
		fmt.Fprintf(&b, ", %s", w.answer)
	}
	if w.body != "" {
		fmt.Fprintf(&b, ", %q", w.body)
	}
	if w.after == "closed" {
		b.WriteString(", closed")
	}
	return b.String()
}

func (w response) check(r *reply) error {
	if r.StatusCode != w.status && !slices.Contains(w.or, r.StatusCode) {
		return fmt.Errorf("the status is %s: %s", r.Status, short(r.body))
	}
	for name, value := range w.header {
		have := strings.Join(r.Header.Values(name), ", ")
		if name == "Content-Length" && value != "" && r.ContentLength >= 0 {
			have = strconv.FormatInt(r.ContentLength, 10)
		}
		if name == "Connection" && r.Close { // net/http removes it
			have = "close"
		}
		switch {
		case value == "" && have != "":
			return fmt.Errorf("there is a header %s: %s", name, have)
		case value == "" || value == "*" && have != "":
		case value == "*" || !strings.Contains(have, value):
			return fmt.Errorf("%s is %q", name, have)
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			return fmt.Errorf("a CORS header: %s (the default is none)", name)
		}
	}
	if !strings.Contains(string(r.body), w.body) {
		return fmt.Errorf("the body is %s", short(r.body))
	}
	if w.answer != nil {
		return one(*w.answer).check(r.body)
	}
	return nil
}

// web returns a rule about one or more requests on one connection, sent at once, and their
// responses.
func web(source, id string, wants response, requests ...request) Rule {
	var text strings.Builder
	for _, q := range requests {
		text.WriteString(q.text())
	}
	return raw(source, id, text.String(), wants)
}

// raw returns a rule about bytes and the responses to them, all equal except the last.
func raw(source, id, sends string, wants ...response) Rule {
	all := make([]string, len(wants))
	for i, w := range wants {
		all[i] = w.String()
	}
	return Rule{ID: "http/" + id, Source: source, Sends: sends, Wants: strings.Join(all, "; "), On: []string{HTTP},
		check: func(d *Demo, _ string) error { return d.rawHTTP(sends, wants, patience) }}
}

func (d *Demo) rawHTTP(sends string, wants []response, within time.Duration) error {
	wire, err := d.dialWeb(d.web)
	if err != nil {
		return err
	}
	defer wire.Close()
	_ = wire.s.SetWriteDeadline(time.Now().Add(patience))
	// A rejection may arrive before everything is sent.
	_, sendErr := io.WriteString(wire.s, fill(sends, d.web))
	for i, w := range wants {
		method, _, _ := strings.Cut(sends, " ")
		w.body = fill(w.body, d.web)
		if i > 0 {
			method = http.MethodPost
		}
		r, err := wire.read(method, within)
		if err != nil {
			return errors.Join(fmt.Errorf("no response: %w", err), sendErr)
		}
		if err := w.check(r); err != nil {
			return err
		}
	}
	switch wants[len(wants)-1].after {
	case "kept":
		_ = wire.s.SetWriteDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(wire.s, fill(request{body: good}.text(), d.web)); err != nil {
			return fmt.Errorf("the connection was not kept: %w", err)
		}
		r, err := wire.read(http.MethodPost, patience)
		if err != nil {
			return fmt.Errorf("the connection was not kept: %w", err)
		}
		return served.check(r)
	case "closed":
		return ended(wire.s, wire.in)
	}
	return nil
}

// ended waits for the end of a connection on which nothing more may arrive.
func ended(s Stream, in io.Reader) error {
	_ = s.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(io.LimitReader(in, 1000))
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errors.New("the connection is still open")
	}
	if len(rest) > 0 {
		return fmt.Errorf("more came: %s", short(rest))
	}
	return nil
}

// httpRules returns the rules about HTTP as a transport.
func httpRules() []Rule {
	var rules []Rule
	add := func(source, id string, wants response, q request) { rules = append(rules, web(source, id, wants, q)) }
	bytes := func(source, id, sends string, wants ...response) {
		rules = append(rules, raw(source, id, sends, wants...))
	}
	notification := `{"jsonrpc":"2.0","method":"update"}`
	empty := response{status: 204, header: map[string]string{"Content-Length": "", "Content-Type": "", "Transfer-Encoding": ""}, after: "kept"}

	add(rfc9110+"9.3.3", "post", served, request{body: good})
	add(answers4+"empty body", "empty-body", answered(fault("null", -32700)), request{header: []string{"Content-Type: application/json", "Content-Length: 0"}})
	add(answers4+"empty body", "empty-body-no-type", answered(fault("null", -32700)), request{header: []string{"Content-Length: 0"}})
	add(answers4+"empty body", "no-body-no-length", answered(fault("null", -32700)), request{})
	add(answers4+"empty body", "empty-chunked", answered(fault("null", -32700)).closed(), request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}, body: "0\r\n\r\n"})
	add(answers4+"not JSON", "blank-body", answered(fault("null", -32700)), request{body: " \r\n\t"})
	add(answers4+"200 for every response", "error-is-200", answered(fault("2", -32601)), request{body: `{"jsonrpc":"2.0","id":2,"method":"x"}`})
	add(answers4+"200 for every response", "panic-is-200", answered(fault("2", -32603)), request{body: `{"jsonrpc":"2.0","id":2,"method":"panic"}`})
	add(answers4+"batch of notifications only", "notification", empty, request{body: notification})
	add(answers4+"batch of notifications only", "notifications", empty, request{body: "[" + notification + "," + notification + "]"})
	add(answers4+"a response sent to a server", "response", empty, request{body: `{"jsonrpc":"2.0","id":1,"result":1}`})
	add(answers4+"unknown notification", "unknown-notification", empty, request{body: `{"jsonrpc":"2.0","method":"nope"}`})
	add(rfc9110+"8.6", "no-length-on-204", empty, request{body: notification})
	add(rfc9110+"6.6.1", "date", served.with("Date", " GMT"), request{body: good})
	add(decisions+"no CORS headers", "no-cors", served.with("Access-Control-Allow-Origin", ""), request{body: good, header: []string{"Origin: http://{host}"}})
	add("Reach, hosts and origins", "nosniff", served.with("X-Content-Type-Options", "nosniff"), request{body: good})

	// Methods.
	const wrongMethod = answers4 + "wrong HTTP method"
	refused := response{status: 405, header: map[string]string{"Allow": "POST"}}
	for _, m := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "PROPFIND", "FOO", "post", "Post", "QUERY", "LINK"} {
		add(wrongMethod, "method/"+m, refused.kept(), request{line: m + " /rpc HTTP/1.1"})
	}
	for _, m := range []string{"PUT", "PATCH", "DELETE", "GET", "post", "QUERY"} {
		add(wrongMethod, "method/"+m+"/body", refused, request{line: m + " /rpc HTTP/1.1", body: good})
	}
	add(rfc9110+"9.3.2", "method/HEAD/no-body", response{status: 405, header: map[string]string{"Allow": "POST"}, after: "kept"}, request{line: "HEAD /rpc HTTP/1.1"})
	add(rfc9110+"9.3.6", "method/CONNECT", response{status: 405, or: []int{400, 403, 404, 501}}, request{line: "CONNECT {host} HTTP/1.1"})
	add(rfc9110+"9.3.7", "method/OPTIONS/star", response{status: 200, or: []int{204, 405, 404}}, request{line: "OPTIONS * HTTP/1.1"})
	add("Reach, hosts and origins", "method/OPTIONS/preflight", response{status: 403, header: map[string]string{"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": ""}}, request{line: "OPTIONS /rpc HTTP/1.1", header: []string{"Origin: https://evil.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type"}})
	add("Reach, hosts and origins", "method/OPTIONS/preflight-own", is(403), request{line: "OPTIONS /rpc HTTP/1.1", header: []string{"Origin: http://{host}", "Access-Control-Request-Method: POST"}})

	// Content-Type.
	const wrongType = answers4 + "wrong Content-Type"
	for name, v := range sorted(map[string]string{
		"upper": "APPLICATION/JSON", "title": "Application/Json", "charset": "application/json; charset=utf-8", "charset-upper": "application/json; charset=UTF-8", "charset-title": "application/json;charset=Utf-8", "charset-name-upper": "application/json; CHARSET=utf-8", "charset-quoted": `application/json; charset="utf-8"`, "charset-utf8": "application/json; charset=utf8", "no-space": "application/json;charset=utf-8", "many-spaces": "application/json  ;   charset=utf-8", "tab": "application/json;\tcharset=utf-8", "other-parameter": "application/json; profile=x", "two-parameters": "application/json; charset=utf-8; version=1", "parameter-first": "application/json; v=1; charset=utf-8", "trailing-space": "application/json  ", "trailing-semicolon": "application/json;",
	}) {
		add(rfc9110+"8.3", "type/"+name, served, request{body: good, header: []string{"Content-Type: " + v}})
	}
	for name, v := range sorted(map[string]string{
		"text": "text/plain", "text-charset": "text/plain;charset=UTF-8", "html": "text/html", "form": "application/x-www-form-urlencoded", "multipart": "multipart/form-data; boundary=x", "xml": "application/xml", "octets": "application/octet-stream", "any": "*/*", "application-any": "application/*", "jsonx": "application/jsonx", "json5": "application/json5", "plus-json": "application/vnd.api+json", "problem": "application/problem+json", "seq": "application/json-seq", "rpc": "application/json-rpc", "jsonrequest": "application/jsonrequest", "text-json": "text/json", "javascript": "application/javascript", "ndjson": "application/x-ndjson", "no-slash": "json", "no-type": "/json", "no-subtype": "application/", "space-inside": "application / json", "list": "application/json, text/plain", "list-json": "text/plain, application/json", "quoted": `"application/json"`, "empty": "", "semicolon": ";", "parameter-only": "; charset=utf-8", "cloudevents": "application/cloudevents+json", "a2a": "application/a2a+json",
	}) {
		add(wrongType, "type/wrong/"+name, is(415), request{body: good, header: []string{"Content-Type: " + v}})
		add(wrongType, "type/wrong/"+name+"/notification", is(415), request{body: notification, header: []string{"Content-Type: " + v}})
	}
	for _, v := range []string{"latin1", "iso-8859-1", "utf-16", "utf-16le", "us-ascii", "utf-7", "utf-32", "windows-1252", "x"} {
		add(wrongType, "type/charset/"+v, is(415), request{body: good, header: []string{"Content-Type: application/json; charset=" + v}})
	}
	add(wrongType, "type/none", is(415), request{body: good, bare: true, header: []string{"Host: {host}", "Content-Length: " + strconv.Itoa(len(good))}})
	add(wrongType, "type/none-chunked", is(415), request{body: fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(good), good), bare: true, header: []string{"Host: {host}", "Transfer-Encoding: chunked"}})
	add(wrongType, "type/twice", response{status: 415, or: []int{400}}, request{body: good, header: []string{"Content-Type: application/json", "Content-Type: text/plain"}})
	add(wrongType, "type/twice-reversed", response{status: 415, or: []int{400}}, request{body: good, header: []string{"Content-Type: text/plain", "Content-Type: application/json"}})
	add(rfc9110+"5.1", "field/name-upper", served, request{body: good, header: []string{"CONTENT-TYPE: application/json"}})
	add(rfc9110+"5.1", "field/name-lower", served, request{body: good, header: []string{"content-type: application/json"}})
	add(rfc9110+"5.5", "field/no-space", served, request{body: good, header: []string{"Content-Type:application/json"}})
	add(rfc9110+"5.5", "field/tabs", served, request{body: good, header: []string{"Content-Type:\t application/json \t"}})

	// Content-Encoding.
	for _, v := range []string{"gzip", "deflate", "br", "zstd", "x-gzip", "compress", "foo", "gzip, identity"} {
		add(rfc9110+"8.4", "coding/"+strings.ReplaceAll(v, ", ", "-"), response{status: 415, header: map[string]string{"Accept-Encoding": "identity"}}, request{body: good, header: []string{"Content-Encoding: " + v}})
	}
	add(rfc9110+"8.4", "coding/identity", served, request{body: good, header: []string{"Content-Encoding: identity"}})
	add(rfc9110+"8.4", "coding/identity-upper", served, request{body: good, header: []string{"Content-Encoding: Identity"}})

	// Accept.
	for name, v := range sorted(map[string]string{
		"any": "*/*", "json": "application/json", "application-any": "application/*", "upper": "APPLICATION/JSON", "list": "text/html, application/json", "list-spaces": "text/html ,\tapplication/json", "q": "application/json;q=0.5", "q-low": "application/json;q=0.001", "q-one": "application/json;q=1", "q-1.000": "application/json;q=1.000", "any-low": "text/html, */*;q=0.1", "both": "application/json, text/event-stream", "both-reversed": "text/event-stream, application/json", "browser": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "q-spaces": "application/json ; q=0.5", "q-upper": "application/json;Q=0.5", "specific-wins": "*/*;q=0, application/json", "stream-refused": "application/json, text/event-stream;q=0", "empty-elements": ", ,application/json,", "charset": "application/json;charset=utf-8",
	}) {
		add(rfc9110+"12.5.1", "accept/"+name, served, request{body: good, header: []string{"Accept: " + v}})
	}
	for name, v := range sorted(map[string]string{
		"html": "text/html", "xml": "application/xml", "image": "image/*", "text-any": "text/html, text/plain", "q-zero": "application/json;q=0", "q-0.0": "application/json;q=0.0", "q-0.000": "application/json;q=0.000", "any-zero": "*/*;q=0", "specific-zero": "*/*, application/json;q=0", "application-zero": "application/*;q=0", "jsonx": "application/jsonx", "plus-json": "application/vnd.x+json", "text-json": "text/json",
	}) {
		w := is(406)
		if name == "specific-zero" {
			// The event stream matches */* and was not excluded: a streamed response is as valid as
			// a rejection.
			w.or = []int{200}
		}
		add(answers4+"wrong Accept", "accept/not/"+name, w, request{body: good, header: []string{"Accept: " + v}})
	}
	add(rfc9110+"12.5.1", "accept/none", served, request{body: good})
	add(rfc9110+"12.5.1", "accept/two-lines", served, request{body: good, header: []string{"Accept: text/html", "Accept: application/json"}})
	add(rfc9110+"12.5.1", "accept/empty", served, request{body: good, header: []string{"Accept:"}})
	stream := response{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}, body: "data: "}
	add(answers4+"Accept text/event-stream alone", "accept/stream", response{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}, body: `"result":["hello",5]`}, request{body: good, header: []string{"Accept: text/event-stream"}})
	add(answers4+"Accept text/event-stream alone", "accept/stream-error", response{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}, body: `-32601`}, request{body: `{"jsonrpc":"2.0","id":1,"method":"x"}`, header: []string{"Accept: text/event-stream"}})
	add(answers4+"Accept text/event-stream alone", "accept/stream-parse-error", response{status: 200, body: `-32700`}, request{body: `{`, header: []string{"Accept: text/event-stream"}})
	add(answers4+"Accept text/event-stream alone", "accept/stream-notification", response{status: 204}, request{body: notification, header: []string{"Accept: text/event-stream"}})
	add("Demo, notifications come before the answer", "accept/countdown-streamed", stream.with("Content-Length", ""), request{body: `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[3]}`, header: []string{"Accept: application/json, text/event-stream"}})
	add("Demo, notifications come before the answer", "accept/countdown-plain", answered(ok("1", `"liftoff"`)), request{body: `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[3]}`, header: []string{"Accept: application/json"}})
	add("Demo, notifications come before the answer", "accept/countdown-nothing-said", answered(ok("1", `"liftoff"`)), request{body: `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[3]}`})
	add("Demo, notifications come before the answer", "ask-has-no-way-back", answered(answer{id: "1", code: "1002", data: "*"}), request{body: `{"jsonrpc":"2.0","id":1,"method":"ask","params":["x"]}`})
	add(rfc9110+"12.5.2", "accept/charset-ignored", served, request{body: good, header: []string{"Accept-Charset: iso-8859-1", "Accept-Language: tlh", "Accept-Encoding: br"}})
	add(rfc9110+"12.5.3", "accept/no-coding-unasked", served.with("Content-Encoding", ""), request{body: good, header: []string{"Accept-Encoding: gzip, deflate, br"}})

	// Length and framing.
	n := len(good)
	badLength := is(400).closed()
	for name, v := range sorted(map[string]string{
		"negative": "-1", "negative-zero": "-0", "plus": "+44", "word": "abc", "hex": "0x2c", "fraction": "44.0", "exponent": "4e1", "space-inside": "4 4", "past-int64": "99999999999999999999", "list-of-two": fmt.Sprintf("%d, %d", n, n+1), "semicolon": "44;", "quoted": `"44"`, "wide": "４４", "comma": "44,", "letter-after": "44a", "underscore": "4_4",
	}) {
		add(answers4+"negative, signed, non-numeric, conflicting Content-Length", "length/"+name, badLength, request{body: good, header: []string{"Content-Length: " + v}})
	}
	add(answers4+"negative, signed, non-numeric, conflicting Content-Length", "length/empty", badLength, request{body: good, header: []string{"Content-Length:"}})
	add(answers4+"negative, signed, non-numeric, conflicting Content-Length", "length/two", badLength, request{body: good, header: []string{fmt.Sprintf("Content-Length: %d", n), fmt.Sprintf("Content-Length: %d", n+1)}})
	add(answers4+"negative, signed, non-numeric, conflicting Content-Length", "length/two-reversed", badLength, request{body: good, header: []string{fmt.Sprintf("Content-Length: %d", n+1), fmt.Sprintf("Content-Length: %d", n)}})
	add(rfc9110+"8.6", "length/same-twice", response{status: 200, or: []int{400}}, request{body: good, header: []string{fmt.Sprintf("Content-Length: %d", n), fmt.Sprintf("Content-Length: %d", n)}})
	add(rfc9110+"8.6", "length/leading-zeros", response{status: 200, or: []int{400}}, request{body: good, header: []string{fmt.Sprintf("Content-Length: 000%d", n)}})
	tooLarge := is(413).closed()
	for name, v := range sorted(map[string]string{"4MiB-and-1": "4194305", "5MiB": "5242880", "10GB": "9999999999", "int64-max": "9223372036854775807"}) {
		add(answers4+"too large", "length/"+name, tooLarge, request{body: "{", header: []string{"Content-Length: " + v}})
		add(answers4+"Expect 100-continue with too large a length", "length/"+name+"/expect", tooLarge, request{header: []string{"Content-Type: application/json", "Expect: 100-continue", "Content-Length: " + v}})
	}
	rules = append(rules, Rule{ID: "http/length/more-than-sent", Source: answers4 + "frame cut off by end of stream", Sends: "Content-Length: 100, 44 bytes, half-close", Wants: "400 if writable, nothing run", On: []string{HTTP}, check: cutOffBody})
	bytes(rfc9110+"8.6", "length/less-than-sent", request{body: good + "xx\r\n\r\n", header: []string{fmt.Sprintf("Content-Length: %d", n)}}.text(), answered(ok("1", data)), badLength)
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	chunked := func(body string) request {
		return request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}, body: body}
	}
	rfc9112 := "RFC 9112, section "
	add(rfc9112+"7.1", "chunked/one", served.closed(), chunked(chunk(good)+"0\r\n\r\n"))
	add(rfc9112+"7.1", "chunked/two", served.closed(), chunked(chunk(good[:10])+chunk(good[10:])+"0\r\n\r\n"))
	var each strings.Builder
	for i := range good {
		each.WriteString(chunk(good[i : i+1]))
	}
	add(rfc9112+"7.1", "chunked/each-byte", served.closed(), chunked(each.String()+"0\r\n\r\n"))
	add(rfc9112+"7.1", "chunked/leading-zeros", served.closed(), chunked(fmt.Sprintf("000%x\r\n%s\r\n000\r\n\r\n", n, good)))
	add(rfc9112+"7.1", "chunked/upper-hex", served.closed(), chunked(fmt.Sprintf("%X\r\n%s\r\n0\r\n\r\n", n, good)))
	add(rfc9112+"7.1.1", "chunked/extension", served.closed(), chunked(fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\n\r\n", n, good)))
	add(rfc9112+"7.1.1", "chunked/extension-quoted", served.closed(), chunked(fmt.Sprintf("%x;a=\"b;c\"\r\n%s\r\n0;x\r\n\r\n", n, good)))
	add(rfc9112+"7.1.2", "chunked/trailer", served.closed(), chunked(chunk(good)+"0\r\nX-Trailer: 1\r\n\r\n"))
	add(rfc9112+"7.1.2", "chunked/notification", empty.closed(), chunked(chunk(notification)+"0\r\n\r\n"))
	add(rfc9112+"7", "chunked/name-upper", served.closed(), request{header: []string{"Content-Type: application/json", "Transfer-Encoding: CHUNKED"}, body: chunk(good) + "0\r\n\r\n"})
	for name, body := range sorted(map[string]string{
		"not-hex": "xyz\r\n" + good + "\r\n0\r\n\r\n", "negative": "-1\r\n" + good + "\r\n0\r\n\r\n", "prefix": fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", n, good), "plus": fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", n, good), "no-newline-after": fmt.Sprintf("%x\r\n%sXX0\r\n\r\n", n, good), "too-short": fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n-3, good), "too-long": fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n+3, good), "overflow": "fffffffffffffffff\r\n" + good + "\r\n0\r\n\r\n", "empty-size": "\r\n" + good + "\r\n0\r\n\r\n", "space-size": "2 c\r\n" + good + "\r\n0\r\n\r\n", "long-line": strings.Repeat("0", 5000) + "2c\r\n" + good + "\r\n0\r\n\r\n",
	}) {
		add(answers4+"bad chunk", "chunked/bad/"+name, is(400).closed(), chunked(body))
	}
	add(answers4+"too large", "chunked/5MiB", tooLarge, chunked(strings.Repeat(chunk(strings.Repeat("x", 1<<16)), 80)+"0\r\n\r\n"))
	add(answers4+"too large", "chunked/one-of-1GiB", tooLarge, chunked("40000000\r\n"+strings.Repeat("x", 5<<20)))
	for _, v := range []string{"gzip", "gzip, chunked", "identity", "foo", "chunked, gzip", "chunked, chunked", "deflate", "xchunked", "chunkedx"} {
		add(rfc9112+"6.1", "coding/transfer/"+strings.ReplaceAll(v, ", ", "-"), response{status: 501, or: []int{400}}, request{header: []string{"Content-Type: application/json", "Transfer-Encoding: " + v}, body: chunk(good) + "0\r\n\r\n"})
	}
	both := request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked", "Content-Length: 5"}, body: chunk(good) + "0\r\n\r\n"}
	add(answers4+"both Content-Length and Transfer-Encoding", "smuggling/both", response{status: 200, or: []int{400}, body: ""}, both)
	for id, build := range sorted(map[string]func(inner string) request{
		"short-length-and-chunk": func(inner string) request {
			return request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked", "Content-Length: 5"}, body: chunk(inner) + "0\r\n\r\n"}
		},
		"te-space": func(inner string) request {
			return request{header: []string{"Content-Type: application/json", "Transfer-Encoding : chunked", fmt.Sprintf("Content-Length: %d", len(inner)+5)}, body: "0\r\n\r\n" + inner}
		},
		"te-x": func(inner string) request {
			return request{header: []string{"Content-Type: application/json", "Transfer-Encoding: xchunked", fmt.Sprintf("Content-Length: %d", len(inner)+5)}, body: "0\r\n\r\n" + inner}
		},
		"te-folded": func(inner string) request {
			return request{header: []string{"Content-Type: application/json", "X: y", " Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", len(inner)+5)}, body: "0\r\n\r\n" + inner}
		},
		"in-body":         func(inner string) request { return request{body: "\r\n\r\n" + inner} },
		"refused-method":  func(inner string) request { return request{line: "PUT /rpc HTTP/1.1", body: inner} },
		"refused-get":     func(inner string) request { return request{line: "GET /rpc HTTP/1.1", body: inner} },
		"refused-options": func(inner string) request { return request{line: "OPTIONS /rpc HTTP/1.1", body: inner} },
		"refused-type":    func(inner string) request { return request{header: []string{"Content-Type: text/plain"}, body: inner} },
		"refused-coding":  func(inner string) request { return request{header: []string{"Content-Encoding: gzip"}, body: inner} },
		"refused-host":    func(inner string) request { return request{header: []string{"Host: evil.example"}, body: inner} },
		"refused-origin": func(inner string) request {
			return request{header: []string{"Origin: https://evil.example"}, body: inner}
		},
		"refused-accept": func(inner string) request { return request{header: []string{"Accept: text/html"}, body: inner} },
		"refused-path":   func(inner string) request { return request{line: "POST /nope HTTP/1.1", body: inner} },
		"refused-health": func(inner string) request { return request{line: "GET /healthz HTTP/1.1", body: inner} },
		"refused-page":   func(inner string) request { return request{line: "GET / HTTP/1.1", body: inner} },
		"refused-upgrade": func(inner string) request {
			return request{line: "GET /rpc HTTP/1.1", header: []string{"Upgrade: websocket", "Connection: Upgrade"}, body: inner}
		},
	}) {
		rules = append(rules, smuggle(id, build))
	}

	// Expect.
	rules = append(rules, Rule{ID: "http/expect/continue", Source: rfc9110 + "10.1.1", Sends: "Expect: 100-continue, the body after 100", Wants: "100, then 200", On: []string{HTTP}, check: expectContinue("100-continue")},
		Rule{ID: "http/expect/continue-upper", Source: rfc9110 + "10.1.1", Sends: "Expect: 100-Continue, the body after 100", Wants: "100, then 200", On: []string{HTTP}, check: expectContinue("100-Continue")})
	add(rfc9110+"10.1.1", "expect/body-at-once", response{status: 100, or: []int{200}}, request{header: []string{"Expect: 100-continue"}, body: good})
	add(rfc9110+"10.1.1", "expect/ignored-in-1.0", response{status: 200, answer: served.answer}, request{line: "POST /rpc HTTP/1.0", header: []string{"Expect: 100-continue"}, body: good})
	for name, q := range sorted(map[string]request{"405": {line: "DELETE /rpc HTTP/1.1"}, "415": {body: good, header: []string{"Content-Type: text/plain"}}, "404": {line: "GET /nope HTTP/1.1"}, "403": {body: good, header: []string{"Origin: null"}}, "406": {body: good, header: []string{"Accept: text/html"}}, "413": {header: []string{"Content-Type: application/json", "Content-Length: 5000000"}}, "204": {body: notification}}) {
		status, _ := strconv.Atoi(name)
		add(rfc9110+"6.6.1", "date/"+name, is(status).with("Date", " GMT"), q)
		add("Reach, hosts and origins", "nosniff/"+name, is(status).with("X-Content-Type-Options", "nosniff"), q)
	}
	add(rfc9110+"10.1.1", "expect/unknown", response{status: 417}, request{header: []string{"Expect: 200-ok"}, body: good})
	add(rfc9110+"10.1.1", "expect/wrong-type", is(415), request{header: []string{"Expect: 100-continue", "Content-Type: text/plain", "Content-Length: 44"}})
	add(rfc9110+"10.1.1", "expect/wrong-method", refused, request{line: "PUT /rpc HTTP/1.1", header: []string{"Expect: 100-continue", "Content-Type: application/json", "Content-Length: 44"}})
	add(rfc9110+"10.1.1", "expect/wrong-host", is(403), request{header: []string{"Host: evil.example", "Expect: 100-continue", "Content-Type: application/json", "Content-Length: 44"}})

	rules = append(rules, reachRules()...)
	rules = append(rules, connectionRules()...)
	return rules
}

// cutOffBody closes a connection in the middle of a body.
func cutOffBody(d *Demo, _ string) error {
	wire, err := d.dialWeb(d.web)
	if err != nil {
		return err
	}
	defer wire.Close()
	if _, err := io.WriteString(wire.s, fill(request{header: []string{"Content-Length: 100"}, body: good}.text(), d.web)); err != nil {
		return err
	}
	if err := wire.s.CloseWrite(); err != nil {
		return err
	}
	r, err := wire.read(http.MethodPost, patience)
	if err == nil && r.StatusCode != http.StatusBadRequest {
		return fmt.Errorf("the status is %s", r.Status)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return err
	}
	return nil
}

// smuggle sends a request with another request in its body, which must never run: its log event
// must not appear.
func smuggle(id string, build func(inner string) request) Rule {
	const event = `{"jsonrpc":"2.0","method":"log_event","params":["smuggled %s"]}`
	return Rule{ID: "http/smuggling/" + id, Source: answers4 + "never a second message from the same body", Sends: build("…").text(), Wants: "the content of … does not run", On: []string{HTTP},
		check: func(d *Demo, _ string) error {
			wire, err := d.dialWeb(d.web)
			if err != nil {
				return err
			}
			defer wire.Close()
			inner := fill(request{body: fmt.Sprintf(event, id)}.text(), d.web)
			if _, err := io.WriteString(wire.s, fill(build(inner).text(), d.web)); err != nil {
				return err
			}
			_ = wire.s.CloseWrite() // the response is read to its end
			_ = wire.s.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(io.LimitReader(wire.in, 1<<20)); err != nil && !strings.Contains(err.Error(), "reset") {
				return fmt.Errorf("the connection did not end: %w", err)
			}
			r, err := d.post1([]byte(`{"jsonrpc":"2.0","id":1,"method":"get_log"}`))
			if err != nil {
				return err
			}
			if strings.Contains(string(r.body), `"smuggled `+id+`"`) {
				return errors.New("the inner request ran")
			}
			return nil
		}}
}

func expectContinue(value string) func(d *Demo, _ string) error {
	return func(d *Demo, _ string) error {
		wire, err := d.dialWeb(d.web)
		if err != nil {
			return err
		}
		defer wire.Close()
		head := request{header: []string{"Content-Type: application/json", "Expect: " + value, fmt.Sprintf("Content-Length: %d", len(good))}}.text()
		if _, err := io.WriteString(wire.s, fill(head, d.web)); err != nil {
			return err
		}
		r, err := wire.read(http.MethodPost, patience)
		if err != nil || r.StatusCode != http.StatusContinue {
			return fmt.Errorf("no 100: %v", err)
		}
		if _, err := io.WriteString(wire.s, good); err != nil {
			return err
		}
		if r, err = wire.read(http.MethodPost, patience); err != nil {
			return err
		}
		return served.check(r)
	}
}
