// Package secret redacts secrets in text: values under a name such as password or Authorization,
// tokens whose shape is known, passwords in the arguments of common commands, and values that are
// known to be secrets.
//
// There is one list of names, [Names], and one [Set] of both for each place that shows or stores
// texts of others. A Set handles JSON, URLs, headers and free text. It is tolerant: secrets are
// redacted in truncated or invalid JSON as well. A redacted value becomes [Hidden], so that valid
// JSON remains valid.
//
// Redaction is best effort. A secret under an unsuspicious name is found if its value was added to
// the Set; one that is split over two texts is not.
package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Hidden replaces a secret.
const Hidden = "[redacted]"

// minValue is the minimum length of a value that is searched for, in bytes. Shorter values occur in
// too many other texts.
const minValue = 4

// maxValues is the maximum number of values of one Set. Further values are ignored, because each
// costs a search of every text.
const maxValues = 4096

// A Set is a set of names and values that are secret in one place. It is safe for concurrent use. A
// nil Set redacts nothing.
type Set struct {
	rules *rules
	key   []byte // for the pseudonyms of sessions

	mu     sync.Mutex // held while values are added
	values map[string]bool
	forms  atomic.Pointer[[]string] // the values in all their encodings, the longest first
}

// New creates a Set from patterns, as in [Names]. Nil means Names, and an empty list means no
// names.
func New(names []string) *Set {
	s := &Set{key: make([]byte, 16), values: make(map[string]bool)}
	_, _ = rand.Read(s.key) // never fails
	if names == nil {
		s.rules = usual()
	} else {
		s.rules = newRules(names)
	}
	s.forms.Store(&[]string{})
	return s
}

// Add adds values that are redacted wherever they occur, also in the escapes of JSON and URLs, or
// in Base64. For HTTP credentials, "Bearer x" and "Basic x", it adds the part after the scheme, and
// for Basic also the password. Values of less than 4 bytes are ignored, so an empty password is not
// a secret.
func (s *Set) Add(values ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, v := range values {
		changed = s.addLocked(v) || changed
	}
	if !changed {
		return
	}
	var forms []string
	for v := range s.values {
		quoted := quote(v)
		forms = append(forms, v, quoted[1:len(quoted)-1], strings.ReplaceAll(quoted[1:len(quoted)-1], "/", `\/`), url.QueryEscape(v), url.PathEscape(v),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)))
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	forms = slices.Compact(forms)
	s.forms.Store(&forms)
}

// Values returns the added values.
func (s *Set) Values() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

// addLocked adds one value and the secrets that it contains.
func (s *Set) addLocked(v string) (changed bool) {
	v = strings.TrimSpace(v)
	if scheme, rest, ok := strings.Cut(v, " "); ok && isScheme(scheme) {
		if strings.EqualFold(scheme, "basic") {
			if plain, err := decode(strings.TrimSpace(rest)); err == nil {
				changed = s.addLocked(plain)
				if _, password, ok := strings.Cut(plain, ":"); ok {
					changed = s.addLocked(password) || changed
				}
			}
		}
		v = strings.TrimSpace(rest)
	}
	if len(v) < minValue || s.values[v] || len(s.values) >= maxValues || strings.HasPrefix(v, Hidden) {
		return changed
	}
	s.values[v] = true
	return true
}

func decode(text string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		plain, err = base64.RawURLEncoding.DecodeString(text)
	}
	return string(plain), err
}

// isScheme reports whether word is an authentication scheme (RFC 9110, section 11.4).
func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "dpop", "digest", "negotiate", "apikey", "key":
		return true
	}
	return false
}

// Name reports whether the value of a member of this name is a secret.
func (s *Set) Name(name string) bool { return s != nil && s.rules.hides([]byte(name)) }

// Field returns the value of a header for display. The scheme of credentials is retained. A session
// ID is replaced by a pseudonym that is the same for the same session, so that related messages can
// be recognized.
func (s *Set) Field(name, value string) string {
	switch {
	case s == nil || value == "" || strings.HasPrefix(value, Hidden):
		return value
	case !s.rules.header(name):
		return s.Text(value)
	case isSession(name):
		return s.session(value)
	}
	if scheme, rest, ok := strings.Cut(value, " "); ok && isScheme(scheme) && rest != "" {
		return scheme + " " + Hidden
	}
	return Hidden
}

// session returns the pseudonym of a session for display.
func (s *Set) session(id string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	return Hidden + "-" + hex.EncodeToString(mac.Sum(nil)[:6])
}

// hasValue reports whether text contains one of the values.
func (s *Set) hasValue(text string) bool {
	for _, v := range *s.forms.Load() {
		if strings.Contains(text, v) {
			return true
		}
	}
	return false
}

// withoutValues redacts the values in text.
func (s *Set) withoutValues(text string) string {
	for _, v := range *s.forms.Load() {
		if strings.Contains(text, v) {
			text = strings.ReplaceAll(text, v, Hidden)
		}
	}
	return text
}
