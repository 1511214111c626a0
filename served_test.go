//go:build !race

package parley

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A servedChild is a server in a process of its own whose memory is sampled, and a connection to it
// that is served meanwhile.
type servedChild struct {
	t          *testing.T
	target     Target
	pid        int
	client     *Client
	base, most int // its memory in MiB when weigh was called, and the most of all samples since
}

// startServer starts a copy of this program that gets its address in an environment variable and
// writes the one that it listens on to stdout, and connects to it. The copy is killed at the end of
// the test.
func startServer(t *testing.T, variable, scheme string) *servedChild {
	t.Helper()
	at := scheme + "://127.0.0.1:0"
	if scheme == "unix" {
		dir, err := os.MkdirTemp("", "parley") //nolint:usetesting // short: the path of a Unix socket has room for 108 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		at = "unix:" + filepath.Join(dir, "s")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), variable+"="+at), os.Stderr
	if os.Getenv("PARLEY_LONG") == "" {
		cmd.Env = append(cmd.Env, boundedChild+"=1")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	target, err := ParseTarget(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	s := &servedChild{t: t, target: target, pid: cmd.Process.Pid}
	s.dial()
	return s
}

// dial connects to the server, which may still be starting.
func (s *servedChild) dial() {
	s.t.Helper()
	for start := time.Now(); ; {
		c, err := new(Dialer).Dial(s.t.Context(), s.target)
		if err == nil {
			err = c.Call(context.Background(), "add", []int{1}, nil)
		}
		if err == nil {
			s.t.Cleanup(func() { _ = c.Close() })
			s.client = c
			return
		}
		if time.Since(start) > testTime {
			s.t.Fatal(err)
		}
	}
}

// weigh begins the samples.
func (s *servedChild) weigh() {
	s.base = residentMiB(s.pid)
	s.most = s.base
}

// call checks that the connection is served, and returns how long that takes.
func (s *servedChild) call() time.Duration {
	s.t.Helper()
	begin := time.Now()
	if got, err := jsonrpc.Call[int](s.t.Context(), s.client, "add", []int{1, 2}); err != nil || got != 3 {
		s.t.Errorf("another connection: %d, %v", got, err)
	}
	return time.Since(begin)
}

// sample is call, and a sample of the memory.
func (s *servedChild) sample() time.Duration {
	s.t.Helper()
	took := s.call()
	s.most = max(s.most, residentMiB(s.pid))
	return took
}

// sampleUntil repeats sample until done is closed, and once more.
func (s *servedChild) sampleUntil(done <-chan struct{}) (took []time.Duration) {
	s.t.Helper()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		took = append(took, s.sample())
	}
	return took
}

// check checks that the pools of the server are within their bounds, and that its memory has grown
// by at most a number of MiB.
func (s *servedChild) check(bound int) {
	s.t.Helper()
	if held, err := jsonrpc.Call[heldByPools](s.t.Context(), s.client, "held", struct{}{}); err != nil || !held.within() {
		s.t.Errorf("the pools hold %+v, %v", held, err)
	}
	if s.most-s.base > bound {
		s.t.Errorf("memory grew from %d to %d MiB", s.base, s.most)
	}
}

// sampleHeld samples while peers are connected and do nothing: what is held remains. With
// PARLEY_LONG there are as many samples as p99 requires.
func (s *servedChild) sampleHeld() (took []time.Duration) {
	s.t.Helper()
	n := 50
	if os.Getenv("PARLEY_LONG") != "" {
		n = 1000
	}
	for range n {
		took = append(took, s.sample())
	}
	return took
}

// calls makes 200 calls one after the other, and returns how long each takes.
func (s *servedChild) calls() (took []time.Duration) {
	s.t.Helper()
	for range 200 {
		took = append(took, s.call())
	}
	return took
}

// checkLatency logs how long the 99 % fastest calls took before and during a load. With
// PARLEY_LONG, on a machine that does nothing else, it checks that the second is at most twice the
// first, or 20 ms.
func (s *servedChild) checkLatency(before, during []time.Duration) {
	s.t.Helper()
	p99 := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)*99/100]
	}
	fast, slow := p99(before), p99(during)
	s.t.Logf("p99 of another connection: %v, before %v, of %d and %d calls", slow, fast, len(during), len(before))
	if most := max(2*fast, 20*time.Millisecond); os.Getenv("PARLEY_LONG") != "" && slow > most {
		s.t.Errorf("p99 of another connection is %v, want at most %v", slow, most)
	}
}

// wait returns a channel that is closed when all of g are done.
func wait(g *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	return done
}

// residentMiB returns the memory of a process in MiB, or 0 where the system does not report it.
func residentMiB(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int
	_, _ = fmt.Sscan(rest, &kib) // 0 on failure
	return kib >> 10
}
