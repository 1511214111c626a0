package conformance

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

const rfc8259 = "RFC 8259, section "

// A value is a text in place of a JSON value.
type value struct {
	name    string
	section string
	text    string
	good    bool
}

// grammarRules returns rules that check the parser against the grammar of JSON, in three places:
// where a method reads the text, where it is skipped, and inside a batch.
func grammarRules() []payload {
	var rules []payload
	for _, v := range values() {
		source := rfc8259 + v.section
		wants := one(fault("null", -32700))
		wantsBatch := wants
		echoed, passed := wants, wants
		if v.good {
			echoed, passed = one(ok("1", "["+v.text+"]")), one(ok("1", `["hello",5]`))
			wantsBatch = array(ok("1", "["+v.text+"]"), ok("2", `["hello",5]`))
		}
		rules = append(rules,
			payload{id: "grammar/" + v.name, source: source, wants: echoed,
				sends: `{"jsonrpc":"2.0","id":1,"method":"echo","params":[` + v.text + `]}`},
			payload{id: "grammar/" + v.name + "/unread", source: source, wants: passed,
				sends: `{"jsonrpc":"2.0","x":` + v.text + `,"id":1,"method":"get_data"}`})
		if len(v.text) < 3 || !v.good && strings.HasPrefix(v.name, "structure") {
			rules = append(rules, payload{id: "grammar/" + v.name + "/batch", source: source, wants: wantsBatch,
				sends: `[{"jsonrpc":"2.0","id":1,"method":"echo","params":[` + v.text + `]},{"jsonrpc":"2.0","id":2,"method":"get_data"}]`})
		}
	}
	return append(rules, textRules()...)
}

func values() []value {
	var list []value
	add := func(good bool, section, kind string, named ...string) {
		for i := 0; i < len(named); i += 2 {
			list = append(list, value{kind + "/" + named[i], section, named[i+1], good})
		}
	}
	add(true, "3", "literal", "true", "true", "false", "false", "null", "null")
	add(false, "3", "literal", "True", "True", "TRUE", "TRUE", "False", "False", "Null", "Null", "NULL", "NULL", "nul", "nul", "tru", "tru", "fals", "fals",
		"truee", "truee", "nulll", "nulll", "undefined", "undefined", "none", "None", "nil", "nil", "yes", "yes", "word", "hello", "wide-true", "ｔｒｕｅ", "true-false", "true false",
		"t", "t", "true-nul-byte", "true\x00")

	add(true, "6", "number", "zero", "0", "minus-zero", "-0", "one", "1", "minus-one", "-1", "many-digits", "1234567890", "fraction", "0.5", "minus-fraction", "-0.5",
		"point-zero", "1.0", "zero-point-zero", "0.0", "trailing-zeros", "1.500", "exp", "1e2", "exp-upper", "1E2", "exp-plus", "1e+2", "exp-upper-plus", "1E+2",
		"exp-minus", "1e-2", "exp-upper-minus", "1E-2", "zero-exp", "0e1", "zero-exp-plus", "0E+0", "minus-zero-exp", "-0e-0", "all-parts", "-12.50e+07",
		"exp-leading-zeros", "1e007", "exp-double-zero", "1e00", "past-int32", "2147483648", "past-double-integers", "9007199254740993", "int64-max", "9223372036854775807",
		"int64-min", "-9223372036854775808", "past-int64", "9223372036854775808", "uint64-max", "18446744073709551615", "past-uint64", "18446744073709551616",
		"thirty-digits", "123456789012345678901234567890", "thousand-digits", strings.Repeat("9", 1000), "ten-thousand-digits", "-"+strings.Repeat("8", 10000), "long-fraction", "0."+strings.Repeat("123456789", 100),
		"long-exponent", "1e"+strings.Repeat("9", 400), "exact-decimal", "0.1000000000000000055511151231257827", "max-double", "1.7976931348623157e308",
		"past-max-double", "1e309", "min-double", "5e-324", "under-min-double", "1e-400", "huge-exp", "1e999999999", "tiny-exp", "-1e-999999999", "thirty-percent", "0.30000000000000004")
	add(false, "6", "number", "plus", "+1", "plus-zero", "+0", "leading-zero", "01", "double-zero", "00", "minus-leading-zero", "-01", "minus-double-zero", "-00", "leading-zero-point", "012.5",
		"no-integer", ".5", "minus-no-integer", "-.5", "no-fraction", "1.", "minus-no-fraction", "-1.", "no-fraction-exp", "1.e1", "lone-point", ".", "two-points", "1.2.3", "double-point", "1..2",
		"no-exp", "1e", "no-exp-upper", "1E", "no-exp-plus", "1e+", "no-exp-minus", "1E-", "exp-fraction", "1e1.5", "two-exps", "1e1e1", "double-e", "1ee1", "exp-two-signs", "1e+-1", "exp-space", "1 e1", "exp-space-after", "1e 1",
		"lone-minus", "-", "two-minus", "--1", "minus-plus", "-+1", "plus-minus", "+-1", "minus-space", "- 1", "minus-word", "-a", "minus-inf", "-Infinity", "minus-nan", "-NaN",
		"nan", "NaN", "inf", "Infinity", "short-inf", "Inf", "hex", "0x1F", "hex-upper", "0X1F", "binary", "0b101", "octal", "0o17", "underscore", "1_000", "thousands-quote", "1'000", "suffix-f", "1f", "suffix-l", "1L", "suffix-n", "1n",
		"letters-after", "1a", "arabic", "١", "wide", "１", "arabic-exp", "1e١", "math-minus", "−1", "infinity-sign", "∞", "two-numbers", "1 2", "sum", "1+2", "percent", "50%", "lone-e", "e1", "lone-upper-e", "E1", "zero-e", "0e", "zero-e-plus", "0E+", "half", "½",
		"nul-byte", "1\x00", "point-minus", "1.-5", "point-e", "0.e1", "trailing-minus", "1-", "trailing-plus", "1+")

	add(true, "7", "string", "empty", `""`, "blank", `" "`, "letters", `"abc"`, "quote", `"\""`, "backslash", `"\\"`, "slash", `"/"`, "escaped-slash", `"\/"`, "b", `"\b"`, "f", `"\f"`, "n", `"\n"`, "r", `"\r"`, "t", `"\t"`,
		"all-short", `"\"\\\/\b\f\n\r\t"`, "escaped-nul", `"\u0000"`, "nul-in-middle", `"a\u0000b"`, "escaped-control", `"\u001f"`, "escaped-quote", `"\u0022"`, "escaped-backslash", `"\u005C"`, "escaped-letter", `"\u0061"`,
		"hex-upper", `"\uABCD"`, "hex-lower", `"\uabcd"`, "hex-mixed", `"\uaBcD"`, "pair", `"\uD834\uDD1E"`, "pair-lower", `"\ud83d\ude00"`, "pair-highest", `"\uDBFF\uDFFF"`, "two-pairs", `"\uD83D\uDE00\uD83D\uDE01"`,
		"escaped-bom", `"\uFEFF"`, "escaped-fffe", `"\uFFFE"`, "escaped-ffff", `"\uFFFF"`, "escaped-replacement", `"\uFFFD"`, "escaped-line-separator", `"\u2028"`, "backslash-then-u", `"\\u0041"`, "two-backslashes", `"\\\\"`, "backslash-quote", `"\\\""`,
		"del", "\"\x7f\"", "json-inside", `"{\"a\":[1]}"`, "braces", `"}{]["`, "comment-inside", `"/* no */ // no"`, "comma-colon", `",:"`, "long", `"`+strings.Repeat("x", 70000)+`"`, "seven", `"1234567"`, "eight", `"12345678"`, "nine", `"123456789"`, "escape-at-eight", `"1234567\n"`, "escape-across-eight", `"123456\u00e9"`)
	add(true, "8.1", "utf8", "two-bytes", `"é"`, "three-bytes", `"€"`, "four-bytes", `"😀"`, "lowest-two", "\"\u0080\"", "highest-two", "\"\u07ff\"", "lowest-three", "\"\u0800\"", "before-surrogates", "\"\ud7ff\"", "after-surrogates", "\"\ue000\"", "highest-three", "\"\uffff\"", "lowest-four", "\"\U00010000\"", "highest", "\"\U0010ffff\"",
		"fffe", "\"\ufffe\"", "fdd0", "\"\ufdd0\"", "1fffe", "\"\U0001fffe\"", "bom-in-string", "\"\ufeff\"", "line-separator", "\"\u2028\"", "paragraph-separator", "\"\u2029\"", "no-break-space", "\"\u00a0\"", "nel", "\"\u0085\"", "zero-width", "\"\u200b\"", "bidi", "\"\u202e\"", "combining", "\"e\u0301\"", "replacement", "\"\ufffd\"", "mixed", `"aé€😀z"`, "across-eight", `"1234567é"`, "four-across-eight", `"123456😀"`)
	add(true, "8.2", "surrogate", "lone-high", `"\uD800"`, "lone-low", `"\uDC00"`, "highest-high", `"\uDBFF"`, "highest-low", `"\uDFFF"`, "high-then-letter", `"\uD800a"`, "high-then-escape", `"\uD800\n"`, "high-then-bmp", `"\uD800\u0041"`, "two-highs", `"\uD800\uD800"`, "two-lows", `"\uDC00\uDC00"`, "reversed", `"\uDE00\uD83D"`, "high-then-pair", `"\uD800\uD83D\uDE00"`, "pair-then-low", `"\uD83D\uDE00\uDE00"`, "lower-case", `"\udead"`, "in-name", `{"\uD800":1}`)
	add(false, "7", "string", "single-quotes", `'a'`, "unquoted", `abc`, "no-end", `"abc`, "no-start", `abc"`, "lone-quote", `"`, "ends-in-escape", `"abc\"`, "backtick", "`a`", "curly-quotes", "“a”", "two-strings", `"a" "b"`, "concatenated", `"a"+"b"`,
		"u-alone", `"\u"`, "u-1", `"\u1"`, "u-2", `"\u12"`, "u-3", `"\u123"`, "u-no-hex", `"\u123g"`, "u-space", `"\u 123"`, "u-minus", `"\u-123"`, "u-plus", `"\u+123"`, "u-braces", `"\u{41}"`, "u-upper", `"\U0041"`, "u-wide", `"\u００４１"`, "u-quote", `"\u12"34"`, "pair-cut", `"\uD834\uDd"`, "pair-cut-u", `"\uD834\u"`, "pair-cut-backslash", `"\uD834\"`, "pair-bad-hex", `"\uD834\uDDxx"`, "x", `"\x41"`, "octal", `"\101"`, "escaped-blank", `"\ "`, "escaped-nul-byte", "\"\\\x00\"", "escaped-tab-byte", "\"\\\t\"", "escaped-utf8", `"\é"`, "escaped-emoji", `"\😀"`)
	for c := byte('!'); c < 0x7f; c++ {
		if strings.IndexByte(`"\/bfnrtux U1`, c) < 0 {
			add(false, "7", "escape", fmt.Sprintf("%02x-%c", c, c), `"\`+string(c)+`"`)
		}
	}
	for c := byte(0); c < 0x20; c++ {
		add(false, "7", "control", fmt.Sprintf("%02x", c), "\"a"+string(c)+"b\"")
	}
	for c := 0; c <= 0xff; c++ {
		if strings.IndexByte(" \t\r\n0123456789,]", byte(c)) >= 0 || c >= 0x80 && c < 0xc0 && c%8 != 0 || c > 0xc1 && c < 0xf5 && c%8 != 3 {
			continue
		}
		add(false, "3", "stray-byte", fmt.Sprintf("%02x", c), string([]byte{byte(c)}))
	}
	for name, text := range sorted(map[string]string{
		"continuation": "\x80", "continuation-high": "\xbf", "two-continuations": "\x80\xbf", "overlong-nul": "\xc0\x80", "overlong-slash": "\xc0\xaf", "overlong-two": "\xc1\xbf", "overlong-three": "\xe0\x80\xaf", "overlong-three-high": "\xe0\x9f\xbf",
		"overlong-four": "\xf0\x80\x80\xaf", "overlong-four-high": "\xf0\x8f\xbf\xbf", "surrogate-low": "\xed\xa0\x80", "surrogate-high": "\xed\xbf\xbf", "cesu-8": "\xed\xa0\xbd\xed\xb8\x80", "past-unicode": "\xf4\x90\x80\x80", "f5": "\xf5\x80\x80\x80", "f7": "\xf7\xbf\xbf\xbf", "five-bytes": "\xf8\x88\x80\x80\x80", "six-bytes": "\xfc\x84\x80\x80\x80\x80",
		"fe": "\xfe", "ff": "\xff", "cut-two": "\xc3", "cut-three": "\xe2\x82", "cut-three-early": "\xe2", "cut-four": "\xf0\x9f\x98", "cut-four-middle": "\xf0\x9f", "latin1": "caf\xe9", "two-then-letter": "\xc3a", "three-then-letter": "\xe2\x82a", "utf16-bom": "\xff\xfe", "good-then-bad": "é\xc3", "bad-at-eight": "1234567\xff", "bad-at-nine": "12345678\xff",
	}) {
		list = append(list, value{"invalid-utf8/" + name, "8.1", `"` + text + `"`, false})
	}
	add(false, "8.1", "invalid-utf8", "in-name", "{\"\xff\":1}", "cut-in-name", "{\"a\xc3\":1}", "deep", "[[[\"\xe9\"]]]")

	add(true, "4", "object", "empty", `{}`, "one", `{"a":1}`, "two", `{"a":1,"b":2}`, "empty-name", `{"":0}`, "nested", `{"a":{"b":{"c":{}}}}`, "twice", `{"a":1,"a":2}`, "twice-same", `{"a":1,"a":1}`, "twice-escaped", `{"a":1,"\u0061":2}`, "escaped-name", `{"\u0000\"\\":1}`, "utf8-name", `{"é😀":1}`, "space-inside", `{ }`, "spaces", ` { "a" : 1 , "b" : [ ] } `, "tabs", "{\t\"a\"\t:\t1\t}", "carriage-returns", "{\r\"a\"\r:\r1\r}", "proto", `{"__proto__":{"a":1}}`, "constructor", `{"constructor":null}`, "order", `{"z":1,"a":2,"m":3}`, "many", `{`+manyMembers(300)+`}`, "envelope-inside", `{"jsonrpc":"2.0","method":"x","id":9}`, "values-of-all-kinds", `{"a":null,"b":true,"c":0,"d":"","e":[],"f":{}}`)
	add(true, "5", "array", "empty", `[]`, "nested-empty", `[[]]`, "one", `[1]`, "kinds", `[null,true,false,0,"",[],{}]`, "spaces", ` [ 1 , 2 ] `, "many", `[`+strings.Repeat("0,", 2000)+`0]`, "deep", strings.Repeat("[", 500)+strings.Repeat("]", 500), "deep-mixed", strings.Repeat(`[{"a":`, 200)+"0"+strings.Repeat("}]", 200), "sixty-four", strings.Repeat("[", 64)+strings.Repeat("]", 64), "sixty-five-objects", strings.Repeat(`{"a":`, 65)+"1"+strings.Repeat("}", 65), "hundred-and-thirty", strings.Repeat(`[{"a":[`, 44)+strings.Repeat(`]}]`, 44))
	add(false, "4", "structure/object", "no-value", `{"a":}`, "no-colon", `{"a" 1}`, "name-alone", `{"a"}`, "comma-for-colon", `{"a",1}`, "equals", `{"a"=1}`, "arrow", `{"a"=>1}`, "double-colon", `{"a"::1}`, "no-name", `{:1}`, "trailing-comma", `{"a":1,}`, "leading-comma", `{,"a":1}`, "double-comma", `{"a":1,,"b":2}`, "comma-alone", `{,}`, "no-comma", `{"a":1 "b":2}`, "semicolon", `{"a":1;"b":2}`, "unquoted-name", `{a:1}`, "single-quoted-name", `{'a':1}`, "number-name", `{1:1}`, "null-name", `{null:1}`, "true-name", `{true:1}`, "array-name", `{[]:1}`, "object-name", `{{}:1}`,
		"two-values", `{"a":1 2}`, "two-colons", `{"a":1:2}`, "open", `{`, "open-name", `{"a`, "open-after-name", `{"a"`, "open-after-colon", `{"a":`, "open-after-value", `{"a":1`, "open-after-comma", `{"a":1,`, "closed-by-bracket", `{"a":1]`, "extra-close", `{"a":1}}`, "braces-in-braces", `{{"a":1}}`, "comment", `{"a":1/*no*/}`, "line-comment", `{"a":1// no
}`, "spread", `{...a}`, "method", `{a(){}}`, "trailing-word", `{"a":1 b}`)
	add(false, "5", "structure/array", "trailing-comma", `[1,]`, "leading-comma", `[,1]`, "double-comma", `[1,,2]`, "comma-alone", `[,]`, "no-comma", `[1 2]`, "colon", `[1:2]`, "semicolon", `[1;2]`, "open", `[`, "open-after-value", `[1`, "open-after-comma", `[1,`, "closed-by-brace", `[1}`, "extra-close", `[1]]`, "close-alone", `]`, "brace-alone", `}`, "swapped", `][`, "crossed", `[{]}`, "name-value", `["a":1]`, "comment", `[1/*no*/]`, "hash", `[1#no
]`, "parentheses", `(1)`, "angle", `<null>`, "star", `[*]`, "ellipsis", `[...]`, "empty-place", ``, "comma-place", `,`, "spaces-place", ` `)
	add(false, "2", "space", "form-feed", "\f1", "vertical-tab", "\v1", "nel", "\u00851", "no-break", "\u00a01", "ogham", "\u16801", "en-quad", "\u20001", "line-separator", "\u20281", "paragraph-separator", "\u20291", "ideographic", "\u30001", "zero-width", "\u200b1", "bom", "\ufeff1", "nul", "\x001", "backspace", "\b1", "escape", "\x1b1", "word-joiner", "\u20601", "escaped", `\n1`, "escaped-u", `\u00201`, "form-feed-after", "1\f", "nul-after", "1\x00", "bom-after", "1\ufeff")
	add(true, "2", "space", "blank", " 1", "tab", "\t1", "carriage-return", "\r1", "newline", "\n1", "after", "1 ", "tab-after", "1\t", "mixed", " \t\r1\r\t ", "many", strings.Repeat(" ", 5000)+"1")

	kept := list[:0]
	for _, v := range list {
		// If the place for a value is left empty, the result is a valid array.
		if v.name != "structure/array/empty-place" && v.name != "structure/array/spaces-place" {
			kept = append(kept, v)
		}
	}
	return kept
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"member%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// textRules returns the rules about the whole text.
func textRules() []payload {
	const good = `{"jsonrpc":"2.0","id":1,"method":"get_data"}`
	wants := one(ok("1", `["hello",5]`))
	bad := one(fault("null", -32700))
	invalid := one(fault("null", -32600))
	var rules []payload
	add := func(section, id, sends string, w want) {
		rules = append(rules, payload{id: "text/" + id, source: rfc8259 + section, sends: sends, wants: w})
	}
	add("2", "space-before", " \t"+good, wants)
	add("2", "space-after", good+" \t ", wants)
	add("2", "newlines-around", "\n\r\n"+good+"\r\n\n", wants)
	add("2", "space-everywhere", "{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"get_data\" }", wants)
	add("2", "pretty", "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n\t\"method\": \"get_data\"\n}\n", wants)
	add("2", "carriage-returns", "{\r\"jsonrpc\":\r\"2.0\",\r\"id\":1,\r\"method\":\"get_data\"\r}", wants)
	add("2", "one-megabyte-of-space", strings.Repeat(" ", 1<<20)+good, wants)
	add("8.1", "bom", "\ufeff"+good, bad)
	add("8.1", "bom-twice", "\ufeff\ufeff"+good, bad)
	add("8.1", "bom-after", good+"\ufeff", bad)
	add("8.1", "bom-batch", "\ufeff["+good+"]", bad)
	add("8.1", "bom-alone", "\ufeff", bad)
	add("8.1", "utf16le", twoBytes(good, false), bad)
	add("8.1", "utf16be", twoBytes(good, true), bad)
	add("8.1", "utf16le-bom", "\xff\xfe"+twoBytes(good, false), bad)
	add("8.1", "latin1-before", "\xe9"+good, bad)
	add("8.1", "cut-after", good+"\xc3", bad)
	for name, text := range sorted(map[string]string{
		"form-feed-before": "\f" + good, "nul-before": "\x00" + good, "nul-after": good + "\x00", "no-break-before": "\u00a0" + good, "form-feed-after": good + "\f", "vertical-tab-after": good + "\v",
		"line-separator-after": good + "\u2028", "zero-width-before": "\u200b" + good,
	}) {
		add("2", name, text, bad)
	}
	for name, text := range sorted(map[string]string{
		"two-objects": good + good, "two-objects-space": good + " " + good, "object-comma": good + ",", "comma-object": "," + good, "object-brace": good + "}", "object-bracket": good + "]", "object-number": good + "1",
		"object-string": good + `""`, "object-null": good + " null", "object-array": good + "[]", "array-object": "[]" + good, "two-arrays": "[][]", "object-comment": good + "//", "comment-object": "/**/" + good, "hash-object": "#" + good,
		"object-semicolon": good + ";", "parentheses": "(" + good + ")", "jsonp": "cb(" + good + ")", "xssi": ")]}'," + good, "rs": "\x1e" + good, "assignment": "x=" + good, "two-numbers": "1 2", "object-word": good + "x",
		"open": `{`, "close": `}`, "open-array": `[`, "close-array": `]`, "comma": `,`, "colon": `:`, "quote": `"`, "backslash": `\`, "word": `hello`, "xml": `<?xml version="1.0"?>`, "html": `<html></html>`, "yaml": `jsonrpc: "2.0"`, "single-quotes": `{'jsonrpc':'2.0','id':1,'method':'get_data'}`,
		"unquoted": `{jsonrpc:"2.0",id:1,method:"get_data"}`, "trailing-comma": `{"jsonrpc":"2.0","id":1,"method":"get_data",}`, "no-comma": `{"jsonrpc":"2.0" "id":1,"method":"get_data"}`, "no-colon": `{"jsonrpc" "2.0","id":1,"method":"get_data"}`, "leading-comma": `{,"jsonrpc":"2.0","id":1,"method":"get_data"}`, "double-comma": `{"jsonrpc":"2.0",,"id":1,"method":"get_data"}`,
		"cut-1": good[:1], "cut-2": good[:5], "cut-3": good[:10], "cut-4": good[:12], "cut-5": good[:20], "cut-6": good[:25], "cut-7": good[:len(good)-1], "cut-8": good[:len(good)-2], "cut-number": `{"jsonrpc":"2.0","method":"get_data","id":1`, "cut-string": `"abc`, "base64": "eyJqc29ucnBjIjoiMi4wIn0=", "gzip": "\x1f\x8b\x08\x00\x00", "nul": "\x00", "control": "\x01", "del": "\x7f", "tilde": "~", "at": "@", "dollar": "$", "true-brace": "true}", "minus": "-", "plus-one": "+1", "leading-zero": "01", "nan": "NaN", "infinity": "Infinity",
		"bracket-brace": "[}", "brace-bracket": "{]", "batch-open": "[" + good, "batch-trailing-comma": "[" + good + ",]", "batch-leading-comma": "[," + good + "]", "batch-no-comma": "[" + good + good + "]", "batch-double-comma": "[" + good + ",," + good + "]", "batch-brace": "[" + good + "}", "batch-then-brace": "[" + good + "]}", "batch-twice": "[" + good + "][" + good + "]", "batch-colon": "[" + good + ":" + good + "]", "batch-cut-in-second": "[" + good + "," + good[:20], "batch-bad-second": "[" + good + `,{"jsonrpc":"2.0","id":2,"method":"get_data","params":[01]}]`, "batch-bad-after-notification": `[{"jsonrpc":"2.0","method":"update"},nope]`, "batch-word": "[" + good + ",x]", "batch-then-word": "[" + good + "]x",
		"only-brackets": strings.Repeat("[", 990), "only-open-objects": strings.Repeat(`{"a":`, 990),
	}) {
		section := "2"
		if strings.HasPrefix(name, "batch") || strings.HasPrefix(name, "cut") {
			rules = append(rules, payload{id: "text/" + name, source: jsonrpc2 + "5.1", sends: text, wants: bad})
			continue
		}
		add(section, name, text, bad)
	}
	for name, text := range sorted(map[string]string{
		"null": "null", "true": "true", "false": "false", "zero": "0", "one": "1", "minus": "-1.5e3", "string": `"x"`, "empty-string": `""`, "long-number": strings.Repeat("7", 500), "string-of-request": `"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\"}"`, "space-null": " null ",
		"lone-surrogate": `"\uD800"`, "emoji": `"😀"`,
	}) {
		rules = append(rules, payload{id: "text/scalar/" + name, source: jsonrpc2 + "4", sends: text, wants: invalid})
	}
	return rules
}

// sorted yields the entries of a map in the order of the keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// twoBytes encodes ASCII with two bytes per character.
func twoBytes(text string, big bool) string {
	var b strings.Builder
	for i := range len(text) {
		if big {
			b.WriteByte(0)
			b.WriteByte(text[i])
		} else {
			b.WriteByte(text[i])
			b.WriteByte(0)
		}
	}
	return b.String()
}
