package gateway

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// allow and deny make rules for tests.
func allow(r config.Rule) config.Rule { return r }
func deny(r config.Rule) config.Rule  { r.Deny = true; return r }

var (
	robot = newCaller(&parley.Principal{Name: "token:ci", Groups: []string{"robots"}})
	alice = newCaller(&parley.Principal{Name: "https://id.example|alice|app", Issuer: "https://id.example", Groups: []string{"staff", "admins"},
		Scopes: []string{"mcp", "write"}, Claims: jsonrpc.Raw(`{"sub":"alice","level":3,"tenant":null}`)})
)

func toolCall(c *caller, server, tool, params string) access {
	return access{caller: c, server: server, method: "tools/call", tool: tool, exposed: server + "__" + tool, named: true, params: jsonrpc.Raw(params), address: netip.MustParseAddr("192.0.2.1")}
}

func mustPolicy(t testing.TB, rules ...config.Rule) *policy {
	t.Helper()
	for i := range rules {
		rules[i].Line = i + 1
	}
	p, err := newPolicy(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPolicy lists decisions: allowed, denied, or denied with an error.
func TestPolicy(t *testing.T) {
	guide := []config.Rule{ // of the guide
		deny(config.Rule{Server: []string{"crm"}, Tool: []string{"export_*"}, Unless: "has(principal.groups, 'admins')"}),
		allow(config.Rule{Group: []string{"robots"}, Server: []string{"notes", "billing"}}),
		allow(config.Rule{When: "method != 'tools/call' || arguments.amount < 1000"}),
	}
	export := []config.Rule{deny(config.Rule{Tool: []string{"export_*"}})}
	cheap := []config.Rule{allow(config.Rule{When: "arguments.amount < 1000"})}
	expensive := []config.Rule{deny(config.Rule{When: "arguments.amount >= 1000"})}
	group := access{caller: robot, server: "billing", members: []string{"billing-a", "billing-b"}, method: "billing.pay", params: jsonrpc.Raw(`{"amount":5}`)}
	for _, tt := range []struct {
		name  string
		rules []config.Rule
		a     access
		want  string
		line  int
	}{
		{"no rules", nil, toolCall(robot, "crm", "x", ""), "allowed", 0},
		{"export by a robot", guide, toolCall(robot, "crm", "export_all", `{"arguments":{"amount":1}}`), "denied", 1},
		{"export by an admin", guide, toolCall(alice, "crm", "export_all", `{"arguments":{"amount":1}}`), "allowed", 3},
		{"a robot at notes", guide, toolCall(robot, "notes", "x", ""), "allowed", 2},
		{"a robot elsewhere", guide, toolCall(robot, "crm", "x", ""), "denied", 0},
		{"a small amount", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":999.99}}`), "allowed", 3},
		{"a large amount", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":1000}}`), "denied", 0},
		{"an amount as text", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":"1"}}`), "error", 3},
		{"two amounts", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":1,"amount":9999}}`), "error", 3},
		{"two amounts, one escaped", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":1,"\u0061mount":9999}}`), "error", 3},
		{"two arguments", guide, toolCall(alice, "crm", "pay", `{"arguments":{"amount":1},"arguments":{"amount":9999}}`), "error", 3},
		{"no amount", guide, toolCall(alice, "crm", "pay", `{"arguments":{}}`), "denied", 0},
		{"no arguments", guide, toolCall(alice, "crm", "pay", `{"name":"pay"}`), "denied", 0},
		{"another method", guide, access{caller: alice, method: "resources/read", server: "crm"}, "allowed", 3},

		{"no allow rule", export, toolCall(robot, "crm", "x", ""), "allowed", 0},
		{"the exposed name", []config.Rule{deny(config.Rule{Tool: []string{"crm__exp*"}})}, toolCall(robot, "crm", "export_all", ""), "denied", 1},
		{"the original name", export, toolCall(robot, "crm", "export_all", ""), "denied", 1},
		{"a glob is exact", export, toolCall(robot, "crm", "Export_all", ""), "allowed", 0},
		{"a tool rule and no tool", []config.Rule{deny(config.Rule{Tool: []string{"*"}})}, access{caller: robot, method: "tools/list"}, "allowed", 0},
		{"a tool that pretends to be of another server", []config.Rule{allow(config.Rule{Tool: []string{"notes__*"}})}, toolCall(robot, "crm", "notes__read", ""), "denied", 0},
		{"and the server itself", []config.Rule{allow(config.Rule{Tool: []string{"notes__*"}})}, toolCall(robot, "notes", "read", ""), "allowed", 1},

		{"first match wins", []config.Rule{allow(config.Rule{Principal: []string{"token:ci"}}), deny(config.Rule{})}, toolCall(robot, "crm", "x", ""), "allowed", 1},
		{"and the other way", []config.Rule{deny(config.Rule{}), allow(config.Rule{Principal: []string{"token:ci"}})}, toolCall(robot, "crm", "x", ""), "denied", 1},
		{"a token's short name", []config.Rule{deny(config.Rule{Principal: []string{"ci"}})}, toolCall(robot, "crm", "x", ""), "denied", 1},
		{"a subject is no short name", []config.Rule{allow(config.Rule{Principal: []string{"alice"}})}, toolCall(alice, "crm", "x", ""), "denied", 0},
		{"a subject of an issuer", []config.Rule{allow(config.Rule{Principal: []string{"https://id.example|alice|*"}})}, toolCall(alice, "crm", "x", ""), "allowed", 1},
		{"nobody is in a group", []config.Rule{allow(config.Rule{Group: []string{"*"}})}, toolCall(local, "crm", "x", ""), "denied", 0},
		{"any group", []config.Rule{allow(config.Rule{Group: []string{"adm*"}})}, toolCall(alice, "crm", "x", ""), "allowed", 1},

		{"a missing member allows nothing", cheap, toolCall(alice, "crm", "x", `{"arguments":{}}`), "denied", 0},
		{"a missing member denies nothing", expensive, toolCall(alice, "crm", "x", `{"arguments":{}}`), "allowed", 0},
		{"a deny rule with an error", expensive, toolCall(alice, "crm", "x", `{"arguments":{"amount":[]}}`), "error", 1},
		{"an error in unless", []config.Rule{deny(config.Rule{Unless: "arguments.amount < 1"})}, toolCall(alice, "crm", "x", `{"arguments":{"amount":"a"}}`), "error", 1},
		{"a missing member in unless", []config.Rule{deny(config.Rule{Unless: "arguments.amount < 1"})}, toolCall(alice, "crm", "x", `{}`), "denied", 1},
		{"when and unless", []config.Rule{deny(config.Rule{When: "tool == 'x'", Unless: "principal.claims.level >= 3"})}, toolCall(alice, "crm", "x", ""), "allowed", 0},
		{"claims of somebody without", []config.Rule{deny(config.Rule{When: "tool == 'x'", Unless: "principal.claims.level >= 3"})}, toolCall(robot, "crm", "x", ""), "denied", 1},
		{"not UTF-8", cheap, toolCall(alice, "crm", "x", "{\"arguments\":{\"amount\":1,\"s\":\"\xff\"}}"), "error", 1},
		{"the address", []config.Rule{allow(config.Rule{When: "glob('192.0.2.*', address)"})}, toolCall(alice, "crm", "x", ""), "allowed", 1},
		{"the scopes", []config.Rule{allow(config.Rule{When: "has(principal.scopes, 'write') && !has(principal.scopes, 'admin')"})}, toolCall(alice, "crm", "x", ""), "allowed", 1},
		{"unknown annotations", []config.Rule{allow(config.Rule{When: "annotations.readOnlyHint == true"})}, toolCall(alice, "crm", "x", ""), "denied", 0},

		{"params of plain JSON-RPC", cheap, group, "allowed", 1},
		{"a group by name", []config.Rule{allow(config.Rule{Server: []string{"billing"}})}, group, "allowed", 1},
		{"one member is denied", []config.Rule{deny(config.Rule{Server: []string{"billing-a"}})}, group, "denied", 1},
		{"one member is allowed", []config.Rule{allow(config.Rule{Server: []string{"billing-a"}})}, group, "denied", 0},
		{"all members are allowed", []config.Rule{allow(config.Rule{Server: []string{"billing-*"}})}, group, "allowed", 1},
	} {
		v := mustPolicy(t, tt.rules...).decide(&tt.a)
		got := "denied"
		if v.allowed {
			got = "allowed"
		}
		if v.err != nil {
			got = "error"
			if v.allowed {
				t.Errorf("%s: allowed with an error", tt.name)
			}
		}
		if got != tt.want || v.line != tt.line {
			t.Errorf("%s: %s by line %d (%v), want %s by line %d", tt.name, got, v.line, v.err, tt.want, tt.line)
		}
	}
}

// TestPolicyFiltersLists checks that rules without arguments decide about entries of lists, and
// that rules with them hide nothing that a call may do.
func TestPolicyFiltersLists(t *testing.T) {
	entry := toolCall(robot, "crm", "export_all", "")
	for _, tt := range []struct {
		name  string
		rules []config.Rule
		want  bool
	}{
		{"denied by name", []config.Rule{deny(config.Rule{Tool: []string{"export_*"}})}, false},
		{"a condition without arguments", []config.Rule{deny(config.Rule{Unless: "has(principal.groups, 'admins')"})}, false},
		{"a deny rule with arguments", []config.Rule{deny(config.Rule{When: "arguments.amount > 1"})}, true},
		{"an allow rule with arguments", []config.Rule{allow(config.Rule{When: "arguments.amount > 1"})}, true},
		{"of another server", []config.Rule{allow(config.Rule{Server: []string{"x"}, When: "arguments.amount > 1"})}, false},
		{"denied before", []config.Rule{deny(config.Rule{Server: []string{"crm"}}), allow(config.Rule{When: "arguments.amount > 1"})}, false},
		{"denied after a rule with arguments", []config.Rule{deny(config.Rule{When: "arguments.amount > 1"}), deny(config.Rule{})}, false},
		{"an error", []config.Rule{allow(config.Rule{When: "principal.name > 3"})}, false},
	} {
		if got := mustPolicy(t, tt.rules...).visible(&entry); got != tt.want {
			t.Errorf("%s: visible is %t", tt.name, got)
		}
	}
}

func TestPolicyErrors(t *testing.T) {
	for text, want := range map[string]string{
		"arguments.x <":      "missing operand",
		"argument.x < 1":     "unknown name",
		"principal == 'x'":   "member of principal",
		"principal.user > 1": "has no",
	} {
		for _, r := range []config.Rule{{Line: 7, When: text}, {Line: 7, Unless: text}} {
			if _, err := newPolicy([]config.Rule{r}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 7") {
				t.Errorf("%s: %v, want %q and the line", text, err, want)
			}
		}
	}
}

// FuzzPolicy checks that no policy panics on any call, that an error is never allowed, and that
// what a call may do is visible.
func FuzzPolicy(f *testing.F) {
	f.Add("arguments.amount < 1000", "has(principal.groups, 'admins')", "export_*", `{"arguments":{"amount":5}}`, true)
	f.Add("glob('*', arguments.path)", "", "*", `{"arguments":{"path":"/x","path":1}}`, false)
	f.Add("arguments[0][principal.name] == null", "matches('a+', tool)", "a*b", `[[1,2],"x"]`, false)
	f.Fuzz(func(t *testing.T, when, unless, tool, params string, denies bool) {
		raw := jsonrpc.Raw(params)
		if _, err := jsonrpc.ParseRaw(raw); err != nil && params != "" {
			return
		}
		p, err := newPolicy([]config.Rule{{When: when, Unless: unless, Deny: denies, Tool: []string{tool}}, {Deny: true, When: unless}})
		if err != nil {
			return
		}
		for _, named := range []bool{true, false} {
			a := access{caller: alice, server: "crm", method: "tools/call", tool: tool, exposed: "crm__" + tool, params: raw, named: named}
			v := p.decide(&a)
			if v.err != nil && v.allowed {
				t.Fatalf("%q %q allows with the error %v", when, unless, v.err)
			}
			if again := p.decide(&a); again.allowed != v.allowed {
				t.Fatalf("%q %q: %t, then %t", when, unless, v.allowed, again.allowed)
			}
			if v.allowed && !p.visible(&a) {
				t.Fatalf("%q %q allows what is not visible", when, unless)
			}
		}
	})
}

// BenchmarkPolicy measures decisions of 20 rules, of which the last applies.
func BenchmarkPolicy(b *testing.B) {
	for _, bb := range []struct {
		name string
		last config.Rule
	}{
		{"lists", allow(config.Rule{Group: []string{"staff"}, Server: []string{"crm"}})},
		{"condition", allow(config.Rule{When: "method == 'tools/call' && has(principal.groups, 'admins')"})},
		{"arguments", allow(config.Rule{When: "arguments.amount < 1000"})},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var rules []config.Rule
			for range 19 {
				rules = append(rules, deny(config.Rule{Server: []string{"other-*"}, Tool: []string{"export_*", "delete_*"}}))
			}
			p := mustPolicy(b, append(rules, bb.last)...)
			a := toolCall(alice, "crm", "read", `{"name":"read","arguments":{"amount":5,"text":"some text"}}`)
			b.ReportAllocs()
			for b.Loop() {
				if v := p.decide(&a); !v.allowed {
					b.Fatal(v.err)
				}
			}
		})
	}
}
