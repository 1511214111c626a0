package acp

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z`)
)

// The commands of the guide run as they stand, but for the port, and print what it says; its Go code is that of the example.
func TestGuideRunsAsItStands(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/acp.md")
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, name := range []string{"main.go", "main_test.go"} {
		text, err := os.ReadFile(filepath.Join("../../examples/acp", name))
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	dir := t.TempDir()
	program := harness.Program(t, "./examples/acp")
	if err := os.Symlink(program, filepath.Join(dir, "acp")); err != nil {
		t.Fatal(err)
	}
	port := serveExample(t, program)
	blocks := strings.Split(string(guide), "```")
	ran, shown := 0, 0
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "go":
			if !strings.Contains(code, body) {
				t.Errorf("not in examples/acp:\n%s", body)
			}
			shown++
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			cmd := harness.Command(t.Context(), t, []string{"bash", "-c", strings.ReplaceAll(body, "localhost:8000", "localhost:"+port)})
			cmd.Dir = dir
			harness.KeepStderr(t, cmd)
			out, err := cmd.Output()
			got := anyTime.ReplaceAllString(anyUUID.ReplaceAllString(string(out), "UUID"), "TIME")
			if err != nil || strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, body, got, want)
			}
			ran++
		}
	}
	if ran != 3 || shown != 6 {
		t.Errorf("%d blocks of commands ran, and %d of code were compared", ran, shown)
	}
}

// serveExample starts the program of the example and returns its port.
func serveExample(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), program, "127.0.0.1:0") // ended below
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the example: %v", err)
		}
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
