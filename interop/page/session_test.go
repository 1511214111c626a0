package page

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

// tap starts `parley tap` for a server. Its session is in the folder that the page lists. end stops
// it.
func (u *up) tap(t *testing.T, name, server string) (at string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cmd := harness.Command(ctx, t, []string{program(t), "tap", "--name", name, "--follow=false", "--target", server})
	cmd.Env = append(os.Environ(), "HOME="+u.home, "XDG_CONFIG_HOME="+u.home+"/config", "XDG_STATE_HOME="+u.home+"/state")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	places, read := make(chan string, 1), make(chan struct{})
	output := new(harness.Output)
	output.ShowIfFailed(t, "parley tap")
	go func() {
		defer close(read)
		lines := bufio.NewScanner(io.TeeReader(stderr, output))
		for lines.Scan() {
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
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("parley tap was gone: %v", err)
		}
		<-read
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("parley tap ended with %v", err)
		}
	}
	t.Cleanup(end)
	select {
	case at = <-places:
	case <-read:
		t.Fatal("parley tap ended")
	case <-time.After(time.Minute):
		t.Fatal("parley tap does not say where clients come")
	}
	return at, end
}

// TestSessionsOfTaps checks that the page lists the sessions of taps, shows a live one while it is
// recorded, and compares two.
func TestSessionsOfTaps(t *testing.T) {
	t.Parallel()
	server := harness.Demo(t, "http://127.0.0.1:0")[0]
	u := start(t)
	p := u.page(t, desk, "")
	p.says("No session yet.")
	at, end := u.tap(t, "cursor/calculator", server)
	p.see("button", "/live session.*cursor-calculator.*live/")
	visit(t, "call", at, "subtract", "42", "23")
	p.click("button", "/cursor-calculator/")
	p.row(`subtract .*result`)
	p.says("Live session")
	visit(t, "call", at, "sum", "1", "2") // while it is shown
	p.row(`sum .*result`)
	p.clickOn(onRow("sum"))
	p.until("the result is not shown", `eyes.all("region", /^Result/).some((e) => /3/.test(e.textContent))`)
	p.judgeBoth("live")
	end()
	p.until("the session stays live", `!eyes.clean(eyes.text(document.body)).includes("Live session")`)
	p.see("button", "/^ ?session.*cursor-calculator.*now/")

	other, stop := u.tap(t, "cursor/calculator-2", server)
	visit(t, "call", other, "subtract", "42", "23")
	visit(t, "call", other, "sum", "1", "2", "3")
	stop()
	p.click("button", "/cursor-calculator-2/")
	p.row(`sum .*result`)
	p.click("button", "Compare sessions")
	p.see("heading", "Compare sessions")
	p.choose("Old", "s1")
	p.choose("New", "s2")
	p.says("2 differences.")
	p.says("sum [1,2] call, only in the old one")
	p.says("sum [1,2,3] call, only in the new one")
	p.guideImage("sessions")
	p.judgeBoth("compared")
	p.click("button", "/in the old one$/")
	p.until("the call is not selected", `eyes.rows().some((r) => r.selected && /sum/.test(r.text))`)
	p.as(phone)
	p.narrow("rows")
	p.click("button", "Targets")
	p.see("button", "/cursor-calculator-2/")
	p.narrow("list")
	p.judgeBoth("list")
	p.click("button", "Close cursor-calculator")
	p.gone("button", "Close cursor-calculator") // it is closed, and still listed
	p.see("button", "/cursor-calculator now/")
	p.click("button", "Compare sessions")
	p.says("differences")
	p.narrow("comparison")
	p.judgeBoth("comparison")
	p.choose("Old", "stored "+ask[string](p, `[...`+thing("combobox", "Old")+`.options].find((o) => /^stored /.test(o.value)).value.slice(7)`)) // which opens it
	p.says("2 differences.")
	p.click("button", "Back to the composer")
}

const environments = `name: calculator
target: "@demo"
variables: {minuend: 42, subtrahend: 23, token: abc}
environments:
  staging: {subtrahend: 40, token: def}
  nothing: {}
calls:
  - name: the difference
    method: subtract
    params: ["{{minuend}}", "{{subtrahend}}"]
    asserts: [$.result equals 2]
  - name: the sum
    method: sum
    params: ["{{minuend}}"]
`

// TestEnvironments checks that a chosen environment replaces the variables of the calls of a suite,
// also after the page was loaded again.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "calculator.yaml")
	if err := os.WriteFile(file, []byte(environments), 0o600); err != nil {
		t.Fatal(err)
	}
	u := start(t, "--suite", file)
	p := u.page(t, desk, "target=%40demo")
	p.click("button", "/^calculator 2 calls/")
	p.click("button", "the difference")
	p.until("the variable is not the one of the suite", thing("textbox", "Value of subtrahend")+`?.value === "23"`)
	p.says("Valid JSON-RPC 2.0")
	p.click("button", "/^Send/")
	p.says("the value is 19")
	p.click("button", "/^staging/")
	p.says("Sets subtrahend, token")
	p.until("the variable is not the one of the environment", thing("textbox", "Value of subtrahend from staging")+`?.value === "40"`)
	p.until("a secret can be read", `document.querySelector("[aria-label='Value of token from staging']")?.type === "password"`)
	p.judgeBoth("staging")
	p.guideImage("environments")
	p.as(phone)
	p.narrow("composer")
	p.judgeBoth("staging")
	p.click("button", "Targets")
	p.see("button", "/^staging/")
	p.narrow("list")
	p.judgeBoth("list")
	p.key("Esc")
	p.as(desk)
	p.until("Send is not ready", thing("button", "/^Send/"))
	p.click("button", "/^Send/")
	p.says("passed")
	p.row(`subtract .*2`)

	p.visit(u.at("target=%40demo"))
	p.see("button", "/^staging/")
	p.until("the choice is forgotten", `/^staging/.test(eyes.name(eyes.all("button").find((e) => e.getAttribute("aria-current") === "true" && /staging/.test(eyes.name(e)))))`)
	p.click("button", "None")
	p.click("button", "/^calculator 2 calls/")
	p.click("button", "the difference")
	p.until("the variable is still that of the environment", thing("textbox", "Value of subtrahend")+`?.value === "23"`)
	if text, err := os.ReadFile(file); err != nil || string(text) != environments || strings.Contains(u.stderr.String(), "calculator") {
		t.Errorf("the page changed the suite: %v\n%s", err, text)
	}
}
