package jsonrpc_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// The response to one payload. A %s in want is not replaced; "" means no response.
const (
	parseError = `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`
	invalid    = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`
	nothing    = ``
)

func invalidFor(id string) string {
	return `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":` + id + `}`
}

func echoed(params, id string) string {
	return `{"jsonrpc":"2.0","result":` + params + `,"id":` + id + `}`
}

func TestEnvelope(t *testing.T) {
	tests := []struct{ name, in, want string }{
		// Ids: JSON-RPC 2.0, section 4.
		{"id past 2^53 stays exact", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":9007199254740993}`, echoed(`[1]`, `9007199254740993`)},
		{"id of thirty digits", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":123456789012345678901234567890}`, echoed(`[1]`, `123456789012345678901234567890`)},
		{"fractional id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":1.0}`, echoed(`[1]`, `1.0`)},
		{"id with an exponent", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":1E+2}`, echoed(`[1]`, `1E+2`)},
		{"negative id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":-0}`, echoed(`[1]`, `-0`)},
		{"zero id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":0}`, echoed(`[1]`, `0`)},
		{"string id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":"1"}`, echoed(`[1]`, `"1"`)},
		{"empty string id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":""}`, echoed(`[1]`, `""`)},
		{"escaped id", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":"\u0061\/é"}`, echoed(`[1]`, `"\u0061\/é"`)},
		{"null id is not absent", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":null}`, echoed(`[1]`, `null`)},
		{"id true", `{"jsonrpc":"2.0","method":"echo","id":true}`, invalid},
		{"id false", `{"jsonrpc":"2.0","method":"echo","id":false}`, invalid},
		{"id array", `{"jsonrpc":"2.0","method":"echo","id":[1]}`, invalid},
		{"id object", `{"jsonrpc":"2.0","method":"echo","id":{}}`, invalid},
		{"id with a lone surrogate", `{"jsonrpc":"2.0","method":"echo","id":"\ud83d"}`, invalid},
		{"id with a pair", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":"\ud83d\ude00"}`, echoed(`[1]`, `"\ud83d\ude00"`)},

		// The version member.
		{"no version", `{"method":"echo","id":1}`, invalidFor("1")},
		{"version 1.0", `{"jsonrpc":"1.0","method":"echo","id":1}`, invalidFor("1")},
		{"version as a number", `{"jsonrpc":2.0,"method":"echo","id":1}`, invalidFor("1")},
		{"version null", `{"jsonrpc":null,"method":"echo","id":1}`, invalidFor("1")},
		{"version with a space", `{"jsonrpc":"2.0 ","method":"echo","id":1}`, invalidFor("1")},
		{"escaped version", `{"jsonrpc":"\u0032.0","method":"echo","params":[1],"id":1}`, echoed(`[1]`, `1`)},
		{"notification without version", `{"method":"echo"}`, invalid},

		// The method.
		{"no method", `{"jsonrpc":"2.0","id":1}`, invalidFor("1")},
		{"method null", `{"jsonrpc":"2.0","method":null,"id":1}`, invalidFor("1")},
		{"method number", `{"jsonrpc":"2.0","method":1,"id":"a"}`, invalidFor(`"a"`)},
		{"method object", `{"jsonrpc":"2.0","method":{},"id":1}`, invalidFor("1")},
		{"empty method", `{"jsonrpc":"2.0","method":"","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`},
		{"escaped method", `{"jsonrpc":"2.0","method":"\u0065ch\u006f","params":[1],"id":1}`, echoed(`[1]`, `1`)},
		{"method with a lone surrogate", `{"jsonrpc":"2.0","method":"echo\udc00","id":1}`, invalidFor("1")},
		{"reserved method", `{"jsonrpc":"2.0","method":"rpc.secret","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`},
		{"case of the method", `{"jsonrpc":"2.0","method":"Echo","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`},

		// Params: section 4.2.
		{"params null is absent", `{"jsonrpc":"2.0","method":"echo","params":null,"id":1}`, echoed(`null`, `1`)},
		{"params absent", `{"jsonrpc":"2.0","method":"echo","id":1}`, echoed(`null`, `1`)},
		{"params string", `{"jsonrpc":"2.0","method":"echo","params":"x","id":1}`, invalidFor("1")},
		{"params number", `{"jsonrpc":"2.0","method":"echo","params":1,"id":1}`, invalidFor("1")},
		{"params boolean", `{"jsonrpc":"2.0","method":"echo","params":false,"id":1}`, invalidFor("1")},
		{"scalar params without id", `{"jsonrpc":"2.0","method":"echo","params":1}`, invalid},
		{"params stay as they came", `{"jsonrpc":"2.0","method":"echo","params": [1.0, 1e2 ,"\u0041", {"b":1,"a":2,"b":3}] ,"id":1}`, echoed(`[1.0, 1e2 ,"\u0041", {"b":1,"a":2,"b":3}]`, `1`)},
		{"half an emoji passes through", `{"jsonrpc":"2.0","method":"echo","params":["\ud83d"],"id":1}`, echoed(`["\ud83d"]`, `1`)},

		// Members.
		{"unknown member", `{"jsonrpc":"2.0","method":"echo","params":[1],"extra":{"a":[1]},"id":1}`, echoed(`[1]`, `1`)},
		{"unknown member twice", `{"jsonrpc":"2.0","method":"echo","params":[1],"x":1,"\u0078":2,"id":1}`, invalidFor("1")},
		{"two unknown members", `{"jsonrpc":"2.0","method":"echo","params":[1],"x":1,"X":2,"id":1}`, echoed(`[1]`, `1`)},
		{"upper case is another member", `{"jsonrpc":"2.0","METHOD":"echo","id":1}`, invalidFor("1")},
		{"upper case beside the real one", `{"jsonrpc":"2.0","method":"echo","Method":"x","params":[1],"id":1}`, echoed(`[1]`, `1`)},
		{"long s is another member", `{"jsonrpc":"2.0","method":"echo","param\u017f":[2],"params":[1],"id":1}`, echoed(`[1]`, `1`)},
		{"NUL is another member", `{"jsonrpc":"2.0","method\u0000":"echo","id":1}`, invalidFor("1")},
		{"escaped member name", `{"\u006asonrpc":"2.0","\u006dethod":"echo","params":[1],"\u0069d":1}`, echoed(`[1]`, `1`)},
		{"member twice", `{"jsonrpc":"2.0","method":"echo","method":"echo","id":1}`, invalidFor("1")},
		{"member twice, once escaped", `{"jsonrpc":"2.0","method":"echo","m\u0065thod":"x","id":1}`, invalidFor("1")},
		{"version twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","method":"echo","id":1}`, invalidFor("1")},
		{"params twice", `{"jsonrpc":"2.0","method":"echo","params":[1],"params":[2],"id":1}`, invalidFor("1")},
		{"id twice", `{"jsonrpc":"2.0","method":"echo","id":1,"id":2}`, invalid},
		{"member name with a lone surrogate", `{"jsonrpc":"2.0","method":"echo","\ud800":1,"id":1}`, invalidFor("1")},
		{"white space around every token", " { \"jsonrpc\" : \"2.0\" , \"method\" : \"echo\" , \"params\" : [1] , \"id\" : 1 } ", echoed(`[1]`, `1`)},
		{"a quote in a member name", `{"jsonrpc":"2.0","method":"echo","params":[1],"id\"x":2,"id":1}`, echoed(`[1]`, `1`)},
		{"names that begin like others", `{"jsonrpc":"2.0","method":"echo","methods":1,"idx":2,"i":3,"params":[1],"":4,"id":1}`, echoed(`[1]`, `1`)},
		{"members in any order", `{"id":1,"params":[1],"method":"echo","jsonrpc":"2.0"}`, echoed(`[1]`, `1`)},
		{"method beside result", `{"jsonrpc":"2.0","method":"echo","result":1,"id":1}`, invalidFor("1")},
		{"method beside error", `{"jsonrpc":"2.0","method":"echo","error":{"code":1,"message":""},"id":1}`, invalidFor("1")},

		// Responses sent to a server are dropped.
		{"a response", `{"jsonrpc":"2.0","result":1,"id":1}`, nothing},
		{"an error response", `{"jsonrpc":"2.0","error":{"code":1,"message":"x"},"id":null}`, nothing},
		{"a response with both", `{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"x"},"id":1}`, nothing},

		// Other values.
		{"number", `1`, invalid}, {"string", `"x"`, invalid}, {"null", `null`, invalid}, {"true", `true`, invalid},
		{"empty object", `{}`, invalid},
		{"white space around", " \t\r\n" + `{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}` + " \t\r\n", echoed(`[1]`, `1`)},
		{"empty", ``, parseError},
		{"only white space", " \n ", parseError},
		{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","method":"echo","id":1}`, parseError},
		{"text behind it", `{"jsonrpc":"2.0","method":"echo","id":1} x`, parseError},
		{"two messages", `{"jsonrpc":"2.0","method":"echo","id":1}{"jsonrpc":"2.0","method":"echo","id":2}`, parseError},
		{"cut off", `{"jsonrpc":"2.0","method":"echo","id":1`, parseError},
		{"single quotes", `{'jsonrpc':'2.0','method':'echo','id':1}`, parseError},
		{"comment", `{"jsonrpc":"2.0",/**/"method":"echo","id":1}`, parseError},
		{"trailing comma", `{"jsonrpc":"2.0","method":"echo","id":1,}`, parseError},
		{"leading zero", `{"jsonrpc":"2.0","method":"echo","id":01}`, parseError},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"\xff\"],\"id\":1}", parseError},
		{"invalid UTF-8 in an unknown member", "{\"jsonrpc\":\"2.0\",\"\xc0\x80\":1,\"method\":\"echo\",\"id\":1}", parseError},
		{"raw NUL", "{\"jsonrpc\":\"2.0\",\"method\":\"echo\x00\",\"id\":1}", parseError},

		// Batches: section 6.
		{"batch of one", `[{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}]`, `[` + echoed(`[1]`, `1`) + `]`},
		{"batch in a batch", `[[]]`, `[` + invalid + `]`},
		{"batch in a batch with a call", `[[{"jsonrpc":"2.0","method":"echo","id":1}]]`, `[` + invalid + `]`},
		{"batch with a bad id", `[{"jsonrpc":"2.0","method":"echo","id":{}},{"jsonrpc":"2.0","method":"echo","params":[1],"id":2}]`, `[` + invalid + `,` + echoed(`[1]`, `2`) + `]`},
		{"batch with the same id twice", `[{"jsonrpc":"2.0","method":"echo","params":[1],"id":1},{"jsonrpc":"2.0","method":"echo","params":[2],"id":1}]`, `[` + echoed(`[1]`, `1`) + `,` + echoed(`[2]`, `1`) + `]`},
		{"batch of responses", `[{"jsonrpc":"2.0","result":1,"id":1}]`, nothing},
		{"batch cut off", `[{"jsonrpc":"2.0","method":"echo","id":1}`, parseError},
		{"batch with a trailing comma", `[{"jsonrpc":"2.0","method":"echo","id":1},]`, parseError},
		{"batch with text behind it", `[{"jsonrpc":"2.0","method":"echo","id":1}] []`, parseError},
		{"empty batch with space", ` [ ] `, invalid},
	}
	for _, tt := range tests {
		for _, mode := range []Mode{0, Quick} {
			a := &Answerer{Handler: specMux(), Mode: func(string) Mode { return mode }}
			got, _ := a.Answer(t.Context(), nil, []byte(tt.in), &Exchange{})
			if string(got) != tt.want {
				t.Errorf("%s (mode %d)\n in   %s\n got  %s\n want %s", tt.name, mode, tt.in, got, tt.want)
			}
		}
		t.Run("on a Conn/"+tt.name, func(t *testing.T) {
			if strings.TrimSpace(tt.in) == "" {
				return // a line transport has no such payload
			}
			w, _ := serveWire(t, serving(specMux()))
			w.send(strings.NewReplacer("\n", " ").Replace(tt.in), `{"jsonrpc":"2.0","method":"echo","params":["end"],"id":"end"}`)
			if tt.want != "" {
				// A quick response may overtake, so the two may arrive in either order.
				first, _ := w.r.ReadString('\n')
				if first = strings.TrimSpace(first); first == echoed(`["end"]`, `"end"`) {
					w.want(tt.want)
				} else if first != tt.want {
					t.Errorf("got  %s\nwant %s", first, tt.want)
				}
				return
			}
			w.want(echoed(`["end"]`, `"end"`))
		})
	}
}

func TestLimitsOfOneMessage(t *testing.T) {
	deep := func(n int) string { // the array of params is the second level
		return `{"jsonrpc":"2.0","method":"echo","params":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `,"id":1}`
	}
	batch := func(n int) string {
		return `[` + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"update"},`, n), ",") + `]`
	}
	tests := []struct{ name, in, want string }{
		{"999 levels below the envelope", deep(999), echoed(strings.Repeat("[", 999)+strings.Repeat("]", 999), "1")},
		{"1,000 levels below the envelope", deep(1000), invalid},
		{"a million levels", strings.Repeat("[", 1_000_000), invalid},
		{"a million objects", strings.Repeat(`{"a":`, 1_000_000), invalid},
		{"levels of both kinds, past a word of the scanner's stack", `{"jsonrpc":"2.0","method":"echo","params":` + strings.Repeat(`[{"a":`, 100) + `1` + strings.Repeat(`}]`, 100) + `,"id":1}`, echoed(strings.Repeat(`[{"a":`, 100)+`1`+strings.Repeat(`}]`, 100), "1")},
		{"a wrong bracket far out", `{"jsonrpc":"2.0","method":"echo","params":` + strings.Repeat(`[{"a":`, 100) + `1` + strings.Repeat(`}]`, 99) + `]]` + `,"id":1}`, parseError},
		{"600,000 values", `{"jsonrpc":"2.0","method":"echo","params":[` + strings.Repeat("0,", 600_000) + `0],"id":1}`, invalid},
		{"10,000 messages", batch(10_000), nothing},
		{"10,001 messages", batch(10_001), invalid},
		{"a method of 64 KiB", `{"jsonrpc":"2.0","method":"` + strings.Repeat("m", 64<<10) + `","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`},
		{"an id of 64 KiB", `{"jsonrpc":"2.0","method":"echo","params":[1],"id":"` + strings.Repeat("i", 64<<10) + `"}`, echoed(`[1]`, `"`+strings.Repeat("i", 64<<10)+`"`)},
		{"a number of 1,000 digits", `{"jsonrpc":"2.0","method":"echo","params":[` + strings.Repeat("9", 1000) + `],"id":1}`, echoed(`[`+strings.Repeat("9", 1000)+`]`, `1`)},
	}
	for _, tt := range tests {
		a := &Answerer{Handler: specMux()}
		got, _ := a.Answer(t.Context(), nil, []byte(tt.in), &Exchange{})
		if string(got) != tt.want {
			t.Errorf("%s: got %.200s, want %.200s", tt.name, got, tt.want)
		}
	}
}

func TestVersion1(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"request", `{"method":"subtract","params":[42,23],"id":1}`, `{"result":19,"error":null,"id":1}`},
		{"no such method", `{"method":"none","params":[],"id":"a"}`, `{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":"a"}`},
		{"notification", `{"method":"update","params":[1],"id":null}`, nothing},
		{"no id", `{"method":"update","params":[1]}`, `{"result":null,"error":{"code":-32600,"message":"Invalid Request"},"id":null}`},
		{"no params", `{"method":"update","id":1}`, `{"result":null,"error":{"code":-32600,"message":"Invalid Request"},"id":1}`},
		{"named params", `{"method":"subtract","params":{"minuend":1,"subtrahend":1},"id":1}`, `{"result":null,"error":{"code":-32600,"message":"Invalid Request"},"id":1}`},
		{"2.0 is answered as 2.0", `{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":1}`, `{"jsonrpc":"2.0","result":19,"id":1}`},
		{"2.0 with id null is a call", `{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":null}`, `{"jsonrpc":"2.0","result":19,"id":null}`},
		{"not JSON", `{`, `{"result":null,"error":{"code":-32700,"message":"Parse error"},"id":null}`},
		{"no object", `1`, `{"result":null,"error":{"code":-32600,"message":"Invalid Request"},"id":null}`},
		{"a response", `{"result":1,"error":null,"id":1}`, nothing},
	}
	for _, tt := range tests {
		a := &Answerer{Handler: specMux(), Version: Version1}
		got, _ := a.Answer(t.Context(), nil, []byte(tt.in), &Exchange{})
		if string(got) != tt.want {
			t.Errorf("%s\n in   %s\n got  %s\n want %s", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestVersion1BothEnds(t *testing.T) {
	v1 := func(c *Conn) { serving(specMux())(c); c.Version = Version1 }
	client, _ := pair(t, v1, v1)
	if got, err := Call[int](t.Context(), client, "subtract", []int{42, 23}); err != nil || got != 19 {
		t.Errorf("subtract = %d, %v", got, err)
	}
	if err := client.Call(t.Context(), "none", nil, nil); fmt.Sprint(err) != "Method not found (-32601)" {
		t.Errorf("none: %v", err)
	}
}
