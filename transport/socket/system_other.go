//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package socket

import "context"

// maxFiles reports no limit on this system.
func maxFiles() (n uint64, ok bool) { return 0, false }

// lockDir does nothing: two processes that start at the same instant may take each other's socket
// for stale. Untested on Windows.
func lockDir(context.Context, string) (unlock func(), err error) { return func() {}, nil }
