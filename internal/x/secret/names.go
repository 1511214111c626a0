package secret

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// Names are the patterns of names whose values are secrets: JSON members, HTTP headers, query
// parameters, variables and flags. "*" matches any characters; case, "-", "_", "." and spaces are
// ignored. A pattern that begins with "!" is an exception. The last pattern that matches decides.
var Names = []string{
	"authorization*", "*authorization", "auth", "xauth", "*cookie*",
	"*password*", "*passwd*", "*passphrase*", "*passcode*", "pwd", "*pwd", "pass", "*secret*", "*credential*",
	"*token*", "*key*", "bearer", "*bearer", "jwt", "*jwt", "codeverifier", "*assertion", "mcpsessionid",
	"pin", "otp", "totp", "otpcode",

	// Parts of names: these have no "*pass*", because of pass, passenger and bypass.
	"*dbpass", "*userpass", "*adminpass", "*rootpass", "*smtppass", "*mailpass", "*sshpass", "*pgpass", "*mysqlpass", "*redispass", "*storepass", "*becomepass", "requirepass", "masterauth", "psk", "*httpauth", "*basicauth", "*authcode",

	// Descriptions of authorization are not secret (RFC 8414, RFC 9728, the flows of an A2A card),
	// CORS headers are not either, nor are keys of a keyboard.
	"!*authorizationendpoint*", "!*authorizationserver*", "!authorizationresponseiss*", "!authorizationdetailstypes*",
	"!*tokenendpoint*", "!tokentype*", "!clientsecretexpiresat", "!accesscontrolallow*", "!accesscontrolexpose*", "!accesscontrolrequest*",
	"!keyboard*", "!keystroke*", "!keypress*", "!keyframe*", "!keynote*", "!keymap*", "!keybinding*", "!keypoint*", "!keyphrase*",
	"!hotkey*", "!monkey*", "!donkey*", "!turkey*", "!hockey*", "!jockey*", "!whiskey*",

	// What ends like this is a secret, however it begins: authorization_server_client_secret.
	"*password", "*passwd", "*passphrase", "*secret", "*secretkey", "*token", "*apikey", "*accesskey", "*privatekey",
	"!*authorizationurl", "!*tokenurl", "!*tokenuri", "!*tokentype", "!*securityscheme",

	// Tokens of protocols that grant no access: MCP progress tokens and page cursors. Also token
	// counts of language models.
	"!progresstoken", "!nexttoken", "!*pagetoken", "!*continuationtoken",
	"!*maxtokens", "!*mintokens", "!*tokencount", "!*tokencounts", "!*tokenlimit", "!*tokenbudget", "!*tokenusage", "!*tokensused", "!*tokenizer", "!tokenization",

	// Keys that denote a position: in a map, a database, an index, a queue.
	"!key", "!keys", "!*publickey", "!*publickeys", "!*primarykey", "!*foreignkey", "!*sortkey", "!*sortkeys", "!*partitionkey", "!*rowkey", "!*rangekey", "!*hashkey",
	"!*cachekey", "!*idempotencykey", "!*routingkey", "!*dedupkey", "!*deduplicationkey", "!*objectkey", "!*indexkey", "!*groupkey", "!*parentkey", "!*itemkey",
	"!*mapkey", "!*fieldkey", "!*columnkey", "!*uniquekey", "!*compositekey", "!*surrogatekey", "!*lookupkey", "!*orderkey", "!*statekey", "!*eventkey", "!*propertykey",
	"!*labelkey", "!*tagkey", "!*metakey", "!*configkey", "!*settingkey", "!*translationkey", "!*messagekey", "!*i18nkey", "!*issuekey", "!*projectkey", "!*websocketkey",
	"!keyid", "!keyids", "!keyname", "!keynames", "!keytype", "!keysize", "!keyops", "!keyusage", "!keypath", "!keyschema", "!keyed", "!haskey", "!iskey",
	"!*keyword", "!*keywords", "!keydown", "!keyup", "!keycode", "!keycodes", "!*shortcutkey",

	// Paths of files with secrets.
	"!*file", "!*filename", "!*path", "!*dir", "!*directory", "!*folder",
}

// A pattern is a parsed name with "*" in it.
type pattern struct {
	parts  []string // the texts between the "*"
	except bool
}

// newPattern parses one pattern; ok is false for an empty one.
func newPattern(text string) (p pattern, ok bool) {
	text, p.except = strings.CutPrefix(text, "!")
	p.parts = strings.Split(text, "*")
	for i := range p.parts {
		p.parts[i] = Fold(p.parts[i])
	}
	return p, text != ""
}

// matches reports whether p matches a folded name.
func (p *pattern) matches(name string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(p.parts) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// Fold makes names comparable: api_key, API-Key, api.key and apiKey become equal. Invisible
// characters are dropped, and full-width letters become ordinary ones.
func Fold(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; c == '-' || c == '_' || c == '.' || c <= ' ' || 'A' <= c && c <= 'Z' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	var b strings.Builder
	for _, c := range name {
		if c >= '！' && c <= '～' { // U+FF01 to U+FF5E
			c -= '！' - '!'
		}
		switch c = unicode.ToLower(c); {
		case c == 'ſ': // the long s, whose capital letter is S
			b.WriteByte('s')
		case c > ' ' && c != '-' && c != '_' && c != '.' && !harmless.Hidden(c) && !unicode.IsSpace(c):
			b.WriteRune(c)
		}
	}
	return b.String()
}

// rules are patterns with a cache of their decisions.
type rules struct {
	patterns []pattern
	hints    []string // a name that contains none of them is not secret

	mu    sync.RWMutex // guards known
	known map[string]bool
}

// Bounds of the cache of rules: the number of names, and the length of a name.
const (
	maxKnown     = 4096
	maxKnownName = 64
)

func newRules(names []string) *rules {
	r := &rules{known: make(map[string]bool)}
	for _, name := range names {
		if p, ok := newPattern(name); ok {
			r.patterns = append(r.patterns, p)
			if hint := p.longest(); !p.except && !slices.ContainsFunc(r.hints, func(h string) bool { return strings.Contains(hint, h) }) {
				r.hints = append(r.hints, hint)
			}
		}
	}
	return r
}

// longest returns the longest part of p.
func (p *pattern) longest() string {
	return slices.MaxFunc(p.parts, func(a, b string) int { return len(a) - len(b) })
}

// hides reports whether the value under this name is a secret. It allocates nothing for a cached
// name.
func (r *rules) hides(name []byte) bool {
	r.mu.RLock()
	hidden, ok := r.known[string(name)]
	r.mu.RUnlock()
	if ok {
		return hidden
	}
	hidden = r.decide(string(name))
	if len(name) <= maxKnownName {
		r.mu.Lock()
		if len(r.known) < maxKnown {
			r.known[string(name)] = hidden
		}
		r.mu.Unlock()
	}
	return hidden
}

func (r *rules) decide(name string) bool {
	folded := Fold(name)
	if !slices.ContainsFunc(r.hints, func(hint string) bool { return strings.Contains(folded, hint) }) {
		return false
	}
	for i := len(r.patterns) - 1; i >= 0; i-- {
		if r.patterns[i].matches(folded) {
			return !r.patterns[i].except
		}
	}
	return false
}

// usual returns the rules of Names.
var usual = sync.OnceValue(func() *rules { return newRules(Names) })

// Name reports whether the value of a member, variable or flag of this name is a secret according
// to [Names].
func Name(name string) bool { return usual().hides([]byte(name)) }

// Header reports whether the value of an HTTP header is a secret according to [Names], or is a
// session ID.
func Header(name string) bool { return usual().header(name) }

// Query reports whether the value of a query parameter is a secret according to [Names], or is
// secret in queries only.
func Query(name string) bool { return usual().query(name) }

func (r *rules) header(name string) bool {
	return r.hides([]byte(name)) || len(r.patterns) > 0 && isSession(name)
}

func (r *rules) query(name string) bool {
	if r.hides([]byte(name)) {
		return true
	}
	if len(r.patterns) == 0 {
		return false
	}
	switch Fold(name) {
	case "key", "sig", "signature", "xamzsignature", "xgoogsignature", "auth", "sessionid":
		return true
	}
	return false
}

// isSession reports whether a header or query parameter contains a session ID, which grants access
// to the session.
func isSession(name string) bool { return strings.HasSuffix(Fold(name), "sessionid") }

// isCount reports whether numbers under this name are counts, such as the token counts of language
// models.
func isCount(name []byte) bool { return strings.HasSuffix(Fold(string(name)), "tokens") }

// isFolder reports whether a name is that of the variable for the working directory, PWD or OLDPWD.
// The same name denotes a password elsewhere.
func isFolder(name []byte) bool {
	folded := Fold(string(name))
	return folded == "pwd" || folded == "oldpwd"
}

// isPath reports whether a value is an absolute path.
func isPath[T string | []byte](value T) bool {
	return len(value) > 0 && (value[0] == '/' || value[0] == '~') || len(value) > 2 && value[1] == ':' && value[2] == '\\'
}
