package socket

import (
	"net"
	"syscall"
)

// peerUser returns the user who connected (unix(7), SO_PEERCRED).
func peerUser(c *net.UnixConn) (uid int, known bool, err error) {
	err = onFile(c, func(fd uintptr) error {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err == nil, err
}
