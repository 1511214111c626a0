package page

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

// tapAt matches the address for clients that `parley tap --target` prints.
var tapAt = regexp.MustCompile(`tap for \S+ at (\S+)`)

// program returns the path of parley.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("PARLEY_PROGRAM"); path != "" { // already built
		return path
	}
	return harness.Parley(t)
}

// startTap starts `parley tap --ui` and waits for its page, and for the address of clients unless
// it is on stdio. end stops it.
func startTap(t *testing.T, stdin io.Reader, args ...string) (u *up, at string, end func()) {
	t.Helper()
	u = &up{home: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cmd := harness.Command(ctx, t, append([]string{program(t), "tap", "--ui"}, args...))
	cmd.Env = append(os.Environ(), "HOME="+u.home, "XDG_CONFIG_HOME="+u.home+"/config", "XDG_STATE_HOME="+u.home+"/state")
	cmd.Dir = u.home // so that a file can be named without its folder
	cmd.Stdin = stdin
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := new(harness.Output)
	output.ShowIfFailed(t, "parley tap")
	pages, places, read := make(chan []string, 1), make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(io.TeeReader(stderr, output))
		for lines.Scan() {
			if m := printed.FindStringSubmatch(lines.Text()); m != nil {
				pages <- m
			}
			if m := tapAt.FindStringSubmatch(lines.Text()); m != nil {
				places <- m[1]
			}
		}
	}()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		if stdin == nil {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Errorf("parley tap was gone: %v", err)
			}
		}
		<-read
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("parley tap ended with %v", err)
		}
	}
	late := time.After(time.Minute)
	select {
	case m := <-pages:
		u.address, u.base, u.token = m[0], m[1], m[2]
	case <-read:
		t.Fatal("parley tap ended")
	case <-late:
		t.Fatal("parley tap does not say where its page is")
	}
	if stdin != nil {
		return u, "", end
	}
	t.Cleanup(end)
	select {
	case at = <-places:
	case <-read:
		t.Fatal("parley tap ended")
	case <-late:
		t.Fatal("parley tap does not say where clients come")
	}
	return u, at, end
}

// visit makes a call through the tap.
func visit(t *testing.T, words ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t), words...).CombinedOutput()
	if err != nil {
		t.Fatalf("parley %q: %v\n%s", words, err, out)
	}
}

// TestTapPage checks that with a tap, the first page describes the tapped session and nothing that
// does not exist.
func TestTapPage(t *testing.T) {
	t.Parallel()
	demo, err := url.Parse(harness.Demo(t, "http://127.0.0.1:0")[0])
	if err != nil {
		t.Fatal(err)
	}
	server := "http://" + demo.Host + "/mcp"
	u, at, _ := startTap(t, nil, "--target", server, "--record", "session.jsonl") // the image shows this name
	p := u.page(t, desk, "")
	p.see("heading", "A tapped session, live")
	p.says("session.jsonl")
	p.says(server)
	p.says("Waiting for the first message. Point the client to the address above.")
	p.judgeBoth("waiting")

	visit(t, "mcp", "tools", at, "--protocol", "2025-11-25")
	visit(t, "mcp", "call", at, "book-table", `restaurant=Zur Linde`, "guests:=4", "--answer", "name=Ada", "--protocol", "2025-11-25")
	for _, row := range []string{"initialize", `tools\/list`, bookRow} {
		p.row(row)
	}
	p.see("heading", "So far")
	p.until("what was said is not summed up", `/client tools\/call book-table 1 ≤ /.test(eyes.clean(eyes.text(eyes.first("region", "Start"))))`)
	for _, foreign := range []string{"@demo", "Running here", "demo services", "Found on this machine", "lessons"} {
		if ask[bool](p, "eyes.clean(eyes.text(document.body)).includes("+quoted(foreign)+")") {
			t.Errorf("the page beside a tap speaks of %q", foreign)
		}
	}
	p.guideImage("tap-page")
	p.judgeBoth("said")
	p.click("button", "/^client tools\\/list/")
	p.until("the filter is not set", `eyes.rows().every((r) => r.level > 1 || /tools\/list/.test(r.text)) && eyes.rows().length > 0`)
	p.key("Esc")

	// A separate connection of the page, in addition to those of the clients.
	p.click("button", "Open a separate connection")
	p.see("region", "Composer")
	p.until("nothing is composed for the server", `/tools\/call/.test(eyes.bytes())`)
	p.as(phone)
	p.click("button", "parley, first page")
	// A phone shows either the page or the traffic. A filter was selected, so it shows the traffic.
	p.click("button", "/^First page/")
	p.see("heading", "A tapped session, live")
	p.judge("phone")
	p.shot("phone")
}

// TestTapPageOnStdio checks that a tap in place of a server's command shows the same, and exits
// with its host.
func TestTapPageOnStdio(t *testing.T) {
	t.Parallel()
	stdin, host := io.Pipe()
	record := filepath.Join(t.TempDir(), "session.jsonl")
	u, _, end := startTap(t, stdin, "--record", record, "--", program(t), "demo", "--mcp", "--stdio")
	p := u.page(t, desk, "")
	p.see("heading", "A tapped session, live")
	p.says("demo --mcp --stdio")
	p.says("session.jsonl")
	p.says("The program has only this host.")
	if _, err := io.WriteString(host, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	p.row("initialize")
	p.until("the call has no answer", onRow("initialize")+` && /result/.test(eyes.text(`+onRow("initialize")+`))`)
	p.until("it is not summed up", `/1 call /.test(eyes.clean(eyes.text(eyes.first("region", "Start"))))`)
	p.shot("stdio")
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	end()
	if text, err := os.ReadFile(record); err != nil || len(text) == 0 {
		t.Errorf("nothing is recorded: %v", err)
	}
}
