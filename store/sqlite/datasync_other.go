//go:build !linux

package sqlite

import "os"

// datasync syncs written data.
func datasync(f *os.File) error { return f.Sync() }
