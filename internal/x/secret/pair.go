package secret

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A pairing is what is known of the members of an object that belong together: a name and a value,
// as in {"name":"API_KEY","value":"x"}, and the kind and the data of a Secret of Kubernetes.
type pairing struct {
	pair   bool // its value is a secret, because of its name
	figure bool // but a number is not
	weak   bool // the value below is of a member that often has a text
	// Position of the value, if it came before the name; from is -1 if it is next.
	from, to int

	manifest bool // its data is a secret
	pending  int8 // the next object is the data of what may be a manifest: the index of its span and 1
	spans    [2]span
}

// A span is a part of the text.
type span struct{ from, to uint32 }

// pairSuffix handles a member that may be the name or the value of a pair because of its end:
// {"fieldName":"token","fieldValue":"x"}.
func (sc *scan) pairSuffix(f *frame, name []byte, end int) {
	switch {
	case bytes.HasSuffix(name, []byte("Name")), bytes.HasSuffix(name, []byte("Key")), bytes.HasSuffix(name, []byte("_name")), bytes.HasSuffix(name, []byte("_key")):
		sc.pairName(f, end, isPlainName)
	case bytes.HasSuffix(name, []byte("Value")), bytes.HasSuffix(name, []byte("_value")):
		sc.pairNext(f, string(name) == "defaultValue" || string(name) == "default_value")
	}
}

// manifestData handles data or stringData, which may belong to a Secret.
func (sc *scan) manifestData(f *frame, plain bool) {
	switch {
	case f == nil:
	case f.manifest:
		sc.next.secret = true
	case plain:
		f.pending = 2
	default:
		f.pending = 1
	}
}

// manifestKind handles the kind of what may be a Secret.
func (sc *scan) manifestKind(f *frame, end int) {
	if i := skipColon(sc.data, end); f == nil || !bytes.HasPrefix(sc.data[i:], []byte(`"Secret"`)) || len(sc.set.rules.patterns) == 0 {
		return
	}
	f.manifest = true
	for _, s := range f.spans {
		if s.to > s.from {
			sc.edits.add(int(s.from), int(s.to), `"`+Hidden+`"`)
		}
	}
}

// pairNext handles the name of the value of a pair. It is weak if such a member often has a text.
func (sc *scan) pairNext(f *frame, weak bool) {
	switch {
	case f == nil, sc.next.secret:
	case f.pair && weak:
		sc.next.weak, sc.next.figure, sc.next.counts = true, f.figure, f.figure
	case f.pair:
		sc.next.secret, sc.next.figure, sc.next.counts = true, f.figure, f.figure
	case weak && f.to > f.from && !f.weak: // there is a better one
	default:
		f.from, f.weak = -1, weak // the next value is the value of the pair
	}
}

// skipColon returns the index of the value after the name that ends at an index.
func skipColon(data []byte, at int) int {
	for at < len(data) && (data[at] == ':' || data[at] <= ' ') {
		at++
	}
	return at
}

// pairName checks whether the string after a member's name is the name of a secret, and only is,
// unless it is nil, returns true for it: {"name":"API_KEY","value":"x"}.
func (sc *scan) pairName(f *frame, end int, is func(name []byte) bool) {
	d := sc.data
	i := skipColon(d, end)
	if f == nil || i >= len(d) || d[i] != '"' {
		return
	}
	// Most values are neither.
	stop, escaped := endOfString(d[:min(len(d), i+8*maxName)], i)
	if stop-i > maxName || stop-i < 3 {
		return
	}
	name := bytes.TrimSuffix(d[i+1:stop], []byte{'"'})
	if escaped {
		plain, err := jsontext.AppendUnquote(nil, d[i:stop])
		if err != nil {
			return
		}
		name = plain
	}
	switch rules := sc.set.rules; {
	case is == nil && !rules.hides(name):
		return
	case is != nil && (!is(name) || !rules.decide(string(name))): // too many names for the cache
		return
	}
	f.figure = isCount(name)
	sc.pairs(f)
}

// pairs records that the value of f is a secret.
func (sc *scan) pairs(f *frame) {
	if len(sc.set.rules.patterns) == 0 {
		return
	}
	f.pair = true
	if f.to > f.from && f.from > 0 {
		value := sc.data[f.from:f.to]
		text := bytes.Trim(value, `"`)
		if f.weak && (value[0] != '"' || !isWeakSecret(sc.set.rules, text)) || f.figure && isFigure(text) {
			f.from, f.to = 0, 0
			return
		}
		sc.edits.add(f.from, f.to, `"`+Hidden+`"`)
		f.from, f.to = 0, 0
	}
}

// pairValue records the value of a pair whose name has not been read yet.
func (sc *scan) pairValue(f *frame, from, end int) (hide bool) {
	if f.from != -1 {
		return false
	}
	f.from, f.to = from, end
	return f.pair
}

// isPlainName reports whether a text is a name rather than an ID with a number, or a title.
func isPlainName(name []byte) bool { return !bytes.ContainsAny(name, " 0123456789/:") }

// isSecretType reports whether a type is that of a field for secrets.
func isSecretType(name []byte) bool {
	switch Fold(string(name)) {
	case "password", "secret", "securestring", "secretstring", "secrettext":
		return true
	}
	return false
}

// isFigure reports whether a value is a number, as people write it.
func isFigure(value []byte) bool {
	return len(value) > 0 && len(bytes.Trim(value, "0123456789.,_-+eEkKM% ")) == 0
}

// isWeakSecret reports whether the value of a member that often has a text is a secret: it is one
// word, or a scheme and a word, and no other name.
func isWeakSecret(rules *rules, value []byte) bool {
	if scheme, rest, ok := bytes.Cut(value, []byte{' '}); ok && isScheme(string(scheme)) {
		value = rest
	}
	return len(value) >= minValue && !bytes.ContainsAny(value, " \t<>{}\\") && !bytes.HasPrefix(value, []byte("$")) && !bytes.Contains(value, []byte("://")) &&
		!bytes.HasPrefix(value, []byte(Hidden)) && !isFieldName(rules, value)
}

// isFieldName reports whether a word after the name of a secret is the name of another field, or
// describes the secret, so that it is no value.
func isFieldName(rules *rules, value []byte) bool {
	if bytes.IndexByte(value, ' ') < 0 && isName(rules, value) || isStateWord(string(value)) {
		return true
	}
	return len(value) <= longestField && fieldNames[strings.ToLower(string(value))]
}

const longestField = 16

// fieldNames are words that occur in lists of fields, permissions and choices.
var fieldNames = func() map[string]bool {
	m := make(map[string]bool)
	for _, word := range strings.Fields(`user users username user_name user-name login email mail name names firstname lastname nickname id ids uid uuid key keys type types kind value
		values date time datetime timestamp url uri link host hostname port ports file files folder address phone status state title label description comment note notes message
		messages subject content data json xml html csv code codes role roles scope scopes group groups team organization account accounts profile client server service session
		sessions request response method params cookie cookies device devices ip region zone env environment version config settings options option mode level public private
		read write admin refresh access create update delete remove list get set reset change forgot rotate revoke verify confirm confirmation validate check expiry expires
		expiration ttl hash salt algorithm encrypted encryption auth oauth oauth2 oidc saml basic bearer digest jwt other both card cards payment sms totp mfa sso otp webauthn
		passkey biometric count counts usage length size total limit budget price cost model models prompt prompts completion completions input output tool tools function
		functions provider providers words characters vault manager plain plaintext visible new old current previous next first last issuer audience subject nonce rate used
		issued created updated deleted refreshed logout signin signup register registration recovery policy strength field form page search filter sort order`) {
		m[word] = true
	}
	return m
}()
