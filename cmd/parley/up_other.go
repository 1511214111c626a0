//go:build !unix

package main

import "os"

// hangups is nothing: the system has no such signal.
func hangups() (signals <-chan os.Signal, stop func()) { return nil, func() {} }
