package secret

import (
	"bytes"
	"strings"
	"sync"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns text with its secrets redacted, or text itself if it contains none. It is made for
// JSON and accepts anything: truncated text, several values in sequence, a log line with JSON in
// it.
//
// It redacts the values of secret names with everything inside them, except true, false and null.
// In an object with name and value, key and content and the like, it redacts the value if the name
// is secret, and in a Secret of Kubernetes all data. In a list, it redacts the element after a flag
// such as --token, after the name of a header, or after a secret name if there are only two,
// whatever it looks like, unless it is a name too; elements such as "NAME=value" of env and "Name:
// value" of headers; and the passwords in the arguments of a command. In strings, it redacts the
// same as [Set.Text]. It redacts the params of rpc.authenticate completely. Numbers under a plural
// such as inputTokens are counts and are retained. Where names are declared, as in the properties
// of a JSON Schema, the description of a secret is retained, but not its default, examples and
// constants.
func (s *Set) JSON(text []byte) []byte {
	return s.Without(text, nil)
}

// Without is like JSON, but also redacts the values at the paths for which hides returns true.
// hides receives the names and indexes of the path, and must not retain the slice.
func (s *Set) Without(text []byte, hides func(at []string) bool) []byte {
	if s == nil || len(text) == 0 {
		return text
	}
	out, odd := text, false
	if len(s.rules.patterns) > 0 || hides != nil || len(*s.forms.Load()) > 0 {
		sc := scans.Get().(*scan)
		frames, list := sc.frames[:0], sc.edits.list[:0]
		*sc = scan{set: s, data: text, hides: hides, all: authenticates(text), frames: frames, edits: edits{list: list, keyIDs: sc.edits.keyIDs[:0]}}
		sc.run()
		secretAccessKeys(unsafe.String(unsafe.SliceData(text), len(text)), &sc.edits)
		out, odd = sc.edits.applyBytes(text), sc.odd
		sc.set, sc.data, sc.hides, sc.at = nil, nil, nil, nil
		if cap(sc.edits.list) <= 256 {
			clear(sc.edits.list)
			scans.Put(sc)
		}
	}
	if known := s.Known(out); isJSON(text) && !bytes.Equal(known, out) && !isValid(known) && isValid(out) {
		out = s.insideValues(out)
	} else {
		out = known
	}
	if len(s.rules.patterns) > 0 && (odd || !isJSON(text)) {
		plain := string(out)
		var e edits
		s.text(plain, 0, &e)
		if len(e.list) > 0 {
			out = []byte(e.apply(plain))
		}
	}
	return out
}

// Known returns text with only the values of the Set redacted; it ignores names.
func (s *Set) Known(text []byte) []byte {
	if s == nil {
		return text
	}
	for _, v := range *s.forms.Load() {
		if bytes.Contains(text, unsafe.Slice(unsafe.StringData(v), len(v))) {
			text = bytes.ReplaceAll(text, []byte(v), []byte(Hidden))
		}
	}
	return text
}

// insideValues redacts the values of the Set in the strings and numbers of valid JSON, one by one,
// where replacing them in the text would not be JSON any more: a number becomes a string. The
// literals true, false and null are retained.
func (s *Set) insideValues(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			end, _ = endOfString(text, i)
			if plain, err := jsontext.AppendUnquote(nil, text[i:end]); err == nil && s.hasValue(string(plain)) {
				out = append(out, quote(s.withoutValues(string(plain)))...)
				i = end
				continue
			}
		case c == '-' || c >= '0' && c <= '9':
			for end < len(text) && !isBreak(text[end]) {
				end++
			}
			if s.hasValue(string(text[i:end])) {
				out = append(out, `"`+Hidden+`"`...)
				i = end
				continue
			}
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}

func isValid(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// KnownJSON is like Known, but also finds values whose characters are escaped in a string of JSON,
// and in JSON inside a string. Valid JSON remains valid.
func (s *Set) KnownJSON(text []byte) []byte {
	if s == nil {
		return text
	}
	bare := &Set{rules: noRules}
	bare.forms.Store(s.forms.Load())
	return bare.JSON(text)
}

// noRules redacts no names.
var noRules = newRules(nil)

func isJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// scans is a pool: most texts contain no secret, and then scanning allocates no memory.
var scans = sync.Pool{New: func() any { return &scan{frames: make([]frame, 0, 16)} }}

// A scan is one pass over a text.
type scan struct {
	set   *Set
	data  []byte
	hides func(at []string) bool
	all   bool // "params" may belong to rpc.authenticate
	edits edits

	frames []frame
	at     []string // the current path, if hides is set

	odd bool // it has characters that JSON does not have there, as in { password: 'x' }

	next expected // the value that follows

	deep int // number of open frames beyond maxFrames
}

// expected describes the next value, as far as its name shows.
type expected struct {
	secret  bool // it is a secret
	counts  bool // but its numbers are not
	named   bool // the members of the next object are declarations
	figure  bool // it is the value of a pair that may be a count
	weak    bool // it is a secret if it does not look like a word or a text
	folder  bool // it belongs to PWD, which is more often a folder than a password
	address bool // it is the address of a database
	program bool // it is the program of a command
	args    bool // it is the list of the arguments of a command
	list    listKind
}

// maxFrames is the maximum depth to which the values of a secret name and paths are tracked. The
// depth of JSON-RPC messages is at most 1,000.
const maxFrames = 2_000

// maxDescription bounds how far the scan reads ahead to detect whether an object describes a
// secret, in bytes.
const maxDescription = 16 << 10

// A frame is an open object or list.
type frame struct {
	list     bool
	secret   bool // everything in it is a secret
	counts   bool // except numbers
	named    bool // its members are declarations: their names are not names of values
	declares bool // it describes a secret
	index    int
	pairing

	value bool // it is the value of a pair whose name has not been read yet
	data  int8 // it is such a value of a Secret of Kubernetes: the index of its span and 1

	kind  listKind
	count int       // the number of values in the list so far
	args  arguments // the state of a command in the list, or of the one that the object starts
}

func (sc *scan) top() *frame {
	if n := len(sc.frames); n > 0 {
		return &sc.frames[n-1]
	}
	return nil
}

func (sc *scan) run() {
	d := sc.data
	for i := 0; i < len(d); {
		switch c := d[i]; {
		case c == '"':
			i = sc.text(i)
		case c == '{' || c == '[':
			sc.open(c == '[', i)
			i++
		case c == '}' || c == ']':
			sc.shut(i + 1)
			i++
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(d) && !isBreak(d[end]) {
				end++
			}
			f := sc.top()
			hide := sc.next.secret && !sc.next.counts || f != nil && f.secret && !f.counts && !sc.next.secret
			if f != nil && f.list && f.args.next {
				hide = hide || f.args.separator == 0
				f.args.next = false
			}
			if f != nil && !hide {
				hide = sc.pairValue(f, i, end)
			}
			sc.value(i, end, hide)
			i = end
		case c == ',':
			sc.next = expected{}
			i++
		case c == 't' || c == 'f' || c == 'n':
			end := i + 1
			for end < len(d) && !isBreak(d[end]) {
				end++
			}
			sc.word(i, end)
			i = end
		case c > ' ' && c != ':':
			end := i + 1
			for end < len(d) && !isBreak(d[end]) {
				end++
			}
			sc.word(i, end)
			i = end
		default:
			i++
		}
	}
}

func isBreak(c byte) bool {
	return c <= ' ' || c == ',' || c == '}' || c == ']' || c == '{' || c == '[' || c == '"' || c == ':'
}

// word handles characters that are neither a string nor a number: a literal, or no JSON.
func (sc *scan) word(from, to int) {
	switch string(sc.data[from:to]) {
	case "true", "false", "null":
		if f := sc.top(); f != nil && f.from == -1 {
			f.from = 0
		}
		sc.value(from, to, false)
		return
	}
	sc.odd = true
	f := sc.top()
	sc.value(from, to, len(sc.frames) > 0 && to-from >= minValue && (sc.next.secret || f != nil && f.secret))
}

// enter appends the index of a list's value to the path; leave removes the last element.
func (sc *scan) enter(f *frame) {
	if sc.hides != nil && f != nil && f.list {
		sc.at = append(sc.at, itoa(f.index))
		f.index++
	}
}

func (sc *scan) leave() {
	if sc.hides != nil && len(sc.at) > 0 {
		sc.at = sc.at[:len(sc.at)-1]
	}
}

// value handles a value that is neither an object nor a list.
func (sc *scan) value(from, to int, hide bool) {
	f := sc.top()
	sc.enter(f)
	if f != nil {
		f.count++
		f.pending = 0
	}
	if hide || sc.hides != nil && len(sc.at) > 0 && sc.hides(sc.at) {
		sc.edits.add(from, to, `"`+Hidden+`"`)
	}
	sc.leave()
	sc.next = expected{}
}

func (sc *scan) open(list bool, at int) {
	f := sc.top()
	if sc.deep == 0 {
		sc.enter(f)
	}
	next := frame{list: list, secret: sc.next.secret, counts: sc.next.counts, named: sc.next.named && !list, kind: sc.next.list}
	if f != nil {
		f.count++
		switch {
		case list && f.list:
			next.kind = pairList
		case list:
			next.args = f.args
			if sc.next.args && f.args.tool == nil {
				next.args = newArguments(programAfter(sc.data[at:min(at+maxDescription, len(sc.data))]))
			}
		}
	}
	if f != nil && f.secret {
		next.secret, next.counts = true, next.counts || f.counts
	}
	if f != nil && f.declares {
		next.declares = true
	}
	if f != nil && f.from == -1 {
		f.from, f.to, next.value = at, 0, true
	}
	if f != nil && f.pending > 0 {
		f.spans[f.pending-1].from, next.data, f.pending = uint32(at), f.pending, 0 //nolint:gosec // no text is longer than 4 GiB
	}
	if sc.next.secret && f != nil && f.named && !list && describes(sc.data[at:]) {
		next.secret, next.counts, next.declares = f.secret, f.counts, true
	}
	if sc.hides != nil && len(sc.at) > 0 && sc.hides(sc.at) {
		// A value selected by its path is redacted as a whole.
		end := closing(sc.data, at)
		sc.edits.add(at, end, `"`+Hidden+`"`)
		sc.edits.until = end
	}
	sc.next = expected{}
	if len(sc.frames) >= maxFrames {
		sc.deep++
		return
	}
	sc.frames = append(sc.frames, next)
}

// shut handles the end of an object or a list, which is at the index end.
func (sc *scan) shut(end int) {
	switch {
	case sc.deep > 0:
		sc.deep--
	case len(sc.frames) > 0:
		value, data := sc.frames[len(sc.frames)-1].value, sc.frames[len(sc.frames)-1].data
		sc.frames = sc.frames[:len(sc.frames)-1]
		if f := sc.top(); value && f != nil {
			f.to = end
		}
		if f := sc.top(); data > 0 && f != nil {
			f.spans[data-1].to = uint32(end) //nolint:gosec // as above
		}
		sc.leave()
	}
	sc.next = expected{}
}

// text handles a string: a name if a colon follows, else a value. It returns the end of the string.
func (sc *scan) text(from int) int {
	d := sc.data
	end, escaped := endOfString(d, from)
	inside := d[from+1 : end]
	// Otherwise the text is truncated before the end of the string.
	if n := len(inside); n > 0 && inside[n-1] == '"' {
		inside = inside[:n-1]
	}
	next := skipBlanks(d, end)
	f := sc.top()
	if next < len(d) && d[next] == ':' && (f == nil || !f.list) {
		sc.name(f, from, end, inside, escaped)
		return next + 1
	}
	hide := sc.next.secret || f != nil && f.secret || sc.next.weak && isWeakSecret(sc.set.rules, inside)
	if hide && sc.next.figure && (f == nil || !f.secret) && isFigure(inside) {
		hide = false
	}
	if f != nil && !hide {
		hide = sc.pairValue(f, from, end)
	}
	flag := false
	switch {
	case hide && !(sc.next.folder && isPath(inside)):
		sc.value(from, end, true)
	default:
		if sc.next.program && f != nil {
			f.args = newArguments(toolOf(string(inside)))
		}
		if sc.next.address {
			if a, b := dataSource(unsafe.String(unsafe.SliceData(inside), len(inside)), 0); b > a {
				sc.edits.add(from+1+a, from+1+b, Hidden)
			}
		}
		if f != nil && f.list {
			flag = sc.element(f, from, inside, next)
		}
		sc.insideString(from, end, inside, escaped)
		sc.value(from, end, false)
	}
	if flag && next < len(d) && d[next] == ',' {
		sc.next.secret = true
		return next + 1
	}
	return end
}

func skipBlanks(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\n' || data[at] == '\r') {
		at++
	}
	return at
}

// name handles the name of a member.
func (sc *scan) name(f *frame, from, end int, inside []byte, escaped bool) {
	name := inside
	if escaped {
		if plain, err := jsontext.AppendUnquote(nil, sc.data[from:end]); err == nil || len(plain) > 0 {
			name = plain
		}
	}
	if sc.hides != nil {
		sc.at = append(sc.at, string(name)) // removed after its value
	}
	sc.next = expected{secret: sc.set.rules.hides(name)}
	if sc.next.secret {
		sc.next.counts, sc.next.folder = isCount(name), isFolder(name)
	} else {
		sc.next.address = len(sc.set.rules.patterns) > 0 && isAddress(unsafe.String(unsafe.SliceData(name), len(name)))
	}
	switch string(name) {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "securitySchemes":
		sc.next.named = true
	case "command", "cmd", "program", "executable":
		sc.next.program = true
	case "args", "argv", "arguments":
		sc.next.args = true
	case "rawHeaders", "rawTrailers":
		sc.next.list = flatList
	case "required", "tags", "scopes", "keywords", "fields", "columns":
		sc.next.list = namesList
	case "env", "Env", "environ", "environment", "Environment", "envp":
		sc.next.list = envList
	case "headers", "Headers", "requestHeaders", "responseHeaders", "httpHeaders", "extraHeaders":
		sc.next.list = headerList
	case "enum":
		sc.next.list = namesList
		sc.next.secret = sc.next.secret || f != nil && f.declares
	case "params":
		sc.next.secret = sc.next.secret || sc.all && len(sc.frames) <= 2
	case "default", "const", "examples", "example":
		sc.next.secret = sc.next.secret || f != nil && f.declares
		if f != nil && !f.declares && name[0] != 'c' {
			sc.pairNext(f, true)
		}
	case "name", "key", "k", "header", "field", "variable", "Name", "Key", "Header", "Field", // Go writes capital letters
		"param", "parameter", "attribute", "attr", "property", "prop", "setting", "option", "flag", "var", "n":
		sc.pairName(f, end, nil)
	case "id", "label", "title", "Id", "Label":
		sc.pairName(f, end, isPlainName)
	case "type", "Type":
		sc.pairName(f, end, isSecretType)
	case "sensitive", "isSensitive", "isSecret", "is_secret", "secret":
		if i := skipColon(sc.data, end); f != nil && bytes.HasPrefix(sc.data[i:], []byte("true")) {
			sc.pairs(f)
		}
	case "value", "values", "v", "val", "Value", "Values":
		sc.pairNext(f, false)
	case "content", "text", "body", "current", "string", "raw", "Content", "Text":
		sc.pairNext(f, true)
	case "data", "stringData":
		sc.pairNext(f, true)
		sc.manifestData(f, name[0] == 's')
	case "kind":
		sc.manifestKind(f, end)
	default:
		if n := len(name) - 1; n >= len("Value") && (name[n] == 'e' || name[n] == 'y') {
			sc.pairSuffix(f, name, end)
		}
	}
	if escaped && sc.set.hasValue(string(name)) {
		sc.edits.add(from, end, quote(sc.set.withoutValues(string(name))))
	}
}

// insideString redacts secrets inside a string value.
func (sc *scan) insideString(from, end int, inside []byte, escaped bool) {
	if len(inside) < 5 || sc.edits.until > from {
		return
	}
	s := sc.set
	text := unsafe.String(unsafe.SliceData(inside), len(inside)) // used only during this call
	if escaped && end == from+len(inside)+2 {                    // the string is complete
		plain, err := jsontext.AppendUnquote(nil, sc.data[from:end])
		if err == nil && s.hasValue(string(plain)) && !s.hasValue(text) {
			sc.edits.add(from, end, quote(s.Text(string(plain))))
			return
		}
		// JSON in a string, also behind other words.
		if err == nil && bytes.IndexByte(plain, '"') >= 0 && bytes.ContainsAny(plain, "{[") {
			if out := s.JSON(plain); !bytes.Equal(out, plain) {
				sc.edits.add(from, end, quote(string(out)))
				return
			}
		}
		// Characters that may be escaped: the slashes of a URL, the brackets of XML.
		if err == nil && len(s.rules.patterns) > 0 && (strings.Contains(text, `\/`) || strings.Contains(text, `\u00`)) {
			if out := s.plain(string(plain)); out != string(plain) {
				sc.edits.add(from, end, quote(out))
				return
			}
		}
	}
	if len(s.rules.patterns) > 0 {
		s.text(text, from+1, &sc.edits)
	}
}

// authenticates reports whether a message is parley's own request with credentials.
func authenticates(data []byte) bool {
	const method = "rpc.authenticate"
	// A name that is not written plainly has the escape of a character.
	plain := bytes.Contains(data, []byte(method))
	if !plain && !bytes.Contains(data, []byte(`\u`)) {
		return false
	}
	for i := 0; i < len(data); {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return false
		}
		end, escaped := endOfString(data, i+n)
		text := data[i+n : end]
		i = end
		switch {
		case !escaped && string(text) == `"`+method+`"`:
			return true
		case escaped && len(text) <= 6*len(method)+2 && bytes.Contains(text, []byte(`\u`)):
			if name, err := jsontext.AppendUnquote(nil, text); err == nil && string(name) == method {
				return true
			}
		}
	}
	return false
}

// endOfString returns the end of the string that begins at from, after its quote; or the end of
// data if the string is incomplete.
func endOfString(data []byte, from int) (end int, escaped bool) {
	quote := from // the first quote at or after i, which is searched for once
	for i := from + 1; i < len(data); {
		if quote < i {
			n := bytes.IndexByte(data[i:], '"')
			if n < 0 {
				return len(data), escaped || bytes.IndexByte(data[i:], '\\') >= 0
			}
			quote = i + n
		}
		k := bytes.IndexByte(data[i:quote], '\\')
		if k < 0 {
			return quote + 1, escaped
		}
		escaped = true
		i += k + 2
	}
	return len(data), escaped
}

// closing returns the end of the object or list that begins at from.
func closing(data []byte, from int) int {
	depth := 0
	for i := from; i < len(data); {
		switch data[i] {
		case '"':
			i, _ = endOfString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(data)
}

// describes reports whether the object at the beginning of data describes a value instead of being
// one: all its names are keywords of JSON Schema or of a security scheme (OpenAPI 3, A2A). An
// object of more than 16 KiB counts as a value.
func describes(data []byte) bool {
	data = data[:min(len(data), maxDescription)]
	end := closing(data, 0)
	if end == maxDescription {
		return false
	}
	depth := 0
	for i := 0; i < end; {
		switch data[i] {
		case '"':
			stop, escaped := endOfString(data[:end], i)
			next := stop
			for next < end && data[next] <= ' ' {
				next++
			}
			if depth == 1 && next < end && data[next] == ':' && (escaped || stop-i < 3 || !words[string(data[i+1:stop-1])]) {
				return false
			}
			i = stop
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
	}
	return true
}

var words = func() map[string]bool {
	m := make(map[string]bool)
	for _, word := range strings.Fields(`$schema $id $ref $defs $comment $anchor title description type properties required items prefixItems contains minItems maxItems
		uniqueItems additionalProperties patternProperties propertyNames minProperties maxProperties enum const default examples example anyOf allOf oneOf not if then else
		format pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf readOnly writeOnly deprecated nullable enumNames contentEncoding
		contentMediaType unevaluatedProperties dependentRequired dependentSchemas x-mcp-header x-order
		in name scheme bearerFormat flows openIdConnectUrl oauth2MetadataUrl location apiKeySecurityScheme httpAuthSecurityScheme oauth2SecurityScheme
		openIdConnectSecurityScheme mtlsSecurityScheme`) {
		m[word] = true
	}
	return m
}()

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// quote returns text as a JSON string; invalid UTF-8 becomes U+FFFD.
func quote(text string) string {
	out, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		out, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // valid now
	}
	return string(out)
}
