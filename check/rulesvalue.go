package check

import (
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// values are params that a method echoes.
var values = []struct{ name, text string }{
	{"integers", `[0,1,-1,42,2147483647,2147483648,-2147483649]`},
	{"2^53", `[9007199254740991,9007199254740992,9007199254740993,-9007199254740993]`},
	{"2^63", `[9223372036854775807,-9223372036854775808,9223372036854775808,18446744073709551615,18446744073709551616]`},
	{"forty-digits", `[1234567890123456789012345678901234567890,-1234567890123456789012345678901234567890]`},
	{"decimals", `[0.1,-0.25,3.14159,123456.789]`},
	{"precise-decimal", `[0.1000000000000000055511151231257827,3.141592653589793238462643383279]`},
	{"small", `[1e-7,2.5e-10]`},
	{"large-in-object", `{"a":9007199254740993,"b":{"c":[12345678901234567890]}}`},
	{"words", `[true,false,null]`},
	{"falsy", `[0,false,"",null,[],{}]`},
	{"falsy-members", `{"a":0,"b":false,"c":"","d":null,"e":[],"f":{}}`},
	{"one-null", `[null]`},
	{"member-null", `{"a":null}`},
	{"nested", `[[[[[[1]]]]],{"a":{"b":{"c":{"d":[{}]}}}}]`},
	{"nested-empty", `[[],[[]],{},[{}]]`},
	{"string", `["hello, world"]`},
	{"unicode", `["é","漢字","Ω≈ç√","😀","👩‍👩‍👧‍👦","e\u0301","\u202e"]`},
	{"escapes", `["\"","\\","\/","\b\f\n\r\t","\u00e9","\ud83d\ude00"]`},
	{"nul", `["\u0000","a\u0000b"]`},
	{"control", `["\u0001\u001f\u007f"]`},
	{"html", `["<script>&amp;'</script>"]`},
	{"line-separators", `["\u2028\u2029"]`},
	{"byte-order-mark", `["\ufeffa","\ufffe"]`},
	{"white-space-in-strings", `[" a  b ","\t","  "]`},
	{"number-like", `["1","01","1e5","null","true","NaN"]`},
	{"json-in-string", `["{\"jsonrpc\":\"2.0\",\"id\":1}","[]"]`},
	{"empty-name", `{"":1}`},
	{"unicode-names", `{"é":1,"漢":2,"😀":3,"a b":4,"a.b":5,"\u0000":6}`},
	{"case-of-names", `{"a":1,"A":2,"aA":3,"Aa":4}`},
	{"names-of-objects", `{"constructor":1,"toString":2,"hasOwnProperty":3,"length":4}`},
	{"names-of-messages", `{"jsonrpc":"1.0","method":"x","params":[1],"id":99,"result":1,"error":{"code":1,"message":"x"}}`},
	{"names-of-prototypes", `{"__proto__":{"a":1},"prototype":2,"b":{"__proto__":3}}`},
	{"digits-as-names", `{"1":"a","0":"b","-1":"c","01":"d","1.0":"e"}`},
	{"quotes-in-names", `{"\"":1,"\\":2,"\n":3,"</a>":4}`},
	{"long-name", `{"` + repeated("name", 500) + `":1}`},
	{"repeated", `[1,1,1,"x","x",null,null,[],[]]`},
	{"unsorted", `[3,1,2,"b","a",30,4]`},
	{"array-of-objects", `[{"a":1},{"a":1},{"b":{"a":1}},{}]`},
	{"empty-strings", `["","",""]`},
	{"backslashes", `["\\n","\\u0041","\\\\","C:\\new\\table"]`},
	{"upper-case-escapes", `["\u00C9\uD83D\uDE00\u002F"]`},
	{"templates", `["%s %d %%","a%20b","a+b","a;b","{{x}}","${x}","<?x?>","' OR 1=1 --"]`},
	{"snake-and-camel", `{"snake_case":1,"camelCase":2,"kebab-case":3}`},
	{"dates", `["2026-02-30T00:00:00Z","2026-01-01"]`},
	{"many", "[" + strings.TrimSuffix(repeated("7,", 500), ",") + "]"},
	{"string-of-64-KiB", `["` + repeated("0123456789abcdef", 4096) + `"]`},
	{"five-thousand", "[" + strings.TrimSuffix(repeated("12345,", 5000), ",") + "]"},
	{"hundreds-of-members", "{" + manyMembers(800) + "}"},
	{"long-unicode", `["` + repeated("é漢😀z", 8000) + `"]`},
	{"long-escapes", `["` + repeated(`\u00e9\n\"\ud83d\ude00`, 4000) + `"]`},
	{"depth-100", repeated("[", 99) + "{}" + repeated("]", 99)},
	{"depth-50", repeated("[", 50) + repeated("]", 50)},
}

// manyMembers returns n members of an object.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"member%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// valueRules check that params reach a method unchanged, and results the caller.
func valueRules() (rules []rule) {
	for _, v := range values {
		rules = append(rules, sends("value/"+v.name, Expect, unwritten, `{"jsonrpc":"2.0","method":"$ECHO","params":`+v.text+`,"id":9}`, gives("9", v.text)))
	}
	exact := func(id string, level Level, text, what string, differs func(d *difference) bool) rule {
		return sends("value/"+id, level, unwritten, `{"jsonrpc":"2.0","method":"$ECHO","params":`+text+`,"id":9}`, func(r reply) string {
			m, why := parsed(r)
			if why != "" || m.member("result") == nil {
				return "" // other rules are about that
			}
			if d := compare(jsonrpc.Raw(text), m.member("result"), "the result"); d != nil && differs(d) {
				return d.why + what
			}
			return ""
		})
	}
	any := func(*difference) bool { return true }
	return append(rules,
		exact("fraction-zero", Expect, `[1.0,-3.0,100.0]`, "; for many clients 1.0 and 1 have two types", any),
		exact("negative-zero", Expect, `[-0.0]`, "", func(d *difference) bool { return !d.spelling }),
		exact("negative-zero/integer", Should, `[-0]`, "", any), // many languages have no such integer
		rule{id: "value/sizes", level: Expect, section: unwritten, on: anyKind, needs: "$ECHO", run: sizes},
		exact("exponents", Should, `[1e2,1E+2,1.5e3,2.50]`, "", any),
		exact("order-of-names", Should, `{"z":1,"a":2,"m":3}`, "", any),
		sends("value/beyond-float64", Expect, unwritten, `{"jsonrpc":"2.0","method":"$ECHO","params":[1e400,-1e400,1e-400],"id":9}`,
			either(gives("9", `[1e400,-1e400,1e-400]`), fails("9 or null", parseError, invalidRequest, invalidParams, internalError))),
		lenient(sends("value/lone-surrogate", Free, jsonText+"8.2", `{"jsonrpc":"2.0","method":"$ECHO","params":["\ud800"],"id":9}`, either(answered("9"), fails("9 or null", parseError, invalidRequest, invalidParams)))),
	)
}

// sizes sends messages whose length is at the sizes of buffers, or next to them.
func sizes(s *session) *finding {
	for _, about := range []int{512, 1024, 4096, 8192, 16384, 32768, 65536, 131072} {
		for n := about - 2; n <= about+1; n++ {
			empty := request("9", s.o.Echo, `[""]`)
			text := `["` + repeated("s", n-len(empty)) + `"]`
			if why := gives("9", text)(s.ask(request("9", s.o.Echo, text))); why != "" {
				return failed("a message of %d bytes: %s", n, why)
			}
		}
	}
	return nil
}

func notificationRules() []rule {
	note := func(id, payload string) rule { return silent("notification/"+id, Must, sectNotify, payload) }
	rules := []rule{
		note("known", `{"jsonrpc":"2.0","method":"$ECHO","params":[1,2]}`),
		note("no-params", `{"jsonrpc":"2.0","method":"$ANY"}`),
		note("named-params", `{"jsonrpc":"2.0","method":"$ANY","params":{"a":1}}`),
		note("example", `{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`),
		note("unknown-method", `{"jsonrpc":"2.0","method":"$NONE","params":[1]}`),
		note("example-foobar", `{"jsonrpc": "2.0", "method": "foobar"}`),
		note("failing", `{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4711,"message":"of a notification"}}`),
		note("panicking", `{"jsonrpc":"2.0","method":"$PANIC"}`),
		note("wrong-params", `{"jsonrpc":"2.0","method":"$NAMED","params":["x","y"]}`),
		note("wrong-names", `{"jsonrpc":"2.0","method":"$NAMED","params":{"parley-check":1}}`),
		note("sleeping", `{"jsonrpc":"2.0","method":"$SLEEP","params":{"ms":20}}`),
		note("reserved", `{"jsonrpc":"2.0","method":"rpc.parley-check-unknown"}`),
		note("id-in-params", `{"jsonrpc":"2.0","method":"$ANY","params":{"id":7}}`),
		note("id-in-unknown-member", `{"jsonrpc":"2.0","method":"$ANY","params":[],"_id":7}`),
	}
	for _, r := range []struct{ id, payload string }{
		{"http/notification-status", `{"jsonrpc":"2.0","method":"$ANY","params":[]}`},
		{"http/notification-status/unknown", `{"jsonrpc":"2.0","method":"$NONE"}`},
		{"http/notification-status/failing", `{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4711,"message":"x"}}`},
		{"http/notification-status/panicking", `{"jsonrpc":"2.0","method":"$PANIC"}`},
		{"http/notification-status/wrong-params", `{"jsonrpc":"2.0","method":"$NAMED","params":["x","y"]}`},
		{"http/notification-status/batch", `[{"jsonrpc":"2.0","method":"$ANY","params":[]},{"jsonrpc":"2.0","method":"$NONE"}]`},
	} {
		rules = append(rules, rule{id: r.id, level: Expect, section: unwritten, on: kindHTTP, needs: r.payload, run: func(s *session) *finding {
			got := s.tell(s.fill(r.payload))
			if s.lastReceived = fmt.Sprintf("HTTP %d %s", got.status, got.raw); got.raw != nil || got.status == 204 || got.status == 202 {
				return nil // a message is a violation of another rule
			}
			if got.err != nil {
				return failed("%s", got.absence())
			}
			return failed("the status is %d; a notification gets 204 (or 202) without a body", got.status)
		}})
	}
	return rules
}

func one(id, text string) member { return member{id: id, result: text} }

// batchValues are params of a batch, and batchFailures what its calls of the failing method return.
var (
	batchValues   = []string{`{"a":9007199254740993,"b":[0,false,"",null,{},[]]}`, `[1.5,-0.25,"é漢😀\u0000\"\\"]`, `[[],null]`}
	batchFailures = []failure{{"", "7", `"with data é"`, `{"a":[null,0]}`}, {"", "-8", `"without data"`, ""}, {"", "9", `""`, `[1]`}}
)

func batchRules() []rule {
	bad := member{id: "null", codes: []string{invalidRequest}}
	any := func(id string) member { return member{id: id, result: "*"} }
	usual := func(id string) member { return member{id: id, usual: true} }
	none := func(id string) member { return member{id: id, codes: []string{noMethod}} }
	batch := func(id, payload string, w want) rule {
		return sends("batch/"+id, Must, sectBatch, payload, w)
	}
	var allIDs []string
	var allWant []member
	for _, id := range ids {
		if !id.mayReject && id.name != "escapes" && id.name != "surrogate-pair" {
			allIDs = append(allIDs, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":`+id.text+`}`)
			allWant = append(allWant, usual(id.text))
		}
	}
	var hundred []string
	var hundredWant []member
	for i := range 100 {
		hundred = append(hundred, fmt.Sprintf(`{"jsonrpc":"2.0","method":"$ECHO","params":[%d,"x"],"id":%d}`, i*7, i))
		hundredWant = append(hundredWant, one(fmt.Sprint(i), fmt.Sprintf(`[%d,"x"]`, i*7)))
	}
	return []rule{
		batch("empty", `[]`, fails("null", invalidRequest)),
		batch("empty-with-space", ` [ ] `, fails("null", invalidRequest)),
		batch("one-invalid", `[1]`, members(bad)),
		batch("three-invalid", `[1,2,3]`, members(bad, bad, bad)),
		batch("invalid-kinds", `[null,true,"x",{},[]]`, members(bad, bad, bad, bad, bad)),
		batch("nested", `[[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1}]]`, members(bad)),
		batch("one", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1}]`, members(usual("1"))),
		batch("two", `[{"jsonrpc":"2.0","method":"$ECHO","params":["a"],"id":1},{"jsonrpc":"2.0","method":"$ECHO","params":["b"],"id":2}]`, members(one("1", `["a"]`), one("2", `["b"]`))),
		batch("unknown-method", `[{"jsonrpc":"2.0","method":"$NONE","id":"5"}]`, members(none(`"5"`))),
		batch("with-notification", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1},{"jsonrpc":"2.0","method":"$ANY","params":[2]},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":3}]`, members(usual("1"), usual("3"))),
		batch("notification-first", `[{"jsonrpc":"2.0","method":"$NONE"},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1}]`, members(usual("1"))),
		batch("notification-last", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1},{"jsonrpc":"2.0","method":"$ANY","params":[]}]`, members(usual("1"))),
		batch("failing-notification", `[{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4711,"message":"x"}},{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4712,"message":"y"},"id":2}]`, members(member{id: "2", codes: []string{"4712"}})),
		batch("panicking-notification", `[{"jsonrpc":"2.0","method":"$PANIC"},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":2}]`, members(usual("2"))),
		batch("wrong-params-notification", `[{"jsonrpc":"2.0","method":"$NAMED","params":["x","y"]},{"jsonrpc":"2.0","method":"$NAMED","params":["x","y"],"id":2}]`, members(member{id: "2", codes: []string{invalidParams}})),
		batch("panicking", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1},{"jsonrpc":"2.0","method":"$PANIC","id":2},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":3}]`, members(usual("1"), member{id: "2"}, usual("3"))),
		batch("example", `[{"jsonrpc": "2.0", "method": "$ECHO", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method": "$NONE", "params": [7]},{"jsonrpc": "2.0", "method": "$ECHO", "params": [42,23], "id": "2"},{"foo": "boo"},{"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},{"jsonrpc": "2.0", "method": "$ECHO", "params": {"hello":5}, "id": "9"}]`,
			members(one(`"1"`, `[1,2,4]`), one(`"2"`, `[42,23]`), bad, none(`"5"`), one(`"9"`, `{"hello":5}`))),
		batch("invalid-between", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1},1,{"jsonrpc":"2.0","method":"$ANY","params":[],"id":2},{"jsonrpc":"1.0","method":"$ANY","id":3}]`, members(usual("1"), bad, usual("2"), member{id: "3", codes: []string{invalidRequest}, orNull: true})),
		batch("invalid-members-with-id", `[{"jsonrpc":"2.0","method":1,"id":1},{"jsonrpc":"2.0","id":2},{"method":"$ANY","id":3}]`, members(member{id: "1", codes: []string{invalidRequest}, orNull: true}, member{id: "2", codes: []string{invalidRequest}, orNull: true}, member{id: "3", codes: []string{invalidRequest}, orNull: true})),
		batch("invalid-ids", `[{"jsonrpc":"2.0","method":"$ANY","id":{}},{"jsonrpc":"2.0","method":"$ANY","id":true},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":3}]`, members(bad, bad, usual("3"))),
		batch("scalar-params", `[{"jsonrpc":"2.0","method":"$ECHO","params":"bar","id":1},{"jsonrpc":"2.0","method":"$ECHO","params":["x"],"id":2}]`, members(member{id: "1", codes: []string{invalidRequest, invalidParams}, orNull: true}, one("2", `["x"]`))),
		batch("null-id", `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":null},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":2}]`, members(usual("null"), usual("2"))),
		batch("all-ids", "["+strings.Join(allIDs, ",")+"]", members(allWant...)),
		batch("number-and-string-id", `[{"jsonrpc":"2.0","method":"$ECHO","params":["number"],"id":1},{"jsonrpc":"2.0","method":"$ECHO","params":["string"],"id":"1"}]`, members(one("1", `["number"]`), one(`"1"`, `["string"]`))),
		batch("hundred", "["+strings.Join(hundred, ",")+"]", members(hundredWant...)),
		batch("mixed-results", `[{"jsonrpc":"2.0","method":"$NONE","id":1},{"jsonrpc":"2.0","method":"$ECHO","params":[],"id":2},{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4713,"message":"m","data":[1]},"id":3},{"jsonrpc":"2.0","method":"$ECHO","params":{"a":null},"id":4}]`, members(none("1"), one("2", "[]"), member{id: "3", codes: []string{"4713"}}, one("4", `{"a":null}`))),
		batch("named-method", `[{"jsonrpc":"2.0","method":"$NAMED","params":{"$A":42,"$B":23},"id":1},{"jsonrpc":"2.0","method":"$NAMED","params":[42,23],"id":2}]`, members(member{id: "1", result: "*"}, member{id: "2", result: "*"})),
		batch("rpc-method", `[{"jsonrpc":"2.0","method":"rpc.parley-check-unknown","id":1}]`, members(none("1"))),
		batch("slow-and-quick", `[{"jsonrpc":"2.0","method":"$SLEEP","params":{"ms":60},"id":1},{"jsonrpc":"2.0","method":"$ECHO","params":["q"],"id":2},{"jsonrpc":"2.0","method":"$SLEEP","params":{"ms":20},"id":3}]`, members(any("1"), one("2", `["q"]`), any("3"))),
		batch("leading-space", " \t[ {\"jsonrpc\":\"2.0\",\"method\":\"$ANY\",\"params\":[],\"id\":1} , {\"jsonrpc\":\"2.0\",\"method\":\"$NONE\",\"id\":2} ] ", members(usual("1"), none("2"))),
		batch("notification-and-invalid", `[{"jsonrpc":"2.0","method":"$ANY","params":[]},1]`, members(bad)),
		batch("absent-params", `[{"jsonrpc":"2.0","method":"$ANY","id":1},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":2}]`, members(any("1"), usual("2"))),
		batch("members-reversed", `[{"id":1,"params":[],"method":"$ANY","jsonrpc":"2.0"},{"id":2,"method":"$NONE","jsonrpc":"2.0"}]`, members(usual("1"), none("2"))),
		batch("case-of-method", `[{"jsonrpc":"2.0","method":"parley-check.$ANY","id":1},{"jsonrpc":"2.0","method":" $ANY","id":2}]`, members(none("1"), none("2"))),
		sends("batch/values", Expect, unwritten, `[{"jsonrpc":"2.0","method":"$ECHO","params":`+batchValues[0]+`,"id":1},{"jsonrpc":"2.0","method":"$ECHO","params":`+batchValues[1]+`,"id":2},{"jsonrpc":"2.0","method":"$ECHO","params":`+batchValues[2]+`,"id":3}]`,
			members(one("1", batchValues[0]), one("2", batchValues[1]), one("3", batchValues[2]))),
		sends("batch/errors", Expect, unwritten, `[{"jsonrpc":"2.0","method":"$FAIL","params":`+batchFailures[0].params()+`,"id":1},{"jsonrpc":"2.0","method":"$FAIL","params":`+batchFailures[1].params()+`,"id":2},{"jsonrpc":"2.0","method":"$FAIL","params":`+batchFailures[2].params()+`,"id":3}]`,
			members(member{id: "1", fault: &batchFailures[0]}, member{id: "2", fault: &batchFailures[1]}, member{id: "3", fault: &batchFailures[2]})),
		sends("batch/duplicate-ids", Expect, unwritten, `[{"jsonrpc":"2.0","method":"$ECHO","params":["a"],"id":1},{"jsonrpc":"2.0","method":"$ECHO","params":["b"],"id":1}]`, members(any("1"), any("1"))),
		sends("batch/order", Free, sectBatch, `[{"jsonrpc":"2.0","method":"$ANY","params":[],"id":1},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":2},{"jsonrpc":"2.0","method":"$ANY","params":[],"id":3}]`, members(usual("1"), usual("2"), usual("3"))),
		silent("batch/one-notification", Must, sectBatch, `[{"jsonrpc":"2.0","method":"$ANY","params":[]}]`),
		silent("batch/notifications", Must, sectBatch, `[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]`),
		silent("batch/known-notifications", Must, sectBatch, `[{"jsonrpc":"2.0","method":"$ECHO","params":[1]},{"jsonrpc":"2.0","method":"$ECHO","params":{"a":1}}]`),
		silent("batch/failing-notifications", Must, sectBatch, `[{"jsonrpc":"2.0","method":"$FAIL","params":{"code":4711,"message":"x"}},{"jsonrpc":"2.0","method":"$NONE"}]`),
	}
}

// A failure is what the failing method returns.
type failure struct{ name, code, message, data string }

var failures = []failure{
	{"plain", "1001", `"plain"`, ""}, {"one", "1", `"one"`, ""}, {"negative", "-42", `"negative"`, ""}, {"server-error", "-32050", `"server"`, ""},
	{"first-server-error", "-32000", `"first"`, ""}, {"last-server-error", "-32099", `"last"`, ""}, {"six-digits", "123456", `"six"`, ""}, {"2^31-1", "2147483647", `"large"`, ""},
	{"http-like", "404", `"not here"`, ""}, {"message-unicode", "7", `"é漢😀 \"quoted\" \\ \n"`, ""}, {"message-html", "7", `"<b>&</b>"`, ""}, {"message-empty", "7", `""`, ""},
	{"data-object", "7", `"d"`, `{"a":[1,{"b":null}],"c":"é"}`}, {"data-array", "7", `"d"`, `[1,2,3]`}, {"data-string", "7", `"d"`, `"text"`}, {"data-number", "7", `"d"`, `42`},
	{"data-large-number", "7", `"d"`, `9007199254740993`}, {"data-false", "7", `"d"`, `false`}, {"data-zero", "7", `"d"`, `0`}, {"data-empty-string", "7", `"d"`, `""`},
	{"data-empty-array", "7", `"d"`, `[]`}, {"data-empty-object", "7", `"d"`, `{}`}, {"data-true", "7", `"d"`, `true`}, {"data-nested-falsy", "7", `"d"`, `{"a":0,"b":false,"c":"","d":null}`},
	{"data-null", "7", `"d"`, `null`}, {"data-unicode", "7", `"d"`, `"é漢😀\u0000\u2028"`}, {"data-decimals", "7", `"d"`, `[0.5,-1.25]`}, {"zero", "0", `"zero"`, ""},
	{"message-control", "7", `"a\u0000\u001f\u2028\t"`, ""}, {"message-long", "7", `"` + repeated("long ", 400) + `"`, ""}, {"-2^31", "-2147483648", `"small"`, ""},
}

func (f failure) params() string {
	text := `{"code":` + f.code + `,"message":` + f.message
	if f.data != "" {
		text += `,"data":` + f.data
	}
	return text + "}"
}

// same wants the error of the failing method, unchanged.
func (f failure) same(id string) want {
	return func(r reply) string {
		m, why := responseTo(id, r)
		if why != "" {
			return why
		}
		if why := errorIs(m, f.code); why != "" {
			return why
		}
		if d := compare(jsonrpc.Raw(f.message), m.sub("error", "message"), "the message"); d != nil {
			return d.why
		}
		got := m.sub("error", "data")
		switch {
		case f.data == "" && got != nil && string(got) != "null":
			return fmt.Sprintf("the error has data that was not sent: %s", cut(got))
		case f.data == "", f.data == "null" && got == nil:
			return ""
		case got == nil:
			return fmt.Sprintf("the data %s is missing", f.data)
		}
		if d := compare(jsonrpc.Raw(f.data), got, "the data"); d != nil && !d.order {
			return d.why
		}
		return ""
	}
}

func failRules() (rules []rule) {
	for _, f := range failures {
		level := Expect
		if f.name == "data-large-number" {
			level = Should // the value is in the message twice: as a param, and as data
		}
		rules = append(rules, sends("fail/"+f.name, level, sectError, `{"jsonrpc":"2.0","method":"$FAIL","params":`+f.params()+`,"id":11}`, f.same("11")))
	}
	return append(rules,
		sends("panic/response", Must, sectReply, `{"jsonrpc":"2.0","method":"$PANIC","id":12}`, fails("12")),
		sends("panic/code", Expect, sectError, `{"jsonrpc":"2.0","method":"$PANIC","params":[],"id":12}`, fails("12", internalError)),
		sends("panic/string-id", Must, sectReply, `{"jsonrpc":"2.0","method":"$PANIC","params":{},"id":"p"}`, fails(`"p"`)),
		keeps("panic/connection", `{"jsonrpc":"2.0","method":"$PANIC","id":12}`),
		rule{id: "panic/server", level: Must, section: sectReply, on: anyKind, needs: "$PANIC", run: func(s *session) *finding {
			for range 20 {
				id := s.nextID()
				if why := fails(id)(s.ask(request(id, s.o.Panic, ""))); why != "" {
					return failed("%s", why)
				}
			}
			return s.alive()
		}},
	)
}

// stateRules check that a call does not change the next one.
func stateRules() []rule {
	steps := func(id, needs string, f func(s *session) *finding) rule {
		return rule{id: "state/" + id, level: Expect, section: unwritten, on: anyKind, needs: needs, run: f}
	}
	call := func(s *session, payload string, w want) *finding { return reason(w(s.ask(s.fill(payload)))) }
	return []rule{
		steps("same-call-again", "$ECHO", func(s *session) *finding {
			for i := range 20 {
				if f := call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":["again"],"id":13}`, gives("13", `["again"]`)); f != nil {
					return failed("call %d: %s", i+1, f.why)
				}
			}
			return nil
		}),
		steps("params-not-remembered", "$ECHO", func(s *session) *finding {
			if f := call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":{"first":1,"both":1},"id":13}`, gives("13", "")); f != nil {
				return f
			}
			if f := call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":{"both":2},"id":13}`, gives("13", `{"both":2}`)); f != nil {
				return f
			}
			r := s.ask(s.fill(`{"jsonrpc":"2.0","method":"$ECHO","id":13}`))
			if strings.Contains(string(r.raw), `"both"`) {
				return failed("a call without params got the params of the call before it")
			}
			return nil
		}),
		steps("names-not-remembered", "$NAMED", func(s *session) *finding {
			before, f := s.callNamed("42", "23", true, false)
			if f != nil {
				return f
			}
			r := s.ask(s.fill(`{"jsonrpc":"2.0","method":"$NAMED","params":{"$A":42},"id":13}`))
			if m, why := parsed(r); why == "" && m.member("result") != nil && compareText(before, string(m.member("result"))) == "" {
				return failed("a call without the second param got its value from the call before it")
			}
			return nil
		}),
		steps("error-not-remembered", "$FAIL $ECHO", func(s *session) *finding {
			with, without := failures[12], failures[0]
			for _, step := range []struct {
				payload string
				w       want
			}{
				{`{"jsonrpc":"2.0","method":"$FAIL","params":` + with.params() + `,"id":13}`, with.same("13")},
				{`{"jsonrpc":"2.0","method":"$FAIL","params":` + without.params() + `,"id":14}`, without.same("14")},
				{`{"jsonrpc":"2.0","method":"$ECHO","params":[1],"id":15}`, gives("15", "[1]")},
				{`{"jsonrpc":"2.0","method":"$NONE","id":16}`, func(r reply) string {
					m, why := parsed(r)
					if why == "" && strings.Contains(string(m.sub("error", "data")), `"c":"é"`) {
						return "the data of an earlier error was sent"
					}
					return fails("16", noMethod)(r)
				}},
			} {
				if f := call(s, step.payload, step.w); f != nil {
					return f
				}
			}
			return nil
		}),
		steps("id-not-remembered", "", func(s *session) *finding {
			if f := call(s, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":"before"}`, answered(`"before"`)); f != nil {
				return f
			}
			if f := call(s, badJSON["example"], fails("null", parseError)); f != nil {
				return f
			}
			if f := call(s, `[]`, fails("null", invalidRequest)); f != nil {
				return f
			}
			return call(s, `{"jsonrpc":"2.0","method":"$ANY","params":[],"id":"after"}`, answered(`"after"`))
		}),
		steps("id-used-again", "$ECHO", func(s *session) *finding {
			for i := range 5 {
				p := fmt.Sprintf(`["use",%d]`, i)
				if f := call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":`+p+`,"id":1}`, gives("1", p)); f != nil {
					return failed("use %d of the id: %s", i+1, f.why)
				}
			}
			return nil
		}),
		steps("new-connection", "$ECHO", func(s *session) *finding {
			if f := call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":["old connection"],"id":13}`, gives("13", "")); f != nil {
				return f
			}
			s.hangUp()
			return call(s, `{"jsonrpc":"2.0","method":"$ECHO","params":["new"],"id":13}`, gives("13", `["new"]`))
		}),
	}
}

// callRules check the calls of the options.
func callRules(o *Options) (rules []rule) {
	for i, c := range o.Calls {
		rules = append(rules, rule{id: fmt.Sprintf("call/%d-%s", i+1, c.Method), level: Must, section: "--result", on: anyKind, run: func(s *session) *finding {
			id := s.nextID()
			return reason(gives(id, string(c.Result))(s.ask(request(id, c.Method, string(c.Params)))))
		}})
	}
	return rules
}
