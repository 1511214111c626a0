// Package acphttp implements the HTTP transports of the Agent Communication Protocol.
//
// [NewREST] serves the released binding of version 0.2.0, REST with event streams, and [Dial]
// returns a client for it. [NewRPC] serves the JSON-RPC binding of package acp over POST, with the
// event numbers as event ids; any client that posts JSON-RPC works with it, such as that of package
// httprpc. All of them serve the same runs of one [acp.Server].
//
// Both handlers check Host and Origin, so that a web page cannot access a server on the same
// machine. They do not authenticate callers: use middleware for that, together with
// Options.Principal of the server.
package acphttp
