package capture

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/glob"
)

// A Filter selects rows. A row must match all terms. The zero Filter matches every row.
type Filter struct {
	Terms []Term
}

// A Term is one condition of a [Filter].
type Term struct {
	Key    string   // "" for a text search
	Values []string // one of them must match
	Not    bool

	word  string    // as typed
	at    time.Time // the start time of since
	low   time.Duration
	high  time.Duration
	exact bool // low is exclusive
	below bool // high is exclusive
}

// FilterKeys are the keys of terms, in display order.
var FilterKeys = []string{"method", "id", "dir", "kind", "status", "tool", "target", "session", "trace", "since", "duration", "http", "conn", "rule"}

// ParseFilter parses terms separated by blanks. A term is key:value, or a text that the message or
// its row must contain, ignoring case. A "-" prefix negates a term, quotes preserve blanks, a comma
// means "or", and "*" matches any characters.
//
//	method:tools/*  id:7  id:"s-1"  dir:out  kind:request,error  status:waiting  tool:book-table
//	target:@table  session:8904…  trace:4bf9…  since:5m  since:12:04:30  duration:>500ms  http:9
//	rule:id-in-use  -method:ping  "Zur Linde"
//
// status is ok, error, waiting, cancelled, unanswered, broken (a rule is broken), doubt, clean (no
// findings), or a code. A result has the same duration as the request that it answers. An unknown
// key is an error. Quote a text that contains a colon. now is the reference time of since.
func ParseFilter(text string, now time.Time) (*Filter, error) {
	f := &Filter{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		var t Term
		word, quoted, tail := nextWord(rest)
		rest, t.word = tail, word
		if !quoted && len(word) > 1 && word[0] == '-' {
			t.Not = true
			word = word[1:]
		}
		if inner, ok := unquote(word); ok {
			if inner != "" {
				t.Values = []string{inner}
				f.Terms = append(f.Terms, t)
			}
			continue
		}
		key, value, keyed := strings.Cut(word, ":")
		if !keyed {
			t.Values = []string{word}
			f.Terms = append(f.Terms, t)
			continue
		}
		t.Key = strings.ToLower(key)
		if !slices.Contains(FilterKeys, t.Key) {
			return nil, fmt.Errorf("unknown filter %q; the filters are %s, and text in quotes", key+":", strings.Join(FilterKeys, ", "))
		}
		if value == "" {
			return nil, fmt.Errorf("%s: needs a value", t.Key)
		}
		t.Values = splitValues(value)
		if err := t.compile(now); err != nil {
			return nil, err
		}
		f.Terms = append(f.Terms, t)
	}
	return f, nil
}

// nextWord cuts the first word off text. Blanks inside quotes do not end it.
func nextWord(text string) (word string, quoted bool, rest string) {
	open := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && open:
			i++
		case c == '"':
			open = !open
		case (c == ' ' || c == '\t' || c == '\n') && !open:
			return text[:i], text[0] == '"', text[i:]
		}
	}
	return text, text[0] == '"', ""
}

func unquote(word string) (string, bool) {
	if word == "" || word[0] != '"' {
		return "", false
	}
	inner := strings.TrimSuffix(word[1:], `"`)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner), true
}

// splitValues splits at commas outside of quotes. An ID keeps its quotes, because 1 and "1" are
// different IDs.
func splitValues(value string) []string {
	var out []string
	open, start := false, 0
	for i := range len(value) {
		switch value[i] {
		case '"':
			open = !open
		case ',':
			if !open {
				out = append(out, value[start:i])
				start = i + 1
			}
		}
	}
	return append(out, value[start:])
}

func (t *Term) compile(now time.Time) error {
	for i, v := range t.Values {
		if inner, ok := unquote(v); ok && t.Key != "id" {
			t.Values[i] = inner
		}
	}
	switch t.Key {
	case "since":
		return t.since(now)
	case "duration":
		return t.duration()
	case "dir":
		for i, v := range t.Values {
			switch strings.ToLower(v) {
			case "out", "client", "->", "→":
				t.Values[i] = "out"
			case "in", "server", "<-", "←":
				t.Values[i] = "in"
			default:
				return fmt.Errorf("dir: must be out or in, not %q", v)
			}
		}
	}
	return nil
}

func (t *Term) since(now time.Time) error {
	v := t.Values[0]
	if d, err := time.ParseDuration(v); err == nil {
		t.at = now.Add(-d)
		return nil
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		t.at = at
		return nil
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if at, err := time.Parse(form, v); err == nil {
			y, m, d := now.Date()
			t.at = time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), now.Location())
			return nil
		}
	}
	return fmt.Errorf("since: must be a duration (5m), a time (12:04:30) or a date with time (2026-11-20T12:04:30Z), not %q", v)
}

func (t *Term) duration() error {
	for _, v := range t.Values {
		sign := strings.TrimRight(v[:min(2, len(v))], "0123456789.")
		d, err := time.ParseDuration(strings.TrimPrefix(v, sign))
		if err != nil {
			return fmt.Errorf("duration: must be like >500ms, not %q", v)
		}
		switch sign {
		case ">", ">=", "":
			t.low, t.exact = d, sign == ">"
		case "<", "<=":
			t.high, t.below = d, sign == "<"
		default:
			return fmt.Errorf("duration: must be like >500ms, not %q", v)
		}
	}
	return nil
}

// String returns the filter in the syntax of ParseFilter.
func (f *Filter) String() string {
	var words []string
	for _, t := range f.Terms {
		if t.word != "" {
			words = append(words, t.word)
			continue
		}
		word := strings.Join(t.Values, ",")
		if t.Key == "" {
			word = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
		} else {
			values := slices.Clone(t.Values)
			for i, v := range values {
				if strings.ContainsAny(v, " \t\n,\"") && t.Key != "id" {
					values[i] = `"` + v + `"`
				}
			}
			word = t.Key + ":" + strings.Join(values, ",")
		}
		if t.Not {
			word = "-" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// Match reports whether all terms match a row. payload is called at most once, and only for terms
// that search for text.
func (f *Filter) Match(r *Row, payload func() []byte) bool {
	var text []byte
	read := false
	for i := range f.Terms {
		t := &f.Terms[i]
		if t.Key == "" {
			if !read && payload != nil {
				text, read = payload(), true
			}
			if t.text(r, text) == t.Not {
				return false
			}
			continue
		}
		if t.matches(r) == t.Not {
			return false
		}
	}
	return true
}

func (t *Term) text(r *Row, payload []byte) bool {
	for _, v := range t.Values {
		for _, s := range []string{r.Method, r.Name, r.Brief} {
			if strings.Contains(strings.ToLower(s), strings.ToLower(v)) {
				return true
			}
		}
		if bytes.Contains(bytes.ToLower(payload), bytes.ToLower([]byte(v))) {
			return true
		}
	}
	return false
}

func (t *Term) matches(r *Row) bool {
	switch t.Key {
	case "method":
		return t.any(r.Method)
	case "tool":
		return r.Kind != RowHTTP && t.any(r.Name)
	case "target":
		return t.any(r.Target)
	case "session":
		return t.starts(r.Session)
	case "trace":
		return t.starts(r.Trace)
	case "kind":
		return t.any(r.Kind) || (r.Kind == RowResult || r.Kind == RowError) && slices.Contains(t.Values, "response")
	case "id":
		return r.ID != "" && slices.ContainsFunc(t.Values, func(v string) bool { return v == r.ID || `"`+v+`"` == r.ID })
	case "dir":
		return slices.Contains(t.Values, r.Dir.String())
	case "http":
		return slices.Contains(t.Values, strconv.FormatInt(r.Exchange, 10))
	case "conn":
		return slices.Contains(t.Values, strconv.FormatInt(r.Conn, 10))
	case "since":
		return !r.Time.Before(t.at)
	case "duration":
		return r.Took > 0 && (t.low == 0 || r.Took > t.low || r.Took == t.low && !t.exact) && (t.high == 0 || r.Took < t.high || r.Took == t.high && !t.below)
	case "rule":
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return t.any(f.Rule) })
	case "status":
		return slices.ContainsFunc(t.Values, func(v string) bool { return status(r, strings.ToLower(v)) })
	}
	return false
}

func status(r *Row, want string) bool {
	switch want {
	case "ok", "done", "result":
		return r.State == StateDone || r.Kind == RowResult
	case "error", "failed":
		return r.State == StateFailed || r.Kind == RowError
	case StateWaiting, StateCancelled, StateUnanswered:
		return r.State == want
	case "broken", "bad":
		return r.Broken()
	case "doubt":
		return len(r.Findings) > 0 && !r.Broken()
	case "clean":
		return len(r.Findings) == 0
	case "findings":
		return len(r.Findings) > 0
	}
	return r.HasCode && strconv.FormatInt(r.Code, 10) == want
}

// any reports whether a value matches text, ignoring case. "*" in a value matches any characters.
func (t *Term) any(text string) bool {
	return slices.ContainsFunc(t.Values, func(v string) bool {
		if strings.EqualFold(v, text) {
			return true
		}
		return strings.Contains(v, "*") && glob.Match(strings.ToLower(v), strings.ToLower(text))
	})
}

// starts reports whether text starts with a value, because people type only a part of a session ID.
func (t *Term) starts(text string) bool {
	return text != "" && slices.ContainsFunc(t.Values, func(v string) bool {
		return strings.HasPrefix(strings.ToLower(text), strings.ToLower(strings.TrimRight(v, "*")))
	})
}
