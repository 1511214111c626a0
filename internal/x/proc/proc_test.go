//go:build unix

package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/proc"
)

func shell(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = os.Stdout
	return cmd
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name, script string
		end          func(*proc.Process) error
		code         int
		signal       string
	}{
		{"by itself", "exit 0", nil, 0, ""},
		{"with a code", "exit 7", nil, 7, ""},
		{"asked to", "sleep 1000", (*proc.Process).Terminate, -1, "terminated"},
		{"killed", "trap '' TERM; sleep 1000", (*proc.Process).Kill, -1, "killed"},
	} {
		p, err := proc.Start(shell(c.script), proc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.end != nil {
			if err := c.end(p); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if err := p.Wait(); (err == nil) != (c.code == 0) {
			t.Errorf("%s: Wait = %v", c.name, err)
		}
		if p.Code() != c.code || p.Signal() != c.signal {
			t.Errorf("%s: ended with %d, %q, want %d, %q", c.name, p.Code(), p.Signal(), c.code, c.signal)
		}
		if err := p.Kill(); err != nil {
			t.Errorf("%s: Kill after the end = %v", c.name, err)
		}
	}
}

// TestGroup checks that the processes that a child leaves behind are killed with it.
func TestGroup(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := shell("sleep 1000 &")
	cmd.Stdout = w
	p, err := proc.Start(cmd, proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	// Blocks until all holders of the other end have closed it.
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("Read = %d, %v", n, err)
	}
	_, _ = r.Close(), p.Wait()
}

func TestNotFound(t *testing.T) {
	if _, err := proc.Start(&exec.Cmd{Path: "/no/such/program"}, proc.Options{}); err == nil {
		t.Error("Start = nil error")
	}
}

func ExampleStart() {
	p, err := proc.Start(exec.Command("sh", "-c", "exit 3"), proc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Wait(), p.Code())
	// Output: exit status 3 3
}
