//go:build !linux

package sqlite

import "os"

// datasync syncs what was written.
func datasync(f *os.File) error { return f.Sync() }
