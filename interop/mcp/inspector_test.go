package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

const inspectorCLI = "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// node22 is a newer Node than the system may have: the inspector requires 22.19. It is one of the
// npm packages.
const node22 = "node/node_modules/.bin/node"

// An inspected is one run of the inspector's command line.
type inspected struct {
	exit   int
	result jsonValue // the printed result
	stderr string
}

// A jsonValue is decoded JSON that is accessed by path.
type jsonValue struct{ v any }

// at returns the value at a path of names and indexes, or nil if it is missing.
func (j jsonValue) at(path ...any) any {
	v := j.v
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// names returns a member of all elements of a list.
func (j jsonValue) names(list, member string) (names []string) {
	elements, _ := j.at("result", list).([]any)
	for _, e := range elements {
		name, _ := jsonValue{e}.at(member).(string)
		names = append(names, name)
	}
	return names
}

// inspect runs the inspector on a server. target is an address with its flags, or the command line
// of a child process.
func inspect(t *testing.T, target []string, words ...string) inspected {
	t.Helper()
	argv := append([]string{harness.Need(t, "Node 22", node22), harness.Need(t, "the inspector", inspectorCLI), "--cli", "--quiet", "--format", "json"}, words...)
	argv = append(argv, target...)
	cmd := harness.Command(within(t), t, argv)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // it stores a catalog there
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var out inspected
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		out.exit = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	out.stderr = stderr.String()
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &out.result.v); err != nil {
			t.Errorf("%q: %v: %s", words, err, stdout.String())
		}
	}
	return out
}

// TestInspector runs the official inspector on `parley demo`, over all its transports and in both
// eras.
func TestInspector(t *testing.T) {
	t.Parallel()
	web := strings.TrimSuffix(harness.Demo(t, "http://127.0.0.1:0")[0], "/rpc")
	child := []string{"--", harness.Parley(t), "demo", "--mcp", "--stdio"}
	for name, target := range map[string][]string{
		"Streamable HTTP, legacy": {"--server-url", web + "/mcp", "--transport", "http", "--protocol-era", "legacy"},
		"Streamable HTTP, modern": {"--server-url", web + "/mcp", "--transport", "http", "--protocol-era", "modern"},
		"HTTP+SSE":                {"--server-url", web + "/sse", "--transport", "sse"},
		"stdio, legacy":           append([]string{"--protocol-era", "legacy"}, child...),
		"stdio, modern":           append([]string{"--protocol-era", "modern"}, child...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inspectTools(t, target, strings.HasSuffix(name, "modern"))
			// Each run takes half a second of CPU time.
			if strings.HasPrefix(name, "Streamable") || name == "stdio, legacy" {
				inspectRest(t, target)
			}
		})
	}
}

func inspectTools(t *testing.T, target []string, modern bool) {
	// --strict reports schemas that other hosts fail on, and exits with 6 if there is one.
	list := inspect(t, target, "--method", "tools/list", "--strict")
	if names := list.result.names("tools", "name"); list.exit != 0 || !slices.Contains(names, "calculator/add") || !slices.Contains(names, "book-table") {
		t.Errorf("tools/list: exit code %d, %q, %s", list.exit, names, list.stderr)
	}
	sum := inspect(t, target, "--method", "tools/call", "--tool-name", "calculator/add", "--tool-arg", "a=42", "b=23")
	if got := sum.result.at("result", "structuredContent", "result"); sum.exit != 0 || got != 65.0 {
		t.Errorf("tools/call calculator/add: exit code %d, %v, %s", sum.exit, got, sum.stderr)
	}
	// A failed tool call has exit code 5, as with parley.
	zero := inspect(t, target, "--method", "tools/call", "--tool-name", "calculator/divide", "--tool-args-json", `{"a":1,"b":0}`)
	if text, _ := zero.result.at("result", "content", 0, "text").(string); zero.exit != 5 || !strings.HasPrefix(text, "Division by zero") {
		t.Errorf("tools/call calculator/divide: exit code %d, %q, %s", zero.exit, text, zero.stderr)
	}
	want := "2025-11-25"
	if modern {
		want = "2026-07-28"
	}
	who := inspect(t, target, "--method", "tools/call", "--tool-name", "about/client")
	if got, version := who.result.at("result", "structuredContent", "name"), who.result.at("result", "structuredContent", "version"); got != "inspector-cli" || version != want {
		t.Errorf("about/client: it is %v and speaks %v, want %s; %s", got, version, want, who.stderr)
	}
}

func inspectRest(t *testing.T, target []string) {
	list := inspect(t, target, "--method", "resources/list")
	if uris := list.result.names("resources", "uri"); list.exit != 0 || !slices.Contains(uris, "clock://now") {
		t.Errorf("resources/list: exit code %d, %q, %s", list.exit, uris, list.stderr)
	}
	read := inspect(t, target, "--method", "resources/read", "--uri", "table://menus/zur-linde")
	if text, _ := read.result.at("result", "contents", 0, "text").(string); read.exit != 0 || !strings.Contains(text, "Plum dumplings") {
		t.Errorf("resources/read: exit code %d, %q, %s", read.exit, text, read.stderr)
	}
	templates := inspect(t, target, "--method", "resources/templates/list")
	if names := templates.result.names("resourceTemplates", "uriTemplate"); templates.exit != 0 || !slices.Contains(names, "weather://sun/{city}") {
		t.Errorf("resources/templates/list: exit code %d, %q, %s", templates.exit, names, templates.stderr)
	}
	prompt := inspect(t, target, "--method", "prompts/get", "--prompt-name", "explain-error", "--prompt-args", "code=-32602")
	if text, _ := prompt.result.at("result", "messages", 0, "content", "text").(string); prompt.exit != 0 || !strings.Contains(text, `"Invalid params"`) {
		t.Errorf("prompts/get: exit code %d, %q, %s", prompt.exit, text, prompt.stderr)
	}
}
