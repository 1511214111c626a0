// Package oauth implements the authorization of the Model Context Protocol over HTTP for both
// sides: a [Client] obtains and sends tokens, a [Guard] verifies them.
//
// The server side is a resource server (MCP 2025-06-18 and later, Authorization). [Protect] wraps
// an http.Handler in a Guard, which does the following:
//
//   - publishes where clients obtain tokens (RFC 9728);
//   - verifies each token with a [Verifier] ([JWT], [Introspection]);
//   - checks the scopes for methods and tools;
//   - requires proofs for bound tokens (RFC 9449);
//   - stores the [Identity] in the context, where [PrincipalOf] finds it.
//
// The client side is an http.RoundTripper. After a 401 response it discovers the authorization
// server through the metadata of all protocol versions: the address in the challenge, the
// well-known addresses, OpenID Connect Discovery, and the default endpoints of MCP 2025-03-26. It
// obtains the first token with a [Grant]: [Code] with a user in a browser ([Loopback]),
// [ClientCredentials], [Enterprise] or [Workload]. It identifies itself with a [Registration] made
// in advance, with the address of a metadata document, or by dynamic registration. It requests more
// scopes if the server requires them, a bounded number of times. It refreshes tokens, binds them to
// a key if required, and stores them in a [Store].
//
// Data from a server is not trusted by itself. Issuers in metadata, responses and stored tokens are
// compared byte by byte. Secrets and registrations are sent only to their issuer, tokens only to
// the origin of the server. Metadata is fetched only over https from public addresses, unless the
// server itself is on this machine.
//
// The package is independent of the transport: it works with any HTTP handler or client, in
// particular with those of package mcphttp.
package oauth
