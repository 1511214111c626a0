package tap_test

import (
	"os"
	"os/signal"
	"syscall"
)

func notified() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	return c
}
