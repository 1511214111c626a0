package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
)

// world returns an environment that is independent of this machine.
func world(pairs ...string) *config.Options {
	env := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return &config.Options{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func Example() {
	file := config.Parse("mcp.json", []byte(`{
  // what an MCP client has
  "mcpServers": {
    "notes": {"url": "https://n.example/mcp", "headers": {"Authorization": "Bearer ${NOTES_TOKEN}"}},
    "files": {"command": "npx", "args": ["-y", "files", "${ROOT:-/tmp}"],},
  },
}`), &config.Options{Lookup: func(string) (string, bool) { return "", false }})
	for _, e := range file.Entries {
		fmt.Printf("%s %s %q %q\n", e.Name, e.Protocol, e.Show, e.Problem)
	}
	fmt.Println(file.Problems[0])
	// Output:
	// notes mcp "https://n.example/mcp" "NOTES_TOKEN is not set"
	// files mcp "npx -y files /tmp" ""
	// 4:76: mcpServers.notes.headers.Authorization: NOTES_TOKEN is not set
}

func TestShapes(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"Claude Desktop", "c.json", `{"mcpServers":{"n":{"command":"npx","args":["-y","pkg"],"env":{"K":"v"}}}}`, "n mcp npx -y pkg"},
		{"VS Code, comments", "mcp.json", "{\"inputs\":[], // asked for\n\"servers\":{\"n\":{\"type\":\"http\",\"url\":\"http://127.0.0.1:1/mcp\"}}}", "n mcp http://127.0.0.1:1/mcp"},
		{"type sse", "mcp.json", `{"mcpServers":{"n":{"type":"sse","url":"http://127.0.0.1:1/sse"}}}`, "n mcp sse+http://127.0.0.1:1/sse"},
		{"Windsurf", "mcp.json", `{"mcpServers":{"n":{"serverUrl":"http://127.0.0.1:1/mcp"}}}`, "n mcp http://127.0.0.1:1/mcp"},
		{"Gemini", "settings.json", `{"theme":"x","mcpServers":{"n":{"httpUrl":"http://127.0.0.1:1/mcp"}}}`, "n mcp http://127.0.0.1:1/mcp"},
		{"Zed, context servers", "settings.json", `{"context_servers":{"n":{"command":{"path":"a","args":["b"],"env":{}}}}}`, "n mcp a b"},
		{"Zed, agents", "settings.json", `{"agent_servers":{"n":{"type":"custom","command":"a","args":["--acp"]}}}`, "n editor a --acp"},
		{"opencode", "opencode.json", `{"mcp":{"n":{"type":"local","command":["a","b"],"environment":{"K":"v"}}}}`, "n mcp a b"},
		{"Codex", "config.toml", "model = \"o4\" # theirs\n[mcp_servers.n]\ncommand = \"npx\"\nargs = [\"-y\", 'pkg']\nstartup_timeout_sec = 20\n[mcp_servers.n.env]\nK = \"v\"\n[tui]\ntheme = \"x\"\n", "n mcp npx -y pkg"},
		{"Codex, inline", "config.toml", "mcp_servers = { n = { url = \"http://127.0.0.1:1/mcp\", http_headers = { X = \"1\" } } }\n", "n mcp http://127.0.0.1:1/mcp"},
		{"Codex, dotted", "config.toml", "mcp_servers.n.command = \"a\"\nmcp_servers.n.args = []\n", "n mcp a"},
		{"TOML that was pasted", "", "# mine\n\n[mcp_servers.\"n\"]\nurl = 'http://127.0.0.1:1/mcp'\n", "n mcp http://127.0.0.1:1/mcp"},
		{"JSON that was pasted", "", " {\"mcpServers\":{\"n\":{\"command\":\"a\"}}}", "n mcp a"},
		{"YAML that was pasted", "", "# a = b\nservers:\n  n: {command: a}\n", "n mcp a"},
		{"Copilot", "mcp-config.json", `{"mcpServers":{"n":{"type":"local","command":"a","args":[],"tools":["*"]}}}`, "n mcp a"},
		{"Inspector", "mcp.json", `{"mcpServers":{"n":{"type":"streamable-http","url":"http://127.0.0.1:1/mcp","protocolEra":"legacy","requestTimeout":5,"oauth":{}}}}`, "n mcp http://127.0.0.1:1/mcp"},
		{"Claude Code", ".mcp.json", `{"mcpServers":{"n":{"type":"http","url":"http://127.0.0.1:1/mcp","headersHelper":"x","oauth":{"clientId":"y"}}}}`, "n mcp http://127.0.0.1:1/mcp"},
		{"VS Code's settings", "settings.json", `{"mcp":{"servers":{"n":{"command":"a"}}}}`, "n mcp a"},
		{"opencode, remote", "opencode.json", `{"mcp":{"n":{"type":"remote","url":"http://127.0.0.1:1/mcp","enabled":true}}}`, "n mcp http://127.0.0.1:1/mcp"},
		{"MCP registry", "server.json", `{"name":"io.github.someone/n","version":"1","remotes":[{"type":"streamable-http","url":"http://127.0.0.1:1/mcp","headers":[{"name":"X","value":"1"},{"name":"Y"}]}]}`, "n mcp http://127.0.0.1:1/mcp"},
		{"TBXark", "config.json", `{"mcpProxy":{"addr":":1"},"mcpServers":{"n":{"command":"a","options":{"toolFilter":{"mode":"allow","list":["x"]}}}}}`, "n mcp a"},
		{"yaml", "parley.yaml", "servers:\n  n: {url: 'tcp://127.0.0.1:3001'}\n", "n jsonrpc tcp://127.0.0.1:3001"},
		{"yaml, a language server", "parley.yaml", "servers:\n  n:\n    command: gopls\n    framing: header\n", "n lsp gopls"},
		{"yaml, told", "parley.yml", "servers:\n  n:\n    url: http://127.0.0.1:1/a2a\n    protocol: a2a\n", "n a2a http://127.0.0.1:1/a2a"},
		{"no ending", "config", "{\"servers\":{\"n\":{\"url\":\"ws://127.0.0.1:1/\"}}}", "n jsonrpc ws://127.0.0.1:1/"},
		{"byte order mark", "mcp.json", "\ufeff{\"servers\":{\"n\":{\"url\":\"unix:/tmp/s\"}}}", "n jsonrpc unix:/tmp/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := config.Parse(c.file, []byte(c.text), world())
			if len(f.Problems) > 0 || len(f.Entries) != 1 {
				t.Fatalf("Parse(%s) = %d entries, problems %v", c.text, len(f.Entries), f.Problems)
			}
			e := f.Entries[0]
			if got := e.Name + " " + e.Protocol + " " + e.Show; got != c.want {
				t.Errorf("Parse(%s) = %q, want %q", c.text, got, c.want)
			}
			if _, err := e.Target(); err != nil {
				t.Errorf("Target: %v", err)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	for _, c := range []struct{ name, arg, want, problem string }{
		{"set", "${A}", "one", ""},
		{"inside", "x${A}y${A}", "xoneyone", ""},
		{"env:", "${env:A}", "one", ""},
		{"default is not needed", "${A:-two}", "one", ""},
		{"default", "${B:-two}", "two", ""},
		{"empty counts as unset for a default", "${E:-two}", "two", ""},
		{"empty default", "${B:-}", "", ""},
		{"empty is set", "${E}", "", ""},
		{"bare is text", "$A", "$A", ""},
		{"not closed is text", "${A", "${A", ""},
		{"a value is not read again", "${R}", "${A}", ""},
		{"unset", "${B}", "", "1:40: mcpServers.n.args[0]: B is not set"},
		{"unset env", "${env:B}", "", "1:40: mcpServers.n.args[0]: B is not set"},
		{"input", "${input:key}", "", "1:40: mcpServers.n.args[0]: PARLEY_INPUT_KEY is not set; it replaces ${input:key}, which VS Code asks for"},
		{"input that is given", "${input:api-key 2}", "given", ""},
		{"no name", "${A B}", "", "1:40: mcpServers.n.args[0]: ${A B} is not a variable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := `{"mcpServers":{"n":{"command":"a","args":["` + c.arg + `"]}}}`
			f := config.Parse("mcp.json", []byte(text), world("A", "one", "E", "", "R", "${A}", "PARLEY_INPUT_API_KEY_2", "given"))
			if len(f.Entries) != 1 {
				t.Fatalf("%s: %v", text, f.Problems)
			}
			e := f.Entries[0]
			if c.problem != "" {
				want := strings.Replace(c.problem, "1:40", "1:43", 1)
				if len(f.Problems) != 1 || f.Problems[0].String() != want || e.Problem == "" {
					t.Errorf("%s: problems %v, entry %q, want %q", c.arg, f.Problems, e.Problem, want)
				}
				if _, err := e.Target(); err == nil {
					t.Errorf("%s: the entry can be used", c.arg)
				}
				return
			}
			if len(f.Problems) > 0 || e.Command[1] != c.want {
				t.Errorf("%s = %q, %v, want %q", c.arg, e.Command[1], f.Problems, c.want)
			}
		})
	}
}

// TestFilesOfVariables checks that a file of ${file:…} is read by the function of Options: text
// that somebody else wrote must not read files of the user.
func TestFilesOfVariables(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("very secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"mcpServers": {"x": {"url": "http://h/${file:` + filepath.ToSlash(secret) + `}"}}}`)
	f := config.Parse("mcp.json", text, &config.Options{ReadFile: func(string) ([]byte, error) {
		return nil, &os.PathError{Err: errors.New("no files here")}
	}})
	if e, _ := f.Find("x"); e == nil || e.Problem == "" || strings.Contains(e.Address, "secret") {
		t.Errorf("the entry is %+v; the file must not be read", e)
	}
	f = config.Parse("mcp.json", text, nil)
	if e, _ := f.Find("x"); e == nil || e.Address != "http://h/very secret" {
		t.Errorf("the entry is %+v, want the content of the file", e)
	}
}

// TestTarget checks that a program is started as the file describes.
func TestTarget(t *testing.T) {
	dir := t.TempDir()
	f := config.Parse(filepath.Join(dir, "parley.yaml"), []byte("servers: {a: {command: ./run, args: [x], env: {A: b}}, b: {command: run, cwd: sub}, c: {url: ':1/x'}}"), nil)
	for name, want := range map[string]parley.Target{
		"a": {Scheme: "exec", Argv: []string{filepath.Join(dir, "run"), "x"}, Dir: dir},
		"b": {Scheme: "exec", Argv: []string{"run"}, Dir: filepath.Join(dir, "sub")},
		"c": {Scheme: "http", Address: "127.0.0.1:1", Path: "/x"},
	} {
		e, ok := f.Find(name)
		if !ok {
			t.Fatalf("there is no entry %s: %v", name, f.Problems)
		}
		got, err := e.Target()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a" && !slices.Contains(got.Env, "A=b") {
			t.Errorf("the environment of a is %q, want A=b in it", got.Env)
		}
		if got.Env = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("Target of %s = %+v, want %+v", name, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"not JSON", "a.json", "{\n \"servers\": {,}}", "2:14: not JSON"},
		{"not YAML", "a.yaml", "servers:\n  n: [", "2:6: not YAML"},
		{"not TOML", "a.toml", "a = 1\n[b\n", "2:3: not TOML"},
		{"twice in TOML", "a.toml", "[mcp_servers.n]\ncommand = 'a'\n[mcp_servers.n]\n", "3:2: not TOML: table n already exists"},
		{"a place in TOML", "a.toml", "[mcp_servers.n]\ncommand = 'a'\nargs = 'b'\n", "3:8: mcp_servers.n.args: is a text, but must be a list"},
		{"deep in TOML", "a.toml", "a" + strings.Repeat(".a", 100) + " = 1", "nested too deeply"},
		{"a package of the registry", "server.json", `{"name":"io.github.someone/n","packages":[{"registryType":"npm","identifier":"n"}]}`, "1:42: packages: describe how to install n"},
		{"an envFile that is not there", "a.json", `{"servers":{"n":{"command":"a","envFile":"no.env"}}}`, "1:42: servers.n.envFile: cannot be read"},
		{"nothing", "a.json", "{}", "1:1: the file lists no servers"},
		{"empty", "a.yaml", "", "it is empty"},
		{"a list", "a.json", "[]", "1:1: a configuration must be a mapping"},
		{"servers is a list", "a.json", `{"servers":[]}`, "1:12: servers: is a list, but must be a mapping"},
		{"an entry is a text", "a.json", `{"servers":{"n":"x"}}`, "1:17: servers.n: is a text, but must be a mapping"},
		{"neither", "a.json", `{"servers":{"n":{}}}`, "1:17: servers.n: has neither command nor url"},
		{"both", "a.json", `{"servers":{"n":{"command":"a","url":"tcp://h:1"}}}`, "has both command and url"},
		{"twice", "a.json", `{"servers":{"n":{"command":"a"},"n":{"command":"b"}}}`, `1:33: duplicate name "n"`},
		{"twice in two tables", "a.json", `{"servers":{"n":{"command":"a"}},"mcpServers":{"n":{"command":"b"}}}`, "duplicate server name"},
		{"a wrong url", "a.json", `{"servers":{"n":{"url":"nonsense"}}}`, "is not a valid address"},
		{"a url of another kind", "a.json", `{"servers":{"n":{"url":"htp://h/"}}}`, "has the scheme \"htp:\"; use http, https"},
		{"a url that starts something", "a.json", `{"servers":{"n":{"url":"stdio:"}}}`, "is a program"},
		{"args is a text", "a.json", `{"servers":{"n":{"command":"a","args":"b"}}}`, "1:39: servers.n.args: is a text, but must be a list"},
		{"a header of two lines", "a.json", `{"servers":{"n":{"url":"http://h/","headers":{"A":"b\nc"}}}}`, "servers.n.headers.A: is not a valid header"},
		{"type", "a.json", `{"servers":{"n":{"type":"carrier-pigeon","url":"http://h/"}}}`, "is not a server type"},
		{"protocol", "a.yaml", "servers:\n  n: {url: 'http://h/', protocol: smtp}\n", "must be one of jsonrpc"},
		{"unknown in ours", "a.yaml", "servers:\n  n:\n    comand: a\n    url: http://h/\n", "3:5: servers.n.comand: unknown member"},
		{"unknown at the top of ours", "a.yaml", "server:\n  n: 1\nservers: {}\n", "1:1: server: unknown member"},
		{"anchors", "a.yaml", "servers: &a\n  n: *a\n", "anchors"},
		{"deep", "a.json", strings.Repeat("[", 100), "nested too deeply"},
		{"long", "a.json", strings.Repeat(" ", 2<<20), "larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := config.Parse(c.file, []byte(c.text), world())
			if !slices.ContainsFunc(f.Problems, func(p config.Problem) bool { return strings.Contains(p.String(), c.want) }) {
				t.Errorf("problems of %.60q: %v, want %q", c.text, f.Problems, c.want)
			}
		})
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	f := config.Parse("mcp.json", []byte(`{"mcpServers":{
		"a":{"command":"x","args":["--api-key=abcd1234","--token","wxyz9876","${DB_PASSWORD}","plain"],"env":{"API_KEY":"envsecret"}},
		"b":{"url":"https://h.example/mcp?api_key=querysecret","headers":{"Authorization":"Bearer hdrsecret"}}}}`), world("DB_PASSWORD", "dbsecret"))
	if len(f.Problems) > 0 {
		t.Fatal(f.Problems)
	}
	for _, e := range f.Entries {
		for _, secret := range []string{"abcd1234", "wxyz9876", "dbsecret", "querysecret"} {
			if strings.Contains(e.Show, secret) {
				t.Errorf("%s shows %s: %s", e.Name, secret, e.Show)
			}
		}
	}
	for name, secrets := range map[string][]string{"a": {"abcd1234", "wxyz9876", "dbsecret", "envsecret"}, "b": {"querysecret", "hdrsecret"}} {
		e, _ := f.Find(name)
		for _, s := range secrets {
			if !slices.Contains(e.Secrets, s) {
				t.Errorf("the secrets of %s are %q; %s is missing", name, e.Secrets, s)
			}
		}
	}
	if e, _ := f.Find("a"); !strings.Contains(e.Show, "plain") || !strings.HasPrefix(e.Show, "x ") {
		t.Errorf("too much is hidden: %q", e.Show)
	}
}

func TestTheEnvironmentOfAProgramIsClean(t *testing.T) {
	t.Setenv("PARLEY_TEST_PRIVATE", "1")
	f := config.Parse(filepath.Join(t.TempDir(), "mcp.json"), []byte(`{"mcpServers":{"a":{"command":"x","env":{"K":"v","NODE_OPTIONS":"-r x"}}}}`), nil)
	e := f.Entries[0]
	if !slices.Contains(e.Env, "K=v") || slices.ContainsFunc(e.Env, func(s string) bool { return strings.HasPrefix(s, "PARLEY_TEST") }) {
		t.Errorf("the environment is %q", e.Env)
	}
	if !slices.Contains(e.Risky, "NODE_OPTIONS") {
		t.Errorf("risky are %q", e.Risky)
	}
	if e.Dir != filepath.Dir(f.Name) {
		t.Errorf("it runs in %q", e.Dir)
	}
}

// TestWaysToNameSecrets checks that the ways in which clients move secrets out of the file all
// work, and that no secret is shown.
func TestWaysToNameSecrets(t *testing.T) {
	o := world("TOKEN", "token-123", "KEY", "key-4567", "PLAIN", "plain")
	o.ReadFile = func(name string) ([]byte, error) {
		if filepath.Base(name) != ".env" {
			return nil, os.ErrNotExist
		}
		return []byte("# mine\nexport API_KEY=\"file-890\"\nK=from-file\nno line\n"), nil
	}
	f := config.Parse("config.toml", []byte(`
[mcp_servers.web]
url = "http://h/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { Region = "eu" }
env_http_headers = { "X-Api-Key" = "KEY" }
[mcp_servers.off]
command = "b"
enabled = false
env_vars = ["PLAIN", "KEY", "UNSET"]
[mcp_servers.lacks]
url = "http://h/mcp"
bearer_token_env_var = "UNSET_TOKEN"
`), o)
	web, _ := f.Find("web")
	if web.Problem != "" || web.Header.Get("Authorization") != "Bearer token-123" || web.Header.Get("X-Api-Key") != "key-4567" || web.Header.Get("Region") != "eu" {
		t.Errorf("%+v", web)
	}
	for _, secret := range []string{"token-123", "key-4567"} {
		if !slices.Contains(web.Secrets, secret) {
			t.Errorf("%s may be shown: %q", secret, web.Secrets)
		}
	}
	off, _ := f.Find("off")
	if !off.Disabled || !slices.Contains(off.Env, "PLAIN=plain") || !slices.Contains(off.Env, "KEY=key-4567") || !slices.Contains(off.Secrets, "key-4567") {
		t.Errorf("%+v", off)
	}
	if lacks, _ := f.Find("lacks"); lacks.Problem != "UNSET_TOKEN is not set" {
		t.Errorf("%+v", lacks)
	}

	f = config.Parse("mcp.json", []byte(`{"inputs":[{"type":"promptString","id":"where","default":"eu"}],
		"servers":{"n":{"command":"a","args":["${input:where}"],"env":{"K":"named"},"envFile":"${workspaceFolder}/.env"}}}`), o)
	n, _ := f.Find("n")
	if n.Problem != "" || n.Command[1] != "eu" || !slices.Contains(n.Env, "API_KEY=file-890") || !slices.Contains(n.Env, "K=named") || slices.Contains(n.Env, "K=from-file") || !slices.Contains(n.Secrets, "file-890") {
		t.Errorf("%+v, %v", n, f.Problems)
	}

	f = config.Parse("opencode.json", []byte(`{"mcp":{"n":{"type":"remote","url":"http://h/","headers":{"Authorization":"Bearer {env:TOKEN}","B":"${env:KEY}"}}}}`), o)
	if n, _ := f.Find("n"); n.Header.Get("Authorization") != "Bearer token-123" || n.Header.Get("B") != "key-4567" {
		t.Errorf("%+v, %v", n, f.Problems)
	}
}

func TestDetect(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	write := func(text string, parts ...string) {
		t.Helper()
		name := filepath.Join(parts...)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"mcpServers":{"a":{"url":"http://h/mcp"},"b":{"command":"x"}}}`, home, ".cursor", "mcp.json")
	write(`{"servers":{"c":{"url":"http://h/mcp","headers":{"Authorization":"Bearer ${GITHUB_TOKEN}"}}}}`, project, ".vscode", "mcp.json")
	write(`{"theme":"dark"}`, home, ".gemini", "settings.json")
	write(`{"mcpServers":`, home, ".codeium", "windsurf", "mcp_config.json")
	write("[mcp_servers.d]\ncommand = 'x'\n", home, ".codex", "config.toml")
	write("model = 'x'\n", project, ".codex", "config.toml") // no servers
	found := config.Detect(config.Places{Home: home, Dir: project, OS: "linux"}, world())
	var got []string
	for _, f := range found {
		line := f.Client + " " + f.Shown
		for _, e := range f.Entries {
			line += " " + e.Name + "(" + e.Problem + ")"
		}
		got = append(got, strings.ReplaceAll(line, filepath.ToSlash(project), "PROJECT"))
	}
	want := []string{"VS Code PROJECT/.vscode/mcp.json c(GITHUB_TOKEN is not set)", "Cursor ~/.cursor/mcp.json a() b()", "Windsurf ~/.codeium/windsurf/mcp_config.json", "Codex ~/.codex/config.toml d()"}
	if !slices.Equal(got, want) {
		t.Errorf("Detect found %q, want %q", got, want)
	}
}

// TestProjects checks the servers per project in ~/.claude.json: those of the innermost project
// with servers that contains the working directory are read, run in its folder, and hide others
// with their name.
func TestProjects(t *testing.T) {
	home := t.TempDir()
	inner := filepath.Join(home, "work", "inner")
	linked := filepath.Join(home, "linked")
	if err := errors.Join(os.MkdirAll(filepath.Join(inner, "deep", "er"), 0o700), os.MkdirAll(filepath.Join(home, "working"), 0o700), os.Symlink(inner, linked)); err != nil {
		t.Fatal(err)
	}
	followed, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`{
  "numStartups": 3,
  "mcpServers": {"notes": {"command": "mine"}, "all": {"type": "http", "url": "http://h/mcp"}},
  "projects": {
    "HOME/work": {"history": [], "mcpServers": {"outer": {"type": "stdio", "command": "./outer"}}},
    "HOME/work/inner": {"mcpServers": {"notes": {"command": "sh", "args": ["${workspaceFolder}/run"]}, "bad": {"command": 1, "args": 2}}},
    "HOME/work/inner/deep": {"allowedTools": [], "mcpServers": {}},
    "HOME/else": {"mcpServers": {"notes": {"command": "else"}}},
    "relative": {"mcpServers": {"relative": {"command": "x"}}},
    "HOME/broken": 7
  }
}`, "HOME", filepath.ToSlash(followed))
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(f *config.File) string {
		var list []string
		for _, e := range f.Entries {
			line := e.Name + "=" + filepath.ToSlash(e.Show)
			if len(e.Command) > 0 {
				line += " in " + filepath.ToSlash(e.Dir)
			}
			list = append(list, line)
		}
		return strings.ReplaceAll(strings.ReplaceAll(strings.Join(list, ", "), filepath.ToSlash(followed), "HOME"), filepath.ToSlash(home), "HOME")
	}
	const innermost = "notes=sh HOME/work/inner/run in HOME/work/inner, bad=1 in HOME/work/inner, all=http://h/mcp"
	for dir, want := range map[string]string{
		filepath.Join(home, "working"):     "notes=mine in HOME, all=http://h/mcp",
		filepath.Join(home, "work"):        "outer=./outer in HOME/work, notes=mine in HOME, all=http://h/mcp",
		inner:                              innermost,
		filepath.Join(inner, "deep", "er"): innermost,
		linked:                             innermost,
		filepath.Join(linked, "deep"):      innermost,
	} {
		o := world()
		o.Project = dir
		f, err := config.Read(filepath.Join(home, ".claude.json"), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(f); got != want {
			t.Errorf("in %s:\n\t%s\nwant\n\t%s", dir, got, want)
		}
		for _, p := range f.Problems {
			if strings.Contains(p.Text, "duplicate") {
				t.Errorf("in %s: %s", dir, p)
			}
		}
		found := config.Detect(config.Places{Home: home, Dir: dir, OS: "linux"}, world())
		if len(found) != 1 || found[0].Client != "Claude Code" || of(found[0].File) != want {
			t.Errorf("in %s: Detect found %+v", dir, found)
		}
	}

	// Without servers of its own, the file names the folders that have some; parley.yaml has none.
	only := `{"projects":{"` + filepath.ToSlash(filepath.Join(followed, "work")) + `":{"mcpServers":{"a":{"command":"x"}}}}}`
	o := world()
	o.Project = t.TempDir()
	if f := config.Parse("c.json", []byte(only), o); len(f.Entries) != 0 || len(f.Problems) != 1 || !strings.Contains(f.Problems[0].Text, "for other folders only, such as") {
		t.Errorf("%+v", f)
	}
	o.Project = filepath.Join(home, "work")
	if f := config.Parse("parley.yaml", []byte(only), o); len(f.Entries) != 0 || len(f.Problems) == 0 {
		t.Errorf("%+v", f)
	}
}

// TestSchema checks with an independent validator that the schema accepts the same files as the
// reader.
func TestSchema(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(config.Schema)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("parley.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("parley.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`{"servers":{"n":{"url":"tcp://h:1"}}}`, true},
		{`{"servers":{"n":{"command":"a","args":["b",1],"env":{"K":true},"cwd":".","framing":"header","protocol":"lsp"}}}`, true},
		{`{"servers":{"n":{"url":"http://h:1/","type":"sse","headers":{"A":"b"}}}}`, true},
		{`{"servers":{"n":{"url":"http://h:1/","comand":"a"}}}`, false},
		{`{"server":{}}`, false},
		{`{"servers":{"n":{"command":"a","args":"b"}}}`, false},
		{`{"servers":{"n":{"command":"a","framing":"morse"}}}`, false},
		{`{"servers":{"n":{"url":"http://h:1/","protocol":"smtp"}}}`, false},
		{`{"servers":{"n":"x"}}`, false},
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != c.ok {
			t.Errorf("the schema says of %s: %v", c.text, err)
		}
		if f := config.Parse("a.yaml", []byte(c.text), world()); (len(f.Problems) == 0) != c.ok {
			t.Errorf("the reader says of %s: %v", c.text, f.Problems)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers":{"n":{"command":"a","args":["${A}","${B:-c}"],"env":{"K":"v"}}}}`,
		"servers:\n  n:\n    url: http://127.0.0.1:1/mcp\n    headers:\n      A: b\n", "{// c\n\"servers\":{},}", "servers: &a [*a]", "- |\n  a\n", "\"\\ud800\": {}", "a: !!binary x",
	} {
		f.Add("a.json", seed)
		f.Add("a.yaml", seed)
	}
	for _, seed := range []string{
		"[mcp_servers.n]\ncommand = 'a'\n[[x]]\ny.z = [1, {a = 2}]\n[[x]]\n[x.w]\n", "a = \"\"\"\nb\"\"\"\n\"c\".'d' = 1979-05-27T07:32:00Z\n", "[servers]\nn = { url = 'http://h/', headers = { A = '${A}' } }\n", "x = [ # c\n 1,\n]\n",
	} {
		f.Add("a.toml", seed)
		f.Add("a", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		file := config.Parse(filepath.Base(name), []byte(text), world("A", "one"))
		for _, e := range file.Entries {
			if e.Problem == "" {
				if _, err := e.Target(); err != nil {
					t.Errorf("%q: %s has no problem and no target: %v", text, e.Name, err)
				}
			}
			if e.Problem != "" && len(file.Problems) == 0 {
				t.Errorf("%q: %s cannot be used, and nobody is told", text, e.Name)
			}
		}
		for _, p := range file.Problems {
			if p.Line < 0 || p.Column < 0 || p.Text == "" {
				t.Errorf("%q: problem %+v", text, p)
			}
		}
	})
}

// TestEmptyPasswordIsNoSecret checks that an address whose user has an empty password is shown
// unchanged.
func TestEmptyPasswordIsNoSecret(t *testing.T) {
	f := config.Parse("mcp.json", []byte(`{"mcpServers":{"a":{"url":"http://user:@host/"},"b":{"url":"http://host/?token=&api_key=CANARY-1"},
		"c":{"url":"http://user:CAN%40ARY@host/"},"d":{"command":"x","args":["--token","","--api-key=CANARY-1"]}}}`), nil)
	for name, want := range map[string]string{"a": "http://user:@host/", "b": "http://host/?token=&api_key=•••", "c": "http://•••@host/", "d": "x --token  --api-key=•••"} {
		e, ok := f.Find(name)
		if !ok || e.Show != want || slices.Contains(e.Secrets, "") {
			t.Errorf("%s is shown as %q with the secrets %q, want %q", name, e.Show, e.Secrets, want)
		}
	}
}
