//go:build unix

package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// roleName is the variable that makes this test binary a child of its tests.
const roleName = "PARLEY_TEST_ROLE"

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleName)]; ok {
		os.Exit(role(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// command returns the command and environment that run this binary as role. They disable the sleep
// of a second before exit that the race detector adds.
func command(role string, args ...string) (argv, env []string) {
	return append([]string{os.Args[0]}, args...), append(os.Environ(), roleName+"="+role, "GORACE=atexit_sleep_ms=0")
}

// start runs this binary as role until the test ends.
func start(t testing.TB, o stdio.Options, role string, args ...string) *stdio.Child {
	t.Helper()
	argv, env := command(role, args...)
	if o.Env == nil {
		o.Env = env
	}
	c, err := stdio.Start(t.Context(), argv, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// roles are the programs that this binary can run as.
var roles = map[string]func(args []string) int{
	// relay copies bytes between its stdio and a Unix socket.
	"relay": func(args []string) int {
		conn, err := net.Dial("unix", args[0])
		if err != nil {
			return 1
		}
		go func() {
			_, _ = io.Copy(conn, os.Stdin)
			os.Exit(0)
		}()
		_, _ = io.Copy(os.Stdout, conn)
		return 0
	},
	// echo responds to each payload with the same payload, over its own stdio as a Transport.
	"echo": func([]string) int {
		t := stdio.New(nil)
		for {
			p, _, err := t.Read()
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 0
			}
			var b jsonrpc.Burst
			b.Add(p)
			if err := t.Write(b); err != nil {
				return 1
			}
		}
	},
	// closer closes its own stdio while it waits for input that never arrives.
	"closer": func([]string) int {
		t := stdio.New(nil)
		done := make(chan error)
		go func() {
			_, _, err := t.Read()
			done <- err
		}()
		_ = t.Close()
		if err := <-done; !errors.Is(err, jsonrpc.ErrClosed) {
			return 1
		}
		return 42
	},
	// exit ends after one payload, with text on stderr.
	"exit": func(args []string) int {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprint(os.Stderr, "last words\x1b[31m\nno more")
		if args[0] == "signal" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		var code int
		_, _ = fmt.Sscan(args[0], &code)
		return code
	},
	// deaf ignores the end of stdin, and SIGTERM if an argument requests it.
	"deaf": func(args []string) int {
		if len(args) > 0 {
			signal.Ignore(syscall.SIGTERM)
		}
		fmt.Println(`"ready"`)
		select {}
	},
	// endless writes without a newline as fast as it can, and does nothing else.
	"endless": func(args []string) int {
		begin := args[0] + strings.Repeat("x", 64<<10)
		for {
			if _, err := fmt.Print(begin); err != nil {
				return 0
			}
		}
	},
	// clingy writes now and then, until the other end is closed.
	"clingy": func([]string) int {
		for {
			if _, err := fmt.Println(`"still here"`); err != nil {
				return 0
			}
			time.Sleep(20 * time.Millisecond)
		}
	},
	// chatty writes until its stdin has ended, then some more, and exits with 7.
	"chatty": func([]string) int {
		end := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(end)
		}()
		line := `"` + strings.Repeat("x", 10_000) + `"`
		for {
			if _, err := fmt.Println(line); err != nil {
				return 1
			}
			select {
			case <-end:
				for range 100 {
					fmt.Println(line)
				}
				return 7
			default:
			}
		}
	},
	// leaver starts a process that holds its stdout and stderr, in its own group if it is clingy,
	// and exits before it.
	"leaver": func(args []string) int {
		argv, env := command(args[0])
		cmd := exec.Command(argv[0])
		cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
		if args[0] == "clingy" {
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		}
		if err := cmd.Start(); err != nil {
			return 1
		}
		return 5
	},
	// noise writes lines to stderr as fast as it can.
	"noise": func(args []string) int {
		var n int
		_, _ = fmt.Sscan(args[0], &n)
		for i := range n {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		return 0
	},
	// describe prints its arguments, environment and limits on stdout after it has received input.
	"describe": func(args []string) int {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		var files, core syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
		_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &core)
		dir, _ := os.Getwd()
		text, _ := json.Marshal(description{Args: args, Env: os.Environ(), Dir: dir, Files: files.Max, Core: core.Max, Group: syscall.Getpgrp(), PID: os.Getpid()})
		fmt.Println(string(text))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	},
	// caller connects to the socket and holds the connection, regardless of its stdin.
	"caller": func(args []string) int {
		if _, err := net.Dial("unix", args[0]); err != nil {
			return 1
		}
		select {}
	},
	// parent starts a caller, and waits to be killed.
	"parent": func(args []string) int {
		argv, env := command("caller", args...)
		if _, err := stdio.Start(context.Background(), argv, &stdio.Options{Env: env}); err != nil {
			return 1
		}
		select {}
	},
}

type description struct {
	Args, Env   []string
	Dir         string
	Files, Core uint64
	Group, PID  int
}
