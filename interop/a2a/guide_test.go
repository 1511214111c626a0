package a2a_test

import (
	"bufio"
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestGuideRunsAsItStands(t *testing.T) {
	g := harness.Guide{
		Page: "a2a.md", Code: "examples/a2a/*.go", Programs: map[string]string{"a2a": "./examples/a2a"},
		Address: "localhost:9000", At: "localhost:" + serveExample(t, harness.Program(t, "./examples/a2a")),
		Commands: 5, Snippets: 5,
	}
	g.Check(t)
}

// serveExample starts the example program and returns its port.
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
		_ = cmd.Wait() // the test ends it
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
