package mcp_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// browser is a program in place of the browser: it follows redirects, which suffices here.
const browser = "#!/bin/sh\nexec curl -sL \"$1\"\n"

// TestAuthGuide runs the commands of the authorization guide, with different ports: three programs
// and a browser.
func TestAuthGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guides/mcp-authorization.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("%v; run: make setup", err)
	}
	dir := t.TempDir()
	link(t, harness.Parley(t), filepath.Join(dir, "parley"))
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(browser), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	issuer := firstLine(t, true, harness.Program(t, "./interop/authserver/cmd/authserver"))
	server := firstLine(t, false, harness.Program(t, "./examples/mcpguarded"), issuer, "127.0.0.1:0")
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(server)
	environment := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	ran := 0
	blocks := strings.Split(string(text), "```")
	for i := 1; i < len(blocks); i += 2 {
		kind, code, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "go":
			isInExamples(t, []string{"mcpguarded"}, code)
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			cmd := exec.CommandContext(within(t), "bash", "-c", strings.ReplaceAll(code, "127.0.0.1:8080", port))
			cmd.Env = environment
			got, err := cmd.CombinedOutput()
			if err != nil || strings.ReplaceAll(string(got), port, "127.0.0.1:8080") != want {
				t.Errorf("%v\n%s\nprints\n%s\nwant\n%s", err, code, got, want)
			}
			ran++
		}
	}
	if ran != 2 {
		t.Errorf("%d blocks of commands ran, the guide has 2", ran)
	}
}

// firstLine runs a program until the test ends, and returns its first line of output.
func firstLine(t *testing.T, stdout bool, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := harness.Command(ctx, t, argv)
	open := cmd.StderrPipe
	if stdout {
		open = cmd.StdoutPipe
	}
	pipe, err := open()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // ended by the signal
	})
	in := bufio.NewReader(pipe)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatalf("%s says %q: %v", argv[0], line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, in) }() // ends with the program
	return strings.TrimSpace(line)
}
