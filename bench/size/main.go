// Command size builds a TCP client that uses only parley's core, and one that uses nothing, for
// large and small systems. It prints the size of the stripped files and the memory of the idle
// clients.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The limits of the client on linux/amd64.
const (
	maxFile   = 4_000_000
	maxMemory = 8 << 20
)

// maxCompile is the CPU time for a cold compile of the command that must not be exceeded: 10 % more
// than the 92 s of November 2026. It depends on the machine, so it is printed and does not fail.
const maxCompile = 101

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "size")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Print("| | bare | parley |\n|---|--:|--:|\n")
	var own int64
	for _, system := range []string{"linux/amd64", "linux/arm", "linux/mipsle"} {
		var sizes [2]int64
		for i, name := range []string{"bare", "client"} {
			if sizes[i], err = build(filepath.Join(dir, name), name, system); err != nil {
				return err
			}
		}
		fmt.Printf("| %s, stripped | %.2f MB | %.2f MB |\n", system, float64(sizes[0])/1e6, float64(sizes[1])/1e6)
		if system == "linux/amd64" {
			own = sizes[1]
		}
	}

	var resident [2]int
	for i, name := range []string{"bare", "client"} {
		if _, err := build(filepath.Join(dir, name), name, runtime.GOOS+"/"+runtime.GOARCH); err != nil {
			return err
		}
		if resident[i], err = idle(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	fmt.Printf("| idle, resident | %.1f MiB | %.1f MiB |\n", float64(resident[0])/(1<<20), float64(resident[1])/(1<<20))
	seconds, err := compile(dir)
	if err != nil {
		return err
	}
	fmt.Printf("| cold compile of cmd/parley, at most %d s of CPU | | %.0f s |\n", maxCompile, seconds)
	if own > maxFile || resident[1] > maxMemory {
		return fmt.Errorf("more than %d bytes, or %d resident", maxFile, maxMemory)
	}
	return nil
}

// compile builds the command with an empty cache, and returns the CPU seconds that this takes.
func compile(dir string) (float64, error) {
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "parley"), "./cmd/parley")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+filepath.Join(dir, "cache"))
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("compile cmd/parley: %w\n%s", err, text)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

// build makes a stripped program for a system, and returns its size.
func build(out, name, system string) (int64, error) {
	goos, arch, _ := strings.Cut(system, "/")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./size/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOMIPS=softfloat")
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build %s for %s: %w\n%s", name, system, err, text)
	}
	info, err := os.Stat(out)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// idle runs the program, which makes one call, and returns its resident memory three seconds later.
func idle(program string) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	go answer(l)
	cmd := exec.Command(program, l.Addr().String())
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "19") {
		return 0, fmt.Errorf("the program says %q: %w", line, err)
	}
	time.Sleep(3 * time.Second) // wait until the runtime has released idle memory
	resident, err := memory(cmd.Process.Pid)
	return resident, errors.Join(err, in.Close(), cmd.Wait())
}

// answer is the server.
func answer(l net.Listener) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		return
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","result":19,"id":1}`)
	_, _ = io.Copy(io.Discard, conn) // until the client disconnects
}

// memory returns the resident memory of a process.
func memory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int
	_, err = fmt.Sscan(string(text), &size, &resident)
	return resident * os.Getpagesize(), err
}
