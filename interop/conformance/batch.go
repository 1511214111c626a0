package conformance

import (
	"fmt"
	"strings"
)

// A part is one member of a batch, with its expected response.
type part struct {
	letter string
	sends  string // %d is its index
	answer func(place string) []answer
}

func parts() []part {
	none := func(string) []answer { return nil }
	return []part{
		{"r", `{"jsonrpc":"2.0","id":%d,"method":"get_data"}`, func(p string) []answer { return []answer{ok(p, data)} }},
		{"s", `{"jsonrpc":"2.0","id":%d,"method":"sum","params":[1,%[1]d]}`, func(p string) []answer { return []answer{ok(p, map[string]string{"1": "2", "2": "3", "3": "4"}[p])} }},
		{"n", `{"jsonrpc":"2.0","method":"update","params":[%d]}`, none},
		{"x", `%d`, func(string) []answer { return []answer{fault("null", -32600)} }},
		{"i", `{"id":%d,"method":"get_data"}`, func(p string) []answer { return []answer{fault(p, -32600)} }},
		{"u", `{"jsonrpc":"2.0","id":%d,"method":"foobar"}`, func(p string) []answer { return []answer{fault(p, -32601)} }},
		{"v", `{"jsonrpc":"2.0","method":"foobar","params":[%d]}`, none},
		{"a", `{"jsonrpc":"2.0","id":%d,"result":1}`, none},
		{"p", `{"jsonrpc":"2.0","id":%d,"method":"subtract","params":[1]}`, func(p string) []answer { return []answer{fault(p, -32602)} }},
	}
}

// batchRules returns the rules about arrays.
func batchRules() []payload {
	const s6 = jsonrpc2 + "6"
	var rules []payload
	add := func(id, sends string, w want) {
		rules = append(rules, payload{id: "batch/" + id, source: s6, sends: sends, wants: w})
	}
	mix := func(members ...part) {
		var name, sends []string
		var answers []answer
		for i, m := range members {
			name = append(name, m.letter)
			sends = append(sends, fmt.Sprintf(m.sends, i+1))
			answers = append(answers, m.answer(fmt.Sprint(i+1))...)
		}
		w := array(answers...)
		if len(answers) == 0 {
			w = nothing
		}
		add("mix/"+strings.Join(name, ""), "["+strings.Join(sends, ",")+"]", w)
	}
	all := parts()
	for _, a := range all {
		mix(a)
		for _, b := range all {
			mix(a, b)
		}
	}
	few := []part{all[1], all[2], all[3], all[5]}
	for _, a := range few {
		for _, b := range few {
			for _, c := range few {
				mix(a, b, c)
			}
		}
	}

	request := `{"jsonrpc":"2.0","id":1,"method":"get_data"}`
	for name, v := range sorted(map[string]string{"null": `null`, "true": `true`, "false": `false`, "number": `1`, "string": `"x"`, "empty-object": `{}`, "empty-array": `[]`, "nested-batch": `[` + request + `]`, "deep-batch": `[[` + request + `]]`, "float": `1.5`, "empty-string": `""`, "unknown-member": `{"foo":"boo"}`}) {
		add("invalid/"+name, `[`+v+`]`, array(fault("null", -32600)))
		add("invalid/"+name+"/with-good", `[`+v+`,`+request+`]`, array(fault("null", -32600), ok("1", data)))
		add("invalid/"+name+"/after-notification", `[{"jsonrpc":"2.0","method":"update"},`+v+`]`, array(fault("null", -32600)))
	}
	add("empty-spaces", ` [ ] `, one(fault("null", -32600)))
	add("empty-newline", "[\n]", one(fault("null", -32600)))
	add("spaces", ` [ `+request+` , `+request+` ] `, array(ok("1", data), ok("1", data)))
	add("pretty", "[\n\t"+request+",\n\t"+request+"\n]\n", array(ok("1", data), ok("1", data)))
	add("bad-ids", `[{"jsonrpc":"2.0","id":{},"method":"get_data"},{"jsonrpc":"2.0","id":[],"method":"get_data"},{"jsonrpc":"2.0","id":true,"method":"get_data"}]`, array(fault("null", -32600), fault("null", -32600), fault("null", -32600)))
	add("twice-in-one", `[{"jsonrpc":"2.0","id":1,"id":1,"method":"update"},{"jsonrpc":"2.0","id":2,"method":"get_data"}]`, array(fault("null", -32600), ok("2", data)))
	add("only-responses", `[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"x"}}]`, nothing)
	add("slow-and-quick", `[{"jsonrpc":"2.0","id":1,"method":"sleep","params":[40]},{"jsonrpc":"2.0","id":2,"method":"sleep","params":[20]},{"jsonrpc":"2.0","id":3,"method":"get_data"},{"jsonrpc":"2.0","id":4,"method":"sleep","params":[0]}]`,
		array(ok("1", "40"), ok("2", "20"), ok("3", data), ok("4", "0")))
	add("errors-of-all-kinds", `[{"jsonrpc":"2.0","id":1,"method":"fail","params":[7,"seven"]},{"jsonrpc":"2.0","id":2,"method":"panic"},{"jsonrpc":"2.0","id":3,"method":"subtract","params":{}},{"jsonrpc":"2.0","id":4,"method":"none"},{"jsonrpc":"1.0","id":5,"method":"get_data"}]`,
		array(answer{id: "1", code: "7", message: "seven"}, fault("2", -32603), fault("3", -32602), fault("4", -32601), fault("5", -32600)))
	add("failing-notifications", `[{"jsonrpc":"2.0","method":"fail","params":[7,"seven"]},{"jsonrpc":"2.0","method":"panic"},{"jsonrpc":"2.0","method":"subtract","params":{}},{"jsonrpc":"2.0","method":"none"}]`, nothing)
	for _, n := range []int{16, 17, 100, 1000} {
		var sends []string
		var answers []answer
		for i := range n {
			sends = append(sends, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sum","params":[%[1]d,1]}`, i))
			answers = append(answers, ok(fmt.Sprint(i), fmt.Sprint(i+1)))
		}
		add(fmt.Sprintf("many/%d", n), "["+strings.Join(sends, ",")+"]", array(answers...))
	}
	add("many/notifications", "["+strings.Repeat(`{"jsonrpc":"2.0","method":"notify_hello","params":[7]},`, 999)+`{"jsonrpc":"2.0","method":"notify_sum"}]`, nothing)
	add("many/invalid", "["+strings.Repeat("1,", 99)+"1]", array(repeat(fault("null", -32600), 100)...))
	add("one-of-hundred", "["+strings.Repeat(`{"jsonrpc":"2.0","method":"update"},`, 99)+request+"]", array(ok("1", data)))
	return rules
}

func repeat(a answer, n int) []answer {
	all := make([]answer, n)
	for i := range all {
		all[i] = a
	}
	return all
}

// limitRules returns the rules at the boundaries of the default limits.
func limitRules() []payload {
	var rules []payload
	add := func(id, sends string, w want) *payload {
		rules = append(rules, payload{id: "limit/" + id, source: limits2, sends: sends, wants: w})
		return &rules[len(rules)-1]
	}
	invalid := one(fault("null", -32600))
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "0" + strings.Repeat("}", n) }
	echo := func(params string) string { return `{"jsonrpc":"2.0","id":1,"method":"echo","params":` + params + `}` }
	add("depth/1000", echo(nest(999)), one(ok("1", nest(999))))
	add("depth/1001", echo(nest(1000)), invalid)
	add("depth/1000-objects", echo(objects(999)), one(ok("1", objects(999))))
	add("depth/1001-objects", echo(objects(1000)), invalid)
	add("depth/1000-batch", "["+echo(nest(998))+"]", array(ok("1", nest(998))))
	add("depth/1001-batch", "["+echo(nest(999))+"]", invalid)
	add("depth/1000-unread", `{"jsonrpc":"2.0","x":`+nest(999)+`,"id":1,"method":"get_data"}`, one(ok("1", data)))
	add("depth/1001-unread", `{"jsonrpc":"2.0","x":`+nest(1000)+`,"id":1,"method":"get_data"}`, invalid)
	add("depth/1000-array", nest(1000), array(fault("null", -32600)))
	add("depth/1001-array", nest(1001), invalid)
	add("depth/5000", echo(nest(5000)), invalid)
	add("depth/100000", nest(100000), invalid)
	add("depth/1000000-open", strings.Repeat("[", 1000000), invalid)
	add("depth/1000000-objects-open", strings.Repeat(`{"a":`, 500000), invalid)
	add("depth/notification", `{"jsonrpc":"2.0","method":"update","params":`+nest(1000)+`}`, invalid)
	zeros := func(n int) string { return "[" + strings.Repeat("0,", n-1) + "0]" }
	add("tokens/490000", `{"jsonrpc":"2.0","id":1,"method":"update","params":`+zeros(490000)+`}`, one(ok("1", "null")))
	add("tokens/500000", `{"jsonrpc":"2.0","id":1,"method":"update","params":`+zeros(500000)+`}`, invalid)
	add("tokens/million", `{"jsonrpc":"2.0","id":1,"method":"update","params":`+zeros(1000000)+`}`, invalid)
	add("tokens/empty-objects", "["+strings.Repeat("{},", 999999)+"{}]", invalid)
	add("tokens/empty-strings", `{"jsonrpc":"2.0","id":1,"method":"update","params":[`+strings.Repeat(`"",`, 600000)+`""]}`, invalid)
	notification := `{"jsonrpc":"2.0","method":"update"}`
	add("batch/10000", "["+strings.Repeat(notification+",", 9999)+notification+"]", nothing)
	add("batch/10001", "["+strings.Repeat(notification+",", 10000)+notification+"]", invalid)
	add("batch/10000-requests", "["+strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"update"},`, 9999)+`{"jsonrpc":"2.0","id":1,"method":"update"}]`, array(repeat(ok("1", "null"), 10000)...))
	add("batch/10001-requests", "["+strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"update"},`, 10000)+`{"jsonrpc":"2.0","id":1,"method":"update"}]`, invalid)
	add("batch/10001-numbers", zeros(10001), invalid)
	add("batch/10000-numbers", zeros(10000), array(repeat(fault("null", -32600), 10000)...))

	sized := func(n int) string {
		frame := `{"jsonrpc":"2.0","id":1,"method":"update","params":[""]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("s", n-len(frame))+`"`, 1)
	}
	add("size/4MiB", sized(4<<20), one(ok("1", "null")))
	over := add("size/4MiB-and-1", sized(4<<20+1), invalid)
	over.http, over.websocket = &want{status: 413}, &want{close: 1009}
	over = add("size/5MiB", sized(5<<20), invalid)
	over.http, over.websocket = &want{status: 413}, &want{close: 1009}
	over = add("size/5MiB-garbage", strings.Repeat("x", 5<<20), invalid)
	over.http, over.websocket = &want{status: 413}, &want{close: 1009}
	add("size/3MiB-echo", echo(`["`+strings.Repeat("e", 3<<20)+`"]`), one(ok("1", `["`+strings.Repeat("e", 3<<20)+`"]`)))
	add("number/1MiB", echo("["+strings.Repeat("1", 1<<20)+"]"), one(ok("1", "["+strings.Repeat("1", 1<<20)+"]")))
	add("name/1MiB", `{"jsonrpc":"2.0","id":1,"`+strings.Repeat("n", 1<<20)+`":1,"method":"get_data"}`, one(ok("1", data)))
	add("id/1MiB", `{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 1<<20)+`","method":"get_data"}`, one(ok(`"`+strings.Repeat("i", 1<<20)+`"`, data)))
	return rules
}
