// Package websocket carries JSON-RPC over WebSocket (RFC 6455, version 13): one message or batch in each text message.
//
// [Dial] opens a connection, [Upgrade] takes one over from net/http; both return a [Transport], which is a
// jsonrpc.Transport. The frames are made and read here, not by a library, for three reasons: an idle connection keeps
// no buffer, all payloads of a burst leave in one system call, and UTF-8 is checked while it arrives.
//
// # What is refused
//
// Everything that RFC 6455 forbids ends the connection with the close code it names: 1002 for frames (reserved bits and
// opcodes, wrong masking, lengths not in their shortest form, control frames that are long or fragmented, fragments out
// of order, close codes nobody may send), 1007 for text that is not UTF-8, at the first wrong byte. Binary messages end
// it with 1003, messages over [Options.MaxMessage] or of more than 1,024 fragments with 1009, messages that take
// longer than [Options.FrameTimeout] and floods of pings with 1008. A message of nothing but white space is skipped, as
// an empty line is on a stream. Extensions are not negotiated; so there is no compression.
//
// # What one connection costs
//
// The goroutine that reads, and no other while nothing happens: pings are sent by a timer, pongs by a goroutine that
// ends when they are written. On Unix a TCP connection that waits for bytes has no read buffer.
package websocket
