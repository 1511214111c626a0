package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheGuideExplore runs the commands of docs/guides/explore.md against a demo and compares their
// output with the page.
func TestTheGuideExplore(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/explore.md")
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{}
	if err := startDemo(nil, func(name, value string) { addresses[name] = value }, t.Cleanup, t.Error); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(addresses["HTTP"], "http://"), "/")
	here := strings.NewReplacer(" :3000", " http://"+host, "127.0.0.1:3000", host)
	dir := t.TempDir()
	ran := 0
	rest, want := string(text), ""
	for {
		before, after, found := strings.Cut(rest, "```sh\n")
		if !found {
			break
		}
		if _, yaml, ok := strings.Cut(before, "```yaml\n"); ok {
			yaml, _, _ = strings.Cut(yaml, "```")
			if err := os.WriteFile(filepath.Join(dir, "team.yaml"), []byte(here.Replace(yaml)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		command, after, _ := strings.Cut(after, "```\n")
		want, rest = "", after
		if shown, ok := strings.CutPrefix(after, "```text\n"); ok {
			want, rest, _ = strings.Cut(shown, "```\n")
		}
		words := shellWords(here.Replace(strings.TrimPrefix(strings.TrimSpace(command), "parley ")))
		for i, word := range words {
			if word == "team.yaml" {
				words[i] = filepath.Join(dir, word)
			}
		}
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.main(t.Context(), words); code != 0 {
			t.Errorf("%sexit code %d: %s", command, code, &stderr)
		}
		if got := strings.ReplaceAll(stdout.String(), host, "127.0.0.1:3000"); want != "" && got != want {
			t.Errorf("%sprints\n%swant\n%s", command, got, want)
		}
		ran++
	}
	if ran < 5 {
		t.Errorf("only %d commands were run", ran)
	}
}

// TestSilentServers checks that the commands that look at a server end by their timeout if the
// server accepts connections and never answers.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	address := blackHole(t)
	team := filepath.Join(t.TempDir(), "team.yaml")
	if err := os.WriteFile(team, []byte("team:\n  m: {target: \"tcp://"+address+"\", protocol: jsonrpc}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"list", "tcp://" + address},
		{"list", "http://" + address},
		{"list", "http://" + address + "/mcp"},
		{"list", "ws://" + address},
		{"list", "tcp://" + address, "--protocol", "mcp"},
		{"list", "--team", team},
		{"describe", "tcp://" + address, "subtract"},
		{"describe", "http://" + address, "--protocol", "a2a"},
		{"doctor", "tcp://" + address},
		{"doctor", "http://" + address},
		{"repl", "tcp://" + address},
		{"repl", "http://" + address},
	} {
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader("subtract 42 23\n"), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.main(t.Context(), append(words, "--timeout", "100ms")); code != exitAway || !strings.Contains(stderr.String()+stdout.String(), "no response within 100ms (--timeout)") {
			t.Errorf("%v: exit code %d, stderr %q", words, code, &stderr)
		}
	}
}
