// Package socket implements a transport over TCP, TLS and Unix sockets.
//
// [Dial] opens one connection, [Listen] accepts them. A listener is built for untrusted peers: it
// bounds the number of connections, sends an error to those above the bound, restricts a Unix
// socket to its own user, and closes connections of browsers.
package socket
