// Command tee starts a program on stdio and records its traffic: tee PREFIX CMD ARG… writes
// PREFIX.in and PREFIX.out.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	in, err := os.Create(os.Args[1] + ".in")
	check(err)
	out, err := os.Create(os.Args[1] + ".out")
	check(err)
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	check(err)
	stdout, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	go func() {
		_, _ = io.Copy(io.MultiWriter(in, stdin), os.Stdin)
		_ = stdin.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(out, os.Stdout), stdout)
	_ = cmd.Wait()
	os.Exit(cmd.ProcessState.ExitCode())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tee:", err)
		os.Exit(1)
	}
}
