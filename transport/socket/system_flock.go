//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package socket

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// maxFiles returns how many files the process may open.
func maxFiles() (n uint64, ok bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true //nolint:unconvert // is signed on FreeBSD
}

// lockWait bounds the wait for another process that starts to listen in the same directory.
const lockWait = 2 * time.Second

// lockDir waits until no other process holds the lock of the directory. The lock ends with the
// process.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			_ = f.Close() // err has more detail
			return nil, os.NewSyscallError("flock", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // err has more detail
			return nil, os.NewSyscallError("flock", err)
		case <-tick.C:
		}
	}
}
