package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// firstMinute returns the commands in the console blocks of docs/guides/first-minute.md, each with
// the output that the page shows.
func firstMinute(t *testing.T) (commands, outputs []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/first-minute.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				commands, outputs = append(commands, strings.TrimSpace(command)), append(outputs, "")
			} else if len(outputs) > 0 {
				outputs[len(outputs)-1] += line
			}
		}
	}
	if len(commands) < 10 {
		t.Errorf("the page has %d commands", len(commands))
	}
	return commands, outputs
}

// TestFirstMinute runs the commands of docs/guides/first-minute.md against a demo and compares what
// they print, the result and the error, with the page.
func TestFirstMinute(t *testing.T) {
	commands, outputs := firstMinute(t)
	addresses := map[string]string{}
	if err := startDemo(nil, func(name, value string) { addresses[name] = value }, t.Cleanup, t.Error); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(addresses["HTTP"], "http://"), "/")
	here := strings.NewReplacer(" :3000", " http://"+host, "127.0.0.1:3000", host)
	for i, command := range commands {
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
		a.main(t.Context(), shellWords(here.Replace(strings.TrimPrefix(command, "parley "))))
		if got := strings.ReplaceAll(stdout.String()+stderr.String(), host, "127.0.0.1:3000"); got != outputs[i] {
			t.Errorf("$ %s\n%swant\n%s", command, got, outputs[i])
		}
	}
}

// TestFirstMinuteCast checks that the recording is an asciicast of the commands on the page. If
// they differ, scripts/cast makes it again.
func TestFirstMinuteCast(t *testing.T) {
	commands, _ := firstMinute(t)
	cast, err := os.ReadFile("../../docs/guides/first-minute.cast")
	if err != nil {
		t.Fatal(err)
	}
	head, events, _ := strings.Cut(string(cast), "\n")
	var header struct{ Version, Width, Height int }
	if err := json.Unmarshal([]byte(head), &header); err != nil || header.Version != 2 || header.Width == 0 || header.Height == 0 {
		t.Errorf("the header is %s: %v", head, err)
	}
	var recorded []string
	var shown strings.Builder
	last := 0.0
	for line := range strings.Lines(events) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 {
			t.Fatalf("%s: %v", line, err)
		}
		at, isTime := event[0].(float64)
		text, isText := event[2].(string)
		if !isTime || !isText || at < last {
			t.Fatalf("event %s after %v s", line, last)
		}
		last = at
		switch event[1] {
		case "m":
			recorded = append(recorded, text)
		case "o":
			shown.WriteString(text)
		}
	}
	if !slices.Equal(recorded, commands) {
		t.Errorf("the recording has\n\t%s\nand the page\n\t%s", strings.Join(recorded, "\n\t"), strings.Join(commands, "\n\t"))
	}
	for _, command := range commands {
		if !strings.Contains(shown.String(), "$ "+command+"\r\n") {
			t.Errorf("the recording does not show %s", command)
		}
	}
	if last > 90 || strings.Contains(shown.String(), "refused") {
		t.Errorf("the recording takes %v s, and must show a server", last)
	}
}
