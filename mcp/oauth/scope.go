package oauth

import (
	"slices"
	"strings"
)

// ScopeOffline is the scope that requests a refresh token (OpenID Connect Core 1.0, section 11).
const ScopeOffline = "offline_access"

// Scopes parses a scope parameter: names separated by spaces (RFC 6749, section 3.3). It drops
// empty names, duplicates, and names with characters that are not allowed in a scope.
func Scopes(text string) []string {
	var list []string
	for name := range strings.FieldsSeq(text) {
		list = addScopes(list, name)
	}
	return list
}

// addScopes returns a copy of list with the names appended that it lacks.
func addScopes(list []string, names ...string) []string {
	list = slices.Clip(list)
	for _, name := range names {
		if isScope(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func isScope(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return name != ""
}

// hasScopes reports whether list contains all of wanted.
func hasScopes(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(list, name) })
}

func joinScopes(list []string) string { return strings.Join(list, " ") }
