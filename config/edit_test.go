package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func tapPrefix(server string) []string {
	return []string{`/opt/par ley/parley`, "tap", "--name", server, "--"}
}

// TestWrap edits the files of clients as their users write them.
func TestWrap(t *testing.T) {
	for _, c := range []struct{ name, file, before, after string }{
		{"Claude Desktop", "claude_desktop_config.json", `{
  "globalShortcut": "",
  "mcpServers": {
    "notes": {
      "command": "npx",
      "args": [
        "-y",
        "@scope/notes", "/home/me/My Notes"
      ],
      "env": {"API_KEY": "sk-1234567890"}
    }
  }
}
`, `{
  "globalShortcut": "",
  "mcpServers": {
    "notes": {
      "command": "/opt/par ley/parley",
      "args": [
        "tap",
        "--name",
        "notes",
        "--",
        "npx",
        "-y",
        "@scope/notes", "/home/me/My Notes"
      ],
      "env": {"API_KEY": "sk-1234567890"}
    }
  }
}
`},
		{"Cursor, no arguments, one line", "mcp.json", `{"mcpServers":{"a":{"command":"C:\\bin\\a.exe"},"b":{"url":"https://example.com/mcp"}}}`,
			`{"mcpServers":{"a":{"command":"/opt/par ley/parley", "args": ["tap", "--name", "a", "--", "C:\\bin\\a.exe"]},"b":{"url":"https://example.com/mcp"}}}`},
		{"VS Code, comments and inputs", "mcp.json", "\ufeff" + `// by hand
{
	"inputs": [{"type": "promptString", "id": "key", "password": true}],
	"servers": {
		"gh": {
			"type": "stdio",
			"command": "${workspaceFolder}/gh", // ours
			"env": {"TOKEN": "${input:key}"}, /* secret */
		},
	},
}
`, "\ufeff" + `// by hand
{
	"inputs": [{"type": "promptString", "id": "key", "password": true}],
	"servers": {
		"gh": {
			"type": "stdio",
			"command": "/opt/par ley/parley",
			"args": ["tap", "--name", "gh", "--", "${workspaceFolder}/gh"], // ours
			"env": {"TOKEN": "${input:key}"}, /* secret */
		},
	},
}
`},
		{"VS Code, CRLF", "mcp.json", "{\r\n  \"servers\": {\r\n    \"a\": {\r\n      \"command\": \"x\"\r\n    }\r\n  }\r\n}\r\n",
			"{\r\n  \"servers\": {\r\n    \"a\": {\r\n      \"command\": \"/opt/par ley/parley\",\r\n      \"args\": [\"tap\", \"--name\", \"a\", \"--\", \"x\"]\r\n    }\r\n  }\r\n}\r\n"},
		{"Zed, both forms", "settings.json", `{
  // theme
  "context_servers": {
    "old": {"command": {"path": "/bin/old", "args": ["--stdio"], "env": null}, "settings": {}},
    "new": {"source": "custom", "command": "/bin/new", "args": [ /* none */ ]},
  },
  "agent_servers": {"agent": {"type": "custom", "command": "/bin/agent", "args": ["acp",]}},
}`, `{
  // theme
  "context_servers": {
    "old": {"command": {"path": "/opt/par ley/parley", "args": ["tap", "--name", "old", "--", "/bin/old", "--stdio"], "env": null}, "settings": {}},
    "new": {"source": "custom", "command": "/opt/par ley/parley", "args": ["tap", "--name", "new", "--", "/bin/new" /* none */ ]},
  },
  "agent_servers": {"agent": {"type": "custom", "command": "/opt/par ley/parley", "args": ["tap", "--name", "agent", "--", "/bin/agent", "acp",]}},
}`},
		{"Codex", "config.toml", `model = "o3" # best

[mcp_servers.docs]
command = 'C:\docs' # by hand
startup_timeout_sec = 20

[mcp_servers."my calc"]
args = [
  "-y", # yes
  'calc',
]
command = "npx"
[mcp_servers."my calc".env]
KEY = "v#1"

[mcp_servers]
inline = { command = "a", env = { X = "]" } }
dotted.command = "b" # last`, `model = "o3" # best

[mcp_servers.docs]
command = "/opt/par ley/parley" # by hand
args = ["tap", "--name", "docs", "--", 'C:\docs']
startup_timeout_sec = 20

[mcp_servers."my calc"]
args = [
  "tap",
  "--name",
  "my calc",
  "--",
  "npx",
  "-y", # yes
  'calc',
]
command = "/opt/par ley/parley"
[mcp_servers."my calc".env]
KEY = "v#1"

[mcp_servers]
inline = { command = "/opt/par ley/parley", args = ["tap", "--name", "inline", "--", "a"], env = { X = "]" } }
dotted.command = "/opt/par ley/parley" # last
dotted.args = ["tap", "--name", "dotted", "--", "b"]`},
		{"Gemini", "settings.json", `{"theme": "x", "mcpServers": {"a": {"command": "python3", "args": ["s.py"], "timeout": 5000, "trust": false}, "w": {"httpUrl": "https://example.com"}}}`,
			`{"theme": "x", "mcpServers": {"a": {"command": "/opt/par ley/parley", "args": ["tap", "--name", "a", "--", "python3", "s.py"], "timeout": 5000, "trust": false}, "w": {"httpUrl": "https://example.com"}}}`},
		{"Gemini, with settings of MCP", "settings.json", `{"mcp": {"allowed": ["a"], "serverCommand": "x"}, "mcpServers": {"a": {"command": "python3", "cwd": "./s", "includeTools": ["t"]}}}`,
			`{"mcp": {"allowed": ["a"], "serverCommand": "x"}, "mcpServers": {"a": {"command": "/opt/par ley/parley", "args": ["tap", "--name", "a", "--", "python3"], "cwd": "./s", "includeTools": ["t"]}}}`},
		{"VS Code, settings.json", "settings.json", `{
    // editor
    "editor.fontSize": 13,
    "mcp": {
        "inputs": [{"id": "k", "type": "promptString"},],
        "servers": {"a": {"command": "uvx", "args": ["a"], "envFile": "${workspaceFolder}/.env", "dev": {"watch": "*.py"}}, "r": {"type": "http", "url": "https://h", "headers": {}}},
    },
}`, `{
    // editor
    "editor.fontSize": 13,
    "mcp": {
        "inputs": [{"id": "k", "type": "promptString"},],
        "servers": {"a": {"command": "/opt/par ley/parley", "args": ["tap", "--name", "a", "--", "uvx", "a"], "envFile": "${workspaceFolder}/.env", "dev": {"watch": "*.py"}}, "r": {"type": "http", "url": "https://h", "headers": {}}},
    },
}`},
		{"Claude Desktop, disabled, remote and empty", "claude_desktop_config.json", `{"mcpServers":{"off":{"command":"x","args":[],"disabled":true},"none":{},"null":null,"r":{"type":"sse","url":"https://h/sse"}},"preferences":{"mcpServers":{"not":{"command":"y"}}}}`,
			`{"mcpServers":{"off":{"command":"/opt/par ley/parley","args":["tap", "--name", "off", "--", "x"],"disabled":true},"none":{},"null":null,"r":{"type":"sse","url":"https://h/sse"}},"preferences":{"mcpServers":{"not":{"command":"y"}}}}`},
		{"Cursor, escapes and other letters", "mcp.json", `{"mcpServers":{"\u00e4 ☃":{"args":["a\"b","\u2028","\\"],"command":"\/bin\/ü"}}}`,
			`{"mcpServers":{"\u00e4 ☃":{"args":["tap", "--name", "ä ☃", "--", "\/bin\/ü", "a\"b","\u2028","\\"],"command":"/opt/par ley/parley"}}}`},
		{"Codex, BOM and CRLF, an address, disabled", "config.toml", "\ufeff# mine\r\n[mcp_servers.a]\r\ncommand = \"npx\"\r\nenv = { \"API_KEY\" = \"v\" }\r\nenabled = false\r\n\r\n[mcp_servers.r]\r\nurl = \"https://h/mcp\"\r\nbearer_token_env_var = \"T\"\r\n",
			"\ufeff# mine\r\n[mcp_servers.a]\r\ncommand = \"/opt/par ley/parley\"\r\nargs = [\"tap\", \"--name\", \"a\", \"--\", \"npx\"]\r\nenv = { \"API_KEY\" = \"v\" }\r\nenabled = false\r\n\r\n[mcp_servers.r]\r\nurl = \"https://h/mcp\"\r\nbearer_token_env_var = \"T\"\r\n"},
		{"opencode", "opencode.json", `{"mcp": {"a": {"type": "local", "command": ["bun", "x"]}}}`,
			`{"mcp": {"a": {"type": "local", "command": ["/opt/par ley/parley", "tap", "--name", "a", "--", "bun", "x"]}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrapped, err := Wrap(c.file, []byte(c.before), nil, tapPrefix)
			if err != nil {
				t.Fatal(err)
			}
			if string(wrapped.Text) != c.after {
				t.Fatalf("wrapped:\n%s\nwant:\n%s", wrapped.Text, c.after)
			}
			again, err := Wrap(c.file, wrapped.Text, nil, tapPrefix)
			if err != nil || string(again.Text) != c.after || len(again.Changed()) != 0 {
				t.Errorf("wrapped twice: %v\n%s", err, again.Text)
			}
			back, err := Unwrap(c.file, wrapped.Text, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := back.Changed(), wrapped.Changed(); !slices.Equal(got, want) {
				t.Errorf("unwrapped %q, wrapped %q", got, want)
			}
			// Only an added list of arguments may remain, empty.
			if got := withoutEmptyArgs.Replace(string(back.Text)); got != withoutEmptyArgs.Replace(c.before) {
				t.Errorf("unwrapped:\n%s\nwant:\n%s", back.Text, c.before)
			}
		})
	}
}

var withoutEmptyArgs = strings.NewReplacer(
	", \"args\": []", "", ",\r\n      \"args\": []", "", ",\n\t\t\t\"args\": []", "", "\nargs = []", "", "\ndotted.args = []", "", ", args = []", "", "\r\nargs = []", "")

// TestWrapSelects names servers, and the reasons why others are not changed.
func TestWrapSelects(t *testing.T) {
	const text = `{"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://h"}, "c": {"command": 5}, "d": {"command": "y", "args": "z"}}}`
	e, err := Wrap("mcp.json", []byte(text), []string{"b", "a"}, tapPrefix)
	if err != nil || !slices.Equal(e.Changed(), []string{"a"}) || len(e.Changes) != 2 || e.Changes[1].Skipped != "it has an address and no command" {
		t.Errorf("%v, %+v", err, e)
	}
	if got := Tapped("mcp.json", e.Text); len(got) != 1 || !slices.Equal(got["a"], tapPrefix("a")) {
		t.Errorf("the prefixes are %q", got)
	}
	if e, err = Wrap("mcp.json", []byte(text), nil, tapPrefix); err != nil || !slices.Equal(e.Changed(), []string{"a"}) {
		t.Errorf("%v, %+v", err, e)
	}
	_, err = Wrap("mcp.json", []byte(text), []string{"nope"}, tapPrefix)
	if unknown, ok := errors.AsType[*UnknownServerError](err); !ok || unknown.Error() != `there is no server "nope"; the file has a, b, c, d` {
		t.Errorf("%v", err)
	}
	if _, err = Wrap("mcp.json", []byte(`{"mcpServers":`), nil, tapPrefix); err == nil {
		t.Error("half a file was edited")
	}
	if _, err = Wrap("parley.yaml", []byte("servers:\n  a:\n    command: x\n"), nil, tapPrefix); !errors.Is(err, errYAML) {
		t.Errorf("YAML: %v", err)
	}
}

// TestUnwrapByHand unwraps a tap that a user wrote, and leaves other programs alone.
// TestWrapProject checks the servers that ~/.claude.json has for the project of the working
// directory: they are changed, and those of other projects are not.
func TestWrapProject(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`{
  "projects": {
    "HERE": {"mcpServers": {"notes": {"command": "a"}, "own": {"command": "b", "args": ["c"]}}, "x": 1},
    "HERE/../other": {"mcpServers": {"notes": {"command": "d"}}}
  },
  "mcpServers": {"notes": {"command": "e"}, "all": {"command": "f"}}
}`, "HERE", filepath.ToSlash(here))
	prefix := func(string) []string { return []string{"/p/parley", "tap", "--"} }
	edit, err := Wrap(".claude.json", []byte(text), nil, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(edit.Changed(), " "); got != "notes own all" {
		t.Errorf("changed %s", got)
	}
	for _, same := range []string{`{"notes": {"command": "d"}}`, `{"notes": {"command": "e"}, "all"`} {
		if !strings.Contains(string(edit.Text), same) {
			t.Errorf("%s was changed:\n%s", same, edit.Text)
		}
	}
	if tapped := Tapped(".claude.json", edit.Text); len(tapped) != 3 {
		t.Errorf("recorded: %q", tapped)
	}
	back, err := Unwrap(".claude.json", edit.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(back.Changed(), " "); got != "notes own all" || strings.Contains(string(back.Text), "parley") {
		t.Errorf("changed back %s:\n%s", got, back.Text)
	}
}

func TestUnwrapByHand(t *testing.T) {
	const text = `{"mcpServers": {
  "mine": {"command": "parley.exe", "args": ["tap", "--record", "x.jsonl", "--", "node", "s.js"]},
  "brew": {"command": "brew", "args": ["tap", "--", "x"]},
  "http": {"command": "parley", "args": ["tap", "--target", "http://h"]},
  "none": {"command": "parley", "args": ["tap", "--"]}
}}`
	e, err := Unwrap("mcp.json", []byte(text), nil)
	want := strings.Replace(text, `"parley.exe", "args": ["tap", "--record", "x.jsonl", "--", "node", "s.js"]`, `"node", "args": ["s.js"]`, 1)
	if err != nil || string(e.Text) != want {
		t.Errorf("%v\n%s", err, e.Text)
	}
}

// FuzzWrap wraps and unwraps any text: both must be readable, and nothing but the commands may
// change, which Wrap and Unwrap check themselves.
func FuzzWrap(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["y",/*c*/]}}}`, `{"context_servers":{"a":{"command":{"path":"x"}}}}`, `{"mcp":{"a":{"command":["x"]}}}`,
		"[mcp_servers.a]\ncommand = 'x' # c\nargs = [\n \"y\", # z\n]\n", "mcp_servers.a = {command = \"\"\"x\"\"\", args = ['''y''']}", "[mcp_servers]\na.command = \"x\"",
		"mcp_servers.a.\"command\" = \"x\"\r\n[[b]]\n",
	} {
		f.Add(seed, seed[0] != '{')
	}
	f.Fuzz(func(t *testing.T, text string, isTOML bool) {
		name := "f.json"
		if isTOML {
			name = "f.toml"
		}
		wrapped, err := Wrap(name, []byte(text), nil, tapPrefix)
		if err != nil {
			if errors.Is(err, errEdited) {
				t.Fatalf("%q cannot be wrapped", text)
			}
			return
		}
		back, err := Unwrap(name, wrapped.Text, wrapped.Changed())
		if err != nil {
			t.Fatalf("%q: %q cannot be unwrapped: %v", text, wrapped.Text, err)
		}
		for i, c := range back.Changes {
			if len(wrapped.Changed()) > 0 && c.Skipped == "" && !slices.Equal(c.After, wrapped.Changes[slices.IndexFunc(wrapped.Changes, func(w Change) bool { return w.Server == c.Server })].Before) {
				t.Fatalf("%q: server %d is %q", text, i, c.After)
			}
		}
	})
}
