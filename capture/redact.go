package capture

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/secret"
)

// Hidden replaces a secret.
const Hidden = secret.Hidden

// DefaultKeys are names whose values are usually secrets: of headers, JSON members, query
// parameters and variables. "*" matches any characters. Case, "-", "_", "." and spaces are ignored.
// A name that starts with "!" is an exception, such as MCP's progressToken. The last matching name
// decides.
var DefaultKeys = secret.Names

// A Redaction defines what is removed from a recording or an export. The value remains valid JSON:
// a secret is replaced by the string [Hidden]. The zero Redaction redacts by DefaultKeys.
//
// The whole value of a member with such a name is hidden, also inside an array or an object, except
// true, false and null. The same applies to {"name": NAME, "value": …}, to a flag and the word
// after it in a list, to URL queries, forms, JSON in strings, and lines such as NAME=VALUE. Numbers
// of members such as inputTokens are counts and are preserved. The params of rpc.authenticate are
// hidden completely. A header that names a session, such as Mcp-Session-Id, is replaced by a
// pseudonym that is the same for the same session. Unless Keys is an empty list, secrets without
// such a name are hidden as well: tokens of known shapes (ghp_…, AKIA…, JWT), passwords in the
// arguments of commands such as "curl -u me:x", cookies, parts of multipart forms, private keys in
// PEM, and the user information of URLs. Text with entities of XML, percent encoding or JSON inside
// strings is examined as if it were not encoded.
type Redaction struct {
	// Off disables redaction.
	Off bool

	// Keys are names, as in DefaultKeys. If nil, DefaultKeys is used; an empty list means no names.
	Keys []string

	// Values are texts that are hidden wherever they occur, such as a token from a configuration,
	// also in their JSON, URL and Base64 encodings. Values shorter than 4 bytes are ignored.
	// [Recorder.Hide] adds more later.
	Values []string

	// Paths are JSON paths into a message: "$.params.arguments.password", "$..ssn",
	// "$.result.items[*].card".
	Paths []string
}

// A redactor is a prepared Redaction. A nil redactor hides nothing.
type redactor struct {
	set   *secret.Set
	paths [][]string
}

func (r Redaction) compile() (*redactor, error) {
	if r.Off {
		return nil, nil
	}
	keys := r.Keys
	if keys == nil {
		keys = DefaultKeys
	}
	out := &redactor{set: secret.New(keys)}
	out.set.Add(r.Values...)
	for _, p := range r.Paths {
		steps, err := parsePath(p)
		if err != nil {
			return nil, err
		}
		out.paths = append(out.paths, steps)
	}
	return out, nil
}

// parsePath parses the subset of JSONPath (RFC 9535) that names locations: $, .name, ['name'], [0],
// *, [*], and .. before a name.
func parsePath(p string) ([]string, error) {
	rest, ok := strings.CutPrefix(p, "$")
	if !ok {
		return nil, fmt.Errorf("capture: the path %q must start with $", p)
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
				return nil, fmt.Errorf("capture: the path %q has an unclosed bracket", p)
			}
			steps = append(steps, strings.Trim(rest[1:end], `'"`))
			rest = rest[end+1:]
		default:
			return nil, fmt.Errorf("capture: the path %q is invalid at %q", p, rest)
		}
	}
	if len(steps) == 0 || steps[len(steps)-1] == ".." {
		return nil, fmt.Errorf("capture: the path %q selects nothing", p)
	}
	return steps, nil
}

// matchPath reports whether steps match the location at.
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

// event removes the secrets from e. Data is replaced, never changed in place.
func (r *redactor) event(e *Event) {
	if r == nil {
		return
	}
	before := len(e.Data)
	e.Data = r.payload(e.Data)
	e.Size += len(e.Data) - before
	e.Text = r.set.Text(e.Text)
	e.EventID = r.set.Text(e.EventID)
	e.URL = r.set.Text(e.URL)
	e.Method = r.set.Text(e.Method)
	if len(e.Header) > 0 {
		e.Header = r.header(e.Header)
	}
	for i := 0; i+1 < len(e.fields); i += 2 { // owned by the Recorder
		e.fields[i+1] = r.set.Field(e.fields[i], e.fields[i+1])
	}
	if e.Wire != nil {
		w := *e.Wire
		w.Target, w.Title, w.Peer = r.set.Text(w.Target), r.set.Text(w.Title), r.set.Text(w.Peer)
		e.Wire = &w
	}
}

func (r *redactor) header(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = r.set.Field(name, v)
		}
		out[name] = values
	}
	return out
}

// payload returns data without its secrets, or data itself if it has none.
func (r *redactor) payload(data []byte) []byte {
	if len(r.paths) == 0 {
		return r.set.JSON(data)
	}
	return r.set.Without(data, r.named)
}

// named reports whether a location matches one of the paths.
func (r *redactor) named(at []string) bool {
	for _, steps := range r.paths {
		if matchPath(steps, at) {
			return true
		}
		// In a batch, the path starts at the member.
		if len(at) > 1 && at[0] != "" && at[0][0] >= '0' && at[0][0] <= '9' && matchPath(steps, at[1:]) {
			return true
		}
	}
	return false
}
