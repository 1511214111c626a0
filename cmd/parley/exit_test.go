package main

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
)

// TestIsLate checks that a dial that ran until its deadline is reported as a timeout, whichever
// error the system has for it, and that one that the peer's system gave up is not.
func TestIsLate(t *testing.T) {
	past, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	_, ended := new(net.Dialer).DialContext(past, "tcp", "127.0.0.1:1")
	for err, want := range map[error]bool{
		ended: true,
		&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}:                           true,
		&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}: false,
		context.Canceled: false,
	} {
		if got := isLate(err); got != want {
			t.Errorf("isLate(%v) = %v", err, got)
		}
	}
}

// TestDialTimeout checks that a dial that ran until its deadline is reported in the same words,
// whichever error the system has for it.
func TestDialTimeout(t *testing.T) {
	target, err := parley.ParseTarget("ws://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{context.DeadlineExceeded, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}} {
		if got, want := (&dialError{target, err}).Error(), "cannot reach ws://127.0.0.1:1: timeout"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
