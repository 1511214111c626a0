package oauth

import (
	"slices"
	"strings"
)

// ScopeOffline asks for a refresh token (OpenID Connect Core 1.0, section 11).
const ScopeOffline = "offline_access"

// Scopes reads a scope parameter: names between spaces (RFC 6749, section 3.3). Empty names and repetitions are dropped, and names with
// characters that a scope cannot have.
func Scopes(text string) []string {
	var list []string
	for name := range strings.FieldsSeq(text) {
		list = addScopes(list, name)
	}
	return list
}

// addScopes appends to list, which is copied, the names that are not in it.
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

// hasScopes reports whether all of wanted are in list.
func hasScopes(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(list, name) })
}

func joinScopes(list []string) string { return strings.Join(list, " ") }
