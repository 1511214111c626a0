package secret

import (
	"encoding/base64"
	"strings"
)

// A shape is how the tokens of one issuer look: a prefix and a random part.
type shape struct {
	prefix string
	ok     func(rest string) bool // reports whether the characters after the prefix are a token
}

// shapes lists the known shapes by the first byte of their prefix.
var shapes = ['z' + 1][]shape{
	'A': {{"AKIA", isKeyID}, {"ASIA", isKeyID}, {"AIza", random}, {"ATATT3", random}, {"AGE-SECRET-KEY-1", random}},
	'P': {{"PMAK-", random}},
	'S': {{"SG.", random}},
	'b': {{"bearer.", random}, {"base64url.bearer.authorization.k8s.io.", random}}, // subprotocols of WebSockets
	'd': {{"dop_v1_", varied}, {"doo_v1_", varied}, {"dckr_pat_", varied}},
	'e': {{"eyJ", isJWT}},
	'f': {{"figd_", varied}},
	'g': {
		{"ghp_", varied},
		{"gho_", varied},
		{"ghu_", varied},
		{"ghs_", varied},
		{"ghr_", varied},
		{"github_pat_", varied},
		{"glpat-", varied},
		{"gldt-", varied},
		{"glrt-", varied},
		{"glptt-", varied},
		{"glsa_", varied},
		{"gsk_", random},
	},
	'h': {{"hf_", random}, {"hvs.", random}},
	'l': {{"lin_api_", varied}},
	'n': {{"npm_", random}, {"nvapi-", random}},
	'p': {{"pypi-", random}, {"pplx-", random}},
	'r': {{"rk_live_", varied}, {"rk_test_", varied}, {"r8_", random}},
	's': {{"sk-", random}, {"sk_live_", varied}, {"sk_test_", varied}, {"shpat_", varied}, {"sntrys_", varied}},
	't': {{"tvly-", random}},
	'w': {{"whsec_", varied}},
	'x': {
		{"xoxb-", varied},
		{"xoxp-", varied},
		{"xoxa-", varied},
		{"xoxr-", varied},
		{"xoxs-", varied},
		{"xoxe-", varied},
		{"xoxe.", varied},
		{"xapp-", varied},
		{"xai-", random},
	},
	'y': {{"ya29.", random}},
}

// minToken is the minimum length of a token that is detected by its shape, in bytes.
const minToken = 16

// isTokenByte lists the bytes of tokens. They are those of Base64 for URLs, and the period.
var isTokenByte = func() (table [256]bool) {
	for c := range table {
		table[c] = isAlnum(byte(c)) || c == '-' || c == '_' || c == '.'
	}
	return table
}()

func isAlnum(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

// tokens finds the tokens whose shape is known. A token is at the beginning of a word. Each word of
// minToken bytes has a byte at an index that the loop examines, so that most bytes of a text are
// not read.
func tokens(text string, offset int, edits *edits) {
	if isBlob(text) {
		return
	}
	done := 0 // the words that begin before it have been examined
	for at := minToken - 1; at < len(text); at += minToken {
		if !isTokenByte[text[at]] {
			continue
		}
		from := at
		for from > done && isTokenByte[text[from-1]] {
			from--
		}
		begins := from == 0 || !isTokenByte[text[from-1]]
		done = at + 1
		if !begins {
			continue
		}
		from += escape(text, from)
		start, end := tokenAt(text, from)
		if end == 0 {
			start, end = from, userPassword(text, from)
		}
		if end <= start {
			continue
		}
		edits.add(offset+start, offset+end, Hidden)
		if text[start] == 'A' && isKeyID(text[start+len("AKIA"):end]) {
			edits.keyIDs = append(edits.keyIDs, offset+start)
		}
	}
}

// maxUserPassword is the maximum length of the Base64 of a user name and a password, in bytes.
const maxUserPassword = 512

// userPassword returns the end of the word at an index if it is the Base64 of a user name, a colon
// and a password, as in the Basic scheme (RFC 7617); or 0. IDs and cursors of other systems, such
// as that of "User:123", are not secrets: the password has capital letters or signs, and letters
// with digits.
func userPassword(text string, from int) (end int) {
	for end = from; end < len(text) && end-from <= maxUserPassword && isBase64(text[end]); {
		end++
	}
	n := end - from
	for end < len(text) && text[end] == '=' && end-from-n < 2 {
		end++
	}
	if n < minToken-2 || end-from < minToken || end-from > maxUserPassword || (end-from)%4 != 0 || from > 0 && (isBase64(text[from-1]) && escape(text, from-1) == 0) {
		return 0
	}
	var plain [maxUserPassword]byte
	// Most words are detected by their first letters.
	if n, err := base64.StdEncoding.Decode(plain[:], []byte(text[from:from+4])); err != nil || !isPrintable(plain[:n]) {
		return 0
	}
	size, err := base64.StdEncoding.Decode(plain[:], []byte(text[from:end]))
	if err != nil || !isPrintable(plain[:size]) {
		return 0
	}
	user, password, ok := strings.Cut(string(plain[:size]), ":")
	if !ok || user == "" || len(password) < 6 || strings.ContainsAny(password, ":/ ,{}") || strings.ContainsAny(user, `"'{}[]()<>/ `) {
		return 0
	}
	letters, digits, capitals, signs := false, false, false, false
	for i := range len(password) {
		switch c := password[i]; {
		case c >= 'a' && c <= 'z':
			letters = true
		case c >= 'A' && c <= 'Z':
			letters, capitals = true, true
		case c >= '0' && c <= '9':
			digits = true
		case c != '-' && c != '_' && c != '.':
			signs = true
		}
	}
	if letters && (signs || digits && capitals) {
		return end
	}
	return 0
}

// isPrintable reports whether text has printable ASCII characters only.
func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// isBlob reports whether a text is one long word of Base64, such as an image. It costs less than to
// examine the text.
func isBlob(text string) bool {
	if len(text) <= 512 {
		return false
	}
	for _, c := range [...]byte{' ', '-', '_', '.', '\\', '\n'} {
		if strings.IndexByte(text, c) >= 0 {
			return false
		}
	}
	return true
}

// escape returns the number of letters at an index that belong to an escape of JSON, such as \n.
func escape(text string, at int) int {
	slashes := 0
	for slashes < at && text[at-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 0 {
		return 0
	}
	switch text[at] {
	case 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		return min(len("u0000"), len(text)-at)
	}
	return 0
}

// tokenAt returns the position of the token at the beginning of a word, or zeros.
func tokenAt(text string, from int) (start, end int) {
	for from < len(text) && (text[from] == '-' || text[from] == '_' || text[from] == '.') {
		from++
	}
	if from == len(text) || int(text[from]) >= len(shapes) {
		return 0, 0
	}
	for _, shape := range shapes[text[from]] {
		if !strings.HasPrefix(text[from:], shape.prefix) {
			continue
		}
		rest := from + len(shape.prefix)
		for end = rest; end < len(text) && isTokenByte[text[end]]; {
			end++
		}
		for end > rest && text[end-1] == '.' {
			end--
		}
		if shape.ok(text[rest:end]) {
			return from, end
		}
	}
	return 0, 0
}

// isKeyID reports whether rest is that of the ID of an AWS access key.
func isKeyID(rest string) bool {
	for i := range len(rest) {
		if c := rest[i]; !(c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return len(rest) == 16
}

// varied reports whether rest may follow a prefix that occurs in tokens only. Names of variables
// have such prefixes too, but no digits and capital letters.
func varied(rest string) bool {
	return len(rest) >= 10 && strings.ContainsAny(rest, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// random reports whether rest may follow a prefix that words have as well: it has a part that is
// too long for a word.
func random(rest string) bool {
	run, digits := 0, false
	for i := range len(rest) {
		c := rest[i]
		if !isAlnum(c) {
			run, digits = 0, false
			continue
		}
		run++
		digits = digits || c >= '0' && c <= '9'
		if run >= 20 || run >= 16 && digits {
			return true
		}
	}
	return len(rest) >= 40 && mixed(rest)
}

// isJWT reports whether rest is that of a JSON Web Token (RFC 7519, section 3), or of an encrypted
// one, after the first three characters: at least three parts, the first two of which are not
// empty.
func isJWT(rest string) bool {
	header, rest, ok := strings.Cut(rest, ".")
	claims, _, more := strings.Cut(rest, ".")
	if !more { // without a signature, the period at the end may be that of a sentence
		more = strings.HasPrefix(claims, "eyJ")
	}
	return ok && more && len(header) >= 8 && len(claims) >= 8
}

// nearKeyID is how far an AWS secret access key may be from its key ID, in bytes.
const nearKeyID = 256

// secretAccessKeys finds the AWS secret access keys near the key IDs that were found: words of 40
// characters of Base64.
func secretAccessKeys(text string, edits *edits) {
	for _, id := range edits.keyIDs {
		end := min(id+nearKeyID, len(text))
		for at := max(id-nearKeyID, 0); at < end; at++ {
			if !isBase64(text[at]) {
				continue
			}
			from := at + escape(text, at)
			for at < len(text) && at-from <= 40 && isBase64(text[at]) {
				at++
			}
			if at-from == 40 && mixed(text[from:at]) {
				edits.add(from, at, Hidden)
			}
			for at < end && isBase64(text[at]) {
				at++
			}
		}
	}
	edits.keyIDs = edits.keyIDs[:0]
}

func isBase64(c byte) bool { return isAlnum(c) || c == '+' || c == '/' }

// mixed reports whether text has small letters, capital letters and digits, unlike a digest.
func mixed(text string) bool {
	lower, upper, digit := false, false, false
	for i := range len(text) {
		c := text[i]
		lower, upper, digit = lower || c >= 'a' && c <= 'z', upper || c >= 'A' && c <= 'Z', digit || c >= '0' && c <= '9'
	}
	return lower && upper && digit
}
