// Package capture records, pairs, checks and searches JSON-RPC and HTTP traffic.
//
// A [Recorder] accepts [Event]s from any number of connections: payloads, the heads of HTTP
// exchanges, stderr, and bytes that are not a message. Recording an event costs a copy and a lock.
// A goroutine of the Recorder does the rest shortly afterwards: it removes secrets, writes the
// session file, parses the messages and pairs them. The result is a [Log], which contains a [Row]
// for each message with its call, its duration and its findings. A Log has bounded memory, because
// older data is on disk. A slow reader loses nothing, because it continues from the last change it
// has seen:
//
//	rec, err := capture.New(&capture.Options{File: "session.jsonl"})
//	wire := rec.Wire(capture.WireInfo{Target: "tcp://127.0.0.1:3001"})
//	conn := jsonrpc.NewConn(wire.Transport(transport))
//
// A session file contains one event per line, and [Open] makes the same Log from it at any time. A
// [Filter] selects rows. [Log.WriteHAR] and [Log.WriteMarkdown] export them.
//
// The package implements JSON-RPC and HTTP, and no protocol on top of them. A [Judge] examines each
// message and adds the rules of a protocol, such as those in package capture/lens.
package capture
