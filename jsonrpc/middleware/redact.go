package middleware

import (
	"bytes"
	"log/slog"
	"math"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Redacted is what stands in place of a secret.
const Redacted = "[redacted]"

// A Redactor takes secrets out of JSON before people see it. The zero value is ready for use: it hides
//
//   - the values of members whose name, in any case, is authorization or cookie or holds token, secret, password or key;
//   - user and password in URLs;
//   - strings that are positional parameters themselves, since no name tells what they are.
//
// It is for logs, not for access control: a secret in free text under an innocent name stays, unless Secrets has it.
type Redactor struct {
	// Names are more parts of member names to hide the values of, in any case.
	Names []string

	// Secrets are literal texts to hide in strings and member names, also inside of longer ones. Empty ones are ignored.
	Secrets []string
}

var (
	wholeNames = []string{"authorization", "cookie", "set-cookie", "proxy-authorization"}
	namesWith  = []string{"token", "secret", "password", "passwd", "key"}
	userInfo   = regexp.MustCompile(`://[^/?#\s"@]+@`)
)

// Text returns params, or any JSON value, without its secrets. Of text that is no JSON nothing is shown.
func (r *Redactor) Text(params jsonrpc.Raw) string {
	return r.text(params, math.MaxInt64)
}

// text is Text that stops after about limit bytes.
func (r *Redactor) text(params jsonrpc.Raw, limit int64) string {
	if len(params) == 0 {
		return ""
	}
	out, ok := r.rewrite(params, limit)
	if !ok {
		return "[not JSON]"
	}
	return out
}

// Value defers [Redactor.Text] until a log handler wants it: slog.Any("params", r.Value(req.Params)). The text is copied, so that it
// may be logged after the handler has returned.
func (r *Redactor) Value(params jsonrpc.Raw) slog.LogValuer { return redacted{r, params.Clone()} }

type redacted struct {
	r      *Redactor
	params jsonrpc.Raw
}

func (v redacted) LogValue() slog.Value { return slog.StringValue(v.r.Text(v.params)) }

// rewrite copies the tokens of text, with secrets replaced. Behind limit it closes what is open.
func (r *Redactor) rewrite(text jsonrpc.Raw, limit int64) (string, bool) {
	lax := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	in := jsontext.NewDecoder(bytes.NewReader(text), lax...)
	var buf bytes.Buffer
	out := jsontext.NewEncoder(&buf, lax...)
	for out.OutputOffset() <= limit {
		kind, length := in.StackIndex(in.StackDepth())
		isName := kind == '{' && length%2 == 0
		positional := kind == '[' && in.StackDepth() == 1
		token, err := in.ReadToken()
		if err != nil {
			return "", false
		}
		hide := isName && token.Kind() == '"' && r.hides(token.String())
		if token.Kind() == '"' {
			value := r.literal(token.String())
			if positional {
				value = Redacted
			}
			token = jsontext.String(value)
		}
		if out.WriteToken(token) != nil {
			return "", false
		}
		if hide {
			if in.SkipValue() != nil || out.WriteToken(jsontext.String(Redacted)) != nil {
				return "", false
			}
		}
		if in.StackDepth() == 0 {
			return strings.TrimSuffix(buf.String(), "\n"), true
		}
	}
	for out.StackDepth() > 0 {
		end := jsontext.EndArray
		if kind, length := out.StackIndex(out.StackDepth()); kind == '{' {
			if end = jsontext.EndObject; length%2 == 1 {
				end = jsontext.Null // a name waits for its value
			}
		}
		if out.WriteToken(end) != nil {
			return "", false
		}
	}
	return strings.TrimSuffix(buf.String(), "\n"), true
}

// hides reports whether the member called name holds a secret.
func (r *Redactor) hides(name string) bool {
	name = strings.ToLower(name)
	for _, whole := range wholeNames {
		if name == whole {
			return true
		}
	}
	for _, part := range namesWith {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, part := range r.Names {
		if part != "" && strings.Contains(name, strings.ToLower(part)) {
			return true
		}
	}
	return false
}

// literal hides known secrets and the user information of URLs in one string.
func (r *Redactor) literal(text string) string {
	for _, secret := range r.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, Redacted)
		}
	}
	return userInfo.ReplaceAllString(text, "://"+Redacted+"@")
}
