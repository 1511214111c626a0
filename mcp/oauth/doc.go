// Package oauth is the authorization of the Model Context Protocol over HTTP, on both sides: a [Client] gets tokens and shows them, a [Guard]
// lets good ones in.
//
// The server side is a resource server (MCP 2025-06-18 and later, Authorization). [Protect] puts a Guard before an http.Handler: it publishes
// where tokens are to be had (RFC 9728), finds out whose a token is by a [Verifier] ([JWT], [Introspection]), holds methods and tools against
// scopes, asks for proofs of bound tokens (RFC 9449), and puts the [Identity] into the context, where [PrincipalOf] finds it.
//
// The client side is an http.RoundTripper. From an answer 401 it finds its way through the metadata of all revisions: that the challenge
// names, that at the well-known places, that of OpenID Connect, and the endpoints that MCP 2025-03-26 took for granted. It gets its first
// token by a [Grant]: [Code] with a user in a browser ([Loopback]), [ClientCredentials], [Enterprise], [Workload]. It is known to the
// authorization server by a [Registration] made beforehand, by the address of a document, or by registering itself. It asks for more
// when the server does, a bounded number of times, refreshes, binds tokens to a key where that is asked for, and keeps them in a [Store].
//
// What a server names is not trusted because it names it. Issuers are compared byte by byte: of metadata, of answers, of stored tokens;
// secrets and registrations never leave the issuer they belong to, tokens never the origin of the server; metadata is fetched by https from
// public addresses only, unless the server itself is on this machine.
//
// The package knows no carrier: it fits before and behind any HTTP handler or client, that of package mcphttp above all.
package oauth
