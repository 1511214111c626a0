package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// maxName is the maximum length of an exposed name: the longest that the interfaces of models
// accept for a tool.
const maxName = 64

// divider is between the name of a server and the name of its tool. Names of MCP servers have no
// underscores, so the first one divides.
const divider = "__"

// exposedName returns the name under which clients see a tool or a prompt of a server. It matches
// ^[A-Za-z0-9_-]{1,64}$. It depends on the two names alone, so that a new tool renames no other
// one. If letters had to be replaced or cut, it ends in a digest of the original name.
func exposedName(server, name string) string {
	full := server + divider + name
	clean := strings.Map(func(r rune) rune {
		if isNameByte(r) {
			return r
		}
		return '_'
	}, full)
	if clean == full && len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:3])
	return clean[:min(len(clean), maxName-len(suffix))] + suffix
}

func isNameByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// wrappedScheme begins the form of a URI that names its server.
const wrappedScheme = "parley://"

// wrapURI returns the form of a resource's URI that names its server. It is accepted for every
// resource, and listed where two servers have the same URI.
func wrapURI(server, uri string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(wrappedScheme + server + "/")
	for _, c := range []byte(uri) {
		if isNameByte(rune(c)) || c == '.' || c == '~' {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// unwrapURI is the opposite of wrapURI. It accepts only what wrapURI returns.
func unwrapURI(wrapped string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(wrapped, wrappedScheme)
	if !ok {
		return "", "", false
	}
	server, text, ok := strings.Cut(rest, "/")
	if !ok || server == "" {
		return "", "", false
	}
	uri, err := url.PathUnescape(text)
	if err != nil || wrapURI(server, uri) != wrapped {
		return "", "", false
	}
	return server, uri, true
}
