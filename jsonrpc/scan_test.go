package jsonrpc_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// grammar is RFC 8259 as a table: each rule with texts that follow it and texts that violate it.
// The section is above its rows.
var grammar = []struct {
	text string
	ok   bool
}{
	// 2: structure and white space
	{`[]`, true}, {`{}`, true}, {` [ ] `, true}, {"\t\n\r [1]\t\n\r ", true}, {"\v[]", false}, {"\f[]", false}, {"\u00a0[]", false}, {"\u2028[]", false},
	{"[\u200b]", false}, {"", false}, {" ", false}, {"\ufeff[]", false}, {"[]\x00", false}, {"\x00[]", false}, {"[] []", false}, {"[],", false}, {"[]]", false}, {"{}}", false},
	{`["a"`, false}, {`[`, false}, {`{`, false}, {`]`, false}, {`}`, false}, {`,`, false}, {`:`, false}, {`<.>`, false}, {"[1]x", false}, {"[1]//", false},

	// 3: values
	{`true`, true}, {`false`, true}, {`null`, true}, {`"x"`, true}, {`1`, true}, {`[true,false,null]`, true},
	{`True`, false}, {`TRUE`, false}, {`nul`, false}, {`nulll`, false}, {`tru`, false}, {`fals`, false}, {`falsey`, false}, {`undefined`, false}, {`NaN`, false}, {`nan`, false},
	{`Infinity`, false}, {`-Infinity`, false}, {`inf`, false}, {`[nul]`, false}, {`[a]`, false}, {`'x'`, false}, {"`x`", false}, {`[true false]`, false}, {`*`, false}, {`\u0031`, false},

	// 4: objects
	{`{"a":1}`, true}, {`{"a":1,"b":2}`, true}, {`{"":0}`, true}, {`{"a":{"b":{}}}`, true}, {`{ "a" : 1 , "b" : [ ] }`, true}, {`{"a":1,"a":2}`, true},
	{`{"\u0000":1}`, true}, {`{"a\u00e9":1}`, true}, {"{\"a\":\n1}", true},
	{`{"a"}`, false}, {`{"a":}`, false}, {`{:1}`, false}, {`{"a":1,}`, false}, {`{,"a":1}`, false}, {`{"a":1,,"b":2}`, false}, {`{"a" 1}`, false}, {`{"a"::1}`, false},
	{`{a:1}`, false}, {`{1:1}`, false}, {`{null:1}`, false}, {`{'a':1}`, false}, {`{"a":1 "b":2}`, false}, {`{"a":1]`, false}, {`{"a":1`, false}, {`{"a":`, false}, {`{"a"`, false},
	{`{"a":1;"b":2}`, false}, {`{"a":1}{`, false}, {`{[1]:1}`, false}, {`{"a","b"}`, false}, {`{"x"=1}`, false}, {`{/**/"a":1}`, false}, {`{"a":1#}`, false}, {`{"a":b}`, false},

	{`{"a":1,"b":"c","d":"0123456789"}`, true}, {`{"a":10,"b":0}`, true}, {`{"a":1,"b":-1,"c":1}`, true}, {`{"a":"b","c":[1],"d":"e"}`, true}, {`{"a":1, "b":2}`, true}, {`{"é":1,"a":"é"}`, true},
	{`{"a":"b",}`, false}, {`{"a":1,"b":"c",}`, false}, {`{"a":"b","c"}`, false}, {`{"a":"b","c":}`, false}, {`{"a":"b"c":1}`, false}, {`{"a":12"b":1}`, false}, {`{"a":"b""c":1}`, false}, {`{"a":01,"b":1}`, false},
	{`{"a":1.,"b":1}`, false}, {`{"a":1x,"b":1}`, false}, {`{"a":1,"b":"c"]`, false}, {`{"a":1,"b\x":1}`, false}, {"{\"a\":\"b\n\"}", false}, {"{\"a\xff\":1}", false}, {`{"a":1,"b":"c"}}`, false}, {`{"a":1]"b":2}`, false}, {"{\"a\xff:1}", false}, {"{\"a\n:1}", false}, {`{"a":"b",,"c":1}`, false},

	// 5: arrays
	{`[1]`, true}, {`[1,2]`, true}, {`[[]]`, true}, {`[[[[[]]]]]`, true}, {`[null]`, true}, {`[ 1 , "a" , {} ]`, true}, {"[1\n,\n2]", true},
	{`[1,]`, false}, {`[,1]`, false}, {`[1,,2]`, false}, {`[,]`, false}, {`[1 2]`, false}, {`[1:2]`, false}, {`[1}`, false}, {`[1`, false}, {`[1,`, false}, {`["x",`, false},
	{`[""],`, false}, {`["":1]`, false}, {`[1;2]`, false}, {`[-]`, false}, {`[[1]`, false}, {`[3[4]]`, false}, {`[...]`, false},

	// 6: numbers
	{`0`, true}, {`-0`, true}, {`10`, true}, {`-10`, true}, {`0.5`, true}, {`-0.5`, true}, {`1e1`, true}, {`1E1`, true}, {`1e+1`, true}, {`1e-1`, true}, {`0e0`, true}, {`0E+0`, true},
	{`1.5e300`, true}, {`1e400`, true}, {`-1e-400`, true}, {`123456789012345678901234567890`, true}, {`0.00000000000000000000000000000000000000001`, true}, {`1.000`, true}, {`20e1`, true},
	{`01`, false}, {`00`, false}, {`-01`, false}, {`+1`, false}, {`1.`, false}, {`.5`, false}, {`-.5`, false}, {`-`, false}, {`--1`, false}, {`1e`, false}, {`1e+`, false}, {`1E-`, false},
	{`1.e1`, false}, {`1.5e`, false}, {`0x1`, false}, {`1_000`, false}, {`1,000`, false}, {`1 000`, false}, {`1e1.5`, false}, {`1e1e1`, false}, {`1.2.3`, false}, {`1a`, false}, {`0e`, false},
	{`-a`, false}, {`- 1`, false}, {`1+2`, false}, {`2.e3`, false}, {`0.e1`, false}, {`0.3e`, false}, {`0.3e+`, false}, {`9.e+`, false}, {`1eE2`, false}, {`-1x`, false}, {`-2.`, false}, {`-NaN`, false},
	{`1٠`, false}, {"\uff11", false}, {`++1234`, false}, {`+Inf`, false}, {`0b1`, false}, {`1f`, false}, {`1L`, false}, {"[-1\x00]", false},

	// 7: strings
	{`""`, true}, {`"a"`, true}, {`"\""`, true}, {`"\\"`, true}, {`"\/"`, true}, {`"/"`, true}, {`"\b\f\n\r\t"`, true}, {`"\u0041"`, true}, {`"\u00E9"`, true}, {`"\uFFFF"`, true}, {`"\u0000"`, true},
	{`"\ud83d\ude00"`, true}, {`"\uD83D\uDE00"`, true}, {`"\ud83d"`, true}, {`"\ude00"`, true}, {`"\ud83d\ud83d\ude00"`, true}, {`"\ud83dx"`, true}, {`"\ud83d\n"`, true}, {`"\ud83d\\ude00"`, true},
	{"\"\x7f\"", true}, {`"é"`, true}, {`"😀"`, true}, {"\"\u2028\u2029\"", true}, {"\"\ufeff\"", true}, {"\"\U0010ffff\"", true}, {"\"\ufffe\"", true}, {`"eight by"`, true}, {`"exactly 16 bytes"`, true}, {`"seventeen bytes !"`, true},
	{`"\\\\\\\\\\\\"`, true}, {`"        \""`, true}, {`"aaaaaaa\n"`, true},
	{`"`, false}, {`"a`, false}, {`"\"`, false}, {`"\`, false}, {`"\x41"`, false}, {`"\a"`, false}, {`"\0"`, false}, {`"\'"`, false}, {`"\v"`, false}, {`"\U0041"`, false}, {`"\u"`, false}, {`"\u1"`, false}, {`"\u12"`, false},
	{`"\u123"`, false}, {`"\u123g"`, false}, {`"\u 123"`, false}, {`"\u+123"`, false}, {`"\ud83d\u"`, false}, {`"\ud83d\u1"`, false}, {`"\ud83d\"`, false}, {`"\u00`, false}, {`"\e"`, false}, {`"\ "`, false}, {`"\😀"`, false},
	{"\"\x00\"", false}, {"\"\n\"", false}, {"\"\t\"", false}, {"\"\x1f\"", false}, {"\"\r\"", false}, {"\"aaaaaaa\n\"", false}, {"\"aaaaaaaa\x01aaaaaaa\"", false}, {"\"\\\n\"", false},

	// 8.1: only UTF-8
	{"\"\xc3\xa9\"", true}, {"\"\xf0\x9f\x98\x80\"", true}, {"\"\xf4\x8f\xbf\xbf\"", true},
	{"\"\xff\"", false}, {"\"\xfe\"", false}, {"\"\x80\"", false}, {"\"\xc0\x80\"", false}, {"\"\xc1\xbf\"", false}, {"\"\xe0\x80\x80\"", false}, {"\"\xe0\xff\"", false}, {"\"\xc3\"", false}, {"\"\xc3(\"", false},
	{"\"\xed\xa0\x80\"", false}, {"\"\xed\xbf\xbf\"", false}, {"\"\xf4\x90\x80\x80\"", false}, {"\"\xf5\x80\x80\x80\"", false}, {"\"\xf8\x88\x80\x80\x80\"", false}, {"\"\xf0\x80\x80\x80\"", false}, {"\"aaaaaaa\xff\"", false},
	{"\"aaaaaaaa\xff\"", false}, {"\"\xe2\x82\"", false}, {"[\xff]", false}, {"\xe5", false}, {"[\"a\xe5\"]", false}, {"\xef\xbb\xbf{}", false}, {"\xff\xfe[\x00]\x00", false}, {"\x00[\x00]", false},
}

func TestGrammar(t *testing.T) {
	for _, tt := range grammar {
		blank := tt.text + "          " // room for reading eight bytes at once
		for _, text := range []string{tt.text, blank, "[" + tt.text + "]", `{"a":` + tt.text + `}`, `{"a":` + tt.text + `,"next":"member"}`} {
			if text != tt.text && text != blank && !wraps(tt.text) {
				continue
			}
			_, err := ParseRaw([]byte(text))
			if (err == nil) != tt.ok {
				t.Errorf("%q: %v, want ok=%v", text, err, tt.ok)
			}
			if (err == nil) != strictly([]byte(text)) {
				t.Errorf("%q: %v, the reference disagrees", text, err)
			}
		}
	}
}

// TestTokensAreCounted checks that every name and every value counts as a token, also in the fast
// path for plain members.
func TestTokensAreCounted(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","method":"echo","params":{"a":1,"b":"c","d":{"e":[]}},"id":1}`)
	const tokens = 1 + 4*2 + 8 // the request, its members, and the tokens in params
	for limit := tokens - 6; limit <= tokens+1; limit++ {
		a := &Answerer{Handler: HandlerFunc(func(context.Context, *Request) (any, error) { return true, nil }), Limits: Limits{Tokens: limit}}
		out, e := a.Answer(t.Context(), nil, text, &Exchange{})
		if (e == nil) != (limit >= tokens) {
			t.Errorf("%d tokens with a limit of %d: %s", tokens, limit, out)
		}
	}
}

// wraps reports whether a text has the same validity as an element of an array: its own brackets
// and commas may change it.
func wraps(text string) bool {
	return text != "" && strings.TrimSpace(text) != "" && !strings.ContainsAny(text, ",[]{}:/")
}

func TestRawKeepsItsBytes(t *testing.T) {
	in := " {\"b\": 1.0, \"a\":\t9007199254740993, \"b\" : \"\\u0041\"} "
	raw, err := ParseRaw([]byte(in))
	if err != nil || string(raw) != strings.TrimSpace(in) {
		t.Errorf("%q, %v", raw, err)
	}
	var v map[string]any
	if err := raw.Decode(&v); err == nil {
		t.Error("a duplicate member was decoded")
	}
	if err := Raw(`{"A":1}`).Decode(&struct {
		A int `json:"a"`
	}{}); err != nil {
		t.Errorf("unknown member: %v", err)
	}
}

func TestRawAndIDInsideAValueKeepTheirText(t *testing.T) {
	id, err := ParseID([]byte(`"\u0061"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendResult(nil, Version2, IntID(1), struct {
		ID  ID  `json:"id"`
		Raw Raw `json:"raw"`
	}{id, Raw(`{"a":1.0,"b":9007199254740993,"c":"\u0041\/"}`)})
	if want := `{"jsonrpc":"2.0","result":{"id":"\u0061","raw":{"a":1.0,"b":9007199254740993,"c":"\u0041\/"}},"id":1}`; string(got) != want || err != nil {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}
