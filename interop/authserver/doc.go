// Package authserver is an authorization server, small and real, for tests of mcp/oauth: it stands on another JOSE library than what it
// tests, and can be told to misbehave.
//
// It speaks the authorization code with PKCE, client credentials (by secret and by key), JWT assertions (RFC 7523), token exchange for
// ID-JAGs (RFC 8693), refresh tokens that rotate, DPoP with and without nonces, dynamic registration, client metadata documents,
// introspection, revocation, and publishes its keys. Users say yes at once, or are asked on a page. It keeps everything in memory and is for loopback only.
package authserver
