// Package check tests a JSON-RPC 2.0 server from outside: it sends valid and invalid messages and
// reports, for each rule, what was sent, what was received and why that is wrong.
//
// [Check] returns a [Report]; [Run] is the same for Go tests:
//
//	func TestServer(t *testing.T) {
//		check.Run(t, "http://127.0.0.1:3000/rpc", &check.Options{Echo: "echo"})
//	}
//
// A rule has one of four levels. [Must] is required by a specification, which Section names.
// [Expect] is not required by JSON-RPC 2.0, but clients rely on it: unchanged values, a second call
// that is answered while the first runs, a connection that survives a parse error, status 204 for a
// notification. [Should] is recommended. [Free] is left to the server and only reported.
//
// Most rules need no method of the server: an unknown method is also answered. Other rules need
// methods with a known effect, which Options names. A rule whose method is not named is reported
// as [NotChecked], never as passed.
//
// The package sends bytes of its own and does not use parley's transports, except for child
// processes: a defect of those must not hide a defect of the server. Every wait ends, and the bytes
// read from a server are bounded.
package check
