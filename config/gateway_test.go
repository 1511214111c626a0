package config_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/config"
)

// gatewayBase is the start of most files of these tests: seven lines, and the member gateway.
const gatewayBase = `servers:
  notes: {url: "http://127.0.0.1:1/mcp"}
  files: {command: files-server}
  billing-a: {url: "http://127.0.0.1:2/rpc", group: billing}
  billing-b: {url: "http://127.0.0.1:3/rpc", group: billing}
  plain: {url: "http://127.0.0.1:4/rpc", protocol: jsonrpc}
  off: {url: "http://127.0.0.1:5/rpc", protocol: jsonrpc, disabled: true}
gateway:
`

// gatewayFiles are the files that the configurations of these tests name.
var gatewayFiles = map[string]string{
	"tokens.yaml": "- {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, groups: [robots]}\n",
	"bad-tokens.yaml": `- {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
- {name: ci, sha256: the-token-itself}
- {name: "a b", group: [x]}
- name: d
  sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
- x
- {sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, name: e, groups: robots}
`,
	"empty-tokens.yaml":  "# none yet\n",
	"map-tokens.json":    `{"ci":"9f86"}`,
	"broken-tokens.yaml": "- {name: [\n",
	"key.pem":            "x",
	"gate-key":           base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n",
}

// gatewayWorld returns an environment with the files of these tests.
func gatewayWorld(pairs ...string) *config.Options {
	o := world(pairs...)
	o.ReadFile = func(name string) ([]byte, error) {
		if text, ok := gatewayFiles[filepath.Base(name)]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o
}

// problemsOf returns all problems of a file, one a line.
func problemsOf(f *config.File) string {
	var lines []string
	for _, p := range f.Problems {
		lines = append(lines, p.In(f.Name))
	}
	return strings.Join(lines, "\n")
}

func TestGatewayProblems(t *testing.T) {
	for _, c := range gatewayProblems {
		t.Run(c.name, func(t *testing.T) {
			f := config.Parse("parley.yaml", []byte(c.file()), gatewayWorld())
			if got := problemsOf(f); got != c.want {
				t.Errorf("problems of\n%s\nare\n%s\nwant\n%s", c.text, got, c.want)
			}
		})
	}
}

// theExample is the configuration of the documentation, with each member.
const theExample = `servers:
  notes:
    command: npx
    args: [-y, notes-server]
    env: {NOTES_KEY: "${env:NOTES_KEY}"}
    connection: auto
    processes: {max: 3, idle: 1m30s}
    tools: {deny: ["delete_*"], idempotent: ["get_*|list_*"]}
  tickets:
    url: https://tickets.example/mcp
    headers: {X-Api-Key: "${file:gate-key}"}
    forwardHeaders: [x-tenant, X-Tenant]
    required: true
    timeout: 30s
    breaker: {failures: 2}
    health: off
  billing-a: {url: "http://10.0.0.1:3000/rpc", group: billing}
  billing-b: {url: "http://10.0.0.2:3000/rpc", group: billing, health: {method: ping}}
  fallback: {url: "http://10.0.0.3:3000/rpc"}
  crm:
    url: https://crm.example/mcp
    exchange: {tokenEndpoint: "https://id.example/token", clientId: gate, clientSecret: "${env:GATE_SECRET}", audience: crm}
  planner: {url: "https://planner.example", protocol: a2a, push: direct}
  writers: {url: "http://10.0.0.9:8000", protocol: acp}

gateway:
  listen: ["http://0.0.0.0:7500", "unix:/run/gate.sock"]
  publicUrl: https://gate.example/
  admin: http://127.0.0.1:7501
  key: "${file:gate-key}"
  replicas: 2
  drain: 15s
  identity:
    tokens: tokens.yaml
    oauth: {issuers: ["https://id.example"], audience: "https://gate.example/mcp", scopes: [mcp], groups: "claims.groups"}
  policy:
    - deny: {server: crm, tool: "export_*", unless: "has(principal.groups, 'admins')"}
    - allow: {group: robots, server: [notes, billing]}
    - allow: {when: "method != 'tools/call' || arguments.amount < 1000"}
  limits:
    - {per: principal, rate: 100/s, burst: 200}
    - {per: principal, method: tools/call, tool: "crm__*", rate: 10/m}
    - {per: server, inflight: 9, queue: 0, wait: 5s}
  routes:
    - method: "billing.*"
      to: billing
      strip: "billing."
      timeout: 5s
      idempotent: ["billing.get*"]
      retry: {attempts: 3, backoff: 50ms}
      hedge: {after: p99, min: 20ms}
      cache: {methods: ["billing.getPlan"], ttl: 30s, scope: private, coalesce: true}
    - {method: "*", to: fallback, idempotent: true}
  mcp:
    sets:
      default: {servers: [notes, tickets, crm], prefix: always}
      tickets: {servers: [tickets], prefix: never}
    pins: locked
    search: {above: 80}
    lock: pins/parley.lock
  upstream:
    timeout: 60s
    breaker: {failures: 5, ratio: 0.5, window: 30s, open: 4s, max: 60s}
    health: {every: 10s, timeout: 2s}
  audit: {file: audit.jsonl, arguments: true}
  capture: {file: gate.jsonl, keep: 64MiB}
`

func TestGatewayValues(t *testing.T) {
	f := config.Parse("conf/parley.yaml", []byte(theExample), gatewayWorld("NOTES_KEY", "k", "GATE_SECRET", "gate-secret"))
	if len(f.Problems) > 0 {
		t.Fatal(problemsOf(f))
	}
	var warnings []string
	for _, p := range f.Warnings {
		warnings = append(warnings, p.String())
	}
	if got, want := strings.Join(warnings, "\n"), `8:45: servers.notes.tools.idempotent: has no effect yet: calls of tools are sent once
59:13: gateway.mcp.search: has no effect yet: all tools are listed
66:12: gateway.capture: has no effect yet: traffic is not recorded`; got != want {
		t.Errorf("the warnings are\n%s\nwant\n%s", got, want)
	}
	dir, err := filepath.Abs("conf")
	if err != nil {
		t.Fatal(err)
	}
	g := f.Gateway
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	if !slices.Contains(g.Secrets, key) {
		t.Errorf("the secrets do not contain the key: %q", g.Secrets)
	}
	g.Secrets = nil
	want := &config.Gateway{
		Line: 26, Column: 1,
		Listen: []string{"http://0.0.0.0:7500", "unix:/run/gate.sock"}, PublicURL: "https://gate.example", Admin: "http://127.0.0.1:7501",
		Key: make([]byte, 32), Replicas: 2, Drain: 15 * time.Second,
		Identity: &config.Identity{
			Tokens: []config.Token{{Name: "ci", Groups: []string{"robots"}, SHA256: g.Identity.Tokens[0].SHA256}},
			OAuth: &config.OAuthIdentity{
				Issuers: []string{"https://id.example"}, Audience: "https://gate.example/mcp", Scopes: []string{"mcp"}, Groups: []string{"claims.groups"},
			},
		},
		Policy: []config.Rule{
			{Deny: true, Line: 37, Column: 7, Server: []string{"crm"}, Tool: []string{"export_*"}, Unless: "has(principal.groups, 'admins')"},
			{Line: 38, Column: 7, Group: []string{"robots"}, Server: []string{"notes", "billing"}},
			{Line: 39, Column: 7, When: "method != 'tools/call' || arguments.amount < 1000"},
		},
		Limits: []config.Limit{
			{Line: 41, Column: 7, Rate: config.Rate{Count: 100, Per: time.Second}, Burst: 200},
			{Line: 42, Column: 7, Method: []string{"tools/call"}, Tool: []string{"crm__*"}, Rate: config.Rate{Count: 10, Per: time.Minute}, Burst: 10},
		},
		Routes: []config.Route{
			{
				Line: 45, Column: 7, Method: []string{"billing.*"}, To: "billing", Strip: "billing.", Timeout: 5 * time.Second, Idempotent: []string{"billing.get*"},
				Attempts: 3, Backoff: 50 * time.Millisecond, Hedge: &config.Hedge{Quantile: 0.99, Min: 20 * time.Millisecond},
				Cache: &config.Cache{Methods: []string{"billing.getPlan"}, TTL: 30 * time.Second, Coalesce: true},
			},
			{Line: 53, Column: 7, Method: []string{"*"}, To: "fallback", Idempotent: []string{"*"}, Attempts: 1},
		},
		Sets: []config.Set{
			{Name: "default", Line: 56, Column: 7, Servers: []string{"notes", "tickets", "crm"}},
			{Name: "tickets", Line: 57, Column: 7, Servers: []string{"tickets"}, NoPrefix: true},
		},
		Pins: config.PinsLocked, Lock: filepath.Join(dir, "pins", "parley.lock"), SearchAbove: 80,
		Audit: filepath.Join(dir, "audit.jsonl"), AuditArguments: true,
		Files:   []string{filepath.Join(dir, "tokens.yaml")},
		Capture: filepath.Join(dir, "gate.jsonl"), CaptureKeep: 64 << 20,
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("the gateway is\n%+v\nwant\n%+v", g, want)
	}
	if got := fmt.Sprintf("%x", g.Identity.Tokens[0].SHA256); got != "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" {
		t.Errorf("the digest is %s", got)
	}

	breaker := &config.Breaker{Failures: 5, Ratio: 0.5, Window: 30 * time.Second, Open: 4 * time.Second, Max: time.Minute}
	health := &config.Health{Every: 10 * time.Second, Timeout: 2 * time.Second}
	base := config.Upstream{
		Connection: config.ConnectionAuto, Timeout: time.Minute, MaxProcesses: 16, Idle: 5 * time.Minute, Inflight: 9, Wait: 5 * time.Second,
		Breaker: breaker, Health: health,
	}
	upstream := func(change func(*config.Upstream)) config.Upstream {
		u := base
		change(&u)
		return u
	}
	strict := *breaker
	strict.Failures = 2
	for name, want := range map[string]config.Upstream{
		"notes": upstream(func(u *config.Upstream) {
			u.MaxProcesses, u.Idle, u.DenyTools, u.IdempotentTools = 3, 90*time.Second, []string{"delete_*"}, []string{"get_*", "list_*"}
		}),
		"tickets": upstream(func(u *config.Upstream) {
			u.Required, u.Timeout, u.Breaker, u.Health, u.ForwardHeaders = true, 30*time.Second, &strict, nil, []string{"X-Tenant"}
		}),
		"billing-a": upstream(func(u *config.Upstream) { u.Group = "billing" }),
		"billing-b": upstream(func(u *config.Upstream) {
			u.Group, u.Health = "billing", &config.Health{Every: 10 * time.Second, Timeout: 2 * time.Second, Method: "ping"}
		}),
		"planner": upstream(func(u *config.Upstream) { u.DirectPush = true }),
		"writers": base,
	} {
		if e, _ := f.Find(name); !reflect.DeepEqual(e.Upstream, want) {
			t.Errorf("%s is %+v, want %+v", name, e.Upstream, want)
		}
	}
	for name, want := range map[string]string{"notes": "mcp", "billing-a": "jsonrpc", "billing-b": "jsonrpc", "fallback": "jsonrpc", "planner": "a2a", "writers": "acp"} {
		if e, _ := f.Find(name); e.Protocol != want {
			t.Errorf("the protocol of %s is %s, want %s", name, e.Protocol, want)
		}
	}
	crm, _ := f.Find("crm")
	x := crm.Upstream.Exchange
	if secret, err := x.ClientSecret.Get(); secret != "gate-secret" || err != nil {
		t.Errorf("the client secret is %q, %v", secret, err)
	}
	if x.TokenEndpoint != "https://id.example/token" || x.ClientID != "gate" || x.Audience != "crm" {
		t.Errorf("the exchange is %+v", x)
	}
	if !slices.Contains(crm.Secrets, "gate-secret") {
		t.Errorf("the secrets of crm are %q", crm.Secrets)
	}
}

// TestGatewayLanguages checks that JSON and TOML have the same gateway as YAML.
func TestGatewayLanguages(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"a.yaml", "servers:\n  n: {url: 'http://127.0.0.1:1/rpc', timeout: 5s}\ngateway:\n  drain: 3s\n  routes: [{method: '*', to: n}]\n"},
		{"a.json", "{// comment\n\"servers\": {\"n\": {\"url\": \"http://127.0.0.1:1/rpc\", \"timeout\": \"5s\"}},\n\"gateway\": {\"drain\": \"3s\", \"routes\": [{\"method\": \"*\", \"to\": \"n\"}]},}"},
		{"a.toml", "[servers.n]\nurl = 'http://127.0.0.1:1/rpc'\ntimeout = '5s'\n[gateway]\ndrain = '3s'\n[[gateway.routes]]\nmethod = '*'\nto = 'n'\n"},
	} {
		f := config.Parse(c.name, []byte(c.text), gatewayWorld())
		if len(f.Problems) > 0 || f.Gateway == nil {
			t.Errorf("%s: %s", c.name, problemsOf(f))
			continue
		}
		if g, e := f.Gateway, f.Entries[0]; g.Drain != 3*time.Second || len(g.Routes) != 1 || e.Upstream.Timeout != 5*time.Second || e.Protocol != config.JSONRPC || g.Pins != config.PinsEnforce {
			t.Errorf("%s: %+v, %+v", c.name, g, e)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"a.json", "{\"servers\": {\"n\": {\"command\": \"x\"}},\n  \"gateway\": {\"drain\": 5, \"listn\": []}}", "a.json:2:24: gateway.drain: is a number without a unit; did you mean 5s or 5ms?\na.json:2:27: gateway.listn: unknown member; did you mean listen?"},
		{"a.toml", "[servers.n]\ncommand = 'x'\n[gateway]\ndrain = 5\nlistn = []\n", "a.toml:4:9: gateway.drain: is a number without a unit; did you mean 5s or 5ms?\na.toml:5:1: gateway.listn: unknown member; did you mean listen?"},
	} {
		if got := problemsOf(config.Parse(c.name, []byte(c.text), gatewayWorld())); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestOtherProgramsHaveGateways checks that the member gateway of another program's file is
// ignored, and that its settings of servers are.
func TestOtherProgramsHaveGateways(t *testing.T) {
	f := config.Parse("settings.json", []byte(`{"gateway":{"port":18789,"mode":"local"},"mcp":{"servers":{"n":{"command":"a","timeout":600000,"group":["x"]}}}}`), gatewayWorld())
	if len(f.Problems) > 0 || f.Gateway != nil || len(f.Entries) != 1 {
		t.Errorf("%+v, %s", f, problemsOf(f))
	}
	f = config.Parse("mcp.json", []byte(`{"mcpServers":{"n":{"command":"a","timeout":600000,"tools":["*"],"headers":{}}}}`), gatewayWorld())
	if len(f.Problems) > 0 || f.Gateway != nil || f.Entries[0].Upstream.Timeout != time.Minute {
		t.Errorf("%+v, %s", f, problemsOf(f))
	}
}

// TestGatewayOfAClientsFile checks the defaults for a file without the member gateway.
func TestGatewayOfAClientsFile(t *testing.T) {
	o := gatewayWorld()
	o.Gateway = &config.GatewayOptions{}
	f := config.Parse("mcp.json", []byte(`{"mcpServers":{"brave_search":{"command":"a"},"GitHub MCP Server (with a long name)":{"url":"http://127.0.0.1:1/mcp"},"notes":{"command":"b"},"__":{"command":"c"}}}`), o)
	if len(f.Problems) > 0 {
		t.Fatal(problemsOf(f))
	}
	var names []string
	for _, e := range f.Entries {
		names = append(names, e.Name+"="+e.Renamed)
	}
	if got, want := strings.Join(names, " "), "brave-search=brave_search GitHub-MCP-Server-with-a=GitHub MCP Server (with a long name) notes= server=__"; got != want {
		t.Errorf("the names are %s, want %s", got, want)
	}
	g := f.Gateway
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Gateway{
		Listen: []string{"http://127.0.0.1:7500"}, Replicas: 1, Drain: 15 * time.Second, Pins: config.PinsOff, Lock: filepath.Join(dir, "parley.lock"), CaptureKeep: 256 << 20,
		Sets: []config.Set{{Name: config.DefaultSet, Servers: []string{"brave-search", "GitHub-MCP-Server-with-a", "notes", "server"}}},
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("the gateway is\n%+v\nwant\n%+v", g, want)
	}

	f = config.Parse("mcp.json", []byte(`{"mcpServers":{"a_b":{"command":"a"},"a-b":{"command":"b"}}}`), o)
	if got := problemsOf(f); got != "mcp.json:1:16: mcpServers.a_b: cannot be called a-b in the gateway, because another server has this name" {
		t.Error(got)
	}
	// For all other commands the name is that of the file.
	f = config.Parse("mcp.json", []byte(`{"mcpServers":{"brave_search":{"command":"a"}}}`), gatewayWorld())
	if _, ok := f.Find("brave_search"); !ok || f.Gateway != nil {
		t.Errorf("%+v", f)
	}
}

// TestGatewayFlags checks that the flags of the command replace members, and that their problems
// name the flag.
func TestGatewayFlags(t *testing.T) {
	text := []byte(gatewayBase + "  listen: ['http://127.0.0.1:1']\n")
	for _, c := range []struct {
		o          config.GatewayOptions
		want, list string
	}{
		{config.GatewayOptions{}, "", "http://127.0.0.1:1"},
		{config.GatewayOptions{Listen: []string{"http://127.0.0.1:0", ":0"}}, "", "http://127.0.0.1:0 http://127.0.0.1:0"},
		{config.GatewayOptions{Listen: []string{"http://0.0.0.0:1"}, InsecureNoAuth: true}, "", "http://0.0.0.0:1"},
		{config.GatewayOptions{Listen: []string{"http://0.0.0.0:1"}}, "p.yaml: --listen: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1", ""},
		{config.GatewayOptions{Listen: []string{"nonsense"}}, "p.yaml: --listen: is not an address: it has no scheme: add http://, ws://, tcp:// or unix:, or put a command after --", ""},
		{config.GatewayOptions{Cert: "key.pem", Key: "key.pem"}, "p.yaml: --tls-cert: cannot be used: failed to find any PEM data in certificate input", "http://127.0.0.1:1"},
	} {
		o := gatewayWorld()
		o.Gateway = &c.o
		f := config.Parse("p.yaml", text, o)
		if got := problemsOf(f); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
		if got := strings.Join(f.Gateway.Listen, " "); got != c.list {
			t.Errorf("%+v: listens on %s, want %s", c.o, got, c.list)
		}
	}
}

func TestGatewayWarns(t *testing.T) {
	f := config.Parse("p.yaml", []byte("servers:\n  a: {url: 'http://127.0.0.1:1/mcp', forwardToken: true}\ngateway:\n  identity: {tokens: tokens.yaml}\n"), gatewayWorld())
	if len(f.Problems) > 0 || len(f.Warnings) != 1 {
		t.Fatalf("%s, %v", problemsOf(f), f.Warnings)
	}
	want := "p.yaml:2:52: servers.a.forwardToken: the server gets the callers' own tokens and can use them at this gateway; prefer exchange"
	if got := f.Warnings[0].In(f.Name); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNoSecretInProblems checks that values that may be secrets are in no problem.
func TestNoSecretInProblems(t *testing.T) {
	o := gatewayWorld("CANARY", "CANARY-1")
	gatewayFiles["canary-tokens.yaml"] = "- {name: a, sha256: CANARY-2}\n- {name: b, sha256: [CANARY-2]}\n"
	defer delete(gatewayFiles, "canary-tokens.yaml")
	f := config.Parse("p.yaml", []byte(`servers:
  a:
    url: "http://127.0.0.1:1/mcp"
    oauth: {grant: "${CANARY}", clientId: "${CANARY}", clientSecret: ["${CANARY}"], tokenEndpoint: "${CANARY}", scopes: ["${CANARY} x"]}
    timeout: "${CANARY}"
gateway:
  key: "${CANARY}"
  drain: "${CANARY}"
  replicas: "${CANARY}"
  publicUrl: "${CANARY}"
  listen: "${CANARY}"
  identity: {tokens: canary-tokens.yaml}
  capture: {file: x, keep: "${CANARY}"}
  limits: [{per: "${CANARY}", rate: "${CANARY}"}]
  routes: [{method: "*", to: "${CANARY}"}]
`), o)
	if len(f.Problems) < 12 {
		t.Errorf("only %d problems: %s", len(f.Problems), problemsOf(f))
	}
	if got := problemsOf(f); strings.Contains(got, "CANARY-") {
		t.Error(got)
	}
}

func TestSameServer(t *testing.T) {
	parse := func(server string, pairs ...string) *config.Entry {
		f := config.Parse("p.yaml", []byte("servers:\n  n: {"+server+"}\ngateway: {identity: {oauth: {issuers: 'https://id.example', audience: a}}}\n"), gatewayWorld(pairs...))
		if len(f.Problems) > 0 {
			t.Fatal(problemsOf(f))
		}
		return &f.Entries[0]
	}
	const exchange = "url: 'http://127.0.0.1:1/mcp', exchange: {tokenEndpoint: 'https://id.example/token', clientId: a, audience: b, clientSecret: '${S}'}"
	for _, c := range []struct {
		name string
		a, b *config.Entry
		want bool
	}{
		{"equal", parse("command: a, env: {K: v}"), parse("command: a, env: {K: v}"), true},
		{"title", parse("command: a, title: x"), parse("title: y, command: a"), true},
		{"variable of a program", parse("command: a, env: {K: '${V}'}", "V", "1"), parse("command: a, env: {K: '${V}'}", "V", "2"), false},
		{"equal headers", parse("url: 'http://h/', headers: {A: '${file:gate-key}'}"), parse("url: 'http://h/', headers: {A: '${file:gate-key}'}"), true},
		{"value that is read again", parse("url: 'http://h/', headers: {A: '${V}'}", "V", "1"), parse("url: 'http://h/', headers: {A: '${V}'}", "V", "2"), true},
		{"headers", parse("url: 'http://h/', headers: {A: b}"), parse("url: 'http://h/', headers: {A: c}"), false},
		{"more headers", parse("url: 'http://h/'"), parse("url: 'http://h/', headers: {A: c}"), false},
		{"timeout", parse("command: a, timeout: 1s"), parse("command: a, timeout: 2s"), false},
		{"breaker", parse("command: a, breaker: {failures: 3}"), parse("command: a, breaker: {failures: 4}"), false},
		{"equal exchange", parse(exchange, "S", "1234"), parse(exchange, "S", "5678"), true},
		{"exchange", parse(exchange, "S", "1"), parse(strings.Replace(exchange, "${S}", "x", 1), "S", "1"), false},
	} {
		if got := c.a.SameServer(c.b); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestValuesAreReadAgain checks that a file is read again after 60 s, and that a missing file is an
// error that names it, also after a success.
func TestValuesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content, reads := "one\n", 0
		o := gatewayWorld()
		o.ReadFile = func(name string) ([]byte, error) {
			reads++
			if content == "" {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(content), nil
		}
		f := config.Parse("p.yaml", []byte("servers:\n  n: {url: 'http://h/', headers: {authorization: 'Bearer ${file:/secret}', X-Plain: a}}\ngateway: {}\n"), o)
		h := f.Entries[0].Headers
		reads = 0
		get := func(want, wantErr string) {
			t.Helper()
			header, err := h.Get()
			if wantErr != "" {
				if unset, ok := errors.AsType[*config.UnsetError](err); !ok || unset.Name != "file:/secret" || err.Error() != wantErr {
					t.Errorf("the error is %v, want %s", err, wantErr)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(header, http.Header{"Authorization": {"Bearer " + want}, "X-Plain": {"a"}}) {
				t.Errorf("the headers are %v, %v", header, err)
			}
		}
		get("one", "")
		content = "two-two"
		time.Sleep(59 * time.Second)
		get("one", "")
		if reads != 1 {
			t.Errorf("%d reads", reads)
		}
		time.Sleep(time.Second)
		get("two-two", "")
		if got := h.Secrets(); !slices.Contains(got, "two-two") || slices.Contains(got, "a") {
			t.Errorf("the secrets are %q", got)
		}
		if reads != 2 {
			t.Errorf("%d reads", reads)
		}
		content = ""
		time.Sleep(time.Minute)
		get("", "header Authorization: file:/secret cannot be read: file does not exist")
		content = "a\nb"
		time.Sleep(time.Minute)
		if _, err := h.Get(); err == nil || err.Error() != "header Authorization: the value has more than one line" {
			t.Errorf("two lines: %v", err)
		}
		header, err := (*config.Headers)(nil).Get()
		if header == nil || err != nil {
			t.Errorf("no headers: %v, %v", header, err)
		}
		if text, err := (*config.Value)(nil).Get(); text != "" || err != nil {
			t.Errorf("no value: %q, %v", text, err)
		}
	})
}

// TestHostileGateways checks that files of attackers and accidents end in a bounded number of
// problems.
func TestHostileGateways(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ name, text, want string }{
		{"aliases", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ngateway: *c\nservers: {}\n", "p.yaml:1:4: anchors, aliases and tags are not supported"},
		{"merge key", "x: &x {drain: 1s}\nservers: {}\ngateway:\n  <<: *x\n", "p.yaml:1:4: anchors, aliases and tags are not supported"},
		{"tag", "servers: {}\ngateway: !!map {}\n", "p.yaml:2:10: anchors, aliases and tags are not supported"},
		{"deep", "servers: {}\ngateway: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), "p.yaml: nested too deeply"},
		{"deep by indentation", deepYAML(80), "p.yaml:67:67: nested too deeply"},
		{"NUL", "servers: {}\ngateway: {drain: \"\\0\", listen: \"http://a\\0b:1\", audit: {file: \"a\\0\"}}\n", "p.yaml:2:18: gateway.drain: \"\\x00\" is not a duration; write it as 500ms, 30s or 5m\n" +
			"p.yaml:2:32: gateway.listen: is not an address: net/url: invalid control character in URL\np.yaml:2:63: gateway.audit.file: is not the name of a file"},
		{"keys of other types", "servers: {}\ngateway: {1: 2, true: 3, null: 4, [a]: 5}\n", "p.yaml:2:38: not YAML: found an invalid key for this map"},
		{"two documents", "servers: {a: {command: x}}\n---\ngateway: {listn: 1}\n", ""},
		{"long names", "servers: {}\ngateway: {mcp: {sets: {" + long + ": {servers: [" + long + "]}}}}\n",
			"p.yaml:2:24: gateway.mcp.sets." + long + ": is not a name for a set: use 1 to 24 letters, digits and -; did you mean " + long[:24] + "?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := problemsOf(config.Parse("p.yaml", []byte(c.text), gatewayWorld())); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
		})
	}
	many := func(n int, item string) string { return strings.Repeat(item+", ", n) }
	for _, c := range []struct {
		name, text string
		count      int // of problems
	}{
		{"unknown members", manyMembers(2000), 101},
		{"too many members", manyMembers(20_000), 1},
		{"elements", "  listen: [" + many(20_000, "'http://127.0.0.1:0'") + "]\n", 2},
		{"rules", "  policy: [" + many(3000, "{deny: {tool: x, when: method}}") + "]\n", 1},
		{"patterns", "  policy: [{deny: {tool: '" + strings.Repeat("a*|", 100_000) + "a'}}]\n", 1},
		{"routes", "  routes: [" + many(3000, "{method: x, to: plain}") + "]\n", 101},
		{"stars", "  routes: [{method: '" + strings.Repeat("*", 200) + "a', to: plain}, {method: '" + strings.Repeat("*a", 100) + "', to: plain}]\n", 1},
		{"sets", "  mcp: {sets: {" + manySets(3000) + "}}\n", 1},
		{"unknown servers", "  mcp: {sets: {a: {servers: [" + many(20_000, "nots") + "]}}}\n", 101},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := config.Parse("p.yaml", []byte(gatewayBase+c.text), gatewayWorld())
			if len(f.Problems) != c.count {
				t.Errorf("%d problems, want %d: %.2000s", len(f.Problems), c.count, problemsOf(f))
			}
			for _, p := range f.Problems {
				if len(p.Text) > 1000 {
					t.Errorf("a text of %d bytes", len(p.Text))
				}
			}
		})
	}
	for name, text := range map[string]string{
		"UTF-16": "\xff\xfes\x00e\x00r\x00v\x00e\x00r\x00s\x00", "Latin-1": "servers: {a: {command: \xe9}}\ngateway: {listn: \xff}\n", "binary": "\x00\x01\x02\x03gateway:\x00",
		"only a BOM": "\ufeff", "NULs": strings.Repeat("\x00", 1000),
	} {
		if f := config.Parse("p.yaml", []byte(text), gatewayWorld()); len(f.Problems) == 0 {
			t.Errorf("%s has no problem", name)
		}
	}
}

func deepYAML(depth int) string {
	var b strings.Builder
	b.WriteString("servers: {}\ngateway:\n")
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  listen%d: 1\n", i)
	}
	return b.String()
}

func manySets(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: {servers: [notes]}, ", i)
	}
	return b.String()
}

func FuzzGateway(f *testing.F) {
	f.Add("p.yaml", theExample)
	for _, c := range gatewayProblems {
		f.Add("p.yaml", c.file())
	}
	f.Add("p.json", `{"servers":{"n":{"command":"a","tools":{"deny":["x*"]}}},"gateway":{"limits":[{"per":"server","inflight":1}],"mcp":{"search":{"above":3}}}}`)
	f.Add("p.toml", "[servers.n]\ncommand = 'a'\n[gateway.mcp.sets.x]\nservers = ['n']\n[[gateway.policy]]\ndeny = {tool = 'a'}\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, gate := range []*config.GatewayOptions{nil, {Listen: []string{":0"}}} {
			o := gatewayWorld("A", "one")
			o.Gateway = gate
			file := config.Parse(filepath.Base(name), []byte(text), o)
			if len(file.Problems) > 101 {
				t.Errorf("%d problems", len(file.Problems))
			}
			for _, p := range file.Problems {
				if p.Line < 0 || p.Column < 0 || p.Text == "" || p.Line == 0 != (p.Column == 0) {
					t.Errorf("%q: problem %+v", text, p)
				}
			}
			g := file.Gateway
			if g == nil || len(file.Problems) > 0 {
				continue
			}
			if len(g.Listen) == 0 || len(g.Sets) == 0 || g.Replicas < 1 || !slices.ContainsFunc(g.Sets, func(s config.Set) bool { return s.Name == config.DefaultSet }) {
				t.Errorf("%q: %+v", text, g)
			}
			for _, r := range g.Routes {
				if len(r.Method) == 0 || r.To == "" || r.Attempts < 1 || r.Hedge != nil && (r.Hedge.After == 0) == (r.Hedge.Quantile == 0) || r.Cache != nil && r.Cache.TTL <= 0 {
					t.Errorf("%q: %+v", text, r)
				}
			}
			for _, l := range g.Limits {
				if l.Rate.Count < 1 || l.Rate.Per <= 0 || l.Burst < 1 {
					t.Errorf("%q: %+v", text, l)
				}
			}
			for _, e := range file.Entries {
				if u := e.Upstream; u.Timeout <= 0 || u.Inflight < 1 || u.MaxProcesses < 1 || !e.SameServer(&e) {
					t.Errorf("%q: %+v", text, e)
				}
			}
		}
	})
}
