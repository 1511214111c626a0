//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package socket

import "context"

// maxFiles: there is no such number here.
func maxFiles() (n uint64, ok bool) { return 0, false }

// lockDir does nothing: two starts at the same instant may take each other for stale. Unproven on Windows.
func lockDir(context.Context, string) (unlock func(), err error) { return func() {}, nil }
