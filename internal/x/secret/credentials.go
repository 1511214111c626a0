package secret

import "strings"

// isCookie reports whether the value of a header is a list of cookies.
func isCookie(name string) bool {
	switch Fold(name) {
	case "cookie", "setcookie":
		return true
	}
	return false
}

// isAuthorization reports whether the value of a header is a scheme with credentials.
func isAuthorization(name string) bool {
	switch Fold(name) {
	case "authorization", "proxyauthorization", "xauthorization":
		return true
	}
	return false
}

// credentials returns the position of the value of a header in text if it has several words: the
// cookies of Cookie, the parameters of a scheme such as Digest, or an unknown scheme and a token.
// Otherwise it returns zeros. What follows on the same line is not part of the value.
func credentials(text string, at int, name string) (from, to int) {
	switch {
	case isCookie(name):
		from = at
		if from < len(text) && text[from] == '"' {
			from++
		}
		return from, pairs(text, from, ';')
	case !isAuthorization(name):
		return 0, 0
	}
	from = at
	if from < len(text) && (text[from] == '"' || text[from] == '\'') {
		from++
	}
	scheme := from
	for scheme < len(text) && scheme-from < 64 && (isAlnum(text[scheme]) || text[scheme] == '-') {
		scheme++
	}
	word := scheme
	word += blanks(text, word)
	if scheme == from || word == scheme || word == len(text) {
		return 0, 0
	}
	if to = pairs(text, word, ','); to > word {
		return from, to
	}
	// A token in an unknown scheme is longer than a word, or has digits.
	if start, end := valueAt(text, word); !isScheme(text[from:scheme]) && start == word && end-start >= 8 && strings.ContainsAny(text[start:end], "0123456789") &&
		!strings.Contains(text[start:end], "://") {
		return from, end
	}
	return 0, 0
}

// pairs returns the end of a list of "name=value" with a separator, or 0. The attributes of
// Set-Cookie without a value belong to it. Blanks are part of a value in quotes and of the date of
// Expires only.
func pairs(text string, at int, separator byte) (end int) {
	for at < len(text) {
		name := at
		for at < len(text) && (isNameByte(text[at]) || strings.IndexByte("!#$*+^|~:[]", text[at]) >= 0) {
			at++
		}
		if at == name {
			return end
		}
		switch {
		case at < len(text) && text[at] == '=':
			from, to := pairValue(text, at+1, separator)
			if strings.Trim(text[from:to], "=") == "" && end == 0 { // the end of Base64
				return 0
			}
			if strings.EqualFold(text[name:at], "expires") {
				to = date(text, to)
			}
			at, end = to, to
		case end == 0:
			return 0
		case strings.EqualFold(text[name:at], "secure"), strings.EqualFold(text[name:at], "httponly"), strings.EqualFold(text[name:at], "partitioned"):
			end = at
		default:
			return end
		}
		if at == len(text) || text[at] != separator && text[at] != ',' {
			return end
		}
		for at++; at < len(text) && text[at] == ' '; {
			at++
		}
	}
	return end
}

// pairValue returns the position of the value of a pair, with its quotes if it has any.
func pairValue(text string, from int, separator byte) (start, to int) {
	to = from
	for to < len(text) && text[to] == '\\' && to+1 < len(text) && (text[to+1] == '"' || text[to+1] == '\\') {
		to++
	}
	if to < len(text) && text[to] == '"' {
		for to++; to < len(text) && text[to] != '"' && text[to] != '\n' && lineEnd(text[to:]) == 0; {
			to++
		}
		if to < len(text) && text[to] == '"' {
			to++
		}
		return from, to
	}
	for to = from; to < len(text) && text[to] != separator && !isURLEnd(text[to]) && (text[to] != ',' || to+1 < len(text) && text[to+1] != ' '); {
		to++
	}
	return from, to
}

// date returns the end of the rest of a date (RFC 9110, section 5.6.7), of which the day of the
// week was read, as in "Wed, 21 Oct 2015 07:28:00 GMT".
func date(text string, at int) int {
	const most = 32
	for end := at; end < len(text) && end-at < most; end++ {
		if c := text[end]; !isAlnum(c) && c != ' ' && c != ',' && c != ':' && c != '-' {
			return at
		}
		if strings.HasSuffix(text[at:end+1], "GMT") {
			return end + 1
		}
	}
	return at
}

// isAddress reports whether the value of a name is the address of a database with credentials in
// it. Only these are secrets, as the host helps to understand an error.
func isAddress(name string) bool {
	if len(name) < 3 {
		return false
	}
	switch before, last := name[len(name)-2]|0x20, name[len(name)-1]|0x20; { // most names have another end
	case before == 's' && last == 'n', before == 'r' && (last == 'l' || last == 'i'), before == 'n' && last == 'g':
		name = Fold(name)
	default:
		return false
	}
	for _, end := range [...]string{"dsn", "databaseurl", "dburl", "databaseuri", "dburi", "connectionstring", "connectionuri", "connectionurl"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// dataSource returns the position of the credentials in an address without a scheme, as in
// "user:password@tcp(host)/database"; or zeros. Those of a URL are found anywhere.
func dataSource(text string, at int) (from, to int) {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	from, to = valueAt(text[:min(len(text), at+4*maxName)], at)
	value := text[from:to]
	end := strings.LastIndexByte(value, '@')
	if end < 0 || strings.Contains(value, "://") || !strings.ContainsAny(value[:end], ":/") {
		return 0, 0
	}
	return fresh(text, from, from+end)
}

// isCode reports whether a name is that of a code that a person types, which may be a short number.
func isCode(name string) bool {
	switch Fold(name) {
	case "pin", "otp", "totp", "otpcode":
		return true
	}
	return false
}

// isNumber reports whether text has digits only, four or more.
func isNumber(text string) bool {
	return len(text) >= 4 && strings.Trim(text, "0123456789") == ""
}
