package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

type names map[string]jsonrpc.Raw

func (n names) Lookup(name string) (jsonrpc.Raw, bool) {
	v, ok := n[name]
	return v, ok
}

var scope = names{
	"principal": jsonrpc.Raw(`{"name":"token:ci","groups":["robots","\u0061dmins"],"claims":{"n":9007199254740993,"nul":null,"realm":{"a-b":1}}}`),
	"arguments": jsonrpc.Raw(`{"amount":500,"text":"12","big":1e400,"list":[1,"2",[3]],"flag":false,"nan":"NaN","dup":1,"dup":2,"empty":"","path":"/a/\u002e./b"}`),
	"method":    jsonrpc.Raw(`"tools/call"`),
	"none":      nil,
	"long":      jsonrpc.Raw(`"` + strings.Repeat("a", 65<<10) + `"`),
}

// TestMatch lists what policies evaluate to: true, false, or an error.
func TestMatch(t *testing.T) {
	for text, want := range map[string]string{
		"has(principal.groups, 'admins')":              "true", // an escape in the JSON
		"has(principal.groups, 'robots')":              "true",
		"has(principal.groups, 'robot')":               "false",
		"has(principal.nothing, 'x')":                  "false",
		"has(principal.groups, principal.nothing)":     "false",
		"has(principal.name, 'x')":                     "error", // not a list
		"has(arguments.list, 2)":                       "false", // "2" is a text
		"has(arguments.list, '2')":                     "true",
		"glob('token:*', principal.name)":              "true",
		"glob('*:c*i', principal.name)":                "true",
		"glob('token', principal.name)":                "false",
		"glob('*', arguments.amount)":                  "error",
		"glob('*a*', long)":                            "error",
		"glob('*', arguments.gone)":                    "false",
		"matches('^token:(ci|cd)$', principal.name)":   "true",
		"matches('k', principal.name)":                 "true", // not anchored
		"matches('^k', principal.name)":                "false",
		"matches('x', arguments.amount)":               "error",
		"matches('.*', arguments.gone)":                "false",
		"method == 'tools/call'":                       "true",
		"method != 'tools/call'":                       "false",
		"arguments.amount < 1000":                      "true",
		"arguments.amount >= 500":                      "true",
		"arguments.amount == 500.0":                    "true",
		"arguments.amount == 5e2":                      "true",
		"arguments.amount > '100'":                     "error", // another type
		"arguments.text < 1000":                        "error",
		"arguments.text == 12":                         "error",
		"arguments.nan <= 1000":                        "error",
		"arguments.big > 1":                            "error", // no floating-point number
		"arguments.flag < true":                        "error",
		"arguments.flag == false":                      "true",
		"arguments.flag != true":                       "true",
		"arguments.gone < 1":                           "false",
		"arguments.gone == 1":                          "false",
		"arguments.gone != 1":                          "false",
		"arguments.gone == null":                       "false",
		"!(arguments.gone < 1)":                        "true",
		"arguments.gone":                               "false",
		"arguments.empty":                              "false",
		"arguments.dup == 1":                           "false", // it is unclear which one counts
		"arguments.gone.deeper.still == 1":             "false",
		"arguments.list[0] == 1":                       "true",
		"arguments.list[-1][0] == 3":                   "true",
		"arguments.list[9] == 1":                       "false",
		"arguments.list[-9] == 1":                      "false",
		"arguments.list[1.5] == 1":                     "error",
		"arguments['amount'] == 500":                   "true",
		"arguments.path == '/a/../b'":                  "true", // the escape of a dot
		"none.x == 1":                                  "false",
		"none == 1":                                    "false",
		"principal.claims.n == 9007199254740993":       "true",
		"principal.claims.n == 9007199254740992":       "false",
		"principal.claims.n > 9007199254740992":        "true",
		"principal.claims.nul == null":                 "true",
		"principal.claims.nul != 'x'":                  "true",
		"principal.claims.nul < 1":                     "error",
		"principal.claims.realm.a-b == 1":              "true",
		"arguments.amount < 1 || arguments.text < 1":   "error",
		"arguments.amount < 1 && arguments.text < 1":   "false", // not evaluated
		"arguments.amount > 1 || arguments.text < 1":   "true",
		"unknown == 1":                                 "error",
		"length(arguments.list) == 3":                  "true",
		"lower(method) == 'tools/call'":                "true",
		"arguments.list == arguments.list":             "true",
		"1e-400000000 == 0":                            "error", // it would need gigabytes
		"1" + strings.Repeat("0", 600) + " == 1":       "error",
		"0." + strings.Repeat("1", 700) + " == 0.1111": "false",
	} {
		e, err := ParseStrict(text)
		if err != nil {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		got := "error"
		if is, err := e.Match(scope); err == nil {
			got = string(Bool(is))
		} else if is {
			t.Errorf("%.60s is true and an error", text)
		}
		if got != want {
			t.Errorf("%.60s is %s, want %s", text, got, want)
		}
	}
}

func TestParseStrictErrors(t *testing.T) {
	for _, text := range []string{"", "has(a)", "matches(a, b)", "matches('(', b)", "matches('a{2000}', b)", "foo(1)", "a ==", strings.Repeat("!", 100) + "a", strings.Repeat("a", 5000)} {
		_, err := ParseStrict(text)
		if wrong, ok := errors.AsType[*SyntaxError](err); !ok || wrong.Offset < 0 || wrong.Offset > len(text) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for _, text := range []string{"has(a, 1)", "glob(a, b)", "matches('a', b)"} { // not in plans
		if _, err := Parse(text); err == nil {
			t.Errorf("%s is an expression of plans", text)
		}
	}
	if e, err := ParseStrict("a.b == c && has(a, b)"); err != nil || strings.Join(e.Names(), " ") != "a c b" {
		t.Errorf("names: %v, %v", e.Names(), err)
	}
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"has(principal.groups, 'a') && principal.claims.x['y'].z == server": "",
		"length(tool) > 3 || address == '::1' || annotations.readOnlyHint":  "",
		"principal.group == 'x'":     `principal has no "group"`,
		"principal == 'x'":           "use a member of principal",
		"principal['name'] == 'x'":   "use a member of principal",
		"!has(principal, 'x')":       "use a member of principal",
		"argument.x < 1":             `unknown name "argument"`,
		"principal.name == user":     `unknown name "user"`,
		"x":                          `unknown name "x"`,
		"arguments[principal]":       "use a member of principal",
		"principal.claims[who] == 1": `unknown name "who"`,
	} {
		e, err := ParseStrict(text)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Check(PolicyNames)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if e, _ := ParseStrict("principal"); e.Check(PolicyNames) == nil {
		t.Error("principal alone is accepted")
	}
}

// FuzzMatch checks that no expression panics, and that an error is never true.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"a.b == 1", "has(a, 'x') || !glob('*', a.c[0])", "matches('a+', a) && length(a) < 3", "a[-1] <= 1e5"} {
		f.Add(s, `{"b":{"c":[1,"x",null,true]},"c":["y"]}`)
		f.Add(s, `["x",2,"three",{"four":4}]`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		raw, err := jsonrpc.ParseRaw([]byte(value))
		if err != nil {
			return
		}
		e, err := ParseStrict(text)
		if err != nil {
			return
		}
		all := names{"b": nil}
		for _, name := range e.Names() {
			all[name] = raw
		}
		is, err := e.Match(all)
		if again, err2 := e.Match(all); again != is || (err == nil) != (err2 == nil) || is && err != nil {
			t.Fatalf("%q of %s: %t %v, then %t %v", text, raw, is, err, again, err2)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	e, err := ParseStrict("method == 'tools/call' && has(principal.groups, 'admins') && glob('token:*', principal.name)")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if is, err := e.Match(scope); !is || err != nil {
			b.Fatal(is, err)
		}
	}
}
