package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parents returns the parent of each process.
func parents(t *testing.T) map[int]int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		if words := strings.Fields(rest); len(words) > 1 {
			all[pid], _ = strconv.Atoi(words[1])
		}
	}
	return all
}

// startedBy returns the processes that pid started, directly or indirectly.
func startedBy(t *testing.T, pid int) (list []int) {
	t.Helper()
	all := parents(t)
	for one := range all {
		for up, ok := all[one]; ok && up > 1; up, ok = all[up] {
			if up == pid {
				list = append(list, one)
				break
			}
		}
	}
	return list
}

// shownOf returns the command line and the environment of a process, once it is another program
// than the one that started it.
func shownOf(pid, starter int) string {
	own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", starter))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	for string(args) == string(own) && len(own) > 0 {
		args, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	}
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return string(args) + "\n" + string(env)
}

// TestProcessListHasNoSecrets checks that what parley starts, children, watchers and demo services,
// has none of the credentials that parley was given in its command line or environment, except
// where the user put it: a member's own env.
func TestProcessListHasNoSecrets(t *testing.T) {
	program := parleyProgram(t)
	dir := t.TempDir()
	held := newHold(t, dir)
	script := filepath.Join(dir, "child.sh")
	for file, content := range map[string]string{
		"child.sh":  held.script + "echo ready >&9; exec sleep 348\n",
		"token.txt": "CANARY-of-a-file-0123456789abcdef0123456789\n",
		"plan.yaml": fmt.Sprintf(`name: p
team:
  one: {command: [sh, %q], protocol: editor, env: ["ONE_KEY=CANARY-of-one", "ONE_TOKEN=${file:token.txt}"]}
  two: {command: [sleep, "349"], protocol: editor, env: ["TWO_KEY=CANARY-of-two"]}
  far: {target: "http://127.0.0.1:1/", protocol: acp, token: CANARY-of-the-plan, headers: {X-Api-Key: CANARY-of-a-header}}
  file: {target: "http://127.0.0.1:2/", protocol: acp}
  flag: {target: "http://127.0.0.1:3/", protocol: acp}
steps:
  - {parallel: [{agent: one, prompt: hi}, {agent: two, prompt: hi}]}
`, script),
		"mcp.json": fmt.Sprintf(`{"mcpServers":{"one":{"command":"sh","args":[%q],"env":{"ONE_KEY":"CANARY-of-one"}},"far":{"url":"http://127.0.0.1:1/","headers":{"Authorization":"Bearer CANARY-of-a-header"}}}}`, script),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		words []string
		wait  bool // for the child
		only  map[string]string
	}{
		{words: []string{"run", filepath.Join(dir, "plan.yaml"), "--state", "none", "--token", "flag=CANARY-of-a-flag", "--token-file", "file=" + filepath.Join(dir, "token.txt")}, wait: true,
			only: map[string]string{"CANARY-of-one": "ONE_KEY=", "CANARY-of-two": "TWO_KEY=", "CANARY-of-a-file": "ONE_TOKEN="}},
		{words: []string{"tap", "--record", filepath.Join(dir, "s.jsonl"), "--", "sh", script}, wait: true},
		{words: []string{"up", "--listen", "127.0.0.1:0", "-c", filepath.Join(dir, "mcp.json")}},
		{words: []string{"demo", "--listen", "tcp://127.0.0.1:0", "--token-file", filepath.Join(dir, "token.txt")}},
	} {
		t.Run(c.words[0], func(t *testing.T) {
			stderr := &watcher{want: map[string]string{"up": "#token=", "demo": "127.0.0.1:"}[c.words[0]], seen: make(chan struct{})}
			cmd := exec.CommandContext(context.Background(), program, c.words...)
			cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "GORACE=atexit_sleep_ms=0")
			cmd.Stderr, cmd.Stdout, cmd.WaitDelay = stderr, stderr, time.Minute
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			secrets := []string{"CANARY"}
			if c.wait {
				if !held.ready() {
					t.Fatalf("the child does not start:\n%s", stderr)
				}
			} else {
				select {
				case <-stderr.seen:
				case <-time.After(time.Minute):
					t.Fatalf("it does not start:\n%s", stderr)
				}
			}
			if m := upAddress.FindStringSubmatch(stderr.String()); m != nil {
				secrets = append(secrets, m[2])
			}
			list := startedBy(t, cmd.Process.Pid)
			if len(list) == 0 && c.words[0] != "demo" {
				t.Fatal("it has started nothing")
			}
			for _, pid := range list {
				shown := shownOf(pid, cmd.Process.Pid)
				for secret, name := range c.only {
					if n := strings.Count(shown, secret); n > 1 || n == 1 && !strings.Contains(shown, "\x00"+name+secret) {
						t.Errorf("%s is in a place where nobody put it:\n%q", secret, shown)
					}
					shown = strings.ReplaceAll(shown, name+secret, "")
				}
				for _, secret := range secrets {
					if strings.Contains(shown, secret) {
						t.Errorf("a process that parley %s started shows %s: %s", c.words[0], secret, regexp.MustCompile(`.{0,80}`+regexp.QuoteMeta(secret)+`.{0,40}`).FindString(strings.ReplaceAll(shown, "\x00", " ")))
					}
				}
			}
		})
	}
}

// TestBrowserIsStartedWithoutTheToken checks that up --open starts a browser with an address that
// leads to the page once, since all users of a machine can read its command line.
func TestBrowserIsStartedWithoutTheToken(t *testing.T) {
	dir := t.TempDir()
	program := parleyProgram(t)
	fifo := newHold(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\n"+fifo.script+"echo \"$@\" >&9\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	stderr := &watcher{want: "#token=", seen: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), program, "up", "--listen", "127.0.0.1:0", "--no-demo", "--open")
	cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+dir+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var address string
	for late := time.Now().Add(60 * time.Second); address == "" && time.Now().Before(late); {
		line, _ := fifo.lines.ReadString('\n') // without a writer, EOF arrives at once
		address = strings.TrimSpace(line)
	}
	<-stderr.seen
	m := upAddress.FindStringSubmatch(stderr.String())
	if m == nil || !strings.HasPrefix(address, m[1]+"/") || strings.Contains(address, m[2]) {
		t.Fatalf("the browser is started with %q:\n%s", address, stderr)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(method, address string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("Location")
	}
	for _, wrong := range []string{address + "x", address[:len(address)-1], strings.ToLower(address)} {
		if _, to := get(http.MethodGet, wrong); to != "" {
			t.Errorf("%s leads to %s", wrong, to)
		}
	}
	if _, to := get(http.MethodPost, address); to != "" {
		t.Errorf("a POST leads to %s", to)
	}
	if code, to := get(http.MethodGet, address); code != http.StatusSeeOther || to != "/#token="+m[2] {
		t.Errorf("the address leads to %q, %d", to, code)
	}
	if code, to := get(http.MethodGet, address); code == http.StatusSeeOther || to != "" {
		t.Errorf("a second time it leads to %q, %d", to, code)
	}
}
