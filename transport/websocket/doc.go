// Package websocket implements a JSON-RPC transport over WebSocket (RFC 6455, version 13): one
// message or batch in each text message.
//
// [Dial] opens a connection, [Upgrade] takes one over from net/http; both return a [Transport],
// which is a jsonrpc.Transport. This package reads and writes the frames itself, without a library,
// for three reasons: an idle connection holds no buffer, all payloads of a burst are sent in one
// system call, and UTF-8 is checked while it arrives.
//
// # What is refused
//
// Everything that RFC 6455 forbids ends the connection with the close code that it defines: 1002
// for frames (reserved bits and opcodes, wrong masking, lengths not in their shortest form, control
// frames that are long or fragmented, fragments out of order, close codes that must not be sent),
// 1007 for text that is not UTF-8, at the first wrong byte. Binary messages end it with 1003,
// messages over [Options.MaxMessage] or of more than 1,024 fragments with 1009, messages that take
// longer than [Options.FrameTimeout] and floods of pings with 1008. A message of only white space
// is skipped, like an empty line on a stream. Extensions are not negotiated, so there is no
// compression.
//
// # What one connection costs
//
// An idle connection needs the goroutine that reads, and no other: a timer sends pings, and a
// goroutine that ends when they are written sends pongs. On Unix, a TCP connection that waits for
// bytes has no read buffer.
package websocket
