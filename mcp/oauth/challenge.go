package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Schemes of the Authorization and WWW-Authenticate headers.
const (
	SchemeBearer = "Bearer" // RFC 6750
	SchemeDPoP   = "DPoP"   // RFC 9449, section 7.1
)

// A Challenge is one entry of a WWW-Authenticate header (RFC 9110, section 11.6.1).
type Challenge struct {
	Scheme string
	Token  string            // what stands behind the scheme in place of parameters (token68); "" for most schemes
	Params map[string]string // names in lower case
}

// MaxChallenge bounds all WWW-Authenticate headers of one answer together, in bytes.
const MaxChallenge = 16 << 10

var errChallenge = errors.New("oauth: WWW-Authenticate cannot be read")

// ParseChallenges reads the WWW-Authenticate headers of an answer, in their order. A header that breaks the grammar, or names a
// parameter twice, yields what stood before the fault and an error; those after it are still read.
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

// A scanner goes over one header.
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

// rest reads what belongs to a scheme. The comma also separates challenges: a name without "=" behind a comma begins the next one.
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
				return s.fault("neither a parameter nor a token behind the scheme")
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
			return s.fault("a parameter twice")
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
			return s.fault("no comma behind a parameter")
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

// sees reports whether one of chars is next.
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
	for s.at < len(s.text) && isTokenChar(s.text[s.at]) {
		s.at++
	}
	return s.text[start:s.at]
}

// token68 reads a text that stands alone behind its scheme.
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

func isTokenChar(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }

// String returns the challenge as it goes into a header, parameters in the order of their names, values quoted. Bytes that no header
// may carry are left out.
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

// find returns the challenge that says most about tokens of OAuth: the first with the scheme Bearer or DPoP, one that names metadata
// before one that does not.
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
