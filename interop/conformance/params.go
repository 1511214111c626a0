package conformance

import "strings"

// paramsRules returns the rules about params and their use by methods.
func paramsRules() []payload {
	const s42 = jsonrpc2 + "4.2"
	var rules []payload
	add := func(source, id, method, params string, a answer) {
		rules = append(rules, payload{id: "params/" + id, source: source, sends: `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`, wants: one(a)})
	}
	good := func(source, id, method, params, result string) { add(source, id, method, params, ok("1", result)) }
	bad := func(id, method, params, pointer string) {
		a := fault("1", -32602)
		a.pointer = pointer
		add(answers4+"bad params", id, method, params, a)
		rules = append(rules, payload{id: "params/" + id + "/no-id", source: jsonrpc2 + "4.1", sends: `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`, wants: nothing})
	}
	good(s42, "positional", "subtract", `[42,23]`, "19")
	good(s42, "positional-order", "subtract", `[23,42]`, "-19")
	good(s42, "named", "subtract", `{"minuend":42,"subtrahend":23}`, "19")
	good(s42, "named-order", "subtract", `{"subtrahend":23,"minuend":42}`, "19")
	good(s42, "named-escaped", "subtract", `{"\u006dinuend":42,"subtrahend":23}`, "19")
	good(s42, "named-space", "subtract", "{ \"minuend\"\t: 42 ,\r\"subtrahend\" : 23 }", "19")
	good(s42, "add-positional", "add", `[5,3]`, "8")
	good(s42, "add-named", "add", `{"b":3,"a":5}`, "8")
	good(s42, "sum-empty", "sum", `[]`, "0")
	good(s42, "sum-one", "sum", `[7]`, "7")
	good(s42, "sum-many", "sum", `[`+strings.Repeat("1,", 4999)+`1]`, "5000")
	good(rfc8259+"6", "exact", "subtract", `[9007199254740993,1]`, "9007199254740992")
	good(rfc8259+"6", "exact-large", "add", `[123456789012345678901234567890,1]`, "123456789012345678901234567891")
	good(rfc8259+"6", "minus-zero", "subtract", `[-0,0]`, "0")
	good(rfc8259+"6", "decimals", "add", `[0.1,0.2]`, "0.3")
	good(rfc8259+"6", "exponents", "add", `[1e2,1E+1]`, "110")
	good(rfc8259+"6", "fraction", "subtract", `[1.5,0.25]`, "1.25")
	good(rfc8259+"6", "point-zero", "subtract", `[42.0,23]`, "19")
	good(rfc8259+"6", "negatives", "subtract", `[-42,-23]`, "-19")

	// The type of an integer in rpc.discover.
	const integer = "JSON Schema 2020-12, Validation, section 6.1.1"
	good(integer, "integer/point-zero", "sleep", `[5.0]`, "5")
	good(integer, "integer/named", "sleep", `{"ms":5.00}`, "5")
	good(integer, "integer/exponent", "sleep", `[1e1]`, "10")
	good(integer, "integer/minus-zero", "sleep", `[-0.0]`, "0")
	good(integer, "integer/fraction-and-exponent", "sleep", `[0.5e1]`, "5")
	good(integer, "integer/negative-exponent", "sleep", `[50e-1]`, "5")
	bad("integer/fraction", "sleep", `[1e-1]`, "/0")
	bad("integer/past-int64", "sleep", `[1e400]`, "/0")

	bad("none-of-two", "subtract", `[]`, "/0")
	bad("one-of-two", "subtract", `[42]`, "/1")
	bad("three-of-two", "subtract", `[42,23,1]`, "/2")
	bad("four-of-two", "subtract", `[42,23,1,null]`, "/2")
	bad("empty-object", "subtract", `{}`, "/minuend")
	bad("named-missing", "subtract", `{"minuend":42}`, "/subtrahend")
	bad("named-missing-first", "subtract", `{"subtrahend":42}`, "/minuend")
	bad("named-unknown", "subtract", `{"minuend":42,"subtrahend":23,"extra":1}`, "/extra")
	bad("named-case", "subtract", `{"Minuend":42,"subtrahend":23}`, "/Minuend")
	bad("named-upper", "subtract", `{"MINUEND":42,"SUBTRAHEND":23}`, "/MINUEND")
	bad("named-both-cases", "subtract", `{"minuend":42,"subtrahend":23,"Minuend":1}`, "/Minuend")
	bad("named-nul", "subtract", `{"minuend":42,"subtrahend\u0000":23}`, "/subtrahend\x00")
	bad("named-long-s", "subtract", `{"minuend":42,"ſubtrahend":23}`, "/ſubtrahend")
	bad("named-twice", "subtract", `{"minuend":42,"minuend":42,"subtrahend":23}`, "/minuend")
	bad("named-twice-escaped", "subtract", `{"minuend":42,"subtrahend":23,"\u006dinuend":1}`, "/minuend")
	bad("named-slash", "subtract", `{"minuend":42,"subtrahend":23,"a/b~c":1}`, "/a~1b~0c")
	bad("named-empty", "subtract", `{"minuend":42,"subtrahend":23,"":1}`, "/")
	for name, v := range sorted(map[string]string{"string": `"42"`, "null": `null`, "true": `true`, "array": `[42]`, "object": `{"v":42}`, "empty-string": `""`}) {
		bad("type/"+name, "subtract", `[`+v+`,23]`, "/0")
		bad("type/"+name+"/second", "subtract", `[42,`+v+`]`, "/1")
		bad("type/"+name+"/named", "subtract", `{"minuend":42,"subtrahend":`+v+`}`, "/subtrahend")
		bad("type/"+name+"/sum", "sum", `[1,2,`+v+`]`, "/2")
	}
	bad("sum-named", "sum", `{"numbers":[1]}`, "-")
	bad("sum-empty-object", "sum", `{}`, "-")
	bad("sleep-negative", "sleep", `{"ms":-1}`, "/ms")
	bad("sleep-fraction", "sleep", `[1.5]`, "/0")
	bad("sleep-string", "sleep", `{"ms":"1"}`, "/ms")
	bad("sleep-past-int64", "sleep", `[9223372036854775808]`, "/0")
	bad("sleep-too-long", "sleep", `{"ms":9223372036854775807}`, "/ms")
	bad("countdown-negative", "countdown", `{"from":-1}`, "/from")
	bad("countdown-string", "countdown", `["3"]`, "/0")
	bad("ask-number", "ask", `[1]`, "/0")
	bad("ask-none", "ask", `[]`, "/0")
	bad("login-number", "login", `[1]`, "/0")
	bad("login-empty", "login", `{"name":""}`, "/name")
	bad("get_log-string", "get_log", `["1"]`, "/0")
	bad("get_log-negative", "get_log", `{"limit":-1}`, "/limit")
	bad("fail-none", "fail", `[]`, "/0")
	bad("fail-no-message", "fail", `[1]`, "/1")
	bad("fail-code-string", "fail", `["1","x"]`, "/0")
	bad("fail-code-fraction", "fail", `[1.5,"x"]`, "/0")
	bad("fail-code-past-int64", "fail", `[9223372036854775808,"x"]`, "/0")
	bad("fail-code-under-int64", "fail", `[-9223372036854775809,"x"]`, "/0")
	bad("fail-message-number", "fail", `[1,2]`, "/1")
	bad("fail-lone-surrogate", "fail", `[1,"\uD800"]`, "/1")
	bad("fail-four", "fail", `[1,"x",null,4]`, "/3")
	bad("fail-unknown", "fail", `{"code":1,"message":"x","detail":1}`, "/detail")
	missing := fault("1", -32602)
	missing.pointer = "/minuend"
	rules = append(rules, payload{id: "params/missing", source: answers4 + "bad params", sends: `{"jsonrpc":"2.0","id":1,"method":"subtract"}`, wants: one(missing)},
		payload{id: "params/null", source: decisions + "params null", sends: `{"jsonrpc":"2.0","id":1,"method":"subtract","params":null}`, wants: one(missing)})
	return rules
}

// methodRules returns the rules about the results of the demo's methods: requested errors, states,
// the description.
func methodRules() []payload {
	const s51 = jsonrpc2 + "5.1"
	var rules []payload
	add := func(source, id, method, params string, a answer) {
		if params != "" {
			params = `,"params":` + params
		}
		rules = append(rules, payload{id: "method/" + id, source: source, sends: `{"jsonrpc":"2.0","id":1,"method":"` + method + `"` + params + `}`, wants: one(a)})
	}
	failing := func(id, code, message, text string) {
		add(s51, "fail/"+id, "fail", `{"code":`+code+`,"message":`+message+`}`, answer{id: "1", code: code, message: text})
	}
	failing("zero", "0", `"x"`, "x")
	failing("one", "1", `"x"`, "x")
	failing("minus-one", "-1", `"x"`, "x")
	failing("server-error", "-32000", `"Server error"`, "Server error")
	failing("server-error-end", "-32099", `"Server error"`, "Server error")
	failing("reserved", "-32768", `"x"`, "x")
	failing("parse-error", "-32700", `"Parse error"`, "Parse error")
	failing("int32-max", "2147483647", `"x"`, "x")
	failing("past-int32", "2147483648", `"x"`, "x")
	failing("past-double", "9007199254740993", `"x"`, "x")
	failing("int64-max", "9223372036854775807", `"x"`, "x")
	failing("int64-min", "-9223372036854775808", `"x"`, "x")
	failing("no-text", "1", `""`, "")
	failing("utf8", "1", `"é😀"`, "é😀")
	failing("escapes", "1", `"\"\\\/\b\f\n\r\t\u0001"`, "\"\\/\b\f\n\r\t\x01")
	failing("nul", "1", `"a\u0000b"`, "a\x00b")
	failing("html", "1", `"<b>&</b>"`, "<b>&</b>")
	failing("separators", "1", `"\u2028\u2029"`, "\u2028\u2029")
	failing("long", "1", `"`+strings.Repeat("m", 65536)+`"`, strings.Repeat("m", 65536))
	failing("pair", "1", `"\ud83d\ude00"`, "😀")
	for name, v := range sorted(map[string]string{
		"null": `null`, "true": `true`, "false": `false`, "zero": `0`, "number": `9007199254740993`, "decimal": `1.0`, "exp": `1E400`, "string": `"x"`, "empty-string": `""`, "array": `[]`, "object": `{}`, "nested": `{"a":[1,{"b":null}]}`, "escaped": `"\u0061\/"`, "lone-surrogate": `"\uD800"`, "spaces": `[ 1 , 2 ]`, "twice": `{"a":1,"a":2}`, "deep": strings.Repeat("[", 300) + strings.Repeat("]", 300),
	}) {
		add(s51, "fail/data/"+name, "fail", `{"code":1,"message":"x","data":`+v+`}`, answer{id: "1", code: "1", message: "x", data: v})
		add(s51, "fail/data-positional/"+name, "fail", `[1,"x",`+v+`]`, answer{id: "1", code: "1", message: "x", data: v})
	}
	add(s51, "fail/positional", "fail", `[5,"five"]`, answer{id: "1", code: "5", message: "five"})
	rules = append(rules, payload{id: "method/fail/no-id", source: jsonrpc2 + "4.1", sends: `{"jsonrpc":"2.0","method":"fail","params":[5,"five"]}`, wants: nothing})

	panicked := fault("1", -32603)
	add(answers4+"handler panics", "panic", "panic", "", panicked)
	add(answers4+"handler panics", "panic/params", "panic", `[1,2]`, panicked)
	rules = append(rules, payload{id: "method/panic/no-id", source: answers4 + "handler panics", sends: `{"jsonrpc":"2.0","method":"panic"}`, wants: nothing},
		payload{id: "method/panic/batch", source: answers4 + "handler panics", sends: `[{"jsonrpc":"2.0","id":1,"method":"panic"},{"jsonrpc":"2.0","id":2,"method":"get_data"},{"jsonrpc":"2.0","method":"panic"},{"jsonrpc":"2.0","id":3,"method":"panic"}]`,
			wants: array(panicked, ok("2", data), fault("3", -32603))})
	add(s51, "get_data", "get_data", "", ok("1", data))
	add(s51, "get_data/empty", "get_data", `[]`, ok("1", data))
	add(s51, "update", "update", `[1,2,3]`, ok("1", "null"))
	add(s51, "notify_hello", "notify_hello", `[7]`, ok("1", "null"))
	add(s51, "notify_sum", "notify_sum", `{"a":1}`, ok("1", "null"))
	add(s51, "echo/none", "echo", "", ok("1", "null"))
	add(s51, "sleep/zero", "sleep", `[0]`, ok("1", "0"))
	add(s51, "sleep/five", "sleep", `{"ms":5}`, ok("1", "5"))
	add(s51, "whoami/unknown", "whoami", `["nobody"]`, answer{id: "1", code: "1003", data: "*"})
	add(s51, "counter/unknown", "counter", `{"token":"nobody","by":2}`, answer{id: "1", code: "1003", data: "*"})
	add(s51, "get_log/none", "get_log", `[0]`, ok("1", "[]"))
	add(s51, "login", "login", `["ada"]`, ok("1", "*"))
	add(s51, "log_event", "log_event", `["door"]`, ok("1", "*"))
	add(jsonrpc2+"8", "discover", "rpc.discover", "", ok("1", "*"))
	add(jsonrpc2+"8", "discover/empty", "rpc.discover", `[]`, ok("1", "*"))
	rules = append(rules, payload{id: "method/discover/no-id", source: jsonrpc2 + "8", sends: `{"jsonrpc":"2.0","method":"rpc.discover"}`, wants: nothing})
	for _, m := range []string{"subtract", "add", "sum", "get_data", "echo", "update", "notify_hello", "notify_sum", "login", "whoami", "counter", "log_event", "get_log", "fail", "sleep", "countdown"} {
		sends := `{"jsonrpc":"2.0","method":"` + m + `","params":[0]}`
		rules = append(rules, payload{id: "method/" + m + "/silent", source: jsonrpc2 + "4.1", sends: sends, wants: nothing},
			payload{id: "method/" + m + "/silent/batch", source: jsonrpc2 + "6", sends: "[" + sends + "]", wants: nothing})
	}
	return rules
}
