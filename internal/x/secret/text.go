package secret

import (
	"net/url"
	"strings"
)

// Text returns free text with its secrets redacted: a log line, an error, a URL, a form body. It
// redacts the values of the Set, the values after a secret name and "=" or ":", the user
// information of URLs, credentials such as "Bearer x", tokens of known shapes, the content of XML
// elements with a secret name, YAML with the value below its name, the parts of multipart forms,
// pairs such as ('Authorization', 'x'), Secrets of Kubernetes, secret variables of Terraform, lines
// of .pgpass, and passwords in the arguments of commands and after words such as IDENTIFIED BY.
// JSON in the text is handled as by [Set.JSON], and what is written with entities of XML or percent
// encoding as if it were not. After a colon and a blank, as in a sentence, it redacts only what
// does not look like a word.
func (s *Set) Text(text string) string {
	if s == nil || text == "" {
		return text
	}
	if len(s.rules.patterns) > 0 && (strings.Contains(text, `{"`) || strings.Contains(text, `["`) || strings.Contains(text, `[ "`) || strings.Contains(text, `\"`)) {
		text = string(s.JSON([]byte(text)))
	}
	return s.plain(text)
}

// plain is like Text, for text without JSON.
func (s *Set) plain(text string) string {
	text = s.withoutValues(text)
	if len(s.rules.patterns) == 0 {
		return text
	}
	var edits edits
	s.text(text, 0, &edits)
	secretAccessKeys(text, &edits)
	return edits.apply(text)
}

// Address returns a URL, or text with URLs, for use in an error. It redacts the same as Text and
// also all query values of http and ws URLs, because a key may have any name there.
func (s *Set) Address(text string) string {
	text = s.Text(text)
	if s == nil {
		return text
	}
	var out strings.Builder
	for {
		i := strings.Index(text, "://")
		if i < 0 {
			break
		}
		scheme := text[:i]
		web := isWeb(scheme)
		end := i + 3
		for end < len(text) && !isURLEnd(text[end]) {
			end++
		}
		address := text[:end]
		text = text[end:]
		head, query, ok := strings.Cut(address[i:], "?")
		if !web || !ok {
			out.WriteString(address)
			continue
		}
		out.WriteString(address[:i] + head + "?")
		query, fragment, hasFragment := strings.Cut(query, "#")
		for n, part := range strings.Split(query, "&") {
			if n > 0 {
				out.WriteByte('&')
			}
			if name, value, ok := strings.Cut(part, "="); ok && value != "" {
				trail := value[len(strings.TrimRight(value, ":,.)")):]
				part = name + "=" + Hidden + trail
			} else if !ok && len(part) >= 8 {
				part = Hidden
			}
			out.WriteString(part)
		}
		if hasFragment {
			out.WriteString("#" + fragment)
		}
	}
	out.WriteString(text)
	return out.String()
}

func isURLEnd(c byte) bool {
	return c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '\\'
}

// text finds secrets in text and adds their positions, shifted by offset, to edits.
func (s *Set) text(text string, offset int, edits *edits) {
	done := 0 // nothing before it is scanned again
	equals, colon := strings.IndexByte(text, '='), strings.IndexByte(text, ':')
	hasEquals, hasColon := equals >= 0, colon >= 0
	for equals >= 0 || colon >= 0 {
		at := equals
		if equals < 0 || colon >= 0 && colon < equals {
			at = colon
		}
		if at >= done {
			if from, to := s.assigned(text, at, done); to > from {
				edits.add(offset+from, offset+to, Hidden)
				done = to
			} else if strings.HasPrefix(text[at:], "://") {
				if from, to := capability(text, at+3); to > from {
					edits.add(offset+from, offset+to, Hidden)
					done = to
				}
			} else if text[at] == ':' && at+2 < len(text) && (text[at+1] == '*' || text[at+1] == '5' || text[at+1] == '6') && (text[at+2] == ':' || text[at+2] == '4' || text[at+2] == '5') {
				if from, to := passwordLine(text, at); to > from {
					edits.add(offset+from, offset+to, Hidden)
					done = to
				}
			} else if text[at] == ':' && (strings.HasSuffix(text[:at], ":thin") || strings.HasSuffix(text[:at], ":oci") || strings.HasSuffix(text[:at], ":oci8")) { // of Oracle: jdbc:oracle:thin:user/password@host
				if from, to := dataSource(text[:min(len(text), at+maxName)], at+1); to > from {
					edits.add(offset+from, offset+to, Hidden)
					done = to
				}
			}
			if from, to := userInfo(text, at); to > from && at >= done {
				edits.add(offset+from, offset+to, Hidden)
				done = to
			}
		}
		if at == equals {
			equals = next(text, '=', at+1)
		} else {
			colon = next(text, ':', at+1)
		}
	}
	s.flags(text, offset, edits)
	s.elements(text, offset, edits)
	s.formData(text, offset, edits)
	s.couples(text, offset, edits)
	if hasColon {
		s.manifests(text, offset, edits)
	}
	if hasEquals && strings.IndexByte(text, '{') >= 0 {
		s.variables(text, offset, edits)
	}
	privateKeys(text, offset, edits)
	tokens(text, offset, edits)
	s.layers(text, offset, edits)
	for from := 0; ; {
		i := strings.IndexByte(text[from:], ' ')
		if i < 0 {
			return
		}
		from += i + 1
		// As in Bearer and Basic.
		if from < 4 {
			continue
		}
		last, last2 := text[from-2], text[from-3]
		start, end, program := 0, 0, false
		switch last | 0x20 {
		case 'c':
		case 'r':
			program = last2 == 'd' // sqlldr
		case 'd':
			start, end = s.afterWords(text, from)
			program = last2 == 'w' // htpasswd
		case 'v', 'y':
			start, end = s.afterWords(text, from)
		case 't', 'x': // set, setx
			if last2|0x20 == 'e' || last2|0x20 == 't' {
				start, end = s.afterWords(text, from)
			}
		case 's':
			if last == 'S' {
				start, end = afterPass(text, from)
			}
			program = last2 == 'u' // sqlplus
		case 'p':
			program = last2 == 'd' || last2 == 'x' || last2 == 'm' // expdp, exp, imp
		case 'n':
			program = last2 == 'a' // rman
		case 'l':
			program = last2 == 't' // rabbitmqctl
		case '4':
			program = last2 == '6' // sqlplus64
		default:
			continue
		}
		if end > start {
			edits.add(offset+start, offset+end, Hidden)
		}
		if program {
			operands(text, from, offset, edits)
		}
		if last |= 0x20; last != 'r' && last != 'c' {
			continue
		}
		scheme := strings.ToLower(lastWord(text[:from-1]))
		if scheme != "bearer" && scheme != "basic" {
			continue
		}
		for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
			from++
		}
		start, end = valueAt(text, from)
		if end-start < 8 || strings.HasPrefix(text[start:], Hidden) {
			continue
		}
		if scheme == "bearer" && looksSecret(text[start:end]) || scheme == "basic" && isBasic(text[start:end]) {
			edits.add(offset+start, offset+end, Hidden)
		}
	}
}

// flags finds secrets after flags, as in "tool --token x".
func (s *Set) flags(text string, offset int, edits *edits) {
	var line line
	for at := next(text, '-', 0); at >= 0; at = next(text, '-', at+1) {
		if at > 0 && text[at-1] != ' ' && text[at-1] != '\t' && text[at-1] != '\n' && !adorned(text[at-1]) {
			continue
		}
		if from, to, ok := line.argument(text, at); ok {
			if to > from {
				edits.add(offset+from, offset+to, Hidden)
			}
			continue
		}
		name := at
		for name < len(text) && text[name] == '-' && name-at < 2 {
			name++
		}
		end := name
		for end < len(text) && end-name < maxName && isNameByte(text[end]) {
			end++
		}
		if end-name < 3 || end == len(text) || text[end] != ' ' && text[end] != '\t' || !s.rules.hides([]byte(text[name:end])) {
			continue
		}
		nameEnd := end
		for end < len(text) && (text[end] == ' ' || text[end] == '\t') {
			end++
		}
		if from, to := valueAt(text, end); from < to && text[from] != '-' && !isPath(text[from:to]) && (from > end || looksSecret(text[from:to]) || isCode(text[name:nameEnd]) && isNumber(text[from:to])) {
			if from, to = fresh(text, from, to); to > from && !isPlaceholder(text[from:to]) {
				edits.add(offset+from, offset+to, Hidden)
			}
		}
	}
}

// isPlaceholder reports whether value is what a help text has in place of a value, as in
// "--token MEMBER=VALUE". The words are a fixed list, since a secret may consist of capital
// letters.
func isPlaceholder(value string) bool {
	name, rest, both := strings.Cut(value, "=")
	if both && !isPlaceholder(rest) {
		return false
	}
	switch name {
	case "FILE", "ID", "KEY", "MEMBER", "NAME", "PASSWORD", "SECRET", "TEXT", "TOKEN", "VALUE":
		return true
	}
	return false
}

// privateKeys finds private keys in PEM (RFC 7468).
func privateKeys(text string, offset int, edits *edits) {
	const label = "PRIVATE KEY"
	for done := 0; ; {
		i := strings.Index(text[done:], label)
		if i < 0 {
			return
		}
		from := done + i + len(label)
		if after, ok := strings.CutPrefix(text[from:], " BLOCK"); ok { // of OpenPGP
			from = len(text) - len(after)
		}
		if !strings.HasPrefix(text[from:], "-----") {
			done = from
			continue
		}
		from += len("-----")
		before := text[max(done, done+i-40) : done+i]
		if !strings.Contains(before, "-----BEGIN ") {
			if n := strings.Index(before, "-----END "); n >= 0 { // the text before it is lost
				end := done + i - len(before) + n
				start := end
				for start > done && (isBase64(text[start-1]) || text[start-1] == '=' || text[start-1] == '\\' || text[start-1] == '\n' || text[start-1] == '\r') {
					start--
				}
				if end-start >= 64 {
					edits.add(offset+start, offset+end, Hidden)
				}
			}
			done = from
			continue
		}
		end := len(text)
		if n := strings.Index(text[from:], "-----END "); n >= 0 {
			end = from + n
		}
		if _, to := fresh(text, from, end); to > from {
			edits.add(offset+from, offset+end, Hidden)
		}
		done = end
	}
}

func next(text string, c byte, from int) int {
	if i := strings.IndexByte(text[from:], c); i >= 0 {
		return from + i
	}
	return -1
}

// lastWord returns the word of letters at the end of text.
func lastWord(text string) string {
	i := len(text)
	for i > 0 && len(text)-i < 8 && (text[i-1]|0x20) >= 'a' && (text[i-1]|0x20) <= 'z' {
		i--
	}
	return text[i:]
}

func isBasic(text string) bool {
	plain, err := decode(text)
	return err == nil && strings.Contains(plain, ":")
}

// adorned reports whether c may occur between a name, its sign and its value: quotes, and the
// backslashes before them.
func adorned(c byte) bool { return c == '"' || c == '\'' || c == '`' || c == '\\' }

func isNameByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '%' || c >= 0x80
}

// maxName is the maximum length of a name that is examined, in bytes.
const maxName = 256

// assigned returns the position of the secret that the sign at the index at assigns a value to, or
// zeros without a secret.
func (s *Set) assigned(text string, at, done int) (from, to int) {
	end := at
	for end > done && (text[end-1] == ' ' || text[end-1] == '\t') {
		end--
	}
	spaced := end < at
	quoted := 0
	for end > done && adorned(text[end-1]) {
		end--
		quoted++
	}
	// "name:=value" and "name => value" have a sign of two characters.
	if text[at] == ':' && at+1 < len(text) && text[at+1] == '=' {
		return 0, 0
	}
	if text[at] == '=' && end == at && end > done+1 && text[end-1] == ':' {
		end--
		for end > done && (text[end-1] == ' ' || text[end-1] == '\t') {
			end--
		}
	}
	start := end
	if text[at] == '=' && quoted == 0 && end > done && text[end-1] == ']' { // user[password]=x, c["password"] = "x"
		for end--; end > done && adorned(text[end-1]); {
			end--
		}
		start = end
	}
	for start > done && end-start < maxName && isNameByte(text[start-1]) {
		start--
	}
	if start == end {
		return 0, 0
	}
	name := text[start:end]
	if len(name) < 3 || name[0] >= '0' && name[0] <= '9' {
		return 0, 0
	}
	inQuery := start > 0 && (text[start-1] == '?' || text[start-1] == '&')
	if strings.IndexByte(name, '%') >= 0 {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	if name = strings.TrimLeft(name, "-."); name == "" {
		return 0, 0
	}
	isSecret := s.rules.hides([]byte(name))
	if start > 0 && text[start-1] == '\\' { // the escape of a line end may precede it: \nPWD=/home/x
		if after := name[1:]; len(after) >= 3 && s.rules.hides([]byte(after)) {
			name, isSecret = after, true
			start++
		}
	}
	if !isSecret && inQuery {
		isSecret = s.rules.query(name)
	}
	if !isSecret && name == "code" && text[at] == '=' && (inQuery || start == 0 || adorned(text[start-1])) {
		isSecret = isGrant(text, at)
	}
	if !isSecret {
		if isAddress(name) {
			return dataSource(text, at+1)
		}
		return 0, 0
	}
	folder := isFolder([]byte(name))
	value := at + 1
	if text[at] == '=' && value < len(text) && text[value] == '>' {
		value++
	}
	for value < len(text) && (text[value] == ' ' || text[value] == '\t') {
		value++
		spaced = true
	}
	value += quotePrefix(text, value)
	if inQuery && text[at] == '=' {
		from, to = value, value
		for to < len(text) && text[to] != '&' && text[to] != '#' && !isURLEnd(text[to]) {
			to++
		}
	} else {
		from, to = valueAt(text, value)
		if text[at] == '=' && !spaced && from == value {
			to = restOf(text, from, to)
		}
	}
	if text[at] == '=' && from+1 < len(text) && text[from] == '(' { // auth=('user', 'password') of Python
		if text[from+1] == ')' || strings.HasPrefix(text[from+1:], Hidden) {
			return 0, 0
		}
		if n := strings.IndexAny(text[from:min(len(text), from+maxName)], ")\n"); n > 0 && text[from+n] == ')' {
			return fresh(text, from+1, from+n)
		}
	}
	if text[at] == ':' && from == at+1 && from < len(text) && text[from] == '[' && !isCount([]byte(name)) && !strings.HasPrefix(text[from:], Hidden) { // of a map that Go prints
		if strings.HasPrefix(text[from+1:], Hidden) {
			return 0, 0
		}
		if n := strings.IndexAny(text[from+1:], "[]{}\"\n"); n > 0 && text[from+1+n] == ']' {
			return fresh(text, from+1, from+1+n)
		}
	}
	if text[at] == ':' {
		if from, to := below(text, start, value); to > from {
			return fresh(text, from, to)
		}
		if from, to := credentials(text, value, name); to > from {
			return fresh(text, from, to)
		}
	}
	if n := blanks(text, to); n > 0 && isScheme(text[from:to]) {
		if f, t := valueAt(text, to+n); t > f {
			return fresh(text, f, t)
		}
	}
	if folder && isPath(text[from:to]) || from == value && isCount([]byte(name)) && strings.Trim(text[from:to], "0123456789") == "" {
		return 0, 0
	}
	// In JSON the line end of "Password:\nEnter it" is an escape, not a quote.
	blank := text[at] == ':' && from > value+1 && text[value] == '\\' && strings.IndexByte("nrt", text[value+1]) >= 0 && !adorned(text[from-1])
	if blank && strings.HasSuffix(text[from:to], ":") { // the name on the next line
		return 0, 0
	}
	sure := from > value && !blank && (quoted > 0 || to-from >= 4) || text[at] == '=' && !spaced ||
		!spaced && from == at+1 && to-from >= minValue && isHeaderName(name) && !isStateWord(text[from:to])
	if !sure && !looksSecret(text[from:to]) && !(isCode(name) && isNumber(text[from:to])) && !lineValue(text, start, at, from, to) && !isField(text, start, at, to) {
		return 0, 0
	}
	return fresh(text, from, to)
}

// blanks returns the length of the blanks at an index, with those of a header that continues on the
// next line (RFC 9112, section 5.2).
func blanks(text string, at int) int {
	end, folded := at, false
	for i := at; i < len(text) && i-at < maxName; {
		c, n := text[i], 1
		for c == '\\' && i+n < len(text) && n < 16 { // escapes, as in JSON within JSON
			c = text[i+n]
			n++
		}
		escaped := n > 1
		switch {
		case c == ' ' && !escaped, c == '\t' && !escaped, c == 't' && escaped:
			end, folded = i+n, false
		case c == '\r' && !escaped, c == '\n' && !escaped, c == 'r' && escaped, c == 'n' && escaped:
			folded = c == '\r' || c == 'r' || !folded || text[i-1] == '\r' || text[i-1] == 'r'
			if !folded {
				return end - at
			}
		default:
			return end - at
		}
		i += n
	}
	return end - at
}

// restOf returns the end of a value without quotes that ends before a ";" or "&" at the index to.
// The sign belongs to the value if no name follows it, as in "password=a;b&x=1".
func restOf(text string, from, to int) int {
	for to < len(text) && to > from && (text[to] == ';' || text[to] == '&') {
		end := to + 1
		for end < len(text) && end-to < maxName && !isURLEnd(text[end]) && text[end] != ';' && text[end] != '&' && text[end] != '=' {
			end++
		}
		if end == to+1 || end < len(text) && text[end] == '=' || end-to >= maxName {
			return to
		}
		to = end
	}
	return to
}

// isGrant reports whether the parameter "code" with a sign at an index is an authorization code
// (RFC 6749, sections 4.1.2 and 4.1.3).
func isGrant(text string, at int) bool {
	text = text[max(0, at-maxName):min(len(text), at+2*maxName)]
	return strings.Contains(text, "grant_type=authorization_code") || strings.Contains(text, "&state=") || strings.Contains(text, "?state=") || strings.Contains(text, "code_verifier=")
}

// isField reports whether a name and a value belong to a struct that Go prints with %+v, as in
// "{User:me Password:x}".
func isField(text string, start, at, to int) bool {
	if text[at] != ':' || start == 0 || text[start] < 'A' || text[start] > 'Z' || to == len(text) || to <= at+1 || text[at+1] == ' ' {
		return false
	}
	switch text[to] {
	case '}':
		return text[start-1] == ' ' || text[start-1] == '{' && (start == 1 || text[start-2] != '$')
	case ' ':
		end := to + 1
		for end < len(text) && end-to < maxName && isAlnum(text[end]) {
			end++
		}
		return (text[start-1] == '{' || text[start-1] == ' ') && end > to+1 && end < len(text) && text[end] == ':' && text[to+1] >= 'A' && text[to+1] <= 'Z'
	}
	return false
}

// fresh returns the position, or zeros if a secret was redacted there before.
func fresh(text string, from, to int) (int, int) {
	if strings.HasPrefix(text[from:], Hidden) {
		return 0, 0
	}
	return from, to
}

// valueAt returns the begin and end of the value at an index, with or without quotes.
func valueAt(text string, at int) (from, to int) {
	from = at
	var mark byte
	for from < len(text) && adorned(text[from]) {
		if text[from] == '\\' && from+1 < len(text) && !adorned(text[from+1]) { // an escape, which stays whole
			n := 2
			if text[from+1] == 'u' {
				n = 6
			}
			from = min(from+n, len(text))
			continue
		}
		mark = text[from]
		from++
	}
	to = from
	if mark != 0 { // up to the matching quote
		for to < len(text) && text[to] != mark && text[to] != '\\' && text[to] != '\n' {
			to++
		}
		return from, to
	}
	for to < len(text) && !isURLEnd(text[to]) && text[to] != '&' && text[to] != ';' {
		to++
	}
	return from, from + len(strings.TrimRight(text[from:to], ",.)]}"))
}

// looksSecret reports whether a text looks unlike a word.
func looksSecret(text string) bool {
	if len(text) < 5 {
		return false
	}
	lower, upper, other := 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z' && i > 0:
			upper++
		case c >= 'A' && c <= 'Z':
		default:
			other++
		}
	}
	return other > 0 || lower > 0 && upper > 0 || len(text) >= 20
}

// maxUserInfo is the maximum length of the user information of a URL, in bytes.
const maxUserInfo = 4096

// userInfo returns the position of the user information of the URL whose colon is at the index at.
// A password may contain "/", "?", "#" and "@" unescaped.
func userInfo(text string, at int) (from, to int) {
	if !strings.HasPrefix(text[at:], "://") {
		return 0, 0
	}
	from = at + 3
	most := maxUserInfo
	for to = from; to < len(text) && to-from < most; to++ {
		switch c := text[to]; {
		case c == '@':
			to = lastAt(text, from, to)
			if name, empty := strings.CutSuffix(text[from:to], ":"); empty && !looksSecret(name) {
				return 0, 0 // a user name without a password
			}
			return fresh(text, from, to)
		case isURLEnd(c):
			if to = quotedPassword(text, at, to); to > from {
				return fresh(text, from, to)
			}
			return 0, 0
		case c == '/' || c == '?' || c == '#':
			// Without a password, the colon precedes a port.
			if most < maxUserInfo {
				continue
			}
			most = 256
			_, password, ok := strings.Cut(text[from:min(to, from+most)], ":")
			if !ok || text[from] == '[' || isVariable(password) || strings.HasPrefix(password, "{") && strings.HasSuffix(password, "}") || strings.HasPrefix(password, "[") {
				return 0, 0
			}
			// The path of a database may follow a port, but has no "@" in it.
			if strings.Trim(password, "0123456789") == "" && (password == "" || isWeb(text[:at]) || c != '/') {
				return 0, 0
			}
		}
	}
	return 0, 0
}

// quotedPassword returns the end of the user information of the URL whose colon is at the index at,
// if its password has the quote at the index quote in it; or 0. The quotes around the URL are
// others.
func quotedPassword(text string, at, quote int) int {
	from := at + len("://")
	_, password, ok := strings.Cut(text[from:quote], ":")
	if !ok || !adorned(text[quote]) || password != "" && strings.Trim(password, "0123456789") == "" {
		return 0
	}
	start := at
	for start > 0 && at-start < 32 && (isAlnum(text[start-1]) || text[start-1] == '+' || text[start-1] == '-' || text[start-1] == '.') {
		start--
	}
	var around byte
	if start > 0 && adorned(text[start-1]) && text[start-1] != '\\' {
		around = text[start-1]
	}
	for i := quote; i < len(text) && i-from < maxName; i++ {
		switch c := text[i]; {
		case c <= ' ', c == '<', c == '>', c == ',', c == around, lineEnd(text[i:]) > 0:
			return 0
		case c == '@':
			host := i + 1
			for host < len(text) && (isAlnum(text[host]) || text[host] == '-' || text[host] == '.' || text[host] == '[') {
				host++
			}
			if host > i+1 && (host == len(text) || isURLEnd(text[host]) || strings.IndexByte(":/?,;)]", text[host]) >= 0) {
				return i
			}
		}
	}
	return 0
}

// lastAt returns the index of the last "@" before the host, where at is the index of the first one.
// After a slash, an "@" belongs to a password only if what precedes the slash does not look like a
// host, and what follows the "@" does.
func lastAt(text string, from, at int) int {
	paths := false
	for i := at + 1; i < len(text) && i-from < maxUserInfo && text[i] != '?' && text[i] != '#' && !isURLEnd(text[i]); i++ {
		switch c := text[i]; {
		case c == '/':
			host := text[at+1 : i]
			if !paths && (host == "" || strings.ContainsAny(host, ".:[") || strings.EqualFold(host, "localhost") || !strings.Contains(text[from:at], ":")) {
				return at
			}
			paths = true
		case c == '@' && !paths:
			at = i
		case c == '@' && text[i-1] != '/' && isHostStart(text[i+1:]):
			at, paths = i, false
		}
	}
	return at
}

// isHostStart reports whether text begins with a host, and then ends, or has a port, a path, or the
// end of the URL. "@2x.png" and "@v1.2.3" are ends of file names.
func isHostStart(text string) bool {
	i := 0
	for i < len(text) && i < maxName && (isAlnum(text[i]) || text[i] == '-' || text[i] == '.') {
		i++
	}
	if i == 0 || i < len(text) && text[i] != ':' && text[i] != '/' && text[i] != '?' && !isURLEnd(text[i]) {
		return false
	}
	host := strings.TrimPrefix(text[:i], "v")
	return host != "" && (host[0] < '0' || host[0] > '9') && host != "latest"
}

// isWeb reports whether text ends with the scheme of a web address, whose path may contain "@".
func isWeb(text string) bool {
	return strings.HasSuffix(text, "http") || strings.HasSuffix(text, "https") || strings.HasSuffix(text, "ws") || strings.HasSuffix(text, "wss")
}
