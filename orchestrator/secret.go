package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/config"
)

// A source is the file from which a member was read. It is used to expand variables and to report
// positions.
type source struct {
	file      string
	positions map[string]Position
}

// wrong returns the error for an invalid value of a member.
func (s *source) wrong(path string, err error) *PlanError {
	pos, known := s.positions[path]
	for up := path; !known && up != ""; pos, known = s.positions[up] {
		up = up[:max(strings.LastIndexAny(up, ".["), 0)]
	}
	return &PlanError{File: s.file, Problems: []Problem{{Position: pos, Path: path, Text: err.Error()}}}
}

// A resolver expands the variables of members that were read from files.
type resolver struct {
	o       *DialOptions
	secrets []string
}

// resolve returns members ready to dial: with variables expanded and with the credentials of the
// options.
func (o *DialOptions) resolve(ctx context.Context, members map[string]Member) (map[string]Member, error) {
	r := &resolver{o: o}
	out := maps.Clone(members)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if m.from != nil {
			if err := r.member(&m, "team."+name); err != nil {
				return nil, err
			}
		}
		if strings.HasPrefix(m.Target, "@") {
			if err := r.named(ctx, &m, "team."+name); err != nil {
				return nil, err
			}
		}
		if token, ok := o.Tokens[name]; ok {
			m.Token = token
			r.secret(token)
		}
		out[name] = m
	}
	if o.Secret != nil {
		for _, s := range r.secrets {
			o.Secret(s)
		}
	}
	return out, nil
}

// named replaces a member whose target is a name by what the name stands for.
func (r *resolver) named(ctx context.Context, m *Member, path string) error {
	wrong := func(text string) error {
		if m.from == nil {
			return errors.New("orchestrator: " + path + ": " + text)
		}
		return m.from.wrong(path+".target", errors.New(text))
	}
	if r.o.Named == nil {
		return wrong(m.Target + " is a name, and names are not looked up here")
	}
	found, err := r.o.Named(ctx, m.Target)
	switch {
	case err != nil:
		return err
	case found.Target == "" && (m.Token != "" || m.Headers != nil):
		return wrong(m.Target + " is a program; token and headers are only for an address")
	}
	headers := maps.Clone(found.Headers)
	if headers == nil {
		headers = m.Headers
	} else if maps.Copy(headers, m.Headers); m.Token != "" {
		maps.DeleteFunc(headers, func(name, _ string) bool { return strings.EqualFold(name, "Authorization") })
	}
	m.Target, m.Command, m.Env, m.Dir, m.Headers = found.Target, found.Command, found.Env, found.Dir, headers
	m.Token = cmp.Or(m.Token, found.Token)
	return nil
}

func (r *resolver) member(m *Member, path string) (err error) {
	fill := func(at string, text *string, secret bool) {
		if err != nil {
			return
		}
		value, secrets, wrong := config.Expand(*text, &config.ExpandOptions{Lookup: r.o.Lookup, Dir: filepath.Dir(m.from.file)})
		if wrong != nil {
			err = m.from.wrong(at, wrong)
			return
		}
		*text, r.secrets = value, append(r.secrets, secrets...)
		if secret {
			r.secret(value)
		}
	}
	fill(path+".target", &m.Target, false)
	fill(path+".token", &m.Token, true)
	headers := m.Headers
	m.Headers = maps.Clone(headers)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		fill(path+".headers."+name, &value, true)
		m.Headers[name] = value
	}
	m.Env = slices.Clone(m.Env)
	for i := range m.Env {
		name, value, _ := strings.Cut(m.Env[i], "=")
		fill(fmt.Sprintf("%s.env[%d]", path, i), &value, config.IsSecret(name))
		m.Env[i] = name + "=" + value
	}
	return err
}

// secret reports a value and, if it has a scheme as in "Bearer abc", the part after the scheme.
func (r *resolver) secret(value string) {
	if value == "" {
		return
	}
	r.secrets = append(r.secrets, value)
	if _, rest, ok := strings.Cut(value, " "); ok && rest != "" {
		r.secrets = append(r.secrets, rest)
	}
}

// credentials returns the credentials of a member as one text. Members share a connection only if
// it is equal.
func (m Member) credentials() string {
	text := m.Token
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		text += "\x00" + http.CanonicalHeaderKey(name) + "\x00" + m.Headers[name]
	}
	return text
}
