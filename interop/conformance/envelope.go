package conformance

import "strings"

const (
	jsonrpc2  = "JSON-RPC 2.0, section "
	decisions = "Decisions, "
	answers4  = "Bad input, "
	limits2   = "Limits, one message"
)

const data = `["hello",5]`

// envelopeRules returns the rules about the members of a request.
func envelopeRules() []payload {
	var rules []payload
	add := func(source, id, sends string, w want) {
		rules = append(rules, payload{id: "envelope/" + id, source: source, sends: sends, wants: w})
	}
	invalid := func(id string) want { return one(fault(id, -32600)) }
	const s4 = jsonrpc2 + "4"

	// The 15 examples.
	for _, e := range examples {
		rules = append(rules, payload{id: "example/" + e.name, source: jsonrpc2 + "7", sends: e.sends, wants: e.wants})
	}

	// jsonrpc
	for name, v := range sorted(map[string]string{
		"1.0": `"1.0"`, "1.1": `"1.1"`, "2": `"2"`, "2.00": `"2.00"`, "2.1": `"2.1"`, "3.0": `"3.0"`, "02.0": `"02.0"`, "space-before": `" 2.0"`, "space-after": `"2.0 "`, "v2.0": `"v2.0"`, "empty": `""`, "comma": `"2,0"`, "nul": `"2.0\u0000"`, "wide": `"２.０"`, "newline": `"2.0\n"`,
		"number-2.0": `2.0`, "number-2": `2`, "number-20e-1": `20e-1`, "null": `null`, "true": `true`, "false": `false`, "array": `["2.0"]`, "object": `{"v":"2.0"}`, "empty-array": `[]`, "empty-object": `{}`, "lone-surrogate": `"2.0\uD800"`, "prefix": `"2."`, "long": `"2.0` + strings.Repeat("0", 1000) + `"`,
	}) {
		add(s4, "jsonrpc/"+name, `{"jsonrpc":`+v+`,"id":7,"method":"get_data"}`, invalid("7"))
		add(decisions+"no id and a wrong version", "jsonrpc/"+name+"/no-id", `{"jsonrpc":`+v+`,"method":"update"}`, invalid("null"))
	}
	add(s4, "jsonrpc/missing", `{"id":"a","method":"get_data"}`, invalid(`"a"`))
	add(decisions+"no id and a missing version", "jsonrpc/missing/no-id", `{"method":"update"}`, invalid("null"))
	add(s4, "jsonrpc/escaped", `{"jsonrpc":"\u0032\u002e\u0030","id":1,"method":"get_data"}`, one(ok("1", data)))
	add(s4, "jsonrpc/escaped-wrong", `{"jsonrpc":"\u0032\u002e\u0031","id":1,"method":"get_data"}`, invalid("1"))
	add(s4, "jsonrpc/missing-null-id", `{"method":"get_data","id":null}`, invalid("null"))
	add(decisions+"1.0 only where switched on", "jsonrpc/1.0-call", `{"method":"get_data","params":[],"id":1}`, invalid("1"))
	add(decisions+"1.0 only where switched on", "jsonrpc/1.0-notification", `{"method":"update","params":[],"id":null}`, invalid("null"))

	// method
	for name, v := range sorted(map[string]string{
		"number": `1`, "zero": `0`, "null": `null`, "true": `true`, "false": `false`, "array": `["get_data"]`, "object": `{"name":"get_data"}`, "empty-array": `[]`, "empty-object": `{}`, "float": `1.5`,
	}) {
		add(s4, "method/"+name, `{"jsonrpc":"2.0","id":7,"method":`+v+`}`, invalid("7"))
		add(s4, "method/"+name+"/no-id", `{"jsonrpc":"2.0","method":`+v+`}`, invalid("null"))
	}
	add(s4, "method/missing", `{"jsonrpc":"2.0","id":7}`, invalid("7"))
	add(s4, "method/missing/no-id", `{"jsonrpc":"2.0"}`, invalid("null"))
	add(s4, "method/missing/params", `{"jsonrpc":"2.0","id":7,"params":[1]}`, invalid("7"))
	add(s4, "method/missing/null-id", `{"jsonrpc":"2.0","id":null}`, invalid("null"))
	for name, v := range sorted(map[string]string{
		"empty": ``, "blank": ` `, "upper": `GET_DATA`, "title": `Get_data`, "space-before": ` get_data`, "space-after": `get_data `, "nul-after": `get_data\u0000`, "newline-after": `get_data\n`, "prefix": `get_dat`, "suffix": `get_dataa`, "dash": `get-data`, "dot": `get.data`, "slash": `demo/get_data`,
		"unknown": `foobar`, "utf8": `mëthod`, "emoji": `😀`, "wide": `ｇｅｔ_data`, "dotless": `subtraｃt`, "long-s": `ſubtract`, "quote": `\"`, "backslash": `\\`, "nul": `\u0000`, "pair": `\ud83d\ude00`, "number-like": `1`, "null-like": `null`, "proto": `__proto__`, "constructor": `constructor`, "to-string": `toString`, "del": "\x7f", "bidi": "\u202eget_data", "zero-width": "get\u200b_data", "combining": "e\u0301cho", "64-letters": strings.Repeat("m", 64), "65-letters": strings.Repeat("m", 65), "64k": strings.Repeat("m", 65536), "64k-escaped": strings.Repeat(`\u006d`, 65536), "one-megabyte": strings.Repeat("é", 1<<19),
	}) {
		add(jsonrpc2+"5.1", "method/not-found/"+name, `{"jsonrpc":"2.0","id":7,"method":"`+v+`"}`, one(fault("7", -32601)))
		add(jsonrpc2+"4.1", "method/not-found/"+name+"/no-id", `{"jsonrpc":"2.0","method":"`+v+`"}`, nothing)
	}
	add(rfc8259+"7", "method/escaped", `{"jsonrpc":"2.0","id":7,"method":"\u0067et_d\u0061ta"}`, one(ok("7", data)))
	add(rfc8259+"7", "method/all-escaped", `{"jsonrpc":"2.0","id":7,"method":"\u0067\u0065\u0074\u005f\u0064\u0061\u0074\u0061"}`, one(ok("7", data)))
	for name, v := range sorted(map[string]string{"high": `\uD800`, "low": `\uDC00`, "after-good": `get_data\uDFFF`, "before-good": `\uDEADget_data`, "two-highs": `\uD83D\uD83D`, "reversed": `\uDE00\uD83D`}) {
		add(decisions+"lone surrogate", "method/lone/"+name, `{"jsonrpc":"2.0","id":7,"method":"`+v+`"}`, invalid("7"))
		add(decisions+"lone surrogate", "method/lone/"+name+"/no-id", `{"jsonrpc":"2.0","method":"`+v+`"}`, invalid("null"))
	}

	// rpc.*
	for _, v := range []string{"rpc.", "rpc.foo", "rpc.discover2", "rpc.Discover", "rpc.system.listMethods", "rpc.on", "rpc..discover", "rpc.discover "} {
		add(jsonrpc2+"8", "reserved/"+v, `{"jsonrpc":"2.0","id":1,"method":"`+v+`"}`, one(fault("1", -32601)))
		add(jsonrpc2+"8", "reserved/"+v+"/no-id", `{"jsonrpc":"2.0","method":"`+v+`"}`, nothing)
	}
	for _, v := range []string{"rpc", "rpcx", "RPC.discover", "Rpc.discover", "system.listMethods", "rpc/discover"} {
		add(jsonrpc2+"8", "unreserved/"+v, `{"jsonrpc":"2.0","id":1,"method":"`+v+`"}`, one(fault("1", -32601)))
	}

	// params
	for name, v := range sorted(map[string]string{"number": `1`, "zero": `0`, "string": `"x"`, "empty-string": `""`, "true": `true`, "false": `false`, "float": `-1.5e3`, "long-string": `"` + strings.Repeat("p", 1000) + `"`}) {
		add(jsonrpc2+"4.2", "params/"+name, `{"jsonrpc":"2.0","id":7,"method":"echo","params":`+v+`}`, invalid("7"))
		add(decisions+"scalar params", "params/"+name+"/no-id", `{"jsonrpc":"2.0","method":"update","params":`+v+`}`, invalid("null"))
		add(jsonrpc2+"4.2", "params/"+name+"/unknown-method", `{"jsonrpc":"2.0","id":7,"method":"foobar","params":`+v+`}`, invalid("7"))
	}
	add(jsonrpc2+"4", "params/missing", `{"jsonrpc":"2.0","id":7,"method":"echo"}`, one(ok("7", "null")))
	add(decisions+"params null", "params/null", `{"jsonrpc":"2.0","id":7,"method":"echo","params":null}`, one(ok("7", "null")))
	add(decisions+"params null", "params/null/no-id", `{"jsonrpc":"2.0","method":"update","params":null}`, nothing)
	add(decisions+"params null", "params/null/sum", `{"jsonrpc":"2.0","id":7,"method":"sum","params":null}`, one(ok("7", "0")))
	add(decisions+"params null", "params/null-space", `{"jsonrpc":"2.0","id":7,"method":"echo","params": null }`, one(ok("7", "null")))
	for name, v := range sorted(map[string]string{"empty-array": `[]`, "empty-object": `{}`, "null-in-array": `[null]`, "spaces": `[ 1 , { "a" : [ ] } ]`, "name-null": `{"a":null}`, "tabs": "{\t\"a\"\t:\t1\t}"}) {
		add(jsonrpc2+"4.2", "params/"+name, `{"jsonrpc":"2.0","id":7,"method":"echo","params":`+v+`}`, one(ok("7", v)))
	}
	add(jsonrpc2+"4.2", "params/any-for-get_data", `{"jsonrpc":"2.0","id":7,"method":"update","params":{"any":["thing"]}}`, one(ok("7", "null")))

	// Case and names.
	const cased = jsonrpc2 + "2"
	add(cased, "case/Method", `{"jsonrpc":"2.0","id":7,"Method":"get_data"}`, invalid("7"))
	add(cased, "case/METHOD", `{"jsonrpc":"2.0","id":7,"METHOD":"get_data"}`, invalid("7"))
	add(cased, "case/method-and-Method", `{"jsonrpc":"2.0","id":7,"method":"get_data","Method":"foobar"}`, one(ok("7", data)))
	add(cased, "case/METHOD-first", `{"jsonrpc":"2.0","id":7,"METHOD":1,"method":"get_data"}`, one(ok("7", data)))
	add(cased, "case/Jsonrpc", `{"Jsonrpc":"2.0","id":7,"method":"get_data"}`, invalid("7"))
	add(cased, "case/JSONRPC", `{"JSONRPC":"2.0","id":7,"method":"get_data"}`, invalid("7"))
	add(cased, "case/jsonRPC-too", `{"jsonRPC":"1.0","jsonrpc":"2.0","id":7,"method":"get_data"}`, one(ok("7", data)))
	add(cased, "case/ID", `{"jsonrpc":"2.0","ID":7,"method":"get_data"}`, nothing)
	add(cased, "case/Id", `{"jsonrpc":"2.0","Id":7,"method":"get_data"}`, nothing)
	add(cased, "case/id-and-ID", `{"jsonrpc":"2.0","ID":8,"id":7,"Id":[],"method":"get_data"}`, one(ok("7", data)))
	add(cased, "case/Params", `{"jsonrpc":"2.0","id":7,"method":"echo","Params":[1]}`, one(ok("7", "null")))
	add(cased, "case/PARAMS-scalar", `{"jsonrpc":"2.0","id":7,"method":"echo","PARAMS":1}`, one(ok("7", "null")))
	add(cased, "case/params-long-s", `{"jsonrpc":"2.0","id":7,"method":"echo","paramſ":[1]}`, one(ok("7", "null")))
	add(cased, "case/params-long-s-twice", `{"jsonrpc":"2.0","id":7,"method":"echo","params":[2],"paramſ":[1]}`, one(ok("7", "[2]")))
	add(cased, "case/Result-beside", `{"jsonrpc":"2.0","id":7,"method":"get_data","Result":1,"Error":2}`, one(ok("7", data)))
	add(cased, "case/kelvin", `{"jsonrpc":"2.0","id":7,"method":"get_data","\u212A":1}`, one(ok("7", data)))
	for name, member := range sorted(map[string]string{
		"method-nul": `"method\u0000":"foobar"`, "id-nul": `"id\u0000":1`, "nul-id": `"\u0000id":1`, "id-space": `"id ":1`, "space-id": `" id":1`, "empty": `"":1`, "result-nul": `"result\u0000":1`, "error-space": `"error ":1`, "unknown": `"x":1`, "unknown-object": `"x":{"method":"foobar","id":9}`, "unknown-array": `"x":[1,[2]]`, "meta": `"_meta":{"a":1}`, "auth": `"auth":"secret"`, "session": `"session":null`, "traceparent": `"traceparent":"00-0-0-00"`, "utf8": `"é":1`, "long": `"` + strings.Repeat("n", 70000) + `":1`, "many": strings.TrimSuffix(strings.Repeat(`"x":1,`, 1), ","), "null-value": `"x":null`, "dollar": `"$ref":"#/x"`, "proto": `"__proto__":{"method":"foobar"}`, "version": `"version":"1.1"`, "jsonrpc2": `"jsonrpc2":"2.0"`, "number-value": `"x":1e999`, "surrogate-value": `"x":"\uD800"`,
	}) {
		add(decisions+"unknown members ignored", "unknown/"+name, `{"jsonrpc":"2.0",`+member+`,"id":7,"method":"get_data"}`, one(ok("7", data)))
		add(decisions+"unknown members ignored", "unknown/"+name+"/last", `{"jsonrpc":"2.0","id":7,"method":"echo","params":[1],`+member+`}`, one(ok("7", "[1]")))
	}
	add(decisions+"unknown members ignored", "unknown/three-hundred", `{"jsonrpc":"2.0",`+manyMembers(300)+`,"id":7,"method":"get_data"}`, one(ok("7", data)))
	for name, member := range sorted(map[string]string{"high": `"\uD800":1`, "low": `"\uDC00":1`, "in-id": `"id\uD800":1`, "in-method": `"\uDFFFmethod":"x"`, "pair-cut": `"\uD83D":1`}) {
		add(decisions+"lone surrogate", "lone-name/"+name, `{"jsonrpc":"2.0",`+member+`,"id":7,"method":"get_data"}`, invalid("7"))
		add(decisions+"lone surrogate", "lone-name/"+name+"/last", `{"jsonrpc":"2.0","method":"update",`+member+`}`, invalid("null"))
	}
	add(rfc8259+"7", "escaped-name/method", `{"jsonrpc":"2.0","id":7,"\u006dethod":"get_data"}`, one(ok("7", data)))
	add(rfc8259+"7", "escaped-name/id", `{"jsonrpc":"2.0","\u0069\u0064":7,"method":"get_data"}`, one(ok("7", data)))
	add(rfc8259+"7", "escaped-name/jsonrpc", `{"\u006Asonrpc":"2.0","id":7,"method":"get_data"}`, one(ok("7", data)))
	add(rfc8259+"7", "escaped-name/params", `{"jsonrpc":"2.0","id":7,"method":"echo","p\u0061rams":[1]}`, one(ok("7", "[1]")))
	add(rfc8259+"7", "escaped-name/result", `{"jsonrpc":"2.0","id":7,"method":"echo","r\u0065sult":[1]}`, invalid("7"))

	// Duplicate members.
	const twice = answers4 + "duplicate envelope member"
	for name, c := range sorted(map[string][2]string{
		"method": {`{"jsonrpc":"2.0","id":7,"method":"update","method":"update"}`, "7"}, "method-other": {`{"jsonrpc":"2.0","id":7,"method":"update","method":"get_data"}`, "7"}, "method-apart": {`{"method":"update","jsonrpc":"2.0","id":7,"params":[],"method":"update"}`, "7"},
		"method-escaped": {`{"jsonrpc":"2.0","id":7,"method":"update","m\u0065thod":"update"}`, "7"}, "method-escaped-first": {`{"jsonrpc":"2.0","id":7,"\u006dethod":"update","method":"update"}`, "7"}, "method-thrice": {`{"method":"a","method":"b","jsonrpc":"2.0","id":7,"method":"c"}`, "7"}, "method-null": {`{"jsonrpc":"2.0","id":7,"method":"update","method":null}`, "7"},
		"id": {`{"jsonrpc":"2.0","id":7,"method":"update","id":7}`, "null"}, "id-other": {`{"jsonrpc":"2.0","id":7,"method":"update","id":8}`, "null"}, "id-null": {`{"jsonrpc":"2.0","id":7,"method":"update","id":null}`, "null"}, "id-bad-second": {`{"jsonrpc":"2.0","id":7,"id":{},"method":"update"}`, "null"}, "id-escaped": {`{"jsonrpc":"2.0","id":7,"\u0069d":7,"method":"update"}`, "null"}, "id-nulls": {`{"jsonrpc":"2.0","id":null,"method":"update","id":null}`, "null"},
		"jsonrpc": {`{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"update"}`, "7"}, "jsonrpc-other": {`{"jsonrpc":"1.0","jsonrpc":"2.0","id":7,"method":"update"}`, "7"}, "jsonrpc-other-second": {`{"jsonrpc":"2.0","jsonrpc":"1.0","id":7,"method":"update"}`, "7"}, "jsonrpc-string-id": {`{"jsonrpc":"2.0","jsonrpc":"2.0","id":"s","method":"update"}`, `"s"`},
		"params": {`{"jsonrpc":"2.0","id":7,"method":"update","params":[],"params":[]}`, "7"}, "params-other": {`{"jsonrpc":"2.0","id":7,"method":"update","params":[],"params":{}}`, "7"}, "params-null": {`{"jsonrpc":"2.0","id":7,"method":"update","params":[],"params":null}`, "7"}, "params-nulls": {`{"jsonrpc":"2.0","id":7,"method":"update","params":null,"params":null}`, "7"}, "params-no-id": {`{"jsonrpc":"2.0","method":"update","params":[],"params":[]}`, "null"}, "method-no-id": {`{"jsonrpc":"2.0","method":"update","method":"update"}`, "null"}, "jsonrpc-no-id": {`{"jsonrpc":"2.0","jsonrpc":"2.0","method":"update"}`, "null"},
		"unknown": {`{"jsonrpc":"2.0","x":1,"x":2,"id":7,"method":"update"}`, "7"}, "unknown-same": {`{"jsonrpc":"2.0","x":1,"x":1,"id":7,"method":"update"}`, "7"}, "unknown-escaped": {`{"jsonrpc":"2.0","x":1,"\u0078":2,"id":7,"method":"update"}`, "7"}, "unknown-apart": {`{"x":{},"jsonrpc":"2.0","id":"s","method":"update","params":[],"x":{}}`, `"s"`}, "unknown-empty": {`{"":1,"jsonrpc":"2.0","id":7,"method":"update","":2}`, "7"}, "unknown-no-id": {`{"jsonrpc":"2.0","x":1,"x":2,"method":"update"}`, "null"}, "unknown-of-many": {`{"jsonrpc":"2.0",` + manyMembers(300) + `,"member7":1,"id":7,"method":"update"}`, "7"}, "unknown-null": {`{"jsonrpc":"2.0","x":null,"x":null,"id":7,"method":"update"}`, "7"}, "unknown-pair": {`{"jsonrpc":"2.0","\ud83d\ude00":1,"😀":2,"id":7,"method":"update"}`, "7"}, "everything": {`{"jsonrpc":"2.0","id":7,"method":"update","jsonrpc":"2.0","id":7,"method":"update"}`, "null"},
	}) {
		add(twice, "twice/"+name, c[0], invalid(c[1]))
	}
	add(limits2, "twice/in-params-unread", `{"jsonrpc":"2.0","id":7,"method":"echo","params":{"a":1,"a":2}}`, one(ok("7", `{"a":1,"a":2}`)))
	add(limits2, "twice/in-unknown", `{"jsonrpc":"2.0","id":7,"method":"get_data","x":{"a":1,"a":2}}`, one(ok("7", data)))

	add(twice, "twice/unknown-in-batch", `[{"jsonrpc":"2.0","x":1,"x":2,"id":7,"method":"update"},{"jsonrpc":"2.0","x":1,"id":8,"method":"update"},{"jsonrpc":"2.0","x":1,"id":9,"method":"update"}]`, array(fault("7", -32600), ok("8", "null"), ok("9", "null")))
	add(twice, "twice/other-case-is-other", `{"jsonrpc":"2.0","x":1,"X":2,"id":7,"method":"update"}`, one(ok("7", "null")))

	// Order of members.
	add(rfc8259+"4", "order/reversed", `{"params":[1],"method":"echo","id":7,"jsonrpc":"2.0"}`, one(ok("7", "[1]")))
	add(rfc8259+"4", "order/id-last", `{"method":"echo","params":{"a":1},"jsonrpc":"2.0","id":"z"}`, one(ok(`"z"`, `{"a":1}`)))
	add(rfc8259+"4", "order/invalid-id-last", `{"params":1,"method":"echo","jsonrpc":"2.0","id":"z"}`, invalid(`"z"`))

	// Empty and near-empty.
	add(s4, "empty-object", `{}`, invalid("null"))
	add(s4, "empty-object-space", ` { } `, invalid("null"))
	add(s4, "id-only", `{"id":7}`, invalid("7"))
	add(s4, "id-only-string", `{"id":"x"}`, invalid(`"x"`))
	add(s4, "unknown-only", `{"foo":"boo"}`, invalid("null"))
	add(s4, "params-only", `{"params":[]}`, invalid("null"))
	add(s4, "method-only", `{"method":"get_data"}`, invalid("null"))
	add(decisions+"readable id is echoed", "id-beside-nothing-good", `{"jsonrpc":1,"method":2,"params":3,"id":9007199254740993}`, invalid("9007199254740993"))

	// Requests that are also responses, and responses.
	const both = answers4 + "method together with result or error"
	add(both, "mixed/result", `{"jsonrpc":"2.0","id":7,"method":"get_data","result":1}`, invalid("7"))
	add(both, "mixed/error", `{"jsonrpc":"2.0","id":7,"method":"get_data","error":{"code":1,"message":"x"}}`, invalid("7"))
	add(both, "mixed/result-null", `{"jsonrpc":"2.0","id":7,"method":"get_data","result":null}`, invalid("7"))
	add(both, "mixed/error-null", `{"jsonrpc":"2.0","id":7,"method":"get_data","error":null}`, invalid("7"))
	add(both, "mixed/both", `{"jsonrpc":"2.0","id":7,"method":"get_data","result":1,"error":null}`, invalid("7"))
	add(both, "mixed/result-no-id", `{"jsonrpc":"2.0","method":"update","result":1}`, invalid("null"))
	add(both, "mixed/error-no-id", `{"jsonrpc":"2.0","method":"update","error":{}}`, invalid("null"))
	add(both, "mixed/result-first", `{"result":1,"jsonrpc":"2.0","id":"q","method":"get_data"}`, invalid(`"q"`))
	add(both, "mixed/method-number", `{"jsonrpc":"2.0","id":7,"method":1,"result":1}`, invalid("7"))
	const stray = answers4 + "a response sent to a server"
	for name, sends := range sorted(map[string]string{
		"result": `{"jsonrpc":"2.0","id":7,"result":1}`, "result-null": `{"jsonrpc":"2.0","id":7,"result":null}`, "result-object": `{"jsonrpc":"2.0","id":"x","result":{"a":[1]}}`, "error": `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"x"}}`, "error-data": `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x","data":null}}`,
		"null-id": `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, "null-id-result": `{"jsonrpc":"2.0","id":null,"result":1}`, "string-id": `{"jsonrpc":"2.0","id":"7","result":1}`, "huge-id": `{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":1}`, "reordered": `{"result":1,"id":7,"jsonrpc":"2.0"}`, "with-params": `{"jsonrpc":"2.0","id":7,"result":1,"params":[1]}`, "unknown-member": `{"jsonrpc":"2.0","id":7,"result":1,"x":2}`,
	}) {
		add(stray, "response/"+name, sends, nothing)
	}
	for name, sends := range sorted(map[string]string{
		"both": `{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":"x"}}`, "both-null": `{"jsonrpc":"2.0","id":7,"result":null,"error":null}`, "result-and-null-error": `{"jsonrpc":"2.0","id":7,"result":1,"error":null}`, "error-no-object": `{"jsonrpc":"2.0","id":7,"error":"x"}`, "error-empty": `{"jsonrpc":"2.0","id":7,"error":{}}`, "error-null": `{"jsonrpc":"2.0","id":7,"error":null}`, "error-no-message": `{"jsonrpc":"2.0","id":7,"error":{"code":1}}`, "code-string": `{"jsonrpc":"2.0","id":7,"error":{"code":"1","message":"x"}}`, "code-fraction": `{"jsonrpc":"2.0","id":7,"error":{"code":1.5,"message":"x"}}`,
	}) {
		add(answers4+"both result and error", "response/bad/"+name, sends, nothing)
	}
	return rules
}

// examples holds the examples of section 7, as printed in the specification.
var examples = []struct {
	name, sends string
	wants       want
}{
	{"positional-1", `{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`, one(ok("1", "19"))},
	{"positional-2", `{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}`, one(ok("2", "-19"))},
	{"named-1", `{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}`, one(ok("3", "19"))},
	{"named-2", `{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}`, one(ok("4", "19"))},
	{"notification", `{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`, nothing},
	{"notification-unknown", `{"jsonrpc": "2.0", "method": "foobar"}`, nothing},
	{"unknown-method", `{"jsonrpc": "2.0", "method": "foobar", "id": "1"}`, one(fault(`"1"`, -32601))},
	{"invalid-json", `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, one(fault("null", -32700))},
	{"invalid-request", `{"jsonrpc": "2.0", "method": 1, "params": "bar"}`, one(fault("null", -32600))},
	{"batch-invalid-json", "[\n  {\"jsonrpc\": \"2.0\", \"method\": \"sum\", \"params\": [1,2,4], \"id\": \"1\"},\n  {\"jsonrpc\": \"2.0\", \"method\"\n]", one(fault("null", -32700))},
	{"empty-array", `[]`, one(fault("null", -32600))},
	{"batch-invalid", `[1]`, array(fault("null", -32600))},
	{"batch-three-invalid", `[1,2,3]`, array(fault("null", -32600), fault("null", -32600), fault("null", -32600))},
	{"batch", "[\n        {\"jsonrpc\": \"2.0\", \"method\": \"sum\", \"params\": [1,2,4], \"id\": \"1\"},\n        {\"jsonrpc\": \"2.0\", \"method\": \"notify_hello\", \"params\": [7]},\n        {\"jsonrpc\": \"2.0\", \"method\": \"subtract\", \"params\": [42,23], \"id\": \"2\"},\n        {\"foo\": \"boo\"},\n        {\"jsonrpc\": \"2.0\", \"method\": \"foo.get\", \"params\": {\"name\": \"myself\"}, \"id\": \"5\"},\n        {\"jsonrpc\": \"2.0\", \"method\": \"get_data\", \"id\": \"9\"} \n    ]",
		array(ok(`"1"`, "7"), ok(`"2"`, "19"), fault("null", -32600), fault(`"5"`, -32601), ok(`"9"`, data))},
	{"batch-notifications", "[\n        {\"jsonrpc\": \"2.0\", \"method\": \"notify_sum\", \"params\": [1,2,4]},\n        {\"jsonrpc\": \"2.0\", \"method\": \"notify_hello\", \"params\": [7]}\n    ]", nothing},
}
