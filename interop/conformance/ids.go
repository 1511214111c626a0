package conformance

import "strings"

// idRules returns the rules about ids: of every kind, echoed byte for byte, in results, errors and
// batches.
func idRules() []payload {
	const s4, s5 = jsonrpc2 + "4", jsonrpc2 + "5"
	var rules []payload
	add := func(source, id, sends string, w want) {
		rules = append(rules, payload{id: "id/" + id, source: source, sends: sends, wants: w})
	}
	for name, id := range sorted(map[string]string{
		"one": `1`, "zero": `0`, "minus": `-1`, "minus-zero": `-0`, "int32-max": `2147483647`, "past-int32": `2147483648`, "double-exact": `9007199254740991`, "past-double": `9007199254740993`, "minus-past-double": `-9007199254740993`, "int64-max": `9223372036854775807`, "int64-min": `-9223372036854775808`, "past-int64": `9223372036854775808`, "past-int64-min": `-9223372036854775809`,
		"uint64-max": `18446744073709551615`, "past-uint64": `18446744073709551616`, "nineteen-nines": `9999999999999999999`, "twenty-nines": `99999999999999999999`, "thirty-digits": `123456789012345678901234567890`, "fraction": `1.5`, "point-zero": `1.0`, "zero-point-zero": `0.0`, "trailing-zeros": `1.500`, "exp": `1e2`, "exp-upper": `1E2`, "exp-plus": `1E+2`, "exp-minus": `1e-2`, "huge-exp": `1e999999`, "zero-exp": `0e5`, "minus-zero-fraction": `-0.0`, "ten": `10`, "hundred-digits": strings.Repeat("1234567890", 10), "64k-digits": strings.Repeat("7", 65536), "long-fraction": "0." + strings.Repeat("3", 5000), "thousand-exp": `1e-` + strings.Repeat("0", 1000) + "1",
		"empty": `""`, "string": `"abc"`, "digits-string": `"1"`, "null-string": `"null"`, "true-string": `"true"`, "blank": `" "`, "quote": `"\""`, "backslash": `"\\"`, "slash": `"/"`, "escaped-slash": `"\/"`, "escaped-letter": `"\u0061"`, "escaped-upper": `"\u00E9"`, "escaped-lower": `"\u00e9"`, "nul": `"\u0000"`, "newline": `"\n"`, "controls": `"\b\f\r\t"`, "utf8": `"é"`, "emoji": `"😀"`, "pair": `"\ud83d\ude00"`, "pair-upper": `"\uD83D\uDE00"`, "bom": `"\uFEFF"`, "raw-bom": "\"\ufeff\"", "line-separator": "\"\u2028\"", "del": "\"\x7f\"", "html": `"<script>&'</script>"`, "json": `"{\"id\":1}"`, "uuid": `"67e55044-10b1-426f-9247-bb680e5fe0c8"`, "long": `"` + strings.Repeat("i", 255) + `"`, "64k": `"` + strings.Repeat("i", 65536) + `"`, "64k-escaped": `"` + strings.Repeat(`\u0069`, 20000) + `"`, "noncharacter": "\"\uffff\"", "combining": "\"e\u0301\"", "bidi": "\"\u202eabc\"", "comma": `","`, "brackets": `"[]{}"`, "proto": `"__proto__"`, "probe": `"probe"`,
		"null": `null`,
	}) {
		add(s5, name+"/result", `{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"}`, one(ok(id, data)))
		add(s5, name+"/slow-result", `{"jsonrpc":"2.0","method":"echo","params":[0],"id":`+id+`}`, one(ok(id, "[0]")))
		add(s5, name+"/not-found", `{"jsonrpc":"2.0","id":`+id+`,"method":"foobar"}`, one(fault(id, -32601)))
		add(decisions+"readable id is echoed", name+"/invalid", `{"jsonrpc":"2.0","id":`+id+`,"method":1}`, one(fault(id, -32600)))
		if len(id) < 1000 {
			add(s5, name+"/batch", `[{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"},{"jsonrpc":"2.0","id":`+id+`,"method":"sum","params":[1,2]},{"jsonrpc":"2.0","id":`+id+`,"params":1}]`,
				array(ok(id, data), ok(id, "3"), fault(id, -32600)))
			add(s5, name+"/invalid-params", `{"jsonrpc":"2.0","id":`+id+`,"method":"subtract","params":[1]}`, one(fault(id, -32602)))
		}
	}
	for name, id := range sorted(map[string]string{
		"object": `{}`, "object-full": `{"a":1}`, "array": `[]`, "array-full": `[1]`, "array-null": `[null]`, "true": `true`, "false": `false`, "nested": `[[{"id":1}]]`, "object-id": `{"id":7}`,
	}) {
		const source = answers4 + "id is object, array, boolean"
		add(source, "bad/"+name, `{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"}`, one(fault("null", -32600)))
		add(source, "bad/"+name+"/unknown-method", `{"jsonrpc":"2.0","method":"foobar","id":`+id+`}`, one(fault("null", -32600)))
		add(source, "bad/"+name+"/batch", `[{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"},{"jsonrpc":"2.0","id":1,"method":"get_data"}]`, array(fault("null", -32600), ok("1", data)))
	}
	for name, id := range sorted(map[string]string{"high": `"\uD800"`, "low": `"\uDFFF"`, "middle": `"a\uD800b"`, "two-highs": `"\uD83D\uD83D"`, "reversed": `"\uDE00\uD83D"`, "after-pair": `"\uD83D\uDE00\uDE00"`, "lower-case": `"\udc00"`}) {
		add(decisions+"lone surrogate", "lone/"+name, `{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"}`, one(fault("null", -32600)))
		add(decisions+"lone surrogate", "lone/"+name+"/batch", `[{"jsonrpc":"2.0","id":1,"method":"get_data"},{"jsonrpc":"2.0","id":`+id+`,"method":"get_data"}]`, array(ok("1", data), fault("null", -32600)))
	}
	add(s4, "absent", `{"jsonrpc":"2.0","method":"get_data"}`, nothing)
	add(s4, "spaces", `{"jsonrpc":"2.0","id":   1   ,"method":"get_data"}`, one(ok("1", data)))
	add(s4, "null-is-a-call", `{"jsonrpc":"2.0","id":null,"method":"subtract","params":[42,23]}`, one(ok("null", "19")))
	add(s4, "null-unknown-method", `{"jsonrpc":"2.0","id":null,"method":"foobar"}`, one(fault("null", -32601)))
	add(decisions+"a repeated id in flight is answered each time", "repeated-in-batch", `[{"jsonrpc":"2.0","id":5,"method":"echo","params":[1]},{"jsonrpc":"2.0","id":5,"method":"echo","params":[2]},{"jsonrpc":"2.0","id":5,"method":"echo","params":[3]}]`,
		array(ok("5", "[1]"), ok("5", "[2]"), ok("5", "[3]")))
	add(decisions+"ids are compared by kind and bytes", "alike-in-batch", `[{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]},{"jsonrpc":"2.0","id":"1","method":"echo","params":[2]},{"jsonrpc":"2.0","id":1.0,"method":"echo","params":[3]},{"jsonrpc":"2.0","id":1e0,"method":"echo","params":[4]},{"jsonrpc":"2.0","id":"\u0031","method":"echo","params":[5]},{"jsonrpc":"2.0","id":null,"method":"echo","params":[6]},{"jsonrpc":"2.0","id":"","method":"echo","params":[7]},{"jsonrpc":"2.0","id":0,"method":"echo","params":[8]},{"jsonrpc":"2.0","id":-0,"method":"echo","params":[9]}]`,
		array(ok("1", "[1]"), ok(`"1"`, "[2]"), ok("1.0", "[3]"), ok("1e0", "[4]"), ok(`"\u0031"`, "[5]"), ok("null", "[6]"), ok(`""`, "[7]"), ok("0", "[8]"), ok("-0", "[9]")))
	return rules
}
