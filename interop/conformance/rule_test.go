package conformance

import (
	"slices"
	"strings"
	"testing"
)

// TestEachCarrierHasItsRules checks the number of rules, because a suite without rules would pass.
func TestEachCarrierHasItsRules(t *testing.T) {
	counts := make(map[string]int)
	for _, r := range Rules() {
		for _, carrier := range r.On {
			counts[carrier]++
		}
	}
	for _, carrier := range Carriers {
		if counts[carrier] < 3000 {
			t.Errorf("%d rules over %s", counts[carrier], carrier)
		}
	}
}

// TestRead tests the parser of responses, on which all rules depend.
func TestRead(t *testing.T) {
	n, err := read([]byte(" {\"a\" : [1.0, \"\\u0062\" , {}] , \"b\":null}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(n.member("a").raw); got != `[1.0, "\u0062" , {}]` {
		t.Errorf("a is %s", got)
	}
	if got := n.member("a").kids[1].text(); got != "b" {
		t.Errorf("a[1] is %q", got)
	}
	if !slices.Equal(n.names, []string{"a", "b"}) || n.member("b").kind != 'n' || n.member("a").kids[0].kind != 0 {
		t.Errorf("names %q", n.names)
	}
	for _, text := range []string{"", "{", "\xff", "\ufeff1", `"` + "\xed\xa0\x80" + `"`, "[01]", "1 2"} {
		if _, err := read([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// TestAnswerCheck checks that invalid responses are detected.
func TestAnswerCheck(t *testing.T) {
	pointer := fault("1", -32602)
	pointer.pointer = "/a"
	for _, c := range []struct {
		want answer
		text string
		good bool
	}{
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"id":1}`, true},
		{ok("1", "[1]"), `{"id":1,"result":[1],"jsonrpc":"2.0"}`, true},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"id":"1"}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"id":1.0}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[ 1],"id":1}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1]}`, false},
		{ok("1", "[1]"), `{"result":[1],"id":1}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"error":null,"id":1}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"id":1,"x":1}`, false},
		{ok("1", "[1]"), `{"jsonrpc":"2.0","result":[1],"id":1,"id":1}`, false},
		{ok("1", "[1]"), `[{"jsonrpc":"2.0","result":[1],"id":1}]`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`, true},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error","data":1},"id":null}`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"},"id":null}`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":-32700.0,"message":"Parse error"},"id":null}`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":"-32700","message":"Parse error"},"id":null}`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","error":{"code":-32700},"id":null}`, false},
		{fault("null", -32700), `{"jsonrpc":"2.0","result":1,"id":null}`, false},
		{pointer, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params","data":{"pointer":"/a"}},"id":1}`, true},
		{pointer, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params","data":{"pointer":"/b"}},"id":1}`, false},
		{pointer, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":1}`, false},
	} {
		n, err := read([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.want.check(n); (err == nil) != c.good {
			t.Errorf("%s for %s: %v", c.text, c.want, err)
		}
	}
	if err := array(ok("1", "1"), ok("2", "2")).check([]byte(`[{"jsonrpc":"2.0","result":2,"id":2},{"jsonrpc":"2.0","result":1,"id":1}]`)); err == nil {
		t.Error("the wrong order passed")
	}
	if !strings.Contains(nothing.String(), "nothing") {
		t.Error(nothing.String())
	}
}
