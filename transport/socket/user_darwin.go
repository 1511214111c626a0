package socket

import (
	"net"
	"syscall"
	"unsafe"
)

// peerUser returns the user who connected (macOS unix(4), LOCAL_PEERCRED). Untested: it compiles,
// but was not run yet.
func peerUser(c *net.UnixConn) (uid int, known bool, err error) {
	const (
		solLocal      = 0
		localPeerCred = 1
	)
	var cred struct { // struct xucred
		version uint32
		uid     uint32
		ngroups int16
		groups  [16]uint32
	}
	size := uint32(unsafe.Sizeof(cred))
	err = onFile(c, func(fd uintptr) error {
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, solLocal, localPeerCred,
			uintptr(unsafe.Pointer(&cred)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return int(cred.uid), err == nil, err
}
