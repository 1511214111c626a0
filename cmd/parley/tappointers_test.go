package main

import (
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
)

// TestPointers checks what a tap prints for the configuration of a client.
func TestPointers(t *testing.T) {
	for _, c := range []struct {
		server, at string
		lines      int
		has        string
	}{
		{"https://example.com/mcp", "http://127.0.0.1:4000/mcp", 7, `  Codex        codex mcp add tapped --url http://127.0.0.1:4000/mcp`},
		{"https://example.com/mcp/", "http://127.0.0.1:4000/mcp/", 7, `  Gemini CLI   {"mcpServers": {"tapped": {"httpUrl": "http://127.0.0.1:4000/mcp/"}}}`},
		{"http://h/a/sse", "http://127.0.0.1:4000/a/sse", 6, `  VS Code      {"servers": {"tapped": {"type": "sse", "url": "http://127.0.0.1:4000/a/sse"}}}`},
		{"sse+https://h/events", "sse+http://127.0.0.1:4000/events", 6, `  Gemini CLI   {"mcpServers": {"tapped": {"url": "http://127.0.0.1:4000/events"}}}`},
		{"http://h/rpc", "http://127.0.0.1:4000/rpc", 1, ""},
		{"wss://h/mcp", "ws://127.0.0.1:4000/mcp", 1, ""},
		{"tcp://h:1", "tcp://127.0.0.1:4000", 1, ""},
		{"unix:/a/mcp", "unix:/b/mcp", 1, "point the client to unix:/b/mcp instead of unix:/a/mcp; waiting for the first message"},
	} {
		parse := func(text string) parley.Target {
			target, err := parley.ParseTarget(text)
			if err != nil {
				t.Fatal(err)
			}
			return target
		}
		tapped := &tapping{server: parse(c.server), at: parse(c.at)}
		lines := tapped.pointers(true)
		if all := strings.Join(lines, "\n"); len(lines) != c.lines || !strings.Contains(all, c.has) || !strings.HasPrefix(all, "point the client to "+c.at+" instead of "+c.server+";") {
			t.Errorf("%s: %d lines:\n%s", c.server, len(lines), all)
		}
		if few := tapped.pointers(false); len(few) != 1 || few[0] != lines[0] {
			t.Errorf("%s, without a terminal: %q", c.server, few)
		}
	}
}
