package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

const spec = "JSON-RPC 2.0, "

// Sections that several rules cite.
const (
	conventions = spec + "2"
	sectRequest = spec + "4"
	sectNotify  = spec + "4.1"
	sectParams  = spec + "4.2"
	sectReply   = spec + "5"
	sectError   = spec + "5.1"
	sectBatch   = spec + "6"
	sectExample = spec + "7"
	sectRPC     = spec + "8"
	jsonText    = "RFC 8259, "
	unwritten   = "practice"
)

// Codes of section 5.1.
const (
	parseError     = "-32700"
	invalidRequest = "-32600"
	noMethod       = "-32601"
	invalidParams  = "-32602"
	internalError  = "-32603"
)

// allRules returns the rules that send something, in the order in which they run.
func allRules() (rules []rule) {
	for _, chapter := range [][]rule{
		idRules(), errorRules(), requestRules(), paramsRules(), valueRules(), notificationRules(), batchRules(),
		failRules(), stateRules(), httpRules(), wsRules(), framingRules(), loadRules(), survivalRules(), hardRules(),
	} {
		rules = append(rules, chapter...)
	}
	return rules
}

// universal returns the rules about all messages. They send nothing and are decided at the end.
func universal() []rule {
	at := func(id string, level Level, section string, on int, counts string) rule {
		return rule{id: id, level: level, section: section, on: on, counts: counts}
	}
	newline := at("framing/newline", Expect, unwritten, kindStream, "frame")
	newline.lines = true
	header := at("framing/header", Expect, "LSP 3.17, Base Protocol", kindStream, "frame")
	header.headers = true
	return []rule{
		at("response/json", Must, jsonText+"2 and 8.1", anyKind, "message"),
		at("response/object", Must, sectReply, anyKind, "message"),
		at("response/version", Must, sectReply, anyKind, "message"),
		at("response/either", Must, sectReply, anyKind, "message"),
		at("response/id", Must, sectReply, anyKind, "message"),
		at("response/members", Expect, sectReply, anyKind, "message"),
		at("response/unasked", Must, sectReply, duplex, "message"),
		at("error/object", Must, sectError, anyKind, "error"),
		at("error/code", Must, sectError, anyKind, "error"),
		at("error/reserved", Must, sectError, anyKind, "error"),
		at("error/message", Must, sectError, anyKind, "error"),
		at("error/message-empty", Expect, sectError, anyKind, "error"),
		at("error/members", Expect, sectError, anyKind, "error"),
		at("error/leak", Expect, unwritten, anyKind, "error"),
		at("error/sentence", Should, sectError, anyKind, "error"),
		at("batch/empty-response", Must, sectBatch, anyKind, "message"),
		at("id/spelling", Expect, unwritten, anyKind, "message"),
		at("survival/alive", Must, sectReply, anyKind, "message"),
		newline, header,
		at("http/status", Expect, unwritten, kindHTTP, "http"),
		at("http/content-type", Expect, unwritten, kindHTTP, "http"),
		at("http/encoding", Expect, "RFC 9110, 12.5.3", kindHTTP, "http"),
		at("http/length", Must, "RFC 9112, 6.3", kindHTTP, "http"),
		at("http/keep-alive", Expect, "RFC 9112, 9.3", kindHTTP, "http"),
		at("http/empty", Expect, "RFC 9110, 15.3.5", kindHTTP, "http"),
		at("ws/handshake", Must, "RFC 6455, 4.2.2", kindWS, "handshake"),
		at("ws/frames", Must, "RFC 6455, 5", kindWS, "message"),
		at("ws/text", Expect, unwritten, kindWS, "message"),
	}
}

// repeated repeats a text.
func repeated(text string, n int) string { return strings.Repeat(text, n) }

// ids are IDs that requests use.
var ids = []struct {
	name, text string
	mayReject  bool // the specification discourages it, or its size may be over a limit
}{
	{"one", `1`, false}, {"zero", `0`, false}, {"negative", `-7`, false}, {"large", `1234567890`, false},
	{"2^53+1", `9007199254740993`, false}, {"2^63-1", `9223372036854775807`, true}, {"2^64", `18446744073709551616`, true},
	{"thirty-digits", `123456789012345678901234567890`, true}, {"fraction", `1.5`, true}, {"one-point-zero", `1.0`, true}, {"exponent", `1e2`, true},
	{"tenth", `0.1`, true}, {"string", `"abc"`, false}, {"empty-string", `""`, false}, {"digits-in-string", `"1"`, false},
	{"zeros-in-string", `"007"`, false}, {"null-in-string", `"null"`, false}, {"true-in-string", `"true"`, false},
	{"case-in-string", `"AbC"`, false}, {"spaces", `" a b "`, false}, {"unicode", `"é漢😀"`, false}, {"escapes", `"\"\\\/\b\n\u0001"`, false},
	{"surrogate-pair", `"\ud83d\ude00"`, false}, {"nul", `"a\u0000b"`, false}, {"html", `"<a href='x'>&</a>"`, false}, {"line-separator", `"\u2028"`, false},
	{"combining", `"e\u0301"`, false}, {"large-in-string", `"9007199254740993"`, false}, {"float-in-string", `"1.0"`, false},
	{"uuid", `"550e8400-e29b-41d4-a716-446655440000"`, false}, {"hundreds", `"` + repeated("x", 300) + `"`, false},
	{"thousands", `"` + repeated("0123456789", 500) + `"`, true}, {"escaped-digits", `"\u0031\u0032"`, false}, {"exponent-in-string", `"1e2"`, false}, {"signs-in-string", `"+1 -0"`, false},
}

func idRules() (rules []rule) {
	for _, id := range ids {
		w := usual(id.text)
		if id.mayReject {
			w = either(usual(id.text), fails(id.text+" or null", invalidRequest))
		}
		rules = append(rules, spelled(id.text, sends("id/"+id.name, Must, sectReply, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":`+id.text+`}`, w)))
		if id.mayReject {
			w = either(fails(id.text, noMethod), fails(id.text+" or null", invalidRequest))
		} else {
			w = fails(id.text, noMethod)
		}
		rules = append(rules, spelled(id.text, sends("id/"+id.name+"/in-error", Must, sectReply, `{"jsonrpc":"2.0","method":"$NONE","id":`+id.text+`}`, w)))
	}
	rules = append(rules,
		sends("id/null", Must, sectRequest, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":null}`, usual("null")),
		sends("id/first", Must, jsonText+"4", `{"id":77,"jsonrpc":"2.0","method":"$ANY","params":[]}`, usual("77")),
		sends("id/escaped-name", Must, jsonText+"7", `{"jsonrpc":"2.0","method":"$ANY","params":[],"\u0069d":78}`, usual("78")),
	)
	for _, bad := range []struct{ name, text string }{{"true", `true`}, {"false", `false`}, {"array", `[1]`}, {"object", `{"a":1}`}, {"empty-array", `[]`}, {"empty-object", `{}`}} {
		rules = append(rules, sends("id/not-"+bad.name, Must, sectRequest+" and 5", `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":`+bad.text+`}`, fails("null", invalidRequest)))
	}
	return rules
}

// spelled adds to a rule that the number of the ID is not rewritten, for id/spelling.
//
//go:noinline
func spelled(id string, r rule) rule {
	run := r.run
	r.run = func(s *session) *finding {
		f := run(s)
		m, err := parseMessage([]byte(s.lastReceived))
		if f == nil && err == nil && m.kind == '{' && id[0] != '"' && !strings.Contains(id, "e") { // no client has IDs with exponents

			if got := m.member("id"); string(got) != id && string(got) != "null" {
				s.note("id/spelling", s.lastSent, s.lastReceived, "the id %s was returned as %s; clients that compare text lose the response", id, got)
			}
		}
		return f
	}
	return r
}

func errorRules() []rule {
	none := func(id, method string) rule {
		return sends(id, Must, sectError, `{"jsonrpc":"2.0","method":"`+method+`","id":5}`, fails("5", noMethod))
	}
	rules := []rule{
		none("error/unknown-method", "$NONE"),
		sends("error/unknown-method/params", Must, sectError, `{"jsonrpc":"2.0","method":"$NONE","params":[1,2],"id":5}`, fails("5", noMethod)),
		sends("error/unknown-method/named", Must, sectError, `{"jsonrpc":"2.0","method":"$NONE","params":{"a":1},"id":"5"}`, fails(`"5"`, noMethod)),
		none("error/unknown-method/unicode", "é漢😀"),
		none("error/unknown-method/surrogates", `\ud83d\ude00`),
		none("error/unknown-method/control", `a\u0000b\n`),
		none("error/unknown-method/quotes", `a\"b\\c</script>%s%d`),
		none("error/unknown-method/long", repeated("m", 5000)),
		none("error/unknown-method/path", "../../etc/passwd"),
		none("error/unknown-method/object-members", "toString"),
		none("error/unknown-method/constructor", "constructor"),
		none("error/unknown-method/proto", "__proto__"),
		sends("error/empty-method", Must, sectError, `{"jsonrpc":"2.0","method":"","id":5}`, fails("5 or null", noMethod, invalidRequest)),
		none("rpc/unknown", "rpc.parley-check-unknown"),
		none("rpc/prefix", "rpc."),
		sends("rpc/echo", Must, sectRPC, `{"jsonrpc":"2.0","method":"rpc.$ECHO","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/prefix", Must, sectRequest, `{"jsonrpc":"2.0","method":"$ECHO-parley-check","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/space-after", Must, sectRequest, `{"jsonrpc":"2.0","method":"$ECHO ","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/space-before", Must, sectRequest, `{"jsonrpc":"2.0","method":" $ECHO","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/newline-after", Must, sectRequest, `{"jsonrpc":"2.0","method":"$ECHO\n","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/nul-after", Must, sectRequest, `{"jsonrpc":"2.0","method":"$ECHO\u0000","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/slash-before", Must, sectRequest, `{"jsonrpc":"2.0","method":"/$ECHO","params":[1],"id":5}`, fails("5", noMethod)),
		sends("method/namespace", Must, sectRequest, `{"jsonrpc":"2.0","method":"parley-check.$ECHO","params":[1],"id":5}`, fails("5", noMethod)),
	}
	for _, form := range []struct {
		name string
		f    func(string) string
	}{{"upper", strings.ToUpper}, {"title", func(m string) string { return strings.ToUpper(m[:1]) + m[1:] }}, {"lower", strings.ToLower}} {
		rules = append(rules, rule{id: "method/case-" + form.name, level: Must, section: conventions, on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
			method := form.f(s.o.Echo)
			if method == s.o.Echo {
				return skipped("the method " + s.o.Echo + " has no other form")
			}
			return reason(fails("5", noMethod)(s.ask(request("5", method, `["case"]`))))
		}})
	}
	rules = append(rules, rule{id: "method/shorter", level: Must, section: sectRequest, on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
		if len(s.o.Echo) < 3 {
			return skipped("the name of the method is short")
		}
		return reason(fails("5", noMethod)(s.ask(request("5", s.o.Echo[:len(s.o.Echo)-1], `["shorter"]`))))
	}})
	for _, name := range slices.Sorted(maps.Keys(badJSON)) {
		rules = append(rules, sends("parse/"+name, Must, sectError, badJSON[name], fails("null", parseError)))
	}
	rules = append(rules,
		sends("parse/garbage-after", Must, sectError, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":5} x`, fails("null", parseError)),
		keeps("connection/after-parse-error", badJSON["example"]),
		keeps("connection/after-invalid-request", `{"jsonrpc":"2.0","method":1,"id":1}`),
		keeps("connection/after-unknown-method", `{"jsonrpc":"2.0","method":"$NONE","id":1}`),
		keeps("connection/after-invalid-params", `{"jsonrpc":"2.0","method":"$NAMED","params":["x","y"],"id":1}`),
		keeps("connection/after-error", `{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4711,"message":"as sent"},"id":1}`),
		keeps("connection/after-empty-batch", `[]`),
		keeps("connection/after-broken-batch", `[{"jsonrpc":"2.0","method":"$ANY","id":1},{"jsonrpc":"2.0","method"]`),
	)
	return rules
}

func reason(why string) *finding {
	if why == "" {
		return nil
	}
	return &finding{why: why}
}

// keeps returns a rule that the connection is usable after a payload.
func keeps(id, payload string) rule {
	return rule{id: id, level: Expect, section: unwritten, on: anyKind, needs: payload, run: func(s *session) *finding {
		r := s.ask(s.fill(payload))
		if r.raw == nil {
			return failed("%s", r.absence())
		}
		return s.stillOpen()
	}}
}

// badJSON are texts that are not JSON.
var badJSON = map[string]string{
	"example":            `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`,
	"truncated":          `{"jsonrpc":"2.0","method":"$ANY","params":[1],"id":1`,
	"word":               `hello`,
	"one-brace":          `{`,
	"single-quotes":      `{'jsonrpc':'2.0','method':'$ANY','params':[],'id':1}`,
	"bare-names":         `{jsonrpc:"2.0",method:"$ANY",params:[],id:1}`,
	"trailing-comma":     `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1,}`,
	"comma-in-array":     `{"jsonrpc":"2.0","method":"$ANY","params":[1,],"id":1}`,
	"leading-zero":       `{"jsonrpc":"2.0","method":"$ANY","params":[01],"id":1}`,
	"plus":               `{"jsonrpc":"2.0","method":"$ANY","params":[+1],"id":1}`,
	"nan":                `{"jsonrpc":"2.0","method":"$ANY","params":[NaN],"id":1}`,
	"infinity":           `{"jsonrpc":"2.0","method":"$ANY","params":[Infinity],"id":1}`,
	"bare-point":         `{"jsonrpc":"2.0","method":"$ANY","params":[1.],"id":1}`,
	"comment":            `{"jsonrpc":"2.0","method":"$ANY",/* x */"params":[],"id":1}`,
	"bad-escape":         `{"jsonrpc":"2.0","method":"$ANY","params":["\x41"],"id":1}`,
	"control-in-string":  "{\"jsonrpc\":\"2.0\",\"method\":\"$ANY\",\"params\":[\"a\tb\"],\"id\":1}",
	"capital-true":       `{"jsonrpc":"2.0","method":"$ANY","params":[True],"id":1}`,
	"missing-colon":      `{"jsonrpc" "2.0","method":"$ANY","id":1}`,
	"two-texts":          `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1}]`,
	"batch-example":      `[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]`,
	"unended-string":     `{"jsonrpc":"2.0","method":"$ANY","id":"abc`,
	"number-then-letter": `{"jsonrpc":"2.0","method":"$ANY","params":[1a],"id":1}`,
	"bare-fraction":      `{"jsonrpc":"2.0","method":"$ANY","params":[.5],"id":1}`,
	"bare-minus":         `{"jsonrpc":"2.0","method":"$ANY","params":[-],"id":1}`,
	"bare-exponent":      `{"jsonrpc":"2.0","method":"$ANY","params":[1e],"id":1}`,
	"hex-number":         `{"jsonrpc":"2.0","method":"$ANY","params":[0x10],"id":1}`,
	"two-commas":         `{"jsonrpc":"2.0","method":"$ANY","params":[1,,2],"id":1}`,
	"short-escape":       `{"jsonrpc":"2.0","method":"$ANY","params":["\u12"],"id":1}`,
	"wrong-bracket":      `{"jsonrpc":"2.0","method":"$ANY","params":[1},"id":1}`,
	"missing-value":      `{"jsonrpc":"2.0","method":"$ANY","params":,"id":1}`,
	"form-feed":          "{\"jsonrpc\":\"2.0\",\f\"method\":\"$ANY\",\"params\":[],\"id\":1}",
}

func requestRules() []rule {
	invalid := func(id, payload string, want string) rule {
		return sends("request/"+id, Must, sectRequest, payload, fails(want, invalidRequest))
	}
	rules := []rule{
		invalid("method-number", `{"jsonrpc":"2.0","method":1,"id":6}`, "6 or null"),
		invalid("method-null", `{"jsonrpc":"2.0","method":null,"id":6}`, "6 or null"),
		invalid("method-array", `{"jsonrpc":"2.0","method":["$ANY"],"id":6}`, "6 or null"),
		invalid("method-object", `{"jsonrpc":"2.0","method":{"a":"$ANY"},"id":6}`, "6 or null"),
		invalid("method-true", `{"jsonrpc":"2.0","method":true,"id":6}`, "6 or null"),
		invalid("no-method", `{"jsonrpc":"2.0","id":6}`, "6 or null"),
		invalid("no-version", `{"method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-1.0", `{"jsonrpc":"1.0","method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-2.1", `{"jsonrpc":"2.1","method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-2", `{"jsonrpc":"2","method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-number", `{"jsonrpc":2.0,"method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-null", `{"jsonrpc":null,"method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-empty", `{"jsonrpc":"","method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("version-space", `{"jsonrpc":"2.0 ","method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("empty-object", `{}`, "null"),
		invalid("string", `"hello"`, "null"),
		invalid("number", `1`, "null"),
		invalid("null", `null`, "null"),
		invalid("true", `true`, "null"),
		sends("request/example", Must, sectExample, `{"jsonrpc": "2.0", "method": 1, "params": "bar"}`, fails("null", invalidRequest)),
		invalid("case-method", `{"jsonrpc":"2.0","Method":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("case-METHOD", `{"jsonrpc":"2.0","METHOD":"$ANY","params":[],"id":6}`, "6 or null"),
		invalid("case-jsonrpc", `{"JsonRpc":"2.0","method":"$ANY","params":[],"id":6}`, "6 or null"),
		silent("request/case-id", Must, conventions, `{"jsonrpc":"2.0","method":"$ANY","params":[],"ID":6}`),
		{id: "request/case-params", level: Must, section: conventions, on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
			r := s.ask(`{"jsonrpc":"2.0","method":` + quote(s.o.Echo) + `,"Params":["wrong"],"id":6}`)
			if m, why := parsed(r); why != "" {
				return failed("%s", why)
			} else if strings.Contains(string(m.member("result")), "wrong") {
				return failed("the member Params was used as params; names are case-sensitive")
			}
			return nil
		}},
		sends("request/members-reversed", Must, jsonText+"4", `{"id":6,"params":[1],"method":"$ECHO","jsonrpc":"2.0"}`, gives("6", "[1]")),
		sends("request/escaped-names", Must, jsonText+"7", `{"json\u0072pc":"2.0","\u006dethod":"$ANY","p\u0061rams":[],"id":6}`, usual("6")),
		sends("request/escaped-version", Must, jsonText+"8.3", `{"jsonrpc":"\u0032.0","method":"$ANY","params":[],"id":6}`, usual("6")),
		{id: "request/escaped-method", level: Must, section: jsonText + "8.3", on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
			name := ""
			for _, r := range s.o.Echo {
				if r > 0xffff {
					return skipped("the name of the method is not in the basic plane")
				}
				name += fmt.Sprintf(`\u%04x`, r)
			}
			return reason(gives("6", "[1]")(s.ask(`{"jsonrpc":"2.0","method":"` + name + `","params":[1],"id":6}`)))
		}},
		sends("request/white-space", Must, jsonText+"2", " \t{ \"jsonrpc\" : \"2.0\" ,\t\"method\" : \"$ANY\" , \"params\" : [ ] , \"id\" : 6 }  \t", usual("6")),
		sends("request/carriage-return", Must, jsonText+"2", "{\"jsonrpc\":\"2.0\",\r\"method\":\"$ANY\",\"params\":[],\"id\":6}\r", usual("6")),
		sends("request/unknown-member", Expect, unwritten, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":6,"x":{"id":9,"method":"y"}}`, usual("6")),
		responseSent("request/response", `{"jsonrpc":"2.0","result":1,"id":1}`),
		responseSent("request/error-response", `{"jsonrpc":"2.0","error":{"code":1,"message":"x"},"id":null}`),
		sends("request/duplicate-member", Expect, jsonText+"4", `{"jsonrpc":"2.0","method":"$ANY","method":"$ANY","params":[],"id":6}`, either(answered("6"), fails("6 or null", invalidRequest, parseError))),
		sends("request/byte-order-mark", Expect, jsonText+"8.1", "\uFEFF"+`{"jsonrpc":"2.0","method":"$ANY","params":[],"id":6}`, either(answered("6"), fails("6 or null", parseError, invalidRequest))),
		sends("request/invalid-utf8", Should, jsonText+"8.1", "{\"jsonrpc\":\"2.0\",\"method\":\"$ANY\",\"params\":[\"\xff\xfe\"],\"id\":6}", either(fails("6 or null", parseError, invalidRequest), hungUp)),
	}
	// RFC 8259, section 9, permits a parser to accept what is not JSON, and many do so with bytes
	// that are not UTF-8. Such a request says nothing about responses to valid ones.
	for i, r := range rules {
		if r.id == "request/invalid-utf8" {
			rules[i] = lenient(r)
		}
	}
	rules = append(rules, lenient(sends("request/invalid-utf8/response", Should, jsonText+"8.1", "{\"jsonrpc\":\"2.0\",\"method\":\"$ANY\",\"params\":[\"\xff\xfe\"],\"id\":6}", either(func(r reply) string {
		_, why := parsed(r)
		return why
	}, hungUp))))
	// Line ends within a message are white space only where a newline does not end the message.
	lf := sends("request/line-feeds", Must, jsonText+"2", "\n{\n\"jsonrpc\":\"2.0\",\r\n\"method\":\"$ANY\",\n\"params\":[],\"id\":6}\n\n", usual("6"))
	run := lf.run
	lf.run = func(s *session) *finding {
		if s.kind&(kindStream|kindChild) != 0 && !s.headers() {
			return skipped("a newline ends a message")
		}
		return run(s)
	}
	return append(rules, lf)
}

// responseSent returns a rule about a response to no call: it is ignored or invalid, and the
// connection is usable after it.
func responseSent(id, payload string) rule {
	return rule{id: id, level: Expect, section: unwritten, on: anyKind, run: func(s *session) *finding {
		r := s.tell(payload)
		if r.raw != nil {
			if why := fails("null or 1", invalidRequest)(r); why != "" {
				return failed("a response was sent to the server: %s", why)
			}
		} else if r.err != nil && r.status == 0 {
			return failed("after a response to no call: %s", plainError(r.err))
		}
		return s.stillOpen()
	}}
}

// lenient keeps a rule from adding to the rules about all messages.
//
//go:noinline
func lenient(r rule) rule {
	run := r.run
	r.run = func(s *session) *finding {
		before := s.seen
		s.seen = map[string]*finding{}
		f := run(s)
		if f == nil && s.seen["response/json"] != nil {
			f = &finding{why: s.seen["response/json"].why}
		}
		s.seen = before
		return f
	}
	return r
}

func paramsRules() []rule {
	rules := []rule{
		sends("params/positional", Must, sectParams, `{"jsonrpc":"2.0","method":"$ECHO","params":[1,"two",null],"id":8}`, gives("8", `[1,"two",null]`)),
		sends("params/named", Must, sectParams, `{"jsonrpc":"2.0","method":"$ECHO","params":{"a":1,"b":"two","c":null},"id":8}`, gives("8", `{"a":1,"b":"two","c":null}`)),
		sends("params/empty-array", Must, sectParams, `{"jsonrpc":"2.0","method":"$ECHO","params":[],"id":8}`, gives("8", `[]`)),
		sends("params/empty-object", Must, sectParams, `{"jsonrpc":"2.0","method":"$ECHO","params":{},"id":8}`, gives("8", `{}`)),
		sends("params/absent", Must, sectParams, `{"jsonrpc":"2.0","method":"$ANY","id":8}`, answered("8")),
		sends("params/null", Must, sectParams, `{"jsonrpc":"2.0","method":"$ANY","params":null,"id":8}`, either(answered("8"), fails("8 or null", invalidRequest, invalidParams))),
	}
	for _, bad := range []struct{ name, text string }{{"string", `"bar"`}, {"number", `1`}, {"zero", `0`}, {"true", `true`}, {"false", `false`}, {"empty-string", `""`}} {
		rules = append(rules, sends("params/not-"+bad.name, Must, sectParams, `{"jsonrpc":"2.0","method":"$ANY","params":`+bad.text+`,"id":8}`, func(r reply) string {
			// An unknown method may be reported first.
			if m, why := parsed(r); why == "" && string(m.sub("error", "code")) == noMethod && strings.Contains(r.sent, unknownMethod) {
				return sameID("8", m)
			}
			return fails("8 or null", invalidRequest, invalidParams)(r)
		}))
	}
	named := func(id, text string, w want) rule {
		return sends("params/"+id, Must, sectParams, `{"jsonrpc":"2.0","method":"$NAMED","params":`+text+`,"id":8}`, w)
	}
	rules = append(rules,
		rule{id: "params/same-by-name", level: Must, section: sectParams, on: anyKind, needs: "$NAMED", run: sameByName},
		rule{id: "params/order-of-names", level: Must, section: sectParams, on: anyKind, needs: "$NAMED", run: orderOfNames},
		rule{id: "params/order-of-positions", level: Must, section: sectParams, on: anyKind, needs: "$NAMED", run: orderOfPositions},
		named("wrong-type", `{"$A":"x","$B":[]}`, fails("8", invalidParams)),
		named("wrong-type/positional", `["x",{}]`, fails("8", invalidParams)),
		named("wrong-type/one", `{"$A":42,"$B":"23x"}`, fails("8", invalidParams)),
		named("missing", `{"$A":42}`, either(fails("8", invalidParams), gives("8", ""))),
		named("missing/all", `{}`, either(fails("8", invalidParams), gives("8", ""))),
		named("missing/positional", `[42]`, either(fails("8", invalidParams), gives("8", ""))),
		named("missing/none", `[]`, either(fails("8", invalidParams), gives("8", ""))),
		rule{id: "params/decimals", level: Expect, section: unwritten, on: anyKind, needs: "$NAMED", run: decimals},
		rule{id: "params/missing-refused", level: Should, section: sectError, on: anyKind, needs: "$NAMED", run: missingRefused},
		named("extra", `{"$A":42,"$B":23,"parley-check":1}`, either(gives("8", ""), fails("8", invalidParams))),
		named("extra/positional", `[42,23,1]`, either(gives("8", ""), fails("8", invalidParams))),
		rule{id: "params/case", level: Must, section: sectParams, on: anyKind, needs: "$NAMED", run: caseOfNames},
	)
	for i := range rules {
		switch rules[i].id {
		case "params/missing", "params/missing/all", "params/missing/positional", "params/missing/none":
			rules[i].section = sectError
		}
	}
	return rules
}

func quote(text string) string { return string(jsonrpc.AppendString(nil, text)) }

// pair returns params for the named method.
func (s *session) pair(a, b string, byName, reversed bool) string {
	x, y := s.o.NamedParams[0], s.o.NamedParams[1]
	switch {
	case byName && reversed:
		return fmt.Sprintf(`{%s:%s,%s:%s}`, quote(y), b, quote(x), a)
	case byName:
		return fmt.Sprintf(`{%s:%s,%s:%s}`, quote(x), a, quote(y), b)
	}
	return fmt.Sprintf(`[%s,%s]`, a, b)
}

// callNamed calls the named method and returns its result.
func (s *session) callNamed(a, b string, byName, reversed bool) (string, *finding) {
	id := s.nextID()
	r := s.ask(request(id, s.o.Named, s.pair(a, b, byName, reversed)))
	if why := gives(id, "")(r); why != "" {
		return "", failed("%s", why)
	}
	m, _ := parsed(r)
	got := string(m.member("result"))
	if x, err := strconv.Atoi(a); err == nil && s.isSubtract() {
		y, _ := strconv.Atoi(b) // both are ours
		if want := strconv.Itoa(x - y); !sameNumber(want, got) {
			return got, failed("%s of %s and %s is %s instead of %s", s.o.Named, a, b, shown(got), want)
		}
	}
	return got, nil
}

// isSubtract reports whether the named method is the one of the specification's examples.
func (s *session) isSubtract() bool {
	return s.o.Named == "subtract" && s.o.NamedParams[0] == "minuend" && s.o.NamedParams[1] == "subtrahend"
}

// operands are pairs of numbers for the named method.
var operands = [][2]string{{"42", "23"}, {"23", "42"}, {"5", "5"}, {"0", "0"}, {"0", "7"}, {"-3", "4"}}

func sameByName(s *session) *finding {
	for _, p := range operands {
		positional, f := s.callNamed(p[0], p[1], false, false)
		if f != nil {
			return f
		}
		named, f := s.callNamed(p[0], p[1], true, false)
		if f != nil {
			return f
		}
		if d := compareText(positional, named); d != "" {
			return failed("by position the result is %s, by name %s", shown(positional), shown(named))
		}
	}
	return nil
}

func orderOfNames(s *session) *finding {
	one, f := s.callNamed("42", "23", true, false)
	if f != nil {
		return f
	}
	other, f := s.callNamed("42", "23", true, true)
	if f != nil {
		return f
	}
	if d := compareText(one, other); d != "" {
		return failed("the result is %s, and %s with the names in the other order", shown(one), shown(other))
	}
	return nil
}

func orderOfPositions(s *session) *finding {
	for _, p := range operands {
		if _, f := s.callNamed(p[0], p[1], false, false); f != nil {
			return f
		}
	}
	return nil
}

// decimals calls the method of the specification's examples with fractions, which it may refuse.
func decimals(s *session) *finding {
	if !s.isSubtract() {
		return skipped("the results of " + s.o.Named + " are not known")
	}
	for _, byName := range []bool{false, true} {
		id := s.nextID()
		r := s.ask(request(id, s.o.Named, s.pair("0.5", "0.25", byName, false)))
		if why := either(gives(id, "0.25"), fails(id, invalidParams))(r); why != "" {
			return failed("%s", why)
		}
	}
	return nil
}

// missingRefused calls the method of the specification's examples without a param. Section 4.2
// permits both a result and an error.
func missingRefused(s *session) *finding {
	if !s.isSubtract() {
		return skipped("which params of " + s.o.Named + " may be absent is not known")
	}
	for _, params := range []string{`[42]`, `[]`, `{}`, fmt.Sprintf(`{%s:42}`, quote(s.o.NamedParams[0]))} {
		id := s.nextID()
		if why := fails(id, invalidParams)(s.ask(request(id, s.o.Named, params))); why != "" {
			return failed("%s", why)
		}
	}
	return nil
}

// caseOfNames sends names in another case, which are other names.
func caseOfNames(s *session) *finding {
	right, f := s.callNamed("42", "23", true, false)
	if f != nil {
		return f
	}
	x, y := s.o.NamedParams[0], s.o.NamedParams[1]
	for _, form := range []func(string) string{strings.ToUpper, func(n string) string { return strings.ToUpper(n[:1]) + n[1:] }} {
		if form(x) == x || form(y) == y {
			continue
		}
		id := s.nextID()
		r := s.ask(request(id, s.o.Named, fmt.Sprintf(`{%s:42,%s:23}`, quote(form(x)), quote(form(y)))))
		if why := either(gives(id, ""), fails(id, invalidParams))(r); why != "" {
			return failed("%s", why)
		}
		if m, _ := parsed(r); m.member("result") != nil && compareText(right, string(m.member("result"))) == "" {
			return failed("the names %s and %s were accepted for %s and %s; names must match exactly, including case", form(x), form(y), x, y)
		}
	}
	return nil
}

// compareText compares two JSON values.
func compareText(a, b string) string {
	if d := compare(jsonrpc.Raw(a), jsonrpc.Raw(b), "the result"); d != nil && !d.spelling && !d.order {
		return d.why
	}
	return ""
}
