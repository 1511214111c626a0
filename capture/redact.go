package capture

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Hidden stands where a secret was.
const Hidden = "[redacted]"

// DefaultKeys are the names whose values are secrets more often than not: of headers, of members in JSON, of query parameters.
// "*" stands for any letters; case, "-" and "_" do not matter.
var DefaultKeys = []string{
	"authorization", "proxyauthorization", "cookie", "setcookie", "password", "passwd", "secret", "clientsecret", "*secret", "apikey", "*apikey", "xapikey",
	"accesstoken", "refreshtoken", "idtoken", "authtoken", "*password", "token", "bearer", "privatekey", "codeverifier", "clientassertion",
}

// A Redaction says what is taken out of what is recorded or exported. The value stays valid JSON: what is hidden becomes the
// string [Hidden], in values and not in names. The zero Redaction hides by DefaultKeys.
type Redaction struct {
	// Off hides nothing.
	Off bool

	// Keys are names, as in DefaultKeys. Nil means DefaultKeys; an empty list means none.
	Keys []string

	// Values are texts that are hidden wherever they stand, such as the token that was read from a configuration. Those
	// shorter than 4 bytes are ignored.
	Values []string

	// Paths are JSON paths into a message: "$.params.arguments.password", "$..ssn", "$.result.items[*].card".
	Paths []string
}

// A redactor is a Redaction made ready. Nil hides nothing.
type redactor struct {
	keys   []string
	values []string
	forms  []string // the values, and how they look escaped in JSON
	paths  [][]string

	mu    sync.Mutex // guards known
	known map[string]bool
}

// maxKnown bounds the names that a redactor remembers its verdict of.
const maxKnown = 4096

func (r Redaction) compile() (*redactor, error) {
	if r.Off {
		return nil, nil
	}
	out := &redactor{keys: r.Keys, known: make(map[string]bool)}
	if r.Keys == nil {
		out.keys = DefaultKeys
	}
	out.keys = slices.Clone(out.keys)
	for i, k := range out.keys {
		out.keys[i] = foldKey(k)
	}
	for _, v := range r.Values {
		if len(v) < 4 {
			continue
		}
		out.values = append(out.values, v)
		quoted := string(appendString(nil, v))
		out.forms = append(out.forms, v)
		if inner := quoted[1 : len(quoted)-1]; inner != v {
			out.forms = append(out.forms, inner)
		}
		if escaped := url.QueryEscape(v); escaped != v {
			out.forms = append(out.forms, escaped)
		}
	}
	for _, p := range r.Paths {
		steps, err := parsePath(p)
		if err != nil {
			return nil, err
		}
		out.paths = append(out.paths, steps)
	}
	return out, nil
}

// foldKey makes names comparable: api_key, API-Key and apiKey are one.
func foldKey(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

func (r *redactor) hidesKey(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hidden, ok := r.known[name]; ok {
		return hidden
	}
	folded := foldKey(name)
	hidden := slices.ContainsFunc(r.keys, func(k string) bool {
		return glob(k, folded)
	})
	if len(r.known) < maxKnown && len(name) <= 64 {
		r.known[strings.Clone(name)] = hidden
	}
	return hidden
}

// hidesName is hidesKey for a name in a payload, which is nearly always a known one.
func (r *redactor) hidesName(name []byte) bool {
	r.mu.Lock()
	hidden, ok := r.known[string(name)]
	r.mu.Unlock()
	return hidden || !ok && r.hidesKey(string(name))
}

// parsePath reads the part of JSONPath (RFC 9535) that names places: $, .name, ['name'], [0], *, [*], and .. before a name.
func parsePath(p string) ([]string, error) {
	rest, ok := strings.CutPrefix(p, "$")
	if !ok {
		return nil, fmt.Errorf("capture: the path %q does not begin with $", p)
	}
	var steps []string
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, ".."):
			steps = append(steps, "..")
			rest = rest[1:]
			if strings.HasPrefix(rest, ".[") {
				rest = rest[1:]
			}
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return nil, fmt.Errorf("capture: the path %q has an empty step", p)
			}
			steps = append(steps, rest[1:1+end])
			rest = rest[1+end:]
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			if end < 2 {
				return nil, fmt.Errorf("capture: the path %q has a bracket that is not closed", p)
			}
			steps = append(steps, strings.Trim(rest[1:end], `'"`))
			rest = rest[end+1:]
		default:
			return nil, fmt.Errorf("capture: the path %q does not go on at %q", p, rest)
		}
	}
	if len(steps) == 0 || steps[len(steps)-1] == ".." {
		return nil, fmt.Errorf("capture: the path %q names nothing", p)
	}
	return steps, nil
}

// matchPath reports whether the place at is one that steps name.
func matchPath(steps, at []string) bool {
	if len(steps) == 0 {
		return len(at) == 0
	}
	if steps[0] == ".." {
		for i := range at {
			if matchPath(steps[1:], at[i:]) {
				return true
			}
		}
		return false
	}
	return len(at) > 0 && (steps[0] == "*" || steps[0] == at[0]) && matchPath(steps[1:], at[1:])
}

// event takes the secrets out of e. Data is replaced, never changed in place.
func (r *redactor) event(e *Event) {
	if r == nil {
		return
	}
	before := len(e.Data)
	e.Data = r.payload(e.Data)
	e.Size += len(e.Data) - before
	e.Text = r.text(e.Text)
	if e.URL != "" {
		e.URL = r.url(e.URL)
	}
	if len(e.Header) > 0 {
		e.Header = r.header(e.Header)
	}
	for i := 0; i+1 < len(e.fields); i += 2 { // the Recorder's own
		e.fields[i+1] = r.field(e.fields[i], e.fields[i+1])
	}
	if e.Wire != nil {
		w := *e.Wire
		w.Target, w.Title = r.url(w.Target), r.text(w.Title)
		e.Wire = &w
	}
}

func (r *redactor) text(s string) string {
	for _, v := range r.forms {
		if strings.Contains(s, v) {
			s = strings.ReplaceAll(s, v, Hidden)
		}
	}
	return s
}

// url hides the password of the user info and what stands in the query under a hidden key.
func (r *redactor) url(s string) string {
	s = r.text(s)
	if head, rest, ok := strings.Cut(s, "://"); ok {
		if at := strings.IndexByte(rest, '@'); at >= 0 && !strings.ContainsAny(rest[:at], "/?# ") {
			s = head + "://" + Hidden + rest[at:]
		}
	}
	head, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, has := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil && has && r.hidesKey(plain) {
			parts[i] = name + "=" + Hidden
		}
	}
	return head + "?" + strings.Join(parts, "&")
}

func (r *redactor) header(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = r.field(name, v)
		}
		out[name] = values
	}
	return out
}

// field is the value of a header as it may be kept. Of a token, the scheme stays.
func (r *redactor) field(name, value string) string {
	if !r.hidesKey(name) {
		return r.text(value)
	}
	if scheme, _, ok := strings.Cut(value, " "); ok && strings.EqualFold(foldKey(name), "authorization") {
		return scheme + " " + Hidden
	}
	return Hidden
}

// payload returns data without its secrets: data itself if there were none.
func (r *redactor) payload(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	out := r.members(data)
	for _, v := range r.forms {
		if bytes.Contains(out, []byte(v)) {
			out = bytes.ReplaceAll(out, []byte(v), []byte(Hidden))
		}
	}
	return out
}

// members hides by name and by path. It walks over the tokens once and copies nothing until it finds something.
func (r *redactor) members(data []byte) []byte {
	if len(r.keys) == 0 && len(r.paths) == 0 || !r.mayHold(data) {
		return data
	}
	var out []byte
	done := 0 // so much of data is in out
	hide := func(from, to int) {
		out = append(out, data[done:from]...)
		out = append(append(append(out, '"'), Hidden...), '"')
		done = to
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), lenient)
	var at []string // names and indexes on the way here
	var index []int // -1 for an object
	for {
		// Where we are decides what the next token is: a name, or a value.
		depth := len(index)
		inObject := depth > 0 && index[depth-1] < 0
		kind := dec.PeekKind()
		if kind == 0 {
			return append(out, data[done:]...) // the end, or no JSON from here on
		}
		if kind == '}' || kind == ']' {
			if _, err := dec.ReadToken(); err != nil {
				return append(out, data[done:]...)
			}
			index = index[:depth-1]
			at = at[:max(len(at)-1, 0)]
			continue
		}
		if inObject {
			tok, err := dec.ReadToken()
			if err != nil {
				return append(out, data[done:]...)
			}
			at = append(at, tok.String())
		} else if depth > 0 {
			at = append(at, strconv.Itoa(index[depth-1]))
			index[depth-1]++
		}
		if len(at) > 0 && r.hides(at, inObject, dec.PeekKind()) {
			value, err := dec.ReadValue()
			if err != nil {
				return append(out, data[done:]...)
			}
			end := int(dec.InputOffset())
			hide(end-len(value), end)
			at = at[:len(at)-1]
			continue
		}
		switch dec.PeekKind() {
		case '{':
			index = append(index, -1)
		case '[':
			index = append(index, 0)
		default:
			if len(at) > 0 {
				at = at[:len(at)-1]
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return append(out, data[done:]...)
		}
	}
}

// mayHold is a quick look whether there can be anything to hide: most payloads have nothing.
func (r *redactor) mayHold(data []byte) bool {
	if len(r.paths) > 0 || bytes.IndexByte(data, '\\') >= 0 {
		return true
	}
	for rest := data; ; {
		i := bytes.Index(rest, []byte(`":`))
		if i < 0 {
			return bytes.Contains(rest, []byte(`" `)) || bytes.Contains(data, []byte(`" :`))
		}
		start := bytes.LastIndexByte(rest[:i], '"')
		if start >= 0 && r.hidesName(rest[start+1:i]) {
			return true
		}
		rest = rest[i+2:]
	}
}

func (r *redactor) hides(at []string, member bool, kind jsontext.Kind) bool {
	// A secret is a text or a number: an object called "token" is looked into.
	if member && kind != '{' && kind != '[' && kind != 'n' && kind != 't' && kind != 'f' && r.hidesKey(at[len(at)-1]) {
		return true
	}
	place := at
	for _, steps := range r.paths {
		if matchPath(steps, place) {
			return true
		}
		// A batch: the path counts from the member.
		if len(place) > 1 && place[0] != "" && place[0][0] >= '0' && place[0][0] <= '9' && matchPath(steps, place[1:]) {
			return true
		}
	}
	return false
}
