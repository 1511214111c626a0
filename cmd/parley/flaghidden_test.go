package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestHiddenIn(t *testing.T) {
	for _, c := range []struct {
		value any
		want  []string
	}{
		{"plain\n\ttext\r\n", nil},
		{"⚠\ufe0f ä 漢 🙂", nil},
		{map[string]string{"a\u200b": "b\u200b\u202e"}, []string{"U+200B", "U+202E"}},
		{jsonrpc.Raw(`{"description":"\u2060\udb40\udc41"}`), []string{"U+2060", "U+E0041"}},
		{[]string{"\u200b\u200c\u200d\u2060\ufeff\u00ad\u061c"}, []string{"U+200B", "U+200C", "U+200D", "U+2060", "U+FEFF", "…"}},
	} {
		if got := hiddenIn(c.value); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.value, got, c.want)
		}
	}
}

// TestInvisibleLettersAreFlagged checks that every list format reports invisible characters on
// stderr with the item's name.
func TestInvisibleLettersAreFlagged(t *testing.T) {
	target := serveOn(t, &parley.Listener{Handler: hostileServer("see\u200b\U000e0041")}, "tcp://127.0.0.1:0").String()
	for _, form := range []string{"text", "json", "table"} {
		for words, want := range map[string]string{"tools": "tool t", "resources": `resource see\u200b\u{e0041}`, "prompts": `prompt see\u200b\u{e0041}`, "ping": `the server see\u200b\u{e0041}`} {
			code, stdout, stderr := runOn(t, "mcp", words, target, "-o", form)
			if code != exitOK || !strings.Contains(stderr, "parley: "+want+" contains invisible characters: U+200B, U+E0041.") || strings.ContainsAny(stdout+stderr, "\u200b\U000e0041") {
				t.Errorf("mcp %s -o %s: exit code %d, stderr\n%s", words, form, code, stderr)
			}
		}
	}
}

// TestConfigAtHome checks that ~ is expanded to the home folder if the shell did not do it, unless
// such a file exists.
func TestConfigAtHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Chdir(t.TempDir())
	a := &app{}
	for path, want := range map[string]string{"~/a/mcp.json": filepath.Join(home, "a", "mcp.json"), "a/~/b": "a/~/b", "~": "~", "~ada/x": "~ada/x", "": ""} {
		if got := a.atHome(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	writeIn(t, home, "mcp.json", `{"mcpServers":{"a":{"url":"http://127.0.0.1:1/mcp"}}}`)
	if code, stdout, stderr := runOn(t, "config", "check", "~/mcp.json"); code != exitOK || !strings.HasPrefix(stdout, "@a\t") {
		t.Errorf("config check ~/mcp.json: exit code %d, %s%s", code, stdout, stderr)
	}
	if file, err := a.upFile("~/mcp.json"); err != nil || len(file.file.Entries) != 1 {
		t.Errorf("up -c ~/mcp.json: %v", err)
	}
	if err := os.MkdirAll("~", 0o700); err != nil {
		t.Fatal(err)
	}
	writeIn(t, "~", "mcp.json", "{}")
	if got := a.atHome("~/mcp.json"); got != "~/mcp.json" {
		t.Errorf("a file that is there is %s", got)
	}
}
