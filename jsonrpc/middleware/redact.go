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

// Redacted replaces a secret.
const Redacted = "[redacted]"

// A Redactor removes secrets from JSON before it is shown or logged. The zero value is ready for
// use. It replaces the following:
//
//   - the values of members whose name, in any case, is authorization or cookie or contains token,
//     secret, password or key;
//   - user and password in URLs;
//   - strings that are positional parameters, because they have no name that shows what they are.
//
// A Redactor is for logs, not for access control: a secret in free text under another name is not
// removed unless it is one of Secrets.
type Redactor struct {
	// Names lists additional parts of member names, in any case, whose values are replaced.
	Names []string

	// Secrets lists literal texts to replace in strings and member names, also within longer ones.
	// Empty texts are ignored.
	Secrets []string
}

var (
	wholeNames = []string{"authorization", "cookie", "set-cookie", "proxy-authorization"}
	namesWith  = []string{"token", "secret", "password", "passwd", "key"}
	userInfo   = regexp.MustCompile(`://[^/?#\s"@]+@`)
)

// Text returns params, or any JSON value, without its secrets. Nothing of a text that is not JSON
// is returned.
func (r *Redactor) Text(params jsonrpc.Raw) string {
	return r.text(params, math.MaxInt64)
}

// text is like Text but stops after about limit bytes.
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

// Value defers [Redactor.Text] until a log handler uses the value: slog.Any("params",
// r.Value(req.Params)). It copies the text, so that it may be logged after the handler has
// returned.
func (r *Redactor) Value(params jsonrpc.Raw) slog.LogValuer { return redacted{r, params.Clone()} }

type redacted struct {
	r      *Redactor
	params jsonrpc.Raw
}

func (v redacted) LogValue() slog.Value { return slog.StringValue(v.r.Text(v.params)) }

// rewrite copies the tokens of text and replaces secrets. After limit bytes it closes the open
// objects and arrays.
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
				end = jsontext.Null // a member name needs a value
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

// literal replaces known secrets and the user information of URLs in one string.
func (r *Redactor) literal(text string) string {
	for _, secret := range r.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, Redacted)
		}
	}
	return userInfo.ReplaceAllString(text, "://"+Redacted+"@")
}
