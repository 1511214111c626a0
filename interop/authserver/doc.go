// Package authserver is a small but complete authorization server for tests of mcp/oauth. It uses a
// different JOSE library than the code under test, and can be configured to misbehave.
//
// It supports the authorization code with PKCE, client credentials (by secret and by key), JWT
// assertions (RFC 7523), token exchange for ID-JAGs (RFC 8693), refresh tokens that rotate, DPoP
// with and without nonces, dynamic registration, client metadata documents, introspection,
// revocation, and publishes its keys. Users consent at once, or are asked on a page. All data is in
// memory, and it must be used on loopback only.
package authserver
