//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const entryOfAStranger = `servers:
  it: {command: sh, args: [-c, 'read line; echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"$GREETING\"}"'], env: {GREETING: hello, LD_DEBUG: "${PROBE:-x}"}, protocol: jsonrpc}
`

// TestApproval checks that the user is asked once before a program of a file in the working
// directory is started, that the question shows what is started, and that a changed entry is asked
// for again.
func TestApproval(t *testing.T) {
	project, home := t.TempDir(), t.TempDir()
	t.Chdir(project)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("PROBE", "")
	write := func(text string) {
		if err := os.WriteFile("parley.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(home, "state")
	call := func(typed string, more ...string) (code int, stdout, stderr string) {
		var out, errs glass
		a := &app{stdin: keys{strings.NewReader(typed)}, stdout: &out, stderr: &errs, getenv: func(name string) string {
			return map[string]string{"XDG_STATE_HOME": state, "NO_COLOR": "1"}[name]
		}}
		code = a.main(context.Background(), append([]string{"call", "@it", "greet", "1", "--timeout", "30s"}, more...))
		return code, out.String(), errs.String()
	}
	write(entryOfAStranger)
	for _, typed := range []string{"n\n", "\n", "", "why?\ny\n"} {
		code, stdout, stderr := call(typed)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "nothing was started") {
			t.Errorf("after %q: exit code %d, stdout %q, stderr:\n%s", typed, code, stdout, stderr)
		}
	}
	code, stdout, stderr := call("y\n")
	if code != exitOK || !strings.Contains(stdout, "hello") {
		t.Fatalf("after an approval: exit code %d, stdout %q, stderr:\n%s", code, stdout, stderr)
	}
	for _, shown := range []string{
		"@it in parley.yaml, a file that you did not name, starts the program sh -c", "command  sh -c 'read line;", "folder   " + project,
		"sets     GREETING, LD_DEBUG", "caution  LD_DEBUG can make programs run other code", "[y/N]",
	} {
		if !strings.Contains(stderr, shown) {
			t.Errorf("the question does not show %q:\n%s", shown, stderr)
		}
	}
	// The same entry is not asked for again, whatever the environment is.
	t.Setenv("PROBE", "other")
	if code, stdout, stderr := call("n\n"); code != exitOK || !strings.Contains(stdout, "hello") || strings.Contains(stderr, "[y/N]") {
		t.Errorf("the second time: exit code %d, stdout %q, stderr:\n%s", code, stdout, stderr)
	}
	if info, err := os.Stat(filepath.Join(state, "parley", "approved")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of approvals: %v, %v; want mode 0600", info, err)
	}
	for name, text := range map[string]string{
		"another argument": strings.Replace(entryOfAStranger, "read line;", "read line; true;", 1),
		"another variable": strings.Replace(entryOfAStranger, "GREETING: hello", "GREETING: hi", 1),
		"another folder":   strings.Replace(entryOfAStranger, "protocol: jsonrpc", "protocol: jsonrpc, cwd: /", 1),
		"another name":     strings.Replace(entryOfAStranger, "it:", "other:", 1) + strings.TrimPrefix(strings.Replace(entryOfAStranger, "hello", "bye", 1), "servers:\n"),
	} {
		write(text)
		if code, _, stderr := call("n\n"); code != exitUsage || !strings.Contains(stderr, "[y/N]") {
			t.Errorf("after %s: exit code %d, want a new question:\n%s", name, code, stderr)
		}
	}
	// -c approves the file.
	if code, _, stderr := call("n\n", "-c", "parley.yaml"); code != exitOK {
		t.Errorf("with -c: exit code %d\n%s", code, stderr)
	}
}

// TestApprovalOfAnEnvFile checks that an approval covers the variables of an envFile, which may
// decide what a program does, and that the question shows their names.
func TestApprovalOfAnEnvFile(t *testing.T) {
	project, home := t.TempDir(), t.TempDir()
	t.Chdir(project)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call := func(typed string) (code int, stderr string) {
		var out, errs glass
		a := &app{stdin: keys{strings.NewReader(typed)}, stdout: &out, stderr: &errs, getenv: func(name string) string {
			return map[string]string{"XDG_STATE_HOME": filepath.Join(home, "state"), "NO_COLOR": "1"}[name]
		}}
		code = a.main(context.Background(), []string{"call", "@it", "greet", "1", "--timeout", "30s"})
		return code, errs.String()
	}
	write("parley.yaml", strings.Replace(entryOfAStranger, "env: {GREETING: hello, LD_DEBUG: \"${PROBE:-x}\"}", "envFile: variables.env", 1))
	write("variables.env", "GREETING=hello\n")
	if code, stderr := call("y\n"); code != exitOK || !strings.Contains(stderr, "sets     GREETING\n") {
		t.Fatalf("exit code %d, want 0 and a question that shows the variable:\n%s", code, stderr)
	}
	if code, stderr := call("n\n"); code != exitOK || strings.Contains(stderr, "[y/N]") {
		t.Errorf("the second time: exit code %d\n%s", code, stderr)
	}
	for _, text := range []string{"GREETING=bye\n", "GREETING=hello\nLD_DEBUG=x\n", "GREETING=hello\nFILE=x\n", "GREETING=hello\nPATH=/elsewhere\n", ""} {
		write("variables.env", text)
		if code, stderr := call("n\n"); code != exitUsage || !strings.Contains(stderr, "[y/N]") {
			t.Errorf("with %q: exit code %d, want a new question:\n%s", text, code, stderr)
		}
	}
}
