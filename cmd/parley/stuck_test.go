//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAStuckHandler checks that parley ends after SIGTERM although a handler does not return, with
// the exit code 1, and that it logs that a call still runs. It has 15 s for running calls and
// one more for their ends.
func TestAStuckHandler(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "demo", "--listen", scheme+"://127.0.0.1:0")
			cmd.Env = append(os.Environ(), stuckVariable+"=1", "HOME="+t.TempDir(), "XDG_STATE_HOME=", "GORACE=atexit_sleep_ms=0")
			out, end, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd.Stdout, cmd.Stderr = end, end
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = end.Close()                           // the child has its own
			defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test failed
			_ = out.SetDeadline(time.Now().Add(2 * time.Minute))
			lines := bufio.NewScanner(out)
			address := ""
			for address == "" && lines.Scan() {
				if _, rest, ok := strings.Cut(lines.Text(), scheme+"://"); ok {
					address, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
					address = strings.FieldsFunc(address, func(r rune) bool { return r == '/' || r == '?' })[0]
				}
			}
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request := `{"jsonrpc":"2.0","id":1,"method":"stuck"}` + "\n"
			if scheme == "http" {
				request = fmt.Sprintf("POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(request), request)
			}
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() && lines.Text() != "entered" {
			}
			begin := time.Now()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			for lines.Scan() { // until the process has ended
				fmt.Fprintf(&log, "%.1fs %s\n", time.Since(begin).Seconds(), lines.Text())
			}
			_ = cmd.Wait() // the state has the exit code
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it ends after %v", took)
			}
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(log.String(), "still run") {
				t.Errorf("the exit code is %d, and it logs %q", code, log.String())
			}
			t.Logf("it ends after %v and logs %s", time.Since(begin), log.String())
		})
	}
}
