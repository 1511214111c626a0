//go:build !unix

package tap

import "os"

// bySignal is the exit code of a child that ended in another way.
func bySignal(*os.ProcessState) int { return 1 }
