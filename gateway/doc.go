// Package gateway puts many servers behind one address: JSON-RPC servers by method, MCP servers as
// one server, and every server under a path of its own.
//
// A [Gateway] is made of a configuration file, and fills a [parley.Listener]. Each request is
// parsed once, checked, and written again for the server that it goes to (an upstream), so bytes
// that were not checked are never forwarded. Params, results and errors pass unchanged, and the
// client gets its own ID back.
//
// A call is attempted once, except where the configuration declares its method idempotent or
// nothing of it was sent. An upstream that is down or slow delays only the calls to itself.
//
// The files, each of which has one task:
//
//	gateway.go   the Gateway: its state for one configuration, its addresses, its end
//	upstream.go  one server: its connection, the calls to it, what their failures mean
//	router.go    JSON-RPC: which upstream a method goes to
//	batch.go     batches: split by upstream, and joined
//	pass.go      /s/NAME of an HTTP server: each HTTP request checked, and written again
//	endpoint.go  /s/NAME of all other servers
//	agents.go    /a2a/NAME of an A2A agent, and its card
//	check.go     the checks that every call passes
//	account.go   what is noted of every call: the audit log and the metrics
//	reload.go    a new configuration in place of the old one
//	control.go   the methods gateway.*, and /readyz
//	errors.go    the errors that the gateway itself responds with
//	group.go     equal upstreams: which one gets a call, and when it is sent again; hedge.go
//	breaker.go   stops calls to an upstream that fails
//	health.go    active checks of an upstream
//	queue.go     the calls that run and wait at an upstream, fair between principals
//	limit.go     rate limits
//	cache.go     stored results, and equal calls in flight
//	identity.go  who a caller is: tokens of a file, and of authorization servers; caller.go
//	policy.go    who may call what
//	outbound.go  the credentials of the gateway at servers
//	audit.go     the audit log
//	metrics.go   the metrics, in the format of Prometheus
//	trace.go     the trace that a request belongs to
//	pins.go      what servers offered when a person approved it
//	json.go      members of JSON objects, read and replaced
//
// MCP servers behind one endpoint:
//
//	mcp.go        the endpoints, each a set of servers
//	mcpserver.go  one MCP server: what it offers, and when that is looked up again
//	catalog.go    the lists of servers, and the lists that clients see
//	names.go      the names that clients see
//	relay.go      one call, in all combinations of the two eras
//	park.go       calls at legacy servers that wait for the next request of a modern client
//	mcplink.go    conversations with servers: who shares them, how many there may be
//	seen.go       URIs in results, and the servers that they are from
package gateway
