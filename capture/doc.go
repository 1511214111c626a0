// Package capture is what went over a wire: recorded as it passed, paired, judged, found again.
//
// A [Recorder] takes [Event]s from any number of wires: payloads, the heads of HTTP exchanges, stderr, bytes that are no
// message. Recording one costs a copy and a lock; a goroutine of the Recorder does the rest a moment later: it takes out
// secrets, writes the session file, reads the messages and pairs them. What it learned is a [Log]: a [Row] for each message,
// with the call it belongs to, the time it took and what is wrong with it. A Log is bounded in memory, since what is older
// lies on disk, and a reader that is slow loses nothing, since it reads on from the last change it saw:
//
//	rec, err := capture.New(&capture.Options{File: "session.jsonl"})
//	wire := rec.Wire(capture.WireInfo{Target: "tcp://127.0.0.1:3001"})
//	conn := jsonrpc.NewConn(wire.Transport(transport))
//
// A session file holds one event in each line, and [Open] makes the same Log of it, anywhere and at any time. A [Filter] is
// one language for all who look; [Log.WriteHAR] and [Log.WriteMarkdown] tell others.
//
// The package knows JSON-RPC and HTTP, no protocol on top: a [Judge] that looks at each message adds its rules, as those of
// package capture/lens do.
package capture
