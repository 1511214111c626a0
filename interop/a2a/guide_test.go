package a2a_test

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
)

// The commands of the guide run as they stand, but for the port, and print what it says; its Go code is that of the example.
func TestGuideRunsAsItStands(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/a2a.md")
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, name := range []string{"main.go", "main_test.go"} {
		text, err := os.ReadFile(filepath.Join("../../examples/a2a", name))
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	dir := t.TempDir()
	program := harness.Program(t, "./examples/a2a")
	if err := os.Symlink(program, filepath.Join(dir, "a2a")); err != nil {
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
				t.Errorf("not in examples/a2a:\n%s", body)
			}
			shown++
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			cmd := harness.Command(t.Context(), t, []string{"bash", "-c", strings.ReplaceAll(body, "localhost:9000", "localhost:"+port)})
			cmd.Dir = dir
			harness.KeepStderr(t, cmd)
			out, err := cmd.Output()
			got := anyTime.ReplaceAllString(anyUUID.ReplaceAllString(string(out), "UUID"), "TIME")
			got = strings.ReplaceAll(got, "localhost:"+port, "localhost:9000")
			if err != nil || strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, body, got, want)
			}
			ran++
		}
	}
	if ran != 5 || shown != 5 {
		t.Errorf("%d blocks of commands ran, and %d of code were compared", ran, shown)
	}
}

// serveExample starts the program of the example and returns its port.
func serveExample(t *testing.T, program string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := harness.Command(ctx, t, []string{program, "127.0.0.1:0"})
	harness.KeepStderr(t, cmd)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // ended by us
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "serving ")))
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
