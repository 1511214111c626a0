package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestFill(t *testing.T) {
	variables := Values{"a": TextValue("1"), "b-c.d": TextValue("{{a}}"), "e": TextValue(`"$1`)}
	for _, c := range []struct{ text, want string }{
		{`[{{a}},"{{a}}"]`, `[1,"1"]`}, {`{{b-c.d}}`, `{{a}}`}, {`{{e}}`, `"$1`}, {`{{x}} {{ a }} {{1}} {a}`, `{{x}} {{ a }} {{1}} {a}`}, {`{{{a}}}`, `{1}`},
	} {
		if got := fillText(c.text, variables); got != c.want {
			t.Errorf("Fill(%s) = %s, want %s", c.text, got, c.want)
		}
	}
}

func TestHold(t *testing.T) {
	answer := `{"result":{"n":9007199254740993,"t":"a\u00e9","list":[{"x.y":null}],"half":1.50}}`
	for _, c := range []struct {
		path, is, value string
		ok              bool
	}{
		{"$.result.n", "equals", "9007199254740993", true}, {"$.result.n", "equals", "9007199254740992", false}, {"$.result.n", "more", "9007199254740992", true}, {"$.result.n", "less", "9007199254740992", false},
		{"$.result.t", "equals", `"aé"`, true}, {"$.result.t", "matches", `"^a.$"`, true}, {"$.result.t", "matches", `"("`, false}, {"$.result.n", "matches", `"993$"`, true},
		{`$.result.list[0]["x.y"]`, "exists", "", true}, {`$.result.list[0]["x.y"]`, "equals", "null", true}, {"$.result.list[1]", "missing", "", true}, {"$.error", "exists", "", false}, {"$.result.half", "equals", "1.5", true},
		{"$.error", "equals", "null", false}, {"$", "exists", "", true},
	} {
		a := Assert{c.path, c.is, jsonrpc.Raw(c.value)}
		if got := a.hold(t.Context(), &Reply{Response: []byte(answer)}); got.OK != c.ok || got.Text == "" {
			t.Errorf("%+v: %+v, want %v", a, got, c.ok)
		}
	}
}

func TestReplyPaths(t *testing.T) {
	reply := &Reply{
		Response:      []byte(`{"result":{"list":[1,{"a":{"b":2,"c":3}},"x"],"text":"naïve","token":"t"}}`),
		Notifications: []jsonrpc.Raw{jsonrpc.Raw(`{"method":"a"}`), jsonrpc.Raw(`{"method":"b"}`)},
		Responses:     []jsonrpc.Raw{jsonrpc.Raw(`{"result":1}`)},
		Time:          1500 * time.Microsecond,
	}
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"time equals 1.5", true}, {"time less 2ms", true}, {"time more 1s", false}, {"notifications count 2", true}, {"notifications[1].method equals b", true}, {"notifications[2] missing", true},
		{"responses[0].result equals 1.0", true}, {"$.result.list count 3", true}, {"$.result count 3", true}, {"$.result.text count 5", true}, {"time count 1", false},
		{`$.result.list contains {"a": {"b": 2}}`, true}, {`$.result.list contains {"a": {"b": 3}}`, false}, {`$.result.list contains "x"`, true}, {"$.result.list contains 2", false}, {"$.result.text contains ïve", true},
		{"$.result contains {\"text\": \"naïve\"}", true}, {"$.nothing contains 1", false}, {"$.nothing differs 1", true}, {"$.result.text differs naïve", false}, {"$.result.text differs 1", true},
		{"$.result.list[0] type integer", true}, {"$.result.list[0] type number", true}, {"$.result.list type object", false}, {"$.error type null", false},
		{"jq: .result.list | length equals 3", true}, {"jq: .notifications | map(.method) equals [\"a\", \"b\"]", true}, {"jq: .time > 1 equals true", true}, {"jq: empty missing", true}, {"jq: .result.list[0] exists", true},
		{"jq: error exists", false}, {"jq: 1 / 0 missing", false}, {"jq: env | length equals 0", true},
		{`$.result.list[1]["a"].b equals 2`, true}, {"$.result.text matches ^na.ve$", true}, {"$.result.text matches (", false},
	} {
		a, ok := parseAssert(c.text)
		if !ok {
			t.Errorf("%s is not an assertion", c.text)
			continue
		}
		if got := a.hold(t.Context(), reply); got.OK != c.ok || got.Text == "" {
			t.Errorf("%s: %+v, want %v", c.text, got, c.ok)
		}
	}
	for _, text := range []string{"", "$.result", "$.result is 1", "result equals 1", "$.result equals", "$.result exists 1", "$.a..b exists", "jq: .[ exists", "jq: input exists", "timed exists", "$result exists"} {
		if a, ok := parseAssert(text); ok {
			t.Errorf("%q is the assertion %+v", text, a)
		}
	}
}

// TestFilterEnds checks that a filter without an end is stopped.
func TestFilterEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	a := Assert{Path: "jq: last(repeat(1))", Is: "exists"}
	if got := a.hold(ctx, &Reply{}); got.OK || !strings.Contains(got.Text, "jq: ") {
		t.Errorf("%+v", got)
	}
}

func TestFillJSON(t *testing.T) {
	values := Values{"n": ValueOf(jsonrpc.Raw(`9007199254740993`)), "s": TextValue(`a"b`), "o": ValueOf(jsonrpc.Raw(`{"x":[1]}`)), "name": TextValue("key")}
	for _, c := range []struct{ text, want string }{
		{`["{{n}}", "<{{n}}>", "{{s}}", "{{o}}", "{{none}}", {"{{name}}": "{{n}}"}, [], {}, 1.50]`, `[9007199254740993,"<9007199254740993>","a\"b",{"x":[1]},"{{none}}",{"key":9007199254740993},[],{},1.50]`},
		{`{"a": "it is {{s}}{{n}}"}`, `{"a":"it is a\"b9007199254740993"}`}, {`[1, 2]`, `[1, 2]`},
	} {
		if got := fillJSON(jsonrpc.Raw(c.text), values); string(got) != c.want {
			t.Errorf("%s is filled to %s, want %s", c.text, got, c.want)
		}
	}
}

// TestBadFiles checks that faults of a file are reported with the line and the column.
func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.yaml", "calls: []\n", "a.yaml:1:1: a suite needs calls, or text or method of a single call"},
		{"a.yaml", "calls: 1\n", "a.yaml:1:1: calls must be a list"},
		{"a.yaml", "- 1\n", "a.yaml:1:1: the file must be a mapping"},
		{"a.yaml", "", "the file must be a mapping"},
		{"a.yaml", "calls:\n  - name: x\n", "a.yaml:2:5: a call needs method or text"},
		{"a.yaml", "calls:\n  - text: '1'\n    method: x\n", "a.yaml:3:5: text and method cannot be used together"},
		{"a.yaml", "calls:\n  - text: '1'\n    params: []\n", "a.yaml:3:5: params need method; text is the whole message"},
		{"a.yaml", "calls:\n  - method: x\n    params: 1\n", "a.yaml:3:5: params must be a list or a mapping; use text to send any message"},
		{"a.yaml", "calls:\n  - method: x\n    timeout: 5\n", "a.yaml:3:5: 5 is not a time such as 5s or 500ms"},
		{"a.yaml", "calls:\n  - method: x\n    asserts: ['$.a is 1']\n", `a.yaml:3:15: "$.a is 1" is not an assertion`},
		{"a.yaml", "calls:\n  - method: x\n    asserts: [{path: a, is: exists}]\n", "a.yaml:3:16: a path must start with $"},
		{"a.yaml", "calls:\n  - method: x\n    asserts: [{path: $, is: equal, value: 1}]\n", `a.yaml:3:25: "equal" is not one of exists, `},
		{"a.yaml", "calls:\n  - method: x\n    asserts: [{path: $, is: equals}]\n", "a.yaml:3:16: equals needs a value"},
		{"a.yaml", "calls:\n  - method: x\n    capture: {a b: $}\n", `"a b" is not a valid variable name`},
		{"a.yaml", "calls:\n  - method: x\n    capture: {a: x}\n", "a.yaml:3:15: a path must start with $"},
		{"a.yaml", "calls:\n  - method: x\n    headers: {a b: c}\n", `a.yaml:3:15: "a b" is not a valid header name`},
		{"a.yaml", "calls:\n  - {method: x, name: y}\n  - {method: x, name: y}\n", `a.yaml:3:17: the name "y" is used twice`},
		{"a.yaml", "target: x\ncommand: [y]\ncalls: [{method: x}]\n", "a.yaml:2:1: target and command cannot be used together"},
		{"a.yaml", "env: [A=b]\ncalls: [{method: x}]\n", "a.yaml:1:1: env needs command"},
		{"a.yaml", "calls: [{method: x, notify: yes}]\n", "notify must be true or false"},
		{"a.yaml", "x-mine: 1\nevironments: {}\ncalls: [{method: x}]\n", "a.yaml:2:1: a suite has no member evironments; did you mean environments?"},
		{"a.yaml", "calls: [{method: x, zzz: 1}]\n", "a call has no member zzz; its members are answers, asserts, "},
		{"a.json", "// x\n{\"method\": \"x\",\n \"parms\": []}", "a.json:3:2: a saved call has no member parms; did you mean params?"},
		{"a.json", "{\"method\": ", "a.json:1:"},
		{"a.yaml", "calls: &a []\n", "a.yaml:1:8: anchors, aliases and tags are not supported"},
	} {
		_, err := Parse(c.name, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	many := "calls:\n" + strings.Repeat("  - method: x\n", maxCalls+1)
	if _, err := Parse("a.yaml", []byte(many)); err == nil || !strings.Contains(err.Error(), "at most 1000 calls") {
		t.Errorf("%v", err)
	}
	if _, err := Parse("a.yaml", make([]byte, maxBytes+1)); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("%v", err)
	}
}

// TestNames checks that each call has a name of its own.
func TestNames(t *testing.T) {
	s, err := Parse("x/my.yaml", []byte("calls:\n  - method: sum\n  - method: sum\n  - text: '1'\n  - {method: a, name: sum}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range s.Calls {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, "|"); got != "sum (2)|sum (3)|call 3|sum" || s.Name != "my" {
		t.Errorf("%s: %s", s.Name, got)
	}
}

// A fake sends back what a function returns.
type fake func(r *Request) (*Reply, error)

func (f fake) Send(_ context.Context, r *Request) (*Reply, error) { return f(r) }

// TestSecretsAreNotReported checks that no part of a report has a secret of the file, of a header
// or of a captured value.
func TestSecretsAreNotReported(t *testing.T) {
	s, err := Parse("a.yaml", []byte(`
target: http://me:letmein99@h/rpc
headers: {Authorization: "Bearer ${MINE}", X-Plain: "{{plain}}"}
variables: {plain: plain-secret, apiKey: key-secret}
secrets: [plain]
calls:
  - name: login {{plain}}
    method: login
    params: {user: ada, with: "{{apiKey}} and {{plain}}"}
    capture: {token: $.result.token, plain2: $.result.session}
    asserts: [$.result.token equals nope, $.result.said equals nope]
  - method: use
    params: ["{{token}}", "{{plain2}}"]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Prepare(&Options{Lookup: func(name string) (string, bool) { return "my-bearer-token", name == "MINE" }})
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	report := r.Run(t.Context(), fake(func(r *Request) (*Reply, error) {
		text := string(r.Params) + strings.Join(r.Header["Authorization"], "") + strings.Join(r.Header["X-Plain"], "")
		sent = append(sent, text)
		if r.Method == "use" {
			return &Reply{Sent: []byte(text), Response: []byte(`{"error":{"code":1,"message":"bad token captured-secret of plain-secret"}}`), Command: "parley call -H 'Authorization: Bearer my-bearer-token' captured-secret"}, nil
		}
		return &Reply{Sent: []byte(text), Response: []byte(`{"result":{"token":"captured-secret","said":"your key-secret my-bearer-token","session":"open"}}`)}, nil
	}))
	if len(sent) != 2 || !strings.Contains(sent[0], "Bearer my-bearer-tokenplain-secret") || !strings.Contains(sent[1], `["captured-secret","open"]`) {
		t.Errorf("sent: %q", sent)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var junit bytes.Buffer
	if err := WriteJUnit(&junit, []*Report{report}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"letmein99", "my-bearer-token", "plain-secret", "key-secret", "captured-secret"} {
		if strings.Contains(string(text), secret) || strings.Contains(junit.String(), secret) {
			t.Errorf("%s is in\n%s\n%s", secret, text, junit.String())
		}
	}
	if report.Counts != (Counts{Fail: 2}) {
		t.Errorf("%+v", report.Counts)
	}
}

// TestOutcomes checks what becomes of calls after one that failed.
func TestOutcomes(t *testing.T) {
	s, err := Parse("a.yaml", []byte("target: x\ncalls:\n  - {method: ok}\n  - {method: closed}\n  - {method: ok}\n  - {method: ok, target: y}\n  - {method: late, target: y, timeout: 1ms}\n  - {method: ok, target: y}\n"))
	if err != nil {
		t.Fatal(err)
	}
	send := fake(func(r *Request) (*Reply, error) {
		switch r.Method {
		case "closed":
			return nil, &SendError{Kind: Unreachable, Text: "gone", Closed: true}
		case "late":
			return &Reply{Sent: []byte("{}"), Unanswered: []string{"ask"}}, &SendError{Kind: TimedOut}
		}
		return &Reply{Response: []byte(`{"result":1}`)}, nil
	})
	for _, c := range []struct {
		o    Options
		want string
	}{{Options{}, "pass error skip pass error pass"}, {Options{Bail: true}, "pass error skip skip skip skip"}, {Options{Only: []string{"ok (4)", "LATE"}}, "error pass"}, {Options{Target: "y", Only: []string{"*o*"}}, "pass error skip skip skip"}} {
		r, err := s.Prepare(&c.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, call := range r.Run(t.Context(), send).Calls {
			got = append(got, string(call.Outcome))
			if call.Kind == TimedOut && !strings.Contains(call.Why, "no response within 1ms (timeout); the server called ask, for which the file has no answers") {
				t.Errorf("%s", call.Why)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %s", c.o, got, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := s.Prepare(nil)
	if err != nil {
		t.Fatal(err)
	}
	if report := r.Run(ctx, send); report.Counts.Skip != len(s.Calls) {
		t.Errorf("a cancelled run: %+v", report.Counts)
	}
}

// TestTheGuideShowsTheExamples checks that the files of the guide are those of examples/suites,
// which the tests of the command run.
func TestTheGuideShowsTheExamples(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/test.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"demo", "mcp"} {
		text, err := os.ReadFile("../../examples/suites/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "```yaml\n"+string(text)+"```") {
			t.Errorf("the guide does not show %s.yaml", name)
		}
	}
}

// FuzzParse checks that any file is read or rejected, and that what is read can be prepared.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"demo", "mcp"} {
		text, err := os.ReadFile("../../examples/suites/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add("a.yaml", string(text))
	}
	f.Add("a.json", `{"name":"a","text":"{{x}}","variables":{"x":1},"asserts":[{"path":"$","is":"exists"}]}`)
	f.Add("a.yaml", "calls: [{method: x, capture: {a: '$'}, asserts: ['$ equals 1', {jq: .}]}]")
	f.Fuzz(func(t *testing.T, name, text string) {
		s, err := Parse(name, []byte(text))
		if err != nil {
			return
		}
		r, err := s.Prepare(&Options{Target: "x", Lookup: func(string) (string, bool) { return "v", true }})
		if err != nil {
			return
		}
		report := r.Run(t.Context(), fake(func(r *Request) (*Reply, error) {
			return &Reply{Sent: r.Text, Response: []byte(`{"result":{"a":[1]}}`)}, nil
		}))
		if err := WriteJUnit(io.Discard, []*Report{report}); err != nil {
			t.Error(err)
		}
	})
}
