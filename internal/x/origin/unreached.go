package origin

import (
	"errors"
	"net"
)

// Unreached reports whether err, returned for a request of an http.Client, occurred while
// connecting. Then no byte of the request was sent. A server that redirected the request before, to
// an address that cannot be reached, did not run it either.
func Unreached(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}
