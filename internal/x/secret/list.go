package secret

import (
	"bytes"
	"unsafe"
)

// A listKind is how names and values alternate in a list.
type listKind uint8

const (
	anyList    listKind = iota
	pairList            // in a list of pairs: [["name", "value"], …]
	flatList            // ["name", "value", "name", "value"]
	namesList           // names without values
	headerList          // ["name", "value"] or ["name: value"]
	envList             // ["NAME=value"]
)

// element handles a string in a list. It reports whether the next one is a secret: after a flag, or
// after a name in a list of names and values.
func (sc *scan) element(f *frame, from int, inside []byte, next int) (secret bool) {
	rules := sc.set.rules
	if len(rules.patterns) == 0 || len(inside) > maxArgument {
		return false
	}
	if a, b := f.args.secret(unsafe.String(unsafe.SliceData(inside), len(inside))); b > a {
		sc.edits.add(from+1+a, from+1+b, Hidden)
		return false
	}
	switch f.kind {
	case envList, headerList:
		if a, b := sc.line(f.kind, inside); b > a {
			sc.edits.add(from+1+a, from+1+b, Hidden)
			return false
		}
	}
	if len(inside) < 3 || len(inside) > maxName || next >= len(sc.data) || sc.data[next] != ',' || bytes.IndexByte(inside, '=') >= 0 || bytes.Contains(inside, []byte(": ")) {
		return false
	}
	if inside[0] == '-' {
		return rules.hides(bytes.TrimLeft(inside, "-"))
	}
	if f.count%2 != 0 || f.kind == namesList {
		return false
	}
	at := skipBlanks(sc.data, next+1)
	if at < len(sc.data) && sc.data[at] == '[' && f.kind != flatList { // ["Authorization", ["x"]]
		return isHeaderName(string(inside)) && rules.header(string(inside))
	}
	if at == len(sc.data) || sc.data[at] != '"' {
		return false
	}
	end, _ := endOfString(sc.data, at)
	value := sc.data[at+1 : max(at+1, end-1)]
	switch f.kind {
	case flatList:
		return rules.header(string(inside))
	case headerList:
		return rules.header(string(inside)) && !isName(rules, value)
	case pairList:
		if after := skipBlanks(sc.data, end); f.count == 0 && (after == len(sc.data) || sc.data[after] == ']') {
			return rules.header(string(inside))
		}
	}
	if !rules.hides(inside) {
		return false
	}
	if after := skipBlanks(sc.data, end); f.count == 0 && (after == len(sc.data) || sc.data[after] == ']') && !isCount(inside) && !isFieldName(rules, value) {
		return true // a pair
	}
	// A list of names is more frequent, except after the name of a header.
	return isCredential(value) || isHeaderName(string(inside)) && !isCookie(string(inside)) && sc.isPairs(f, end) && !isName(rules, value)
}

// isPairs reports whether the list in f has an even number of strings, of which the one that ends
// at the index end is the second of a pair.
func (sc *scan) isPairs(f *frame, end int) bool {
	n := f.count + 2
	for end < len(sc.data) {
		at := skipBlanks(sc.data, end)
		if at == len(sc.data) || sc.data[at] == ']' || n > maxPairs {
			break
		}
		if sc.data[at] != ',' {
			return false
		}
		if at = skipBlanks(sc.data, at+1); at == len(sc.data) || sc.data[at] != '"' {
			return false
		}
		end, _ = endOfString(sc.data, at)
		n++
	}
	return n%2 == 0
}

// maxPairs is the maximum number of strings of a list that are counted to detect pairs.
const maxPairs = 512

// line returns the position of the secret in an element such as "NAME=value" of a list of
// variables, or "name: value" of a list of headers; or zeros.
func (sc *scan) line(kind listKind, inside []byte) (from, to int) {
	sign, hides := byte('='), sc.set.rules.hides
	if kind == headerList {
		sign, hides = ':', func(name []byte) bool { return sc.set.rules.header(string(name)) }
	}
	at := bytes.IndexByte(inside, sign)
	if at < 3 || at > maxName || !hides(inside[:at]) {
		return 0, 0
	}
	from = at + 1
	for kind == headerList && from < len(inside) && inside[from] == ' ' {
		from++
	}
	if scheme, _, ok := bytes.Cut(inside[from:], []byte{' '}); ok && isScheme(string(scheme)) {
		from += len(scheme) + 1
	}
	value := inside[from:]
	if bytes.HasPrefix(value, []byte(Hidden)) || isFolder(inside[:at]) && isPath(value) || isCount(inside[:at]) && len(bytes.Trim(value, "0123456789")) == 0 {
		return 0, 0
	}
	return from, len(inside)
}

// isHeaderName reports whether a name occurs as that of a header rather than as a word:
// Authorization, Cookie, X-Api-Key.
func isHeaderName(name string) bool {
	return isAuthorization(name) || isCookie(name) || len(name) > 2 && name[0]|0x20 == 'x' && name[1] == '-'
}

// isName reports whether an element after the name of a header is a name as well, so that the list
// is one of names: a secret one, or the name of a header.
func isName(rules *rules, value []byte) bool {
	if len(value) == 0 || bytes.HasPrefix(value, []byte(Hidden)) || rules.header(string(value)) || len(value) > 2 && value[0]|0x20 == 'x' && value[1] == '-' {
		return true
	}
	switch Fold(string(value)) {
	case "accept", "acceptcharset", "acceptencoding", "acceptlanguage", "acceptranges", "age", "allow", "cachecontrol", "connection", "contentdisposition", "contentencoding",
		"contentlanguage", "contentlength", "contentlocation", "contentrange", "contentsecuritypolicy", "contenttype", "date", "dnt", "dpop", "etag", "expect", "expires", "forwarded",
		"from", "host", "ifmatch", "ifmodifiedsince", "ifnonematch", "ifrange", "ifunmodifiedsince", "keepalive", "lasteventid", "lastmodified", "link", "location", "maxforwards",
		"mcpprotocolversion", "mcpmethod", "mcpname", "origin", "pragma", "prefer", "priority", "range", "referer", "retryafter", "server", "te", "traceparent", "tracestate", "trailer",
		"transferencoding", "upgrade", "useragent", "vary", "via", "warning", "wwwauthenticate", "proxyauthenticate", "stricttransportsecurity":
		return true
	case "authentication", "identity", "security", "users", "roles", "permissions", "header", "query", "body", "path":
		return true
	}
	return bytes.HasPrefix(value, []byte("Access-Control-")) || bytes.HasPrefix(value, []byte("Sec-"))
}

// programAfter returns the tool that is named by the member after the list at the beginning of
// data, as in "args":[…],"command":"curl"; or nil.
func programAfter(data []byte) *tool {
	at := skipBlanks(data, closing(data, 0))
	if at == len(data) || data[at] != ',' {
		return nil
	}
	at = skipBlanks(data, at+1)
	if !bytes.HasPrefix(data[at:], []byte(`"command"`)) {
		return nil
	}
	if at = skipBlanks(data, at+len(`"command"`)); at == len(data) || data[at] != ':' {
		return nil
	}
	if at = skipBlanks(data, at+1); at == len(data) || data[at] != '"' {
		return nil
	}
	end, _ := endOfString(data, at)
	return toolOf(string(data[at+1 : max(at+1, end-1)]))
}

// maxArgument is the maximum length of an argument of a command that is examined, in bytes.
const maxArgument = 8 << 10

// isCredential reports whether a value is not a name: it has a scheme, or letters and digits.
func isCredential(value []byte) bool {
	if i := bytes.IndexByte(value, ' '); i >= 0 {
		return i > 0 && i <= len("negotiate") && isScheme(string(value[:i]))
	}
	letter, digit := false, false
	for _, c := range value {
		letter, digit = letter || c|0x20 >= 'a' && c|0x20 <= 'z', digit || c >= '0' && c <= '9'
	}
	return letter && digit && len(value) >= 8 || bytes.IndexByte(value, '=') > 0
}
