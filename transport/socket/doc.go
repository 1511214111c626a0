// Package socket carries payloads over TCP, TLS and Unix sockets.
//
// [Dial] makes one connection, [Listen] takes them. A listener expects strangers: it bounds how many come, tells who is
// one too many, keeps a Unix socket to its own user, and hangs up on a browser.
package socket
