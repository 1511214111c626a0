package acp

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestGuideRunsAsItStands(t *testing.T) {
	g := harness.Guide{
		Page: "acp.md", Code: "examples/acp/*.go", Programs: map[string]string{"acp": "./examples/acp"},
		Address: "localhost:8000", At: "localhost:" + serveExample(t, harness.Program(t, "./examples/acp")),
		Commands: 3, Snippets: 6,
	}
	g.Check(t)
}

// serveExample starts the example program and returns its port.
func serveExample(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), program, "127.0.0.1:0") // the test ends it
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
