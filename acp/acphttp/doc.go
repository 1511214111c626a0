// Package acphttp carries the Agent Communication Protocol over HTTP.
//
// [NewREST] is the released binding of version 0.2.0, REST with event streams, and [Dial] is a client for it. [NewRPC] is the JSON-RPC
// binding of package acp over POST, with the stream's numbers as event ids; its client is any that posts JSON-RPC, such as that of package
// httprpc. All of them show the same runs of one [acp.Server].
//
// Both handlers look at Host and Origin themselves, so that a web page cannot reach a server on the same machine. They do not ask who
// calls: that is the business of what stands before them, with Options.Principal of the server.
package acphttp
