package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// Schemes of the Authorization and WWW-Authenticate headers.
const (
	SchemeBearer = "Bearer" // RFC 6750
	SchemeDPoP   = "DPoP"   // RFC 9449, section 7.1
)

// A Challenge is one entry of a WWW-Authenticate header (RFC 9110, section 11.6.1).
type Challenge struct {
	Scheme string
	// Token is the token68 text after the scheme, in place of parameters. It is empty for most
	// schemes.
	Token  string
	Params map[string]string // by lower-case name
}

// MaxChallenge bounds all WWW-Authenticate headers of one response together, in bytes.
const MaxChallenge = 16 << 10

var errChallenge = errors.New("oauth: WWW-Authenticate is not valid")

// ParseChallenges parses the WWW-Authenticate headers of a response, in order. For a header that
// violates the grammar or repeats a parameter, it returns the challenges before the fault and an
// error; later headers are still parsed.
func ParseChallenges(headers []string) ([]Challenge, error) {
	var all []Challenge
	var failed error
	size := 0
	for _, header := range headers {
		if size += len(header); size > MaxChallenge {
			return all, fmt.Errorf("%w: longer than %d bytes", errChallenge, MaxChallenge)
		}
		s := scanner{text: header}
		if err := s.challenges(&all); err != nil && failed == nil {
			failed = err
		}
	}
	return all, failed
}

// A scanner reads one header.
type scanner struct {
	text string
	at   int
}

func (s *scanner) challenges(all *[]Challenge) error {
	for {
		s.skip(" \t,")
		if s.at == len(s.text) {
			return nil
		}
		scheme := s.token()
		if scheme == "" {
			return s.fault("no scheme")
		}
		c := Challenge{Scheme: scheme}
		err := s.rest(&c)
		if err != nil {
			return err
		}
		*all = append(*all, c)
	}
}

// rest reads the token68 or the parameters of a scheme. A comma also separates challenges: a name
// without "=" after a comma starts the next challenge.
func (s *scanner) rest(c *Challenge) error {
	if !s.sees(" \t") {
		return nil
	}
	if s.skip(" \t"); s.at == len(s.text) || s.sees(",") {
		return nil
	}
	if token, ok := s.token68(); ok {
		c.Token = token
		return nil
	}
	for first := true; ; first = false {
		start := s.at
		name := s.token()
		s.skip(" \t")
		if name == "" || !s.sees("=") {
			if first {
				return s.fault("neither a parameter nor a token after the scheme")
			}
			s.at = start
			return nil
		}
		s.at++
		value, ok := s.value()
		if !ok {
			return s.fault("no value")
		}
		name = strings.ToLower(name)
		if _, twice := c.Params[name]; twice {
			return s.fault("a duplicate parameter")
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
		s.skip(" \t")
		if s.at == len(s.text) {
			return nil
		}
		if !s.sees(",") {
			return s.fault("no comma after a parameter")
		}
		s.skip(" \t,")
		if s.at == len(s.text) {
			return nil
		}
	}
}

func (s *scanner) fault(what string) error {
	return fmt.Errorf("%w: %s at byte %d", errChallenge, what, s.at)
}

// sees reports whether the next byte is one of chars.
func (s *scanner) sees(chars string) bool {
	return s.at < len(s.text) && strings.IndexByte(chars, s.text[s.at]) >= 0
}

func (s *scanner) skip(chars string) {
	for s.at < len(s.text) && strings.IndexByte(chars, s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) token() string {
	start := s.at
	for s.at < len(s.text) && httptoken.Char(s.text[s.at]) {
		s.at++
	}
	return s.text[start:s.at]
}

// token68 reads a token68 that follows its scheme.
func (s *scanner) token68() (string, bool) {
	end := s.at
	for end < len(s.text) && (isAlnum(s.text[end]) || strings.IndexByte("-._~+/", s.text[end]) >= 0) {
		end++
	}
	for end < len(s.text) && s.text[end] == '=' {
		end++
	}
	behind := strings.TrimLeft(s.text[end:], " \t")
	if end == s.at || behind != "" && behind[0] != ',' {
		return "", false
	}
	text := s.text[s.at:end]
	s.at = end
	return text, true
}

// value reads a token or a quoted string.
func (s *scanner) value() (string, bool) {
	s.skip(" \t")
	if s.at == len(s.text) || s.text[s.at] != '"' {
		text := s.token()
		return text, text != ""
	}
	var b strings.Builder
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '"':
			s.at++
			return b.String(), true
		case '\\':
			if s.at++; s.at == len(s.text) {
				return "", false
			}
			b.WriteByte(s.text[s.at])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// String returns the challenge as a header value, with parameters sorted by name and values quoted.
// It omits bytes that are not allowed in a header.
func (c Challenge) String() string {
	var b strings.Builder
	b.WriteString(c.Scheme)
	if c.Token != "" {
		b.WriteString(" " + c.Token)
		return b.String()
	}
	names := make([]string, 0, len(c.Params))
	for name := range c.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(" " + name + `="`)
		for _, ch := range []byte(c.Params[name]) {
			switch {
			case ch == '"' || ch == '\\':
				b.WriteByte('\\')
				b.WriteByte(ch)
			case ch == '\t' || ch >= ' ' && ch != 0x7f:
				b.WriteByte(ch)
			}
		}
		b.WriteByte('"')
	}
	return b.String()
}

// find returns the most specific OAuth challenge: the first one with the scheme Bearer or DPoP,
// preferring one that names metadata.
func find(all []Challenge) (Challenge, bool) {
	var found *Challenge
	for i := range all {
		c := &all[i]
		if !strings.EqualFold(c.Scheme, SchemeBearer) && !strings.EqualFold(c.Scheme, SchemeDPoP) {
			continue
		}
		if found == nil || found.Params["resource_metadata"] == "" && c.Params["resource_metadata"] != "" {
			found = c
		}
	}
	if found == nil {
		return Challenge{}, false
	}
	return *found, true
}
