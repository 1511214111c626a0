//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups are the signals HUP, by which somebody at the terminal approves a file anew.
func hangups() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
